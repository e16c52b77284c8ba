#pragma once

namespace interlace::run {

// Makes the device-launch mechanism possible for the kernels of all workloads.
void add_launching_workloads();

}  // namespace interlace::run
