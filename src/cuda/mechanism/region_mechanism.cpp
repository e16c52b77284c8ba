#include "cuda/mechanism/region_mechanism.hpp"

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

std::byte* back_of(const kernel::region_state& state, const region_side& s, std::uint32_t device) {
  return static_cast<std::byte*>(state.buffers[device][s.parity ^ 1U]);
}

void join(const region_side& s, cudaStream_t from) {
  INTERLACE_CUDA_CHECK(cudaEventRecord(s.event, from));
  INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(s.stream, s.event, 0));
}

void copy_part(const kernel::region_state& state, const region_side& s) {
  const kernel::element_range own{state.options.boundaries[s.device],
                                  state.options.boundaries[s.device + 1]};
  INTERLACE_CUDA_CHECK(cudaEventRecord(s.event, s.stream));
  std::uint32_t used = 0;
  for (const kernel::delivery& d : state.deliveries(s.device, {own})) {
    if ((used >> d.to & 1U) == 0) {
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(s.streams[d.to], s.event, 0));
    }
    used |= 1U << d.to;
    const std::uint64_t at = d.begin * state.element_bytes;
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(
        back_of(state, s, d.to) + at, back_of(state, s, s.device) + at,
        (d.end - d.begin) * state.element_bytes, cudaMemcpyDefault, s.streams[d.to]));
  }
  for (std::uint32_t to = 0; to < state.devices(); ++to) {
    if ((used >> to & 1U) != 0) join(s, s.streams[to]);
  }
}

}  // namespace interlace::cuda
