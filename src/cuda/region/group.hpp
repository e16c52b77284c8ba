// The devices that take part in regions, and the failures of the group.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/activities.hpp"
#include "base/processes.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

// A member of a group. Regions are members.
class group_member {
 public:
  group_member() = default;
  virtual ~group_member() = default;
  group_member(const group_member&) = delete;
  group_member& operator=(const group_member&) = delete;
  group_member(group_member&&) = delete;
  group_member& operator=(group_member&&) = delete;

  // The failure that the member's devices reported, as a sentence. The text is empty if there is no
  // failure. Sets `elsewhere` if another process knows more about the failure.
  virtual std::string failure(bool& elsewhere) const = 0;
  // Ends all waits of the member's devices. A thread of the group calls this function.
  virtual void abandon() const noexcept = 0;
  // Counters that grow while streams that wait for chunks make progress. There is no value while
  // the counters are still being read.
  virtual std::optional<std::vector<counter>> progress() = 0;
  // The chunk for which a stream waited at the last call of progress(). There is no value if no
  // stream waited.
  virtual std::optional<wait_failure> late_chunk() const = 0;
  // Describes a late chunk as a sentence. `expired` says whether the wait for the chunk has passed
  // the deadline or still continues.
  virtual std::string describe(const wait_failure& late, bool expired) const = 0;
  // The calls of begin and of exchange so far: a line for each device of this process.
  virtual std::string calls() const = 0;
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
  // Whether the group has other processes.
  bool is_shared() const { return processes_ != nullptr; }
  // The number that this process uses for the GPU of any device, including devices of other
  // processes.
  int ordinal(std::uint32_t device) const { return ordinals_.at(device); }
  // The largest number of processes that share a GPU. These processes take turns on the GPU by time
  // slices.
  std::uint32_t turns() const { return turns_; }
  // The deadline of a wait. It is `turns` times the requested deadline, because a wait may last
  // until all processes have had their turns.
  double deadline_s() const { return turns_ * options_.deadline_s; }
  // The number of this process's devices that are on a GPU.
  std::uint32_t devices_on(int gpu) const;
  // The name of a device in messages.
  std::string device_name(std::uint32_t device) const;

  // Each process contributes the result of `make`. Returns the results of all processes in rank
  // order (base/agreement.hpp). In a single process, returns only the process's own result.
  std::vector<std::string> agree(const std::function<std::string()>& make) const;

  // Messages to and from the process that owns the device (base/processes.hpp).
  void send(std::uint32_t device, std::uint64_t tag, const std::string& bytes,
            const std::vector<int>& descriptors) const;
  peer_processes::message receive(std::uint32_t device, std::uint64_t tag) const;

  // Throws usage_error unless the device belongs to this process.
  void require_local(std::uint32_t device) const;
  // Throws the first failure of any member or process. After a failure, every call throws it again.
  void check() const;
  // Blocks until the stream's work has ended. A stream that waits for a chunk never times out by
  // itself. This function therefore watches all streams: if their counters do not change for the
  // group's deadline and a stream waits for a chunk, the function throws an error that names the
  // chunk. Calls `regularly` from time to time. An exception from `regularly` ends the wait.
  void synchronize(std::uint32_t device, cudaStream_t stream,
                   const std::function<void()>& regularly) const;

  // The chunk for which a stream of this process waits, as a sentence. The text is empty if no
  // stream waits, if the stream's work is in a graph, or if the devices do not answer within 200
  // ms.
  std::string waits() const;

  // Throws usage_error if several devices of this process share a GPU and the GPU has too few
  // queues for another region.
  void require_queues() const;

  // The number of the next region. It is the same on all ranks.
  std::uint32_t next_region() { return regions_++; }
  void add(group_member* member);
  void remove(group_member* member) noexcept;

 private:
  bool look(bool finally) const;
  void fail(const std::string& sentence, bool tells) const;
  std::optional<std::vector<counter>> progress() const;
  std::string late_chunk(bool expired) const;
  void show();

  group_options options_;
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;  // number of processes
  std::uint32_t turns_ = 1;
  all_gather gather_;
  std::vector<int> ordinals_;
  std::vector<std::uint32_t> local_;
  std::uint32_t regions_ = 0;
  mutable std::mutex mutex_;
  std::vector<group_member*> members_;
  // A thread that reads the members' progress holds this mutex, so that no member is removed
  // meanwhile.
  mutable std::mutex looking_;
  mutable std::string failure_;  // the first failure
  mutable std::mutex messages_;
  // `processes_` and `shown_` are declared last, because their threads use the members above.
  std::unique_ptr<peer_processes> processes_;
  std::unique_ptr<shown_activity> shown_;
};

}  // namespace interlace::cuda
