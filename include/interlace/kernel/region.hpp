// The part of regions and reductions that all nodes have in common: who owns which elements, who
// subscribes to them, and which buffer is the front. Nodes add the memory and the movement of data.
//
// The interface of a node for workloads (interlace/kernel/cpu_node.hpp and interlace/host/node.hpp
// are its plainest implementations):
//
//   devices()                               GPUs
//   allocate<T>(device, n) -> local<T>      lives as long as the node; every byte 0xff
//   allocate_unified<T>(n [, page_placement]) -> unified<T>
//                                           one array whose pages (4 KiB simulated, 2 MiB on GPUs)
//                                           go to the devices in turn, or where
//                                           interlace/kernel/placement.hpp says; lives as long
//                                           as the node; every byte 0xff
//   upload(local<T> | unified<T>, values), download(local<T> | unified<T>) -> std::vector<T>
//   create_region<T>(region_options) -> region<T>
//   set_front(region, values)               fills both buffers of every replica
//   front(region, device) -> std::vector<T> the replica of one device
//   create_reduction<T, Op>(n, copies) -> reduction<T, Op>;  set_front(reduction, values);
//   front(reduction, device)
//   create_partition<T, Op>(region_options) -> partition<T, Op>
//                                           an array whose elements each have one owner
//   set_part(partition, device, values), part(partition, device) -> std::vector<T>
//                                           the elements that a device owns
//   view(region | reduction | partition, device)
//                                           what kernels take; valid until the next exchange
//   launch(device, kernel, grid)            a kernel that writes no region
//   launch(device, kernel, grid, region, block_mapping)
//   launch(device, kernel, grid, partition) a kernel that updates only this partition
//   launch_over(kernel, grid, block_placement)
//                                           one grid over all devices; each device runs some of the
//                                           blocks; B.index() and B.count() refer to the grid
//   call(device, library_call)              a sort, an FFT: see interlace/kernel/library_call.hpp
//   exchange(regions, reductions and partitions...)
//                                           publishes and swaps; combines all updates
//   run(f) -> run_result                    f enqueues launches and exchanges; returns when done
//
// launch, call and exchange only enqueue, in the order of each device's stream. The real and the
// simulated node also have
//
//   trace(device, kernel, grid) -> trace_totals   runs a kernel at once and counts its accesses
//                                                 (interlace/kernel/trace.hpp)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interlace/base/limits.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/launch_work.hpp"
#include "interlace/kernel/library_call.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/mechanism.hpp"
#include "interlace/kernel/observation.hpp"
#include "interlace/kernel/remote_loads.hpp"
#include "interlace/kernel/variants.hpp"

namespace interlace::kernel {

// The description of a region: who owns and who receives its elements, and the mechanism that moves
// them. create_region throws model_error if owners, subscribers and readers contradict each other.
// It throws usage_error if a mechanism's parameter is out of its bounds, or if the node lacks the
// mechanism.
struct region_options {
  std::vector<std::uint64_t> boundaries;  // device d owns [boundaries[d], boundaries[d + 1])
  // For each owner, ranges of its part and the devices that receive each range. If the list is
  // empty, every other device receives the whole part.
  std::vector<std::vector<subscriber_range>> subscribers;
  // For each group of 2^reader_shift elements, the other devices whose kernels read the group (bit
  // d stands for device d). These devices must be subscribers. Stores of kernels go only to these
  // devices, while copies move whole ranges. If the list is empty, stores go to all subscribers.
  // Page subscriptions (gps) replace this list.
  std::vector<std::uint16_t> readers;
  std::uint32_t reader_shift = 0;
  interlace::kernel::mechanism mechanism = mechanism::bulk_copy;
  // The number of kernel launches in one epoch, for the mechanism `split`.
  std::uint32_t split_ranges = row_of(mechanism_parameter::ranges).initial;
  // The largest size of a chunk. Only mechanisms that track chunks use it. With these mechanisms,
  // each device must write the region with a single launch in each epoch.
  std::uint64_t chunk_bytes = row_of(mechanism_parameter::chunk_bytes).initial;
  // The number of threads of the polling agent, or of each kernel that `device-launch` launches.
  std::uint32_t agent_threads = row_of(mechanism_parameter::agent_threads).initial;
  interlace::kernel::agent_copy agent_copy = agent_copy::vectors;
  // Only mechanisms that track chunks use `transfers`. If it is false, a run skips the transfers
  // and does everything else. On a simulated machine, the chunks of such a run reach their devices
  // at no cost. The run measures the cost of tracking chunks and of starting transfers (PROACT,
  // section V-C). On GPUs, such a run measures the cost of tracking alone, and the replicas are not
  // valid.
  bool transfers = true;
  // The operation by which NCCL delivers. Only the mechanism `nccl` uses it.
  interlace::kernel::collective collective = interlace::kernel::collective::best_fitting;
  memory_hint hint = memory_hint::none;  // for unified-memory only
  // For partitions with the mechanism `packed`: the size of a packet in bytes.
  std::uint32_t packet_bytes = 512;
  // For partitions with the mechanism `packed`: the number of updates that an owner can receive in
  // packets from every other device in an epoch. Further updates are sent one by one, without
  // packets. 0 means the number of the owner's elements.
  std::uint64_t queued_updates = 0;
  // The size of each queue of packets in bytes. If it is not 0, it replaces `queued_updates`.
  std::uint64_t queue_bytes = 0;
  bool combine_in_packets = true;  // whether updates of the same element are combined in a packet
  // The number of windows of each part. More windows need shared memory for more packets. 0 lets
  // the node decide: a node of GPUs gives windows to parts that do not fit in the L2, and other
  // nodes take one window.
  std::uint32_t update_windows = 0;
  // The most blocks of the owner's kernel that combines the updates of packets. 0 means 1024.
  std::uint32_t unpack_blocks = 0;
  // For partitions on GPUs: whether run() throws model_error, with the device, block and lane, if a
  // kernel updated an element beyond the array's end. Other nodes always check. Without this
  // option, GPUs drop such an update without an error.
  bool check_updates = false;
};

// Whether a kernel's store looks up `readers`.
bool stores_to_readers(const region_options& options);

// The handle of a region or a reduction. An exchange takes such handles. `id` counts from 0 on each
// node.
struct exchangeable {
  std::uint32_t id = 0;
};
// The handle of a region with elements of type T. The handle is valid as long as its node lives.
// Copies of the handle name the same region.
template <class T>
struct region : exchangeable {};
// The handle of a reduction that combines elements of type T by `Op`. The handle is valid as long
// as its node lives. Copies of the handle name the same reduction.
template <class T, combine Op>
struct reduction : exchangeable {};
// The handle of a partition. A partition is an array in which each element has one owner. Kernels
// on all devices update its elements by `Op`. The handle is valid as long as its node lives.
template <class T, combine Op>
struct partition : exchangeable {};

// Elements [begin, end) that go from their owner to another device once in each epoch.
struct delivery {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The state of a region or a reduction on a node: its options, its memory on each device, and the
// buffer that is now the front.
struct region_state {
  bool is_reduction = false;
  std::uint32_t element_bytes = 0;
  std::uint64_t elements = 0;
  region_options options;
  std::uint32_t parity = 0;  // buffers[device][parity] is the front
  std::array<std::array<void*, 2>, max_devices> buffers{};
  // For regions whose stores go to readers: the list options.readers in each device's memory.
  std::array<const std::uint16_t*, max_devices> readers{};

  // For reductions only: buffers[device][0] is the front, and kernels accumulate in
  // partials[device].
  std::uint32_t copies = 1;
  std::array<void*, max_devices> partials{};

  // For partitions only (interlace/kernel/partition.hpp): buffers[device][0] is the device's part.
  // partials[device] has all elements and accumulates the device's contributions. Contributions of
  // other devices arrive in inboxes[device][parity]. With the mechanism `packed`, an inbox holds
  // queues of packets. sent[device] counts the device's packets: it has a number for each parity
  // and owner.
  bool is_partition = false;
  std::array<std::array<void*, 2>, max_devices> inboxes{};
  std::array<std::uint32_t*, max_devices> sent{};
  std::array<void*, max_devices> outboxes{};  // queues that an exchange moves to the inboxes
  std::uint32_t queued_packets = 0;           // number of packets for which each queue has room
  std::uint32_t window_shift = 0;             // log2 of the number of elements of a window
  std::uint32_t update_windows = 1;           // number of windows of the largest part
  // The memory in which kernels of each device note an update beyond the array's end; null if
  // updates are not checked.
  std::array<update_mistake*, max_devices> mistakes{};

  // Whether this is a region, and neither a reduction nor a partition.
  bool is_region() const { return !is_reduction && !is_partition; }
  // The number of elements that a device owns.
  std::uint64_t part_size(std::uint32_t device) const {
    return options.boundaries[device + 1] - options.boundaries[device];
  }

  // The number of devices that share the region.
  std::uint32_t devices() const {
    return static_cast<std::uint32_t>(options.boundaries.size()) - 1;
  }
  // Whether the device has the element's current value after an exchange, no matter which mechanism
  // the region uses.
  bool receives(std::uint32_t device, std::uint64_t element) const;
  // All deliveries of an exchange, owner by owner.
  std::vector<delivery> deliveries() const;
  // The deliveries of one owner, limited to the ranges `complete` of its part.
  std::vector<delivery> deliveries(std::uint32_t owner,
                                   const std::vector<element_range>& complete) const;
};

// Throws an error unless the front of the region or reduction has `elements` elements.
void check_front(std::uint64_t elements, const region_state& state);

// Checks the options and fills the state of a region whose elements have `element_bytes` bytes, but
// allocates no memory. Throws model_error if owners, subscribers and readers contradict each other.
// Throws usage_error if a mechanism's parameter is out of its bounds.
region_state make_region_state(region_options options, std::uint32_t element_bytes,
                               std::uint32_t devices);
// Fills the state of a reduction of `elements` elements with `copies` places for each element, but
// allocates no memory. Throws model_error if `elements` or `copies` is 0.
region_state make_reduction_state(std::uint64_t elements, std::uint32_t copies,
                                  std::uint32_t element_bytes);

// The view of region `id` for kernels of `device`. It is valid until the next exchange of the
// region.
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

// The view of a reduction for kernels of `device`.
template <class T, combine Op>
reduced<T, Op> make_reduced_view(const region_state& state, std::uint32_t device) {
  return {static_cast<const T*>(state.buffers[device][0]), static_cast<T*>(state.partials[device]),
          state.elements, state.copies};
}

// Combines the partial results of all devices, device by device and copy by copy. Stores the
// results in every front and resets the partial results. Works only on nodes whose memory the CPU
// can access.
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

// The bytes on the wires of the node. Bytes are counted where they leave a device. A reply leaves
// the device whose memory is read.
struct wire_bytes {
  double useful = 0;    // payload that a kernel of the receiver reads
  double protocol = 0;  // headers, framing, padding, flow control
  double wasted = 0;    // payload that is overwritten before the exchange, or never read
};

// A span of work on one track of a device. Times are in seconds from the start of the run.
struct timeline_event {
  std::uint32_t device = 0;
  const char* track = "";  // "kernel", "copy", "exchange"
  std::string name;
  double start_s = 0;
  double end_s = 0;
};

// The stores of kernels to other devices. One store is the data that `inline` would send as one
// packet: the bytes that a warp writes to one line. On PCIe, each run of bytes in the line counts
// as a separate store. On NVLink, each run of sectors in the line counts as a separate store.
struct remote_store_counts {
  std::uint64_t stores = 0;
  std::uint64_t bytes = 0;
  // Element k counts stores of 2^k to 2^(k + 1) - 1 bytes.
  std::array<std::uint64_t, 8> sizes{};
  std::uint64_t packets = 0;      // packets that carried the stores
  std::uint64_t wire = 0;         // number of all bytes in these packets
  std::uint64_t overwritten = 0;  // number of bytes that were stored again before they were sent
  // number of flushes of a queue's windows, or of its lines if the queue combines lines
  std::uint64_t flushes = 0;
  std::uint64_t subpackets = 0;  // number of runs of bytes that have a sub-header
  std::uint64_t subheader_bytes = 0;
  // The number of flushes for each reason. The reasons have this order: a store outside of the
  // window, a store beyond the payload, no free entry, a release, a load from a line, an atomic to
  // a line, a time without stores.
  std::array<std::uint64_t, 7> reasons{};
};

// The loads of kernels on machines where part of the memory belongs to other devices (unified
// views). One access is one line that one instruction of a warp touches.
struct remote_load_counts {
  std::uint64_t vector_accesses = 0;  // loads, stores and atomics other than scalar accesses
  // Loads of one element for a whole warp, on machines with scalar caches.
  std::uint64_t scalar_accesses = 0;
  std::uint64_t local = 0;  // vector loads of local memory
  std::uint64_t remote = 0;
  std::uint64_t hits = 0;  // remote loads that hit in first-level caches
  // The bytes of remote lines that lanes read. Each 4-byte word that lanes read counts as 4 bytes.
  std::uint64_t useful_bytes = 0;
  std::uint64_t local_stores = 0;   // stores to local memory, and atomics on local memory
  std::uint64_t remote_stores = 0;  // stores to remote memory, and atomics on remote memory
  std::uint64_t requests = 0;       // requests that were sent to other devices
  std::uint64_t reply_bytes = 0;    // payload of the replies to these requests
  std::uint64_t wire = 0;           // bytes of requests and replies
  double mean_latency_s = 0;        // mean time from the requesting GPU's port until the reply
  std::uint64_t bypassed = 0;       // remote loads that did not look up the L1
  // Bypassed loads whose pieces an MSHR entry was already fetching.
  std::uint64_t mask_hits = 0;
  std::uint64_t mask_misses = 0;  // bypassed loads whose line had an MSHR entry for other pieces
  std::uint64_t coalesced = 0;    // packets with pieces of several replies
  std::uint64_t timeouts = 0;     // coalesced packets that a timeout sent
  std::uint64_t pieces = 0;       // pieces in coalesced packets
  std::uint64_t cache_hits = 0;   // hits in the RDMA caches
  std::uint64_t cache_misses = 0;
  // number of remote loads; the index is the number of 4-byte words that the lanes read, minus 1
  std::array<std::uint64_t, 32> by_words{};
  // `coalesced_pages` and `cached_pages` count the pages for which the decision engine chose the
  // optimisation page by page. `migrated_pages` counts the pages that moved.
  std::uint64_t coalesced_pages = 0;
  std::uint64_t cached_pages = 0;
  std::uint64_t migrated_pages = 0;
  std::uint64_t migrated_again = 0;   // migrated pages that had already been given to a GPU before
  std::uint64_t delayed_touches = 0;  // first touches that moved no page
  std::uint64_t migration_batches = 0;  // batches of pages that moved together
  std::uint64_t l2_loads = 0;           // loads and atomics that reached second-level caches
  // The number of the `l2_loads` that found their sectors present or in flight.
  std::uint64_t l2_hits = 0;
  // The mean time from the issue of a load instruction's first line to the arrival of its last
  // line.
  double mean_wait_s = 0;
  // The part of mean_latency_s in which the request and the reply are on the links between the
  // devices.
  double mean_in_links_s = 0;
  // Counts on machines with address translation. Every access is looked up once in an L1 TLB. An
  // access whose page is in flight counts as a miss. The host walks the page tables for a page that
  // misses in the L2 TLB.
  std::uint64_t tlb_hits = 0;
  std::uint64_t tlb_misses = 0;
  std::uint64_t l2_tlb_hits = 0;
  std::uint64_t l2_tlb_misses = 0;
  std::uint64_t walks = 0;
  std::uint64_t walk_wire = 0;  // bytes of requests and replies
  // The mean time of a walk, from the request to the answer. If the page is moving, this time
  // includes the move.
  double mean_walk_s = 0;
  std::vector<remote_load_decision> decisions;  // decisions of a decision engine, in order
};

// The report of a run. Times are in seconds. Every node fills only the members that it can know.
struct run_result {
  double time_s = 0;  // time from the first launch to the end of the last exchange
  // if transfers follow the kernels: the part of time_s in which only transfers run
  double copy_s = 0;
  bool wire_known = false;
  wire_bytes wire;
  std::vector<timeline_event> timeline;  // events of the first epochs
  // Simulated accesses; each is a pair of a warp instruction and a line.
  std::uint64_t accesses = 0;
  std::uint64_t remote_transactions = 0;  // simulated packets of the remote accesses of kernels
  remote_store_counts stores;             // stores of simulated kernels
  remote_load_counts loads;             // loads of simulated kernels; all 0 without unified arrays
  std::optional<observation> observed;  // only on simulated nodes; covers the node's whole life
  std::vector<launch_work> work;   // one for each launch and call; only on a host node with checks
  std::vector<double> sent_bytes;  // one value for each exchange; only on a host node with checks
  // The time of each epoch, from one exchange to the next. Only runs with `detail` on GPUs have
  // these times.
  std::vector<double> epoch_s;
};

}  // namespace interlace::kernel
