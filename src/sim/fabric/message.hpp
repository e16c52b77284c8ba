// The messages that devices send to each other.
#pragma once

#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

enum class message_kind : std::uint8_t {
  store,     // a store; no device waits for an answer
  combined,  // one line of stores, from a queue that combines stores
  packed,    // one window of stores, from a queue that packs stores
  atomic,    // an atomic; no device waits for an answer
  read_request,
  read_reply,
  coalesced_reply,      // pieces of several lines; `unit` is the slot of the pieces' response IDs
  migration,            // page data, or a step of the protocol that moves a page
  translation_request,  // a request to the host; the address is a page number
  translation_reply,
  // A release that one device signals to another; the flag arrives after everything that was sent
  // before it.
  flag,
  copy_segment,  // part of a transfer; `lanes` is 1 for the last part to its destination
};

// Stores and atomics.
constexpr bool is_write(message_kind k) { return k <= message_kind::atomic; }

struct message {
  message_kind kind = message_kind::store;
  std::uint8_t hop = 0;
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  // The number of a compute unit, of a copy or of an exchange. The kind of the message decides
  // which.
  std::uint32_t unit = 0;
  // An index into a table of the sender; the kind of the message decides which table.
  std::uint32_t entry = 0;
  std::uint32_t payload = 0;
  std::uint32_t wire = 0;  // number of bytes on the link
  std::uint32_t packets = 1;
  std::uint32_t lanes = 0;
  bool stored = false;  // whether a kernel's stores move this segment of a copy
  std::uint64_t address = 0;
  picoseconds sent = 0;  // the time when the message requests its first link
  picoseconds tail = 0;  // the time when its last byte has passed the previous link
};

}  // namespace interlace::sim
