#include "cuda/transfer/block_overlap.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace interlace::cuda {
namespace {

// Sorts the blocks to find out whether two of them overlap.
bool overlap_sorted(std::span<const device_address> addresses, std::span<const std::size_t> bytes) {
  std::vector<std::size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t one, std::size_t other) { return addresses[one] < addresses[other]; });
  device_address end = 0;
  for (const std::size_t at : order) {
    if (bytes[at] == 0) continue;
    if (addresses[at] < end) return true;
    end = addresses[at] + bytes[at];
  }
  return false;
}

// The blocks in each cell of memory that they touch. A cell is as large as the largest block, so a
// block touches at most two cells.
class cells {
 public:
  cells(std::size_t blocks, std::size_t largest)
      : shift_(static_cast<int>(std::bit_width(largest - 1))),
        mask_(std::bit_ceil(4 * blocks) - 1),
        heads_(mask_ + 1, 0) {
    entries_.reserve(2 * blocks + 1);
    entries_.push_back({});
  }

  enum class found : std::uint8_t { nothing, overlap, too_many };
  found add(device_address begin, std::size_t bytes) {
    const device_address first = begin >> shift_;
    const device_address last = (begin + bytes - 1) >> shift_;
    for (device_address cell = first; cell <= last; ++cell) {
      std::uint32_t& head = heads_[(cell * 0x9E3779B97F4A7C15U >> 20U) & mask_];
      int steps = 0;
      for (std::uint32_t at = head; at != 0; at = entries_[at].next) {
        const entry& other = entries_[at];
        if (begin < other.end && other.begin < begin + bytes) return found::overlap;
        if (++steps == 16) return found::too_many;
      }
      entries_.push_back({begin, begin + bytes, head});
      head = static_cast<std::uint32_t>(entries_.size() - 1);
    }
    return found::nothing;
  }

 private:
  struct entry {
    device_address begin = 0;
    device_address end = 0;
    std::uint32_t next = 0;  // next block in the cell; 0 if there is none
  };

  int shift_;
  std::size_t mask_;
  std::vector<std::uint32_t> heads_;
  std::vector<entry> entries_;
};

}  // namespace

namespace {

// Whether the blocks ascend in the given order, without overlaps. In most lists that do not ascend,
// the first blocks already show this.
bool ascend(std::span<const device_address> addresses, std::span<const std::size_t> bytes) {
  device_address last_end = 0;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    if (bytes[at] == 0) continue;
    if (addresses[at] < last_end) return false;
    last_end = addresses[at] + bytes[at];
  }
  return true;
}

// The results of one pass over the blocks. Blocks of 0 bytes do not count.
struct spread {
  std::size_t largest = 0;
  device_address begin = std::numeric_limits<device_address>::max();
  device_address end = 0;
  device_address apart = 0;  // the bits in which any address differs from the first address
  std::size_t sizes = 0;     // the bits that are set in any size
};

spread spread_of(std::span<const device_address> addresses, std::span<const std::size_t> bytes) {
  spread found;
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const std::size_t size = bytes[at];
    if (size == 0) continue;
    const device_address begin = addresses[at];
    found.sizes |= size;
    found.largest = std::max(found.largest, size);
    found.begin = std::min(found.begin, begin);
    found.end = std::max(found.end, begin + size);
    found.apart |= begin ^ addresses.front();
  }
  return found;
}

// The size that all blocks have, or 0 if there is no such size.
std::size_t common_size(std::span<const std::size_t> bytes) {
  std::size_t differences = 0;
  for (const std::size_t size : bytes) differences |= size ^ bytes.front();
  return differences == 0 ? bytes.front() : 0;
}

// Returns the same as spread_of. All blocks must have the size `size`. This function takes less
// time for each block.
spread spread_of_equal(std::span<const device_address> addresses, std::size_t size) {
  // An update of a result must wait for the previous update of that result. The loop therefore
  // alternates between two results, so that the processor can update both at once.
  spread even;
  spread odd;
  const auto add = [first = addresses.front()](spread& found, device_address begin) {
    found.begin = std::min(found.begin, begin);
    found.end = std::max(found.end, begin);
    found.apart |= begin ^ first;
  };
  std::size_t at = 0;
  for (; at + 1 < addresses.size(); at += 2) {
    add(even, addresses[at]);
    add(odd, addresses[at + 1]);
  }
  if (at < addresses.size()) add(even, addresses[at]);
  return {.largest = size,
          .begin = std::min(even.begin, odd.begin),
          .end = std::max(even.end, odd.end) + size,
          .apart = even.apart | odd.apart,
          .sizes = size};
}

// Whether two blocks overlap that have the size and the distances of pieces of 2^shift bytes. The
// function keeps one byte for each piece.
bool overlap_by_pieces(std::span<const device_address> addresses, const spread& all, int shift) {
  std::vector<std::uint8_t> taken(((all.end - all.begin) >> shift) + 1, 0);
  unsigned found = 0;
  for (const device_address address : addresses) {
    std::uint8_t& piece = taken[(address - all.begin) >> shift];
    found |= piece;
    piece = 1;
  }
  return found != 0;
}

// Marks `count` bits from bit `first` on. Returns whether any of these bits was marked before.
bool take_bits(std::vector<std::uint64_t>& taken, std::size_t first, std::size_t count) {
  if (count == 1) {  // the usual case: all blocks have one size, which is the size of a grid cell
    std::uint64_t& word = taken[first / 64];
    const std::uint64_t bit = std::uint64_t{1} << first % 64;
    const bool before = (word & bit) != 0;
    word |= bit;
    return before;
  }
  bool before = false;
  while (count != 0) {
    const std::size_t in_word = std::min<std::size_t>(count, 64 - first % 64);
    const std::uint64_t bits = (in_word == 64 ? 0 : std::uint64_t{1} << in_word) - 1;
    std::uint64_t& word = taken[first / 64];
    before |= (word & bits << (first % 64)) != 0;
    word |= bits << (first % 64);
    first += in_word;
    count -= in_word;
  }
  return before;
}

// Finds out whether blocks overlap, for blocks whose sizes and distances are multiples of 2^shift.
// It keeps one bit for each piece of memory of 2^shift bytes.
bool overlap_on_grid(std::span<const device_address> addresses, std::span<const std::size_t> bytes,
                     const spread& all, int shift) {
  std::vector<std::uint64_t> taken(((all.end - all.begin) >> shift) / 64 + 1, 0);
  bool found = false;
  for (std::size_t at = 0; at < addresses.size() && !found; ++at)
    found = bytes[at] != 0 &&
            take_bits(taken, (addresses[at] - all.begin) >> shift, bytes[at] >> shift);
  return found;
}

}  // namespace

bool blocks_overlap(std::span<const device_address> addresses, std::span<const std::size_t> bytes) {
  if (addresses.empty()) return false;
  if (ascend(addresses, bytes)) return false;  // many programs list their blocks in ascending order
  const std::size_t size = common_size(bytes);
  const spread all = size != 0 ? spread_of_equal(addresses, size) : spread_of(addresses, bytes);
  constexpr std::size_t most_places = 512;  // most pieces of memory for each block
  const int shift = std::countr_zero(all.apart | all.sizes);
  // A larger table of bytes would not fit in a processor's cache.
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 18U;
  if (size != 0 && size == std::size_t{1} << shift && (all.end - all.begin) >> shift < most_bytes)
    return overlap_by_pieces(addresses, all, shift);
  if ((all.end - all.begin) >> shift <= most_places * addresses.size())
    return overlap_on_grid(addresses, bytes, all, shift);
  constexpr std::size_t most_in_cells = std::size_t{1} << 18U;
  if (addresses.size() > most_in_cells) return overlap_sorted(addresses, bytes);
  cells touched(addresses.size(), all.largest);
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    if (bytes[at] == 0) continue;
    switch (touched.add(addresses[at], bytes[at])) {
      case cells::found::nothing:
        break;
      case cells::found::overlap:
        return true;
      case cells::found::too_many:
        return overlap_sorted(addresses, bytes);
    }
  }
  return false;
}

}  // namespace interlace::cuda
