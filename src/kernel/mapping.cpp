#include "interlace/kernel/mapping.hpp"

#include <algorithm>
#include <memory>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

std::vector<element_range> merge_ranges(std::vector<element_range> ranges) {
  std::erase_if(ranges, [](const element_range& r) { return r.begin >= r.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const element_range& a, const element_range& b) { return a.begin < b.begin; });
  std::vector<element_range> merged;
  for (const element_range& r : ranges) {
    if (!merged.empty() && r.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, r.end);
    } else {
      merged.push_back(r);
    }
  }
  return merged;
}

std::vector<element_range> subtract_ranges(const std::vector<element_range>& a,
                                           const std::vector<element_range>& b) {
  std::vector<element_range> rest;
  auto cut = b.begin();
  for (element_range r : a) {
    while (cut != b.end() && cut->end <= r.begin) ++cut;
    for (auto c = cut; c != b.end() && c->begin < r.end; ++c) {
      if (c->begin > r.begin) rest.push_back({r.begin, c->begin});
      r.begin = std::max(r.begin, c->end);
    }
    if (r.begin < r.end) rest.push_back(r);
  }
  return rest;
}

block_mapping block_mapping::contiguous(std::uint64_t first, std::uint64_t per_block,
                                        std::uint64_t end) {
  return block_mapping([=](std::uint64_t block) {
    const std::uint64_t begin = std::min(end, first + block * per_block);
    return merge_ranges({{begin, std::min(end, begin + per_block)}});
  });
}

block_mapping block_mapping::strided(std::uint64_t first, std::uint64_t width, std::uint64_t pitch,
                                     std::uint64_t rows) {
  if (width > pitch) throw model_error("a strided mapping is wider than its pitch");
  return block_mapping([=](std::uint64_t block) {
    std::vector<element_range> ranges;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t begin = first + row * pitch + block * width;
      const std::uint64_t row_end = first + (row + 1) * pitch;
      ranges.push_back({std::min(begin, row_end), std::min(begin + width, row_end)});
    }
    return merge_ranges(std::move(ranges));
  });
}

block_mapping block_mapping::stencil(std::uint64_t first, std::uint64_t pitch,
                                     std::uint64_t columns, std::uint64_t rows,
                                     std::uint64_t tile_x, std::uint64_t tile_y) {
  const std::uint64_t tiles_x = (columns + tile_x - 1) / tile_x;
  return block_mapping([=](std::uint64_t block) {
    const std::uint64_t x = block % tiles_x * tile_x;
    const std::uint64_t y = block / tiles_x * tile_y;
    std::vector<element_range> ranges;
    for (std::uint64_t row = y; row < std::min(rows, y + tile_y); ++row) {
      ranges.push_back(
          {first + row * pitch + x, first + row * pitch + std::min(columns, x + tile_x)});
    }
    return merge_ranges(std::move(ranges));
  });
}

block_mapping block_mapping::custom(function writes) {
  return block_mapping(
      [writes = std::move(writes)](std::uint64_t block) { return merge_ranges(writes(block)); });
}

std::vector<block_mapping::part> block_mapping::split(std::uint64_t blocks,
                                                      std::uint32_t parts) const {
  const std::uint64_t count = std::max<std::uint64_t>(1, std::min<std::uint64_t>(parts, blocks));
  std::vector<part> result(count);
  for (std::uint64_t k = 0; k < count; ++k) {
    result[k].first_block = blocks * k / count;
    result[k].last_block = blocks * (k + 1) / count;
    std::vector<element_range> ranges;
    for (std::uint64_t block = result[k].first_block; block < result[k].last_block; ++block) {
      const auto written = writes(block);
      ranges.insert(ranges.end(), written.begin(), written.end());
    }
    result[k].complete = merge_ranges(std::move(ranges));
  }
  // The loop visits the ranges from the last to the first, because an element that two ranges write
  // is complete only after the later range.
  std::vector<element_range> later;
  for (std::uint64_t k = count; k-- > 0;) {
    auto own = result[k].complete;
    result[k].complete = subtract_ranges(own, later);
    own.insert(own.end(), later.begin(), later.end());
    later = merge_ranges(std::move(own));
  }
  return result;
}

}  // namespace interlace::kernel
