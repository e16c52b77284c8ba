// A batch of blocks. A block is a piece of memory, and one call copies all blocks of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace interlace::plan {

// The addresses of one side. Address i is base + numbers[i] * scale.
struct block_side {
  std::uint64_t base = 0;
  std::uint64_t scale = 1;
  const void* numbers = nullptr;  // null means 0, 1, 2 and so on
  bool wide = true;  // true: a number has 8 bytes; false: 4 bytes (numbers are never negative)
};

struct block_list {
  block_side to;
  block_side from;
  const std::uint64_t* sizes = nullptr;  // sizes in bytes; null if all blocks have `bytes` bytes
  std::uint64_t bytes = 0;
  std::size_t count = 0;
};

namespace block_numbers {

template <class Number>
struct listed {
  const std::byte* at;
  std::uint64_t operator()(std::size_t index) const {
    Number read{};
    std::memcpy(&read, at + index * sizeof(Number), sizeof(Number));
    return read;
  }
};
struct counted {
  std::uint64_t operator()(std::size_t index) const { return index; }
};

// Calls `what` with a function that returns the number of each block.
template <class What>
void with_numbers(const block_side& side, const What& what) {
  const auto* at = static_cast<const std::byte*>(side.numbers);
  if (at == nullptr)
    what(counted{});
  else if (side.wide)
    what(listed<std::uint64_t>{at});
  else
    what(listed<std::uint32_t>{at});
}

}  // namespace block_numbers

// Calls `what(index, to_number, from_number, bytes)` for the blocks, in their order, as long as
// `what` returns true. The numbers must be in the host's memory. The loop is compiled separately
// for each kind of list, because a batch has thousands of blocks and little time for each block.
template <class What>
void each_block(const block_list& list, const What& what) {
  block_numbers::with_numbers(list.to, [&](auto to) {
    block_numbers::with_numbers(list.from, [&](auto from) {
      for (std::size_t at = 0; at < list.count; ++at)
        if (!what(at, to(at), from(at), list.sizes == nullptr ? list.bytes : list.sizes[at]))
          return;
    });
  });
}

// The range that contains all blocks of a side.
struct block_extent {
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;
};

// The results of one pass over a list. Blocks of 0 bytes do not count.
struct block_shape {
  std::size_t blocks = 0;
  std::uint64_t bytes = 0;     // number of bytes in all blocks together
  std::uint64_t greatest = 0;  // size of the largest block
  // Whether all blocks have one size, and whether this size and all addresses are multiples of 16.
  bool even = true;
  block_extent to;
  block_extent from;
};

// The shape of a batch. Throws usage_error for a block that reaches past the last address.
block_shape shape_of(const block_list& list);

// The `count` blocks that begin with block `first`.
block_list part_of(const block_list& list, std::size_t first, std::size_t count);

// The number of blocks, from `first` on, whose bytes together come closest to `bytes`.
std::size_t blocks_within(const block_list& list, std::size_t first, std::uint64_t bytes);

// The form in which the addresses of a batch are written for the kernel. The kernel for even blocks
// (block_shape::even) takes whole blocks or equal parts of blocks. The other kernel takes pieces of
// any size.
struct block_layout {
  bool even = false;
  // For even blocks, the size of each part; otherwise, the largest size of a piece.
  std::uint64_t piece = 0;
  std::size_t entries = 0;  // number of parts or pieces
  // Whether the lists of destinations and of sources are written. A side without numbers needs a
  // list only if the blocks are cut.
  bool to_written = true;
  bool from_written = true;
  bool to_wide = true;
  bool from_wide = true;

  std::size_t to_bytes() const { return to_written ? padded(entries * (to_wide ? 8 : 4)) : 0; }
  std::size_t from_bytes() const {
    return from_written ? padded(entries * (from_wide ? 8 : 4)) : 0;
  }
  std::size_t size_bytes() const { return even ? 0 : entries * 8; }
  std::size_t bytes() const { return to_bytes() + from_bytes() + size_bytes(); }

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }
};

// Plans the layout. If the shape is even, blocks are cut until there are about `parts_wanted`
// parts.
block_layout layout_of(const block_list& list, const block_shape& shape, std::size_t parts_wanted);

// Writes the lists of destinations, sources and sizes, one list after another. `into` must have
// layout.bytes() bytes.
void write_lists(const block_list& list, const block_layout& layout, std::span<std::byte> into);

}  // namespace interlace::plan
