// The remote write queue without a simulator. The tests check which stores stay in the queue, which
// stores are flushed and why, and that flushed data is the stored data.
#include "sim/remote/remote_write_queue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "sim/remote/combining_queue.hpp"
#include "sim/remote/packetizer.hpp"

namespace interlace::sim::remote_write_queue_tests {
namespace {

byte_mask mask_of(std::uint32_t first, std::uint32_t bytes) {
  byte_mask m;
  for (std::uint32_t b = first; b < first + bytes; ++b) m.set(b, 1);
  return m;
}

remote_write_queue::settings paper() { return {}; }

std::optional<flush_reason> store(remote_write_queue& q, std::uint64_t address,
                                  std::uint32_t bytes) {
  const auto refused = q.offer(address & ~std::uint64_t{127},
                               mask_of(static_cast<std::uint32_t>(address & 127U), bytes), 1);
  if (!refused) return std::nullopt;
  return refused->reason;
}

TEST(remote_write_queue, registers_as_the_paper_has_them) {
  remote_write_queue q(paper());
  EXPECT_EQ(q.available(0), 4096U);
  EXPECT_EQ(q.base(0), ~std::uint64_t{0});
  EXPECT_EQ(store(q, (std::uint64_t{5} << 30) + 0x1234, 4), std::nullopt);
  EXPECT_EQ(q.base(0), std::uint64_t{5} << 30);
  EXPECT_EQ(q.available(0), 4096U - 9);
  flushed_window out;
  ASSERT_TRUE(q.flush(0, flush_reason::release, out));
  EXPECT_EQ(out.base, std::uint64_t{5} << 30);
  EXPECT_EQ(out.payload, 9U);
  EXPECT_EQ(out.stores, 1U);
  ASSERT_EQ(out.lines.size(), 1U);
  EXPECT_EQ(out.lines[0].line, (std::uint64_t{5} << 30) + 0x1200);
  EXPECT_EQ(q.available(0), 4096U);
  EXPECT_EQ(q.base(0), ~std::uint64_t{0});
  EXPECT_FALSE(q.flush(0, flush_reason::release, out));
}

// The queue charges the bytes that a store adds to a line in the queue.
TEST(remote_write_queue, a_hit_is_charged_what_it_adds) {
  remote_write_queue q(paper());
  store(q, 0x1000, 4);
  EXPECT_EQ(q.available(0), 4096U - 9);
  store(q, 0x1000, 4);  // the same bytes again cost nothing
  EXPECT_EQ(q.available(0), 4096U - 9);
  store(q, 0x1008, 4);  // a new run costs its bytes and a sub-header
  EXPECT_EQ(q.available(0), 4096U - 18);
  store(q, 0x100c, 4);  // at the end of a run, a store costs only its bytes
  EXPECT_EQ(q.available(0), 4096U - 22);
  store(q, 0x1004, 4);  // the store joins two runs, which saves a sub-header
  EXPECT_EQ(q.available(0), 4096U - 21);
  EXPECT_EQ(q.stored_bytes(), 20U);
  EXPECT_EQ(q.overwritten_bytes(), 4U);
}

TEST(remote_write_queue, reasons_to_flush) {
  {
    remote_write_queue q(paper());
    EXPECT_EQ(store(q, 0, 4), std::nullopt);
    EXPECT_EQ(store(q, (1 << 30) - 4, 4), std::nullopt);
    EXPECT_EQ(store(q, 1 << 30, 4), flush_reason::window);
  }
  {
    remote_write_queue q(paper());
    for (std::uint64_t line = 0; line < 64; ++line) {
      EXPECT_EQ(store(q, line * 4096, 4), std::nullopt);
    }
    EXPECT_EQ(store(q, 64 * 4096, 4), flush_reason::entries);
    EXPECT_EQ(store(q, 63 * 4096 + 8, 4), std::nullopt);
  }
  {
    // 30 lines of 133 bytes each take 3990 of the 4096 bytes of a packet. The remaining 106 bytes
    // have room for one store of 101 bytes.
    remote_write_queue q(paper());
    for (std::uint64_t line = 0; line < 30; ++line) store(q, line * 128, 128);
    EXPECT_EQ(store(q, 30 * 128, 102), flush_reason::payload);
    EXPECT_EQ(store(q, 30 * 128, 101), std::nullopt);
    EXPECT_EQ(q.available(0), 0U);
    EXPECT_EQ(store(q, 30 * 128 + 101, 1), flush_reason::payload);
    EXPECT_EQ(store(q, 29 * 128, 128), std::nullopt);  // overwrites a line in the queue
  }
}

TEST(remote_write_queue, several_windows_do_not_thrash) {
  auto s = paper();
  s.format.subheader_bytes = 4;  // windows of 4 MiB
  std::uint32_t flushes[2] = {};
  for (const std::uint32_t windows : {1U, 2U}) {
    s.windows = windows;
    remote_write_queue q(s);
    flushed_window out;
    for (std::uint64_t k = 0; k < 40; ++k) {
      const std::uint64_t address = (k % 2) * (16 << 20) + k * 128;
      while (const auto refused = q.offer(address, mask_of(0, 4), 1)) {
        EXPECT_EQ(refused->reason, flush_reason::window);
        q.flush(refused->window, refused->reason, out);
        ++flushes[windows - 1];
      }
    }
  }
  EXPECT_EQ(flushes[0], 39U);
  EXPECT_EQ(flushes[1], 0U);
}

// The addresses of the stores are on both sides of an aligned boundary.
TEST(remote_write_queue, a_window_that_grows_has_no_boundaries) {
  auto s = paper();
  s.format.subheader_bytes = 3;  // windows of 16 KiB
  s.grows = true;
  remote_write_queue q(s);
  EXPECT_EQ(store(q, 0x4000, 4), std::nullopt);
  EXPECT_EQ(store(q, 0x3ff8, 4), std::nullopt);  // the window grows downwards
  EXPECT_EQ(store(q, 0x5000, 4), std::nullopt);  // the window also grows up
  EXPECT_EQ(q.base(0), 0x3ff8U);
  EXPECT_EQ(store(q, 0x7ff4, 4), std::nullopt);  // the store ends at most 16 KiB after the base
  EXPECT_EQ(store(q, 0x7ff8, 4), flush_reason::window);
  EXPECT_EQ(store(q, 0x3ff4, 4), flush_reason::window);
  s.grows = false;
  remote_write_queue aligned(s);
  EXPECT_EQ(store(aligned, 0x4000, 4), std::nullopt);
  EXPECT_EQ(store(aligned, 0x3ff8, 4), flush_reason::window);
}

TEST(remote_write_queue, a_line_leaves_alone) {
  remote_write_queue q(paper());
  store(q, 0x1000, 4);
  store(q, 0x2000, 8);
  flushed_window out;
  EXPECT_FALSE(q.has_line(0x3000));
  EXPECT_FALSE(q.flush_line(0x3000, flush_reason::load, out));
  EXPECT_TRUE(q.has_line(0x1000));
  ASSERT_TRUE(q.flush_line(0x1000, flush_reason::load, out));
  EXPECT_EQ(out.payload, 9U);
  EXPECT_EQ(out.reason, flush_reason::load);
  ASSERT_EQ(out.lines.size(), 1U);
  EXPECT_EQ(out.lines[0].line, 0x1000U);
  EXPECT_EQ(q.available(0), 4096U - 13);
  ASSERT_TRUE(q.flush_line(0x2000, flush_reason::atomic, out));
  EXPECT_EQ(out.stores, 2U);
  EXPECT_TRUE(q.empty());
  EXPECT_EQ(q.available(0), 4096U);
}

// Random stores with data go into queues of all kinds. Each stored byte must be delivered once, in
// the order of the stores, unless a later store overwrote the byte in the queue. It must be
// possible to encode each packet. The encoding has the size that the register states, and decodes
// to the contents of the packet.
TEST(remote_write_queue, delivers_what_is_stored) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    remote_write_queue::settings s;
    s.line_bytes = random() % 4 == 0 ? 64 : 128;
    s.entries = static_cast<std::uint32_t>(1 + random() % 64);
    s.windows = static_cast<std::uint32_t>(1 + random() % 3);
    s.grows = random() % 2 == 0;
    s.format.subheader_bytes = static_cast<std::uint32_t>(2 + random() % 5);
    const std::uint32_t least = s.line_bytes + s.format.subheader_bytes;
    s.format.payload_bytes = static_cast<std::uint32_t>(
        random() % 2 == 0 ? least + random() % 40 : least + random() % (4097 - least));
    remote_write_queue q(s);
    const std::uint64_t span = std::uint64_t{1} << (8 + random() % 24);
    std::map<std::uint64_t, std::uint8_t> stored;    // the last value stored at each address
    std::map<std::uint64_t, std::uint8_t> received;  // the byte that was delivered to each address
    std::uint64_t delivered = 0;
    std::uint64_t counted = 0;
    const auto receive = [&](const flushed_window& w) {
      const finepack_packet p = packetize(w, [&](std::uint64_t a) { return stored.at(a); });
      const auto wire = encode(p, s.format);
      const std::size_t payload = w.payload;
      ASSERT_EQ(wire.size(), 16 + (payload + 3) / 4 * 4);
      machine::protocol pcie;
      pcie.kind = machine::protocol_kind::pcie4;
      pcie.packet_overhead_bytes = 26;
      const window_cost cost = finepack_cost(pcie, w, s.format.subheader_bytes);
      EXPECT_EQ(cost.wire, wire.size() + 10);
      EXPECT_EQ(cost.payload, p.data.size());
      EXPECT_EQ(cost.stores, p.stores.size());
      const finepack_packet got = decode(wire, s.format);
      ASSERT_EQ(got, p);
      auto from = got.data.begin();
      for (const finepack_store& one : got.stores) {
        for (std::uint32_t b = 0; b < one.bytes; ++b) {
          received[got.base + one.offset + b] = *from++;
        }
      }
      delivered += got.data.size();
      counted += w.stores;
    };
    flushed_window out;
    std::uint64_t offered = 0;
    const std::uint64_t stores = 20 + random() % 300;
    for (std::uint64_t k = 0; k < stores; ++k) {
      const std::uint64_t line =
          (std::uint64_t{1} << 36) + random() % span / s.line_bytes * s.line_bytes;
      byte_mask m;
      const std::uint32_t width = 1U << random() % 4;
      for (std::uint64_t lanes = 1 + random() % 32; lanes > 0; --lanes) {
        m.set(static_cast<std::uint32_t>(random() % (s.line_bytes / width)) * width, width);
      }
      std::uint32_t parts = 0;
      byte_mask whole;
      q.each_part(m, [&](const byte_mask& part) {
        EXPECT_FALSE((whole & part).any());
        whole = whole | part;
        while (const auto refused = q.offer(line, part, parts == 0 ? 1 : 0)) {
          ASSERT_TRUE(q.flush(refused->window, refused->reason, out));
          EXPECT_EQ(out.reason, refused->reason);
          receive(out);
        }
        // Gives the bytes of this part new values.
        part.each_run([&](std::uint32_t first, std::uint32_t bytes) {
          for (std::uint32_t b = first; b < first + bytes; ++b) {
            stored[line + b] = static_cast<std::uint8_t>(random());
          }
        });
        ++parts;
      });
      EXPECT_EQ(whole, m);
      ++offered;
      if (random() % 16 == 0) {
        while (q.flush_line(line, flush_reason::load, out)) receive(out);
      }
      ASSERT_LE(q.lines(), s.entries);
    }
    for (std::uint32_t w = 0; w < q.windows(); ++w) {
      if (q.flush(w, flush_reason::release, out)) receive(out);
      EXPECT_EQ(q.available(w), s.format.payload_bytes);
    }
    EXPECT_TRUE(q.empty());
    EXPECT_EQ(received, stored);
    EXPECT_EQ(q.stored_bytes(), delivered + q.overwritten_bytes());
    EXPECT_EQ(counted, offered);
  }
}

TEST(combining_queue, keeps_what_was_stored_to_last) {
  combining_queue q(2);
  EXPECT_TRUE(q.offer(0, mask_of(0, 4)));
  EXPECT_TRUE(q.offer(128, mask_of(0, 4)));
  EXPECT_TRUE(q.offer(0, mask_of(2, 4)));
  EXPECT_FALSE(q.offer(256, mask_of(0, 4)));
  const queued_line oldest = q.take_oldest();
  EXPECT_EQ(oldest.line, 128U);
  EXPECT_TRUE(q.offer(256, mask_of(0, 4)));
  EXPECT_FALSE(q.has_line(128));
  ASSERT_TRUE(q.has_line(0));
  EXPECT_EQ(q.take_line(0).bytes, mask_of(0, 6));
  EXPECT_EQ(q.stored_bytes(), 16U);
  EXPECT_EQ(q.overwritten_bytes(), 2U);
}

TEST(line_buffer, finds_what_is_in_it) {
  std::mt19937_64 random(4);
  line_buffer lines(37, 3);
  std::map<std::uint64_t, std::uint32_t> kept;
  std::vector<std::vector<std::uint64_t>> lists(3);
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t line = random() % 100 * 128;
    const std::uint32_t id = lines.find(line);
    ASSERT_EQ(id != line_buffer::none, kept.count(line) != 0);
    if (id != line_buffer::none) {
      auto& list = lists[lines[id].list];
      std::erase(list, line);
      if (random() % 3 == 0) {
        lines.touch(id);
        list.push_back(line);
      } else {
        lines.erase(id);
        kept.erase(line);
      }
    } else if (!lines.full()) {
      const auto list = static_cast<std::uint32_t>(random() % 3);
      lines.insert(line, list);
      lists[list].push_back(line);
      kept[line] = list;
    }
    ASSERT_EQ(lines.size(), kept.size());
    for (std::uint32_t l = 0; l < 3; ++l) {
      std::vector<std::uint64_t> found;
      for (std::uint32_t at = lines.oldest(l); at != line_buffer::none; at = lines[at].behind) {
        found.push_back(lines[at].line);
      }
      ASSERT_EQ(found, lists[l]);
    }
  }
}

TEST(byte_mask, runs_are_those_of_a_plain_loop) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    byte_mask m;
    const std::uint64_t kind = random() % 3;
    m.bits = {random(), random()};
    if (kind == 0) m.bits = {m.bits[0] & random() & random(), m.bits[1] & random() & random()};
    if (kind == 1) m.bits = {m.bits[0] | random() | random(), m.bits[1] | random() | random()};
    if (round == 0) m.bits = {~std::uint64_t{0}, ~std::uint64_t{0}};
    if (round == 1) m.bits = {0, 0};
    std::vector<std::pair<std::uint32_t, std::uint32_t>> plain;
    for (std::uint32_t b = 0; b < 128; ++b) {
      if (!m.test(b)) continue;
      if (b == 0 || !m.test(b - 1)) plain.emplace_back(b, 0);
      ++plain.back().second;
    }
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    m.each_run([&](std::uint32_t first, std::uint32_t n) { found.emplace_back(first, n); });
    ASSERT_EQ(found, plain);
    ASSERT_EQ(m.runs(), plain.size());
  }
}

}  // namespace
}  // namespace interlace::sim::remote_write_queue_tests
