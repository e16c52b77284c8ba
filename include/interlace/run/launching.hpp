#pragma once

namespace interlace::run {

// Enables the mechanism `device-launch` for the kernels of a workload. The build generates one
// definition of this function for each problem.
template <class Problem>
void add_launching_kernels_of();

}  // namespace interlace::run
