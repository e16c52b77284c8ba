#include "cuda/transfer/copy_planner.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include "cuda/transfer/size_classes.hpp"

namespace interlace::cuda {

copy_planner::copy_planner(const copy_routes& routes, const copy_machine& on,
                           const copy_options& options)
    : routes_(routes),
      chunks_(options.chunks),
      known_direct_(routes.pair_count() * size_classes),
      plans_(on.described, on.gpus, options.staging_bytes) {}

plan::copy_choice copy_planner::every_path(std::uint64_t bytes) {
  return {.bytes = bytes,
          .gpus = true,
          .host = true,
          .chunks = 0,
          .executor = copy_executor::automatic};
}

plan::copy_choice copy_planner::choice_of(const copy_message& one) const {
  if (profile_) return profile_->choices.of(plan::direction_of(one.from, one.to), one.bytes);
  return every_path(one.bytes);
}

std::size_t copy_planner::class_number(const copy_message& one) const {
  return routes_.pair_number(one.from, one.to) * size_classes + size_class(one.bytes);
}

void copy_planner::remember_direct(const copy_message& one) {
  if (profile_) {
    // All sizes of a class share one plan, unless the profile distinguishes them.
    const plan::copy_direction direction = plan::direction_of(one.from, one.to);
    const std::uint64_t least = class_least(one.bytes);
    const std::uint64_t most = class_most(one.bytes);
    const plan::copy_profile& choices = profile_->choices;
    if (choices.of(direction, least).bytes != choices.of(direction, most).bytes) return;
  }
  known_direct_[class_number(one)].store(true, std::memory_order_relaxed);
}

bool copy_planner::has_all_relays(const copy_call& call) const {
  const copy_message& one = call.messages.front();
  return call.relays.size() == routes_.relays(one.from, one.to, call.choice).size();
}

void copy_planner::plan_message(copy_call& call) {
  const copy_message& one = call.messages.front();
  // The measurements in a profile were made with a single message on the machine.
  const bool measured =
      ((profile_ && profile_->measured_here) || chunks_ != 0) && has_all_relays(call);
  const plan::message wanted{.from = one.from, .to = one.to, .bytes = one.bytes};
  call.plan =
      plans_.find({&wanted, 1}, call.relays,
                  {.chunks = chunks_ != 0 ? chunks_ : call.choice.chunks, .measured = measured});
}

void copy_planner::plan_batch(copy_call& call) {
  std::vector<plan::message> wanted;
  for (const copy_message& one : call.between_places())
    wanted.push_back({.from = one.from, .to = one.to, .bytes = one.bytes});
  call.plan =
      plans_.find(wanted, call.relays, {.chunks = chunks_, .measured = chunks_ != 0}, call.local);
}

bool plan_has_access(const driver_table& driver, const copy_call& call, copy_accounts& accounts) {
  const copy_program& program = call.plan->program;
  const auto always_accessible = [](const memory_view& seen) {
    return seen.origin == memory_origin::host || seen.origin == memory_origin::plain;
  };
  if (std::all_of(call.messages.begin(), call.messages.end(), [&](const copy_message& one) {
        return always_accessible(one.source) && always_accessible(one.destination);
      }))
    return true;
  // The ends of messages for which access was already tested. An element holds the GPU that copies,
  // the index of the message, and true if the end is the message's destination.
  std::set<std::tuple<int, std::uint32_t, bool>> asked;
  for (const copy_program::copy& part : program.copies) {
    const int gpu = program.slots[part.slot].gpu;
    for (const bool destination : {false, true}) {
      const plan::location& place = destination ? part.to : part.from;
      if (place.memory == plan::memory::staging) continue;
      const copy_message& one = call.messages[place.index];
      const memory_view& seen = destination ? one.destination : one.source;
      if (always_accessible(seen) || seen.gpu == gpu ||
          !asked.emplace(gpu, place.index, destination).second)
        continue;
      if (accessible(driver, seen, gpu, destination ? one.to_address : one.from_address, one.bytes))
        continue;
      accounts.report("copies of some memory on " + gpu_text(seen.gpu) + " are direct, because " +
                      gpu_text(gpu) +
                      " has no access to this memory (cuMemSetAccess and cudaMemPoolSetAccess give "
                      "access)");
      return false;
    }
  }
  return true;
}

}  // namespace interlace::cuda
