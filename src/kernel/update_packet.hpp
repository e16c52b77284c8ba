// Encodes and decodes whole packets of updates on the host. The decoder is simple: it reads byte by
// byte, and refuses every packet that the encoder cannot have written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interlace/kernel/update_packet.hpp"

namespace interlace::kernel {

struct packed_update {
  std::uint64_t element = 0;
  std::uint64_t value = 0;  // a value of 4 or 8 bytes
  bool operator==(const packed_update&) const = default;
};

// Encodes a packet. Throws model_error if the format is not valid, or if an element or a value does
// not fit in the format.
std::vector<std::uint8_t> encode_packet(std::uint64_t base, std::span<const packed_update> updates,
                                        packet_format format, std::uint16_t tag = 0);

// Decodes `bytes`, which must be exactly one packet for an array of `elements` elements. Throws
// model_error, which says what is wrong: the format, the length, an element outside of the array,
// or padding that is not zero.
std::vector<packed_update> decode_packet(std::span<const std::uint8_t> bytes,
                                         std::uint64_t elements);

}  // namespace interlace::kernel
