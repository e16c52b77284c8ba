// Observes kernels on the host node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/host/footprint.hpp"
#include "interlace/kernel/launch_work.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "interlace/kernel/use_tracker.hpp"

namespace interlace::host {

// Checks the rules of the memory model. Counts the delivered elements that are read, and the bytes
// and operations of launches.
class checking_observer {
 public:
  template <class I>
  using index = kernel::dependent_index<I>;
  static constexpr bool active = true;

  checking_observer(std::uint32_t devices, std::uint32_t warp_width)
      : devices_(devices), warp_width_(warp_width) {}

  void add_memory(const void* memory, std::uint64_t bytes) { footprint_.add(memory, bytes); }
  void add_region(std::uint32_t id, const kernel::region_state& state);
  // `region` is the region that the launch writes. It is ignored if there is no mapping.
  void begin_block(std::uint32_t device, std::uint64_t block, std::uint32_t region,
                   const kernel::block_mapping* mapping);
  // Throws model_error if the block published only some of the elements to which it is mapped.
  void end_block();
  // The work of all blocks since the last call. The result's name is empty.
  kernel::launch_work end_launch();
  // Begins a new epoch of a region. In the new epoch, devices may write the region's elements
  // again.
  void end_epoch(std::uint32_t id);
  const kernel::use_tracker& use(std::uint32_t id) const { return regions_[id].use; }

  bool stores_inline() const { return false; }
  void begin_segment() {}
  void begin_lane(std::uint32_t) {}
  std::uint32_t on_access(const kernel::access& a);
  void on_compute(const operations& work, kernel::site_id) {
    operations_.fp32 += work.fp32;
    operations_.fp64 += work.fp64;
    operations_.integer += work.integer + work.minimum;
    operations_.special += work.special;
  }
  std::uint64_t enter_loop(kernel::site_id) { return 0; }
  void next_iteration() {}
  void leave_loop(std::uint64_t) {}
  void on_uniform() {}
  void on_acquire_release() {}
  void on_barrier(bool) {}
  void on_shuffle(std::uint32_t warp, std::uint32_t n, operation kind, std::uint32_t operations);
  bool begin_repeated(std::uint32_t, std::uint32_t, const void*, std::uint32_t) { return false; }
  kernel::silent_observer watch_repeated() { return {}; }
  void end_repeated() {}
  void end_repeated(const kernel::silent_observer&) {}
  // The block publishes elements. Each element must be in the block's mapping, stored by the block
  // and not yet published.
  void on_publish(std::uint32_t region, std::uint64_t begin, std::uint64_t end);

 private:
  struct watched {
    // For each element, the number of the device that wrote it in this epoch, plus 1. 0 stands for
    // no device.
    std::vector<std::uint8_t> writer;
    kernel::use_tracker use;
    kernel::region_state state;  // the state of the region, without its memory
  };

  std::uint32_t devices_;
  std::uint32_t warp_width_;
  footprint footprint_;
  kernel::operation_counts operations_;
  std::vector<watched> regions_;
  std::uint32_t device_ = 0;
  std::uint64_t block_ = 0;
  bool has_mapping_ = false;
  std::uint32_t region_ = 0;  // region that the launch writes
  // Elements of this region: the block may write `mapped_`, has stored `stored_`, and has published
  // `published_`.
  std::vector<kernel::element_range> mapped_;
  std::vector<kernel::element_range> stored_;
  std::vector<kernel::element_range> published_;

  // Throws an error that names the block, `what`, the element and its chunk.
  [[noreturn]] void refuse(const std::string& what, std::uint64_t element) const;
};

}  // namespace interlace::host
