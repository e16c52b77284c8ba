// The devices that take part in regions, and what is wrong with them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

// What a group looks after: a region.
class group_member {
 public:
  group_member() = default;
  virtual ~group_member() = default;
  group_member(const group_member&) = delete;
  group_member& operator=(const group_member&) = delete;
  group_member(group_member&&) = delete;
  group_member& operator=(group_member&&) = delete;

  // What its devices reported, as a sentence; empty where nothing. `elsewhere` is set where another
  // process knows more.
  virtual std::string failure(bool& elsewhere) const = 0;
  // Ends all waits of its devices. Called by a thread of the group's.
  virtual void abandon() const noexcept = 0;
  // What grows while streams that wait for chunks get on; nullopt while it is still being read.
  virtual std::optional<std::vector<counter>> progress() = 0;
  // Which chunk one of them waits for, as a sentence, by what was read last; empty where none does.
  virtual std::string late_chunk() const = 0;
};

class group_state {
 public:
  group_state(std::vector<int> ordinals, const group_options& o);
  group_state(std::uint32_t rank, std::uint32_t size, int ordinal, all_gather gather,
              const group_options& o);
  ~group_state();
  group_state(const group_state&) = delete;
  group_state& operator=(const group_state&) = delete;
  group_state(group_state&&) = delete;
  group_state& operator=(group_state&&) = delete;

  std::uint32_t devices() const { return static_cast<std::uint32_t>(ordinals_.size()); }
  const std::vector<std::uint32_t>& local_devices() const { return local_; }
  bool is_local(std::uint32_t device) const;
  // Whether there are other processes.
  bool is_shared() const { return processes_ != nullptr; }
  // Of this process or of another: as this process numbers the GPUs.
  int ordinal(std::uint32_t device) const { return ordinals_.at(device); }
  // The most processes that have the same GPU, on which they take turns by time slice.
  std::uint32_t turns() const { return turns_; }
  // Of a wait, which may last until every turn has passed: `turns` times what was asked for.
  double deadline_s() const { return turns_ * options_.deadline_s; }
  // Devices of this process that a GPU stands for.
  std::uint32_t devices_on(int gpu) const;
  // How messages call a device.
  std::string device_name(std::uint32_t device) const;

  // What all processes bring, in the order of their ranks (base/agreement.hpp); of one process,
  // what `make` returns.
  std::vector<std::string> agree(const std::function<std::string()>& make) const;

  // Messages to and from the process of a device (base/processes.hpp).
  void send(std::uint32_t device, std::uint64_t tag, const std::string& bytes,
            const std::vector<int>& descriptors) const;
  peer_processes::message receive(std::uint32_t device, std::uint64_t tag) const;

  // Throws usage_error unless the device is of this process.
  void require_local(std::uint32_t device) const;
  // Throws the first failure of any member or process, then and from then on.
  void check() const;
  // Also reports a chunk that a stream has waited for until the deadline: that wait has none of its
  // own. `regularly` is called now and then, and ends the wait by what it throws.
  void synchronize(std::uint32_t device, cudaStream_t stream,
                   const std::function<void()>& regularly) const;

  // Throws usage_error if a GPU stands for several devices of this process and has too few queues
  // for one more region.
  void require_queues() const;

  // The number of the next region; the same on all ranks.
  std::uint32_t next_region() { return regions_++; }
  void add(group_member* member);
  void remove(group_member* member) noexcept;

 private:
  bool look(bool finally) const;
  void fail(const std::string& sentence, bool tells) const;
  std::optional<std::vector<counter>> progress() const;
  std::string late_chunk() const;

  group_options options_;
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;  // processes
  std::uint32_t turns_ = 1;
  all_gather gather_;
  std::vector<int> ordinals_;
  std::vector<std::uint32_t> local_;
  std::uint32_t regions_ = 0;
  mutable std::mutex mutex_;
  std::vector<group_member*> members_;
  mutable std::mutex looking_;   // who holds it looks at members, which stay until then
  mutable std::string failure_;  // the first
  mutable std::mutex messages_;
  // The last member: its thread uses the others.
  std::unique_ptr<peer_processes> processes_;
};

}  // namespace interlace::cuda
