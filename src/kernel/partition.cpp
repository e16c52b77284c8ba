#include "interlace/kernel/partition.hpp"

#include <bit>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/packing_table.hpp"

namespace interlace::kernel {

namespace {

void check_operation(const mechanism_row& how, combine operation) {
  if (operation == combine::store && how.updates_partials) {
    throw usage_error(std::string(how.name) +
                      " combines contributions, and stores leave nothing to combine; take " +
                      mechanisms_with(&mechanism_row::packs_updates));
  }
}

void check_packets(const region_options& o, std::uint32_t element_bytes) {
  constexpr std::uint32_t least = 128;
  constexpr std::uint32_t most = 4096;
  if (o.packet_bytes < least || o.packet_bytes > most || o.packet_bytes % 128 != 0) {
    throw usage_error("packets of " + std::to_string(o.packet_bytes) +
                      " bytes are not possible; give a multiple of 128 from 128 to 4096");
  }
  if (o.queue_bytes != 0 && o.queue_bytes < o.packet_bytes) {
    throw usage_error("a queue of " + std::to_string(o.queue_bytes) +
                      " bytes has no room for a packet of " + std::to_string(o.packet_bytes) +
                      " bytes; take larger queues (queue_bytes) or smaller packets");
  }
  const std::size_t devices = o.boundaries.size() - 1;
  if (o.update_windows > most_bins / devices) {
    throw usage_error(std::to_string(o.update_windows) + " windows for each of " +
                      std::to_string(devices) + " parts are not possible; give 1 to " +
                      std::to_string(most_bins / devices) +
                      ", because a warp fills a packet for each window");
  }
  for (std::size_t d = 0; d < devices; ++d) {
    if (o.boundaries[d + 1] - o.boundaries[d] <= std::numeric_limits<std::uint32_t>::max())
      continue;
    throw usage_error("device " + std::to_string(d) + " owns " +
                      std::to_string(o.boundaries[d + 1] - o.boundaries[d]) +
                      " elements; packed updates reach 4294967295 elements of " +
                      std::to_string(element_bytes) + " bytes, so take more devices");
  }
}

std::uint64_t largest_part(const region_options& o) {
  std::uint64_t largest = 0;
  for (std::size_t d = 0; d + 1 < o.boundaries.size(); ++d)
    largest = std::max(largest, o.boundaries[d + 1] - o.boundaries[d]);
  return largest;
}

}  // namespace

std::uint32_t windows_in_cache(const region_options& options, std::uint32_t element_bytes,
                               std::uint64_t cache_bytes) {
  constexpr std::uint64_t most_bytes = 8192;  // the most bytes of all packets of a warp
  const std::uint64_t part = largest_part(options);
  if (cache_bytes == 0 || part * element_bytes <= cache_bytes) return 1;
  const std::uint64_t devices = options.boundaries.size() - 1;
  const std::uint64_t most =
      std::min<std::uint64_t>(most_bins, most_bytes / options.packet_bytes) / devices;
  const std::uint64_t window =
      std::bit_floor(std::max<std::uint64_t>(cache_bytes * 3 / 5 / element_bytes, 1));
  const std::uint64_t count = std::min((part + window - 1) / window, most);
  // Windows that do not fit in the L2 gain little.
  if (count < 2 || std::bit_ceil((part - 1) / count + 1) * element_bytes > cache_bytes) return 1;
  return static_cast<std::uint32_t>(count);
}

region_state make_partition_state(region_options options, std::uint32_t element_bytes,
                                  combine operation, std::uint32_t devices) {
  const mechanism_row& how = row_of(options.mechanism);
  if (!takes_updates(options.mechanism)) {
    throw usage_error(std::string(how.name) + " cannot send updates of partitioned arrays; use " +
                      mechanisms_with(&mechanism_row::updates_owner) + ", or " +
                      mechanisms_with(&mechanism_row::packs_updates));
  }
  if (!options.transfers && !how.updates_partials) {
    throw usage_error(
        std::string(how.name) +
        " tracks no chunks, so a run without transfers does nothing; use another mechanism");
  }
  if (devices > 1) check_operation(how, operation);
  if (options.boundaries.size() != devices + std::size_t{1} || options.boundaries.front() != 0 ||
      !std::is_sorted(options.boundaries.begin(), options.boundaries.end()) ||
      options.boundaries.back() == 0) {
    throw model_error(
        "a partition needs elements, and ascending boundaries from 0, one boundary more than "
        "devices");
  }
  if (packs_updates(how)) check_packets(options, element_bytes);
  region_state state;
  state.is_partition = true;
  state.element_bytes = element_bytes;
  state.elements = options.boundaries.back();
  state.options = std::move(options);
  if (packs_updates(how)) {
    const std::uint64_t largest = largest_part(state.options);
    const std::uint64_t updates =
        state.options.queued_updates == 0 ? largest : state.options.queued_updates;
    const std::uint64_t window =
        std::bit_ceil((largest - 1) / std::max(state.options.update_windows, 1U) + 1);
    state.window_shift = static_cast<std::uint32_t>(std::countr_zero(window));
    state.update_windows = static_cast<std::uint32_t>(((largest - 1) >> state.window_shift) + 1);
    update_queues queues;
    queues.packet_bytes = state.options.packet_bytes;
    const std::uint64_t capacity = queues.capacity(element_bytes);
    const std::uint64_t packets = state.options.queue_bytes == 0
                                      ? (updates + capacity - 1) / capacity
                                      : state.options.queue_bytes / state.options.packet_bytes;
    state.queued_packets = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(packets, std::numeric_limits<std::int32_t>::max()));
  }
  return state;
}

std::uint64_t partials_bytes(const region_state& state) {
  return row_of(state.options.mechanism).updates_partials ? state.elements * state.element_bytes
                                                          : 0;
}

std::uint64_t inbox_bytes(const region_state& state, std::uint32_t device) {
  const mechanism_row& how = row_of(state.options.mechanism);
  if (how.updates_partials && !how.bound) {
    return state.devices() * state.part_size(device) * state.element_bytes;
  }
  return std::uint64_t{state.devices()} * state.queued_packets * state.options.packet_bytes;
}

std::uint64_t outbox_bytes(const region_state& state) {
  return row_of(state.options.mechanism).moves_packets
             ? std::uint64_t{state.devices()} * state.queued_packets * state.options.packet_bytes
             : 0;
}

std::uint64_t counters_bytes(const region_state& state) {
  return packs_updates(row_of(state.options.mechanism))
             ? std::uint64_t{2} * state.devices() * sizeof(std::uint32_t)
             : 0;
}

std::uint32_t packing_bytes(const region_state& state, std::uint32_t threads,
                            std::uint32_t warp_width) {
  if (!packs_updates(row_of(state.options.mechanism)) || state.devices() == 1) return 0;
  const std::uint32_t warps = (threads + warp_width - 1) / warp_width;
  return warps * packing_bytes_of_warp(packing_bins(state), state.options.packet_bytes);
}

void check_packing(const region_state& state, grid shape, std::uint32_t warp_width,
                   std::uint64_t room, std::uint32_t gpu) {
  const std::uint32_t packets = packing_bytes(state, shape.threads, warp_width);
  if (std::uint64_t{shape.shared_bytes} + packets <= room) return;
  throw usage_error("a block of " + std::to_string(shape.threads) + " threads needs " +
                    std::to_string(packets) + " bytes of shared memory for packets of " +
                    std::to_string(state.options.packet_bytes) + " bytes, one for each of " +
                    std::to_string(packing_bins(state)) + " windows, and " +
                    std::to_string(shape.shared_bytes) + " bytes of its own; a block of GPU " +
                    std::to_string(gpu) + " has " + std::to_string(room) +
                    " bytes, so take smaller packets (packet_bytes), fewer windows "
                    "(update_windows) or fewer threads");
}

std::uint32_t packing_bins(const region_state& state) {
  return state.devices() * state.update_windows;
}

update_queues queues_of(const region_state& state, std::uint32_t device) {
  update_queues queues;
  queues.packet_bytes = state.options.packet_bytes;
  queues.packets = state.queued_packets;
  queues.combines = state.options.combine_in_packets;
  queues.windows = state.update_windows;
  queues.window_shift = state.window_shift;
  queues.sent = state.sent[device] + std::size_t{state.parity} * state.devices();
  const std::uint64_t queue_bytes =
      std::uint64_t{state.queued_packets} * state.options.packet_bytes;
  for (std::uint32_t d = 0; d < state.devices(); ++d) {
    const bool moved = d != device && state.outboxes[device] != nullptr;
    queues.to[d] =
        moved ? static_cast<unsigned char*>(state.outboxes[device]) + d * queue_bytes
              : static_cast<unsigned char*>(state.inboxes[d][state.parity]) + device * queue_bytes;
  }
  return queues;
}

std::vector<queue_move> queue_moves_of(const region_state& state, std::uint32_t device,
                                       std::uint32_t parity) {
  std::vector<queue_move> all;
  const std::uint64_t bytes = std::uint64_t{state.queued_packets} * state.options.packet_bytes;
  for (std::uint32_t step = 1; step < state.devices(); ++step) {
    const std::uint32_t to = (device + step) % state.devices();
    all.push_back({.to = to,
                   .from = static_cast<const std::byte*>(state.outboxes[device]) + to * bytes,
                   .inbox = static_cast<std::byte*>(state.inboxes[to][parity]) + device * bytes,
                   .bytes = bytes});
  }
  return all;
}

std::vector<contribution> contributions_of(const region_state& state, std::uint32_t device) {
  std::vector<contribution> all;
  if (!state.options.transfers) return all;
  for (std::uint32_t step = 1; step < state.devices(); ++step) {
    const std::uint32_t to = (device + step) % state.devices();
    const std::uint64_t bytes = state.part_size(to) * state.element_bytes;
    if (bytes == 0) continue;
    all.push_back(
        {.to = to,
         .from = static_cast<const std::byte*>(state.partials[device]) +
                 state.options.boundaries[to] * state.element_bytes,
         .inbox = static_cast<std::byte*>(state.inboxes[to][state.parity]) + device * bytes,
         .bytes = bytes});
  }
  return all;
}

}  // namespace interlace::kernel
