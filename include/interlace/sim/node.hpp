// The simulated node. Kernels run on the CPU, and their accesses drive the timing model of a
// described machine. This node has the same interface as the other nodes
// (interlace/kernel/region.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "interlace/kernel/cpu_node.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "interlace/kernel/trace.hpp"
#include "interlace/machine/machine.hpp"
#include "interlace/sim/gpu/recorder.hpp"

namespace interlace::sim {

struct region_exchange;

// Returns the machine with only its first `devices` GPUs. Throws usage_error if the machine has
// fewer GPUs.
machine::machine first_gpus(machine::machine m, std::uint32_t devices);

// The simulated node. Kernels and exchanges advance the simulated time of the described machine.
// Simulated time does not depend on how long the simulation takes. At most one thread at a time may
// use a node.
class node final : public kernel::cpu_node {
 public:
  // Uses the first `devices` GPUs of the machine. run() calls `check_interrupt` from time to time.
  // `check_interrupt` may throw.
  node(const machine::machine& described, std::uint32_t devices,
       std::function<void()> check_interrupt);
  // Frees all arrays. A recording that finish_recording did not complete leaves no file.
  ~node() override;
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  node(node&&) = delete;
  node& operator=(node&&) = delete;

  // Enqueues a kernel that writes no region. The node copies the kernel object, and runs it after
  // all earlier work of the device.
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    if (untimed_) return run_blocks(device, kernel, shape, {.count = shape.blocks});
    enqueue_kernel(device, shape, runner(kernel, shape), compiled_as<Kernel>, none, nullptr);
  }
  // Enqueues a kernel that writes region `r`. `mapping` names the elements that each block writes.
  // The mechanism of `r` decides how and when these elements reach the subscribers.
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>& r,
              const kernel::block_mapping& mapping) {
    if (untimed_) return run_blocks(device, kernel, shape, {.count = shape.blocks});
    enqueue_kernel(device, shape, runner(kernel, shape), compiled_as<Kernel>, r.id, &mapping);
  }

  // Enqueues a kernel that updates the partition. The mechanism of `p` decides how and when the
  // updates reach the owners.
  template <class Kernel, class T, combine Op>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape,
              const kernel::partition<T, Op>& p) {
    if (untimed_) return run_blocks(device, kernel, shape, {.count = shape.blocks});
    enqueue_updates(device, shape, runner(kernel, shape), compiled_as<Kernel>, p.id);
  }
  // Makes a partition. Throws usage_error if the mechanism does not support partitions, or if a
  // parameter is out of its bounds. Throws model_error if the boundaries of the parts are not
  // valid.
  template <class T, combine Op>
  kernel::partition<T, Op> create_partition(kernel::region_options o) {
    return make_partition<T, Op>(*this, std::move(o));
  }

  // Enqueues one grid over all devices. `how` decides which blocks each device runs.
  template <class Kernel>
  void launch_over(const Kernel& kernel, grid shape, kernel::block_placement how) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      const kernel::block_share share =
          kernel::share_of(shape.blocks, devices(), d, how, compute_units());
      if (untimed_) {
        run_blocks(d, kernel, shape, share);
      } else {
        enqueue_share(d, shape, runner(kernel, shape), compiled_as<Kernel>, share);
      }
    }
  }

  // Chooses how the machine handles remote loads of unified arrays, and stores of kernels that
  // write no region. Call this function before the first launch. Throws usage_error if the machine
  // does not describe the necessary hardware.
  void treat_loads(const kernel::remote_load_options& options);

  // Verifies packed stores from now on. The node encodes and decodes the packets of such stores. At
  // the end of each run, the node compares the received bytes with the replicas, and throws
  // model_error if they differ. Call this function before the first launch. This function is for
  // tests, because the verification makes runs much slower.
  void check_deliveries();
  std::uint64_t checked_packets() const;  // number of packets that went through encode and decode

  // Runs the kernel at once, outside of simulated time, and counts its warps' accesses by the lines
  // of the machine's L1. Do not call this function during run(). The kernel changes memory like a
  // launch, but changes only the device's own replicas of regions. The kernel's accesses do not
  // count as uses of regions' elements.
  template <class Kernel>
  kernel::trace_totals trace(std::uint32_t device, const Kernel& kernel, grid shape) const {
    return trace_blocks(device, shape, runner(kernel, shape));
  }

  // From now on, also writes everything that runs to a trace file. The file appears only after
  // finish_recording. After the first run, the program cannot allocate memory. A node that records
  // refuses unified memory, and mechanisms that track chunks.
  void record(const std::string& path);
  // Completes the trace file that `record` began. Throws usage_error if nothing has run since
  // `record`.
  void finish_recording();

  // Enqueues a library call (interlace/kernel/library_call.hpp says how much simulated time it
  // takes). Throws model_error if `c.on_cpu` is missing or the device does not exist.
  void call(std::uint32_t device, kernel::library_call c);

  // Enqueues the exchange of regions and reductions. All devices meet at the exchange. Everything
  // that a device stored before the exchange is visible to its subscribers after the exchange.
  template <class... Item>
  void exchange(const Item&... items) {
    enqueue_exchange({items.id...});
  }

  // Calls `enqueue` once, simulates what it enqueued, and returns times in simulated seconds.
  // Throws model_error if a launch has written a region that no exchange publishes.
  template <class F>
  kernel::run_result run(F&& enqueue) {
    start_recording();
    enqueue();
    return finish();
  }

  // Sets whether threads_at_once tells workloads how many threads a GPU holds. Call this function
  // before a workload is put on the node.
  void hold_threads(bool told) { threads_told_ = told; }
  // The number of threads that a GPU of the machine holds at a time. 0 means that workloads should
  // make the same blocks on every machine.
  std::uint64_t threads_at_once(std::uint32_t device) const;
  std::uint32_t compute_units() const;  // number of compute units of each device

  // Sets the number of threads of the simulation, at least one. The default is one. Results are the
  // same for every number. The calling thread is one of these threads. Kernels of different devices
  // may run at the same time.
  void use_threads(std::uint32_t threads);

  // Marks the end of an iteration, after the work that was enqueued last. Call this function inside
  // of run().
  void end_iteration();
  // Whether the last three marked iterations did the same work on each device. The work is the
  // number of lanes' accesses, and the bytes of library calls. The result is false after fewer than
  // three iterations.
  bool iterations_repeat() const;
  // Calls `enqueue` once, and runs the launches of `enqueue` at once, only for their results. No
  // simulated time passes, and only the work is counted. Returns whether the work equals that of
  // the last iteration that end_iteration ended. After this call the node cannot simulate any more.
  template <class F>
  bool run_untimed(F&& enqueue) {
    begin_untimed();
    enqueue();
    return same_work();
  }
  // The result that the last run would have with `times` more iterations. The additional iterations
  // are copies of the last two iterations, in turn. This is valid because regions swap two buffers
  // at each exchange, so every second iteration finds its data at the same addresses.
  kernel::run_result with_more(kernel::run_result run, std::uint64_t times) const;
  // The mean time of the iterations that with_more repeats.
  double repeated_iteration_s() const;

 private:
  template <class Kernel>
  block_function runner(const Kernel& kernel, grid shape) const {
    return [kernel, shape, width = warp_width_](std::uint64_t index, recorder& record,
                                                kernel::block_memory& memory) {
      kernel::serial_block<recorder> block(record, memory, index, shape, width);
      kernel(block);
      block.finish();
    };
  }

  template <class Kernel>
  void run_blocks(std::uint32_t device, const Kernel& kernel, grid shape,
                  const kernel::block_share& share) {
    const std::uint64_t before = counted_accesses();
    for (std::uint64_t k = 0; k < share.count; ++k) {
      run_block(kernel, shape, share.first + k * share.stride, warp_width_);
    }
    untimed_work_[device] += counted_accesses() - before;
  }
  void begin_untimed();
  bool same_work() const;

  void* take(std::uint32_t device, std::uint64_t bytes) override;
  // A page has 4 KiB, or the page size of the machine's TLB. The arena's last slot belongs to all
  // devices.
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& pages) override;
  void adding(std::uint32_t id, const kernel::region_state& state) override;
  recorder::settings recorded_by(std::uint32_t device) const;
  kernel::trace_totals trace_blocks(std::uint32_t device, grid shape,
                                    const block_function& block) const;
  void enqueue_kernel(std::uint32_t device, grid shape, const block_function& block,
                      compiled_kernel code, std::uint32_t region,
                      const kernel::block_mapping* mapping);
  void enqueue_updates(std::uint32_t device, grid shape, const block_function& block,
                       compiled_kernel code, std::uint32_t partition);
  void enqueue_share(std::uint32_t device, grid shape, const block_function& block,
                     compiled_kernel code, kernel::block_share share);
  // Adds the movement of a partition's contributions to an exchange.
  void add_contributions(std::uint32_t id, region_exchange& work);
  void enqueue_exchange(const std::vector<std::uint32_t>& ids);
  // Starts a recording if there is a file to write and nothing was recorded yet.
  void start_recording();
  kernel::run_result finish();

  struct parts;
  std::unique_ptr<parts> parts_;
  std::uint32_t warp_width_ = 0;
  bool threads_told_ = false;
  bool untimed_ = false;
  std::vector<std::uint64_t> untimed_work_;  // for each device, the work of the last run_untimed
};

}  // namespace interlace::sim
