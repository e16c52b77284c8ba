// A pass over a list of blocks finds the properties of the list. The list is then written in the
// form that the kernels read.
#include "plan/block_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "interlace/base/errors.hpp"
#include "plan/random_below.hpp"

namespace interlace::plan {
namespace {

using copies = std::vector<std::array<std::uint64_t, 3>>;  // to, from, bytes

struct made_list {
  std::vector<std::uint64_t> to, from, sizes;
  std::vector<std::uint32_t> narrow_to, narrow_from;
  block_list list;
};

// Makes a random list. If `even` is true, all blocks have the same size and are aligned to 16
// bytes.
void fill(made_list& made, std::mt19937_64& random, bool even) {
  const std::size_t count = 1 + below(random, 70);
  const std::uint64_t unit = even ? 16 : 1;
  made.list.count = count;
  made.list.bytes = unit * (1 + below(random, even ? 6000 : 100000));
  if (!even && below(random, 2) == 0) {
    for (std::size_t at = 0; at < count; ++at)
      made.sizes.push_back(below(random, 3) == 0 ? 0 : below(random, 50000));
    if (below(random, 2) == 0) made.sizes.assign(count, made.list.bytes);
    made.list.sizes = made.sizes.data();
  }
  const auto side = [&](block_side& of, std::vector<std::uint64_t>& wide,
                        std::vector<std::uint32_t>& narrow) {
    of.base = unit * below(random, 1 << 30U);
    if (below(random, 2) == 0) of.base = of.base / 16 * 16;
    of.scale = unit * (1 + below(random, 5000));
    const std::uint64_t form = below(random, 3);
    for (std::size_t at = 0; at < count; ++at) {
      wide.push_back(below(random, 1 << 20U));
      narrow.push_back(static_cast<std::uint32_t>(wide.back()));
    }
    if (form == 1) of.numbers = wide.data();
    if (form == 2) of.numbers = narrow.data();
    of.wide = form == 1;
  };
  side(made.list.to, made.to, made.narrow_to);
  side(made.list.from, made.from, made.narrow_from);
}

copies expected_of(const block_list& list) {
  copies made;
  each_block(list, [&](std::size_t at, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    EXPECT_EQ(bytes, list.sizes == nullptr ? list.bytes : list.sizes[at]);
    if (bytes != 0)
      made.push_back(
          {list.to.base + to * list.to.scale, list.from.base + from * list.from.scale, bytes});
    return true;
  });
  return made;
}

// Returns the copies that a kernel makes from the written lists. Joins adjacent pieces.
copies written(const block_list& list, const block_layout& layout) {
  std::vector<std::byte> into(layout.bytes() + 8, std::byte{0xEE});
  write_lists(list, layout, std::span(into).first(layout.bytes()));
  EXPECT_EQ(into[layout.bytes()], std::byte{0xEE});
  const bool whole = layout.even && layout.entries == list.count;
  const auto number = [&](std::size_t begin, bool there, bool wide, std::size_t at) {
    std::uint64_t read = 0;
    if (!there) return std::uint64_t{at};
    std::memcpy(&read, into.data() + begin + at * (wide ? 8 : 4), wide ? 8 : 4);
    return read;
  };
  copies made;
  for (std::size_t at = 0; at < layout.entries; ++at) {
    std::uint64_t to = number(0, layout.to_written, layout.to_wide, at);
    std::uint64_t from = number(layout.to_bytes(), layout.from_written, layout.from_wide, at);
    if (whole) to = list.to.base + to * list.to.scale;
    if (whole) from = list.from.base + from * list.from.scale;
    const std::uint64_t bytes =
        layout.even ? layout.piece
                    : number(layout.to_bytes() + layout.from_bytes(), true, true, at);
    EXPECT_GT(bytes, 0U);
    EXPECT_LE(bytes, layout.piece);
    made.push_back({to, from, bytes});
  }
  return made;
}

// Compares copies. First cuts the wanted copies at the places where the found copies are cut.
void expect_same(const copies& wanted, const copies& found) {
  std::size_t next = 0;
  for (const auto& [to, from, bytes] : wanted)
    for (std::uint64_t done = 0; done < bytes; ++next) {
      ASSERT_LT(next, found.size());
      ASSERT_EQ(found[next][0], to + done);
      ASSERT_EQ(found[next][1], from + done);
      done += found[next][2];
      ASSERT_LE(done, bytes);
    }
  EXPECT_EQ(next, found.size());
}

TEST(block_list, written_lists_are_the_blocks_whatever_their_form) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    made_list made;
    const bool even = below(random, 2) == 0;
    fill(made, random, even);
    const block_shape shape = shape_of(made.list);
    const copies wanted = expected_of(made.list);
    EXPECT_EQ(shape.blocks, wanted.size());
    std::uint64_t bytes = 0;
    std::uint64_t bits = 0;
    bool one_size = true;
    for (const auto& [to, from, size] : wanted) {
      bytes += size;
      bits |= to | from | size;
      one_size = one_size && size == wanted.front()[2];
      EXPECT_LE(shape.to.begin, to);
      EXPECT_GE(shape.to.end, to + size);
      EXPECT_LE(shape.from.begin, from);
      EXPECT_GE(shape.from.end, from + size);
    }
    EXPECT_EQ(shape.bytes, bytes);
    EXPECT_EQ(shape.even, one_size && bits % 16 == 0 && wanted.size() == made.list.count);
    EXPECT_TRUE(!even || shape.even);
    if (shape.blocks == 0) continue;
    const block_layout layout = layout_of(made.list, shape, 1 + below(random, 300));
    expect_same(wanted, written(made.list, layout));
  }
}

TEST(block_list, a_few_large_blocks_are_cut_into_equal_parts) {
  const std::array<std::uint64_t, 2> places{0, 1 << 20U};
  block_list list{.to = {.base = 1 << 30U, .numbers = places.data()},
                  .from = {.base = 1 << 29U, .scale = 1 << 20U},
                  .bytes = 1 << 20U,
                  .count = 2};
  const block_layout cut = layout_of(list, shape_of(list), 16);
  EXPECT_EQ(cut.entries, 16U);
  EXPECT_EQ(cut.piece, 1U << 17U);
  EXPECT_TRUE(cut.from_written);
  const block_layout whole = layout_of(list, shape_of(list), 2);
  EXPECT_EQ(whole.entries, 2U);
  EXPECT_FALSE(whole.from_written);
  EXPECT_EQ(whole.bytes(), 16U);
}

TEST(block_list, parts_are_cut_by_their_bytes) {
  const std::array<std::uint32_t, 4> rows{9, 8, 7, 6};
  const std::array<std::uint64_t, 4> sizes{100, 0, 300, 200};
  const block_list list{.to = {.base = 1000, .scale = 10},
                        .from = {.numbers = rows.data(), .wide = false},
                        .sizes = sizes.data(),
                        .count = 4};
  EXPECT_EQ(blocks_within(list, 0, 0), 0U);
  EXPECT_EQ(blocks_within(list, 0, 100), 2U);  // the second block has 0 bytes
  EXPECT_EQ(blocks_within(list, 0, 240), 2U);
  EXPECT_EQ(blocks_within(list, 0, 260), 3U);
  EXPECT_EQ(blocks_within(list, 2, 1000), 2U);
  const block_list part = part_of(list, 2, 2);
  std::vector<std::array<std::uint64_t, 3>> found;
  each_block(part, [&](std::size_t, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    found.push_back({part.to.base + to * part.to.scale, from, bytes});
    return true;
  });
  EXPECT_EQ(found, (std::vector<std::array<std::uint64_t, 3>>{{1020, 7, 300}, {1030, 6, 200}}));
  const block_list even{.to = {}, .from = {}, .bytes = 64, .count = 10};
  EXPECT_EQ(blocks_within(even, 0, 64 * 3 + 20), 3U);
  EXPECT_EQ(blocks_within(even, 8, 64 * 3), 2U);
}

TEST(block_list, an_empty_list_has_no_shape) {
  const block_shape shape = shape_of({.to = {}, .from = {}, .bytes = 0, .count = 5});
  EXPECT_EQ(shape.blocks, 0U);
  EXPECT_EQ(shape.bytes, 0U);
}

TEST(block_list, a_block_beyond_the_last_address_is_named) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bad : {most, most / 2, most / 3}) {
    const std::array<std::uint64_t, 3> numbers{1, bad, 2};
    const block_list list{.to = {.base = 64, .scale = 64, .numbers = numbers.data()},
                          .from = {},
                          .bytes = 64,
                          .count = 3};
    try {
      (void)shape_of(list);
      ADD_FAILURE() << "number " << bad << " is accepted";
    } catch (const usage_error& error) {
      EXPECT_STREQ(error.what(),
                   "block 1 of a batch has 64 bytes, which reach past the last address");
    }
  }
}

}  // namespace
}  // namespace interlace::plan
