// Finds out in which memory the blocks of a batch lie.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "cuda/transfer/driver_table.hpp"
#include "plan/block_list.hpp"

namespace interlace::cuda {

// The kind of memory in which the blocks of a batch lie. The kind decides how the batch can be
// copied.
enum class block_ends : std::uint8_t {
  one_gpu,   // page-locked host memory on one side and a GPU on the other, or both sides in one GPU
  pageable,  // a block lies in memory that is not page-locked, or that the driver does not know
  managed,   // a block lies in memory that the driver moves
  other_gpu,      // some blocks outside of the host's memory are not on the GPU of the context
  other_context,  // a block lies in memory that was allocated in another context
  no_access,      // kernels cannot reach the memory by its address
  mixed,          // the blocks of a side lie in different kinds of memory
  outside,        // a block reaches past the end of its allocation
  too_many,       // the blocks lie in too many allocations to look at all of them
};

struct block_places {
  block_ends ends = block_ends::one_gpu;
  bool to_host = false;
  bool from_host = false;
  // Whether a side has blocks in pageable memory. If it has, `ends` is `pageable`, unless the
  // memory has another problem as well.
  bool to_pageable = false;
  bool from_pageable = false;
};

// A range of memory in which the same facts hold for all addresses.
struct known_range {
  device_address begin = 0;
  device_address end = 0;
  block_ends ends = block_ends::one_gpu;
  bool host = false;
};

// Allocations that earlier batches used. The driver never reuses the id of an allocation. If
// the driver gives an id that is recorded here, the facts that are recorded with this id still
// hold. To ask the driver for an id takes little time.
class known_allocations {
 public:
  // Protects this object. Only one batch at a time can lock the mutex. A batch that finds the mutex
  // locked works without the known allocations.
  std::mutex& mutex() { return mutex_; }
  // The facts about an allocation, or null if the allocation is not known in the context.
  const known_range* find(unsigned long long id, const CUctx_st* context) const {
    const entry& one = entries_[id % entries_.size()];
    return id != 0 && one.id == id && one.context == context ? &one.range : nullptr;
  }
  void add(unsigned long long id, const CUctx_st* context, const known_range& range) {
    if (id != 0) entries_[id % entries_.size()] = {id, context, range};
  }

 private:
  struct entry {
    unsigned long long id = 0;
    const CUctx_st* context = nullptr;
    known_range range;
  };

  std::mutex mutex_;
  std::vector<entry> entries_ = std::vector<entry>(1024);
};

// Returns the context of another GPU whose plain memory the copying GPU can use like its own.
// Returns null if the copying GPU cannot use that GPU's memory.
using peer_contexts = std::function<CUctx_st*(int gpu)>;

// Inspects the memory of every block. For a list without blocks, inspects the two extents.
// `context` must be the context of the GPU that copies, and must be current. Asks the driver once
// for each allocation in `known`, and twice for any other allocation. Throws device_error if the
// driver fails. If `peers` is empty, memory of other GPUs is refused.
block_places find_places(const driver_table& driver, known_allocations& known, CUctx_st* context,
                         const plan::block_list& list, const plan::block_shape& shape,
                         const peer_contexts& peers = {});

}  // namespace interlace::cuda
