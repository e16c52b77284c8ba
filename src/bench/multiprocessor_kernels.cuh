// Kernels that each measure one property of a multiprocessor, of its caches or of the start of a
// kernel. tests/python/test_sass.py counts the instructions of these kernels in the machine code.
#pragma once

#include <cstdint>

#include "bench/multiprocessor.hpp"

namespace interlace::bench::multiprocessor {

// --- clocks of a block ---------------------------------------------------------------------------

// Two moments: when the block's first warp begins the measured stretch, and when the block's last
// warp ends it. Both are given in clocks of the block's multiprocessor and in nanoseconds of the
// GPU's timer.
struct stretch {
  long long begin = 0;
  long long end = 0;
  unsigned long long begin_ns = 0;
  unsigned long long end_ns = 0;
  unsigned int multiprocessor = 0;
};

struct timing {
  stretch* blocks;        // for each block, its stretch
  unsigned int* arrived;  // number of blocks that are at the start; 0 before the launch
};

__device__ inline unsigned long long now_ns() {
  unsigned long long ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// Waits until all blocks of the grid have called this function. All blocks must be resident. The
// function gives up after a second, so an error cannot cause a hang. In this case, the measured
// times show that the blocks did not run together.
__device__ inline void meet(const timing& t) {
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(t.arrived, 1U);
    const unsigned long long begin = now_ns();
    while (*static_cast<volatile unsigned int*>(t.arrived) < gridDim.x) {
      if (now_ns() - begin > 1'000'000'000U) break;
    }
  }
  __syncthreads();
}

__device__ inline void begin_stretch(const timing& t) {
  meet(t);
  if (threadIdx.x == 0) {
    stretch& own = t.blocks[blockIdx.x];
    own.begin_ns = now_ns();
    own.begin = clock64();
    asm volatile("mov.u32 %0, %%smid;" : "=r"(own.multiprocessor));
  }
}

__device__ inline void end_stretch(const timing& t) {
  __syncthreads();
  if (threadIdx.x == 0) {
    stretch& own = t.blocks[blockIdx.x];
    own.end = clock64();
    own.end_ns = now_ns();
  }
}

// --- chains of dependent operations --------------------------------------------------------------

// Each step of a chain needs the result of the previous step. A step is one instruction, except for
// divisions.
//
// In this chain, additions alternate with an exclusive or, because the compiler could merge two
// additions into one.
struct step_add {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;  // number of steps of an iteration
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int b, unsigned int k) {
    if (k % 2 == 0) {
      asm volatile("add.u32 %0, %0, %1;" : "+r"(x) : "r"(a));
    } else {
      asm volatile("xor.b32 %0, %0, %1;" : "+r"(x) : "r"(b));
    }
  }
};
struct step_lop3 {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int b, unsigned int /*k*/) {
    asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x) : "r"(a), "r"(b));
  }
};
struct step_min {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int b, unsigned int k) {
    if (k % 2 == 0) {
      asm volatile("min.u32 %0, %0, %1;" : "+r"(x) : "r"(a));
    } else {
      asm volatile("max.u32 %0, %0, %1;" : "+r"(x) : "r"(b));
    }
  }
};
// The minimum or the maximum of three values, by one instruction from compute capability 9.0 on.
struct step_min3 {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int b, unsigned int k) {
    if (k % 2 == 0) {
      asm volatile("min.u32 %0, %0, %1; min.u32 %0, %0, %2;" : "+r"(x) : "r"(a), "r"(b));
    } else {
      asm volatile("max.u32 %0, %0, %1; max.u32 %0, %0, %2;" : "+r"(x) : "r"(a), "r"(b));
    }
  }
};
struct step_imad {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int b, unsigned int /*k*/) {
    asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
  }
};
struct step_imad_hi {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int b, unsigned int /*k*/) {
    asm volatile("mad.hi.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
  }
};
// The product of two words, as computations of addresses use it.
struct step_imad_wide {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int /*b*/,
                             unsigned int /*k*/) {
    asm volatile(
        "{.reg .u64 wide; .reg .u32 high; mul.wide.u32 wide, %0, %1; mov.b64 {high, %0}, wide;}"
        : "+r"(x)
        : "r"(a));
  }
};
struct step_f2i {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int /*a*/, unsigned int /*b*/,
                             unsigned int /*k*/) {
    asm volatile("{.reg .f32 f; mov.b32 f, %0; cvt.rzi.u32.f32 %0, f;}" : "+r"(x));
  }
};
struct step_ffma {
  using type = float;
  static constexpr unsigned int steps = 64;
  static __device__ void run(float& x, float a, float b, unsigned int /*k*/) {
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
  }
};
struct step_dfma {
  using type = double;
  static constexpr unsigned int steps = 64;
  static __device__ void run(double& x, double a, double b, unsigned int /*k*/) {
    asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(a), "d"(b));
  }
};
struct step_mufu {
  using type = float;
  static constexpr unsigned int steps = 64;
  static __device__ void run(float& x, float /*a*/, float /*b*/, unsigned int /*k*/) {
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  }
};
struct step_shuffle {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int /*b*/,
                             unsigned int /*k*/) {
    asm volatile("shfl.sync.bfly.b32 %0, %0, %1, 31, -1;" : "+r"(x) : "r"(a));
  }
};
// A reduction over a warp leaves its result in a uniform register, so each step also moves the
// result back to an ordinary register.
struct step_reduce {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int /*a*/, unsigned int /*b*/,
                             unsigned int /*k*/) {
    asm volatile("redux.sync.min.u32 %0, %0, -1;" : "+r"(x));
  }
};
// A ballot of a comparison, which takes two instructions.
struct step_ballot {
  using type = unsigned int;
  static constexpr unsigned int steps = 64;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int /*b*/,
                             unsigned int /*k*/) {
    asm volatile("{.reg .pred more; setp.gt.u32 more, %0, %1; vote.sync.ballot.b32 %0, more, -1;}"
                 : "+r"(x)
                 : "r"(a));
  }
};
struct step_barrier {
  using type = unsigned int;
  static constexpr unsigned int steps = 16;
  static __device__ void run(unsigned int& /*x*/, unsigned int /*a*/, unsigned int /*b*/,
                             unsigned int /*k*/) {
    __syncthreads();
  }
};
// The divisor is the result of the previous division, so that nothing can be computed ahead.
struct step_divide_u32 {
  using type = unsigned int;
  static constexpr unsigned int steps = 8;
  static __device__ void run(unsigned int& x, unsigned int a, unsigned int /*b*/,
                             unsigned int /*k*/) {
    x = a / x;
  }
};
struct step_divide_f32 {
  using type = float;
  static constexpr unsigned int steps = 8;
  static __device__ void run(float& x, float a, float /*b*/, unsigned int /*k*/) { x = a / x; }
};

// The values a and b are chosen so that no value of a chain becomes 0, infinite or denormal.
template <class Step>
__global__ void __launch_bounds__(most_threads)
    chain(unsigned int rounds, typename Step::type a, typename Step::type b,
          typename Step::type* kept, timing t) {
  using type = typename Step::type;
  auto x = static_cast<type>(threadIdx.x % lanes + 3);
  begin_stretch(t);
#pragma unroll 1
  for (unsigned int r = 0; r < rounds; ++r) {
#pragma unroll
    for (unsigned int k = 0; k < Step::steps; ++k) Step::run(x, a, b, k);
  }
  end_stretch(t);
  if (x == static_cast<type>(0x51ed2701)) *kept = x;
}

// --- loads ---------------------------------------------------------------------------------------

template <class T>
__device__ T load_l1(const T* from) {
  return __ldg(from);  // takes the path for data that no thread writes
}
template <class T>
__device__ T load_l2(const T* from) {
  return __ldcg(from);
}

// The number of rows of `lanes` floats that a block's warps load again and again.
inline constexpr unsigned int loop_rows = 192;

// Sums rows in a loop. The number of iterations is known only at run time. The body is unrolled
// `Unroll` times, so `Unroll` loads are in flight.
template <loaded_from From, unsigned int Unroll>
__global__ void __launch_bounds__(most_threads)
    loop(const float* data, unsigned int rows, unsigned int passes, float* kept, timing t) {
  __shared__ float own[From == loaded_from::shared ? loop_rows * lanes : 1];
  const float* from = data + std::size_t{blockIdx.x} * loop_rows * lanes;
  if constexpr (From == loaded_from::shared) {
    for (unsigned int i = threadIdx.x; i < loop_rows * lanes; i += blockDim.x) own[i] = from[i];
    from = own;
  }
  from += threadIdx.x % lanes;
  float sum = 0;
#pragma unroll 1
  for (unsigned int pass = 0; pass <= passes; ++pass) {
    if (pass == 1) begin_stretch(t);  // the first pass fills the cache
#pragma unroll Unroll
    for (unsigned int i = 0; i < rows; ++i) {
      if constexpr (From == loaded_from::shared) {
        sum += own[i * lanes + threadIdx.x % lanes];
      } else if constexpr (From == loaded_from::l1) {
        sum += load_l1(from + i * lanes);
      } else {
        sum += load_l2(from + i * lanes);
      }
    }
  }
  end_stretch(t);
  if (sum == 0.251F) *kept = sum;
}

// The number of words in a line of 128 bytes.
inline constexpr unsigned int line_words = 32;

// Links `count` lines into one circle, in a scattered order. `count` is a power of two.
__global__ void link_lines(unsigned int* data, std::uint64_t count) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint64_t next = (i * 0x5851F42D4C957F2DU + 0x14057B7EF767814FU) & (count - 1);
  data[i * line_words] = static_cast<unsigned int>(next * line_words);
}

// Loads in a chain. The address of each load is the result of the previous load.
template <loaded_from From>
__global__ void __launch_bounds__(lanes)
    chase(const unsigned int* data, unsigned int count, unsigned int first, unsigned int warm_up,
          unsigned int loads, unsigned int* kept, timing t) {
  extern __shared__ unsigned int own[];
  if constexpr (From == loaded_from::shared) {
    for (unsigned int i = threadIdx.x; i < count * line_words; i += lanes) own[i] = data[i];
  }
  unsigned int at = first;
  const auto follow = [&](unsigned int times) {
#pragma unroll 8
    for (unsigned int k = 0; k < times; ++k) {
      if constexpr (From == loaded_from::shared) {
        at = own[at];
      } else if constexpr (From == loaded_from::l1) {
        at = load_l1(data + at);
      } else {
        at = load_l2(data + at);
      }
    }
  };
  follow(warm_up);
  begin_stretch(t);
  follow(loads);
  end_stretch(t);
  if (at == 1) *kept = at;  // never true, because no line begins at word 1
}

__device__ inline std::uint64_t scrambled(std::uint64_t i) {
  i = (i ^ (i >> 30U)) * 0xbf58476d1ce4e5b9U;
  i = (i ^ (i >> 27U)) * 0x94d049bb133111ebU;
  return i ^ (i >> 31U);
}

inline constexpr unsigned int loads_in_flight = 8;

// Loads of warps from the L1. The lanes of a load form `lines` groups of the same size. Each group
// loads neighbouring words of a scattered line. If a group is a whole warp and there is an offset,
// in words, the group's words are in two lines. Each block has `block_lines` lines.
inline constexpr unsigned int block_lines = 256;
__global__ void __launch_bounds__(most_threads)
    load_lines(const float* data, unsigned int lines, unsigned int offset, unsigned int rounds,
               float* kept, timing t) {
  const float* own = data + std::size_t{blockIdx.x} * block_lines * line_words;
  float sum = 0;
  for (unsigned int i = threadIdx.x; i < block_lines * line_words; i += blockDim.x) {
    sum += load_l1(own + i);
  }
  const unsigned int lane = threadIdx.x % lanes;
  const unsigned int warp = threadIdx.x / lanes;
  const unsigned int group = lane / (lanes / lines);
  unsigned int at[loads_in_flight];
#pragma unroll
  for (unsigned int k = 0; k < loads_in_flight; ++k) {
    const std::uint64_t place = (std::uint64_t{warp} * loads_in_flight + k) * lanes + group;
    const auto line = static_cast<unsigned int>(scrambled(place + 1) % block_lines);
    at[k] = line * line_words + lane + offset;
  }
  begin_stretch(t);
#pragma unroll 1
  for (unsigned int r = 0; r < rounds; ++r) {
    float value[loads_in_flight];
#pragma unroll
    for (unsigned int k = 0; k < loads_in_flight; ++k) {
      // Each round loads other lines. Otherwise the compiler would move the loads before the loop.
      at[k] = (at[k] + line_words) % (block_lines * line_words);
      value[k] = load_l1(own + at[k]);
    }
#pragma unroll
    for (unsigned int k = 0; k < loads_in_flight; ++k) sum += value[k];
  }
  end_stretch(t);
  if (sum == 0.251F) *kept = sum;
}

// --- gathers, scattered sectors, reads and writes ------------------------------------------------

inline constexpr unsigned int stream_threads = 256;

__global__ void fill_indexes(unsigned int* index, std::uint64_t count, std::uint64_t elements) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) index[i] = static_cast<unsigned int>(scrambled(i + 1) % elements);
}

// A gather through an index, in a kernel of `Registers` registers. The kernel keeps `Held` values:
// it loads them before the gather and needs them after the gather.
template <unsigned int Registers, unsigned int Held>
__global__ void __launch_bounds__(stream_threads) __maxnreg__(Registers)
    gather(const float* data, const unsigned int* index, unsigned int count, const float* values,
           float* kept) {
  float held[Held == 0 ? 1 : Held];
#pragma unroll
  for (unsigned int k = 0; k < Held; ++k) {
    asm volatile("ld.volatile.global.f32 %0, [%1];"
                 : "=f"(held[k])
                 : "l"(values + std::size_t{k} * stream_threads + threadIdx.x));
  }
  __syncthreads();  // keeps the compiler from moving the loads above past the gather
  float sum = 0;
  const unsigned int step = gridDim.x * stream_threads;
#pragma unroll 1
  for (unsigned int i = blockIdx.x * stream_threads + threadIdx.x; i < count; i += step) {
    sum += __ldg(data + __ldg(index + i));
  }
  __syncthreads();
#pragma unroll
  for (unsigned int k = 0; k < Held; ++k) {
    asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(sum) : "f"(held[k]));
  }
  if (sum == 0.251F) *kept = sum;
}

// Each lane loads words of scattered 32-byte sectors. The loads bypass the L1.
__global__ void __launch_bounds__(stream_threads)
    load_sectors(const unsigned int* data, std::uint64_t sectors, unsigned int rounds,
                 unsigned int* kept) {
  unsigned int seen = 0;
  std::uint64_t at = scrambled(std::uint64_t{blockIdx.x} * stream_threads + threadIdx.x + 1);
#pragma unroll 1
  for (unsigned int r = 0; r < rounds; ++r) {
    unsigned int value[loads_in_flight];
#pragma unroll
    for (unsigned int k = 0; k < loads_in_flight; ++k) {
      at = at * 0x5851F42D4C957F2DU + 0x14057B7EF767814FU;
      const std::uint64_t sector = __umul64hi(at, sectors);
      value[k] = load_l2(data + sector * 8);
    }
#pragma unroll
    for (unsigned int k = 0; k < loads_in_flight; ++k) seen ^= value[k];
  }
  if (seen == 0x51ed2701U) *kept = seen;
}

// Reads the data from the first to the last byte, `passes` times. The reads bypass the L1.
__global__ void __launch_bounds__(stream_threads)
    read_again(const uint4* data, std::uint64_t steps, unsigned int passes, unsigned int* kept) {
  unsigned int seen = 0;
#pragma unroll 1
  for (unsigned int pass = 0; pass < passes; ++pass) {
#pragma unroll 1
    for (std::uint64_t s = blockIdx.x; s < steps; s += gridDim.x) {
      const uint4* from = data + s * loads_in_flight * stream_threads + threadIdx.x;
      uint4 value[loads_in_flight];
#pragma unroll
      for (unsigned int k = 0; k < loads_in_flight; ++k) {
        value[k] = load_l2(from + std::uint64_t{k} * stream_threads);
      }
#pragma unroll
      for (unsigned int k = 0; k < loads_in_flight; ++k) {
        seen ^= value[k].x ^ value[k].y ^ value[k].z ^ value[k].w;
      }
    }
  }
  if (seen == 0x51ed2701U) *kept = seen;
}

// Copies the data from the first to the last byte, `passes` times. The reads bypass the L1.
__global__ void __launch_bounds__(stream_threads)
    copy_again(const uint4* from, uint4* to, std::uint64_t steps, unsigned int passes) {
#pragma unroll 1
  for (unsigned int pass = 0; pass < passes; ++pass) {
#pragma unroll 1
    for (std::uint64_t s = blockIdx.x; s < steps; s += gridDim.x) {
      const std::uint64_t at = s * loads_in_flight * stream_threads + threadIdx.x;
      uint4 value[loads_in_flight];
#pragma unroll
      for (unsigned int k = 0; k < loads_in_flight; ++k) {
        value[k] = load_l2(from + at + std::uint64_t{k} * stream_threads);
      }
#pragma unroll
      for (unsigned int k = 0; k < loads_in_flight; ++k) {
        to[at + std::uint64_t{k} * stream_threads] = value[k];
      }
    }
  }
}

__global__ void __launch_bounds__(stream_threads)
    write_all(uint4* data, std::uint64_t count, unsigned int value) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * stream_threads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * stream_threads + threadIdx.x; i < count;
       i += step) {
    data[i] = make_uint4(value, value, value, value);
  }
}

// --- small kernels -------------------------------------------------------------------------------

// A straight chain of `Instructions` multiply-adds. Kernels with different `Which` have different
// machine code at different addresses. A kernel with 0 instructions is empty.
template <unsigned int Instructions, unsigned int Which>
__global__ void __launch_bounds__(stream_threads) small_kernel(float a, float b, float* kept) {
  if constexpr (Instructions != 0) {
    auto x = static_cast<float>(threadIdx.x + Which);
#pragma unroll
    for (unsigned int k = 0; k < Instructions; ++k) step_ffma::run(x, a, b, k);
    if (x == 0.251F) *kept = x;
  }
}

}  // namespace interlace::bench::multiprocessor
