#include "interlace/host/footprint.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <vector>

namespace interlace::footprint_tests {
namespace {

struct alignas(64) line {
  std::byte bytes[64];
};

kernel::launch_work taken(host::footprint& f) {
  kernel::launch_work work;
  f.take(work);
  return work;
}

TEST(footprint, counts_each_sector_once) {
  std::vector<line> memory(10);
  const auto at = [&](std::size_t byte) { return &memory[0].bytes[0] + byte; };
  host::footprint f;
  f.add(memory.data(), memory.size() * sizeof(line));
  f.load(at(0), 4);
  f.load(at(28), 4);   // the same sector
  f.load(at(24), 16);  // the same sector, and the next sector
  f.store(at(64), 8);
  f.load(at(64), 4);   // the launch itself has stored this value, so this load reads no memory
  f.store(at(32), 4);  // this sector was loaded before
  auto work = taken(f);
  EXPECT_EQ(work.loaded_bytes, 64U);
  EXPECT_EQ(work.stored_bytes, 64U);
  EXPECT_EQ(work.touched_bytes, 96U);
  // Another launch starts a new count.
  f.load(at(64), 4);
  work = taken(f);
  EXPECT_EQ(work.loaded_bytes, 32U);
  EXPECT_EQ(work.stored_bytes, 0U);
  EXPECT_EQ(work.touched_bytes, 32U);
}

TEST(footprint, unknown_memory_counts_nothing) {
  std::vector<line> memory(3);
  host::footprint f;
  f.load(memory.data(), 4);
  f.add(&memory[1], sizeof(line));
  f.add(memory.data(), 0);
  f.load(&memory[0], 4);
  f.store(&memory[2], 4);
  EXPECT_EQ(taken(f).touched_bytes, 0U);
  f.load(&memory[1], 4);
  EXPECT_EQ(taken(f).touched_bytes, 32U);
}

// The test compares the counts with sets of sectors. It adds pieces of memory in any order.
TEST(footprint, random_accesses) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    host::footprint f;
    std::vector<std::vector<line>> pieces;
    for (int p = 0; p < 12; ++p) pieces.emplace_back(1 + random() % 3000);
    for (const auto& p : pieces) f.add(p.data(), p.size() * sizeof(line));
    std::set<std::uintptr_t> loaded, stored, touched;
    for (int k = 0; k < 3000; ++k) {
      auto& piece = pieces[random() % pieces.size()];
      const std::uint32_t bytes = 1U << (random() % 5U);
      const auto offset = random() % (piece.size() * sizeof(line) / bytes) * bytes;
      const auto* address = reinterpret_cast<const std::byte*>(piece.data()) + offset;
      const auto sector = reinterpret_cast<std::uintptr_t>(address) / kernel::sector_bytes;
      touched.insert(sector);
      if (random() % 3 == 0) {
        f.store(address, bytes);
        stored.insert(sector);
      } else {
        f.load(address, bytes);
        if (stored.count(sector) == 0) loaded.insert(sector);
      }
    }
    const auto work = taken(f);
    ASSERT_EQ(work.loaded_bytes, kernel::sector_bytes * loaded.size());
    ASSERT_EQ(work.stored_bytes, kernel::sector_bytes * stored.size());
    ASSERT_EQ(work.touched_bytes, kernel::sector_bytes * touched.size());
  }
}

}  // namespace
}  // namespace interlace::footprint_tests
