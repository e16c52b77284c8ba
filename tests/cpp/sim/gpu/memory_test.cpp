// The second-level cache in front of the memory, as copies read and write through it.
#include "sim/gpu/memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "sim/described.hpp"

namespace interlace::sim::memory_tests {
namespace {

constexpr std::uint64_t line = 128;
constexpr std::uint8_t all = 0xf;

machine::gpu described() { return test::meshed(1, machine::protocol_kind::nvlink2).gpu; }

TEST(memory, what_a_copy_writes_is_in_the_cache) {
  memory m(described());
  const picoseconds written = m.stream_in(0, 4096, 4 * line);
  EXPECT_GT(written, 0U);
  EXPECT_EQ(m.dram_bytes(), 0U);
  for (std::uint64_t l = 0; l < 4; ++l) m.read(written, 4096 + l * line, all);
  EXPECT_EQ(m.dram_bytes(), 0U);
  m.read(written, 4096 + 4 * line, all);
  EXPECT_EQ(m.dram_bytes(), line);
}

TEST(memory, what_appears_is_in_the_cache_and_takes_no_time) {
  memory m(described());
  m.appear(4096, 2 * line);
  EXPECT_EQ(m.read(1000, 4096, all), 1000 + 4 * picoseconds{640});  // 8 banks of 400 GB/s
  EXPECT_EQ(m.dram_bytes(), 0U);
}

// There are 8 banks with 100 GB/s each for stores. Loads keep their rate.
TEST(memory, stores_have_a_rate_of_their_own) {
  machine::gpu g = described();
  g.l2.write_bytes_per_s = 100e9;
  memory m(g);
  const picoseconds taken = 4 * picoseconds{2560};
  EXPECT_EQ(m.write(1000, 4096, all), 1000U);
  EXPECT_EQ(m.write(1000, 4096, all), 1000 + taken);
  EXPECT_EQ(m.read(1000, 4096, all), 1000 + 2 * taken + 4 * picoseconds{640});
}

// Data that leaves the cache occupies the channels at the rate of writes.
TEST(memory, writing_back_has_a_rate_of_its_own) {
  machine::gpu g = described();
  const auto flushed = [&](double rate) {
    g.dram.write_bytes_per_s = rate;
    memory m(g);
    m.appear(0, 1U << 16U);
    return static_cast<double>(m.flush(0));
  };
  EXPECT_NEAR(flushed(0), 65536 / g.dram.bytes_per_s * 1e12, 10);
  EXPECT_NEAR(flushed(g.dram.bytes_per_s / 4), 4 * flushed(0), 40);
}

// Sectors next to the written sectors still come from memory.
TEST(memory, the_ends_of_a_stretch_are_sectors) {
  memory m(described());
  // Bytes 40 to 140: three sectors of one line, and one sector of the next line.
  m.stream_in(0, 4096 + 40, 100);
  m.read(0, 4096, all);
  EXPECT_EQ(m.dram_bytes(), 32U);
  m.read(0, 4096 + line, all);
  EXPECT_EQ(m.dram_bytes(), 32U + 3 * 32U);
}

TEST(memory, a_copy_reads_what_the_cache_holds) {
  memory m(described());
  m.write(0, 4096, all);
  m.stream_out(1000, 4096, 2 * line);
  EXPECT_EQ(m.dram_bytes(), line);
  m.stream_out(2000, 4096, 2 * line);  // the read leaves nothing in the cache
  EXPECT_EQ(m.dram_bytes(), 2 * line);
}

// The data is larger than the cache, so displaced lines are written to memory.
TEST(memory, what_is_displaced_is_written_back) {
  const machine::gpu g = described();
  memory m(g);
  m.stream_in(0, 0, 3 * g.l2.bytes);
  EXPECT_EQ(m.dram_bytes(), 2 * g.l2.bytes);
}

TEST(memory, behind_a_cache_that_writes_through) {
  machine::gpu g = described();
  g.l2.write_back = false;
  memory m(g);
  m.stream_in(0, 4096, 4 * line);
  EXPECT_EQ(m.dram_bytes(), 4 * line);
  m.read(0, 4096, all);
  EXPECT_EQ(m.dram_bytes(), 4 * line);
}

}  // namespace
}  // namespace interlace::sim::memory_tests
