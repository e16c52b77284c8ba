// Computes which pieces of a line a load reads, as one bit for each piece (DualOpt, PACT 2022,
// section 4.1.1: the bitmask generation unit). Piece k begins at k times the granularity from the
// line's first byte, and bit k stands for this piece. A line of 64 bytes has 16 pieces of 4 bytes.
// The paper writes masks in the opposite order, with the first piece on the left.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/sim/fabric/byte_mask.hpp"

namespace interlace::sim {

using piece_mask = std::uint32_t;

struct masked_line {
  std::uint64_t line = 0;
  piece_mask pieces = 0;
  friend bool operator==(const masked_line&, const masked_line&) = default;
};

class bitmask_generator {
 public:
  // Throws usage_error unless a piece has 4, 8 or 16 bytes and the line has at most 32 pieces.
  bitmask_generator(std::uint32_t line_bytes, std::uint32_t piece_bytes)
      : line_bytes_(line_bytes), piece_bytes_(piece_bytes) {
    if ((piece_bytes != 4 && piece_bytes != 8 && piece_bytes != 16) ||
        line_bytes % piece_bytes != 0 || line_bytes / piece_bytes > 32) {
      throw usage_error("gpu.dualopt.granularity_bytes is " + std::to_string(piece_bytes) +
                        ", which does not divide a line of " + std::to_string(line_bytes) +
                        " bytes; give 4, 8 or 16");
    }
  }

  std::uint32_t line_bytes() const { return line_bytes_; }
  std::uint32_t piece_bytes() const { return piece_bytes_; }
  std::uint32_t pieces() const { return line_bytes_ / piece_bytes_; }
  piece_mask whole_line() const {
    return static_cast<piece_mask>((std::uint64_t{1} << pieces()) - 1);
  }

  // The mask of one lane's access to `bytes` bytes at an address. The bytes must all lie in one
  // line.
  piece_mask mask(std::uint64_t address, std::uint32_t bytes) const {
    const auto offset = static_cast<std::uint32_t>(address & (line_bytes_ - 1));
    const std::uint32_t first = offset / piece_bytes_;
    const std::uint32_t last = (offset + bytes - 1) / piece_bytes_;
    return static_cast<piece_mask>((std::uint64_t{2} << last) - (std::uint64_t{1} << first));
  }
  // The mask of all lanes of a warp. The coalescer has already merged the accesses of these lanes.
  piece_mask mask(const byte_mask& wanted) const { return wanted.units(piece_bytes_, line_bytes_); }

  // Coalesces the accesses of a warp and generates their masks. Returns one access for each line
  // that lanes touch, in lane order. The mask of an access is the union of the masks of its lanes.
  std::vector<masked_line> coalesce(std::span<const std::uint64_t> addresses,
                                    std::uint32_t bytes) const {
    std::vector<masked_line> lines;
    for (const std::uint64_t address : addresses) {
      const std::uint64_t line = address & ~std::uint64_t{line_bytes_ - 1};
      std::size_t at = 0;
      while (at < lines.size() && lines[at].line != line) ++at;
      if (at == lines.size()) lines.push_back({line, 0});
      lines[at].pieces |= mask(address, bytes);
    }
    return lines;
  }

 private:
  std::uint32_t line_bytes_;
  std::uint32_t piece_bytes_;
};

}  // namespace interlace::sim
