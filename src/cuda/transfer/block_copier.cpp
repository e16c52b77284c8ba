#include "cuda/transfer/block_copier.hpp"

#include <exception>
#include <optional>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

struct capture_state {
  bool known = false;
  bool active = false;
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
  return {true, status != capture_none};
}

plan::block_direction direction_of(const block_places& places) {
  if (places.from_host) return plan::block_direction::to_gpu;
  return places.to_host ? plan::block_direction::to_host : plan::block_direction::inside;
}

// Where the kernel finds its lists.
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

}  // namespace

block_copier::block_copier(const driver_table& driver, const block_options& options,
                           const plan::block_costs& costs)
    : driver_(driver), options_(options), costs_(costs) {}

block_copier::~block_copier() {
  for (auto& [context, made] : contexts_) {
    if (made == nullptr) continue;
    const in_context on(driver_, context, std::nothrow);
    log_failure(driver_, driver_.context_synchronize(), "cuCtxSynchronize");
    made.reset();
  }
}

// Null if the kernels cannot be loaded in the context.
block_copier::resources* block_copier::resources_of(CUctx_st* context) {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(context);
  if (found != contexts_.end()) return found->second.get();
  const in_context on(driver_, context);
  std::unique_ptr<resources> made;
  try {
    made = std::make_unique<resources>(driver_, options_.room_bytes);
  } catch (const device_error&) {
    // Remembered: to try again takes time, and gives the same.
  }
  return contexts_.emplace(context, std::move(made)).first->second.get();
}

void block_copier::prepare(CUctx_st* context, std::span<const std::size_t> lists) {
  const relaxed_capture_mode relaxed(driver_);
  resources* const by = resources_of(context);
  if (by == nullptr)
    throw device_error("the driver does not load the kernels for batches of blocks");
  const in_context on(driver_, context);
  std::vector<pinned_rooms::room*> taken;
  taken.reserve(lists.size());
  for (const std::size_t bytes : lists) taken.push_back(by->rooms.take(bytes));
  for (pinned_rooms::room* const one : taken)
    if (one != nullptr) by->rooms.give_unused(one);
}

// False if there is no memory for the lists.
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
  try {
    by.kernels.launch(what, layout.even, thread_blocks, stream);
  } catch (...) {
    by.rooms.give_unused(room);
    throw;
  }
  if (graph != nullptr)
    by.rooms.give_to_graph(room, graph);
  else
    by.rooms.give(room, stream);
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
  const block_places places = find_places(driver_, context, list, shape);
  report.ends = places.ends;
  if (places.ends != block_ends::one_gpu) return report;
  if (places.to_host && places.from_host) {
    report.ends = block_ends::pageable;
    return report;
  }
  report.direction = direction_of(places);
  report.choice = plan::choose_way(costs_, {.direction = report.direction,
                                            .blocks = shape.blocks,
                                            .bytes = shape.bytes,
                                            .driver_batch_possible = driver_.copy_batch != nullptr,
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

}  // namespace interlace::cuda
