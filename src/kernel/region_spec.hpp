// A user's request for a region, which this file checks and completes, and makes comparable between
// ranks.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/kernel/region.hpp"
#include "interlace/region.hpp"
#include "kernel/chunks.hpp"

namespace interlace::kernel {

// Checks a request without allocating memory. Throws usage_error, with one sentence, if the region
// is not possible. `label` is the region's name in messages, such as "region 0" or "region
// 'ranks'".
region_state check_spec(const region_spec& spec, std::uint32_t devices, const std::string& label);

// Lines "name value" with all properties on which the ranks must agree.
std::string describe_spec(const region_state& state, const region_spec& spec);

// The chunks of `device` under the spec, and the announcements of its launches. Empty if the
// mechanism does not track chunks. Throws usage_error if no block writes a chunk.
struct launch_plan {
  std::vector<chunk> chunks;
  publications announced;
};
launch_plan plan_launch(const region_state& state, const region_spec& spec, std::uint32_t device,
                        const std::string& label);

}  // namespace interlace::kernel
