// The queues of a GPU's stores to other GPUs: one for each destination, between the crossbar and
// the egress port.
//
// A store holds its entry of the compute unit until its queue has taken it. A queue takes it when
// it needs no flush for that, or when the egress port has room for what is flushed: where its
// buffer (queue_bytes of the link) is full, the store waits, and all behind it for the same
// destination. A release flushes everything, behind which the links carry whatever comes next.
// Reading a line out and packing it takes no time of its own: lines are read while the link is busy
// with those before.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/remote_accesses.hpp"
#include "sim/gpu/store_counts.hpp"
#include "sim/remote/combining_queue.hpp"
#include "sim/remote/delivery_check.hpp"
#include "sim/remote/packetizer.hpp"
#include "sim/remote/remote_write_queue.hpp"

namespace interlace::sim {

enum class store_path : std::uint8_t {
  packets,     // each by itself
  combined,    // lines
  whole_line,  // lines, of which all bytes are sent
  packed,      // FinePack
  configured,  // its queue, with packets of their own behind a configuration packet
};

// Throws usage_error if the GPUs of a machine cannot send stores on this path: a packet of some
// link has no room for a line and a sub-header.
void check_store_path(const machine::machine& described, store_path path);

class egress final : public store_queues {
 public:
  egress(std::uint32_t index, const machine::gpu& config, std::uint32_t devices, event_queue& queue,
         fabric& links, store_counts& counts);

  // For the kernel that starts; queues are empty.
  void begin(store_path path);

  // One store, or several where the machine joins less than a line.
  void store(picoseconds time, std::uint32_t unit, std::uint32_t to, line_access l,
             const written_bytes& written) override;
  void pass(picoseconds time, const message& m) override;
  // An event of this GPU's queues, and a message of this GPU's that its first link has taken.
  // Then freed() are the compute units whose stores have been taken; take them away.
  void handle(const event& e);
  void departed(const message& m);
  std::vector<std::uint32_t>& freed() { return freed_; }

  // A system-scope release: sends all that is in the queues. False while stores are on their way to
  // a queue: ask again after the next event or departure.
  bool release();

  // The lines of a packed message of this GPU, for its receiver; forgotten by `received`, which
  // counts what has come in.
  const flushed_window& window(std::uint32_t id) const { return slots_[id].window; }
  void received(const message& m);

  // Throws model_error unless nothing is in a queue or on its way there.
  void check_empty() const;
  void check_with(delivery_check* check) { check_ = check; }

 private:
  struct waiting {
    bool is_store = true;
    bool is_last = false;  // of what the warp stores to the line: the entry is free behind it
    std::uint32_t unit = 0;
    std::uint32_t to = 0;
    std::uint32_t stores = 0;  // that it counts as
    std::uint64_t line = 0;
    byte_mask bytes;
    message passing;
  };
  struct destination {
    std::optional<remote_write_queue> packing;
    std::optional<combining_queue> combining;
    std::deque<std::uint32_t> blocked;  // in the order in which they came; the egress port is full
    finepack_format format;
    std::uint32_t port = 0;
    std::uint64_t announced = ~std::uint64_t{0};  // base of the last configuration packet
    picoseconds last_store = 0;
    bool timing = false;  // an idle event is due
    std::uint64_t overwritten() const {
      return combining ? combining->overwritten_bytes() : packing->overwritten_bytes();
    }
  };
  struct slot {
    flushed_window window;
    std::vector<std::uint8_t> encoded;  // if deliveries are checked
  };

  destination& ready(std::uint32_t to);
  std::uint32_t keep(const waiting& w);
  bool has_room(const destination& d) const {
    return port_waiting_[d.port] < fabric_.port_bytes(d.port);
  }
  // All return false where the egress port has no room.
  bool take(std::uint32_t to, waiting& w);
  bool take_store(std::uint32_t to, destination& d, waiting& w);
  bool flush_line(std::uint32_t to, destination& d, std::uint64_t line, flush_reason reason);
  void finish(std::uint32_t id);
  void send_window(std::uint32_t to, destination& d, std::uint32_t slot_id);
  void send_line(std::uint32_t to, destination& d, const queued_line& l, flush_reason reason);
  void flush_all(std::uint32_t to, destination& d, flush_reason reason);
  std::uint32_t take_slot();

  std::uint32_t index_;
  machine::remote_write_queue settings_;
  std::uint32_t joined_bytes_;    // of neighbouring lanes, that are one store
  std::uint32_t combined_lines_;  // of the queue of GPS
  std::uint32_t line_bytes_;
  std::uint32_t sector_bytes_;
  event_queue& queue_;
  fabric& fabric_;
  store_path path_ = store_path::packets;
  std::vector<destination> destinations_;
  std::vector<std::uint64_t> port_waiting_;  // bytes, by port
  std::vector<waiting> waiting_;
  std::vector<std::uint32_t> free_waiting_;
  std::uint64_t not_taken_ = 0;  // stores and messages on their way to a queue, or blocked
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> freed_;
  store_counts& counts_;
  delivery_check* check_ = nullptr;
};

}  // namespace interlace::sim
