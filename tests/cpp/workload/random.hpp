// Random numbers that are the same on every machine. The distributions of the standard library do
// not promise this.
#pragma once

#include <cstdint>
#include <random>

namespace interlace::test {

class random_numbers {
 public:
  explicit random_numbers(std::uint32_t seed) : engine_(seed) {}
  // Returns a number from 0 to n - 1.
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_() % n); }
  // Returns a number in [0, 1), in steps of 2^-24.
  float unit() { return static_cast<float>(below(1U << 24U)) * 0x1p-24F; }

 private:
  std::mt19937 engine_;
};

}  // namespace interlace::test
