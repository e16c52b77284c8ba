// A plan as executors run it: copies on numbered streams, addresses left open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

// A copy inside a GPU, which no plan has.
struct local_copy {
  std::uint32_t gpu = 0;  // of the machine
  std::uint64_t bytes = 0;
};

// `gpus` are CUDA's numbers of the machine's GPUs. The copies of `local` count as messages behind
// those of the plan; each GPU runs its own one after another, beside all others.
copy_program make_program(const plan::plan& made, const std::vector<int>& gpus,
                          std::span<const local_copy> local = {});

// Where the memory of messages is.
struct addresses {
  struct end {
    device_address address = 0;
    // The driver's number of the allocation, which tells apart one that was freed and another at
    // the same address; 0: not known.
    unsigned long long id = 0;
  };
  std::vector<end> sources;             // by message
  std::vector<end> destinations;        // by message
  std::vector<device_address> buffers;  // which are never freed

  device_address of(const plan::location& place) const {
    const device_address base = place.memory == plan::memory::source ? sources[place.index].address
                                : place.memory == plan::memory::destination
                                    ? destinations[place.index].address
                                    : buffers[place.index];
    return base + place.offset;
  }
};

}  // namespace interlace::cuda
