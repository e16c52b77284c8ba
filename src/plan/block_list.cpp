#include "plan/block_list.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::plan {
namespace {

constexpr std::uint64_t vector_bytes = 16;
constexpr std::uint64_t least_part = 4096;
// The size of a piece of an uneven block. One warp copies one piece. A batch of a few large blocks
// therefore fills the link only if the blocks are cut into pieces.
constexpr std::uint64_t piece_bytes = 16384;

[[noreturn]] void refuse(std::size_t at, std::uint64_t bytes) {
  throw usage_error("block " + std::to_string(at) + " of a batch has " + std::to_string(bytes) +
                    " bytes, which reach past the last address");
}

// Whether the block reaches past the addresses of 63 bits. There is no memory beyond these
// addresses.
bool leaves(const block_side& side, std::uint64_t number, std::uint64_t bytes) {
  std::uint64_t end = 0;
  return __builtin_mul_overflow(number, side.scale, &end) ||
         __builtin_add_overflow(end, side.base, &end) || __builtin_add_overflow(end, bytes, &end) ||
         end > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

// The numbers of a side: the least number, the greatest number, and the bits that are set in at
// least one number.
struct number_range {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t greatest = 0;
  std::uint64_t bits = 0;

  void add(std::uint64_t number) {
    least = std::min(least, number);
    greatest = std::max(greatest, number);
    bits |= number;
  }
};

number_range range_of(const block_side& side, std::size_t count) {
  number_range found;
  block_numbers::with_numbers(side, [&](auto number_at) {
    // The loop uses two ranges in turn, because each comparison must wait for the previous
    // comparison of the same range.
    number_range odd;
    std::size_t at = 0;
    for (; at + 1 < count; at += 2) {
      found.add(number_at(at));
      odd.add(number_at(at + 1));
    }
    if (at < count) found.add(number_at(at));
    found.least = std::min(found.least, odd.least);
    found.greatest = std::max(found.greatest, odd.greatest);
    found.bits |= odd.bits;
  });
  return found;
}

// Whether base + number * scale is a multiple of 16 for all numbers. The base itself must be such a
// multiple.
bool on_vectors(const block_side& side, const number_range& numbers) {
  return (numbers.bits << std::countr_zero(side.scale)) % vector_bytes == 0;
}

block_extent extent_of(const block_side& side, const number_range& numbers, std::uint64_t bytes) {
  return {side.base + numbers.least * side.scale,
          side.base + numbers.greatest * side.scale + bytes};
}

// The size of the blocks, or 0 if not all blocks have the same size.
std::uint64_t common_size(const block_list& list) {
  if (list.sizes == nullptr) return list.bytes;
  std::uint64_t differences = 0;
  for (std::size_t at = 0; at < list.count; ++at) differences |= list.sizes[at] ^ list.sizes[0];
  return differences == 0 ? list.sizes[0] : 0;
}

// The shape of a batch whose blocks all have one size, computed from the numbers of each side
// alone. There is no value if the shape can only be found by looking at every block.
std::optional<block_shape> shape_by_sides(const block_list& list) {
  if (list.count == 0) return std::nullopt;
  const std::uint64_t bytes = common_size(list);
  if (bytes == 0) return std::nullopt;
  for (const block_side* side : {&list.to, &list.from})
    if (side->base % vector_bytes != 0 || side->scale == 0) return std::nullopt;
  const number_range to = range_of(list.to, list.count);
  const number_range from = range_of(list.from, list.count);
  if (leaves(list.to, to.greatest, bytes) || leaves(list.from, from.greatest, bytes))
    return std::nullopt;
  return block_shape{
      .blocks = list.count,
      .bytes = list.count * bytes,
      .greatest = bytes,
      .even = bytes % vector_bytes == 0 && on_vectors(list.to, to) && on_vectors(list.from, from),
      .to = extent_of(list.to, to, bytes),
      .from = extent_of(list.from, from, bytes)};
}

}  // namespace

block_shape shape_of(const block_list& list) {
  if (const std::optional<block_shape> found = shape_by_sides(list)) return *found;
  block_shape found;
  std::uint64_t bits = 0;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t greatest_to = 0;
  std::uint64_t greatest_from = 0;
  each_block(list,
             [&](std::size_t, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
               if (bytes == 0) return true;
               greatest_to = std::max(greatest_to, to_at);
               greatest_from = std::max(greatest_from, from_at);
               const std::uint64_t to = list.to.base + to_at * list.to.scale;
               const std::uint64_t from = list.from.base + from_at * list.from.scale;
               bits |= to | from | bytes;
               ++found.blocks;
               found.bytes += bytes;
               least = std::min(least, bytes);
               found.greatest = std::max(found.greatest, bytes);
               found.to.begin = std::min(found.to.begin, to);
               found.to.end = std::max(found.to.end, to + bytes);
               found.from.begin = std::min(found.from.begin, from);
               found.from.end = std::max(found.from.end, from + bytes);
               return true;
             });
  // The test first combines the greatest number with the greatest size. If this block does not
  // reach past the last address, no block does. The search for such a block takes time, so it runs
  // only if it is necessary.
  if (found.blocks != 0 && (leaves(list.to, greatest_to, found.greatest) ||
                            leaves(list.from, greatest_from, found.greatest)))
    each_block(
        list, [&](std::size_t at, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
          if (bytes != 0 && (leaves(list.to, to_at, bytes) || leaves(list.from, from_at, bytes)))
            refuse(at, bytes);
          return true;
        });
  found.even = found.blocks == list.count && least == found.greatest && bits % vector_bytes == 0;
  return found;
}

block_list part_of(const block_list& list, std::size_t first, std::size_t count) {
  block_list made = list;
  for (block_side* side : {&made.to, &made.from}) {
    if (side->numbers == nullptr)
      side->base += first * side->scale;
    else
      side->numbers = static_cast<const std::byte*>(side->numbers) + first * (side->wide ? 8 : 4);
  }
  if (made.sizes != nullptr) made.sizes += first;
  made.count = count;
  return made;
}

std::size_t blocks_within(const block_list& list, std::size_t first, std::uint64_t bytes) {
  const std::size_t left = list.count - first;
  if (list.sizes == nullptr)
    return list.bytes == 0 ? left
                           : std::min<std::size_t>(left, (bytes + list.bytes / 2) / list.bytes);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < left; ++at) {
    const std::uint64_t size = list.sizes[first + at];
    if (sum + size / 2 >= bytes && size != 0) return at;
    sum += size;
  }
  return left;
}

block_layout layout_of(const block_list& list, const block_shape& shape, std::size_t parts_wanted) {
  block_layout made;
  made.even = shape.even;
  if (shape.even) {
    std::uint64_t parts = 1;
    while (shape.blocks * parts < parts_wanted &&
           shape.greatest % (2 * parts * vector_bytes) == 0 &&
           shape.greatest / (2 * parts) >= least_part)
      parts *= 2;
    made.piece = shape.greatest / parts;
    made.entries = shape.blocks * parts;
    if (parts == 1) {
      made.to_written = list.to.numbers != nullptr;
      made.from_written = list.from.numbers != nullptr;
      made.to_wide = list.to.wide;
      made.from_wide = list.from.wide;
    }
    return made;
  }
  made.piece = piece_bytes;
  each_block(list, [&](std::size_t, std::uint64_t, std::uint64_t, std::uint64_t bytes) {
    made.entries += (bytes + piece_bytes - 1) / piece_bytes;
    return true;
  });
  return made;
}

void write_lists(const block_list& list, const block_layout& layout, std::span<std::byte> into) {
  std::byte* const to_list = into.data();
  std::byte* const from_list = to_list + layout.to_bytes();
  std::byte* const size_list = from_list + layout.from_bytes();
  if (layout.even &&
      layout.entries == list.count) {  // whole blocks: the numbers are written unchanged
    if (layout.to_written)
      std::memcpy(to_list, list.to.numbers, list.count * (layout.to_wide ? 8 : 4));
    if (layout.from_written)
      std::memcpy(from_list, list.from.numbers, list.count * (layout.from_wide ? 8 : 4));
    return;
  }
  std::size_t entry = 0;
  const auto put = [&](std::byte* into_list, std::uint64_t value) {
    std::memcpy(into_list + entry * sizeof value, &value, sizeof value);
  };
  each_block(list,
             [&](std::size_t, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
               const std::uint64_t to = list.to.base + to_at * list.to.scale;
               const std::uint64_t from = list.from.base + from_at * list.from.scale;
               for (std::uint64_t done = 0; done < bytes; done += layout.piece) {
                 put(to_list, to + done);
                 put(from_list, from + done);
                 if (!layout.even) put(size_list, std::min(layout.piece, bytes - done));
                 ++entry;
               }
               return true;
             });
}

}  // namespace interlace::plan
