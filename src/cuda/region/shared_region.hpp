// A region of a group. It has the region's memory and streams, and enqueues the work of begin and
// exchange.
//
// interlace/cuda/region/exchange.hpp describes the order that keeps replicas right. In a group, the
// caller's stream takes the place of a device's main stream. All work of a device on the region in
// one epoch lies between two exchanges on that stream. Copies and agents on the region's own
// streams start after the work that was on the caller's stream at begin or exchange. The caller's
// stream waits for these copies and agents before the exchange's barrier. Each region has barriers
// of its own, so two regions can be exchanged on two streams at the same time.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/activities.hpp"
#include "cuda/mechanism/region_mechanism.hpp"
#include "cuda/memory/share.hpp"
#include "cuda/region/failure.hpp"
#include "cuda/region/group.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/region.hpp"

namespace interlace::cuda {

class shared_region final : public group_member {
 public:
  // Makes a region. If the caller gives no memory, the region allocates its own memory.
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
  std::optional<wait_failure> late_chunk() const override;
  std::string describe(const wait_failure& late, bool expired) const override;
  std::string calls() const override;

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
  // Two events, one before and one after the work that begin and exchange enqueue.
  struct watched_epoch {
    cudaEvent_t begun = nullptr;
    cudaEvent_t ended = nullptr;
  };
  // The region's state on a device of this process.
  struct side : region_side {
    region_audit audit;
    wait_failure* failure = nullptr;
    // A stream that reads counters, and that releases the waits of other streams. It runs no other
    // work.
    cudaStream_t rescue = nullptr;
    // The last epochs in which streams wait for chunks and that are not captured, as a ring.
    std::vector<watched_epoch> epochs;
    std::size_t enqueued = 0;      // number of watched epochs so far
    std::vector<counter> targets;  // targets of the chunks
    counter* seen = nullptr;       // launches and counters that were read last, in host memory
    bool reading = false;          // whether a read on `rescue` is in flight
    bool begun = false;
    bool moved = false;              // whether an epoch that is not captured has been enqueued
    unsigned long long capture = 0;  // capture of the stream at begin; 0 if there was no capture
  };

  // The calls that the program made for a device. Other threads read them.
  struct counted_calls {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> exchanged{0};
    std::atomic<double> last{seconds_now()};
  };

  // The number of the watched epoch that is running. Epochs are numbered from 1. The result is 0 if
  // no epoch is known to run.
  static std::size_t running(const side& s);
  failure_words words() const;
  side& side_of(std::uint32_t device);
  const side& side_of(std::uint32_t device) const;
  // The topics of messages between processes about this region.
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
  // descriptors that this process exported, in the order in which the exported text names them
  std::vector<descriptor> exported_;
  // Holds the wait_failure of each local device, `seen`, and a word whose value is 1.
  std::unique_ptr<mapped_memory> host_;
  const unsigned int* one_ = nullptr;
  bool is_made_ = false;
  std::array<device_control*, max_devices> controls_{};
  std::vector<side> sides_;
  std::array<counted_calls, max_devices> calls_{};
};

}  // namespace interlace::cuda
