// Regions and reductions as every node keeps them: who owns what, who subscribes, which buffer is
// the front. Nodes add memory and movement.
//
// What a node offers to a workload (kernel/cpu_node.hpp and host/node.hpp are the plainest reading
// of it):
//
//   devices()                               GPUs
//   allocate<T>(device, n) -> local<T>      lives as long as the node; every byte 0xff
//   allocate_unified<T>(n [, page_placement]) -> unified<T>
//                                           one array whose pages (4 KiB simulated, 2 MiB on GPUs)
//                                           go to the devices in turn, or where
//                                           kernel/placement.hpp says; lives and starts as above
//   upload(local<T> | unified<T>, values), download(local<T> | unified<T>) -> std::vector<T>
//   create_region<T>(region_options) -> region<T>
//   set_front(region, values)               both buffers of every replica
//   front(region, device) -> std::vector<T> the replica of one device
//   create_reduction<T, Op>(n, copies) -> reduction<T, Op>;  set_front(reduction, values);
//   front(reduction, device)
//   view(region | reduction, device)        what kernels take; valid until the next exchange
//   launch(device, kernel, grid)            a kernel that writes no region
//   launch(device, kernel, grid, region, block_mapping)
//   launch_over(kernel, grid, block_placement)
//                                           one grid over all devices, which each run some of its
//                                           blocks; B.index() and B.count() are those of the grid
//   call(device, library_call)              a sort, an FFT: see kernel/library_call.hpp
//   exchange(regions and reductions...)     publishes and swaps
//   run(f) -> run_result                    f enqueues launches and exchanges; returns when done
//
// launch, call and exchange only enqueue, in the order of each device's stream. The real and the
// simulated node also have
//
//   trace(device, kernel, grid) -> trace_totals   runs a kernel at once and counts its accesses
//                                                 (kernel/trace.hpp)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "interlace/kernel.hpp"
#include "kernel/launch_work.hpp"
#include "kernel/library_call.hpp"
#include "kernel/mapping.hpp"
#include "kernel/mechanism.hpp"
#include "kernel/observation.hpp"
#include "kernel/remote_loads.hpp"
#include "kernel/variants.hpp"

namespace interlace::kernel {

struct region_options {
  std::vector<std::uint64_t> boundaries;  // device d owns [boundaries[d], boundaries[d + 1])
  // For each owner, who receives what; empty: every other device receives everything.
  std::vector<std::vector<subscriber_range>> subscribers;
  // Of each 2^reader_shift elements, the other devices whose kernels read them (bit d: device d),
  // all of them subscribers. Kernels' stores go to these alone; copies move whole ranges. Empty:
  // all subscribers. Page subscriptions (gps) take the place of it.
  std::vector<std::uint16_t> readers;
  std::uint32_t reader_shift = 0;
  interlace::kernel::mechanism mechanism = mechanism::bulk_copy;
  // Kernel launches of one epoch under `split`.
  std::uint32_t split_ranges = row_of(mechanism_parameter::ranges).initial;
  // Where chunks are tracked. One launch an epoch writes the region then, on each device.
  std::uint64_t chunk_bytes = row_of(mechanism_parameter::chunk_bytes).initial;  // the most
  // Of the polling agent, or of each kernel under `device-launch`.
  std::uint32_t agent_threads = row_of(mechanism_parameter::agent_threads).initial;
  interlace::kernel::agent_copy agent_copy = agent_copy::vectors;
  // False, where chunks are tracked: everything is done but for the transfers, and on a simulated
  // machine chunks reach their devices without them. What remains is what tracking and starting
  // transfers cost (PROACT, section V-C); on GPUs, what tracking costs, and replicas are not valid.
  bool transfers = true;
  interlace::kernel::collective collective = interlace::kernel::collective::best_fitting;  // nccl
  memory_hint hint = memory_hint::none;  // of unified-memory
};

// Whether kernels look at `readers` when they store.
bool stores_to_readers(const region_options& options);

struct exchangeable {
  std::uint32_t id = 0;
};
template <class T>
struct region : exchangeable {};
template <class T, combine Op>
struct reduction : exchangeable {};

// Elements [begin, end) go from their owner to another device, once an epoch.
struct delivery {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct region_state {
  bool is_reduction = false;
  std::uint32_t element_bytes = 0;
  std::uint64_t elements = 0;
  region_options options;
  std::uint32_t parity = 0;  // buffers[device][parity] is the front
  std::array<std::array<void*, 2>, max_devices> buffers{};
  // Of regions whose stores go to readers: options.readers in each device's memory.
  std::array<const std::uint16_t*, max_devices> readers{};

  // Reductions: buffers[device][0] is the front, partials[device] what kernels accumulate in.
  std::uint32_t copies = 1;
  std::array<void*, max_devices> partials{};

  std::uint32_t devices() const {
    return static_cast<std::uint32_t>(options.boundaries.size()) - 1;
  }
  // Whether a device has an element's last value behind an exchange under every mechanism.
  bool receives(std::uint32_t device, std::uint64_t element) const;
  // What the exchange delivers, cut to `parts` of the owner where given.
  std::vector<delivery> deliveries() const;
  std::vector<delivery> deliveries(std::uint32_t owner,
                                   const std::vector<element_range>& complete) const;
};

// Throws unless a front of the region or reduction has so many elements.
void check_front(std::uint64_t elements, const region_state& state);

// Check what is asked for and fill the state, without memory.
region_state make_region_state(region_options options, std::uint32_t element_bytes,
                               std::uint32_t devices);
region_state make_reduction_state(std::uint64_t elements, std::uint32_t copies,
                                  std::uint32_t element_bytes);

template <class T>
replicated<T> make_view(const region_state& state, std::uint32_t id, std::uint32_t device) {
  replicated<T> view;
  view.front = static_cast<const T*>(state.buffers[device][state.parity]);
  view.back = static_cast<T*>(state.buffers[device][state.parity ^ 1U]);
  view.size = state.elements;
  view.region = id;
  view.device = device;
  const std::uint32_t others = ((1U << state.devices()) - 1U) & ~(1U << device);
  if (state.options.subscribers.empty()) {
    view.everybody = others;
  } else {
    for (const subscriber_range& r : state.options.subscribers[device]) {
      view.ranges[view.range_count++] = r;
    }
  }
  view.readers = state.readers[device];
  view.reader_shift = state.options.reader_shift;
  for (std::uint32_t peer = 0; peer < state.devices(); ++peer) {
    view.peer_back[peer] = static_cast<T*>(state.buffers[peer][state.parity ^ 1U]);
  }
  return view;
}

template <class T, combine Op>
reduced<T, Op> make_reduced_view(const region_state& state, std::uint32_t device) {
  return {static_cast<const T*>(state.buffers[device][0]), static_cast<T*>(state.partials[device]),
          state.elements, state.copies};
}

// Combines all devices' partials, device by device and copy by copy, into every front, and resets
// them. For nodes whose memory the CPU reaches.
template <class T, combine Op>
void fold_partials(region_state& state, std::uint32_t devices) {
  for (std::uint64_t i = 0; i < state.elements; ++i) {
    T total = combine_identity<T, Op>();
    for (std::uint32_t d = 0; d < devices; ++d) {
      T* partial = static_cast<T*>(state.partials[d]);
      for (std::uint32_t c = 0; c < state.copies; ++c) {
        T& slot = partial[c * state.elements + i];
        total = combine_values<T, Op>(total, slot);
        slot = combine_identity<T, Op>();
      }
    }
    for (std::uint32_t d = 0; d < devices; ++d) static_cast<T*>(state.buffers[d][0])[i] = total;
  }
}

// Bytes on the wires of the node, counted where they leave a device (or, for replies, the memory
// that sends them).
struct wire_bytes {
  double useful = 0;    // payload that a kernel of the receiver reads
  double protocol = 0;  // headers, framing, padding, flow control
  double wasted = 0;    // payload overwritten before the exchange, or never read
};

struct timeline_event {
  std::uint32_t device = 0;
  const char* track = "";  // "kernel", "copy", "exchange"
  std::string name;
  double start_s = 0;
  double end_s = 0;
};

// Stores of kernels to other devices. A store is what `inline` would send as one packet: the bytes
// of a warp in one line, a run on PCIe, a run of sectors on NVLink.
struct remote_store_counts {
  std::uint64_t stores = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, 8> sizes{};  // stores of 2^k to 2^(k + 1) - 1 bytes
  std::uint64_t packets = 0;             // that they became
  std::uint64_t wire = 0;                // bytes of those
  std::uint64_t overwritten = 0;         // bytes stored again before they were sent
  std::uint64_t flushes = 0;             // of a queue: windows, or lines of one that combines
  std::uint64_t subpackets = 0;          // runs of bytes with a sub-header
  std::uint64_t subheader_bytes = 0;
  // Why queues were flushed: a store outside of the window, above the payload, without a free
  // entry; a release; a load or an atomic to a line; a time without stores.
  std::array<std::uint64_t, 7> reasons{};
};

// Loads of kernels where some of the memory is other devices' (unified views). An access is a
// warp's instruction and one line that it touches.
struct remote_load_counts {
  std::uint64_t vector_accesses = 0;  // loads, stores and atomics but for scalar ones
  std::uint64_t scalar_accesses = 0;  // loads of one element for a warp, where scalar caches are
  std::uint64_t local = 0;            // vector loads
  std::uint64_t remote = 0;
  std::uint64_t hits = 0;           // of the remote ones, in the first-level caches
  std::uint64_t useful_bytes = 0;   // that lanes want of the lines of remote ones, by words of 4
  std::uint64_t local_stores = 0;   // and atomics
  std::uint64_t remote_stores = 0;  // and atomics
  std::uint64_t requests = 0;       // that went to other devices
  std::uint64_t reply_bytes = 0;    // payload of their replies
  std::uint64_t wire = 0;           // of requests and replies
  double mean_latency_s = 0;        // from the port of the GPU that asks until the reply is back
  std::uint64_t bypassed = 0;       // remote loads that did not look into the L1
  std::uint64_t mask_hits = 0;      // of those, served by an entry that fetches their pieces
  std::uint64_t mask_misses = 0;    // that had an entry of their line with other pieces
  std::uint64_t coalesced = 0;      // packets of pieces of several replies
  std::uint64_t timeouts = 0;       // of those, sent for want of more
  std::uint64_t pieces = 0;         // in them
  std::uint64_t cache_hits = 0;     // of the RDMA caches
  std::uint64_t cache_misses = 0;
  std::array<std::uint64_t, 32>
      by_words{};                     // remote ones, by the words of 4 that lanes want, less 1
  std::uint64_t coalesced_pages = 0;  // that are treated by themselves, so
  std::uint64_t cached_pages = 0;
  std::uint64_t migrated_pages = 0;
  std::uint64_t migrated_again = 0;     // of them, those that a GPU had been given before
  std::uint64_t delayed_touches = 0;    // first touches that moved no page
  std::uint64_t migration_batches = 0;  // of pages that moved together
  std::uint64_t l2_loads = 0;           // and atomics, that came to second-level caches
  std::uint64_t l2_hits = 0;            // of those, whose sectors were there or on their way
  double mean_wait_s = 0;  // of a load instruction, from its first line's issue to its last's end
  double mean_in_links_s = 0;  // of mean_latency_s, that of request and reply between the devices
  // Where addresses are translated. Every access is looked up in an L1 TLB once; a page that is
  // under way is a miss, and one that misses the L2 TLB is walked at the host.
  std::uint64_t tlb_hits = 0;
  std::uint64_t tlb_misses = 0;
  std::uint64_t l2_tlb_hits = 0;
  std::uint64_t l2_tlb_misses = 0;
  std::uint64_t walks = 0;
  std::uint64_t walk_wire = 0;  // bytes of requests and replies
  double mean_walk_s = 0;       // from a request until its answer; of a page that moves until then
  std::vector<remote_load_decision> decisions;  // of an engine, in their order
};

struct run_result {
  double time_s = 0;  // first launch to the last exchange's end
  double copy_s =
      0;  // part of it in which transfers were exposed, where they are behind the kernels
  bool wire_known = false;
  wire_bytes wire;
  std::vector<timeline_event> timeline;   // of the first epochs
  std::uint64_t accesses = 0;             // simulated (warp instruction, line) pairs
  std::uint64_t remote_transactions = 0;  // simulated packets of kernels' remote accesses
  remote_store_counts stores;             // simulated, of kernels
  remote_load_counts loads;               // simulated, of kernels; all 0 without unified arrays
  std::optional<observation> observed;    // simulated; over the node's whole life
  std::vector<launch_work> work;          // of each launch and call; host with checks
  std::vector<double> sent_bytes;         // that each exchange delivers; host with checks
  std::vector<double> epoch_s;            // from an exchange to the next; GPUs, run with detail
};

}  // namespace interlace::kernel
