// Messages that move pages. A message holds data of a page, or it is a control message between a
// GPU and the driver on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/fabric/fabric.hpp"
#include "sim/fabric/message.hpp"
#include "sim/fabric/protocol.hpp"

namespace interlace::sim {

struct page_traffic {
  std::uint64_t pages = 0;  // number of pages that moved
  std::uint64_t payload = 0;
  std::uint64_t wire = 0;
};

// Makes a message for one step of a page's move, and counts it.
inline message page_message(const fabric& links, std::uint32_t from, std::uint32_t to,
                            std::uint32_t step, std::uint64_t page, std::uint32_t payload,
                            page_traffic& counted) {
  const machine::protocol& p = links.protocol(from, to);
  message m;
  m.kind = message_kind::migration;
  m.from = static_cast<std::uint8_t>(from);
  m.to = static_cast<std::uint8_t>(to);
  m.unit = step;
  m.address = page;
  m.payload = payload;
  m.packets = std::max(1U, (payload + p.max_payload_bytes - 1) / p.max_payload_bytes);
  m.wire = payload == 0 ? read_request_bytes(p)
                        : static_cast<std::uint32_t>(bulk_write_bytes(p, payload));
  counted.payload += m.payload;
  counted.wire += m.wire;
  return m;
}

}  // namespace interlace::sim
