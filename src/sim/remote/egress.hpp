// The queues of a GPU's stores to other GPUs. There is one queue for each destination, between the
// crossbar and the egress port.
//
// A store holds its entry of the compute unit until its queue has taken the store. The queue takes
// a store in two cases: no flush is needed for the store, or the egress port has room for the
// flushed data. While the port's buffer (queue_bytes of the link) is full, the store waits, and so
// do all later stores to the same destination. A release flushes all queues, and the links carry
// later messages after the flushed data. Reading a line out of the queue and packing it takes no
// additional time, because lines are read while the link is busy with earlier lines.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "interlace/machine/machine.hpp"
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
  packets,     // each store is a packet of its own
  combined,    // stores are combined by line
  whole_line,  // stores are combined by line, and all bytes of a line are sent
  packed,      // FinePack
  configured,  // FinePack's queue, but stores leave as single packets after a configuration packet
};

// Throws usage_error if the GPUs of a machine cannot send stores on this path. This is so if
// the packets of some link have no room for a line and a sub-header.
void check_store_path(const machine::machine& described, store_path path);

class egress final : public store_queues {
 public:
  egress(std::uint32_t index, const machine::gpu& config, std::uint32_t devices, event_queue& queue,
         fabric& links, store_counts& counts);

  // Starts a kernel. The queues must be empty.
  void begin(store_path path);

  // Takes the store of a warp to a line. If the machine joins less than a line at a time, this can
  // be several stores.
  void store(picoseconds time, std::uint32_t unit, std::uint32_t to, line_access l,
             const written_bytes& written) override;
  void pass(picoseconds time, const message& m) override;
  // Handles an event of this GPU's queues, or a message of this GPU that the first link has taken.
  // Afterwards freed() lists the compute units whose stores have been taken. The caller must clear
  // this list.
  void handle(const event& e);
  void departed(const message& m);
  std::vector<std::uint32_t>& freed() { return freed_; }

  // Makes a system-scope release, which sends everything that is in the queues. Returns false while
  // stores are still on their way to a queue. In this case, the caller calls release again after
  // the next event or departure.
  bool release();

  // The lines of a packed message. The lines stay in the sender's queues, where the receiver reads
  // them.
  static const flushed_window& window(const message& m) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): send_window put the address there
    return *reinterpret_cast<const flushed_window*>(m.address);
  }
  // Forgets the lines of a message of this GPU that has arrived. Returns how many of its bytes were
  // stored. The thread of the receiver calls this function.
  std::uint32_t received(const message& m);
  // Frees the places of messages that have arrived. No other thread may use this object during the
  // call.
  void take_back();

  // Throws model_error unless the queues are empty and no store is on its way to them.
  void check_empty() const;
  void check_with(delivery_check* check) { check_ = check; }

 private:
  struct waiting {
    bool is_store = true;
    // Whether this is the last part of the warp's store to the line. After the last part, the entry
    // is free.
    bool is_last = false;
    std::uint32_t unit = 0;
    std::uint32_t to = 0;
    std::uint32_t stores = 0;  // number of stores that the queue counts for this part
    std::uint64_t line = 0;
    byte_mask bytes;
    message passing;
  };
  struct destination {
    std::optional<remote_write_queue> packing;
    std::optional<combining_queue> combining;
    // stores that wait for room at the egress port, in order of arrival
    std::deque<std::uint32_t> blocked;
    finepack_format format;
    std::uint32_t port = 0;
    std::uint64_t announced = ~std::uint64_t{0};  // the base of the last configuration packet
    picoseconds last_store = 0;
    bool timing = false;  // whether an event for the idle queue is pending
    std::uint64_t overwritten() const {
      return combining ? combining->overwritten_bytes() : packing->overwritten_bytes();
    }
  };
  struct slot {
    flushed_window window;
    std::vector<std::uint8_t> encoded;  // the encoded packet; filled only if deliveries are checked
  };

  destination& ready(std::uint32_t to);
  std::uint32_t keep(const waiting& w);
  bool has_room(const destination& d) const {
    return port_waiting_[d.port] < fabric_.port_bytes(d.port);
  }
  // The following functions return false if the egress port has no room.
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
  std::uint32_t joined_bytes_;    // the most bytes of neighbouring lanes that leave as one store
  std::uint32_t combined_lines_;  // number of lines in the queue of GPS
  std::uint32_t line_bytes_;
  std::uint32_t sector_bytes_;
  event_queue& queue_;
  fabric& fabric_;
  store_path path_ = store_path::packets;
  std::vector<destination> destinations_;
  std::vector<std::uint64_t> port_waiting_;  // for each port, the number of bytes that wait there
  std::vector<waiting> waiting_;
  std::vector<std::uint32_t> free_waiting_;
  std::uint64_t not_taken_ = 0;  // stores and messages that are blocked or on their way to a queue
  // a deque, because receivers read slots while other slots are added
  std::deque<slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  struct alignas(64) given_back {
    std::vector<std::uint32_t> slots;
  };
  std::vector<given_back> given_back_;  // one entry for each receiver
  std::vector<std::uint32_t> freed_;
  store_counts& counts_;
  delivery_check* check_ = nullptr;
};

}  // namespace interlace::sim
