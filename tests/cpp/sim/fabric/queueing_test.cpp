// The waiting times for one link, compared with queueing theory. Messages of one size that arrive
// as a Poisson process form an M/D/1 queue. Its mean waiting time is rho / (2 mu (1 - rho)).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "interlace/base/errors.hpp"
#include "machine/keys.hpp"
#include "sim/described.hpp"
#include "sim/fabric/fabric.hpp"

namespace interlace::sim::queueing_tests {
namespace {

constexpr event_kind ev_arrival = event_kind::thread_continues;
constexpr std::uint32_t wire_bytes = 500;
// The link is so fast that the event queue has few empty buckets to skip. This keeps the test fast.
constexpr picoseconds service = 500;
constexpr picoseconds latency = 1000;

machine::machine fast_link() {
  machine::machine m = test::meshed(2, machine::protocol_kind::nvlink2);
  m.links[0].bytes_per_s = 1e12;
  m.links[0].latency_ps = latency;
  return m;
}

// Sends `count` messages with exponentially distributed times between them. Records how long each
// message waits for the link.
class poisson_sender : public message_receiver {
 public:
  poisson_sender(double rho, std::uint64_t count, std::uint64_t seed)
      : links_(fast_link(), queue_, *this),
        random_(seed),
        mean_between_(static_cast<double>(service) / rho),
        left_(count) {}

  void run() {
    queue_.push(0, ev_arrival, 0, 0, 0);
    while (!queue_.empty()) {
      const event e = queue_.pop([](const auto&) {});
      if (e.kind == ev_arrival) {
        arrive();
      } else {
        links_.handle(e);
      }
    }
    links_.check_delivered();
  }

  const std::vector<picoseconds>& waits() const { return waits_; }
  // The time from each arrival to the next arrival.
  const std::vector<picoseconds>& between() const { return between_; }
  std::uint64_t delivered_late() const { return late_; }
  const ledger& counts() const { return links_.counts(); }
  double mean_between() const { return mean_between_; }

 private:
  void arrive() {
    message m;
    m.to = 1;
    m.payload = wire_bytes;
    m.wire = wire_bytes;
    links_.send(queue_.now(), m);
    const double uniform = static_cast<double>(random_() >> 11U) * 0x1p-53;
    const auto next = static_cast<picoseconds>(std::llround(-mean_between_ * std::log1p(-uniform)));
    between_.push_back(next);
    if (--left_ != 0) queue_.push(queue_.now() + next, ev_arrival, 0, 0, 0);
  }
  void departed(const message& m) override { waits_.push_back(queue_.now() - m.sent); }
  void delivered(const message& m) override {
    const picoseconds due = m.sent + waits_[arrived_++] + service + latency;
    if (queue_.now() != due) ++late_;
  }

  event_queue queue_;
  fabric links_;
  std::mt19937_64 random_;
  double mean_between_;
  std::uint64_t left_;
  std::vector<picoseconds> waits_;
  std::vector<picoseconds> between_;
  std::size_t arrived_ = 0;
  std::uint64_t late_ = 0;
};

// GPU 0 sends many stores to GPU 1. Another GPU then sends one store to GPU 0. This store must wait
// for the answers to GPU 0's stores. If GPU 0 itself sends the last store, this store goes to
// GPU 1.
class answered_stores : public message_receiver {
 public:
  explicit answered_stores(const machine::machine& m) : links_(m, queue_, *this) {}
  // `sent` is the time at which GPU `other` sends its store.
  picoseconds run(const message& stores, std::uint8_t other, picoseconds sent) {
    links_.send(0, stores);
    message m;
    m.payload = m.wire = wire_bytes;
    m.from = other;
    m.to = other == 0 ? 1 : 0;
    links_.send(sent, m);
    while (!queue_.empty()) links_.handle(queue_.pop([](const auto&) {}));
    links_.check_delivered();
    return last_;
  }

 private:
  void departed(const message& /*m*/) override {}
  void delivered(const message& /*m*/) override { last_ = queue_.now(); }

  event_queue queue_;
  fabric links_;
  picoseconds last_ = 0;
};

message five_packets() {
  message m;
  m.to = 1;
  m.payload = m.wire = wire_bytes;
  m.packets = 5;
  return m;
}

// A link with this protocol carries a packet of stores, or an answer to it, every 160 picoseconds.
constexpr picoseconds per_packet = 160;

void limit_packets(machine::link& l) {
  l.protocol.store_packets_per_s = 1e12 / static_cast<double>(per_packet);
}

TEST(queueing, packets_of_stores_start_at_the_limited_rate) {
  machine::machine m = fast_link();
  const picoseconds plain = 2 * service + latency;
  EXPECT_EQ(answered_stores(m).run(five_packets(), 0, 0), plain);
  limit_packets(m.links[0]);
  ASSERT_GT(5 * per_packet, service);  // the packets and not the bytes limit the rate
  EXPECT_EQ(answered_stores(m).run(five_packets(), 0, 0), 5 * per_packet + service + latency);
}

TEST(queueing, answers_to_stores_take_time_of_the_other_direction) {
  machine::machine m = fast_link();
  const picoseconds sent = service + latency + 1;  // the stores of GPU 0 have just arrived
  const picoseconds plain = sent + service + latency;
  EXPECT_EQ(answered_stores(m).run(five_packets(), 1, sent), plain);
  limit_packets(m.links[0]);
  EXPECT_EQ(answered_stores(m).run(five_packets(), 1, sent), plain + 5 * per_packet - 1);
  // The receiver answers the stores of a copy kernel. It does not answer copies of a copy engine.
  message copy = five_packets();
  copy.kind = message_kind::copy_segment;
  EXPECT_EQ(answered_stores(m).run(copy, 1, sent), plain);
  copy.stored = true;
  EXPECT_EQ(answered_stores(m).run(copy, 1, sent), plain + 5 * per_packet - 1);
}

TEST(queueing, answers_to_stores_take_time_of_each_link_of_their_route) {
  machine::machine m = test::meshed(3, machine::protocol_kind::nvlink2);
  constexpr picoseconds pass_through = 100;
  m.switches.push_back({"switch", pass_through});
  for (std::uint32_t d = 0; d < 3; ++d) {
    machine::link& l = m.links[d];
    l.bytes_per_s = 1e12;
    l.latency_ps = latency;
    l.a = {machine::endpoint_kind::gpu, d};
    l.b = {machine::endpoint_kind::network_switch, 0};
  }
  // The stores of GPU 0 reach GPU 1 at the time `arrive`. The answers then go to the switch. The
  // store of GPU 2 reaches the link from the switch to GPU 0 one picosecond after the answers.
  constexpr picoseconds to_switch = latency + pass_through;
  const picoseconds arrive = to_switch + latency + service;
  const picoseconds plain = arrive + 1 + to_switch + latency + service;
  EXPECT_EQ(answered_stores(m).run(five_packets(), 2, arrive + 1), plain);
  for (machine::link& l : m.links) limit_packets(l);
  EXPECT_EQ(answered_stores(m).run(five_packets(), 2, arrive + 1), plain + 5 * per_packet - 1);
}

// Close to saturation, successive waits are strongly correlated. Their plain mean would need 10^7
// messages to come within 2 %. The test therefore uses a control variate. The time between an
// arrival and the next arrival does not depend on how long the first one waits. So the product
// (time between - its known mean) x wait has the mean zero. This product is the control variate.
// Its factor, 1 / (mean time between - service), cancels the noise of the waits.
TEST(queueing, waits_of_poisson_arrivals_are_those_of_m_d_1) {
  for (const double rho : {0.3, 0.5, 0.7, 0.8, 0.9}) {
    const std::uint64_t count = rho < 0.75 ? 100'000 : 250'000;
    poisson_sender sender(rho, count, 7);
    sender.run();
    ASSERT_EQ(sender.waits().size(), count);
    EXPECT_EQ(sender.delivered_late(), 0U);
    double plain = 0;
    double control = 0;
    picoseconds lindley = 0;  // the waiting time by Lindley's recursion, which defines the queue
    for (std::size_t k = 0; k < count; ++k) {
      ASSERT_EQ(sender.waits()[k], lindley) << k;
      const auto wait = static_cast<double>(sender.waits()[k]);
      const picoseconds between = sender.between()[k];
      plain += wait;
      control += wait * (static_cast<double>(between) - sender.mean_between());
      lindley = lindley + service > between ? lindley + service - between : 0;
    }
    const auto n = static_cast<double>(count);
    const double idle = sender.mean_between() - static_cast<double>(service);
    const double mean = plain / n + control / n / idle;
    const double expected = rho / (2 * (1 - rho)) * static_cast<double>(service);
    EXPECT_NEAR(mean, expected, 0.02 * expected) << "rho " << rho;
    EXPECT_NEAR(plain / n, expected, 0.1 * expected) << "rho " << rho;
    // The ledger must have counted the same messages.
    const ledger::pair& p = sender.counts().between(0, 1);
    EXPECT_EQ(static_cast<double>(p.latency), plain + n * static_cast<double>(service + latency));
    EXPECT_EQ(sender.counts().busy(0), count * service);
  }
}

TEST(queueing, messages_in_flight_are_not_delivered_yet) {
  class nobody : public message_receiver {
    void departed(const message& /*m*/) override {}
    void delivered(const message& /*m*/) override {}
  };
  nobody receiver;
  event_queue queue;
  fabric links(fast_link(), queue, receiver);
  message m;
  m.from = 1;
  m.wire = wire_bytes;
  links.send(0, m);
  try {
    links.check_delivered();
    FAIL() << "a message is under way";
  } catch (const model_error& error) {
    EXPECT_STREQ(error.what(), "gpu1 sent 1 messages to gpu0, but 0 were delivered");
  }
  event last;
  while (!queue.empty()) links.handle(last = queue.pop([](const auto&) {}));
  links.check_delivered();
  EXPECT_THROW(links.handle(last), model_error);  // the message is delivered a second time
}

class noting_receiver : public message_receiver {
 public:
  void departed(const message& /*unused*/) override {}
  void delivered(const message& /*unused*/) override { ++count; }
  int count = 0;
};

TEST(queueing, the_slowest_link_and_the_longest_message_have_times_that_fit) {
  machine::machine m = test::meshed(2, machine::protocol_kind::nvlink2);
  m.links[0].bytes_per_s = machine::find_key("link.bandwidth_GB_per_s")->within.least * 1e9;
  m.links[0].queue_bytes =
      static_cast<std::uint64_t>(machine::find_key("link.queue_KiB")->within.most * 1024);
  m.links[0].latency_ps = 0;
  event_queue queue;
  noting_receiver receiver;
  fabric links(m, queue, receiver);
  message longest;
  longest.to = 1;
  longest.wire = longest.payload = std::numeric_limits<std::uint32_t>::max();
  links.send(0, longest);
  while (!queue.empty()) links.handle(queue.pop([](const auto&) {}));
  EXPECT_EQ(receiver.count, 1);
  EXPECT_EQ(queue.now(), std::uint64_t{longest.wire} * 10'000);  // 1e12 / 1e8 ps per byte
}

}  // namespace
}  // namespace interlace::sim::queueing_tests
