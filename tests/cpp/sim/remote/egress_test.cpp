// Remote stores go through the queues in whole runs on small machines. Every store must arrive.
// Bytes and times must match closed forms. Full buffers must delay stores, but not stop them.
#include "sim/remote/egress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"
#include "sim/fabric/store_packets.hpp"
#include "sim/remote/unpacker.hpp"

namespace interlace::egress_tests {
namespace {

using kernel::mechanism;
using machine::protocol_kind;
using sim::flush_reason;

constexpr mechanism queued[] = {mechanism::write_combining, mechanism::finepack,
                                mechanism::config_packet, mechanism::gps};

// Each lane stores `times` elements of the part that its device owns. `place` lists these elements
// in another order.
struct scatter {
  replicated<float> out;
  local<const std::uint32_t> place;
  std::uint32_t times = 1;
  float value = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (std::uint32_t k = 0; k < times; ++k) {
        const std::uint64_t n = lane.global_index() * times + k;
        if (n >= place.size) return;
        const auto i = lane.load_index(place, n);
        lane.store(out, i, value + static_cast<float>(lane.load(place, n)));
      }
    });
  }
};

struct scattered {
  std::uint64_t elements = 6000;
  std::uint32_t stride = 0;  // 0 means random places, some of which occur twice
  std::uint64_t stores = 0;  // number of stores by each device; 0 means half of its elements
  int epochs = 2;
  std::uint32_t threads = 128;
};

struct outcome {
  kernel::run_result result;
  std::uint64_t checked = 0;
};

// Runs the kernel and checks every delivery. Also compares the replicas with the stored values.
outcome run_scatter(const machine::machine& m, std::uint32_t devices, mechanism how,
                    const scattered& what, bool check = true) {
  sim::node node(m, devices, [] {});
  if (check) node.check_deliveries();
  kernel::region_options options;
  for (std::uint32_t d = 0; d <= devices; ++d) {
    options.boundaries.push_back(what.elements * d / devices);
  }
  options.mechanism = how;
  const auto region = node.create_region<float>(options);
  node.set_front(region, std::vector<float>(what.elements, -1));
  std::vector<local<const std::uint32_t>> places;
  std::vector<float> expected(what.elements, -1);
  std::mt19937 engine(7);
  const auto random = [&](std::uint32_t n) { return static_cast<std::uint32_t>(engine() % n); };
  for (std::uint32_t d = 0; d < devices; ++d) {
    const auto first = static_cast<std::uint32_t>(options.boundaries[d]);
    const auto own = static_cast<std::uint32_t>(options.boundaries[d + 1]) - first;
    std::vector<std::uint32_t> place(what.stores != 0 ? what.stores : own / 2);
    for (std::uint32_t n = 0; n < place.size(); ++n) {
      place[n] = first + (what.stride != 0 ? n * what.stride : random(own));
      expected[place[n]] = static_cast<float>(what.epochs - 1) + static_cast<float>(place[n]);
    }
    const auto there = node.allocate<std::uint32_t>(d, place.size());
    node.upload(there, place);
    places.emplace_back(there);
  }
  outcome o;
  o.result = node.run([&] {
    for (int e = 0; e < what.epochs; ++e) {
      for (std::uint32_t d = 0; d < devices; ++d) {
        const scatter k{node.view(region, d), places[d], 2, static_cast<float>(e)};
        const std::uint64_t lanes = (places[d].size + 1) / 2;
        const std::uint64_t blocks = (lanes + what.threads - 1) / what.threads;
        node.launch(d, k, {blocks, what.threads, 0}, region,
                    kernel::block_mapping::contiguous(options.boundaries[d], 2 * what.threads,
                                                      options.boundaries[d + 1]));
      }
      node.exchange(region);
    }
  });
  for (std::uint32_t d = 0; d < devices; ++d) EXPECT_EQ(node.front(region, d), expected);
  o.checked = node.checked_packets();
  return o;
}

double wire(const kernel::run_result& r) { return r.wire.useful + r.wire.wasted + r.wire.protocol; }

TEST(egress, everything_arrives) {
  for (const auto kind : {protocol_kind::nvlink2, protocol_kind::pcie4}) {
    for (const std::uint32_t devices : {2U, 4U}) {
      for (const auto how : queued) {
        SCOPED_TRACE(kernel::mechanism_name(how));
        auto m = test::meshed(devices, kind);
        if (kind == protocol_kind::pcie4) {
          for (auto& l : m.links) l.protocol.max_payload_bytes = 4096;
        }
        const auto plain = run_scatter(m, devices, mechanism::inline_stores, {});
        const auto o = run_scatter(m, devices, how, {});
        const auto& s = o.result.stores;
        EXPECT_EQ(s.stores, plain.result.stores.stores);
        EXPECT_EQ(s.bytes, plain.result.stores.bytes);
        EXPECT_EQ(s.sizes, plain.result.stores.sizes);
        EXPECT_EQ(std::accumulate(s.sizes.begin(), s.sizes.end(), std::uint64_t{0}), s.stores);
        EXPECT_GT(s.overwritten, 0U);
        EXPECT_EQ(std::accumulate(s.reasons.begin(), s.reasons.end(), std::uint64_t{0}), s.flushes);
        EXPECT_EQ(o.checked > 0, how == mechanism::finepack || how == mechanism::config_packet);
        if (how == mechanism::finepack) {
          EXPECT_LT(wire(o.result), 0.7 * wire(plain.result));
          EXPECT_LT(o.result.time_s, plain.result.time_s);
          EXPECT_EQ(s.packets, s.flushes);
        }
      }
    }
  }
}

TEST(egress, queues_of_all_shapes_deliver) {
  std::mt19937 engine(11);
  const auto random = [&](std::uint32_t n) { return static_cast<std::uint32_t>(engine() % n); };
  for (int round = 0; round < 12; ++round) {
    auto m = test::meshed(3, round % 2 == 0 ? protocol_kind::pcie3 : protocol_kind::nvlink1);
    auto& q = m.gpu.write_queue;
    q.entries = 1 + random(70);
    q.windows = 1 + random(3);
    q.grows_window = random(2) == 0;
    q.subheader_bytes = 2 + random(5);
    q.payload_bytes = 140 + random(3900);
    q.idle_flush_ps = random(2) == 0 ? 0 : 50'000;
    q.unpacked_lines = 1 + random(4);
    for (auto& l : m.links) l.queue_bytes = 1 + random(2000);
    m.gpu.remote_store_bytes = 1U << random(8);
    m.gpu.store_queue_lines = 1 + random(16);
    for (const auto how : {mechanism::finepack, mechanism::config_packet}) {
      run_scatter(m, 3, how, {.elements = 6000});
    }
  }
}

// 32 lanes each store 4 bytes to a separate line. One packet leaves at the end of the kernel. Its
// bytes must match exactly.
TEST(egress, bytes_of_one_packet) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  for (auto& l : m.links) {
    l.protocol.max_payload_bytes = 4096;
    l.protocol.packet_overhead_bytes = 26;
  }
  const scattered lines{.elements = 4096, .stride = 32, .stores = 32, .epochs = 1, .threads = 32};
  const double flags = 2 * (26 + 8);
  const auto packed = run_scatter(m, 2, mechanism::finepack, lines).result;
  // The counts are for both devices together. A device makes 32 stores of 4 bytes. With a
  // sub-header of 5 bytes each, these take 288 bytes.
  EXPECT_EQ(packed.stores.stores, 64U);
  EXPECT_EQ(packed.stores.packets, 2U);
  EXPECT_EQ(packed.stores.subpackets, 64U);
  EXPECT_EQ(packed.stores.subheader_bytes, 320U);
  EXPECT_EQ(packed.stores.reasons[static_cast<std::size_t>(flush_reason::release)], 2U);
  EXPECT_EQ(packed.stores.sizes[2], 64U);
  EXPECT_EQ(packed.stores.wire, 2U * (26 + 288));
  EXPECT_EQ(wire(packed), 2 * (26 + 288) + flags);
  // Each store takes 4 bytes plus an overhead of 26 bytes.
  EXPECT_EQ(wire(run_scatter(m, 2, mechanism::inline_stores, lines).result), 64 * 30 + flags);
  EXPECT_EQ(wire(run_scatter(m, 2, mechanism::write_combining, lines).result), 64 * 30 + flags);
  // A configuration packet takes 26 bytes. Each store adds an overhead of 10 bytes plus 5 + 4
  // bytes, which are rounded up to double words (12 bytes).
  const auto configured = run_scatter(m, 2, mechanism::config_packet, lines).result;
  EXPECT_EQ(wire(configured), 2 * 26 + 64 * (10 + 12) + flags);
  EXPECT_EQ(configured.stores.packets, 66U);
  // Each whole line takes 128 bytes plus an overhead of 26 bytes.
  EXPECT_EQ(wire(run_scatter(m, 2, mechanism::gps, lines).result), 64 * 154 + flags);
}

TEST(egress, nvlink_packets_carry_at_most_256_bytes) {
  const auto m = test::meshed(2, protocol_kind::nvlink2);
  const scattered lines{.elements = 4096, .stride = 32, .stores = 32, .epochs = 1, .threads = 32};
  const auto packed = run_scatter(m, 2, mechanism::finepack, lines).result;
  // A store takes 4 bytes and a sub-header of 5 bytes. 28 stores take 252 bytes, which are 16 flits
  // plus a header. The remaining 4 stores take 36 bytes, which are 3 flits plus a header.
  EXPECT_EQ(packed.stores.packets, 4U);
  EXPECT_EQ(packed.stores.wire, 2U * (17 + 4) * 16);
  EXPECT_EQ(packed.stores.reasons[static_cast<std::size_t>(flush_reason::payload)], 2U);
}

// The links are so slow that the packet is still on its way when the exchange sends its flag. The
// flag must arrive after the packet.
TEST(egress, the_flag_of_an_exchange_waits_for_the_packet) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  const scattered lines{.elements = 4096, .stride = 32, .stores = 32, .epochs = 1, .threads = 32};
  double times[2] = {};
  for (int k = 0; k < 2; ++k) {
    for (auto& l : m.links) {
      l.protocol.max_payload_bytes = 4096;
      l.bytes_per_s = k == 0 ? 50e6 : 25e6;
    }
    times[k] = run_scatter(m, 2, mechanism::finepack, lines).result.time_s;
  }
  EXPECT_NEAR(times[1] - times[0], (24 + 288 + 24 + 8) * (1 / 25e6 - 1 / 50e6), 1e-11);
}

// The L2 takes 1.28 us for a sector, so it takes 41 us for the sectors of 32 lines. The flag that
// follows these lines waits that long.
TEST(egress, the_receiver_takes_stores_at_the_rate_of_its_l2) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  for (auto& l : m.links) l.protocol.max_payload_bytes = 4096;
  const scattered lines{.elements = 4096, .stride = 32, .stores = 32, .epochs = 1, .threads = 32};
  const double fast = run_scatter(m, 2, mechanism::finepack, lines).result.time_s;
  m.gpu.l2.bytes_per_s = 25e6;
  const double slow = run_scatter(m, 2, mechanism::finepack, lines).result.time_s;
  EXPECT_GT(slow, fast + 32 * 1.28e-6);
}

TEST(unpacker, holds_as_many_lines_as_it_has) {
  machine::gpu g = test::meshed(2, protocol_kind::pcie4).gpu;
  g.l2.bytes_per_s = 32e9;  // one sector takes a nanosecond
  g.write_queue.unpacked_lines = 2;
  sim::unpacker u(g);
  EXPECT_EQ(u.take(10'000, 1), 11'000U);
  EXPECT_EQ(u.entered(), 10'000U);
  EXPECT_EQ(u.take(10'000, 4), 15'000U);
  EXPECT_EQ(u.entered(), 10'000U);
  EXPECT_EQ(u.take(10'000, 1), 16'000U);
  // The line of the third call entered when the line of the first call left.
  EXPECT_EQ(u.entered(), 11'000U);
  EXPECT_EQ(u.take(10'000, 1), 17'000U);
  EXPECT_EQ(u.entered(), 15'000U);
  EXPECT_EQ(u.take(30'000, 2), 32'000U);
  EXPECT_EQ(u.clear(), 32'000U);
}

// The link is so slow that three buffers are full most of the time: the queue, the egress buffer,
// and the buffers for stores in the compute units.
TEST(egress, full_buffers_hold_stores_up) {
  for (const auto how : queued) {
    SCOPED_TRACE(kernel::mechanism_name(how));
    auto m = test::meshed(2, protocol_kind::pcie4);
    m.gpu.store_queue_lines = 1;
    m.gpu.write_queue.entries = 2;
    m.gpu.gps.queue_lines = 2;
    for (auto& l : m.links) {
      l.queue_bytes = 16;
      l.bytes_per_s = 1e8;
    }
    const auto o = run_scatter(m, 2, how, {.elements = 4000, .epochs = 1}).result;
    const double on_the_wire = static_cast<double>(o.stores.wire) / 2;
    EXPECT_GT(o.time_s, on_the_wire / 1e8);
    EXPECT_LT(o.time_s, on_the_wire / 1e8 * 1.05 + 20e-6);
    EXPECT_GT(o.stores.reasons[static_cast<std::size_t>(flush_reason::entries)], 100U);
  }
}

TEST(egress, idle_queues_are_flushed_if_requested) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  m.gpu.write_queue.idle_flush_ps = 100'000;
  const auto o = run_scatter(m, 2, mechanism::finepack, {.elements = 4000}).result;
  EXPECT_GT(o.stores.reasons[static_cast<std::size_t>(flush_reason::timeout)], 0U);
  // A timer that is still running after all work has ended adds no time.
  m.gpu.write_queue.idle_flush_ps = std::uint64_t{1'000'000'000'000};
  const double late = run_scatter(m, 2, mechanism::finepack, {.elements = 4000}).result.time_s;
  m.gpu.write_queue.idle_flush_ps = 0;
  EXPECT_EQ(run_scatter(m, 2, mechanism::finepack, {.elements = 4000}).result.time_s, late);
}

TEST(egress, the_same_run_gives_the_same_counts) {
  for (const auto how : queued) {
    const auto m = test::meshed(3, protocol_kind::pcie4);
    const auto one = run_scatter(m, 3, how, {.elements = 5000}, false).result;
    const auto two = run_scatter(m, 3, how, {.elements = 5000}, true).result;
    EXPECT_EQ(one.time_s, two.time_s);
    EXPECT_EQ(one.stores.wire, two.stores.wire);
    EXPECT_EQ(one.stores.packets, two.stores.packets);
    EXPECT_EQ(one.stores.reasons, two.stores.reasons);
  }
}

// Each lane stores one element. The elements of neighbouring lanes are adjacent.
template <class T>
struct fill {
  replicated<T> out;
  std::uint64_t first = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = first + lane.global_index();
      lane.store(out, i, static_cast<T>(i));
    });
  }
};

// Two devices each store `elements` adjacent elements. `elements` is a multiple of 32.
template <class T>
kernel::run_result run_fill(const machine::machine& m, mechanism how, std::uint32_t elements) {
  sim::node node(m, 2, [] {});
  node.check_deliveries();
  kernel::region_options options;
  options.boundaries = {0, elements, 2 * elements};
  options.mechanism = how;
  const auto region = node.create_region<T>(options);
  const auto result = node.run([&] {
    for (std::uint32_t d = 0; d < 2; ++d) {
      const std::uint64_t first = d * std::uint64_t{elements};
      node.launch(d, fill<T>{node.view(region, d), first}, {elements / 32, 32, 0}, region,
                  kernel::block_mapping::contiguous(first, 32, first + elements));
    }
    node.exchange(region);
  });
  std::vector<T> expected(2 * std::size_t{elements});
  std::iota(expected.begin(), expected.end(), T{0});
  for (std::uint32_t d = 0; d < 2; ++d) EXPECT_EQ(node.front(region, d), expected);
  return result;
}

machine::machine joining(std::uint32_t bytes) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  for (auto& l : m.links) {
    l.protocol.max_payload_bytes = 4096;
    l.protocol.packet_overhead_bytes = 26;
  }
  m.gpu.remote_store_bytes = bytes;
  return m;
}

// Each device sends 1 KiB in stores of `bytes` bytes. Closed forms give all counts.
TEST(egress, neighbouring_lanes_are_joined_up_to_the_machines_limit) {
  const double flags = 2 * (26 + 8);
  for (const std::uint32_t bytes : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U}) {
    SCOPED_TRACE(bytes);
    const auto m = joining(bytes);
    for (const std::uint32_t element : {4U, 8U}) {
      SCOPED_TRACE(element);
      const auto run = [&](mechanism how) {
        return element == 4 ? run_fill<float>(m, how, 256) : run_fill<double>(m, how, 128);
      };
      const std::uint32_t size = std::max(bytes, element);  // an element is never split
      const std::uint64_t stores = 2U * 1024 / size;
      const auto plain = run(mechanism::inline_stores);
      EXPECT_EQ(plain.stores.stores, stores);
      EXPECT_EQ(plain.stores.bytes, 2048U);
      EXPECT_EQ(plain.stores.sizes[31U - static_cast<unsigned>(__builtin_clz(size))], stores);
      EXPECT_EQ(plain.stores.packets, stores);
      EXPECT_EQ(plain.stores.wire, stores * (26 + size));
      EXPECT_EQ(wire(plain), static_cast<double>(stores * (26 + size)) + flags);
      // The queue joins stores, so its packets do not depend on the size of the stores.
      const auto packed = run(mechanism::finepack);
      EXPECT_EQ(packed.stores.stores, stores);
      EXPECT_EQ(packed.stores.sizes, plain.stores.sizes);
      EXPECT_EQ(packed.stores.packets, 2U);
      EXPECT_EQ(packed.stores.subpackets, 16U);
      EXPECT_EQ(wire(packed), 2 * (26 + 1024 + 8 * 5) + flags);
      EXPECT_EQ(wire(run(mechanism::write_combining)), 16 * (26 + 128) + flags);
      EXPECT_EQ(wire(run(mechanism::gps)), 16 * (26 + 128) + flags);
      EXPECT_EQ(run(mechanism::config_packet).stores.stores, stores);
    }
  }
}

// The queue charges each store to a packet of at most 200 bytes. If one store fills a line, the
// line takes 128 bytes and a sub-header of 5 bytes, so a packet has no room for a second line. If
// stores of 4 bytes fill the second line, the first packet also has room for a sub-header and 15 of
// these stores. Payloads are rounded up to double words.
TEST(egress, a_packet_is_filled_by_stores_of_lanes) {
  auto m = joining(0);
  m.gpu.write_queue.payload_bytes = 200;
  const auto lines = run_fill<float>(m, mechanism::finepack, 64).stores;
  EXPECT_EQ(lines.stores, 4U);
  EXPECT_EQ(lines.packets, 4U);
  EXPECT_EQ(lines.wire, 4U * (26 + 136));
  m.gpu.remote_store_bytes = 4;
  const auto lanes = run_fill<float>(m, mechanism::finepack, 64).stores;
  EXPECT_EQ(lanes.stores, 128U);
  EXPECT_EQ(lanes.packets, 4U);
  EXPECT_EQ(lanes.wire, 2U * (26 + 200 + 26 + 76));
  EXPECT_EQ(lanes.reasons[static_cast<std::size_t>(flush_reason::payload)], 2U);
}

// A sector with byte enables is one NVLink packet. If the parts of a sector leave separately, each
// part is one packet.
TEST(egress, lanes_on_nvlink) {
  auto m = test::meshed(2, protocol_kind::nvlink2);
  const auto& p = m.links.front().protocol;
  for (const std::uint32_t bytes : {4U, 16U, 32U, 128U}) {
    m.gpu.remote_store_bytes = bytes;
    const auto s = run_fill<float>(m, mechanism::inline_stores, 64).stores;
    EXPECT_EQ(s.stores, 512 / bytes);
    std::uint64_t expected = 0;
    for (std::uint32_t at = 0; at < 128; at += bytes) {
      sim::byte_mask mask;
      for (std::uint32_t b = at; b < at + bytes; b += 4) mask.set(b, 4);
      expected += 4 * sim::store_packets(p, mask).wire;
    }
    EXPECT_EQ(s.wire, expected);
  }
}

// Each lane stores to a page of another device, and then loads.
struct store_and_load {
  unified<float> data;
  replicated<float> out;
  std::uint64_t first = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = first + lane.global_index();
      lane.store(data, i, static_cast<float>(i));
      lane.compute(operations{.fp32 = 1});
      lane.store(out, i, lane.load(data, i));
    });
  }
};

TEST(egress, a_load_flushes_the_stores_to_its_line) {
  for (const auto how : {mechanism::finepack, mechanism::write_combining}) {
    auto m = test::meshed(2, protocol_kind::pcie4);
    for (auto& l : m.links) l.protocol.max_payload_bytes = 4096;
    sim::node node(m, 2, [] {});
    node.check_deliveries();
    const auto data = node.allocate_unified<float>(8192);
    kernel::region_options options;
    options.boundaries = {0, 4096, 8192};
    options.mechanism = how;
    const auto region = node.create_region<float>(options);
    const auto result = node.run([&] {
      for (std::uint32_t d = 0; d < 2; ++d) {
        const std::uint64_t first = d * std::uint64_t{4096};
        node.launch(d, store_and_load{data, node.view(region, d), first}, {32, 128, 0}, region,
                    kernel::block_mapping::contiguous(first, 128, first + 4096));
      }
      node.exchange(region);
    });
    std::vector<float> expected(8192);
    std::iota(expected.begin(), expected.end(), 0.0F);
    for (std::uint32_t d = 0; d < 2; ++d) EXPECT_EQ(node.front(region, d), expected);
    EXPECT_GT(result.stores.reasons[static_cast<std::size_t>(flush_reason::load)], 0U);
  }
}

// A receiver for a test of the queue without a node. Before an atomic leaves, the queue must send
// the entry of the atomic's line, and no other entry.
struct recording : sim::message_receiver {
  sim::egress* sender = nullptr;
  std::vector<sim::message> arrived;
  std::uint64_t delivered_bytes = 0;
  void departed(const sim::message& m) override { sender->departed(m); }
  void delivered(const sim::message& m) override {
    arrived.push_back(m);
    if (m.kind != sim::message_kind::atomic) delivered_bytes += sender->received(m);
  }
};

TEST(egress, an_atomic_flushes_the_entry_of_its_address) {
  auto m = test::meshed(2, protocol_kind::pcie4);
  for (auto& l : m.links) l.protocol.max_payload_bytes = 4096;
  sim::event_queue queue;
  recording receiver;
  sim::fabric links(m, queue, receiver);
  sim::store_counts counts;
  sim::egress stores(0, m.gpu, 2, queue, links, counts);
  receiver.sender = &stores;
  stores.begin(sim::store_path::packed);
  sim::byte_mask four;
  four.set(0, 4);
  stores.store(1000, 0, 1, {0x1000, 1}, {four, 1, 4});
  stores.store(2000, 0, 1, {0x2000, 1}, {four, 1, 4});
  sim::message atomic;
  atomic.kind = sim::message_kind::atomic;
  atomic.to = 1;
  atomic.address = 0x1001;  // an address in the line's first sector
  atomic.wire = 32;
  stores.pass(3000, atomic);
  EXPECT_FALSE(stores.release());
  const auto run = [&] {
    while (!queue.empty()) {
      const sim::event e = queue.pop([](const auto&) {});
      if (is_of_message(e.kind)) {
        links.handle(e);
      } else {
        stores.handle(e);
      }
    }
  };
  run();
  ASSERT_EQ(receiver.arrived.size(), 2U);
  EXPECT_EQ(receiver.arrived[0].kind, sim::message_kind::packed);
  EXPECT_EQ(receiver.arrived[0].payload, 4U);
  EXPECT_EQ(receiver.arrived[1].kind, sim::message_kind::atomic);
  EXPECT_EQ(counts.reasons[static_cast<std::size_t>(flush_reason::atomic)], 1U);
  EXPECT_EQ(stores.freed(), (std::vector<std::uint32_t>{0, 0}));
  EXPECT_TRUE(stores.release());
  run();
  EXPECT_EQ(receiver.arrived.size(), 3U);
  stores.check_empty();
  EXPECT_EQ(counts.bytes, receiver.delivered_bytes);
}

// Each device writes its two pages, and reads one page of each other device.
struct read_first_half {
  replicated<float> data;
  std::uint64_t first = 0, own = 0, devices = 0, device = 0, read = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      float sum = 0;
      for (std::uint64_t d = 0; d < devices; ++d) {
        if (d != device && i < read) sum += lane.load(data, d * own + i);
      }
      lane.store(data, first + i, sum + 1.0F);
    });
  }
};

TEST(egress, gps_sends_pages_to_those_that_read_them) {
  auto m = test::meshed(3, protocol_kind::pcie4);
  m.gpu.gps.page_bytes = 4096;
  const std::uint64_t own = 2048;  // two pages
  const auto stored = [&](int epochs, std::uint64_t then_read) {
    sim::node node(m, 3, [] {});
    node.check_deliveries();
    kernel::region_options options;
    options.boundaries = {0, own, 2 * own, 3 * own};
    options.mechanism = mechanism::gps;
    const auto region = node.create_region<float>(options);
    node.set_front(region, std::vector<float>(3 * own, 1));
    return node.run([&] {
      for (int e = 0; e < epochs; ++e) {
        for (std::uint32_t d = 0; d < 3; ++d) {
          const read_first_half k{node.view(region, d),        d * own, own, 3, d,
                                  e == 0 ? own / 2 : then_read};
          node.launch(d, k, {own / 128, 128, 0}, region,
                      kernel::block_mapping::contiguous(d * own, 128, (d + 1) * own));
        }
        node.exchange(region);
      }
    });
  };
  const std::uint64_t all = 3 * 2 * own * 4;
  EXPECT_EQ(stored(1, own / 2).stores.bytes, all);
  const auto half = stored(4, own / 2);
  EXPECT_EQ(half.stores.bytes, all + 3 * all / 2);
  EXPECT_EQ(half.remote_transactions, half.stores.packets);  // there are no remote loads
  // If a device later reads elements to which it has not subscribed, it loads these elements from
  // their owner.
  const auto more = stored(4, own);
  EXPECT_EQ(more.stores.bytes, all + 3 * all / 2);
  EXPECT_GT(more.remote_transactions, more.stores.packets);
}

TEST(egress, packets_without_room_for_a_line_are_refused) {
  auto m = test::meshed(2, protocol_kind::pcie3);
  for (auto& l : m.links) {
    l.protocol.max_payload_bytes = 128;
    l.protocol_name = "pcie3";
  }
  try {
    run_scatter(m, 2, mechanism::finepack, {});
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_EQ(std::string(e.what()),
              "packets of protocol pcie3 carry 128 bytes on machine meshed, and a line with its "
              "sub-header has 133: raise max_payload_bytes or take another mechanism");
  }
  run_scatter(m, 2, mechanism::write_combining, {.elements = 2000});
}

}  // namespace
}  // namespace interlace::egress_tests
