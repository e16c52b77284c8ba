#include "cuda/epoch/snapshot.hpp"

#include "cuda/epoch/gpus.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/epoch/arrays.hpp"

namespace interlace::cuda {

snapshot::snapshot(const node_gpus& gpus, const node_arrays& arrays, const node_regions& regions)
    : gpus_(gpus), arrays_(arrays) {
  for (const kernel::region_state& s : regions.states()) {
    // For partitions, only the parts are saved, because contributions and packets are empty between
    // two epochs.
    for (std::uint32_t d = 0; s.is_partition && d < gpus_.count(); ++d) {
      keep(d, s.buffers[d][0], s.part_size(d) * s.element_bytes);
    }
    if (s.is_partition) continue;
    const std::uint64_t bytes = s.elements * s.element_bytes;
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      keep(d, s.buffers[d][0], bytes);
      if (s.is_reduction) {
        keep(d, s.partials[d], bytes * s.copies);
      } else {
        keep(d, s.buffers[d][1], bytes);
      }
    }
  }
}

void snapshot::restore() const {
  for (const part& p : parts_) {
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(p.original, p.copy, p.bytes, cudaMemcpyDeviceToDevice,
                                         gpus_.streams()[p.device]));
  }
  gpus_.synchronize();
}

void snapshot::keep(std::uint32_t device, void* data, std::uint64_t bytes) {
  if (bytes == 0) return;
  void* copy = memory_.take(gpus_.ordinal(device), bytes);
  arrays_.read(copy, data, bytes);
  parts_.push_back({.device = device, .original = data, .copy = copy, .bytes = bytes});
}

}  // namespace interlace::cuda
