// A user's request for a region. This file checks and completes the request, and describes it in a
// form that ranks can compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/region.hpp"
#include "kernel/chunks.hpp"

namespace interlace::kernel {

// Returns the boundaries of the devices' parts of an array: `given`, or those of equal parts if
// `given` is empty. Throws usage_error if the boundaries do not end at `elements`. `label` is the
// array's name in messages.
std::vector<std::uint64_t> part_boundaries(std::vector<std::uint64_t> given, std::uint64_t elements,
                                           std::uint32_t devices, const std::string& label);

// Checks a request without allocating memory. Throws usage_error, with one sentence, if the region
// is not possible. `label` is the region's name in messages, for example "region 0" or "region
// 'ranks'".
region_state check_spec(const region_spec& spec, std::uint32_t devices, const std::string& label);

// All properties on which the ranks must agree, as lines of the form "name value".
std::string describe_spec(const region_state& state, const region_spec& spec);

// The chunks of a device's part, and the announcements of the device's launches. Both are empty if
// the mechanism does not track chunks. plan_launch throws usage_error if there is a chunk that no
// block writes.
struct launch_plan {
  std::vector<chunk> chunks;
  publications announced;
};
launch_plan plan_launch(const region_state& state, const region_spec& spec, std::uint32_t device,
                        const std::string& label);

}  // namespace interlace::kernel
