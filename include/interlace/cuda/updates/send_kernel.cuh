// The kernel that sends updates to threads of the host.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/updates/host_ring.cuh"

namespace interlace::cuda::updates {

inline constexpr int send_threads = 512;

// Sends the updates of all bins to the host.
template <class Record, class Codec>
__global__ void __launch_bounds__(send_threads)
    send_kernel(const bin_set<Record> from, const send_to_host<Codec> send) {
  send_bins(from, send);
}

}  // namespace interlace::cuda::updates
