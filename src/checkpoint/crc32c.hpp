// CRC-32C of bytes that several threads read in pieces (Castagnoli; polynomial 0x1edc6f41,
// reflected, start value and result inverted; RFC 3720, appendix B.4).
#pragma once

#include <cstdint>
#include <span>

namespace interlace::checkpoint {

std::uint32_t crc32c(std::span<const char> bytes);

// The CRC of two sequences of bytes, of which the second follows the first. `first` and `second`
// are the CRCs of the two sequences. The second sequence has `second_bytes` bytes.
std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace interlace::checkpoint
