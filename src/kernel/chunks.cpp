#include "kernel/chunks.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

namespace {

constexpr std::uint64_t boundary_bytes = 128;
constexpr std::uint64_t first_share = 4;  // the first chunk has chunk_bytes divided by this number

// The size of the next chunk, in elements, if `left` elements are left. `wanted` is the size that a
// chunk should have.
std::uint64_t size_for_engine(std::uint64_t left, std::uint64_t wanted) {
  if (left >= 2 * wanted) return wanted;
  // The next chunk takes half of the elements that are left. A large last chunk would end late, and
  // a very small last chunk would not be worth a copy.
  return left > wanted ? (left + 1) / 2 : left;
}

std::uint64_t size_for_threads(std::uint64_t left, std::uint64_t wanted, std::uint64_t least) {
  // The next chunk has the wanted size, or half of the elements that are left, if that half is
  // smaller.
  return std::max(least, std::min(wanted, left / 2));
}

// Cuts an owner's part into stretches, in ascending order. All elements of a stretch go to the same
// devices. Elements that no device receives are in no stretch.
std::vector<chunk> uniform_parts(const region_state& state, std::uint32_t owner) {
  std::vector<std::uint64_t> cuts;
  const std::vector<delivery> deliveries = state.deliveries(
      owner, {{state.options.boundaries[owner], state.options.boundaries[owner + 1]}});
  for (const delivery& d : deliveries) {
    cuts.push_back(d.begin);
    cuts.push_back(d.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<chunk> parts;
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    chunk part{cuts[k], cuts[k + 1], 0};
    for (const delivery& d : deliveries) {
      if (d.begin <= part.begin && part.end <= d.end) part.peers |= 1U << d.to;
    }
    if (part.peers == 0) continue;
    if (!parts.empty() && parts.back().end == part.begin && parts.back().peers == part.peers) {
      parts.back().end = part.end;
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

}  // namespace

std::vector<chunk> cut_chunks(const region_state& state, std::uint32_t owner) {
  // Chunks begin at multiples of this number of elements.
  const std::uint64_t step =
      std::lcm<std::uint64_t>(boundary_bytes, state.element_bytes) / state.element_bytes;
  const std::uint64_t most = state.options.chunk_bytes / state.element_bytes / step * step;
  if (most == 0) {
    throw usage_error("a chunk of " + std::to_string(state.options.chunk_bytes) +
                      " bytes cannot be cut from elements of " +
                      std::to_string(state.element_bytes) + " bytes; give a multiple of " +
                      std::to_string(step * state.element_bytes));
  }
  const std::uint64_t least = std::max(step, most / least_share / step * step);
  const bool by_engine = state.options.mechanism == mechanism::copy_engine;
  std::vector<chunk> chunks;
  for (const chunk& part : uniform_parts(state, owner)) {
    if (is_one_chunk((part.end - part.begin) * state.element_bytes, state.options.chunk_bytes)) {
      chunks.push_back(part);
      continue;
    }
    std::uint64_t wanted = by_engine ? least : std::max(step, most / first_share / step * step);
    for (std::uint64_t at = part.begin; at < part.end;) {
      const std::uint64_t left = part.end - at;
      const std::uint64_t size =
          by_engine ? size_for_engine(left, wanted) : size_for_threads(left, wanted, least);
      std::uint64_t next = std::min(part.end, (at + size) / step * step);
      if (next <= at) next = std::min(part.end, (at / step + 1) * step);
      if (part.end - next < step) next = part.end;
      chunks.push_back({at, next, part.peers});
      at = next;
      wanted = std::min(most, by_engine ? wanted + least : wanted * 2);
    }
  }
  return chunks;
}

publications announce(const std::vector<chunk>& chunks, const block_mapping& mapping,
                      std::uint64_t blocks, element_range part) {
  publications all;
  all.first.reserve(blocks + 1);
  all.targets.assign(chunks.size(), 0);
  std::vector<element_range> covered;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::size_t from = all.entries.size();
    for (const element_range& r : mapping.writes(block)) {
      if (r.begin < part.begin || r.end > part.end) {
        throw model_error("block " + std::to_string(block) + " is mapped to elements [" +
                          std::to_string(r.begin) + ", " + std::to_string(r.end) +
                          ") outside of its device's part [" + std::to_string(part.begin) + ", " +
                          std::to_string(part.end) + ")");
      }
      // Most mappings ascend. A range that touches the previous range can therefore be joined to
      // the previous range at once.
      if (!covered.empty() && covered.back().begin <= r.begin && r.begin <= covered.back().end) {
        covered.back().end = std::max(covered.back().end, r.end);
      } else {
        covered.push_back(r);
      }
      auto c = std::upper_bound(chunks.begin(), chunks.end(), r.begin,
                                [](std::uint64_t e, const chunk& k) { return e < k.end; });
      for (; c != chunks.end() && c->begin < r.end; ++c) {
        const auto index = static_cast<std::uint32_t>(c - chunks.begin());
        const auto elements =
            static_cast<std::uint32_t>(std::min(r.end, c->end) - std::max(r.begin, c->begin));
        all.targets[index] += elements;
        // All ranges of a block in one chunk are announced together.
        if (all.entries.size() > from && all.entries.back().chunk == index) {
          all.entries.back().elements += elements;
        } else {
          all.entries.push_back({index, elements});
        }
      }
    }
    if (all.entries.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw model_error(
          "the blocks of a launch write chunks more than 4294967295 times; use "
          "larger chunks");
    }
    all.first.push_back(static_cast<std::uint32_t>(all.entries.size()));
  }
  std::vector<element_range> wanted;
  wanted.reserve(chunks.size());
  for (const chunk& c : chunks) wanted.push_back({c.begin, c.end});
  const auto missing = subtract_ranges(merge_ranges(wanted), merge_ranges(covered));
  if (!missing.empty()) {
    throw model_error("no block is mapped to element " + std::to_string(missing.front().begin) +
                      ", which other devices wait for");
  }
  return all;
}

}  // namespace interlace::kernel
