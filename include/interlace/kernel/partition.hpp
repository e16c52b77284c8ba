// The part of partitions that all nodes have in common: their memory, the views for kernels, and
// the kernels that combine arrived updates with the owner's part.
//
// A mechanism decides where kernels combine an update of another device's element:
//
//   updates_owner     in the owner's memory
//   updates_partials  in an array of contributions of all elements, in the device's own memory. The
//                     exchange copies the contributions to the owners' inboxes
//   packs_updates     nowhere: warps fill packets in shared memory, and store full packets in a
//                     queue at the owner. A packet for which the queue has no room leaves as single
//                     updates of the owner's memory, so no kernel ever waits for room
//   moves_packets     nowhere: warps fill packets as with packs_updates. But the queues are in the
//                     device's own memory, and the exchange moves all packets, full or not
//
// Inboxes, queues and counters exist twice, for even and odd epochs. A device can begin the next
// epoch before an owner has combined the updates that the last exchange delivered. But a device can
// never be two epochs ahead of an owner.
//
// If a part is larger than the L2, each update loads a line of memory and writes it back. Such a
// part can have windows (`update_windows`). With windows, all updates of a packet belong to one
// window, and the owner combines one window after another (propagation blocking). With windows, a
// device also packs updates of its own elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::kernel {

// Whether the mechanism supports partitions.
constexpr bool takes_updates(mechanism m) {
  const mechanism_row& row = row_of(m);
  return row.updates_owner || row.updates_partials || row.packs_updates || row.moves_packets;
}

// Whether kernels pack updates with this mechanism.
constexpr bool packs_updates(const mechanism_row& row) {
  return row.packs_updates || row.moves_packets;
}

// Checks the options and fills the state of a partition, but allocates no memory. Throws
// usage_error if the mechanism does not support partitions, or if a parameter is out of its bounds.
// Throws model_error if the boundaries of the parts are not valid.
region_state make_partition_state(region_options options, std::uint32_t element_bytes,
                                  combine operation, std::uint32_t devices);

// The number of windows that a part needs if a GPU's L2 has `cache_bytes` bytes. A part that fits
// in the L2 is one window. Otherwise a window takes at most 60 % of the L2, because packets pass
// through the L2, too. Returns fewer windows if so many packets of a warp need too much shared
// memory, and 1 if these fewer windows would not fit in the L2.
std::uint32_t windows_in_cache(const region_options& options, std::uint32_t element_bytes,
                               std::uint64_t cache_bytes);

// The number of bytes that devices need in addition to their parts.
std::uint64_t partials_bytes(const region_state& state);
std::uint64_t inbox_bytes(const region_state& state, std::uint32_t device);
std::uint64_t outbox_bytes(const region_state& state);
std::uint64_t counters_bytes(const region_state& state);

// The number of bytes that packets take in a block's shared memory.
std::uint32_t packing_bytes(const region_state& state, std::uint32_t threads,
                            std::uint32_t warp_width);

// Throws usage_error if a block of this shape, with its own shared memory and its packets, needs
// more than `room` bytes of shared memory. The error says what to change.
void check_packing(const region_state& state, grid shape, std::uint32_t warp_width,
                   std::uint64_t room, std::uint32_t gpu);

// A part of a device's contributions, and the place for it in the inbox of the owner.
struct contribution {
  std::uint32_t to = 0;
  const void* from = nullptr;
  void* inbox = nullptr;
  std::uint64_t bytes = 0;
};
// The contributions of a device in the current epoch. The contributions for the next device come
// first. The list is empty in runs without transfers, and the results of such runs are not valid.
std::vector<contribution> contributions_of(const region_state& state, std::uint32_t device);

// A queue of packets in a device's outbox, and the place for it in the inbox of the owner.
using queue_move = contribution;
// The queues that the exchange moves for a device. `parity` selects one of the two inboxes.
std::vector<queue_move> queue_moves_of(const region_state& state, std::uint32_t device,
                                       std::uint32_t parity);

// The number of packets that a warp fills at a time.
std::uint32_t packing_bins(const region_state& state);

// The queues of a device's packets in the current epoch.
update_queues queues_of(const region_state& state, std::uint32_t device);

// The view of a partition for kernels of `device`. `counts` may be null.
template <class T, combine Op>
partitioned<T, Op> make_partitioned_view(const region_state& state, std::uint32_t device,
                                         update_counts* counts) {
  const mechanism_row& how = row_of(state.options.mechanism);
  partitioned<T, Op> view;
  view.size = state.elements;
  view.device = device;
  view.devices = state.devices();
  view.counts = counts;
  view.mistake = state.mistakes[device];
  std::copy(state.options.boundaries.begin(), state.options.boundaries.end(), view.boundaries);
  for (std::uint32_t d = 0; d < view.devices; ++d) {
    view.parts[d] = how.updates_partials && d != device
                        ? static_cast<T*>(state.partials[device]) + view.boundaries[d]
                        : static_cast<T*>(state.buffers[d][0]);
  }
  if (packs_updates(how) && view.devices > 1) view.queues = queues_of(state, device);
  return view;
}

inline constexpr std::uint32_t delivery_threads = 256;
inline constexpr std::uint64_t most_delivery_blocks = 1024;

// Combines a device's part with the contributions in its inbox. Resets the device's own
// contributions.
template <class T, combine Op>
struct combine_contributions {
  static constexpr std::uint32_t threads = delivery_threads;

  local<T> part;
  local<const T> inbox;     // [device][element of the part]
  local<T> partials;        // [element of the whole array]
  std::uint64_t first = 0;  // first element of the part
  std::uint32_t device = 0;
  std::uint32_t devices = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.global_index(), part.size, lane.global_count())) {
        T value = lane.load(part, i);
        for (auto d : lane.range(0U, devices)) {
          if (d == device) continue;
          value = combine_values<T, Op>(value, lane.load(inbox, d * part.size + i));
        }
        lane.store(part, i, value);
        lane.compute(operation::integer, 6 * devices);
      }
      const std::uint64_t others = partials.size - part.size;
      for (auto i : lane.range(lane.global_index(), others, lane.global_count())) {
        lane.store(partials, i < first ? i : i + part.size, combine_identity<T, Op>());
        lane.compute(operation::integer, 4);
      }
    });
  }
};

// Combines a device's part with the updates in its queues. One warp handles each packet. If the
// part has windows, a launch combines the updates of one window. Resets the device's own counters
// for the next epoch.
template <class T, combine Op>
struct unpack_updates {
  static constexpr std::uint32_t threads = delivery_threads;

  partitioned<T, Op> part;  // a view with one owner, which has only the device's part
  std::uint32_t device = 0;
  std::uint32_t devices = 0;
  std::uint32_t packets = 0;  // number of packets for which each queue has room
  std::uint32_t packet_words = 0;
  std::uint32_t offsets_at = 0;  // offset in a packet, in words
  std::uint32_t windows = 1;
  std::uint32_t window = 0;                     // number of this launch's window
  const std::uint32_t* queues = nullptr;        // queues of the device, ordered by sender
  const std::uint32_t* sent[max_devices] = {};  // for each sender, its counters, ordered by owner
  local<std::uint32_t> next;                    // the device's own counters, ordered by owner

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    if (block.index() == 0) {
      block.each([&](auto lane) {
        if (lane.index() < devices) lane.store(next, lane.index(), 0U);
      });
    }
    const std::uint64_t warps = block.threads() / block.warp_width();
    auto matches = lane_state<bool>(block);
    // With windows, the device's own packets come first.
    for (std::uint32_t step = windows == 1 ? 1 : 0; step < devices; ++step) {
      const std::uint32_t from = (device + step) % devices;
      const std::uint32_t came =
          block.load(local<const std::uint32_t>{sent[from], devices}, device);
      const std::uint32_t count = came < packets ? came : packets;
      const std::uint32_t* queue = queues + std::uint64_t{from} * packets * packet_words;
      block.each_warp([&](auto warp) {
        const std::uint64_t first = block.index() * warps + warp.index();
        if (windows == 1) {
          for (std::uint64_t p = first; p < count; p += block.count() * warps) {
            unpack(block, warp, queue + p * packet_words);
          }
          return;
        }
        // Each lane looks up the window of one packet.
        const std::uint32_t width = block.warp_width();
        for (std::uint64_t p = first * width; p < count; p += block.count() * warps * width) {
          warp.each([&](auto lane) {
            const std::uint64_t own = p + lane.in_warp();
            const local<const std::uint32_t> words{queue + own * packet_words, packet_words};
            matches[lane] = own < count && lane.load(words, 1) == window;
            lane.compute(operation::integer, 8);
          });
          for (std::uint64_t rest = warp.ballot(matches); rest != 0; rest &= rest - 1) {
            unpack(block, warp, queue + (p + lowest_lane(rest)) * packet_words);
          }
        }
      });
    }
  }

 private:
  template <class Block, class Warp>
  INTERLACE_KERNEL void unpack(Block& block, const Warp& warp, const std::uint32_t* at) const {
    const local<const std::uint32_t> words{at, packet_words};
    const std::uint32_t updates = warp.load(words, 0);
    const local<const T> values{reinterpret_cast<const T*>(at + 4), updates};
    warp.each([&](auto lane) {
      for (auto k : lane.range(lane.in_warp(), updates, block.warp_width())) {
        const auto offset = lane.load_index(words, offsets_at + k);
        lane.update(part, offset, lane.load(values, k));
        lane.compute(operation::integer, 8);
      }
    });
  }
};

// Combines all contributions with the owners' parts at once, and resets the contributions. Works
// only on nodes whose memory the CPU can access.
template <class T, combine Op>
void fold_contributions(region_state& state, std::uint32_t devices) {
  for (std::uint32_t owner = 0; owner < devices && devices > 1; ++owner) {
    T* part = static_cast<T*>(state.buffers[owner][0]);
    const std::uint64_t first = state.options.boundaries[owner];
    for (std::uint32_t d = 0; d < devices; ++d) {
      if (d == owner) continue;
      T* partial = static_cast<T*>(state.partials[d]) + first;
      for (std::uint64_t i = 0; i < state.part_size(owner); ++i) {
        part[i] = combine_values<T, Op>(part[i], partial[i]);
        partial[i] = combine_identity<T, Op>();
      }
    }
  }
}

// Enqueues the kernels that combine the delivered updates with a device's part. `parity` is the
// parity of the epoch that the exchange ended.
template <class T, combine Op, class Node>
void deliver_updates(Node& node, const region_state& state, std::uint32_t device,
                     std::uint32_t parity) {
  const mechanism_row& how = row_of(state.options.mechanism);
  const std::uint32_t devices = state.devices();
  if (devices == 1 || how.bound) return;
  T* part = static_cast<T*>(state.buffers[device][0]);
  const std::uint64_t size = state.part_size(device);
  const auto blocks_for = [](std::uint64_t lanes) {
    return std::clamp<std::uint64_t>((lanes + delivery_threads - 1) / delivery_threads, 1,
                                     most_delivery_blocks);
  };
  if (packs_updates(how)) {
    unpack_updates<T, Op> k;
    k.part.size = size;
    k.part.boundaries[1] = size;
    k.part.parts[0] = part;
    k.device = device;
    k.devices = devices;
    k.packets = state.queued_packets;
    k.packet_words = state.options.packet_bytes / 4;
    update_queues queues;
    queues.packet_bytes = state.options.packet_bytes;
    k.offsets_at = queues.offsets_at(sizeof(T)) / 4;
    k.queues = static_cast<const std::uint32_t*>(state.inboxes[device][parity]);
    for (std::uint32_t d = 0; d < devices; ++d) k.sent[d] = state.sent[d] + parity * devices;
    k.next = {state.sent[device] + (parity ^ 1U) * devices, devices};
    k.windows = state.update_windows;
    const std::uint64_t most = state.options.unpack_blocks == 0
                                   ? most_delivery_blocks
                                   : std::uint64_t{state.options.unpack_blocks};
    const std::uint64_t blocks =
        std::min(blocks_for(std::uint64_t{32} * state.queued_packets), most);
    for (k.window = 0; k.window < k.windows; ++k.window) {
      node.launch(device, k, {blocks, delivery_threads});
    }
  }
  if constexpr (Op != combine::store) {
    if (!how.updates_partials) return;
    const combine_contributions<T, Op> k{
        {part, size},
        {static_cast<const T*>(state.inboxes[device][parity]), size * devices},
        {static_cast<T*>(state.partials[device]), state.elements},
        state.options.boundaries[device],
        device,
        devices};
    node.launch(device, k, {blocks_for(state.elements), delivery_threads});
  }
}

}  // namespace interlace::kernel
