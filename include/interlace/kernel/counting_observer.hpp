// Counts the accesses of kernels that run only for their results.
#pragma once

#include <cstdint>

#include "interlace/kernel/serial_block.hpp"

namespace interlace::kernel {

// Counts the accesses of lanes to memory other than shared memory. A store to a region counts once,
// no matter how many subscribers the region has.
class counting_observer {
 public:
  template <class I>
  using index = dependent_index<I>;
  static constexpr bool active = true;

  // The number of accesses of all kernels so far.
  std::uint64_t accesses() const { return accesses_; }

  bool stores_inline() const { return false; }
  void begin_segment() {}
  void begin_lane(std::uint32_t) {}
  [[gnu::always_inline]] std::uint32_t on_access(const access& a) {
    if (counts_as_work(a)) ++accesses_;
    return no_instruction;
  }
  void on_compute(const operations&, site_id) {}
  std::uint64_t enter_loop(site_id) { return 0; }
  void next_iteration() {}
  void leave_loop(std::uint64_t) {}
  void on_uniform() {}
  void on_acquire_release() {}
  void on_barrier(bool) {}
  void on_shuffle(std::uint32_t, std::uint32_t, operation, std::uint32_t) {}
  void on_publish(std::uint32_t, std::uint64_t, std::uint64_t) {}
  bool begin_repeated(std::uint32_t, std::uint32_t, const void*, std::uint32_t) { return false; }
  silent_observer watch_repeated() { return {}; }
  void end_repeated() {}
  void end_repeated(const silent_observer&) {}

 private:
  std::uint64_t accesses_ = 0;
};

}  // namespace interlace::kernel
