// A plan of one message as executors run it: copies on numbered streams, addresses left open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "plan/plan.hpp"

namespace interlace::cuda {

struct copy_program {
  struct buffer {
    int place = host_place;  // or a GPU
    std::uint64_t bytes = 0;
  };
  // Copies of a slot run in their order, by a GPU's engines.
  struct slot {
    int gpu = 0;
    std::uint64_t bytes = 0;
    bool first_waits = false;   // its first copy is after one of another slot
    bool last_awaited = false;  // a copy of another slot is after its last one
  };
  struct copy {
    plan::location from;
    plan::location to;
    std::uint64_t bytes = 0;
    std::uint32_t slot = 0;
    std::vector<std::uint32_t> after;  // earlier copies of other slots
    bool awaited = false;              // a copy of another slot is after it
  };

  std::uint64_t bytes = 0;
  std::vector<buffer> buffers;
  std::vector<slot> slots;
  std::vector<copy> copies;  // in the order in which they are enqueued
  double predicted_s = 0;
  double direct_s = 0;
  // All of the above but times, which is all that a graph depends on.
  std::shared_ptr<const std::string> shape;
  std::size_t shape_hash = 0;

  bool direct() const { return buffers.empty() && copies.size() <= 1; }
};

// `gpus` are CUDA's numbers of the machine's GPUs. The plan has one message.
copy_program make_program(const plan::plan& made, const std::vector<int>& gpus);

// Where a message's memory is.
struct addresses {
  device_address source = 0;
  device_address destination = 0;
  // The driver's numbers of the allocations, which tell apart one that was freed and another at the
  // same address; 0: not known.
  unsigned long long source_id = 0;
  unsigned long long destination_id = 0;
  std::vector<device_address> buffers;  // which are never freed

  device_address of(const plan::location& place) const {
    const device_address base = place.memory == plan::memory::source        ? source
                                : place.memory == plan::memory::destination ? destination
                                                                            : buffers[place.index];
    return base + place.offset;
  }
};

}  // namespace interlace::cuda
