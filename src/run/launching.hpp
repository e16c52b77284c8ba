#pragma once

namespace interlace::run {

// Makes the device-launch mechanism possible for the kernels of a workload. The build makes the
// definitions, one for each problem.
template <class Problem>
void add_launching_kernels_of();

}  // namespace interlace::run
