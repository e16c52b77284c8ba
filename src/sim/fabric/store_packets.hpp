// The packets of a warp's stores to one remote line, if no queue combines the stores. `inline`
// sends such plain peer-to-peer stores.
#pragma once

#include <algorithm>
#include <cstdint>

#include "interlace/machine/machine.hpp"
#include "interlace/sim/fabric/byte_mask.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

struct packet_cost {
  std::uint32_t packets = 0;
  std::uint32_t payload = 0;  // bytes written
  std::uint32_t wire = 0;     // all bytes on the link

  // Adds the packets of a range of bytes. The range begins at byte `first` and has `bytes` bytes,
  // of which `written` bytes are written. each_packet passes these values to `visit`.
  void add(const machine::protocol& p, std::uint32_t first, std::uint32_t bytes,
           std::uint32_t written) {
    payload += written;
    for (std::uint32_t at = first; at < first + bytes; at += p.max_payload_bytes) {
      const std::uint32_t part = std::min(first + bytes - at, p.max_payload_bytes);
      wire += write_packet_bytes(p, at, part, written != bytes);
      ++packets;
    }
  }
};

// Cuts a warp's store to a line into the stores that leave the compute unit, and calls visit(bytes)
// for each of them. The bytes of neighbouring lanes are joined. A joined store has at most `most`
// bytes, a power of two, and lies within `most` bytes that are aligned to `most`.
template <class Visit>
void each_part(const byte_mask& mask, std::uint32_t most, const Visit& visit) {
  if (most >= 128) {
    visit(mask);
    return;
  }
  for (std::uint32_t first = 0; first < 128; first += most) {
    byte_mask part;
    part.set(first, most);
    part = part & mask;
    if (part.any()) visit(part);
  }
}

// Calls visit(first byte, bytes from the first to the last, bytes written) for each packet. PCIe
// needs a packet for each run of bytes. NVLink needs a packet for each run of 32-byte sectors,
// because its byte enables allow for unwritten bytes. If such a packet is larger than the link's
// largest payload, the link splits the packet.
template <class Visit>
void each_packet(const machine::protocol& p, const byte_mask& mask, const Visit& visit) {
  if (is_pcie(p.kind)) {
    mask.each_run([&](std::uint32_t first, std::uint32_t bytes) { visit(first, bytes, bytes); });
    return;
  }
  constexpr std::uint32_t sector = 32;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t written = 0;
  mask.each_run([&](std::uint32_t first, std::uint32_t bytes) {
    // A gap of unwritten bytes ends a packet only if the gap includes a whole sector.
    if (written != 0 && first / sector > (end - 1) / sector + 1) {
      visit(begin, end - begin, written);
      written = 0;
    }
    if (written == 0) begin = first;
    end = first + bytes;
    written += bytes;
  });
  if (written != 0) visit(begin, end - begin, written);
}

packet_cost store_packets(const machine::protocol& p, const byte_mask& mask);

}  // namespace interlace::sim
