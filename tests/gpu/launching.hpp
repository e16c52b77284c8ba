#pragma once

namespace interlace::gpu_test {

// Enables the mechanism device-launch for the kernels in publishers.cuh.
void add_launching_publishers();

}  // namespace interlace::gpu_test
