#pragma once

namespace interlace::gpu_test {

// Makes device-launch possible for the kernels of publishers.cuh.
void add_launching_publishers();

}  // namespace interlace::gpu_test
