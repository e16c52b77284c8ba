// Litmus tests of the ring with credits. Host threads send and receive. tests/gpu has the same
// tests with kernels.
#include "interlace/kernel/credit_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace interlace::kernel {
namespace {

class host_ring {
 public:
  explicit host_ring(std::uint64_t slots) : ready_(slots) {
    ring = {ready_.data(), &consumed_, &tickets_, slots};
  }
  credit_ring ring;

 private:
  std::vector<std::uint64_t> ready_;
  std::uint64_t consumed_ = 0;
  std::uint64_t tickets_ = 0;
};

// Returns whether a wait with the deadline `end` has expired. The function yields the core, because
// the threads share few cores. On the host, a wait calls this function only rarely.
bool expires_at(std::chrono::steady_clock::time_point end) {
  std::this_thread::yield();
  return std::chrono::steady_clock::now() > end;
}

// The words of a slot are plain memory. A receiver that reads a slot too early, too late or in part
// gets wrong words.
void messages_arrive(std::uint64_t slots, unsigned producers, std::uint64_t messages) {
  constexpr std::size_t words = 8;
  host_ring made(slots);
  const credit_ring r = made.ring;
  std::vector<std::array<std::uint64_t, words>> data(slots);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto expired = [end] { return expires_at(end); };
  std::atomic<std::uint64_t> failed{0};
  std::vector<std::thread> threads;
  for (unsigned p = 0; p < producers; ++p) {
    threads.emplace_back([&, p] {
      for (std::uint64_t m = p; m < messages; m += producers) {
        const std::uint64_t t = take_ticket(r);
        if (!wait_for_room(r, t, expired)) return void(++failed);
        for (std::size_t w = 0; w < words; ++w) data[t % slots][w] = t * words + w;
        publish_slot(r, t);
      }
    });
  }
  std::uint64_t wrong = 0;
  for (std::uint64_t t = 0; t < messages; ++t) {
    if (!wait_for_slot(r, t, expired)) {
      ++failed;
      break;
    }
    for (std::size_t w = 0; w < words; ++w) wrong += data[t % slots][w] != t * words + w;
    return_credit(r, t);
  }
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(failed, 0U);
  EXPECT_EQ(wrong, 0U);
}

TEST(credit_ring, messages_arrive_whole_and_in_order) {
  messages_arrive(1, 1, 3000);
  messages_arrive(2, 1, 20000);
  messages_arrive(2, 3, 3000);
  messages_arrive(64, 3, 20000);
}

TEST(credit_ring, waits_end) {
  host_ring made(2);
  const credit_ring r = made.ring;
  int asked = 0;
  const auto third = [&] { return ++asked == 3; };
  EXPECT_FALSE(wait_for_slot(r, 0, third));
  EXPECT_EQ(asked, 3);
  const auto never = [] { return false; };
  for (std::uint64_t t = 0; t < 2; ++t) {
    EXPECT_EQ(take_ticket(r), t);
    EXPECT_TRUE(wait_for_room(r, t, never));
    publish_slot(r, t);
  }
  asked = 0;
  EXPECT_FALSE(wait_for_room(r, take_ticket(r), third));
  EXPECT_TRUE(slot_is_ready(r, 1));
  return_credit(r, 1);
  EXPECT_TRUE(wait_for_room(r, 2, never));
  EXPECT_TRUE(wait_for_room(r, 3, never));
  EXPECT_FALSE(slot_is_ready(r, 2));
}

}  // namespace
}  // namespace interlace::kernel
