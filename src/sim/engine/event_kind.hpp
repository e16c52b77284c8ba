// The kinds of events of a simulation. The owner of the event queue decides which object handles
// which kind.
#pragma once

#include <cstdint>

namespace interlace::sim {

enum class event_kind : std::uint8_t {
  // Messages. The device of `message_at_link` and of `message_departed` is the sender. The device
  // of `message_delivered` is the receiver.
  message_at_link,  // the message requests the next link of its route
  message_departed,
  message_delivered,
  link_held,  // the buffer at the end of link direction `a` is full until time `b`

  // Events inside a GPU.
  block_starts,
  warp_wakes,
  instruction_issues,  // an instruction that had to wait
  load_at_l2,
  load_done,
  store_at_l2,
  remote_load_at_l2,  // a load of another GPU
  entry_freed,
  page_translated,

  // Queues between a GPU and its links.
  store_at_queue,  // a store, or a message that passes the queue
  store_queue_idle,
  reply_read,
  reply_timeout,

  // Tasks on a device.
  kernel_begins,
  kernel_ends,
  range_announced,  // stores that a block of a tracked launch announced have reached the L2
  child_placed,     // all blocks of a device-launched kernel are placed
  copy_noticed,     // the copy's mover has noticed that the copy may start
  copy_steps,
  segment_read,
  copy_arrives,  // a copy's last byte arrives at one of its destinations
  copy_ends,
  call_steps,
  exchange_signals,
  flag_arrives,

  // Events at the host.
  page_walked,
  thread_continues,
  step_enqueued,
  step_ready,

  // `b` answers to packets of stores take link direction `a`.
  link_answered,
};

constexpr bool is_of_message(event_kind k) { return k <= event_kind::message_delivered; }
constexpr bool is_of_link(event_kind k) {
  return k == event_kind::link_held || k == event_kind::link_answered;
}
// Whether a run lasts at least until an event of this kind. If not, nothing waits for the event.
constexpr bool lengthens_run(event_kind k) {
  return k != event_kind::store_queue_idle && k != event_kind::link_answered;
}

}  // namespace interlace::sim
