// The candidates that a region allows, and the reasons why candidates are excluded.
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/tune.hpp"
#include "kernel/chunks.hpp"
#include "tune/region_options.hpp"

namespace interlace::space_tests {
namespace {

using sizes = std::vector<std::uint64_t>;

sizes chunks_of(const std::string& mechanism, std::uint64_t part_bytes, const tune_grid& grid = {},
                std::uint32_t element_bytes = 4) {
  const tune_space space = tune_space_of({part_bytes, element_bytes, 3}, {mechanism}, grid);
  return space.families.empty() ? sizes{} : space.families.at(0).axes.at(0).values;
}

TEST(space, of_a_large_part_is_all_that_can_be_waited_for) {
  EXPECT_EQ(chunks_of("polling", 256 * mib), tune_grid::powers_of_two(4 * kib, 16 * mib));
  EXPECT_EQ(chunks_of("copy-engine", 50 * mib), tune_grid::powers_of_two(256 * kib, 16 * mib));
  EXPECT_EQ(chunks_of("copy-engine", 256 * mib), tune_grid::powers_of_two(2 * mib, 16 * mib));
}

// Even a part that has the size of a chunk is cut, because its chunks grow and shrink.
TEST(space, has_one_chunk_size_that_leaves_a_part_whole) {
  EXPECT_EQ(chunks_of("polling", 100 * kib), tune_grid::powers_of_two(4 * kib, mib));
  EXPECT_EQ(chunks_of("polling", 4 * kib), tune_grid::powers_of_two(4 * kib, 32 * kib));
  EXPECT_EQ(chunks_of("polling", 512), sizes{4 * kib});
  EXPECT_EQ(chunks_of("polling", 0), sizes{4 * kib});
  EXPECT_EQ(chunks_of("copy-engine", 100 * kib), (sizes{256 * kib, 512 * kib, mib}));
  EXPECT_EQ(chunks_of("copy-engine", 32 * kib), sizes{256 * kib});
  EXPECT_EQ(chunks_of("copy-engine", std::uint64_t{1} << 40U), sizes{16 * mib});
}

TEST(space, sizes_that_are_out_cut_a_part_as_the_last_one_does) {
  for (const std::uint64_t part : {128U, 512U, 4000U, 80324U, 100000U}) {
    const auto cut = [&](std::uint64_t chunk_bytes) {
      kernel::region_options options;
      options.boundaries = {0, part / 4, part / 4 + 32};
      options.mechanism = kernel::mechanism::polling;
      options.chunk_bytes = chunk_bytes;
      return kernel::cut_chunks(kernel::make_region_state(options, 4, 2), 0).size();
    };
    const sizes tried = chunks_of("polling", part);
    EXPECT_EQ(cut(tried.back()), 1U) << part;
    for (std::size_t i = 0; i + 1 < tried.size(); ++i) EXPECT_GT(cut(tried[i]), 1U) << part;
  }
}

TEST(space, keeps_the_largest_chunk_where_none_is_worth_a_wait) {
  tune_grid grid;
  grid.chunk_bytes = {4 * kib, 64 * kib};
  EXPECT_EQ(chunks_of("copy-engine", mib, grid), sizes{64 * kib});
}

TEST(space, a_chunk_holds_an_element) {
  EXPECT_EQ(chunks_of("polling", 64 * kib, {}, 16 * kib),
            tune_grid::powers_of_two(16 * kib, 512 * kib));
  EXPECT_EQ(chunks_of("polling", mib, {}, 32 * mib), sizes{});
}

TEST(space, names_a_reason_for_each_value_that_is_out) {
  const tune_space space = tune_space_of({100 * mib, 8 * kib, 1}, {"polling", "copy-engine"});
  std::vector<std::string> reasons;
  for (const tune_excluded& out : space.excluded) {
    reasons.push_back(out.candidate.mechanism + " " +
                      std::to_string(*out.candidate.parameter("chunk_bytes")) + ": " + out.reason);
    EXPECT_FALSE(out.candidate.parameter("agent_threads").has_value());
  }
  EXPECT_EQ(reasons.size(), 1 + 1 + 5 + 1);
  EXPECT_EQ(reasons.front(), "polling 4096: an element has 8 KiB");
  EXPECT_EQ(reasons.at(2),
            "copy-engine 8192: a chunk below 256 KiB is too small to be worth a wait and a copy");
  EXPECT_EQ(reasons.back(), "copy-engine 262144: a part of 100 MiB would need more than 250 waits");
  EXPECT_EQ(tune_space_of({mib, 4, 1}, {"polling"}).excluded.at(0).reason,
            "it gives the same chunk as 8 MiB: a part of 1 MiB is one chunk");
}

TEST(space, controls_and_parameters) {
  const tune_space space =
      tune_space_of({mib, 4, 1}, {"bulk-copy", "split", "inline", "polling", "copy-engine"});
  std::vector<std::string> controls;
  std::vector<std::size_t> axes;
  for (const tune_family& family : space.families) {
    if (family.control) controls.push_back(family.mechanism);
    axes.push_back(family.axes.size());
  }
  EXPECT_EQ(controls, (std::vector<std::string>{"bulk-copy", "split"}));
  EXPECT_EQ(axes, (std::vector<std::size_t>{0, 1, 0, 2, 1}));
}

TEST(space, has_agents_that_copy_in_bulk_where_they_are_asked_for) {
  tune_grid grid;
  EXPECT_EQ(tune_space_of({mib, 4, 1}, {"polling"}).families.size(), 1U);
  grid.bulk_threads = {32, 4096};
  const auto found =
      tune_space_of({mib, 4, 1}, {"polling", "device-launch", "copy-engine"}, grid).families;
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].axes[1].name, "agent_threads");
  EXPECT_EQ(found[1].mechanism, "polling");
  EXPECT_EQ(found[1].axes[0].values, found[0].axes[0].values);
  EXPECT_EQ(found[1].axes[1].name, "bulk_threads");
  EXPECT_EQ(found[1].axes[1].values, grid.bulk_threads);
  EXPECT_EQ(found[2].mechanism, "device-launch");
}

TEST(space, wrong_lists_are_refused) {
  const std::vector<std::string> names{"polling"};
  EXPECT_THROW(tune_space_of({mib, 4, 0}, names), usage_error);
  EXPECT_THROW(tune_space_of({mib, 4, 1}, names, {{}, {mib}, {32}}), usage_error);
  EXPECT_THROW(tune_space_of({mib, 4, 1}, names, {{0}, {mib}, {32}}), usage_error);
  EXPECT_THROW(tune_space_of({mib, 4, 1}, names, {{2}, {mib, mib}, {32}}), usage_error);
  EXPECT_THROW(tune_space_of({mib, 4, 1}, names, {{2}, {mib}, {64, 32}}), usage_error);
  EXPECT_THROW(tune_space_of({mib, 4, 1}, names, {{2}, {mib}, {32}, 0, 250, {0}}), usage_error);
  EXPECT_THROW(tune_space_of({mib, 4, 1}, names, {{2}, {mib}, {32}, 0, 0}), usage_error);
}

TEST(space, a_candidate_becomes_options_of_a_region) {
  kernel::region_options options;
  options.boundaries = {0, 8};
  const auto polling =
      with_candidate({"polling", {{"chunk_bytes", 64 * kib}, {"agent_threads", 4096}}}, options);
  EXPECT_EQ(polling.mechanism, kernel::mechanism::polling);
  EXPECT_EQ(polling.chunk_bytes, 64 * kib);
  EXPECT_EQ(polling.agent_threads, 4096U);
  EXPECT_EQ(polling.boundaries, options.boundaries);
  EXPECT_EQ(polling.agent_copy, kernel::agent_copy::vectors);
  const auto in_bulk = with_candidate({"polling", {{"bulk_threads", 2048}}}, options);
  EXPECT_EQ(in_bulk.agent_threads, 2048U);
  EXPECT_EQ(in_bulk.agent_copy, kernel::agent_copy::bulk);
  const auto split = with_candidate({"split", {{"ranges", 16}}}, options);
  EXPECT_EQ(split.mechanism, kernel::mechanism::split);
  EXPECT_EQ(split.split_ranges, 16U);
  EXPECT_EQ(split.chunk_bytes, options.chunk_bytes);
  EXPECT_THROW(with_candidate({"by-hand", {}}, options), usage_error);
}

}  // namespace
}  // namespace interlace::space_tests
