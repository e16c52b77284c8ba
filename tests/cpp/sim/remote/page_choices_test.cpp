// The choice for a page depends only on the loads of this page.
#include "sim/remote/page_choices.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "interlace/base/errors.hpp"

namespace interlace::sim::page_choices_tests {
namespace {

constexpr std::uint64_t first = std::uint64_t{4} << 36U;
constexpr std::uint64_t page = 4096;

void load(page_choices& all, std::uint64_t number, std::uint32_t times, std::uint32_t used,
          bool hit) {
  for (std::uint32_t k = 0; k < times; ++k) {
    all.remote_load(first + number * page + k % 64 * 64, used, 16, hit);
  }
}

TEST(page_choices, each_page_by_itself) {
  page_choices all({}, 8, first, page);
  load(all, 0, 8, 1, false);
  load(all, 2, 8, 16, false);
  load(all, 3, 8, 1, true);
  load(all, 4, 7, 1, false);
  EXPECT_EQ(all.of(first), optimisation::coalesce);
  EXPECT_EQ(all.of(first + page - 1), optimisation::coalesce);
  EXPECT_EQ(all.of(first + page), std::nullopt);
  EXPECT_EQ(all.of(first + 2 * page), optimisation::cache);
  EXPECT_EQ(all.of(first + 3 * page), optimisation::cache);
  EXPECT_EQ(all.of(first + 4 * page), std::nullopt);
  EXPECT_EQ(all.of(first + 1000 * page), std::nullopt);
  EXPECT_EQ(all.of(0), std::nullopt);
  EXPECT_EQ(all.count(optimisation::coalesce), 1U);
  EXPECT_EQ(all.count(optimisation::cache), 2U);
  EXPECT_EQ(all.count(optimisation::leave), 0U);
}

TEST(page_choices, a_choice_stays) {
  page_choices all({}, 8, first, page);
  load(all, 0, 8, 1, false);
  load(all, 0, 1000, 16, true);
  EXPECT_EQ(all.of(first), optimisation::coalesce);
}

TEST(page_choices, other_memory_has_no_pages_here) {
  page_choices all({}, 1, first, page);
  all.remote_load(first - 64, 1, 16, false);
  EXPECT_EQ(all.count(optimisation::coalesce), 0U);
}

TEST(page_choices, options_without_meaning_are_refused) {
  EXPECT_THROW(page_choices({}, 0, first, page), usage_error);
  EXPECT_THROW(page_choices({.hit = 2}, 1, first, page), usage_error);
}

}  // namespace
}  // namespace interlace::sim::page_choices_tests
