// The L2 cache in front of the memory, for the reads and writes of copies.
#include "sim/gpu/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
  // 32 B at 50 GB/s, an eighth of 400 GB/s
  EXPECT_EQ(m.read(1000, 4096, all), 1000 + 4 * picoseconds{640});
  EXPECT_EQ(m.dram_bytes(), 0U);
}

// The 8 banks share 100 GB/s for stores. Loads keep their rate, and do not wait for the stores.
TEST(memory, stores_have_a_rate_of_their_own) {
  machine::gpu g = described();
  g.l2.write_bytes_per_s = 100e9;
  memory m(g);
  const picoseconds taken = 4 * picoseconds{2560};
  EXPECT_EQ(m.write(1000, 4096, all), 1000U);
  EXPECT_EQ(m.write(1000, 4096, all), 1000 + taken);
  EXPECT_EQ(m.read(1000, 4096, all), 1000 + 4 * picoseconds{640});
}

// Without a rate of their own, stores take the time of loads, and both wait for each other.
TEST(memory, loads_and_stores_share_one_rate) {
  memory m(described());
  const picoseconds taken = 4 * picoseconds{640};
  EXPECT_EQ(m.write(1000, 4096, all), 1000U);
  EXPECT_EQ(m.read(1000, 4096, all), 1000 + 2 * taken);
  EXPECT_EQ(m.write(1000, 4096, all), 1000 + 2 * taken);
}

// The L2 writes data back to memory at the memory's rate for writes.
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

// Each loaded sector makes one stored sector slower, because the channels change direction.
TEST(memory, loads_make_writing_back_slower) {
  machine::gpu g = described();
  g.dram.write_bytes_per_s = g.dram.bytes_per_s;
  const double alone = 65536 / g.dram.bytes_per_s * 1e12;
  const auto moved = [&](double copied, std::uint64_t loaded) {
    g.dram.copy_bytes_per_s = copied;
    memory m(g);
    return static_cast<double>(m.stream_all(0, loaded, 65536)) / alone;
  };
  EXPECT_NEAR(moved(0, 65536), 2, 0.01);
  EXPECT_NEAR(moved(g.dram.bytes_per_s, 65536), 2, 0.01);
  EXPECT_NEAR(moved(g.dram.bytes_per_s / 2, 0), 1, 0.01);
  EXPECT_NEAR(moved(g.dram.bytes_per_s / 2, 65536), 4, 0.01);
  // Half of the stores are beside loads: 0.5 for the loads, 0.5 for half of the stores, and 0.5 x 3
  // for the other half.
  EXPECT_NEAR(moved(g.dram.bytes_per_s / 2, 32768), 2.5, 0.02);
}

// The loads of a kernel that has ended make only the first write-backs of the next kernel slower.
TEST(memory, loads_of_the_past_do_not_slow_stores) {
  machine::gpu g = described();
  g.l2.mshrs = 0;
  const auto written = [&](double copied) {
    g.dram.copy_bytes_per_s = copied;
    memory m(g);
    picoseconds time = 0;
    for (std::uint64_t l = 0; l < 4096; ++l) time = m.read(time, l * line, all);
    m.appear(std::uint64_t{1} << 30U, g.l2.bytes);
    const picoseconds begin = time;
    for (std::uint64_t l = 0; l < 16384; ++l) time = m.write(time, l * line, all);
    return static_cast<double>(time - begin);
  };
  EXPECT_NEAR(written(described().dram.bytes_per_s / 2) / written(0), 1, 0.05);
}

// Loads and stores that miss in turn share the channels at the rate of copies.
TEST(memory, loads_and_stores_in_turn_run_at_the_rate_of_copies) {
  machine::gpu g = described();
  g.dram.write_bytes_per_s = g.dram.bytes_per_s;
  g.l2.write_bytes_per_s = 4 * g.dram.bytes_per_s;
  g.l2.mshrs = 0;
  const auto time_of = [&](double copied) {
    g.dram.copy_bytes_per_s = copied;
    memory m(g);
    m.appear(std::uint64_t{1} << 30U, g.l2.bytes);
    const std::uint64_t lines = 4 * g.l2.bytes / line;
    picoseconds last = 0;
    for (std::uint64_t l = 0; l < lines; ++l) {
      last = std::max(last, m.read(0, 2 * l * line, all));
      last = std::max(last, m.write(0, (2 * l + 1) * line, all));
    }
    return static_cast<double>(last);
  };
  EXPECT_NEAR(time_of(g.dram.bytes_per_s / 2) / time_of(0), 2, 0.1);
}

// Loads that ended long ago slow no more stores than a channel gathers.
TEST(memory, loads_of_a_call_do_not_slow_later_calls) {
  machine::gpu g = described();
  g.dram.write_bytes_per_s = g.dram.bytes_per_s;
  g.dram.copy_bytes_per_s = g.dram.bytes_per_s / 2;
  memory m(g);
  const std::uint64_t bytes = std::uint64_t{1} << 24U;
  const picoseconds loaded = m.stream_all(0, bytes, 0);
  const picoseconds stored = m.stream_all(loaded, 0, bytes) - loaded;
  EXPECT_NEAR(static_cast<double>(stored) / static_cast<double>(loaded), 1, 0.02);
}

// Stores to the L2 wait while the buffer of write-backs is full.
TEST(memory, stores_run_at_the_rate_of_the_memory) {
  machine::gpu g = described();
  g.l2.write_bytes_per_s = 4 * g.dram.bytes_per_s;
  memory m(g);
  m.appear(std::uint64_t{1} << 30U, g.l2.bytes);
  const std::uint64_t lines = 4 * g.l2.bytes / line;
  picoseconds last = 0;
  for (std::uint64_t l = 0; l < lines; ++l) last = std::max(last, m.write(0, l * line, all));
  const double rate = static_cast<double>(lines * line) / static_cast<double>(last) * 1e12;
  EXPECT_NEAR(rate / g.dram.bytes_per_s, 1, 0.1);
}

// A copy fills whole sectors of the cache. The sectors next to them still come from memory.
TEST(memory, the_ends_of_a_stretch_are_sectors) {
  memory m(described());
  // Bytes 40 to 139 lie in three sectors of one line and one sector of the next line.
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
  m.stream_out(2000, 4096, 2 * line);  // the first read left nothing in the cache
  EXPECT_EQ(m.dram_bytes(), 2 * line);
}

// The data is larger than the cache, so the cache writes displaced lines to memory.
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

// --- an L2 of two parts

machine::gpu in_parts() {
  machine::gpu g = described();
  g.l2.parts = 2;
  g.l2.far_latency_ps = 80'000;
  return g;
}

// Returns the address of a line whose home is the first part.
std::uint64_t at_first(const memory& m) {
  std::uint64_t address = 4096;
  while (m.home_of(address) != 0) address += line;
  return address;
}

TEST(memory, pairs_of_compute_units_are_beside_the_parts_in_turn) {
  const memory m(in_parts());
  EXPECT_EQ(m.beside(0), 0U);
  EXPECT_EQ(m.beside(1), 0U);
  EXPECT_EQ(m.beside(2), 1U);
  EXPECT_EQ(m.beside(4), 0U);
  EXPECT_EQ(memory(described()).beside(2), 0U);
}

TEST(memory, a_part_caches_what_it_loads_from_the_other) {
  memory m(in_parts());
  const std::uint64_t address = at_first(m);
  constexpr picoseconds hit = 4 * 640;
  const picoseconds fetched = m.read(0, address, all, 0);
  picoseconds now = 10 * fetched;
  EXPECT_EQ(m.read(now, address, all, 0), now + hit);
  EXPECT_EQ(m.read(now, address, all, 1), now + hit + hit + 80'000);
  now *= 2;
  EXPECT_EQ(m.read(now, address, all, 1), now + hit);
  EXPECT_EQ(m.dram_bytes(), line);
}

TEST(memory, data_of_the_other_parts_memory_takes_the_way_there_too) {
  memory near(in_parts());
  memory far(in_parts());
  const std::uint64_t address = at_first(near);
  EXPECT_EQ(far.read(0, address, all, 1), near.read(0, address, all, 0) + 80'000);
  EXPECT_EQ(far.dram_bytes(), line);
}

TEST(memory, a_store_ends_copies_in_other_parts) {
  memory m(in_parts());
  const std::uint64_t address = at_first(m);
  constexpr picoseconds hit = 4 * 640;
  picoseconds now = 0;
  const auto later = [&] { return now += 100'000'000; };
  const auto takes = [&](std::uint32_t part) {
    later();
    return m.read(now, address, all, part) - now;
  };
  takes(0);
  takes(1);
  EXPECT_EQ(takes(1), hit);
  m.write(later(), address, all, 0);
  EXPECT_EQ(takes(0), hit);
  EXPECT_GT(takes(1), 80'000U);  // the first load after the store misses
  EXPECT_EQ(takes(1), hit);
  // The part that passes a store on to the home also keeps the data.
  m.write(later(), address, all, 1);
  EXPECT_EQ(takes(1), hit);
  EXPECT_EQ(takes(0), hit);
  m.atomic(later(), address, 1);
  EXPECT_GT(takes(1), 80'000U);
}

TEST(memory, data_that_both_parts_load_takes_place_in_both) {
  machine::gpu g = in_parts();
  g.l2.bytes = 1U << 20U;
  g.l2.ways = 16;
  const auto misses = [&](std::uint32_t parts) {
    g.l2.parts = parts;
    memory m(g);
    picoseconds now = 0;
    for (std::uint32_t pass = 0; pass < 2; ++pass) {
      for (std::uint64_t at = 0; at < 3U << 18U; at += line) {
        for (const std::uint32_t unit : {0U, 2U}) m.read(now += 1000, at, all, m.beside(unit));
      }
    }
    return m.reads() - m.read_hits();
  };
  EXPECT_EQ(misses(1), (3U << 18U) / line);
  EXPECT_GE(misses(2), 3 * (3U << 18U) / line);
}

TEST(memory, data_between_parts_has_a_rate) {
  machine::gpu g = in_parts();
  const auto time_of = [&](double rate) {
    g.l2.far_bytes_per_s = rate;
    memory m(g);
    for (std::uint64_t at = 0; at < 256 * line; at += line) m.write(0, at, all, 0);
    picoseconds last = 0;
    constexpr picoseconds later = 1'000'000'000;
    for (std::uint64_t at = 0; at < 256 * line; at += line) {
      last = std::max(last, m.read(later, at, all, 1));
    }
    return static_cast<double>(last - later) * 1e-12;
  };
  // About half of the lines have their home in the first part.
  EXPECT_NEAR(time_of(10e9), 128 * line / 10e9, 0.3 * 128 * line / 10e9);
  EXPECT_LT(time_of(0), 0.5 * time_of(10e9));
}

// Other compute units load what a kernel of a library stored. A quarter of the data comes from the
// other part: its home is there, and a compute unit there stored it.
TEST(memory, a_kernel_of_a_library_finds_a_quarter_in_the_other_part) {
  machine::gpu g = in_parts();
  g.l2.far_bytes_per_s = 10e9;
  constexpr std::uint64_t bytes = 512 * line;
  memory m(g);
  picoseconds late = 0;
  m.sweep(0, 0, bytes, true, 0, late);
  EXPECT_EQ(late, 0U);
  constexpr picoseconds later = 1'000'000'000;
  const picoseconds done = m.sweep(later, 0, bytes, false, 1, late);
  EXPECT_EQ(late, g.l2.far_latency_ps);
  EXPECT_EQ(m.dram_bytes(), 0U);
  const double expected = bytes / 4 / 10e9;
  EXPECT_NEAR(static_cast<double>(done - later) * 1e-12, expected, 0.2 * expected);
}

// Two kernels of a library load the same data. Three quarters of the data then occupy both parts.
TEST(memory, a_sweep_occupies_the_parts_that_load_it) {
  machine::gpu g = in_parts();
  g.l2.bytes = 1U << 20U;
  g.l2.ways = 16;
  const auto fetched = [&](std::uint32_t parts) {
    g.l2.parts = parts;
    memory m(g);
    picoseconds late = 0;
    for (std::uint32_t pass = 0; pass < 2; ++pass) {
      for (std::uint32_t kernel = 0; kernel < 2; ++kernel) {
        m.sweep(0, 0, 7U << 17U, false, kernel, late);
      }
    }
    return static_cast<double>(m.dram_bytes()) / (7U << 17U);
  };
  EXPECT_NEAR(fetched(1), 1, 0.1);
  EXPECT_GT(fetched(2), 2);
}

}  // namespace
}  // namespace interlace::sim::memory_tests
