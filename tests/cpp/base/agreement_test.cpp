#include "base/agreement.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::agreement_tests {
namespace {

// Runs f(rank, gather) in one thread for each rank. Returns each rank's error message. The message
// is empty if the rank had no error.
template <class F>
std::vector<std::string> as_ranks(std::uint32_t size, const F& f) {
  std::vector<std::string> values(size);
  std::vector<std::string> messages(size);
  std::barrier meet(static_cast<std::ptrdiff_t>(size));
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const gather_function gather = [&, rank](const std::string& own) {
        values[rank] = own;
        meet.arrive_and_wait();
        auto all = values;
        meet.arrive_and_wait();
        return all;
      };
      try {
        f(rank, gather);
      } catch (const std::exception& e) {
        messages[rank] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return messages;
}

TEST(agreement_test, every_rank_gets_the_texts_of_all) {
  const auto messages = as_ranks(3, [](std::uint32_t rank, const gather_function& gather) {
    const auto all = agree(gather, rank, 3, [rank] { return std::string(rank, 'x'); });
    if (all != std::vector<std::string>{"", "x", "xx"}) throw std::runtime_error("wrong");
  });
  EXPECT_EQ(messages, std::vector<std::string>(3));
}

TEST(agreement_test, if_one_rank_cannot_take_part_all_stop) {
  const auto messages = as_ranks(3, [](std::uint32_t rank, const gather_function& gather) {
    (void)agree(gather, rank, 3, [rank]() -> std::string {
      if (rank == 1) throw usage_error("a chunk is too small");
      return "";
    });
  });
  EXPECT_EQ(messages[1], "a chunk is too small");
  EXPECT_EQ(messages[0], "rank 1 cannot take part: a chunk is too small");
  EXPECT_EQ(messages[2], messages[0]);
}

TEST(agreement_test, a_gather_with_wrong_results_is_refused) {
  const auto make = [] { return std::string("own"); };
  const auto few = [](const std::string& own) { return std::vector<std::string>{own}; };
  const auto others = [](const std::string&) { return std::vector<std::string>{"a", "b"}; };
  EXPECT_THROW((void)agree(few, 0, 2, make), usage_error);
  EXPECT_THROW((void)agree(others, 1, 2, make), usage_error);
}

TEST(agreement_test, the_first_difference_is_named) {
  EXPECT_NO_THROW(require_same({"elements 5\nmode a\n", "elements 5\nmode a\n"}, "region 0"));
  try {
    require_same({"elements 5\nmode a\n", "elements 5\nmode a\n", "elements 5\nmode b\n"},
                 "region 0");
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_STREQ(e.what(),
                 "the ranks do not agree on region 0: rank 0 says 'mode a' and rank 2 "
                 "'mode b'");
  }
}

}  // namespace
}  // namespace interlace::agreement_tests
