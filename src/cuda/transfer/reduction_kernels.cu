// The kernels of an all-reduce, for libraries without the CUDA runtime. nvcc compiles these kernels
// to an image. The image is embedded in the library (reduction_image.cpp), and the driver loads it.
//
// One thread combines the inputs of an element in their order, so the result is deterministic.
// Numbers of 16 bits are added as 32-bit numbers and rounded once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/transfer/reduction_arguments.hpp"

namespace {

using interlace::cuda::reduction_arguments;
using interlace::cuda::reduction_vector_bytes;

// The type in which elements are combined, and the conversions from and to it.
template <class T>
struct combined {
  using type = T;
  static __device__ T from(T value) { return value; }
  static __device__ T to(T value) { return value; }
};
template <>
struct combined<__half> {
  using type = float;
  static __device__ float from(__half value) { return __half2float(value); }
  static __device__ __half to(float value) { return __float2half_rn(value); }
};
template <>
struct combined<__nv_bfloat16> {
  using type = float;
  static __device__ float from(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __nv_bfloat16 to(float value) { return __float2bfloat16_rn(value); }
};

// Adds. Sums of integers wrap.
struct by_sum {
  static __device__ float of(float a, float b) { return __fadd_rn(a, b); }
  static __device__ double of(double a, double b) { return __dadd_rn(a, b); }
  static __device__ std::int32_t of(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
  static __device__ std::int64_t of(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
};
// Takes the minimum. For a number and a NaN, the minimum is the number.
struct by_min {
  static __device__ float of(float a, float b) { return fminf(a, b); }
  static __device__ double of(double a, double b) { return fmin(a, b); }
  template <class Integer>
  static __device__ Integer of(Integer a, Integer b) {
    return b < a ? b : a;
  }
};
struct by_max {
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
  static __device__ double of(double a, double b) { return fmax(a, b); }
  template <class Integer>
  static __device__ Integer of(Integer a, Integer b) {
    return a < b ? b : a;
  }
};

template <class T, class By>
__device__ void reduce(const reduction_arguments& what) {
  using as = combined<T>;
  constexpr std::uint32_t lanes = reduction_vector_bytes / sizeof(T);
  union vector {
    uint4 all;
    T lane[lanes];
    __device__ vector() : all() {}
  };
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t at = first; at < what.vectors; at += step) {
    typename as::type result[lanes];
    vector read;
    read.all = reinterpret_cast<const uint4*>(what.in[0])[at];
#pragma unroll
    for (std::uint32_t k = 0; k < lanes; ++k) result[k] = as::from(read.lane[k]);
#pragma unroll 4
    for (std::uint32_t input = 1; input < what.inputs; ++input) {
      read.all = reinterpret_cast<const uint4*>(what.in[input])[at];
#pragma unroll
      for (std::uint32_t k = 0; k < lanes; ++k)
        result[k] = By::of(result[k], as::from(read.lane[k]));
    }
#pragma unroll
    for (std::uint32_t k = 0; k < lanes; ++k) read.lane[k] = as::to(result[k]);
    reinterpret_cast<uint4*>(what.out)[at] = read.all;
  }
  for (std::uint64_t at = what.vectors * lanes + first; at < what.count; at += step) {
    auto result = as::from(reinterpret_cast<const T*>(what.in[0])[at]);
    for (std::uint32_t input = 1; input < what.inputs; ++input)
      result = By::of(result, as::from(reinterpret_cast<const T*>(what.in[input])[at]));
    reinterpret_cast<T*>(what.out)[at] = as::to(result);
  }
}

}  // namespace

// reductions.cpp looks these names up.
#define INTERLACE_REDUCTION(BY, NAME, TYPE)                             \
  extern "C" __global__ void interlace_reduce_##BY##_##NAME(            \
      const __grid_constant__ interlace::cuda::reduction_arguments a) { \
    reduce<TYPE, by_##BY>(a);                                           \
  }
#define INTERLACE_REDUCTIONS(NAME, TYPE) \
  INTERLACE_REDUCTION(sum, NAME, TYPE)   \
  INTERLACE_REDUCTION(min, NAME, TYPE)   \
  INTERLACE_REDUCTION(max, NAME, TYPE)

INTERLACE_REDUCTIONS(float32, float)
INTERLACE_REDUCTIONS(float64, double)
INTERLACE_REDUCTIONS(float16, __half)
INTERLACE_REDUCTIONS(bfloat16, __nv_bfloat16)
INTERLACE_REDUCTIONS(int32, std::int32_t)
INTERLACE_REDUCTIONS(int64, std::int64_t)
