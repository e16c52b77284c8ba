// Puts accesses into the order of a trace. The accesses come in any order of blocks and warps. The
// object uses a bounded amount of memory. Accesses that do not fit wait in an unnamed temporary
// file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/trace/instruction.hpp"

namespace interlace::sim::trace {

class block_grouping {
 public:
  using index = std::array<std::uint32_t, 3>;  // z, y, x

  // Holds at most `held_bytes` bytes of encoded accesses in memory.
  explicit block_grouping(std::size_t held_bytes = std::size_t{64} << 20U) : held_(held_bytes) {}

  void add(const index& block, std::uint32_t warp, const instruction& i);
  bool empty() const { return blocks_.empty(); }
  std::size_t blocks() const { return blocks_.size(); }
  // The largest block coordinates, and the largest number of warps in a block.
  index last() const { return last_; }
  std::uint32_t most_warps() const { return most_warps_; }

  // Passes all accesses on, block by block in ascending order. The object is empty afterwards. The
  // warps of each block get new numbers, which keep the order of the old numbers.
  void flush(const std::function<void(const index&)>& begin_block,
             const std::function<void(std::uint32_t warp, const instruction&)>& take);

 private:
  struct kept {
    std::vector<std::uint8_t> bytes;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spilled;  // offset and size, in order
    std::vector<std::uint32_t> warps;  // numbers of warps, in ascending order
    std::uint64_t last_address = 0;
  };
  struct closing {
    void operator()(std::FILE* f) const { (void)std::fclose(f); }
  };
  void spill();
  void read_back(kept& k);

  std::size_t held_;
  std::size_t used_ = 0;
  std::map<index, kept> blocks_;
  index last_{};
  std::uint32_t most_warps_ = 0;
  std::unique_ptr<std::FILE, closing> file_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace interlace::sim::trace
