// Which elements of a region a block writes: what readiness tracking and `split` are planned from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace interlace::kernel {

struct element_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const element_range&, const element_range&) = default;
};

// Sorts, drops empty ranges and joins those that touch.
std::vector<element_range> merge_ranges(std::vector<element_range> ranges);
// What is in `a` and not in `b`; both merged, the result too.
std::vector<element_range> subtract_ranges(const std::vector<element_range>& a,
                                           const std::vector<element_range>& b);

class block_mapping {
 public:
  block_mapping() = default;  // writes nothing
  using function = std::function<std::vector<element_range>(std::uint64_t block)>;

  // Block b writes [first + b * per_block, first + (b + 1) * per_block), cut at `end`.
  static block_mapping contiguous(std::uint64_t first, std::uint64_t per_block, std::uint64_t end);
  // Block b writes `width` elements at first + b * width in each of `rows` rows of `pitch`.
  static block_mapping strided(std::uint64_t first, std::uint64_t width, std::uint64_t pitch,
                               std::uint64_t rows);
  // Tiles of a row-major grid of `pitch` columns that starts at element `first`: `tiles_x` blocks
  // of tile_x columns by tile_y rows side by side, cut at columns x rows.
  static block_mapping stencil(std::uint64_t first, std::uint64_t pitch, std::uint64_t columns,
                               std::uint64_t rows, std::uint64_t tile_x, std::uint64_t tile_y);
  static block_mapping custom(function writes);

  // Merged ranges of one block.
  std::vector<element_range> writes(std::uint64_t block) const {
    return writes_ ? (*writes_)(block) : std::vector<element_range>{};
  }
  // The same for copies of a mapping, and for no others as long as one of them lives.
  const void* identity() const { return writes_.get(); }

  // Cuts `blocks` into at most `parts` ranges of consecutive blocks of equal number. Element k of
  // the result lists what is complete once range k has run: written by it or earlier, not later,
  // and not already listed.
  struct part {
    std::uint64_t first_block = 0;
    std::uint64_t last_block = 0;  // exclusive
    std::vector<element_range> complete;
  };
  std::vector<part> split(std::uint64_t blocks, std::uint32_t parts) const;

 private:
  explicit block_mapping(function writes)
      : writes_(std::make_shared<const function>(std::move(writes))) {}
  std::shared_ptr<const function> writes_;
};

}  // namespace interlace::kernel
