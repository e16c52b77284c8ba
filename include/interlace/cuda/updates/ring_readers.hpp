// Threads of the host apply the updates that kernels send. Each thread has a ring, and owns the
// bins whose updates arrive in this ring. Two threads therefore never write the same element, and
// no atomics are needed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/credit_ring.hpp"

namespace interlace::cuda::updates {

// The number of updates in a slot. send_to_host (host_ring.cuh) writes the slots.
inline constexpr std::uint32_t slot_records = 1024;
inline constexpr std::uint64_t slot_header_bytes = 128;

struct slot_header {
  std::uint32_t bin;
  std::uint32_t count;
};

template <class Record>
constexpr std::uint64_t slot_bytes() {
  return slot_header_bytes + std::uint64_t{slot_records} * sizeof(Record);
}

// Applies records to a table.
template <class Codec, combine Op>
struct apply_on_host {
  typename Codec::value_type* table;
  Codec codec;
  template <class Record>
  void fetch(const Record& r) const {
    __builtin_prefetch(table + codec.element(r), 1);
  }
  template <class Record>
  void now(const Record& r) const {
    auto& at = table[codec.element(r)];
    at = combine_values<typename Codec::value_type, Op>(at, codec.value(r));
  }
};

// Drops records. A measurement that uses this struct measures all work except applying the updates.
struct drop_on_host {
  template <class Record>
  void fetch(const Record& /*r*/) const {}
  template <class Record>
  void now(const Record& /*r*/) const {}
};

// `Apply` has two functions: `fetch(record)` prefetches the element's memory, and `now(record)`
// applies the record.
template <class Record, class Apply>
class ring_readers {
 public:
  // Starts a thread for each ring. `slots` has the slots of all rings, one ring after another.
  ring_readers(const std::vector<kernel::credit_ring>& rings, const unsigned char* slots,
               const Apply& apply)
      : ends_(rings.size()), read_(rings.size()) {
    for (auto& one : ends_) one = unknown;
    std::uint64_t before = 0;
    for (std::size_t k = 0; k < rings.size(); ++k) {
      threads_.emplace_back([this, k, ring = rings[k], from = slots + before * slot_bytes<Record>(),
                             apply] { read(k, ring, from, apply); });
      before += rings[k].slots;
    }
  }
  ~ring_readers() { stop(); }
  ring_readers(const ring_readers&) = delete;
  ring_readers& operator=(const ring_readers&) = delete;
  ring_readers(ring_readers&&) = delete;
  ring_readers& operator=(ring_readers&&) = delete;

  // Waits until the threads have read all tickets of all rings. The kernels must have ended.
  void finish(const std::vector<std::uint64_t>& tickets) {
    for (std::size_t k = 0; k < ends_.size(); ++k) ends_[k] = tickets[k];
    for (std::thread& one : threads_)
      if (one.joinable()) one.join();
  }

  // Ends the threads at once, after a failure.
  void stop() {
    stopped_ = true;
    for (std::thread& one : threads_)
      if (one.joinable()) one.join();
  }

  // The number of updates that each thread has applied. It is exact after `finish`.
  std::vector<std::uint64_t> applied() const { return {read_.begin(), read_.end()}; }

 private:
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};
  // The number of records ahead of the current one whose elements are prefetched.
  static constexpr std::uint32_t ahead = 24;

  void read(std::size_t which, const kernel::credit_ring& ring, const unsigned char* slots,
            const Apply& apply) {
    std::uint32_t idle = 0;
    for (std::uint64_t t = 0; !stopped_.load(std::memory_order_relaxed);) {
      if (!kernel::slot_is_ready(ring, t)) {
        if (ends_[which].load(std::memory_order_relaxed) == t) return;
        if (++idle > 4096) std::this_thread::yield();
        continue;
      }
      idle = 0;
      const unsigned char* const slot = slots + t % ring.slots * slot_bytes<Record>();
      const std::uint32_t count = reinterpret_cast<const slot_header*>(slot)->count;
      const auto* const records = reinterpret_cast<const Record*>(slot + slot_header_bytes);
      const std::uint32_t fetched = count < ahead ? count : ahead;
      for (std::uint32_t k = 0; k < fetched; ++k) apply.fetch(records[k]);
      std::uint32_t k = 0;
      for (; k + ahead < count; ++k) {
        apply.fetch(records[k + ahead]);
        apply.now(records[k]);
      }
      for (; k < count; ++k) apply.now(records[k]);
      kernel::return_credit(ring, t);
      ++t;
      read_[which] += count;
    }
  }

  // final number of tickets of each ring, not known while kernels run
  std::vector<std::atomic<std::uint64_t>> ends_;
  std::vector<std::uint64_t> read_;
  std::atomic<bool> stopped_{false};
  std::vector<std::thread> threads_;
};

}  // namespace interlace::cuda::updates
