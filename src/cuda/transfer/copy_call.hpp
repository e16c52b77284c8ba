// One call of the copy engine. It has the call's messages, and the facts and choices that the
// engine adds to them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cuda/transfer/copy_program.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "cuda/transfer/plan_cache.hpp"
#include "cuda/transfer/staging_pool.hpp"
#include "cuda/transfer/stream_executor.hpp"
#include "cuda/transfer/traffic_table.hpp"
#include "interlace/machine/machine.hpp"
#include "plan/copy_profile.hpp"

namespace interlace::cuda {

struct copy_message {
  device_address to_address = 0;
  device_address from_address = 0;
  std::uint64_t bytes = 0;
  machine::endpoint from = {};
  machine::endpoint to = {};
  memory_view source = {};
  memory_view destination = {};

  traffic_table::pair pair() const { return {from, to}; }
};

// A single message, or a batch whose messages are planned together.
struct copy_call {
  copy_call(std::vector<copy_message> of, CUstream_st* stream) : messages(std::move(of)) {
    caller.stream = stream;
  }

  caller_stream caller;
  // The messages between places, followed by the messages inside GPUs. `local` has one element for
  // each message inside a GPU.
  std::vector<copy_message> messages;
  std::vector<local_copy> local;
  // Calls of the same shape with different roles use different executable graphs. The calls of a
  // role usually have the same addresses, so their graph needs few changes.
  std::uint32_t role = 0;
  traffic_user user = 0;
  plan::copy_choice choice;               // choice of the profile
  std::vector<machine::endpoint> relays;  // relays that the call may use now
  addresses where;
  std::shared_ptr<planned_copy> plan;
  std::vector<staging_pool::block> blocks;  // one block for each buffer of the program
  bool capturing = false;
  CUgraph_st* graph = nullptr;         // the graph that captures the stream
  std::vector<CUgraphNode_st*> roots;  // nodes of that graph on which the copies depend

  std::span<const copy_message> between_places() const {
    return std::span(messages).first(messages.size() - local.size());
  }
  // Call this function after the memory at the ends of all messages has been inspected.
  void set_addresses() {
    for (const copy_message& one : messages) {
      where.sources.push_back({one.from_address, one.source.id});
      where.destinations.push_back({one.to_address, one.destination.id});
    }
  }
};

}  // namespace interlace::cuda
