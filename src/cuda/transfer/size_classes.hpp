// Classes of message sizes. All messages of a class have the same plan. Each power of two has eight
// classes, so the longest message of a class is at most an eighth longer than the shortest one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace interlace::cuda {

// number of leading bits that the sizes of a class have in common
inline constexpr unsigned class_digits = 4;
inline constexpr std::size_t size_classes = std::size_t{64} << (class_digits - 1);

// The number of bits that follow the leading bits of a size.
constexpr unsigned class_surplus(std::uint64_t bytes) {
  const auto width = static_cast<unsigned>(std::bit_width(bytes));
  return width <= class_digits ? 0 : width - class_digits;
}

// The smallest size in the class that contains `bytes`.
constexpr std::uint64_t class_least(std::uint64_t bytes) {
  return bytes >> class_surplus(bytes) << class_surplus(bytes);
}
// The largest size in the class that contains `bytes`.
constexpr std::uint64_t class_most(std::uint64_t bytes) {
  return class_least(bytes) + (std::uint64_t{1} << class_surplus(bytes)) - 1;
}

// The number of the class that contains `bytes`. It is below size_classes and grows with `bytes`.
constexpr std::size_t size_class(std::uint64_t bytes) {
  const unsigned surplus = class_surplus(bytes);
  return (std::size_t{surplus} << (class_digits - 1)) + (bytes >> surplus);
}

}  // namespace interlace::cuda
