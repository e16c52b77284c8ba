// What can happen in a simulation. Events carry one of these names; who handles it is decided by
// the owner of the event queue.
#pragma once

#include <cstdint>

namespace interlace::sim {

enum class event_kind : std::uint16_t {
  // Messages. The device of the first two is the sender, that of the third the receiver.
  message_at_link,  // it wants the next link on its way
  message_departed,
  message_delivered,

  // A GPU's own.
  block_starts,
  warp_wakes,
  instruction_issues,  // one that had to wait
  load_at_l2,
  load_done,
  store_at_l2,
  remote_load_at_l2,  // of another GPU
  entry_freed,
  page_translated,

  // Queues between a GPU and its links.
  store_at_queue,  // or what passes it
  store_queue_idle,
  reply_read,
  reply_timeout,

  // Tasks on a device.
  kernel_begins,
  kernel_ends,
  range_announced,  // what a block of a tracked launch wrote is in the L2
  child_placed,     // all blocks of a kernel that a kernel launched have places
  copy_noticed,     // by its mover
  copy_steps,
  segment_read,
  copy_ends,
  call_steps,
  exchange_signals,
  flag_arrives,

  // The host.
  page_walked,
  thread_continues,
  step_enqueued,
  step_ready,
};

constexpr bool is_of_message(event_kind k) { return k <= event_kind::message_delivered; }

}  // namespace interlace::sim
