// The elements of a region that each block writes. Readiness tracking and `split` are planned with
// this mapping.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace interlace::kernel {

// Elements [begin, end) of a region.
struct element_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const element_range&, const element_range&) = default;
};

// Sorts ranges, drops empty ranges, and joins ranges that touch.
std::vector<element_range> merge_ranges(std::vector<element_range> ranges);
// The elements that are in `a` but not in `b`. Both arguments must be merged ranges. The result is
// merged, too.
std::vector<element_range> subtract_ranges(const std::vector<element_range>& a,
                                           const std::vector<element_range>& b);

// The elements that each block of a launch writes. All copies of a mapping share one function. A
// mapping without a function writes nothing.
class block_mapping {
 public:
  // A mapping whose blocks write nothing.
  block_mapping() = default;
  // Returns the ranges that a block writes, in any order. All calls for one block must return the
  // same ranges.
  using function = std::function<std::vector<element_range>(std::uint64_t block)>;

  // Block b writes [first + b * per_block, first + (b + 1) * per_block), cut off at `end`.
  static block_mapping contiguous(std::uint64_t first, std::uint64_t per_block, std::uint64_t end);
  // Block b writes `rows` rows. In each row it writes `width` elements, from first + b * width on.
  // Rows are `pitch` elements apart.
  static block_mapping strided(std::uint64_t first, std::uint64_t width, std::uint64_t pitch,
                               std::uint64_t rows);
  // Each block writes a tile of a row-major grid that starts at element `first` and has `pitch`
  // columns. A tile has tile_x columns and tile_y rows, and `tiles_x` tiles are side by side. Tiles
  // are cut off at `columns` columns and `rows` rows.
  static block_mapping stencil(std::uint64_t first, std::uint64_t pitch, std::uint64_t columns,
                               std::uint64_t rows, std::uint64_t tile_x, std::uint64_t tile_y);
  // Block b writes the ranges that `writes(b)` returns. The ranges of one block may overlap or
  // touch, because the mapping merges them.
  static block_mapping custom(function writes);

  // The merged ranges of one block.
  std::vector<element_range> writes(std::uint64_t block) const {
    return writes_ ? (*writes_)(block) : std::vector<element_range>{};
  }
  // A value that identifies a mapping. Copies of one mapping have the same identity. While one of
  // these copies lives, no other mapping has this identity.
  const void* identity() const { return writes_.get(); }

  // A range of consecutive blocks, and the elements that are complete once the range has run.
  struct part {
    std::uint64_t first_block = 0;
    std::uint64_t last_block = 0;  // first block after the range
    std::vector<element_range> complete;
  };
  // Cuts `blocks` blocks into at most `parts` ranges of consecutive blocks. The sizes of the ranges
  // differ by at most one block. Element k of the result lists the elements that are complete once
  // range k has run. Range k or an earlier range writes these elements, and no later range writes
  // them. No element is listed twice.
  std::vector<part> split(std::uint64_t blocks, std::uint32_t parts) const;

 private:
  explicit block_mapping(function writes)
      : writes_(std::make_shared<const function>(std::move(writes))) {}
  std::shared_ptr<const function> writes_;
};

}  // namespace interlace::kernel
