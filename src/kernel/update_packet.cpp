#include "kernel/update_packet.hpp"

#include <cstring>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw model_error("a packet of updates " + why);
}

std::uint64_t number_at(std::span<const std::uint8_t> bytes, std::uint64_t at, std::uint32_t size) {
  std::uint64_t v = 0;
  for (std::uint32_t b = size; b-- > 0;) v = v << 8U | bytes[at + b];
  return v;
}

}  // namespace

std::vector<std::uint8_t> encode_packet(std::uint64_t base, std::span<const packed_update> updates,
                                        packet_format format, std::uint16_t tag) {
  if (!format.valid()) refuse("must have offsets of 2, 3, 4, 5, 6 or 8 bytes and values of 4 or 8");
  if (updates.size() > ~std::uint32_t{0}) refuse("can have at most 2^32 - 1 updates");
  const packet_header h = header_of(base, static_cast<std::uint32_t>(updates.size()), format, tag);
  // The bytes are in a vector of headers, so that the memory is aligned.
  std::vector<packet_header> room(format.bytes(h.count) / packet_alignment);
  put_header(room.data(), h);
  for (std::uint64_t k = 0; k < updates.size(); ++k) {
    const std::uint64_t offset = updates[k].element - base;
    if (updates[k].element < base || offset > format.last_offset())
      refuse("whose base is " + std::to_string(base) + " cannot have element " +
             std::to_string(updates[k].element) + " in offsets of " +
             std::to_string(format.offset_bytes) + " bytes");
    if (format.value_bytes == 8) {
      put_update(room.data(), h, k, offset, updates[k].value);
    } else {
      if (updates[k].value >> 32U != 0) refuse("has values of 4 bytes, but a value needs more");
      put_update(room.data(), h, k, offset, static_cast<std::uint32_t>(updates[k].value));
    }
  }
  put_padding(room.data(), h);
  std::vector<std::uint8_t> bytes(format.bytes(h.count));
  std::memcpy(bytes.data(), room.data(), bytes.size());
  return bytes;
}

std::vector<packed_update> decode_packet(std::span<const std::uint8_t> bytes,
                                         std::uint64_t elements) {
  if (bytes.size() < packet_alignment) refuse("is shorter than its header");
  const std::uint64_t base = number_at(bytes, 0, 8);
  const std::uint64_t count = number_at(bytes, 8, 4);
  const std::uint32_t offset_bytes = bytes[12];
  const std::uint32_t value_bytes = bytes[13];
  if (offset_bytes < 2 || offset_bytes == 7 || offset_bytes > 8)
    refuse("has offsets of " + std::to_string(offset_bytes) + " bytes");
  if (value_bytes != 4 && value_bytes != 8)
    refuse("has values of " + std::to_string(value_bytes) + " bytes");
  const std::uint64_t used = 16 + count * (offset_bytes + value_bytes);
  if (bytes.size() != (used + 15) / 16 * 16)
    refuse("has " + std::to_string(bytes.size()) + " bytes, but its header counts " +
           std::to_string(count) + " updates");
  std::vector<packed_update> updates;
  updates.reserve(count);
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t offset =
        number_at(bytes, 16 + count * value_bytes + k * offset_bytes, offset_bytes);
    if (base >= elements || offset >= elements - base)
      refuse("has an element outside of the array of " + std::to_string(elements));
    updates.push_back({base + offset, number_at(bytes, 16 + k * value_bytes, value_bytes)});
  }
  for (std::uint64_t b = used; b < bytes.size(); ++b)
    if (bytes[b] != 0) refuse("has padding that is not zero");
  return updates;
}

}  // namespace interlace::kernel
