#include <cstdint>

#include "cuda/load_kernel.hpp"
#include "cuda/stream_hold.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

constexpr std::uint64_t hold_ns = 10'000'000'000ULL;

__global__ void hold(const unsigned int* ticket, unsigned int wanted, unsigned int* expired) {
  const volatile unsigned int* seen = ticket;
  std::uint64_t begin;
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  while (*seen != wanted) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begin > hold_ns) {
      *static_cast<volatile unsigned int*>(expired) = 1;
      return;
    }
  }
}

}  // namespace

stream_hold::stream_hold() : memory_(sizeof(words)) {}

void stream_hold::load() { load_kernel(hold); }

void stream_hold::enqueue(cudaStream_t stream) {
  hold<<<1, 1, 0, stream>>>(&shared()->ticket, ticket_, &shared()->expired);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
}

void stream_hold::release() noexcept { static_cast<volatile words*>(shared())->ticket = ticket_; }

void stream_hold::check() const {
  if (static_cast<const volatile words*>(shared())->expired != 0) {
    throw device_error("the host did not enqueue copies within 10 s");
  }
}

}  // namespace interlace::cuda
