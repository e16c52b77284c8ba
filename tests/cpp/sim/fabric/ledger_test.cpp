// The ledger finds messages that were lost, duplicated, or carried by the wrong link. The time bins
// of the ledger lose no busy time of the links.
#include "sim/fabric/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::sim::ledger_tests {
namespace {

// Two devices with a switch between them. The four directions of links are, in this order: 0 to
// switch, switch to 1, 1 to switch, switch to 0.
ledger through_a_switch() { return {2, {{}, {0, 1}, {2, 3}, {}}, 4}; }

message stores(std::uint32_t payload, std::uint32_t wire) {
  message m;
  m.to = 1;
  m.payload = payload;
  m.wire = wire;
  m.sent = 100;
  return m;
}

std::string complaint(const ledger& l) {
  try {
    l.check([](std::size_t d) { return "number " + std::to_string(d); });
  } catch (const model_error& error) {
    return error.what();
  }
  return "";
}

TEST(ledger, a_message_that_arrives_is_in_order) {
  ledger l = through_a_switch();
  const message m = stores(32, 48);
  l.sent(m);
  l.carried(0, 48, 100, 10);
  l.carried(1, 48, 110, 10);
  l.delivered(m, 450);
  EXPECT_EQ(complaint(l), "");
  const ledger::pair& p = l.between(0, 1);
  EXPECT_EQ(p.sent.messages, 1U);
  EXPECT_EQ(p.sent.payload, 32U);
  EXPECT_EQ(p.packets, 1U);
  EXPECT_EQ(p.latency, 350U);
  EXPECT_EQ(p.longest, 350U);
  EXPECT_EQ(l.all(), (ledger::totals{1, 32, 48}));
  EXPECT_EQ(l.wire(1), 48U);
  EXPECT_EQ(l.busy(1), 10U);
  EXPECT_EQ(l.between(1, 0).sent.messages, 0U);
}

TEST(ledger, names_what_was_lost) {
  ledger l = through_a_switch();
  l.sent(stores(32, 48));
  EXPECT_EQ(complaint(l), "gpu0 sent 1 messages to gpu1, but 0 were delivered");
  l.delivered(stores(32, 48), 200);
  EXPECT_EQ(complaint(l),
            "the link number 0 carried 0 bytes, but the messages routed over it have 48");
  l.carried(0, 48, 0, 1);
  l.carried(1, 48, 0, 1);
  EXPECT_EQ(complaint(l), "");
}

TEST(ledger, names_what_was_doubled_or_changed) {
  const auto delivered = [](const std::vector<message>& those) {
    ledger l = through_a_switch();
    l.sent(stores(32, 48));
    l.carried(0, 48, 0, 1);
    l.carried(1, 48, 0, 1);
    for (const message& m : those) l.delivered(m, 500);
    return complaint(l);
  };
  EXPECT_EQ(delivered({stores(32, 48), stores(32, 48)}),
            "gpu0 sent 1 messages to gpu1, but 2 were delivered");
  EXPECT_EQ(delivered({stores(31, 48)}),
            "gpu0 sent 32 bytes of payload to gpu1, but 31 were delivered");
  EXPECT_EQ(delivered({stores(32, 64)}),
            "gpu0 sent 48 bytes with protocol to gpu1, but 64 were delivered");
}

TEST(ledger, names_a_link_that_carries_what_goes_elsewhere) {
  ledger l = through_a_switch();
  l.sent(stores(32, 48));
  l.delivered(stores(32, 48), 200);
  l.carried(0, 48, 0, 1);
  l.carried(1, 48, 0, 1);
  l.carried(3, 16, 0, 1);
  EXPECT_EQ(complaint(l),
            "the link number 3 carried 16 bytes, but the messages routed over it have 0");
}

// If a run is longer than all bins together, every bin becomes twice as wide. The sum of the bins'
// busy times must not change, to the picosecond.
TEST(ledger, bins_keep_all_busy_time) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937_64 random(seed);
    ledger l(2, {{}, {0}, {1}, {}}, 2);
    picoseconds at = 0;
    std::vector<std::pair<picoseconds, picoseconds>> intervals;
    for (int k = 0; k < 400; ++k) {
      const picoseconds start = at + random() % (std::uint64_t{1} << (8 + random() % 22));
      const picoseconds duration = random() % (std::uint64_t{1} << (4 + random() % 20));
      l.carried(1, 1, start, duration);
      intervals.emplace_back(start, start + duration);
      at = start + duration;
    }
    const std::vector<float> parts = l.busy_by_bin(1, at);
    ASSERT_LE(parts.size(), ledger::bins);
    ASSERT_GT(parts.size(), ledger::bins / 2);
    picoseconds total = 0;
    for (const auto& [begin, end] : intervals) total += end - begin;
    EXPECT_EQ(l.busy(1), total);
    EXPECT_EQ(l.busy(0), 0U);
    const picoseconds width = l.bin_width();
    for (std::size_t bin = 0; bin < parts.size(); ++bin) {
      const picoseconds from = bin * width;
      const picoseconds to = std::min(from + width, at);
      picoseconds busy = 0;
      for (const auto& [begin, end] : intervals) {
        if (std::max(begin, from) < std::min(end, to)) {
          busy += std::min(end, to) - std::max(begin, from);
        }
      }
      EXPECT_NEAR(parts[bin], static_cast<double>(busy) / static_cast<double>(to - from), 1e-6);
    }
  }
}

}  // namespace
}  // namespace interlace::sim::ledger_tests
