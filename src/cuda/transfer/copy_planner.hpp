// Plans calls. The plan of a message has the profile's choice, and the paths of the message's
// bytes. The planner also remembers messages that gain nothing from several paths.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/transfer/copy_accounts.hpp"
#include "cuda/transfer/copy_call.hpp"
#include "cuda/transfer/copy_machine.hpp"
#include "cuda/transfer/copy_routes.hpp"
#include "cuda/transfer/engine_profile.hpp"
#include "cuda/transfer/plan_cache.hpp"
#include "interlace/copy.hpp"
#include "interlace/machine/machine.hpp"
#include "plan/copy_profile.hpp"

namespace interlace::cuda {

// Makes plans. Thread-safe once `use` has been called, or if `use` is never called.
class copy_planner {
 public:
  // `routes` must outlive the planner.
  copy_planner(const copy_routes& routes, const copy_machine& on, const copy_options& options);

  void use(engine_profile profile) { profile_ = std::move(profile); }

  // The way in which a message of this size is copied. It is the way that the profile states.
  // Without a profile, the message is copied over every path that helps.
  plan::copy_choice choice_of(const copy_message& one) const;
  static plan::copy_choice every_path(std::uint64_t bytes);

  // Whether the plan for a message of this size was the direct path alone, although all relays were
  // free.
  bool known_direct(const copy_message& one) const {
    return known_direct_[class_number(one)].load(std::memory_order_relaxed);
  }
  void remember_direct(const copy_message& one);

  // Sets the plan of a call with one message. If one path is as fast as several, the plan is
  // direct.
  void plan_message(copy_call& call);
  // Sets the plan of a batch.
  void plan_batch(copy_call& call);
  // Whether the message may now use all relays that its choice allows.
  bool has_all_relays(const copy_call& call) const;

 private:
  std::size_t class_number(const copy_message& one) const;

  const copy_routes& routes_;
  // number of chunks in the options; 0 means that the profile or the planner decides
  std::uint32_t chunks_;
  std::optional<engine_profile> profile_;
  // One value for each pair of places and class of sizes.
  std::vector<std::atomic<bool>> known_direct_;
  plan_cache plans_;
};

// Whether every GPU that copies a part of the call's plan can access the memory at the ends of this
// part. The owners of virtual memory and of memory pools decide which GPUs have access. If a GPU
// lacks access, `accounts` names the GPU.
bool plan_has_access(const driver_table& driver, const copy_call& call, copy_accounts& accounts);

}  // namespace interlace::cuda
