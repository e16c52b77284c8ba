// Properties of chunks and announcements for random regions and mappings.
#include "kernel/chunks.hpp"

#include <gtest/gtest.h>

#include <random>

#include "interlace/base/errors.hpp"

namespace interlace::kernel::chunks_tests {
namespace {

using random_engine = std::mt19937_64;

std::uint64_t pick(random_engine& random, std::uint64_t low, std::uint64_t high) {
  return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
}

region_state random_region(random_engine& random, std::uint32_t element_bytes) {
  const auto devices = static_cast<std::uint32_t>(pick(random, 2, 5));
  region_options o;
  o.boundaries.push_back(0);
  for (std::uint32_t d = 0; d < devices; ++d) {
    o.boundaries.push_back(o.boundaries.back() + pick(random, 0, 5000));
  }
  if (pick(random, 0, 1) == 1) {
    o.subscribers.resize(devices);
    for (std::uint32_t d = 0; d < devices; ++d) {
      for (std::uint64_t k = pick(random, 0, 3); k > 0; --k) {
        const std::uint64_t begin = pick(random, o.boundaries[d], o.boundaries[d + 1]);
        const auto peers = static_cast<std::uint32_t>(pick(random, 0, (1U << devices) - 1));
        o.subscribers[d].push_back(
            {begin, pick(random, begin, o.boundaries[d + 1]), peers & ~(1U << d)});
      }
    }
  }
  o.mechanism = pick(random, 0, 1) == 1 ? mechanism::polling : mechanism::copy_engine;
  o.chunk_bytes = pick(random, 4, 64) * 128;
  return make_region_state(std::move(o), element_bytes, devices);
}

TEST(chunks, hold_each_delivery_once) {
  random_engine random(1);
  for (int round = 0; round < 400; ++round) {
    constexpr std::uint32_t sizes[] = {1, 4, 8, 16};
    const region_state state = random_region(random, sizes[round % 4]);
    for (std::uint32_t owner = 0; owner < state.devices(); ++owner) {
      const auto chunks = cut_chunks(state, owner);
      const std::uint64_t begin = state.options.boundaries[owner];
      const std::uint64_t end = state.options.boundaries[owner + 1];
      std::vector<std::uint32_t> wanted(end - begin, 0);
      for (const delivery& d : state.deliveries(owner, {{begin, end}})) {
        for (std::uint64_t i = d.begin; i < d.end; ++i) wanted[i - begin] |= 1U << d.to;
      }
      std::vector<std::uint32_t> got(end - begin, 0);
      std::uint64_t last = 0;
      for (const chunk& c : chunks) {
        ASSERT_LT(c.begin, c.end);
        ASSERT_GE(c.begin, last);
        last = c.end;
        ASSERT_NE(c.peers, 0U);
        // If the remaining elements are fewer than the distance between two boundaries, the last
        // chunk takes them, too.
        ASSERT_LT((c.end - c.begin) * state.element_bytes, state.options.chunk_bytes + 128);
        for (std::uint64_t i = c.begin; i < c.end; ++i) got[i - begin] |= c.peers;
      }
      ASSERT_EQ(got, wanted);
    }
  }
}

TEST(chunks, grow_and_shrink) {
  region_options o;
  o.boundaries = {0, 1U << 20U, 1U << 20U};
  o.chunk_bytes = std::uint64_t{256} << 10U;
  const auto chunks = cut_chunks(make_region_state(std::move(o), 4, 2), 0);
  const auto bytes = [](const chunk& c) { return (c.end - c.begin) * 4; };
  EXPECT_EQ(bytes(chunks.front()), 64U << 10U);
  EXPECT_EQ(bytes(chunks[2]), 256U << 10U);
  EXPECT_LE(bytes(chunks.back()), 64U << 10U);
  for (const chunk& c : chunks) EXPECT_EQ(c.begin % 32, 0U);
}

TEST(chunks, are_one_where_is_one_chunk_promises_it) {
  random_engine random(3);
  for (int round = 0; round < 2000; ++round) {
    constexpr std::uint32_t sizes[] = {1, 4, 12, 24};
    const std::uint32_t element_bytes = sizes[round % 4];
    region_options o;
    o.mechanism = round % 8 < 4 ? mechanism::polling : mechanism::copy_engine;
    o.chunk_bytes = pick(random, 2048, 20'000);
    const std::uint64_t begin = pick(random, 0, 100);
    const std::uint64_t part = pick(random, 1, o.chunk_bytes / 4 / element_bytes);
    const bool one = is_one_chunk(part * element_bytes, o.chunk_bytes);
    o.boundaries = {0, begin, begin + part};
    o.subscribers = {{}, {{begin, begin + part, 1}}};
    const auto chunks = cut_chunks(make_region_state(std::move(o), element_bytes, 2), 1);
    if (one) {
      ASSERT_EQ(chunks.size(), 1U) << part << " elements of " << element_bytes;
    }
  }
}

TEST(chunks, of_a_copy_engine_grow_evenly) {
  const auto sizes = [](std::uint64_t part_bytes) {
    region_options o;
    o.boundaries = {0, part_bytes / 4, part_bytes / 4};
    o.mechanism = mechanism::copy_engine;
    o.chunk_bytes = std::uint64_t{256} << 10U;
    std::vector<std::uint64_t> found;
    for (const chunk& c : cut_chunks(make_region_state(std::move(o), 4, 2), 0)) {
      found.push_back((c.end - c.begin) * 4 >> 10U);
    }
    return found;
  };
  EXPECT_EQ(sizes(std::uint64_t{32} << 10U), (std::vector<std::uint64_t>{32}));
  EXPECT_EQ(sizes(std::uint64_t{256} << 10U), (std::vector<std::uint64_t>{32, 64, 80, 80}));
  // The last two chunks share the remaining elements equally.
  EXPECT_EQ(sizes(std::uint64_t{2} << 20U),
            (std::vector<std::uint64_t>{32, 64, 96, 128, 160, 192, 224, 256, 256, 256, 192, 192}));
}

TEST(chunks, that_hold_no_element_are_refused) {
  region_options o;
  o.boundaries = {0, 100, 100};
  o.chunk_bytes = 100;
  const auto state = make_region_state(std::move(o), 4, 2);
  EXPECT_THROW((void)cut_chunks(state, 0), usage_error);
}

TEST(announcements, add_up_to_the_targets) {
  random_engine random(2);
  for (int round = 0; round < 200; ++round) {
    const region_state state = random_region(random, 4);
    const std::uint64_t begin = state.options.boundaries[0];
    const std::uint64_t end = state.options.boundaries[1];
    const auto chunks = cut_chunks(state, 0);
    const std::uint64_t per_block = pick(random, 1, 300);
    const std::uint64_t blocks = (end - begin + per_block - 1) / per_block;
    // Blocks come in any order. Sometimes two blocks map the same elements.
    const std::uint64_t turn = pick(random, 0, blocks);
    const bool twice = pick(random, 0, 1) == 1;
    const auto mapping = block_mapping::custom([&](std::uint64_t b) {
      const std::uint64_t at = begin + (b + turn) % blocks * per_block;
      return std::vector<element_range>{{at, std::min(end, at + per_block)}};
    });
    const std::uint64_t launched = twice && blocks > 0 ? 2 * blocks : blocks;
    const auto all = announce(chunks, mapping, launched, {begin, end});
    ASSERT_EQ(all.first.size(), launched + 1);
    std::vector<std::uint64_t> sums(chunks.size(), 0);
    for (const publication& p : all.entries) {
      ASSERT_GT(p.elements, 0U);
      sums[p.chunk] += p.elements;
    }
    ASSERT_EQ(sums, all.targets);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      ASSERT_EQ(sums[c], (chunks[c].end - chunks[c].begin) * (launched == blocks ? 1 : 2));
    }
  }
}

TEST(announcements, that_cannot_complete_are_refused) {
  region_options o;
  o.boundaries = {0, 1000, 1000};
  o.chunk_bytes = 1024;
  const auto state = make_region_state(std::move(o), 4, 2);
  const auto chunks = cut_chunks(state, 0);
  EXPECT_THROW((void)announce(chunks, block_mapping::contiguous(0, 100, 900), 9, {0, 1000}),
               model_error);
  EXPECT_THROW((void)announce(chunks, block_mapping::contiguous(0, 101, 1010), 10, {0, 1000}),
               model_error);
}

}  // namespace
}  // namespace interlace::kernel::chunks_tests
