#include "kernel/region_spec.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::kernel::region_spec_tests {
namespace {

region_spec sample() {
  region_spec s;
  s.elements = 100'003;
  s.element_bytes = 4;
  s.mechanism = "polling";
  s.chunk_bytes = 4096;
  return s;
}

std::string refusal(const std::function<void(region_spec&)>& change) {
  region_spec s = sample();
  change(s);
  try {
    const region_state state = check_spec(s, 4, "region 'x'");
    for (std::uint32_t d = 0; d < 4; ++d) (void)plan_launch(state, s, d, "region 'x'");
  } catch (const usage_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(region_spec_test, parts_are_equal_by_default) {
  for (const std::uint64_t elements : {1ULL, 3ULL, 100'003ULL, 1ULL << 60U}) {
    region_spec s = sample();
    s.elements = elements;
    s.mechanism = "inline";
    const auto b = check_spec(s, 4, "region 'x'").options.boundaries;
    ASSERT_EQ(b.size(), 5U);
    EXPECT_EQ(b.front(), 0U);
    EXPECT_EQ(b.back(), elements);
    for (std::size_t d = 0; d < 4; ++d) {
      EXPECT_LE(b[d + 1] - b[d], elements / 4 + 1);
      EXPECT_GE(b[d + 1] - b[d], elements / 4);
    }
  }
}

TEST(region_spec_test, given_boundaries_end_at_the_number_of_elements) {
  EXPECT_EQ(part_boundaries({0, 3, 10}, 10, 2, "array 'x'"),
            (std::vector<std::uint64_t>{0, 3, 10}));
  EXPECT_THROW((void)part_boundaries({0, 3, 9}, 10, 2, "array 'x'"), usage_error);
}

TEST(region_spec_test, kernels_that_publish_announce_each_element_once) {
  const region_spec s = sample();
  const region_state state = check_spec(s, 4, "region 'x'");
  for (std::uint32_t d = 0; d < 4; ++d) {
    const launch_plan plan = plan_launch(state, s, d, "region 'x'");
    EXPECT_EQ(std::accumulate(plan.announced.targets.begin(), plan.announced.targets.end(),
                              std::uint64_t{0}),
              state.options.boundaries[d + 1] - state.options.boundaries[d]);
    EXPECT_EQ(plan.announced.first.size(), 1U);
  }
}

TEST(region_spec_test, nothing_is_tracked_without_need) {
  for (const char* name : {"bulk-copy", "inline"}) {
    region_spec s = sample();
    s.mechanism = name;
    s.chunk_bytes = 1;  // this mechanism ignores the chunk size
    EXPECT_TRUE(plan_launch(check_spec(s, 4, "region 'x'"), s, 0, "region 'x'").chunks.empty());
  }
}

TEST(region_spec_test, errors_are_one_sentence) {
  const auto has = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos;
  };
  EXPECT_EQ(refusal([](region_spec&) {}), "nothing");
  std::string m = refusal([](region_spec& s) { s.elements = 0; });
  EXPECT_TRUE(has(m, "region 'x' has 0 elements of 4 bytes")) << m;
  m = refusal([](region_spec& s) { s.elements = ~std::uint64_t{0}; });
  EXPECT_TRUE(has(m, "larger than any memory")) << m;
  m = refusal([](region_spec& s) { s.chunk_bytes = 100; });
  EXPECT_TRUE(has(m, "a chunk of 100 bytes cannot be cut from elements of 4 bytes")) << m;
  m = refusal([](region_spec& s) { s.element_bytes = 12, s.chunk_bytes = 256; });
  EXPECT_TRUE(has(m, "give a multiple of 384")) << m;
  m = refusal([](region_spec& s) { s.mechanism = "split"; });
  EXPECT_TRUE(has(m, "cannot have the mechanism 'split'")) << m;
  m = refusal([](region_spec& s) { s.mechanism = "telepathy"; });
  EXPECT_TRUE(has(m, "unknown mechanism 'telepathy'")) << m;
  m = refusal([](region_spec& s) { s.boundaries = {0, 1, 2, 3, 4}; });
  EXPECT_TRUE(has(m, "its boundaries end at 4")) << m;
  m = refusal([](region_spec& s) { s.boundaries = {0, 100'003}; });
  EXPECT_TRUE(has(m, "ascending boundaries")) << m;
  m = refusal([](region_spec& s) { s.agent_threads = 33; });
  EXPECT_TRUE(has(m, "an agent cannot have 33 threads")) << m;
  m = refusal([](region_spec& s) { s.agent_copy = "slowly"; });
  EXPECT_TRUE(has(m, "'slowly'")) << m;
  m = refusal([](region_spec& s) { s.producers.resize(3); });
  EXPECT_TRUE(has(m, "producers for 3 devices")) << m;
  m = refusal([](region_spec& s) { s.producers.resize(4), s.checks = true; });
  EXPECT_TRUE(has(m, "debug mode")) << m;
  // The blocks of device 0 cover only the first part of the elements that device 0 owns.
  m = refusal([](region_spec& s) {
    s.producers.assign(4, {10, block_mapping::contiguous(0, 64, 640)});
  });
  EXPECT_TRUE(has(m, "no block is mapped to element 640")) << m;
}

TEST(region_spec_test, every_difference_between_ranks_shows) {
  const region_spec base = sample();
  const auto text = [](const region_spec& s) {
    return describe_spec(check_spec(s, 4, "region 'x'"), s);
  };
  EXPECT_EQ(text(base), text(sample()));
  const std::vector<std::function<void(region_spec&)>> changes{
      [](region_spec& s) { s.name = "y"; },
      [](region_spec& s) { s.elements = 100'004; },
      [](region_spec& s) { s.element_bytes = 8; },
      [](region_spec& s) {
        s.boundaries = {0, 1, 2, 3, 100'003};
      },
      [](region_spec& s) { s.subscribers.resize(4); },
      [](region_spec& s) { s.mechanism = "copy-engine"; },
      [](region_spec& s) { s.chunk_bytes = 8192; },
      [](region_spec& s) { s.agent_threads = 64; },
      [](region_spec& s) { s.agent_copy = "bulk"; },
      [](region_spec& s) { s.checks = true; },
  };
  for (const auto& change : changes) {
    region_spec other = sample();
    change(other);
    EXPECT_NE(text(other), text(base));
  }
}

}  // namespace
}  // namespace interlace::kernel::region_spec_tests
