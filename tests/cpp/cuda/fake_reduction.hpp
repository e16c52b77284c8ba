// Computes the results of an all-reduce's kernels, element by element on host memory. This code was
// written independently of the kernels. It handles 16-bit numbers by their bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/transfer/reduction_arguments.hpp"

namespace interlace::fake {

// Converts numbers of IEEE's binary16 (`ExponentBits` is 5) and of bfloat16 (`ExponentBits` is 8).
template <int ExponentBits>
float widened(std::uint16_t bits) {
  constexpr int fraction_bits = 15 - ExponentBits;
  constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == (1 << ExponentBits) - 1)
    return fraction != 0 ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits);
  return sign * std::ldexp(static_cast<float>(fraction + (1 << fraction_bits)),
                           exponent - bias - fraction_bits);
}

// Rounds to the nearest value by trying all values. A tie rounds to even.
template <int ExponentBits>
std::uint16_t narrowed(float value) {
  constexpr int fraction_bits = 15 - ExponentBits;
  constexpr std::uint16_t infinite = ((1 << ExponentBits) - 1) << fraction_bits;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return infinite | 1U << (fraction_bits - 1);
  // A number with a larger magnitude has larger bits. If a value lies above the midpoint between
  // the largest number and the next power of 2, the value becomes infinite.
  const double wanted = std::fabs(static_cast<double>(value));
  std::uint16_t low = 0;
  std::uint16_t high = infinite - 1;
  while (low < high) {
    const auto middle = static_cast<std::uint16_t>((low + high + 1) / 2);
    if (static_cast<double>(widened<ExponentBits>(middle)) <= wanted)
      low = middle;
    else
      high = static_cast<std::uint16_t>(middle - 1);
  }
  const double below = static_cast<double>(widened<ExponentBits>(low));
  const double step =
      low == 0
          ? static_cast<double>(widened<ExponentBits>(1))
          : below - static_cast<double>(widened<ExponentBits>(static_cast<std::uint16_t>(low - 1)));
  const double above =
      low == infinite - 1
          ? below + step
          : static_cast<double>(widened<ExponentBits>(static_cast<std::uint16_t>(low + 1)));
  const double middle = (below + above) / 2;
  const bool up = wanted > middle || (wanted == middle && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(low + (up ? 1 : 0)));
}

template <class T>
T combined_of(const std::string& by, T a, T b) {
  if (by == "sum") {
    if constexpr (std::is_integral_v<T>) {
      using bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<bits>(static_cast<bits>(a) + static_cast<bits>(b)));
    } else {
      return a + b;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
  }
  return by == "min" ? std::min(a, b) : std::max(a, b);
}

// A kernel that was launched on a GPU. `name` is the kernel's name in the image.
struct reduction {
  int gpu = 0;
  std::string by;
  std::string type;
  cuda::reduction_arguments what;
  std::uint64_t width = 0;  // bytes of an element

  reduction(int on, const std::string& name, const cuda::reduction_arguments& given)
      : gpu(on), what(given) {
    const std::string prefix = "interlace_reduce_";
    if (!name.starts_with(prefix)) throw std::logic_error("there is no kernel " + name);
    by = name.substr(prefix.size(), 3);
    type = name.substr(prefix.size() + 4);
    width = type.ends_with("64") ? 8 : type.ends_with("32") ? 4 : 2;
  }
  std::uint64_t bytes() const { return what.count * width; }

  std::vector<std::uint8_t> computed() const {
    if (type == "float32") return over<float, float>();
    if (type == "float64") return over<double, double>();
    if (type == "int32") return over<std::int32_t, std::int32_t>();
    if (type == "int64") return over<std::int64_t, std::int64_t>();
    if (type == "float16") return over<std::uint16_t, float>(widened<5>, narrowed<5>);
    if (type == "bfloat16") return over<std::uint16_t, float>(widened<8>, narrowed<8>);
    throw std::logic_error("there is no kernel for " + type);
  }

 private:
  template <class T, class As>
  std::vector<std::uint8_t> over(
      As (*from)(T) = [](T value) { return static_cast<As>(value); },
      T (*to)(As) = [](As value) { return static_cast<T>(value); }) const {
    std::vector<std::uint8_t> made(bytes());
    for (std::uint64_t at = 0; at < what.count; ++at) {
      As result{};
      for (std::uint32_t input = 0; input < what.inputs; ++input) {
        T read{};
        std::memcpy(&read, reinterpret_cast<const std::uint8_t*>(what.in[input]) + at * width,
                    width);
        result = input == 0 ? from(read) : combined_of<As>(by, result, from(read));
      }
      const T written = to(result);
      std::memcpy(made.data() + at * width, &written, width);
    }
    return made;
  }
};

}  // namespace interlace::fake
