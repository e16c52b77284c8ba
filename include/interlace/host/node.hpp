// The reference node. Kernels run block by block on the CPU, an exchange copies, and no time is
// measured. With checks, the node also observes what the other nodes cannot see. It refuses a
// second writer of an element, and stores outside of a block's mapping. It counts the delivered
// elements that are read, and the bytes and operations of each launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include "interlace/host/observer.hpp"
#include "interlace/kernel/cpu_node.hpp"
#include "interlace/kernel/launch_work.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "interlace/kernel/type_name.hpp"

namespace interlace::host {

// The reference node. Launches, calls and exchanges run at once, one after another, before the
// function returns. At most one thread at a time may use a node.
class node : public kernel::cpu_node {
 public:
  // The options with which a node is made.
  struct options {
    std::uint32_t devices = 1;
    std::uint32_t warp_width = 32;
    // whether the node checks the rules of the memory model (an element has one writer in an epoch,
    // and blocks write and publish only mapped elements), and counts used elements and work
    bool checks = false;
  };
  // Makes a node. Throws usage_error if `o` asks for no devices, or for more devices than the limit
  // (interlace/base/limits.hpp).
  explicit node(options o);

  // Makes a partition. Throws usage_error if the mechanism does not support partitions, or if a
  // parameter is out of its bounds. Throws model_error if the boundaries of the parts are not
  // valid.
  template <class T, combine Op>
  kernel::partition<T, Op> create_partition(kernel::region_options o) {
    // This node applies updates at once, so it needs no array of contributions for stores.
    if (Op == combine::store && kernel::row_of(o.mechanism).updates_partials) {
      o.mechanism = kernel::mechanism::inline_stores;
    }
    return make_partition<T, Op>(*this, std::move(o));
  }

  // Runs a kernel that writes no region, block by block. Throws model_error if an index is out of
  // range or, with checks, if the kernel breaks a rule of the model.
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    execute(device, kernel, shape, 0, nullptr);
  }
  // Runs a kernel that writes region `r`. `mapping` names the elements that each block writes. With
  // checks, a store outside of the mapping throws model_error.
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>& r,
              const kernel::block_mapping& mapping) {
    execute(device, kernel, shape, r.id, &mapping);
  }

  // Runs a kernel that updates the partition.
  template <class Kernel, class T, combine Op>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape,
              const kernel::partition<T, Op>& /*p*/) {
    launch(device, kernel, shape);
  }

  // Runs one grid over all devices, device by device. `how` decides which blocks each device runs.
  template <class Kernel>
  void launch_over(const Kernel& kernel, grid shape, kernel::block_placement how) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      const kernel::block_share share = kernel::share_of(shape.blocks, devices(), d, how);
      for (std::uint64_t k = 0; k < share.count; ++k) {
        execute_block(d, kernel, shape, share.first + k * share.stride, 0, nullptr);
      }
      end_launch<Kernel>(share.count);
    }
  }

  // Calls `c.on_cpu` at once. Throws model_error if this function is missing or the device does not
  // exist.
  void call(std::uint32_t device, const kernel::library_call& c) {
    kernel::check_call(c, c.on_cpu, device, devices());
    c.on_cpu();
    if (options_.checks) {
      work_.push_back({device, c.name, c.bytes_read, c.bytes_written,
                       std::max(c.bytes_read, c.bytes_written), c.operations});
    }
  }

  // Publishes regions and reductions. The exchange copies the stored elements to the subscribers,
  // combines the partial results, and swaps front and back. A view that was taken before the
  // exchange must not be used after it.
  template <class... Item>
  void exchange(const Item&... items) {
    (exchange_one(items.id), ...);
    if (options_.checks) sent_bytes_.push_back((0.0 + ... + sent_bytes(items.id)));
  }

  // Calls `enqueue` once. Returns the bytes that the run moved, and the run's work. All times are
  // 0. Work and bytes are known only with checks.
  template <class F>
  kernel::run_result run(F&& enqueue) {
    work_.clear();
    sent_bytes_.clear();
    enqueue();
    kernel::run_result result;
    result.work = std::exchange(work_, {});
    result.sent_bytes = std::exchange(sent_bytes_, {});
    result.wire_known = options_.checks;
    if (options_.checks) result.wire = delivered();
    return result;
  }

 private:
  template <class Kernel>
  void execute(std::uint32_t device, const Kernel& kernel, grid shape, std::uint32_t region,
               const kernel::block_mapping* mapping) {
    for (std::uint64_t b = 0; b < shape.blocks; ++b) {
      execute_block(device, kernel, shape, b, region, mapping);
    }
    end_launch<Kernel>(shape.blocks);
  }
  template <class Kernel>
  void execute_block(std::uint32_t device, const Kernel& kernel, grid shape, std::uint64_t b,
                     std::uint32_t region, const kernel::block_mapping* mapping) {
    if (options_.checks) {
      checker_->begin_block(device, b, region, mapping);
      kernel::serial_block<checking_observer> block(*checker_, memory_, b, shape,
                                                    options_.warp_width);
      kernel(block);
      block.finish();
      checker_->end_block();
    } else {
      run_block(kernel, shape, b, options_.warp_width);
    }
  }
  template <class Kernel>
  void end_launch(std::uint64_t blocks) {
    if (!options_.checks || blocks == 0) return;
    work_.push_back(checker_->end_launch());
    work_.back().name = kernel::short_type_name(typeid(Kernel).name());
  }

  void* take(std::uint32_t device, std::uint64_t bytes) override;
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& /*pages*/) override {
    return take(0, bytes);
  }
  void adding(std::uint32_t id, const kernel::region_state& state) override;
  void exchange_one(std::uint32_t id);
  // The number of bytes that the last exchange of this region delivered. For a partition, the
  // number counts only the values in updates of other devices' elements. For a reduction, the
  // number is 0.
  double sent_bytes(std::uint32_t id) const;
  // The number of bytes of the values in this partition's updates so far. Only updates of elements
  // that another device owns count.
  double updated_bytes(std::uint32_t id) const;
  kernel::wire_bytes delivered() const;

  options options_;
  std::vector<std::unique_ptr<std::byte[]>> allocations_;
  std::unique_ptr<checking_observer> checker_;
  std::vector<kernel::launch_work> work_;  // work of the current run
  // For each exchange so far, the number of bytes that it delivered.
  std::vector<double> sent_bytes_;
  std::vector<double> updated_before_;  // for each id, updated_bytes before the last exchange
  std::vector<double> updated_;         // for each id, updated_bytes at the last exchange
};

}  // namespace interlace::host
