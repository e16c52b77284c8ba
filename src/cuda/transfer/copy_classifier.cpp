#include "cuda/transfer/copy_classifier.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace interlace::cuda {
namespace {

using machine::endpoint;

// The most messages of a batch that are planned together. The time to plan grows with the cube of
// their number. If each of 16 GPUs sends to every other GPU, there are 240 messages.
constexpr std::size_t most_planned = 256;

// A view of memory of which only the attributes of the first byte are known.
memory_view partial_view(const memory_facts& first) {
  memory_view view;
  view.kind = first.type == memory_host ? memory_kind::pinned : memory_kind::gpu;
  view.gpu = view.kind == memory_kind::gpu ? first.gpu : 0;
  return view;
}

// The current context, or null if the calling thread has none.
CUctx_st* current_context(const driver_table& driver) {
  CUctx_st* context = nullptr;
  return driver.current(&context) == driver_result::success ? context : nullptr;
}

}  // namespace

bool read_capture(const driver_table& driver, copy_call& call) {
  int status = capture_none;
  unsigned long long sequence = 0;
  CUgraphNode_st* const* roots = nullptr;
  std::size_t count = 0;
  if (driver.capture_info(call.caller.stream, &status, &sequence, &call.graph, &roots, &count) !=
          driver_result::success ||
      (status != capture_none && status != capture_active))
    return false;
  call.capturing = status == capture_active;
  if (call.capturing) call.roots.assign(roots, roots + count);
  return true;
}

bool read_stream(const contexts& of, copy_call& call) {
  const driver_table& driver = of.driver();
  caller_stream& caller = call.caller;
  CUctx_st* context = nullptr;
  if (driver.stream_context(caller.stream, &context) != driver_result::success) return false;
  const std::optional<int> gpu = of.gpu_of(context);
  if (!gpu) return false;
  caller.identity.gpu = *gpu;
  if (call.capturing) return true;
  caller.identity = identity_of(driver, caller.stream, *gpu);
  unsigned flags = 0;
  caller.blocking = driver.stream_flags(caller.stream, &flags) != driver_result::success ||
                    (flags & stream_non_blocking) == 0;
  return true;
}

copy_classifier::copy_classifier(const contexts& of, const copy_routes& routes,
                                 copy_planner& planner, link_usage& usage)
    : contexts_(of), routes_(routes), planner_(planner), usage_(usage) {}

// Inspects the memory at the message's ends. Returns the reason if this memory makes the message a
// plain copy. Returns no value if the message can take several paths.
std::optional<copy_result> copy_classifier::inspect_ends(copy_message& one,
                                                         const memory_facts& source,
                                                         const memory_facts& destination) const {
  const driver_table& driver = contexts_.driver();
  one.source = view_memory(driver, source, one.from_address, one.bytes);
  one.destination = view_memory(driver, destination, one.to_address, one.bytes);
  for (const memory_view* seen : {&one.source, &one.destination}) {
    if (seen->kind == memory_kind::pinned) continue;
    if (seen->kind == memory_kind::managed) return copy_result::managed;
    if (seen->kind == memory_kind::mixed) return copy_result::mixed;
    if (seen->kind == memory_kind::host) return copy_result::pageable;
    // A GPU can access another GPU's memory only in the primary contexts of the GPUs.
    if (seen->origin == memory_origin::plain && contexts_.gpu_of(seen->context) != seen->gpu)
      return copy_result::other_context;
  }
  return std::nullopt;
}

// Questions to the driver take time. The questions that decide most plain copies therefore come
// first.
bool copy_classifier::classify_message(copy_call& call, bool captures, copy_report& report) {
  const driver_table& driver = contexts_.driver();
  copy_message& one = call.messages.front();
  report.result = copy_result::other_context;
  CUctx_st* const context = current_context(driver);
  if (context == nullptr) return false;
  const memory_facts source = query_memory(driver, one.from_address);
  const memory_facts destination = query_memory(driver, one.to_address);
  const auto from = routes_.place_of(source);
  const auto to = routes_.place_of(destination);
  if (from && to) {
    report.result = copy_result::same_place;
    if (*from == *to) return false;
    report.result = copy_result::one_path;
    report.source = partial_view(source);
    report.destination = partial_view(destination);
    one.from = *from;
    one.to = *to;
    call.user = usage_.user_of(call.caller.stream, context);
    // This code does not ask the driver whether the stream is being captured. If it takes a
    // captured message for a running one, the only effect is that other messages avoid the
    // message's links for a while.
    if (planner_.known_direct(one)) {
      usage_.add_direct(one, call.user, usage_.now_ns());
      return false;
    }
  }

  // The driver does not report a capture that depends on the capture of another stream, or a
  // capture that has edges with data. A plain copy is right in these cases, too.
  report.result = copy_result::capturing;
  if (!read_capture(driver, call) || (call.capturing && !captures)) return false;
  if (from && to) {
    const std::uint64_t now_ns = usage_.now_ns();
    // A captured message runs later. When it is planned, it avoids the links of those pairs whose
    // messages overlapped earlier with messages of this message's pair.
    if (!call.capturing) usage_.add_direct(one, call.user, now_ns);
    call.choice = planner_.choice_of(one);
    const std::vector<endpoint>& allowed = routes_.relays(one.from, one.to, call.choice);
    call.relays = usage_.idle_relays(one, allowed, now_ns);
    if (call.relays.empty()) {
      if (allowed.empty()) planner_.remember_direct(one);
      report.result = copy_result::one_path;
      return false;
    }
  }
  report.result = copy_result::other_context;
  if (!read_stream(contexts_, call)) return false;
  const auto reason = inspect_ends(one, source, destination);
  report.source = one.source;
  report.destination = one.destination;
  if (reason) report.result = *reason;
  if (reason || !from || !to) return false;
  call.set_addresses();
  return true;
}

bool copy_classifier::classify_batch(copy_call& call) {
  const driver_table& driver = contexts_.driver();
  CUctx_st* const context = current_context(driver);
  if (context == nullptr || !read_capture(driver, call)) return false;
  call.user = usage_.user_of(call.caller.stream, context);
  const std::uint64_t now_ns = usage_.now_ns();
  std::vector<const copy_message*> between_places;
  bool plannable = true;
  for (copy_message& one : call.messages) {
    const memory_facts source = query_memory(driver, one.from_address);
    const memory_facts destination = query_memory(driver, one.to_address);
    const auto from = routes_.place_of(source);
    const auto to = routes_.place_of(destination);
    if (!from || !to || !routes_.connected(*from, *to)) {
      plannable = false;
      continue;
    }
    one.from = *from;
    one.to = *to;
    if (!(one.from == one.to)) between_places.push_back(&one);
    if (inspect_ends(one, source, destination)) plannable = false;
  }
  if (!plannable || between_places.size() > most_planned || !read_stream(contexts_, call)) {
    // The plain copies of a batch use links, too, one after another.
    if (!call.capturing)
      for (const copy_message* one : between_places) usage_.add_direct(*one, call.user, now_ns);
    return false;
  }
  const auto inside =
      std::stable_partition(call.messages.begin(), call.messages.end(),
                            [](const copy_message& one) { return !(one.from == one.to); });
  if (inside == call.messages.begin()) return false;
  for (auto one = inside; one != call.messages.end(); ++one)
    call.local.push_back({.gpu = one->from.index, .bytes = one->bytes});
  call.set_addresses();
  call.choice = copy_planner::every_path(0);

  // A place can relay for the batch if it is idle for every message of the batch. Messages that
  // begin or end at this place do not count.
  call.relays = routes_.places();
  for (const copy_message& one : call.between_places()) {
    if (!call.capturing) usage_.add_direct(one, call.user, now_ns);
    const auto idle =
        usage_.idle_relays(one, routes_.relays(one.from, one.to, call.choice), now_ns);
    std::erase_if(call.relays, [&](endpoint place) {
      return !(place == one.from) && !(place == one.to) &&
             std::find(idle.begin(), idle.end(), place) == idle.end();
    });
  }
  return true;
}

}  // namespace interlace::cuda
