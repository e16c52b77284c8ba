#include "preload/batches.hpp"

#include <exception>
#include <optional>

#include "cuda/transfer/memory_view.hpp"
#include "preload/counters.hpp"
#include "preload/overlap.hpp"
#include "preload/own_call.hpp"
#include "preload/settings.hpp"
#include "preload/take_over.hpp"

namespace interlace::preload {
namespace {

using cuda::driver_result::success;

// CUmemcpySrcAccessOrder, and a flag of CUmemcpyFlags.
constexpr int order_of_stream = 1;
constexpr int order_during_call = 2;
constexpr int order_any = 3;
constexpr unsigned overlap_with_compute = 1;

bool is_known(const cuda::memory_location& hint) {
  constexpr int nowhere = 0;
  constexpr int a_gpu = 1;
  return (hint.type == nowhere || hint.type == a_gpu) && hint.id == 0;
}

// Why the arguments leave the batch to the driver; nothing if they do not.
std::optional<outcome> judge_arguments(const requested_batch& asked) {
  if (asked.to == nullptr || asked.from == nullptr || asked.bytes == nullptr ||
      asked.attributes == nullptr || asked.firsts == nullptr || asked.kinds == 0 ||
      asked.kinds > asked.count)
    return outcome::refused;
  for (std::size_t at = 0; at < asked.kinds; ++at) {
    const std::size_t first = asked.firsts[at];
    if (at == 0 ? first != 0 : first <= asked.firsts[at - 1] || first >= asked.count)
      return outcome::refused;
    const copy_attributes& one = asked.attributes[at];
    if (one.order == order_during_call) return outcome::read_early;
    if (one.order != order_of_stream && one.order != order_any) return outcome::refused;
    // The driver refuses hints that name no place.
    if (!is_known(one.source) || !is_known(one.destination)) return outcome::refused;
    if (one.flags == overlap_with_compute) return outcome::overlap_wanted;
    if (one.flags != 0) return outcome::refused;
  }
  return std::nullopt;
}

bool is_legacy(CUstream_st* stream) {
  return stream == nullptr || reinterpret_cast<std::uintptr_t>(stream) == cuda::legacy_stream;
}

// Why the stream leaves the batch to the driver; nothing if it does not.
std::optional<outcome> judge_stream(const cuda::driver_table& driver, CUstream_st* stream,
                                    CUctx_st*& context) {
  CUctx_st* of_stream = nullptr;
  if (is_legacy(stream) || driver.current(&context) != success || context == nullptr)
    return outcome::refused;
  int status = cuda::capture_none;
  unsigned long long id = 0;
  CUgraph_st* graph = nullptr;
  CUgraphNode_st* const* roots = nullptr;
  std::size_t count = 0;
  if (driver.capture_info(stream, &status, &id, &graph, &roots, &count) != success ||
      status != cuda::capture_none)
    return outcome::capturing;
  if (driver.stream_context(stream, &of_stream) != success || of_stream != context)
    return outcome::other_context;
  return std::nullopt;
}

// Why the memory of the first block leaves the batch to the driver; nothing if it does not. Most
// batches that no kernel can make are known by their first block.
std::optional<outcome> judge_first(const cuda::driver_table& driver, const requested_batch& asked,
                                   copy_direction& moves) {
  const cuda::memory_facts from = cuda::query_memory(driver, asked.from[0]);
  const cuda::memory_facts to = cuda::query_memory(driver, asked.to[0]);
  for (const cuda::memory_facts* one : {&from, &to}) {
    if (one->managed != 0) return outcome::managed;
    if (one->type != cuda::memory_host && one->type != cuda::memory_device)
      return outcome::pageable;
  }
  if (from.type == to.type) return outcome::same_gpu;
  moves =
      to.type == cuda::memory_device ? copy_direction::host_to_gpu : copy_direction::gpu_to_host;
  return std::nullopt;
}

outcome decide(const requested_batch& asked, copy_direction& moves) {
  if (!process_settings().problem.empty() || process_settings().start == start_mode::never)
    return outcome::switched_off;
  if (const auto reason = judge_arguments(asked)) return *reason;
  const cuda::driver_table* driver = usable_driver();
  if (driver == nullptr) return outcome::failed;
  CUctx_st* context = nullptr;
  if (const auto reason = judge_stream(*driver, asked.stream, context)) return *reason;
  if (const auto reason = judge_first(*driver, asked, moves)) return *reason;
  if (overlap({asked.to, asked.count}, {asked.bytes, asked.count})) return outcome::overlapping;
  return outcome::no_kernel;
}

}  // namespace

batch_bytes bytes_of(const requested_batch& asked) noexcept {
  batch_bytes found;
  if (asked.bytes == nullptr) return found;
  for (std::size_t at = 0; at < asked.count; ++at) {
    found.total += asked.bytes[at];
    found.any_empty |= asked.bytes[at] == 0;
  }
  return found;
}

bool take_over_batch(const requested_batch& asked, const batch_bytes& bytes) noexcept {
  if (in_own_call) return false;
  copy_direction moves = copy_direction::unknown;
  outcome what = outcome::small;
  if (bytes.total >= process_settings().threshold_bytes) {
    const own_call own;
    const without_cancellation whole;
    try {
      what = bytes.any_empty ? outcome::refused : decide(asked, moves);
    } catch (const std::exception& error) {
      counters_note(error.what());
      what = outcome::failed;
    }
  }
  count(moves, what, bytes.total, asked.count);
  const bool taken = what == outcome::one_kernel;
  if (taken) counters().batches.fetch_add(1, std::memory_order_relaxed);
  return taken;
}

volumes volumes_of(const volume_copy* operations, std::size_t count) noexcept {
  volumes all;
  if (operations == nullptr) return all;
  constexpr int an_address = 1;
  for (std::size_t at = 0; at < count; ++at) {
    const volume_copy& one = operations[at];
    all.bytes += one.width * one.height * one.depth;
    if (at != 0) continue;
    all.to = one.to.type == an_address ? one.to.address : 0;
    all.from = one.from.type == an_address ? one.from.address : 0;
  }
  return all;
}

void count_volumes(std::uint64_t bytes, std::size_t copies) noexcept {
  if (!in_own_call) count(copy_direction::unknown, outcome::several_dimensions, bytes, copies);
}

void load_kernel(int /*gpu*/, CUctx_st* /*context*/) noexcept {}
void forget_kernel(int /*gpu*/) noexcept {}

}  // namespace interlace::preload
