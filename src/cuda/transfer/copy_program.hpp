// A plan in the form that executors run: a list of copies on numbered streams, without addresses.
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
    int place = host_place;  // number of a GPU, or host_place
    std::uint64_t bytes = 0;
  };
  // A slot. The copies of a slot run one after another, on the copy engines of one GPU.
  struct slot {
    int gpu = 0;
    std::uint64_t bytes = 0;
    bool first_waits = false;   // whether the slot's first copy waits for a copy of another slot
    bool last_awaited = false;  // whether a copy of another slot waits for the slot's last copy
  };
  struct copy {
    plan::location from;
    plan::location to;
    std::uint64_t bytes = 0;
    std::uint32_t slot = 0;
    std::vector<std::uint32_t> after;  // earlier copies of other slots for which this copy waits
    bool awaited = false;              // whether a copy of another slot waits for this copy
  };

  std::vector<buffer> buffers;
  std::vector<slot> slots;
  std::vector<copy> copies;  // in the order in which the copies are enqueued
  double predicted_s = 0;
  double direct_s = 0;
  // All members above except the times, as bytes. A graph depends only on these members.
  std::shared_ptr<const std::string> shape;
  std::size_t shape_hash = 0;

  bool direct() const { return buffers.empty() && copies.size() <= 1; }
};

// A copy inside a GPU. Plans have no such copies.
struct local_copy {
  std::uint32_t gpu = 0;  // number of the GPU in the machine
  std::uint64_t bytes = 0;
};

// Makes the program of a plan. `gpus` are CUDA's numbers of the machine's GPUs. The copies in
// `local` are messages that are numbered after the plan's messages. Each GPU runs its local copies
// one after another, at the same time as all other copies.
copy_program make_program(const plan::plan& made, const std::vector<int>& gpus,
                          std::span<const local_copy> local = {});

// The addresses with which a program runs.
struct addresses {
  struct end {
    device_address address = 0;
    // The driver's number of the allocation. A later allocation at the same address has another
    // number. 0 means that the number is not known.
    unsigned long long id = 0;
  };
  std::vector<end> sources;       // for each message, its source
  std::vector<end> destinations;  // for each message, its destination
  // One address for each buffer of the program. Buffers are never freed.
  std::vector<device_address> buffers;

  device_address of(const plan::location& place) const {
    const device_address base = place.memory == plan::memory::source ? sources[place.index].address
                                : place.memory == plan::memory::destination
                                    ? destinations[place.index].address
                                    : buffers[place.index];
    return base + place.offset;
  }
};

}  // namespace interlace::cuda
