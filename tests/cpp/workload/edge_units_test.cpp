// Tests of cutting rows into units of edges.
#include "workload/shared/edge_units.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "workload/random.hpp"

namespace interlace::edge_units_tests {
namespace {

using workload::edge_units;
using workload::unit_limits;
using workload::unit_table;

// Makes random rows. On average, one row in `long_every` rows is long and has up to three tiles of
// edges.
std::vector<std::uint64_t> random_rows(test::random_numbers& random, std::uint32_t rows,
                                       std::uint32_t long_every) {
  std::vector<std::uint64_t> offsets{0};
  for (std::uint32_t r = 0; r < rows; ++r) {
    const bool is_long = random.below(long_every) == 0;
    offsets.push_back(offsets.back() +
                      random.below(is_long ? 3 * edge_units::tile : 1 + random.below(12)));
  }
  return offsets;
}

// Checks that every row and every edge occurs once, in order. If a row is cut, every part except
// the last is a whole number of tiles.
void expect_whole(const unit_table& units, const std::vector<std::uint64_t>& offsets,
                  std::uint64_t first, std::uint64_t last, const unit_limits& limits) {
  ASSERT_EQ(units.rows.size(), units.count() + 1);
  ASSERT_EQ(units.edges.size(), units.count() + 1);
  EXPECT_EQ(units.rows.front(), 0U);
  EXPECT_EQ(units.edges.front(), 0U);
  EXPECT_EQ(units.rows.back(), last - first);
  EXPECT_EQ(units.edges.back(), offsets[last] - offsets[first]);
  for (std::uint64_t u = 0; u < units.count(); ++u) {
    const std::uint32_t rows = units.rows[u + 1] - units.rows[u];
    const std::uint32_t edges = units.edges[u + 1] - units.edges[u];
    ASSERT_LE(edges, edge_units::tile);
    if (units.slots[u] != 0) {
      ASSERT_LE(rows, 1U);
      continue;
    }
    ASSERT_GE(rows, 1U);
    ASSERT_LE(rows, limits.max_rows);
    if (rows > 1) {
      ASSERT_LE(edges, limits.max_edges);
    }
    ASSERT_EQ(units.edges[u], offsets[first + units.rows[u]] - offsets[first]);
  }
}

// Checks that units have as many rows as the limits allow, with one exception. A unit ends at a
// cache line if this makes the unit at most a quarter shorter.
void expect_full(const unit_table& units, const std::vector<std::uint64_t>& offsets,
                 std::uint64_t first, std::uint64_t last, const unit_limits& limits) {
  for (std::uint64_t u = 0; u < units.count(); ++u) {
    if (units.slots[u] != 0) continue;
    const std::uint64_t begin = first + units.rows[u];
    const std::uint64_t end = first + units.rows[u + 1];
    std::uint64_t most = begin + 1;
    while (most < last && most - begin < limits.max_rows &&
           offsets[most + 1] - offsets[begin] <= limits.max_edges) {
      ++most;
    }
    const std::uint64_t line = most / limits.line_rows * limits.line_rows;
    const bool at_line = most < last && line > begin && 4 * (most - line) <= most - begin;
    ASSERT_EQ(end, at_line ? line : most);
  }
}

TEST(edge_units, hold_every_row_whatever_their_size) {
  test::random_numbers random(31);
  for (int k = 0; k < 60; ++k) {
    const std::uint32_t rows = 1 + random.below(3000);
    const auto offsets = random_rows(random, rows, 200);
    const std::uint64_t first = random.below(rows);
    const std::uint64_t last = first + random.below(static_cast<std::uint32_t>(rows - first) + 1);
    const unit_limits limits{1 + random.below(edge_units::max_rows),
                             1 + random.below(edge_units::tile), 1 + random.below(64)};
    const unit_table units = workload::make_units(offsets.data(), first, last, limits);
    expect_whole(units, offsets, first, last, limits);
    expect_full(units, offsets, first, last, limits);
  }
}

// The cut must have the requested number of rounds, unless the units would become too small. The
// units must not be smaller than necessary.
TEST(edge_units, become_smaller_where_a_device_holds_too_many) {
  test::random_numbers random(32);
  const std::uint32_t rows = 60'000;
  const auto offsets = random_rows(random, rows, 5000);
  const unit_limits lines{.line_rows = edge_units::line_rows};
  const std::uint64_t largest = workload::make_units(offsets.data(), 0, rows, lines).count();
  std::uint64_t before = largest;
  for (const std::uint64_t at_once : {1, 50, 100, 200, 400, 100'000}) {
    const auto units = workload::units_in_rounds(offsets.data(), 0, rows, at_once, lines);
    expect_whole(units, offsets, 0, rows, lines);
    EXPECT_GE(units.count(), before);
    before = units.count();
    if (largest >= edge_units::least_rounds * at_once) {
      EXPECT_EQ(units.rows, workload::make_units(offsets.data(), 0, rows, lines).rows);
    }
  }
  EXPECT_GT(before, 2 * largest);
  // Units that end at cache lines add few units, even if every row has nearly the size of a line.
  EXPECT_LE(largest, workload::make_units(offsets.data(), 0, rows).count() * 4 / 3 + 1);
  for (const std::uint64_t degree : {1, 17, 33, 63, 65, 70}) {
    std::vector<std::uint64_t> alike(20'001);
    for (std::uint64_t r = 0; r < alike.size(); ++r) alike[r] = r * degree;
    EXPECT_LE(workload::make_units(alike.data(), 0, 20'000, lines).count(),
              workload::make_units(alike.data(), 0, 20'000).count() * 4 / 3 + 1)
        << degree;
  }
  // The number of units is largest if each thread has one row.
  EXPECT_EQ(before,
            workload::make_units(
                offsets.data(), 0, rows,
                {edge_units::threads, edge_units::tile * edge_units::threads / edge_units::max_rows,
                 edge_units::line_rows})
                .count());
}

}  // namespace
}  // namespace interlace::edge_units_tests
