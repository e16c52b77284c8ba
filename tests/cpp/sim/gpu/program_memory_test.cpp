#include "sim/gpu/program_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace interlace::program_memory_tests {
namespace {

TEST(program_memory, blocks_of_all_sizes_keep_their_bytes) {
  struct block {
    void* place = nullptr;
    std::size_t bytes = 0;
    std::uint8_t value = 0;
  };
  sim::program_memory memory;
  std::mt19937 random(1);
  std::vector<block> held;
  const auto check_and_free = [&](const block& b) {
    const auto* bytes = static_cast<const std::uint8_t*>(b.place);
    ASSERT_EQ(std::count(bytes, bytes + b.bytes, b.value), static_cast<std::ptrdiff_t>(b.bytes));
    memory.deallocate(b.place, b.bytes, 8);
  };
  for (std::uint32_t k = 0; k < 3000; ++k) {
    // The sizes lie on both sides of each size class. Some blocks are so large that each of them is
    // allocated separately.
    const std::size_t base = std::size_t{1} << (k % 50 == 49 ? 20U : random() % 16);
    const std::size_t bytes =
        std::max<std::size_t>(1, base + random() % 3 - 1 + base / 4 * (k % 4));
    const block b{memory.allocate(bytes, 8), bytes, static_cast<std::uint8_t>(random())};
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(b.place) % 8, 0U);
    std::memset(b.place, b.value, b.bytes);
    held.push_back(b);
    if (held.size() < 40) continue;
    std::swap(held[random() % held.size()], held.back());
    check_and_free(held.back());
    held.pop_back();
  }
  for (const block& b : held) check_and_free(b);
}

TEST(program_memory, a_freed_block_is_used_again) {
  sim::program_memory memory;
  void* first = memory.allocate(5000, 8);
  memory.deallocate(first, 5000, 8);
  EXPECT_EQ(memory.allocate(4900, 8), first);
  EXPECT_NE(memory.allocate(4900, 8), first);
}

TEST(program_memory, vectors_that_double_fill_their_blocks) {
  // The sizes are 40 bytes times powers of two. For these sizes, neighbouring blocks have no gap
  // between them.
  sim::program_memory memory;
  auto* first = static_cast<std::byte*>(memory.allocate(40 * 64, 8));
  auto* second = static_cast<std::byte*>(memory.allocate(40 * 64, 8));
  EXPECT_EQ(second - first, 40 * 64);
}

}  // namespace
}  // namespace interlace::program_memory_tests
