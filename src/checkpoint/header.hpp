// Strict readers for headers of safetensors files, and for indexes of several files. All functions
// are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace interlace::checkpoint {

// A dtype: its name in a header, and the number of bits of an element.
using dtype_bits = std::pair<std::string, std::uint32_t>;

// A tensor. Its bytes are [begin, end) of the data.
struct header_tensor {
  std::string name;
  std::uint32_t dtype = 0;  // index in the list of dtypes
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct header {
  // The tensors, in the order of their positions in the data. The data has no gaps.
  std::vector<header_tensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::uint64_t data_begin = 0;  // position in the file where the data begins
};

inline constexpr std::uint64_t header_prefix = 8;  // number of bytes before the header
inline constexpr std::size_t most_dimensions = 1024;

// Parses `text`, the header of a file that has `file_bytes` bytes in all. Throws usage_error, which
// names the file and the tensor and says what is wrong.
header parse_header(const std::string& file, std::string_view text, std::uint64_t file_bytes,
                    std::span<const dtype_bits> dtypes);

// The number of bytes of a tensor. Throws usage_error if the tensor's bits are not whole bytes.
// Also throws usage_error if the product of the shape exceeds 64 bits at any step. A later factor
// of 0 does not make such a shape valid, because other readers multiply in 64 bits and would
// overflow.
std::uint64_t tensor_bytes(std::span<const std::uint64_t> shape, const dtype_bits& dtype);

// The tensors of an index, with the name of each tensor's file, in the order of the index. No file
// name leads out of the folder of the index. Throws usage_error. The caller prints the error's
// message after the name of the index.
std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text);

}  // namespace interlace::checkpoint
