// The plan of a call: which choice of the profile holds for a message, which paths its bytes take,
// and which messages are known to gain nothing from further paths.
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

// Thread-safe, once `use` was called or will not be.
class copy_planner {
 public:
  // `routes` must outlive the planner.
  copy_planner(const copy_routes& routes, const copy_machine& on, const copy_options& options);

  void use(engine_profile profile) { profile_ = std::move(profile); }

  // How a message of this size is to be copied: as the profile says; without a profile, by every
  // path that helps.
  plan::copy_choice choice_of(const copy_message& one) const;
  static plan::copy_choice every_path(std::uint64_t bytes);

  // Whether the plan for a message of this size, with all relays, was the direct path alone.
  bool known_direct(const copy_message& one) const {
    return known_direct_[class_number(one)].load(std::memory_order_relaxed);
  }
  void remember_direct(const copy_message& one);

  // Sets the plan of a call of one message. The program is direct where one path is as fast.
  void plan_message(copy_call& call);
  // Sets the plan of a batch.
  void plan_batch(copy_call& call);
  // Whether the message may use all relays of its choice now.
  bool has_all_relays(const copy_call& call) const;

 private:
  std::size_t class_number(const copy_message& one) const;

  const copy_routes& routes_;
  std::uint32_t chunks_;  // of the options; 0: the profile or the planner decides
  std::optional<engine_profile> profile_;
  std::vector<std::atomic<bool>> known_direct_;  // by pair of places and class of sizes
  plan_cache plans_;
};

// Whether every GPU that copies a part of the call's plan can access the memory at the ends of that
// part: the owners of virtual memory and of memory pools name the GPUs that have access. If not,
// `accounts` has the GPU.
bool plan_has_access(const driver_table& driver, const copy_call& call, copy_accounts& accounts);

}  // namespace interlace::cuda
