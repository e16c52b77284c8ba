// Atomic updates of one element. They return nothing, and they are relaxed at device scope.
#pragma once

#include <type_traits>

#include "interlace/kernel.hpp"
#include "interlace/kernel_device.cuh"

namespace interlace::cuda::updates {

template <combine Op, class T>
__device__ __forceinline__ void combine_at(T* p, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the value of an update must have 4 or 8 bytes");
  if constexpr (Op == combine::store) {
    *static_cast<volatile T*>(p) = value;
  } else if constexpr (Op == combine::bit_xor || Op == combine::bit_or) {
    static_assert(std::is_integral_v<T>, "the bit operations need an integer type");
    using word = std::conditional_t<sizeof(T) == 4, unsigned int, unsigned long long>;
    auto* const at = reinterpret_cast<word*>(p);
    if constexpr (Op == combine::bit_xor)
      atomicXor(at, static_cast<word>(value));
    else
      atomicOr(at, static_cast<word>(value));
  } else if constexpr (Op == combine::max) {
    // Floating-point numbers are compared as integers. Below zero, the order of these integers is
    // reversed.
    if constexpr (std::is_same_v<T, float>) {
      if (__float_as_int(value) >= 0)
        atomicMax(reinterpret_cast<int*>(p), __float_as_int(value));
      else
        atomicMin(reinterpret_cast<unsigned int*>(p), __float_as_uint(value));
    } else if constexpr (std::is_same_v<T, double>) {
      const long long bits = __double_as_longlong(value);
      if (bits >= 0)
        atomicMax(reinterpret_cast<long long*>(p), bits);
      else
        atomicMin(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(bits));
    } else if constexpr (sizeof(T) == 4) {
      atomicMax(p, value);
    } else {
      using wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
      atomicMax(reinterpret_cast<wide*>(p), static_cast<wide>(value));
    }
  } else {
    ::interlace::device::atomic_combine_relaxed<Op>(p, value);
  }
}

// Updates an element in shared memory. Shared memory has only atomics of 32 bits.
template <combine Op, class T>
__device__ __forceinline__ void combine_shared(T* p, T value) {
  if constexpr (sizeof(T) == 8 && (Op == combine::bit_xor || Op == combine::bit_or)) {
    auto* const at = reinterpret_cast<unsigned int*>(p);
    const auto low = static_cast<unsigned int>(value);
    const auto high = static_cast<unsigned int>(static_cast<unsigned long long>(value) >> 32U);
    // The odd lanes begin with the high word, so that the lanes of a warp use all banks.
    const unsigned int odd = threadIdx.x & 1U;
    combine_at<Op>(at + odd, odd != 0 ? high : low);
    combine_at<Op>(at + (odd ^ 1U), odd != 0 ? low : high);
  } else if constexpr (sizeof(T) == 8 && Op == combine::add && std::is_integral_v<T>) {
    // Together, the additions to the low word carry as often as one addition of their sum would.
    auto* const at = reinterpret_cast<unsigned int*>(p);
    const auto low = static_cast<unsigned int>(value);
    const auto high = static_cast<unsigned int>(static_cast<unsigned long long>(value) >> 32U);
    const unsigned int before = atomicAdd(at, low);
    const unsigned int carried = high + (before + low < before ? 1U : 0U);
    if (carried != 0) atomicAdd(at + 1, carried);
  } else {
    combine_at<Op>(p, value);
  }
}

}  // namespace interlace::cuda::updates
