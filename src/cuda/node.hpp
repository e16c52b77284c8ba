// The real node: kernels run on this machine's GPUs, regions live in their memory, and the exchange
// happens between them without the host.
//
// Every device has one main stream, where kernels and exchanges are enqueued in order, and a copy
// stream for each peer, so that copies to different peers overlap: behind the kernel, or the part
// of it, that wrote their data, and joined by the exchange. Where chunks are tracked, copies wait
// for them on these streams, or an agent on a stream of its own does. Under multi-path the copies
// of all devices are one batch of the copy engine. run(f) calls f once, takes
// down what it enqueues, and then captures that into one graph for each device (devices meet by
// flags in their memory, so no graph depends on another), launches all graphs behind a gate, and
// times them by events. A batch spans the devices: a run that has one uses plain streams.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "base/limits.hpp"
#include "cuda/early_launch.hpp"
#include "cuda/launching.hpp"
#include "cuda/memory/managed.hpp"
#include "cuda/memory/memory.hpp"
#include "cuda/memory/unified.hpp"
#include "cuda/occupancy.hpp"
#include "cuda/region/exchange.hpp"
#include "cuda/region/tracking.hpp"
#include "cuda/shared_gpu.hpp"
#include "cuda/transfer/nccl_regions.hpp"
#include "interlace/copy.hpp"
#include "interlace/kernel.hpp"
#include "interlace/replicas.hpp"
#include "kernel/chunk_table.hpp"
#include "kernel/chunks.hpp"
#include "kernel/region.hpp"
#include "kernel/trace.hpp"
#if defined(__CUDACC__)
#include "interlace/kernel_device.cuh"
#endif

namespace interlace::cuda {

struct node_options {
  std::uint32_t devices = 1;
  // The GPU of each device; empty: 0, 1, ... One GPU may stand for several devices
  // (cuda/shared_gpu.hpp): times are then of that shared GPU.
  std::vector<int> ordinals{};
  double deadline_s = 10;  // of every wait on a device
  // Of multi-path; no value: those of the environment.
  std::optional<copy_options> copies{};
};

struct run_options {
  bool graph = true;              // else plain streams
  std::uint32_t warm_ups = 0;     // runs before the measured ones
  std::uint32_t repetitions = 1;  // measured runs; time_s is the median
  // Plain streams with events between kernels, copies and exchanges: fills copy_s, epoch_s and
  // timeline, and makes time_s larger than it is without.
  bool detail = false;
  std::uint32_t timeline_epochs = 3;
  // Before each run but the first, regions and reductions get back the contents that they had
  // before it. Local and unified arrays that are read and written are the caller's care.
};

// A region's chunks as one kind of launch announces them, on one device; lives as long as the node.
struct tracked_region : launch_tracking {
  kernel::block_mapping mapping;  // kept, so that its identity stays its own
  std::uint64_t blocks = 0;
  std::vector<kernel::chunk> chunks;
  kernel::publications announced;
};

// What a node enqueues, taken down.
struct copy_operation {
  std::uint32_t peer = 0;  // the device that it goes to
  void* to = nullptr;
  const void* from = nullptr;
  std::uint64_t bytes = 0;
};
struct kernel_operation {
  const void* entry = nullptr;
  const void* launches = nullptr;  // the kernel that it launches itself
  const char* type_name = "";
  std::vector<std::byte> functor;
  grid shape;           // blocks to launch
  bool ranged = false;  // block `first` of `total` is the launch's first
  std::uint32_t first = 0;
  std::uint32_t total = 0;
  const tracked_region* tracked = nullptr;  // what the blocks announce,
  kernel::replicas where;                   // and what is then copied
};
struct memory_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
struct prefetch_operation {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};
struct exchange_operation {
  std::uint32_t id = 0;
  bool meets = true;  // false where NCCL or a batch delivers everything, and orders it
  std::vector<nccl_regions::delivery> collectives;
  std::vector<batch_copy> batch;  // of all devices, through the copy engine
  std::vector<std::vector<prefetch_operation>> prefetches;  // of each device, behind the barrier
  std::vector<std::vector<copy_operation>> copies;          // of each device
  std::vector<std::uint32_t> join;        // of each device, the copy streams that it waits for
  std::vector<exchange_arguments> first;  // of each device
  std::vector<std::vector<large_reduction>> large;  // of each device
};
struct operation {
  enum class kind : std::uint8_t { kernel, copies, exchange, call };
  kind what = kind::kernel;
  std::uint32_t device = 0;  // not for exchange
  kernel_operation kernel;
  std::vector<copy_operation> copies;  // behind all kernels so far
  exchange_operation exchange;
  kernel::library_call call;
};

class node {
 public:
  using options = node_options;

  explicit node(options o);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  node(node&&) = delete;
  node& operator=(node&&) = delete;

  std::uint32_t devices() const { return options_.devices; }
  int ordinal(std::uint32_t device) const { return options_.ordinals.at(device); }
  cudaStream_t stream(std::uint32_t device) const { return streams_.at(device); }
  // That the multiprocessors of a device hold, of kernels that are short of nothing else.
  std::uint64_t threads_at_once(std::uint32_t device) const {
    return cuda::threads_at_once(ordinal(device));
  }
  // What went another way than asked, one sentence each.
  const std::vector<std::string>& remarks() const { return remarks_; }
  // Kernels and exchanges in the last run's graphs that were launched early.
  std::uint64_t early_launches() const { return early_launches_; }

  // What the copy engine made of the exchanges under multi-path so far, a sentence without its end;
  // empty without any.
  std::string batches_made() const;

  // Waits for all that is enqueued; throws device_error if any of it failed.
  void synchronize() const;

  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return {static_cast<T*>(take(device, n * sizeof(T))), n};
  }
  // Pages of 2 MiB, on the devices in turn or as `pages` says; all devices load and store all of
  // them.
  template <class T>
  unified<T> allocate_unified(std::uint64_t n, const kernel::page_placement& pages = {}) {
    return {static_cast<T*>(take_unified(n * sizeof(T), pages)), n};
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    upload(to.data, to.size, values);
  }
  template <class T>
  void upload(const unified<T>& to, const std::vector<T>& values) {
    upload(to.data, to.size, values);
  }
  template <class T>
  std::vector<std::remove_const_t<T>> download(const local<T>& from) const {
    return read<std::remove_const_t<T>>(from.data, from.size);
  }
  template <class T>
  std::vector<T> download(const unified<T>& from) const {
    return read<T>(from.data, from.size);
  }

  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {add_region(std::move(o), sizeof(T))};
  }
  template <class T>
  void set_front(const kernel::region<T>& r, const std::vector<T>& values) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write_front(r.id, d, values.data(), values.size(), sizeof(T));
    }
  }
  template <class T>
  std::vector<T> front(const kernel::region<T>& r, std::uint32_t device) const {
    const kernel::region_state& s = states_.at(r.id);
    return read<T>(s.buffers.at(device).at(s.parity), s.elements);
  }
  template <class T>
  replicated<T> view(const kernel::region<T>& r, std::uint32_t device) const {
    return kernel::make_view<T>(states_.at(r.id), r.id, device);
  }

  template <class T, combine Op>
  kernel::reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    const auto id = add_reduction(n, copies, sizeof(T), element_type_of<T>(), Op);
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write(states_[id].buffers[d][0], std::vector<T>(n, combine_identity<T, Op>()).data(),
            n * sizeof(T));
      write(states_[id].partials[d], std::vector<T>(n * copies, combine_identity<T, Op>()).data(),
            n * copies * sizeof(T));
    }
    return {id};
  }
  template <class T, combine Op>
  void set_front(const kernel::reduction<T, Op>& r, const std::vector<T>& values) {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      write_front(r.id, d, values.data(), values.size(), sizeof(T));
    }
  }
  template <class T, combine Op>
  std::vector<T> front(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return read<T>(states_.at(r.id).buffers.at(device)[0], states_.at(r.id).elements);
  }
  template <class T, combine Op>
  reduced<T, Op> view(const kernel::reduction<T, Op>& r, std::uint32_t device) const {
    return kernel::make_reduced_view<T, Op>(states_.at(r.id), device);
  }

#if defined(__CUDACC__)
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape) {
    submit_kernel(device, whole<device::untracked>(kernel, shape));
  }
  // Refused round robin: a launch is a range of blocks.
  template <class Kernel>
  void launch_over(const Kernel& kernel, grid shape, kernel::block_placement how) {
    require_ranges(how);
    for (std::uint32_t d = 0; d < devices(); ++d) {
      const kernel::block_share share = kernel::share_of(shape.blocks, devices(), d, how);
      if (share.count == 0) continue;
      submit_kernel(d, range_of(kernel, shape, share.first, share.count));
    }
  }
  // The mechanism of `r` decides how the kernel's stores reach the subscribers. All regions that
  // one kernel writes have the same mechanism, and under `split` the mappings of an epoch's
  // launches cover all that is to be delivered. Where chunks are tracked, `r` is the only region
  // that the kernel writes or publishes.
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>& r,
              const kernel::block_mapping& mapping) {
    if (devices() == 1) return launch(device, kernel, shape);
    switch (states_.at(r.id).options.mechanism) {
      case kernel::mechanism::polling:
      case kernel::mechanism::copy_engine: {
        kernel_operation tracked = describe(kernel, shape);
        tracked.entry = reinterpret_cast<const void*>(&device::run_tracked<Kernel>);
        submit_tracked(device, std::move(tracked), r.id, mapping);
        break;
      }
      case kernel::mechanism::device_launch: {
        kernel_operation tracked = describe(kernel, shape);
        const launching_kernel k = find_launching_kernel(typeid(Kernel));
        tracked.entry = k.entry;
        tracked.launches = k.copies;
        if (!states_.at(r.id).options.transfers) {
          tracked.entry = reinterpret_cast<const void*>(&device::run_tracked<Kernel>);
        }
        submit_tracked(device, std::move(tracked), r.id, mapping);
        break;
      }
      case kernel::mechanism::inline_stores:
        submit_kernel(device, whole<device::inline_stores>(kernel, shape));
        break;
      case kernel::mechanism::split:
        for (const auto& part : mapping.split(shape.blocks, states_[r.id].options.split_ranges)) {
          submit_kernel(device, range_of(kernel, shape, part.first_block,
                                         part.last_block - part.first_block));
          submit_deliveries(device, r.id, part.complete);
        }
        break;
      default:
        submit_kernel(device, whole<device::untracked>(kernel, shape));
    }
  }

  // Runs the kernel at once and counts the accesses of its warps; waits. Not inside of run. It does
  // to memory what a launch that writes no region would.
  template <class Kernel>
  kernel::trace_totals trace(std::uint32_t device, const Kernel& kernel, grid shape) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_traced<Kernel>);
    return count_accesses(device, k);
  }

  // Runs the kernel at once, a range of its blocks after another, and hands what its warps access
  // in views to `take`; waits. Not inside of run. It does to memory what a launch that writes no
  // region would, and, with `stores_inline`, what one would that writes a region by inline stores.
  template <class Kernel>
  void record(std::uint32_t device, const Kernel& kernel, grid shape,
              const kernel::access_taker& take, bool stores_inline = false) {
    kernel_operation k = describe(kernel, shape);
    k.entry =
        stores_inline
            ? reinterpret_cast<const void*>(&device::run_recorded<device::traced_inline, Kernel>)
            : reinterpret_cast<const void*>(&device::run_recorded<device::traced, Kernel>);
    record_accesses(device, k, take);
  }
#endif
  // Memory that views of a device's lie in, so far.
  const std::vector<memory_range>& memory(std::uint32_t device) const { return taken_[device]; }

  void call(std::uint32_t device, kernel::library_call c);

  template <class... Item>
  void exchange(const Item&... items) {
    const std::array<std::uint32_t, sizeof...(Item)> ids{items.id...};
    submit_exchange({ids.begin(), ids.end()});
  }

  // Calls f once. What it launches and exchanges runs before run returns; the times are of that
  // alone, without the host's part.
  template <class F>
  kernel::run_result run(F&& f, const run_options& o = {}) {
    begin_recording();
    try {
      std::forward<F>(f)();
      return execute_recorded(o);
    } catch (...) {
      cancel_recording();
      throw;
    }
  }

 private:
  struct reduction_details {
    element_type type = element_type::f32;
    combine operation = combine::add;
    std::array<void*, max_devices> inboxes{};  // small ones only
  };
  struct loaded_kernel {
    int most_threads = 0;
    std::uint32_t shared_bytes = 0;
    unsigned int shared_percent = 0;  // that all blocks of a multiprocessor take together
    bool awaits = false;              // what is before it, by itself
    std::uint32_t registers = 0;      // of a thread
    std::uint32_t fixed_shared_bytes = 0;
  };
  class snapshot;
  class graphs;
  using captured_graphs = std::vector<std::unique_ptr<graphs>>;
  class stopwatch;
  class gate_keeper;

#if defined(__CUDACC__)
  template <class Kernel>
  kernel_operation describe(const Kernel& kernel, grid shape) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "kernels are copied to the device");
    static_assert(alignof(Kernel) <= alignof(std::max_align_t));
    static_assert(sizeof(Kernel) <= 4000, "a kernel's members are launch parameters: 4 KB at most");
    if (constexpr auto fixed = device::fixed_threads<Kernel>(); fixed != 0) {
      if (shape.threads != fixed) {
        throw model_error("a kernel for " + std::to_string(fixed) + " threads is launched with " +
                          std::to_string(shape.threads));
      }
    }
    kernel_operation k;
    k.type_name = typeid(Kernel).name();
    k.functor.resize(sizeof(Kernel));
    std::memcpy(k.functor.data(), &kernel, sizeof(Kernel));
    k.shape = shape;
    return k;
  }
  template <class Policy, class Kernel>
  kernel_operation whole(const Kernel& kernel, grid shape) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_grid<Policy, Kernel>);
    return k;
  }
  // `blocks` of the grid from `first` on.
  template <class Kernel>
  kernel_operation range_of(const Kernel& kernel, grid shape, std::uint64_t first,
                            std::uint64_t blocks) {
    kernel_operation k = describe(kernel, shape);
    k.entry = reinterpret_cast<const void*>(&device::run_ranged<device::untracked, Kernel>);
    k.ranged = true;
    k.first = static_cast<std::uint32_t>(first);
    k.total = static_cast<std::uint32_t>(shape.blocks);
    k.shape.blocks = blocks;
    return k;
  }
#endif

  template <class T>
  std::vector<T> read(const void* from, std::uint64_t n) const {
    std::vector<T> values(n);
    read_bytes(values.data(), from, n * sizeof(T));
    return values;
  }

  template <class T>
  void upload(T* to, std::uint64_t size, const std::vector<T>& values) {
    if (values.size() > size) {
      throw model_error("an upload of " + std::to_string(values.size()) + " elements to " +
                        std::to_string(size));
    }
    write(to, values.data(), values.size() * sizeof(T));
  }

  void* take(std::uint32_t device, std::uint64_t bytes);
  void* take_unified(std::uint64_t bytes, const kernel::page_placement& pages);
  static void require_ranges(kernel::block_placement how);
  void write(void* to, const void* from, std::uint64_t bytes);
  void read_bytes(void* to, const void* from, std::uint64_t bytes) const;
  void write_front(std::uint32_t id, std::uint32_t device, const void* values, std::uint64_t n,
                   std::uint64_t element_bytes);
  std::uint32_t add_region(kernel::region_options o, std::uint32_t element_bytes);
  std::uint32_t add_reduction(std::uint64_t n, std::uint32_t copies, std::uint32_t element_bytes,
                              element_type type, combine operation);

  void check_launch(std::uint32_t device, const kernel_operation& k) const;
  kernel::trace_totals count_accesses(std::uint32_t device, const kernel_operation& k);
  void record_accesses(std::uint32_t device, const kernel_operation& k,
                       const kernel::access_taker& take);
  void submit_kernel(std::uint32_t device, kernel_operation k);
  const tracked_region& track(std::uint32_t device, std::uint32_t id, std::uint64_t blocks,
                              const kernel::block_mapping& mapping);
  void submit_tracked(std::uint32_t device, kernel_operation k, std::uint32_t id,
                      const kernel::block_mapping& mapping);
  void submit_deliveries(std::uint32_t device, std::uint32_t id,
                         const std::vector<kernel::element_range>& complete);
  void check_exchange(const std::vector<std::uint32_t>& ids) const;
  void add_tracked(exchange_arguments& a, std::uint32_t device, std::uint32_t id);
  void add_prefetches(exchange_operation& e, std::uint32_t id, std::uint32_t device) const;
  void add_batch(exchange_operation& e, std::uint32_t id) const;
  void submit_exchange(const std::vector<std::uint32_t>& ids);
  void submit(operation o);

  bool between_exchanges() const;
  void begin_recording();
  void cancel_recording();
  kernel::run_result execute_recorded(const run_options& o);

  void await_waiting_streams() const;
  void require_usable() const;
  void require_idle(const char* what) const;
  void load(const kernel_operation& k);
  void require_places(const kernel_operation& k) const;
  void load_call(const operation& o);
  void issue(const operation& o, stopwatch* watch);
  void issue_kernel(std::uint32_t device, const kernel_operation& k);
  bool comes_early(std::uint32_t device) const;
  void set_behind_kernel(std::uint32_t device, bool is);
  void issue_call(std::uint32_t device, const kernel::library_call& c);
  void issue_tracked(std::uint32_t device, const kernel_operation& k, stopwatch* watch);
  void issue_copies(std::uint32_t device, const std::vector<copy_operation>& copies,
                    const char* name, stopwatch* watch);
  std::vector<cudaEvent_t> mark_all(stopwatch& watch) const;
  void draw_all(stopwatch& watch, const std::string& name, const std::vector<cudaEvent_t>& begins,
                const std::vector<cudaEvent_t>& ends) const;
  void issue_collectives(const exchange_operation& e, stopwatch* watch);
  void issue_batch(const exchange_operation& e, stopwatch* watch);
  cudaEvent_t issue_transfers(std::uint32_t device, const exchange_operation& e,
                              cudaEvent_t computed, stopwatch* watch);
  void issue_meeting(std::uint32_t device, const exchange_operation& e, cudaEvent_t copied,
                     stopwatch* watch);
  captured_graphs capture(const std::vector<operation>& operations);
  double launch_timed(const std::vector<operation>& operations, const captured_graphs& captured,
                      stopwatch* watch);
  void launch_graphs(const graphs& captured);
  void launch_in_turn(const captured_graphs& captured);
  void launch_gates();
  void open_gate() noexcept;
  void await_collectives() const;
  [[noreturn]] void fail(const std::string& sentence) const;
  std::string describe_failure(const wait_failure& f) const;
  barrier_arguments barrier(std::uint32_t device, std::uint32_t exchange) const;

  options options_;
  bool shares_gpu_ = false;            // a GPU stands for several devices
  std::vector<cudaStream_t> streams_;  // main, of each device
  // [device][peer], the device's own for its agent; [device][devices + peer] for every other chunk,
  // so that an engine has the next one while a stream goes from one to the other. Where a GPU is
  // shared, all of a device's are one stream.
  std::vector<std::vector<cudaStream_t>> copy_streams_;
  // Of launches that come early; bit d is device d's.
  std::uint32_t early_devices_ = 0;  // may have them
  std::uint32_t early_now_ = 0;      // have them, in the graphs that are being captured
  std::uint32_t behind_kernel_ = 0;  // the last on streams_[d] is a kernel or an exchange
  std::uint64_t early_launches_ = 0;
  std::optional<gpu_tenant> tenant_;
  std::vector<cudaEvent_t> events_;  // of each device, from the main stream to copies and back
  std::vector<cudaEvent_t> starts_, stops_;  // of a run
  device_memory memory_;
  std::array<std::vector<memory_range>, max_devices> taken_;  // of it, for arrays of each device
  unified_memory unified_;
  managed_memory managed_;               // regions under unified-memory
  std::unique_ptr<nccl_regions> nccl_;   // once a region asks for it
  std::unique_ptr<copier> copier_;       // the same
  std::unique_ptr<mapped_memory> host_;  // wait_failure of each device, then the gate's ticket
  std::vector<device_control*> controls_;
  wait_failure* failures_ = nullptr;
  unsigned int* host_ticket_ = nullptr;
  unsigned int ticket_ = 0;

  std::vector<kernel::region_state> states_;
  std::vector<reduction_details> reductions_;  // beside states_
  std::vector<std::string> exchanges_;         // what each exchange exchanged
  std::map<std::pair<int, const void*>, loaded_kernel> loaded_;
  std::vector<std::uint32_t> copies_pending_;  // of each device, copy streams not joined yet
  std::vector<std::vector<std::unique_ptr<tracked_region>>> tracked_;  // [device]
  // Of each device, by region: the tracked launch of this epoch.
  std::vector<std::map<std::uint32_t, const tracked_region*>> launched_;
  mutable bool streams_wait_ = false;  // for chunks, in what was enqueued last

  bool recording_ = false;
  std::vector<operation> recorded_;
  std::vector<std::uint32_t> parities_before_;
  bool launched_since_ = false;  // whether anything recorded was launched since they were so
  std::vector<std::string> remarks_;
  mutable std::string failure_;  // why the node cannot be used any more
};

}  // namespace interlace::cuda
