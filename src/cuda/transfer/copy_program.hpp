// A plan as executors run it: copies on numbered streams, without addresses.
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
    int place = host_place;  // a GPU or host_place
    std::uint64_t bytes = 0;
  };
  // The copies of a slot run one after another, on the copy engines of a GPU.
  struct slot {
    int gpu = 0;
    std::uint64_t bytes = 0;
    bool first_waits = false;   // its first copy waits for a copy of another slot
    bool last_awaited = false;  // a copy of another slot waits for its last copy
  };
  struct copy {
    plan::location from;
    plan::location to;
    std::uint64_t bytes = 0;
    std::uint32_t slot = 0;
    std::vector<std::uint32_t> after;  // earlier copies of other slots
    bool awaited = false;              // a copy of another slot waits for it
  };

  std::vector<buffer> buffers;
  std::vector<slot> slots;
  std::vector<copy> copies;  // in the order in which they are enqueued
  double predicted_s = 0;
  double direct_s = 0;
  // All of the above except the times. A graph depends on nothing else.
  std::shared_ptr<const std::string> shape;
  std::size_t shape_hash = 0;

  bool direct() const { return buffers.empty() && copies.size() <= 1; }
};

// A copy inside a GPU. Plans do not have such copies.
struct local_copy {
  std::uint32_t gpu = 0;  // of the machine
  std::uint64_t bytes = 0;
};

// `gpus` are CUDA's numbers of the machine's GPUs. The copies of `local` are messages that follow
// the plan's messages. Each GPU runs its local copies one after another, at the same time as all
// other copies.
copy_program make_program(const plan::plan& made, const std::vector<int>& gpus,
                          std::span<const local_copy> local = {});

// The addresses that a program is run with.
struct addresses {
  struct end {
    device_address address = 0;
    // The driver's number of the allocation, by which a later allocation at the same address
    // differs; 0: not known.
    unsigned long long id = 0;
  };
  std::vector<end> sources;             // by message
  std::vector<end> destinations;        // by message
  std::vector<device_address> buffers;  // by buffer of the program; never freed

  device_address of(const plan::location& place) const {
    const device_address base = place.memory == plan::memory::source ? sources[place.index].address
                                : place.memory == plan::memory::destination
                                    ? destinations[place.index].address
                                    : buffers[place.index];
    return base + place.offset;
  }
};

}  // namespace interlace::cuda
