// What devices send to each other.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

enum class message_kind : std::uint8_t {
  store,     // posted
  combined,  // a line of a queue that combines stores
  packed,    // a window of a queue that packs stores
  atomic,    // posted
  read_request,
  read_reply,
  coalesced_reply,      // pieces of several lines; `unit` is where their response IDs are kept
  migration,            // of a page: data, or what GPUs and the host tell each other about it
  translation_request,  // to the host, of the page whose number is the address
  translation_reply,
  flag,          // a release that one device signals to another; follows what was sent before it
  copy_segment,  // part of a copy-engine transfer
};

struct message {
  message_kind kind = message_kind::store;
  std::uint8_t hop = 0;
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  std::uint32_t unit = 0;   // compute unit, copy or exchange, by kind
  std::uint32_t entry = 0;  // of the sender's table, by kind
  std::uint32_t payload = 0;
  std::uint32_t wire = 0;  // bytes on the link
  std::uint32_t packets = 1;
  std::uint32_t lanes = 0;
  std::uint64_t address = 0;
  picoseconds sent = 0;  // when it wants the first link
  picoseconds tail = 0;  // when its last byte has passed the link before
};

}  // namespace interlace::sim
