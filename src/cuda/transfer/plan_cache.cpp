#include "cuda/transfer/plan_cache.hpp"

#include <algorithm>
#include <utility>

#include "cuda/transfer/cache_key.hpp"
#include "cuda/transfer/size_classes.hpp"
#include "plan/steps.hpp"

namespace interlace::cuda {
namespace {

constexpr std::size_t most_programs = 1024;
constexpr std::size_t most_plans = 4096;
// A plan must gain more than this, because a smaller predicted gain is within the error of
// predictions. This error is 2 % and 3 us for copies on 2 x H200 with the assumptions of
// machine/copy_assumptions.cpp.
constexpr double least_gain = 0.95;
constexpr double least_gain_s = 3e-6;
// The staging memory of one message. Chunks of 4 MB or more would need more memory and gain little.
constexpr std::uint64_t message_staging_bytes = std::uint64_t{64} << 20U;

void append_endpoint(std::string& key, machine::endpoint end) {
  key.push_back(static_cast<char>(end.kind));
  key.push_back(static_cast<char>(end.index));
}

std::string key_of(std::span<const plan::message> wanted,
                   const std::vector<machine::endpoint>& relays, const plan_limits& limits,
                   std::span<const local_copy> local) {
  std::string key;
  append(key, std::uint64_t{wanted.size()} << 32U | local.size());
  for (const plan::message& one : wanted) {
    append_endpoint(key, one.from);
    append_endpoint(key, one.to);
    append(key, one.bytes);
  }
  for (const local_copy& one : local) {
    append(key, one.gpu);
    append(key, one.bytes);
  }
  append(key, std::uint64_t{limits.chunks} << 1U | (limits.measured ? 1U : 0U));
  for (const machine::endpoint place : relays) append_endpoint(key, place);
  return key;
}

bool direct(const plan::plan& made, bool measured) {
  return made.buffers.empty() ||
         (!measured && made.predicted_s + least_gain_s > least_gain * made.direct_s);
}

// The program for the direct path alone. No executor runs this program.
copy_program direct_program(const plan::plan& made) {
  copy_program program;
  program.predicted_s = program.direct_s = made.direct_s;
  return program;
}

}  // namespace

plan_cache::plan_cache(machine::machine described, std::vector<int> gpus,
                       std::uint64_t staging_bytes)
    : machine_(std::move(described)), gpus_(std::move(gpus)), staging_bytes_(staging_bytes) {}

// The messages of a batch share the staging memory equally.
std::uint64_t plan_cache::staging_of(std::size_t messages) const {
  return std::min(message_staging_bytes, staging_bytes_ / messages);
}

plan::plan plan_cache::planned(std::span<const plan::message> wanted,
                               const std::vector<machine::endpoint>& relays,
                               const plan_limits& limits, bool alone) const {
  plan::options asked;
  asked.staging = relays;
  asked.staging_bytes = staging_of(wanted.size());
  asked.chunks = limits.chunks;
  plan::plan made = plan::make_plan(machine_, wanted, asked);
  if (alone || made.buffers.empty() || !direct(made, limits.measured)) return made;
  asked.staging->clear();
  return plan::make_plan(machine_, wanted, asked);
}

std::shared_ptr<planned_copy> plan_cache::find(std::span<const plan::message> wanted,
                                               const std::vector<machine::endpoint>& relays,
                                               const plan_limits& limits,
                                               std::span<const local_copy> local) {
  const std::string key = key_of(wanted, relays, limits, local);
  std::vector<plan::message> classes(wanted.begin(), wanted.end());
  for (plan::message& one : classes) one.bytes = class_least(one.bytes);
  const bool alone = wanted.size() == 1 && local.empty();
  std::string class_key = key_of(classes, relays, limits, {});
  class_key.push_back(alone ? 1 : 0);
  std::shared_ptr<const plan::plan> of_class;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = programs_.at.find(key); found != programs_.at.end()) {
      programs_.entries.splice(programs_.entries.begin(), programs_.entries, found->second);
      return found->second->second;
    }
    if (const auto found = plans_.find(class_key); found != plans_.end()) of_class = found->second;
  }
  // The lock is not held during planning, so two threads can make the same plan.
  if (!of_class)
    of_class = std::make_shared<const plan::plan>(planned(classes, relays, limits, alone));
  auto made = std::make_shared<planned_copy>();
  plan::plan exact = *of_class;
  exact.messages.assign(wanted.begin(), wanted.end());
  if (alone && direct(exact, limits.measured)) {
    made->program = direct_program(exact);
  } else {
    if (!std::equal(wanted.begin(), wanted.end(), classes.begin(),
                    [](const auto& one, const auto& other) { return one.bytes == other.bytes; })) {
      plan::shares shares;
      for (const plan::path& way : exact.paths) {
        shares.bytes.push_back(static_cast<double>(way.bytes));
        shares.chunks.push_back(way.direct() ? 1 : way.chunks);
      }
      plan::cut(exact, shares, plan::dealing::by_share, staging_of(wanted.size()));
    }
    made->program = make_program(exact, gpus_, local);
  }
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= most_plans) plans_.clear();
  plans_.emplace(class_key, of_class);
  if (const auto found = programs_.at.find(key); found != programs_.at.end())
    return found->second->second;
  programs_.entries.emplace_front(key, made);
  programs_.at.emplace(key, programs_.entries.begin());
  if (programs_.entries.size() > most_programs) {
    programs_.at.erase(programs_.entries.back().first);
    programs_.entries.pop_back();
  }
  return made;
}

}  // namespace interlace::cuda
