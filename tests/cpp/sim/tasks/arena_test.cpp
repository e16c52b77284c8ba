// The memory of simulated devices.
#include "sim/tasks/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace interlace::sim::arena_tests {
namespace {

TEST(arena, any_number_of_threads_fills_every_byte) {
  constexpr std::uint64_t bytes = (std::uint64_t{40} << 20U) + 3;
  for (const std::uint32_t threads : {1U, 2U, 4U, 16U}) {
    arena memory(2);
    memory.use_threads(threads);
    const std::byte* data = memory.take(1, bytes);
    EXPECT_EQ(std::count(data, data + bytes, std::byte{0xff}), bytes) << threads << " threads";
    EXPECT_EQ(data[bytes], std::byte{0}) << threads << " threads";
    EXPECT_EQ(memory.used(1), bytes);
    EXPECT_EQ(memory.used(0), 0U);
  }
}

}  // namespace
}  // namespace interlace::sim::arena_tests
