// The CoDec must send packets at the right times and in the right order. Each load must get its
// pieces back, with their bytes.
#include "sim/remote/reply_coalescer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "sim/remote/reply_packet.hpp"

namespace interlace::sim::reply_coalescer_tests {
namespace {

const auto any = [](std::uint32_t) { return true; };

TEST(reply_coalescer, ten_pieces_leave_at_once) {
  reply_coalescer c({});
  reply_coalescer::packet p;
  for (std::uint16_t id = 0; id < 9; ++id) c.push(100, 1, id, 1);
  EXPECT_FALSE(c.take(100, any, p));
  c.push(100, 1, 9, 2);
  ASSERT_TRUE(c.take(100, any, p));
  EXPECT_EQ(p.to, 1U);
  EXPECT_EQ(p.cause, reply_cause::full);
  EXPECT_EQ(p.ids, (std::vector<std::uint16_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_FALSE(c.take(100, any, p));
  EXPECT_EQ(c.pieces(1), 1U);  // the pieces of the last load are still in the buffer
}

TEST(reply_coalescer, a_quiet_buffer_is_flushed) {
  reply_coalescer c({.timeout = 30});
  reply_coalescer::packet p;
  c.push(100, 2, 5, 1);
  EXPECT_EQ(c.flush_at(2), 130U);
  c.push(120, 2, 6, 1);
  EXPECT_EQ(c.flush_at(2), 150U);  // the timeout starts at the last response
  EXPECT_FALSE(c.take(149, any, p));
  ASSERT_TRUE(c.take(150, any, p));
  EXPECT_EQ(p.cause, reply_cause::timeout);
  EXPECT_EQ(p.ids, (std::vector<std::uint16_t>{5, 6}));
  EXPECT_TRUE(c.empty());
  EXPECT_EQ(c.flush_at(2), std::nullopt);
}

TEST(reply_coalescer, destinations_are_served_in_turn) {
  reply_coalescer c({});
  reply_coalescer::packet p;
  for (std::uint16_t k = 0; k < 20; ++k) {
    for (std::uint32_t to = 1; to < 4; ++to) c.push(0, to, k, 1);
  }
  std::vector<std::uint32_t> order;
  while (c.take(0, any, p)) order.push_back(p.to);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3}));
}

TEST(reply_coalescer, a_destination_that_is_not_open_waits) {
  reply_coalescer c({});
  reply_coalescer::packet p;
  for (std::uint16_t k = 0; k < 10; ++k) {
    c.push(0, 1, k, 1);
    c.push(0, 2, k, 1);
  }
  const auto second = [](std::uint32_t to) { return to == 2; };
  ASSERT_TRUE(c.take(0, second, p));
  EXPECT_EQ(p.to, 2U);
  EXPECT_FALSE(c.take(0, second, p));
  EXPECT_EQ(c.pieces(1), 10U);
}

TEST(reply_coalescer, a_full_buffer_takes_no_more) {
  reply_coalescer c({.buffer_pieces = 8, .packet_pieces = 10});
  EXPECT_TRUE(c.has_room(1, 8));
  c.push(0, 1, 0, 6);
  EXPECT_TRUE(c.has_room(1, 2));
  EXPECT_FALSE(c.has_room(1, 3));
  EXPECT_TRUE(c.has_room(2, 3));
  try {
    c.push(0, 1, 1, 3);
    ADD_FAILURE();
  } catch (const model_error& e) {
    EXPECT_EQ(std::string(e.what()), "a response of 3 pieces has no room in the buffer of gpu1");
  }
}

TEST(reply_decoalescer, pieces_come_in_ascending_order) {
  reply_decoalescer d;
  d.expect(7, 0b1010);
  d.expect(8, 0b1);
  EXPECT_EQ(d.arrived(7).number, 1U);
  const auto alone = d.arrived(8);
  EXPECT_EQ(alone.number, 0U);
  EXPECT_TRUE(alone.complete);
  const auto last = d.arrived(7);
  EXPECT_EQ(last.number, 3U);
  EXPECT_TRUE(last.complete);
  EXPECT_EQ(d.waiting(), 0U);
  EXPECT_THROW(d.arrived(7), model_error);
  d.expect(7, 0b1);
  EXPECT_THROW(d.expect(7, 0b1), model_error);
}

// Encodes and decodes loads with many masks. Each load must get its own bytes, whatever else its
// packets hold.
TEST(reply_coalescer, de_coalescing_is_the_inverse) {
  std::mt19937_64 random(3);
  for (const std::uint32_t piece : {4U, 8U, 16U}) {
    const reply_format format{64, piece, 64};
    const bitmask_generator generator(64, piece);
    reply_coalescer c({.packet_pieces = format.most_pieces(), .timeout = 50});
    std::vector<reply_decoalescer> takers(4);
    std::map<std::pair<std::uint32_t, std::uint16_t>, piece_mask> asked;
    std::map<std::pair<std::uint32_t, std::uint16_t>, piece_mask> got;
    // Returns the byte of a piece. The byte depends on the destination, the ID and the number of
    // the piece.
    const auto byte = [](std::uint32_t to, std::uint16_t id, std::uint32_t number) {
      return static_cast<std::uint8_t>(to * 7 + id * 3U + number);
    };
    // The pieces in the buffer of each destination. The memory is read when a packet leaves.
    std::vector<std::vector<std::pair<std::uint16_t, std::uint32_t>>> held(4);
    std::uint64_t packets = 0;
    reply_coalescer::packet out;
    const auto drain = [&](picoseconds now) {
      while (c.take(now, any, out)) {
        ++packets;
        reply_packet sent{true, out.ids, {}};
        for (std::size_t k = 0; k < out.ids.size(); ++k) {
          ASSERT_EQ(held[out.to][k].first, out.ids[k]);
          sent.data.insert(sent.data.end(), piece,
                           byte(out.to, out.ids[k], held[out.to][k].second));
        }
        held[out.to].erase(held[out.to].begin(),
                           held[out.to].begin() + static_cast<std::ptrdiff_t>(out.ids.size()));
        const reply_packet came = decode_reply(encode_reply(sent, format), format);
        for (std::size_t k = 0; k < came.ids.size(); ++k) {
          const auto found = takers[out.to].arrived(came.ids[k]);
          got[{out.to, came.ids[k]}] |= 1U << found.number;
          ASSERT_EQ(came.data[k * piece], byte(out.to, came.ids[k], found.number));
        }
      }
    };
    picoseconds now = 0;
    for (std::uint16_t id = 0; id < 3000; ++id) {
      now += random() % 20;
      const auto to = static_cast<std::uint32_t>(1 + random() % 3);
      const auto mask =
          static_cast<piece_mask>(1 + random() % generator.whole_line()) & generator.whole_line();
      const auto pieces = static_cast<std::uint32_t>(__builtin_popcount(mask));
      if (mask == 0 || pieces > format.most_pieces()) continue;  // such a load gets a whole line
      takers[to].expect(id, mask);
      asked[{to, id}] = mask;
      c.push(now, to, id, pieces);
      for (piece_mask rest = mask; rest != 0; rest &= rest - 1) {
        held[to].emplace_back(id, static_cast<std::uint32_t>(__builtin_ctz(rest)));
      }
      drain(now);
    }
    drain(now + 50);
    EXPECT_TRUE(c.empty());
    EXPECT_EQ(got, asked);
    EXPECT_GT(asked.size(), packets);
    for (const auto& t : takers) EXPECT_EQ(t.waiting(), 0U);
  }
}

}  // namespace
}  // namespace interlace::sim::reply_coalescer_tests
