#include "checkpoint/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::checkpoint::layout_test {

std::vector<segment> random_segments(std::mt19937_64& random) {
  std::vector<segment> made;
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t address = 4096;
  for (std::uint32_t file = 0; file < 1 + below(3); ++file) {
    std::uint64_t offset = below(100);
    for (std::uint64_t k = below(30); k != 0; --k) {
      segment s;
      s.file = file;
      if (below(3) == 0) offset += below(500);
      if (below(3) == 0) address += below(500);
      s.offset = offset;
      s.address = address;
      s.bytes = below(4) == 0 ? below(20000) : below(900);
      s.gpu = below(2) == 0 ? 1 : static_cast<int>(below(4)) - 1;
      s.tensor = static_cast<std::uint32_t>(made.size());
      offset += s.bytes;
      address += s.bytes;
      made.push_back(s);
    }
  }
  std::shuffle(made.begin(), made.end(), random);
  return made;
}

using byte_run = std::tuple<std::uint32_t, int, std::uint64_t, std::uint64_t, std::uint64_t>;

// Joins adjacent bytes to runs as long as possible. Each run has its file, GPU, offset, address and
// size.
std::vector<byte_run> runs(std::vector<segment> of) {
  std::erase_if(of, [](const segment& s) { return s.bytes == 0; });
  std::sort(of.begin(), of.end(), [](const segment& a, const segment& b) {
    return std::tie(a.file, a.gpu, a.offset) < std::tie(b.file, b.gpu, b.offset);
  });
  std::vector<byte_run> made;
  for (const segment& s : of) {
    if (!made.empty()) {
      auto& [file, gpu, offset, address, bytes] = made.back();
      if (file == s.file && gpu == s.gpu && offset + bytes == s.offset &&
          address + bytes == s.address) {
        bytes += s.bytes;
        continue;
      }
    }
    made.emplace_back(s.file, s.gpu, s.offset, s.address, s.bytes);
  }
  return made;
}

void check(const std::vector<segment>& segments, const cut& how) {
  const layout made = lay_out(segments, how);
  std::uint64_t bytes = 0;
  for (const segment& s : segments) bytes += s.bytes;
  ASSERT_EQ(made.bytes, bytes);

  // The parts move every byte once, to its place.
  const std::vector<segment> parts(made.parts.begin(), made.parts.end());
  ASSERT_EQ(runs(parts), runs(segments));

  std::size_t next_part = 0;
  std::size_t next_piece = 0;
  // Several small parts can share a piece. This is the number of parts of the next piece that the
  // loop has passed.
  std::uint32_t shared = 0;
  std::map<int, std::pair<std::uint32_t, std::uint64_t>> reached;
  for (std::size_t c = 0; c < made.chunks.size(); ++c) {
    const chunk& own = made.chunks[c];
    ASSERT_EQ(own.first_part, next_part);
    ASSERT_GT(own.parts, 0U);
    std::uint64_t end = 0;
    std::uint64_t in_chunk = 0;
    std::uint32_t pieces = 0;
    for (; next_part < own.first_part + own.parts; ++next_part) {
      const part& p = made.parts[next_part];
      ASSERT_EQ(p.gpu, own.gpu);
      ASSERT_GT(p.bytes, 0U);
      auto& [file, offset] = reached[p.gpu];
      ASSERT_LE(std::pair(file, offset), std::pair(p.file, p.offset));
      std::tie(file, offset) = std::pair(p.file, p.offset + p.bytes);
      if (own.gpu != host) {
        if (how.by_page) {
          ASSERT_EQ(p.slot_offset % page_bytes, p.offset % page_bytes);
          ASSERT_GE(p.slot_offset / page_bytes, (end + page_bytes - 1) / page_bytes);
        } else if (in_chunk == 0 || p.address != made.parts[next_part - 1].address +
                                                     made.parts[next_part - 1].bytes) {
          ASSERT_EQ(p.slot_offset % slot_alignment, 0U);
        } else {
          ASSERT_EQ(p.slot_offset, end);
        }
        ASSERT_GE(p.slot_offset, end);
        end = p.slot_offset + p.bytes;
        ASSERT_LE(end, how.chunk_bytes);
      }
      in_chunk += p.bytes;
      std::uint64_t begin = 0;
      while (begin < p.bytes) {
        ASSERT_LT(next_piece, made.pieces.size());
        const piece& q = made.pieces[next_piece];
        if (q.parts > 1) {
          ASSERT_FALSE(how.by_tensor);
          ASSERT_LE(q.bytes, how.piece_bytes / 4);
          ASSERT_EQ(q.begin, 0U);
          ASSERT_EQ(q.part + shared, next_part);
          ASSERT_LE(q.part + q.parts, own.first_part + own.parts);
          begin = p.bytes;
          pieces += shared == 0;
          if (++shared < q.parts) break;
          const auto of = std::span(made.parts).subspan(q.part, q.parts);
          ASSERT_EQ(q.bytes,
                    std::accumulate(of.begin(), of.end(), std::uint64_t{0},
                                    [](auto sum, const part& one) { return sum + one.bytes; }));
          shared = 0;
          ++next_piece;
          break;
        }
        ++next_piece;
        ASSERT_EQ(q.chunk, c);
        ASSERT_EQ(q.part, next_part);
        ASSERT_EQ(q.begin, begin);
        ASSERT_GT(q.bytes, 0U);
        ASSERT_LE(q.bytes, how.piece_bytes);
        if (how.by_page && own.gpu != host && how.piece_bytes % page_bytes == 0 && begin != 0) {
          ASSERT_EQ((p.offset + begin) % page_bytes, 0U);
        }
        begin += q.bytes;
        ++pieces;
      }
      ASSERT_EQ(begin, p.bytes);
      if (!how.by_tensor) continue;
      const auto& whole = *std::find_if(segments.begin(), segments.end(),
                                        [&](const segment& s) { return s.tensor == p.tensor; });
      ASSERT_EQ(p.file, whole.file);
      ASSERT_GE(p.offset, whole.offset);
      ASSERT_LE(p.offset + p.bytes, whole.offset + whole.bytes);
    }
    ASSERT_EQ(own.pieces, pieces);
    ASSERT_EQ(own.bytes, in_chunk);
  }
  ASSERT_EQ(next_part, made.parts.size());
  ASSERT_EQ(next_piece, made.pieces.size());
}

TEST(layout, moves_every_byte_once) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 500; ++k) {
    const auto segments = random_segments(random);
    cut how;
    how.chunk_bytes = slot_alignment + random() % 6000;
    how.piece_bytes = 1 + random() % 3000;
    how.by_tensor = random() % 2 == 0;
    how.by_page = random() % 4 == 0;
    if (how.by_page) {
      how.chunk_bytes += page_bytes;
      how.piece_bytes = page_bytes * (1 + random() % 3);
    }
    check(segments, how);
    if (HasFatalFailure()) FAIL() << "case " << k;
  }
}

TEST(layout, joins_adjacent_segments) {
  const std::vector<segment> tensors{{0, 100, 50, 5000, 0, 0}, {0, 150, 50, 5050, 0, 1}};
  EXPECT_EQ(lay_out(tensors, {4096, 4096, false}).parts.size(), 1U);
  EXPECT_EQ(lay_out(tensors, {4096, 4096, true}).parts.size(), 2U);
}

TEST(layout, gives_small_parts_a_piece_in_common) {
  std::vector<segment> rows;
  for (std::uint32_t k = 0; k < 100; ++k) rows.push_back({0, 900 * k, 100, 5000 + 100 * k, 0, k});
  const cut how{.chunk_bytes = 1 << 20, .piece_bytes = 4000, .by_tensor = false};
  const layout made = lay_out(rows, how);
  EXPECT_EQ(made.parts.size(), 100U);
  ASSERT_EQ(made.pieces.size(), 10U);
  EXPECT_EQ(made.pieces[1].part, 10U);
  EXPECT_EQ(made.pieces[1].parts, 10U);
  EXPECT_EQ(made.pieces[1].bytes, 1000U);
  // A checksum belongs to one tensor, so a piece must not have bytes of several tensors.
  EXPECT_EQ(lay_out(rows, {1 << 20, 4000, true}).pieces.size(), 100U);
}

TEST(layout, puts_together_what_follows_in_memory) {
  const std::vector<segment> rows{
      {0, 100, 50, 5000, 0}, {0, 900, 50, 5050, 0}, {0, 990, 50, 6000, 0}};
  const layout made = lay_out(rows, {4096, 4096, false});
  ASSERT_EQ(made.parts.size(), 3U);
  EXPECT_EQ(made.parts[1].slot_offset, 50U);
  EXPECT_EQ(made.parts[2].slot_offset, slot_alignment);
}

// Each of two GPUs gets half of the data. No GPU must wait until the transfer to the other GPU has
// ended.
TEST(layout, lets_gpus_take_turns) {
  std::vector<segment> halves{{0, 0, 8 << 20, 1 << 20, 0, 0}, {0, 8 << 20, 8 << 20, 1 << 30, 1, 1}};
  const layout made = lay_out(halves, {1 << 20, 1 << 20, false});
  ASSERT_EQ(made.chunks.size(), 16U);
  for (std::size_t k = 0; k < 16; k += 2) EXPECT_NE(made.chunks[k].gpu, made.chunks[k + 1].gpu);
}

TEST(layout, refuses_a_cut_of_nothing) {
  EXPECT_THROW(lay_out({}, {255, 1, false}), usage_error);
  EXPECT_THROW(lay_out({}, {4096, 0, false}), usage_error);
  EXPECT_TRUE(lay_out({}, {4096, 1, false}).chunks.empty());
}

}  // namespace interlace::checkpoint::layout_test
