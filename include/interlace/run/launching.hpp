#pragma once

namespace interlace::run {

// Enables the device-launch mechanism for the kernels of a workload. The build generates one
// definition for each problem.
template <class Problem>
void add_launching_kernels_of();

}  // namespace interlace::run
