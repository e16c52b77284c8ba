// Kernels that keep one part of a GPU busy: its memory, or the units for one kind of operation.
#pragma once

#include <cstdint>

namespace interlace::cuda::rate {

inline constexpr unsigned int threads = 256;

// --- memory --------------------------------------------------------------------------------------

// The number of 16-byte loads that a thread has in flight.
inline constexpr unsigned int loads = 8;
// The bytes that a block moves in one step.
inline constexpr std::uint64_t step_bytes = std::uint64_t{16} * loads * threads;

// Reads `steps` steps. Each block takes every gridDim.x-th step. The stored value has no meaning.
// It only keeps the compiler from dropping the loads.
template <class Word = uint4>
__global__ void __launch_bounds__(threads)
    read_all(const Word* data, std::uint64_t steps, unsigned int* kept) {
  unsigned int seen = 0;
  for (std::uint64_t s = blockIdx.x; s < steps; s += gridDim.x) {
    const Word* from = data + s * loads * threads + threadIdx.x;
    Word value[loads];
#pragma unroll
    for (unsigned int k = 0; k < loads; ++k) value[k] = __ldcs(from + std::uint64_t{k} * threads);
#pragma unroll
    for (unsigned int k = 0; k < loads; ++k) {
      seen |= value[k].x ^ value[k].y ^ value[k].z ^ value[k].w;
    }
  }
  if (seen == 0x51ed2701U) *kept = seen;
}

template <class Word = uint4>
__global__ void __launch_bounds__(threads) write_all(Word* data, std::uint64_t steps) {
  const unsigned int one = blockIdx.x * threads + threadIdx.x;
  for (std::uint64_t s = blockIdx.x; s < steps; s += gridDim.x) {
    Word* to = data + s * loads * threads + threadIdx.x;
#pragma unroll
    for (unsigned int k = 0; k < loads; ++k) {
      __stcs(to + std::uint64_t{k} * threads, Word{one, one, one, one});
    }
  }
}

// --- operations ----------------------------------------------------------------------------------

// A thread executes instructions in `chains` chains, which do not wait for each other. In a round,
// each chain makes its steps. Every step of a chain is one instruction. tests/python/test_sass.py
// counts these instructions in the machine code.
inline constexpr unsigned int chains = 8;
inline constexpr unsigned int steps_a_round = 32;
inline constexpr unsigned int operations_a_round = chains * steps_a_round;

// Step `k` of chain `c`, as one multiply-add.
struct multiply_add_f32 {
  using type = float;
  static __device__ void step(float& x, float a, float b, unsigned int /*k*/, unsigned int /*c*/) {
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
  }
};
struct multiply_add_f64 {
  using type = double;
  static __device__ void step(double& x, double a, double b, unsigned int /*k*/,
                              unsigned int /*c*/) {
    asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(a), "d"(b));
  }
};
// Alternates between an addition and an exclusive or, because the compiler could merge two
// instructions of the same kind.
struct add_or_xor {
  using type = unsigned int;
  static __device__ void step(unsigned int& x, unsigned int a, unsigned int b, unsigned int k,
                              unsigned int /*c*/) {
    if (k % 2 == 0) {
      asm volatile("add.u32 %0, %0, %1;" : "+r"(x) : "r"(a));
    } else {
      asm volatile("xor.b32 %0, %0, %1;" : "+r"(x) : "r"(b));
    }
  }
};
struct multiply_add_u32 {
  using type = unsigned int;
  static __device__ void step(unsigned int& x, unsigned int a, unsigned int b, unsigned int /*k*/,
                              unsigned int /*c*/) {
    asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
  }
};
// Runs each operation in separate chains, because the operations can use different units.
struct any_u32 {
  using type = unsigned int;
  static __device__ void step(unsigned int& x, unsigned int a, unsigned int b, unsigned int k,
                              unsigned int c) {
    if (c % 2 == 0) {
      add_or_xor::step(x, a, b, k, c);
    } else {
      multiply_add_u32::step(x, a, b, k, c);
    }
  }
};
// Runs floating-point and integer operations in separate chains. This measures the number of
// instructions that multiprocessors can issue.
struct f32_and_u32 {
  using type = unsigned int;
  static __device__ void step(unsigned int& x, unsigned int a, unsigned int b, unsigned int k,
                              unsigned int c) {
    if (c % 2 == 0) {
      add_or_xor::step(x, a, b, k, c);
    } else {
      asm volatile(
          "{ .reg .f32 t, u, v; mov.b32 t, %0; mov.b32 u, %1; mov.b32 v, %2; "
          "fma.rn.f32 t, t, u, v; mov.b32 %0, t; }"
          : "+r"(x)
          : "r"(a), "r"(b));
    }
  }
};

template <class Mix>
__global__ void __launch_bounds__(threads) compute(unsigned int rounds, typename Mix::type a,
                                                   typename Mix::type b, typename Mix::type* kept) {
  using type = typename Mix::type;
  type x[chains];
#pragma unroll
  for (unsigned int c = 0; c < chains; ++c) x[c] = static_cast<type>(threadIdx.x + c);
#pragma unroll 1
  for (unsigned int r = 0; r < rounds; ++r) {
#pragma unroll
    for (unsigned int k = 0; k < steps_a_round; ++k) {
#pragma unroll
      for (unsigned int c = 0; c < chains; ++c) Mix::step(x[c], a, b, k, c);
    }
  }
  type all = x[0];
#pragma unroll
  for (unsigned int c = 1; c < chains; ++c) all += x[c];
  if (all == static_cast<type>(0x51ed2701)) *kept = all;
}

}  // namespace interlace::cuda::rate
