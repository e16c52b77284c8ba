#include "cuda/transfer/block_copier.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/transfer/block_profile_file.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

struct capture_state {
  bool known = false;
  bool active = false;
  CUgraph_st* graph = nullptr;
};

capture_state capture_of(const driver_table& driver, CUstream_st* stream) {
  int status = capture_none;
  unsigned long long sequence = 0;
  CUgraph_st* graph = nullptr;
  CUgraphNode_st* const* nodes = nullptr;
  std::size_t count = 0;
  if (driver.capture_info(stream, &status, &sequence, &graph, &nodes, &count) !=
      driver_result::success)
    return {};
  return {true, status != capture_none, status == capture_active ? graph : nullptr};
}

plan::block_direction direction_of(const block_places& places) {
  if (places.from_host) return plan::block_direction::to_gpu;
  return places.to_host ? plan::block_direction::to_host : plan::block_direction::inside;
}

// The arguments of the kernel for a batch. They say where the kernel finds its lists.
block_arguments arguments_of(const plan::block_list& list, const plan::block_layout& layout,
                             std::uint64_t lists, bool inside) {
  block_arguments made;
  const bool whole = layout.even && layout.entries == list.count;
  if (whole) {
    made.to_base = list.to.base;
    made.to_scale = list.to.scale;
    made.from_base = list.from.base;
    made.from_scale = list.from.scale;
  }
  if (layout.to_written) made.to_list = lists;
  if (layout.from_written) made.from_list = lists + layout.to_bytes();
  if (!layout.even) made.size_list = lists + layout.to_bytes() + layout.from_bytes();
  made.bytes = layout.even ? layout.piece : 0;
  made.count = static_cast<std::uint32_t>(layout.entries);
  made.bits = (layout.to_wide ? block_arguments::wide_to : 0U) |
              (layout.from_wide ? block_arguments::wide_from : 0U) |
              (inside ? block_arguments::lists_inside : 0U);
  return made;
}

// The most bytes of blocks that are staged at the same time.
constexpr std::uint64_t staged_bytes = std::uint64_t{4} << 20U;

const char* text_of(block_ends ends) {
  switch (ends) {
    case block_ends::pageable:
      return "lies in memory that is not page-locked; page-lock the memory, or let the call stage "
             "the blocks";
    case block_ends::managed:
      return "lies in managed memory, which the driver moves";
    case block_ends::other_gpu:
      return "lies on another GPU than the stream";
    case block_ends::other_context:
      return "lies in memory of another context of the GPU";
    case block_ends::no_access:
      return "lies in memory to which kernels of the stream's GPU have no access";
    case block_ends::mixed:
      return "lies in memory of the host, but other blocks of its side lie on a GPU";
    case block_ends::outside:
      return "reaches past the end of its allocation";
    case block_ends::too_many:
      return "lies in one of more allocations than a batch can have";
    case block_ends::one_gpu:
      break;
  }
  return "";
}

[[noreturn]] void refuse(block_ends ends) {
  throw usage_error(std::string("a block of a batch ") + text_of(ends));
}

plan::block_side side_of(const blocks_side& given, const char* name) {
  if (given.number_bytes != 4 && given.number_bytes != 8)
    throw usage_error("each " + std::string(name) + " number of a batch has " +
                      std::to_string(given.number_bytes) + " bytes; give 4 or 8");
  return {.base = reinterpret_cast<std::uint64_t>(given.base),
          .scale = given.stride,
          .numbers = given.numbers,
          .wide = given.number_bytes == 8};
}

// Throws if a block is outside of the extent. The error names the first such block.
void check_extents(const block_batch& batch, const plan::block_list& list,
                   const plan::block_shape& shape) {
  const auto inside = [](const blocks_side& side, const plan::block_extent& all) {
    const auto base = reinterpret_cast<std::uint64_t>(side.base);
    return side.extent == 0 || (all.begin >= base && all.end <= base + side.extent);
  };
  if (inside(batch.dst, shape.to) && inside(batch.src, shape.from)) return;
  plan::each_block(list, [&](std::size_t at, std::uint64_t to_at, std::uint64_t from_at,
                             std::uint64_t bytes) {
    const auto check_side = [&](const blocks_side& side, std::uint64_t number, const char* name) {
      const std::uint64_t begin = number * side.stride;
      if (bytes != 0 && side.extent != 0 && begin + bytes > side.extent)
        throw usage_error("block " + std::to_string(at) + " of a batch: with " + name + " number " +
                          std::to_string(number) + ", the block ends at byte " +
                          std::to_string(begin + bytes) + ", after the " + name + "'s extent of " +
                          std::to_string(side.extent) + " bytes");
    };
    check_side(batch.dst, to_at, "destination");
    check_side(batch.src, from_at, "source");
    return true;
  });
}

}  // namespace

block_copier::block_copier(const driver_table& driver, block_options options)
    : driver_(driver), options_(std::move(options)) {}

block_copier::block_copier(const driver_table& driver, block_options options,
                           const plan::block_costs& costs)
    : driver_(driver), options_(std::move(options)), costs_(&costs) {}

block_copier::~block_copier() {
  for (auto& [context, made] : contexts_) {
    if (made == nullptr) continue;
    const in_context on(driver_, context, std::nothrow);
    log_failure(driver_, driver_.context_synchronize(), "cuCtxSynchronize");
    made.reset();
  }
}

void block_copier::abandon() {
  for (auto& [context, made] : contexts_) {
    if (made == nullptr) continue;
    made->kernels.abandon();
    made->rooms.abandon();
  }
  contexts_.clear();
}

// A context of the GPU must be current.
const plan::block_costs& block_copier::costs() {
  std::call_once(costs_once_, [&] {
    if (costs_ != nullptr) return;
    of_profile_ =
        options_.use_profile ? block_costs_here(driver_, options_.report) : plan::costs_of_h200();
    costs_ = &of_profile_;
  });
  return *costs_;
}

// The resources for a context, or null if the kernels cannot be loaded in the context.
block_copier::resources* block_copier::resources_of(CUctx_st* context) {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(context);
  if (found != contexts_.end()) return found->second.get();
  const in_context on(driver_, context);
  std::unique_ptr<resources> made;
  try {
    made = std::make_unique<resources>(driver_, options_.room_bytes);
  } catch (const no_block_kernels&) {
    // The failure is remembered, because another attempt would take time and fail again.
  } catch (const device_error&) {
    return nullptr;
  }
  return contexts_.emplace(context, std::move(made)).first->second.get();
}

void block_copier::prepare(CUctx_st* context, std::span<const std::size_t> lists) {
  const relaxed_capture_mode relaxed(driver_);
  resources* const by = resources_of(context);
  if (by == nullptr)
    throw device_error("the driver does not load the kernels for batches of blocks");
  const in_context on(driver_, context);
  (void)costs();
  std::vector<pinned_rooms::room*> taken;
  taken.reserve(lists.size());
  for (const std::size_t bytes : lists) taken.push_back(by->rooms.take(bytes));
  for (pinned_rooms::room* const one : taken)
    if (one != nullptr) by->rooms.give_unused(one);
}

// Launches the kernel. Returns false if there is no memory for the lists.
bool block_copier::launch(resources& by, const plan::block_list& list,
                          const plan::block_layout& layout, unsigned thread_blocks,
                          CUstream_st* stream, CUgraph_st* graph) {
  const std::size_t bytes = layout.bytes();
  if (bytes <= block_arguments_room) {
    block_arguments what = arguments_of(list, layout, offsetof(block_arguments, lists), bytes != 0);
    plan::write_lists(list, layout, what.lists);
    by.kernels.launch(what, layout.even, thread_blocks, stream);
    return true;
  }
  pinned_rooms::room* const room = by.rooms.take(bytes);
  if (room == nullptr) return false;
  plan::write_lists(list, layout, {room->memory, room->bytes});
  block_arguments what =
      arguments_of(list, layout, reinterpret_cast<std::uint64_t>(room->memory), false);
  // Nothing may fail after the launch, because after a failure the caller would copy the batch a
  // second time. A graph therefore becomes the owner of the room before the kernel is added to the
  // graph.
  bool of_graph = false;
  try {
    if (graph != nullptr) by.rooms.give_to_graph(room, graph);
    of_graph = graph != nullptr;
    by.kernels.launch(what, layout.even, thread_blocks, stream);
  } catch (...) {
    if (!of_graph) by.rooms.give_unused(room);
    throw;
  }
  if (!of_graph) by.rooms.give(room, stream);
  return true;
}

block_report block_copier::try_kernel(const plan::block_list& list, CUstream_st* stream) {
  block_report report;
  if (list.count == 0) return report;
  const relaxed_capture_mode relaxed(driver_);
  const capture_state capture = capture_of(driver_, stream);
  report.result = block_result::capturing;
  if (!capture.known || capture.active) return report;
  const plan::block_shape shape = plan::shape_of(list);
  report.bytes = shape.bytes;
  report.result = block_result::nothing;
  if (shape.blocks == 0) return report;

  report.result = block_result::memory;
  CUctx_st* context = nullptr;
  if (driver_.stream_context(stream, &context) != driver_result::success) return report;
  const in_context on(driver_, context);
  const block_places places = find_places(driver_, known_, context, list, shape);
  report.ends = places.ends;
  if (places.ends != block_ends::one_gpu) return report;
  if (places.to_host && places.from_host) {
    report.ends = block_ends::pageable;
    return report;
  }
  report.direction = direction_of(places);
  report.choice = plan::choose_way(costs(), {.direction = report.direction,
                                             .blocks = shape.blocks,
                                             .bytes = shape.bytes,
                                             .driver_batch_possible = driver_.copy_batch != nullptr,
                                             .batch_of_program = true,
                                             .most_thread_blocks = options_.most_thread_blocks});
  report.result = block_result::another_way;
  if (report.choice.way != plan::block_way::kernel) return report;
  report.result = block_result::no_kernels;
  resources* const by = resources_of(context);
  if (by == nullptr) return report;
  report.result = block_result::no_room;
  const plan::block_layout layout = plan::layout_of(list, shape, report.choice.thread_blocks);
  if (launch(*by, list, layout, report.choice.thread_blocks, stream, nullptr))
    report.result = block_result::enqueued;
  return report;
}

// Copies a part on a GPU that helps. Returns false if nothing was launched.
bool block_copier::launch_on(const block_help::gpu& helper, const plan::block_list& part,
                             unsigned thread_blocks, const block_helpers& helpers) {
  try {
    const in_context on(driver_, helper.context);
    const plan::block_shape shape = plan::shape_of(part);
    if (shape.blocks == 0) return true;
    const peer_contexts peers = helpers.peers_of(helper.context);
    if (find_places(driver_, known_, helper.context, part, shape, peers).ends !=
        block_ends::one_gpu)
      return false;
    resources* const by = resources_of(helper.context);
    return by != nullptr && launch(*by, part, plan::layout_of(part, shape, thread_blocks),
                                   thread_blocks, helper.stream, nullptr);
  } catch (const device_error&) {
    return false;
  }
}

// Cuts the list into a part for each GPU that helps, and a part for the stream's own GPU. The own
// GPU also copies the parts that a helper cannot copy.
void block_copier::copy_with_help(block_help& help, const block_helpers& helpers, resources& by,
                                  const plan::block_list& list, const plan::block_shape& shape,
                                  unsigned thread_blocks, CUstream_st* stream) {
  std::vector<plan::block_list> own;
  try {
    std::size_t first = 0;
    for (const block_help::gpu& one : help.gpus()) {
      const auto bytes =
          static_cast<std::uint64_t>(std::llround(one.share * static_cast<double>(shape.bytes)));
      const std::size_t count = plan::blocks_within(list, first, bytes);
      const plan::block_list part = plan::part_of(list, first, count);
      first += count;
      if (count != 0 && !launch_on(one, part, thread_blocks, helpers)) own.push_back(part);
    }
    if (first < list.count) own.push_back(plan::part_of(list, first, list.count - first));
    for (const plan::block_list& part : own) {
      const plan::block_shape of = plan::shape_of(part);
      if (of.blocks != 0 && !launch(by, part, plan::layout_of(part, of, thread_blocks),
                                    thread_blocks, stream, nullptr))
        (void)copy_by_driver(part, blocks_way::copies, stream);
    }
  } catch (...) {
    try {
      help.finish();
    } catch (const device_error&) {  // all work is complete
    }
    throw;
  }
  help.finish();
}

copied_blocks block_copier::copy(const block_batch& batch, CUstream_st* stream,
                                 const block_helpers& helpers) {
  const plan::block_list list{.to = side_of(batch.dst, "destination"),
                              .from = side_of(batch.src, "source"),
                              .sizes = batch.sizes,
                              .bytes = batch.bytes,
                              .count = batch.count};
  if (list.count == 0) return {};
  if (list.count > std::numeric_limits<std::uint32_t>::max())
    throw usage_error("a batch has " + std::to_string(list.count) +
                      " blocks; give 2^32 - 1 at most in one call");
  const relaxed_capture_mode relaxed(driver_);
  CUctx_st* context = nullptr;
  check(driver_, driver_.stream_context(stream, &context), "cuStreamGetCtx");
  const in_context on(driver_, context);
  if (batch.numbers_on_gpu) {
    const blocks_way way = copy_numbers_on_gpu(batch, list, context, stream);
    return {way, way == blocks_way::nothing ? 0 : list.bytes * list.count};
  }
  const plan::block_shape shape = plan::shape_of(list);
  if (shape.blocks == 0) return {};
  check_extents(batch, list, shape);
  block_places places = find_places(driver_, known_, context, list, shape);
  if (places.ends == block_ends::other_gpu && helpers.peers_of) {
    // The driver copies blocks between GPUs one after another. A kernel can use a peer's memory.
    if (const peer_contexts peers = helpers.peers_of(context))
      places = find_places(driver_, known_, context, list, shape, peers);
  }
  if (places.to_host && places.from_host)
    throw usage_error(
        "both sides of a batch of blocks lie in the host's memory; one side must lie "
        "on a GPU");
  if (places.ends == block_ends::outside) refuse(places.ends);
  const capture_state capture = capture_of(driver_, stream);
  if (places.ends == block_ends::pageable) {
    if (!batch.stage_pageable) refuse(places.ends);
    if (!capture.known)
      throw device_error("the driver does not tell whether the stream of a batch is captured");
    if (capture.active)
      throw usage_error("a captured batch cannot stage pageable memory; page-lock the memory");
    copy_staged(context, list, places, stream);
    return {blocks_way::staged, shape.bytes};
  }
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  const auto wanted = [&](blocks_way way) {
    return batch.only == blocks_way::nothing || batch.only == way;
  };
  resources* const by = wanted(blocks_way::kernel) && places.ends == block_ends::one_gpu &&
                                capture.known && (!capture.active || capture.graph != nullptr)
                            ? resources_of(context)
                            : nullptr;
  const bool driver_batch = wanted(blocks_way::driver_batch) && driver_.copy_batch != nullptr &&
                            capture.known && !capture.active && handle != 0 &&
                            handle != legacy_stream;
  if (by == nullptr && !driver_batch && !wanted(blocks_way::copies))
    throw usage_error(
        batch.only == blocks_way::kernel
            ? "the kernel cannot copy this batch: its memory, stream or driver does "
              "not allow it"
            : "the driver has no cuMemcpyBatchAsync, or the stream is captured or the "
              "legacy default stream");
  const plan::block_choice choice = plan::choose_way(
      costs(), {.direction = direction_of(places),
                .blocks = shape.blocks,
                .bytes = shape.bytes,
                .kernel_possible = by != nullptr,
                .driver_batch_possible = driver_batch,
                .copies_possible = wanted(blocks_way::copies),
                .most_thread_blocks = batch.most_thread_blocks != 0 ? batch.most_thread_blocks
                                                                    : options_.most_thread_blocks});
  if (helpers.lend && by != nullptr && !capture.active && batch.only == blocks_way::nothing &&
      places.to_host != places.from_host) {
    const auto time_of = [&](plan::block_way way) {
      return choice.predicted_us.at(static_cast<std::size_t>(way));
    };
    const auto help = helpers.lend({.to_gpu = places.from_host,
                                    .context = context,
                                    .stream = stream,
                                    .bytes = shape.bytes,
                                    .kernel_us = time_of(plan::block_way::kernel),
                                    .best_us = time_of(choice.way)});
    if (help != nullptr) {
      copy_with_help(*help, helpers, *by, list, shape, choice.thread_blocks, stream);
      return {blocks_way::kernel, shape.bytes};
    }
  }
  if (by != nullptr && choice.way == plan::block_way::kernel &&
      launch(*by, list, plan::layout_of(list, shape, choice.thread_blocks), choice.thread_blocks,
             stream, capture.graph))
    return {blocks_way::kernel, shape.bytes};
  const blocks_way way =
      choice.way == plan::block_way::driver_batch ? blocks_way::driver_batch : blocks_way::copies;
  return {copy_by_driver(list, way, stream), shape.bytes};
}

// Only the kernel can read numbers that are in the GPU's memory.
blocks_way block_copier::copy_numbers_on_gpu(const block_batch& batch, const plan::block_list& list,
                                             CUctx_st* context, CUstream_st* stream) {
  if (list.sizes != nullptr)
    throw usage_error(
        "a batch whose numbers lie on the GPU has one size for all blocks, not sizes");
  if (batch.dst.extent == 0 || batch.src.extent == 0)
    throw usage_error("a batch whose numbers lie on the GPU needs the extent of both sides");
  if (batch.only != blocks_way::nothing && batch.only != blocks_way::kernel)
    throw usage_error("only the kernel can read numbers that lie on the GPU");
  if (list.bytes == 0) return blocks_way::nothing;
  plan::block_shape shape{.blocks = list.count,
                          .bytes = list.bytes * list.count,
                          .greatest = list.bytes,
                          .even = true,
                          .to = {list.to.base, list.to.base + batch.dst.extent},
                          .from = {list.from.base, list.from.base + batch.src.extent}};
  shape.even = (list.to.base | list.to.scale | list.from.base | list.from.scale | list.bytes) %
                   sizeof(std::uint64_t[2]) ==
               0;
  plan::block_list extents = list;
  extents.count = 0;
  const block_places places = find_places(driver_, known_, context, extents, shape);
  if (places.ends != block_ends::one_gpu) refuse(places.ends);
  if (places.to_host && places.from_host)
    throw usage_error(
        "both sides of a batch of blocks lie in the host's memory; one side must lie "
        "on a GPU");
  resources* const by = resources_of(context);
  if (by == nullptr)
    throw device_error(
        "the driver does not load the kernels for batches of blocks, which read "
        "numbers on the GPU");
  const plan::block_choice choice = plan::choose_way(
      costs(), {.direction = direction_of(places),
                .blocks = shape.blocks,
                .bytes = shape.bytes,
                .most_thread_blocks = batch.most_thread_blocks != 0 ? batch.most_thread_blocks
                                                                    : options_.most_thread_blocks});
  block_arguments what;
  what.to_base = list.to.base;
  what.from_base = list.from.base;
  what.to_scale = list.to.scale;
  what.from_scale = list.from.scale;
  what.to_list = reinterpret_cast<std::uint64_t>(list.to.numbers);
  what.from_list = reinterpret_cast<std::uint64_t>(list.from.numbers);
  what.bytes = list.bytes;
  what.count = static_cast<std::uint32_t>(list.count);
  what.bits = (list.to.wide ? block_arguments::wide_to : 0U) |
              (list.from.wide ? block_arguments::wide_from : 0U);
  by->kernels.launch(what, shape.even, choice.thread_blocks, stream);
  return blocks_way::kernel;
}

blocks_way block_copier::copy_by_driver(const plan::block_list& list, blocks_way way,
                                        CUstream_st* stream) {
  std::vector<device_address> to;
  std::vector<device_address> from;
  std::vector<std::size_t> sizes;
  if (way == blocks_way::driver_batch) {
    to.reserve(list.count);
    from.reserve(list.count);
    sizes.reserve(list.count);
  }
  plan::each_block(
      list, [&](std::size_t, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
        if (bytes == 0) return true;
        const device_address target = list.to.base + to_at * list.to.scale;
        const device_address source = list.from.base + from_at * list.from.scale;
        if (way == blocks_way::copies) {
          check(driver_, driver_.copy(target, source, bytes, stream), "cuMemcpyAsync");
          return true;
        }
        to.push_back(target);
        from.push_back(source);
        sizes.push_back(bytes);
        return true;
      });
  if (to.empty()) return blocks_way::copies;
  batch_attributes how;
  std::size_t first = 0;
  std::size_t failed = 0;
  if (driver_.copy_batch(to.data(), from.data(), sizes.data(), to.size(), &how, &first, 1, &failed,
                         stream) == driver_result::success)
    return blocks_way::driver_batch;
  // A batch of the driver has conditions that plain copies do not have. If a copy itself is wrong,
  // the plain copy fails too, and its error gives the reason.
  for (std::size_t at = 0; at < to.size(); ++at)
    check(driver_, driver_.copy(to[at], from[at], sizes[at], stream), "cuMemcpyAsync");
  return blocks_way::copies;
}

// Copies the blocks in pieces. In one direction, the host gathers a piece in page-locked memory,
// and a kernel or plain copies take the piece from there. In the other direction, the steps are
// reversed.
void block_copier::copy_staged(CUctx_st* context, const plan::block_list& list,
                               const block_places& places, CUstream_st* stream) {
  resources* const by = resources_of(context);
  if (by == nullptr)
    throw device_error("the driver does not load the kernels for batches of blocks");
  const bool to_gpu = places.from_host;
  std::vector<std::uint64_t> to;
  std::vector<std::uint64_t> from;
  std::vector<std::uint64_t> sizes;
  std::uint64_t filled = 0;
  const auto wait = [&] {
    check(driver_, driver_.stream_synchronize(stream), "cuStreamSynchronize");
  };
  const auto flush = [&] {
    if (to.empty()) return;
    pinned_rooms::room* room = by->rooms.take(filled);
    if (room ==
        nullptr) {  // All rooms are in use, so this call waits until the stream has done its work.
      wait();
      room = by->rooms.take(filled);
    }
    if (room == nullptr) throw device_error("there is no page-locked memory for staged blocks");
    auto* at = room->memory;
    std::vector<std::uint64_t>& host = to_gpu ? from : to;
    const std::vector<std::uint64_t> pageable = host;
    for (std::size_t one = 0; one < sizes.size(); ++one) {
      if (to_gpu) std::memcpy(at, reinterpret_cast<const void*>(pageable[one]), sizes[one]);
      host[one] = reinterpret_cast<std::uint64_t>(at);
      at += (sizes[one] + 15) / 16 * 16;
    }
    const plan::block_list piece{.to = {.numbers = to.data()},
                                 .from = {.numbers = from.data()},
                                 .sizes = sizes.data(),
                                 .count = sizes.size()};
    try {
      const plan::block_shape shape = plan::shape_of(piece);
      const unsigned thread_blocks =
          plan::choose_way(costs(), {.direction = direction_of(places),
                                     .blocks = shape.blocks,
                                     .bytes = shape.bytes,
                                     .most_thread_blocks = options_.most_thread_blocks})
              .thread_blocks;
      if (!launch(*by, piece, plan::layout_of(piece, shape, thread_blocks), thread_blocks, stream,
                  nullptr))
        (void)copy_by_driver(piece, blocks_way::copies, stream);
      if (!to_gpu) {
        wait();
        for (std::size_t one = 0; one < sizes.size(); ++one)
          std::memcpy(reinterpret_cast<void*>(pageable[one]),
                      reinterpret_cast<const void*>(host[one]), sizes[one]);
      }
    } catch (...) {
      by->rooms.give(room, stream);
      throw;
    }
    by->rooms.give(room, stream);
    to.clear();
    from.clear();
    sizes.clear();
    filled = 0;
  };
  plan::each_block(
      list, [&](std::size_t, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
        const std::uint64_t target = list.to.base + to_at * list.to.scale;
        const std::uint64_t source = list.from.base + from_at * list.from.scale;
        for (std::uint64_t done = 0; done < bytes;) {
          const std::uint64_t part = std::min(bytes - done, staged_bytes);
          if (filled + part > staged_bytes) flush();
          to.push_back(target + done);
          from.push_back(source + done);
          sizes.push_back(part);
          filled += (part + 15) / 16 * 16;
          done += part;
        }
        return true;
      });
  flush();
  wait();
}

}  // namespace interlace::cuda
