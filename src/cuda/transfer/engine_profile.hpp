// The copy profile that an engine uses, and whether it fits the machine.
#pragma once

#include <optional>

#include "cuda/transfer/copy_accounts.hpp"
#include "cuda/transfer/copy_machine.hpp"
#include "interlace/copy.hpp"
#include "plan/copy_profile.hpp"

namespace interlace::cuda {

struct engine_profile {
  plan::copy_profile choices;
  // whether the profile was measured on this machine, with the relays that the engine may use
  bool measured_here = false;
};

// Finds the profile that the options name. There is no value if the options name no profile, or if
// the file is not usable. In these cases, `accounts` has the reason, except if the options are auto
// and there is no file.
std::optional<engine_profile> find_profile(const copy_machine& here, const copy_options& options,
                                           copy_accounts& accounts);

}  // namespace interlace::cuda
