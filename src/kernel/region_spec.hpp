// What a region that a user asks for becomes: checked, complete, and comparable between ranks.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/region.hpp"
#include "kernel/chunks.hpp"
#include "kernel/region.hpp"

namespace interlace::kernel {

// Throws usage_error with one sentence for what cannot be; no memory yet. `label` is how messages
// call the region, as "region 0" or "region 'ranks'".
region_state check_spec(const region_spec& spec, std::uint32_t devices, const std::string& label);

// Lines "name value" of all that ranks must agree about.
std::string describe_spec(const region_state& state, const region_spec& spec);

// The chunks of `device` under the spec, and what its launches announce of them. Empty where the
// mechanism tracks nothing. Throws usage_error where a chunk has no block that writes it.
struct launch_plan {
  std::vector<chunk> chunks;
  publications announced;
};
launch_plan plan_launch(const region_state& state, const region_spec& spec, std::uint32_t device,
                        const std::string& label);

}  // namespace interlace::kernel
