// A region of a group: memory, streams, and what begin and exchange enqueue.
//
// The order that keeps replicas right is that of interlace/cuda/region/exchange.hpp, with the
// caller's stream in the place of a device's main stream: what a device does with the region in an
// epoch stands between one exchange and the next on it, and copies and agents on streams of the
// region's own start behind what the caller's stream had reached in begin or exchange and are
// joined before the exchange's barrier. Each region has barriers of its own, so that two regions
// may be exchanged on two streams at once.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/mechanism/region_mechanism.hpp"
#include "cuda/memory/share.hpp"
#include "cuda/region/group.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

class shared_region final : public group_member {
 public:
  // Empty memory: of its own.
  shared_region(std::shared_ptr<group_state> group, const region_spec& spec,
                const std::vector<region_memory>& memory);
  ~shared_region() override;
  shared_region(const shared_region&) = delete;
  shared_region& operator=(const shared_region&) = delete;
  shared_region(shared_region&&) = delete;
  shared_region& operator=(shared_region&&) = delete;

  std::string failure(bool& elsewhere) const override;
  void abandon() const noexcept override;
  std::optional<std::vector<counter>> progress() override;
  std::string late_chunk() const override;

  const kernel::region_state& state() const { return state_; }
  const std::string& label() const { return label_; }
  std::byte* front(std::uint32_t device) const;
  std::byte* back(std::uint32_t device) const;
  replicated<std::byte> view(std::uint32_t device) const;
  region_audit audit(std::uint32_t device) const { return side_of(device).audit; }
  const std::vector<kernel::chunk>& chunks(std::uint32_t device) const {
    return side_of(device).chunks;
  }
  const kernel::chunk_table& table(std::uint32_t device) const {
    return side_of(device).tracking.table;
  }

  void begin(std::uint32_t device, cudaStream_t stream);
  void exchange(std::uint32_t device, cudaStream_t stream);

 private:
  // Recorded behind what begin and exchange enqueue.
  struct watched_epoch {
    cudaEvent_t begun = nullptr;
    cudaEvent_t ended = nullptr;
  };
  // What a device of this process has.
  struct side : region_side {
    region_audit audit;
    wait_failure* failure = nullptr;
    cudaStream_t rescue = nullptr;  // ends waits and reads counters; takes nothing else
    // Where streams wait for chunks: of the last epochs that are not captured, in turn.
    std::vector<watched_epoch> epochs;
    std::size_t enqueued = 0;      // of them, so many were
    std::vector<counter> targets;  // of the chunks
    counter* seen = nullptr;       // in host memory: launches and counters, as read last
    bool reading = false;          // them, on `rescue`
    bool begun = false;
    bool moved = false;              // an epoch was enqueued that is not captured
    unsigned long long capture = 0;  // of the stream in begin; 0: none
  };

  // The watched epoch that runs, counted from 1; 0: none, as far as is known.
  static std::size_t running(const side& s);
  std::string describe(const wait_failure& f) const;
  side& side_of(std::uint32_t device);
  const side& side_of(std::uint32_t device) const;
  // Of messages between processes about this region.
  enum class about : std::uint64_t { memory, end };
  std::uint64_t tag(about what) const {
    return std::uint64_t{id_} * 2 + static_cast<std::uint64_t>(what);
  }
  void* take(const side& s, std::uint64_t bytes);
  void make_side(side& s, const region_spec& spec);
  void import_from(std::uint32_t device, const std::string& texts);
  std::string export_side(const side& s);
  void leave() noexcept;
  void warm_up(const side& s) const;
  barrier_arguments barrier(const side& s) const;
  void release() noexcept;

  std::shared_ptr<group_state> group_;
  std::uint32_t id_;
  std::string label_;
  kernel::region_state state_;
  const region_mechanism* how_ = nullptr;
  device_memory memory_;
  imported_memory imported_;
  std::vector<descriptor> exported_;     // what this process exports, in the order of its text
  std::unique_ptr<mapped_memory> host_;  // wait_failure of each local device, `seen`, a 1
  const unsigned int* one_ = nullptr;
  bool is_made_ = false;
  std::array<device_control*, max_devices> controls_{};
  std::vector<side> sides_;
};

}  // namespace interlace::cuda
