// CRC-32C (Castagnoli; polynomial 0x1edc6f41, reflected, start and end inverted; RFC 3720, appendix
// B.4) of bytes that several threads read in pieces.
#pragma once

#include <cstdint>
#include <span>

namespace interlace::checkpoint {

std::uint32_t crc32c(std::span<const char> bytes);

// The CRC of a sequence whose beginning has the CRC `first` and whose last `second_bytes` bytes
// have the CRC `second`.
std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace interlace::checkpoint
