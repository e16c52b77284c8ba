// The simulated node: kernels run on the CPU while their accesses drive the timing model of a
// described machine. Same interface as the other nodes (kernel/region.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/cpu_node.hpp"
#include "kernel/region.hpp"
#include "kernel/serial_block.hpp"
#include "kernel/trace.hpp"
#include "kernel/use_tracker.hpp"
#include "machine/machine.hpp"
#include "sim/gpu/subscribed_pages.hpp"
#include "sim/mechanism/streams.hpp"
#include "sim/tasks/arena.hpp"
#include "sim/tasks/simulation.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::sim {

// The machine with the first `devices` of its GPUs; throws usage_error if it has not so many.
machine::machine first_gpus(machine::machine m, std::uint32_t devices);

class node final : public kernel::cpu_node {
 public:
  // Uses the first `devices` GPUs of the machine. `check_interrupt` is called now and then during
  // run() and may throw.
  node(const machine::machine& described, std::uint32_t devices,
       std::function<void()> check_interrupt);

  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    enqueue_kernel(device, shape, runner(kernel, shape), none, nullptr);
  }
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>& r,
              const kernel::block_mapping& mapping) {
    enqueue_kernel(device, shape, runner(kernel, shape), r.id, &mapping);
  }

  template <class Kernel>
  void launch_over(const Kernel& kernel, grid shape, kernel::block_placement how) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      enqueue_share(d, shape, runner(kernel, shape),
                    kernel::share_of(shape.blocks, devices(), d, how));
    }
  }

  // Before anything is launched: what becomes of remote loads of unified arrays, and of stores of
  // kernels that write no region. Throws usage_error for a machine that does not describe what that
  // takes.
  void treat_loads(const kernel::remote_load_options& options);

  // Before anything is launched: from now on stores that a queue packs go through encode and decode
  // of their packets, and the end of each run compares what came in with the replicas, byte by
  // byte; model_error where they differ. For tests: much slower.
  void check_deliveries();
  std::uint64_t checked_packets() const;  // that did

  // Runs the kernel at once and without time, and counts the accesses of its warps by the machine's
  // L1 lines. Not inside of run. It does to memory what a launch would, to the devices' own
  // replicas of regions alone; which elements of regions it uses is not counted.
  template <class Kernel>
  kernel::trace_totals trace(std::uint32_t device, const Kernel& kernel, grid shape) const {
    return trace_blocks(device, shape, runner(kernel, shape));
  }

  // What is run from now on is written to a trace file as well, until finish_recording, and only
  // then is there a file. Memory cannot be taken behind the first run; unified memory is refused,
  // and mechanisms that track chunks.
  void record(const std::string& path);
  void finish_recording();

  void call(std::uint32_t device, kernel::library_call c) {
    kernel::check_call(c, c.on_cpu, device, devices());
    streams_[device].last = {simulation_.add_call(device, std::move(c), streams_[device].last)};
  }

  template <class... Item>
  void exchange(const Item&... items) {
    enqueue_exchange({items.id...});
  }

  template <class F>
  kernel::run_result run(F&& enqueue) {
    if (!record_to_.empty()) start_recording();
    enqueue();
    return finish();
  }

 private:
  template <class Kernel>
  block_function runner(const Kernel& kernel, grid shape) const {
    return [kernel, shape, width = simulation_.described().gpu.warp_width](
               std::uint64_t index, recorder& record, kernel::block_memory& memory) {
      kernel::serial_block<recorder> block(record, memory, index, shape, width);
      kernel(block);
    };
  }

  void* take(std::uint32_t device, std::uint64_t bytes) override;
  // Pages of 4 KiB, or those that the machine's TLBs have; the arena's last slot belongs to all
  // devices.
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& pages) override;
  void adding(std::uint32_t id, const kernel::region_state& state) override;
  recorder::settings recorded_by(std::uint32_t device) const;
  kernel::trace_totals trace_blocks(std::uint32_t device, grid shape,
                                    const block_function& block) const;
  void enqueue_kernel(std::uint32_t device, grid shape, const block_function& block,
                      std::uint32_t region, const kernel::block_mapping* mapping);
  void enqueue_share(std::uint32_t device, grid shape, const block_function& block,
                     kernel::block_share share);
  void enqueue_exchange(const std::vector<std::uint32_t>& ids);
  void start_recording();
  kernel::run_result finish();

  store_path unified_stores_ = store_path::packets;
  arena arena_;
  std::uint64_t placed_in_turn_ = 0;  // pages
  simulation simulation_;
  std::vector<std::unique_ptr<kernel::use_tracker>> trackers_;  // by id; null for reductions
  // By id; null where all that the region names hold its pages.
  std::vector<std::unique_ptr<subscribed_pages>> subscribed_;
  streams streams_;
  std::string record_to_;  // the file; empty: nothing is recorded
  std::unique_ptr<trace::writer> recording_;
};

}  // namespace interlace::sim
