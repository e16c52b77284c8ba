// Decides for a batch of copies whether one kernel or the driver makes them.
//
// The copy engines of a GPU take 0.4 to 3 us for each copy of a batch. A kernel that reads and
// writes the host's memory over the link moves small blocks many times faster. The library takes
// over a batch only if the program cannot tell the difference. These are the conditions:
// - All blocks go from page-locked host memory to the GPU of the stream, or all blocks go in the
//   other direction. The GPU must have the same address for this host memory, and must have the
//   right to read or write all of it.
// - No two destinations overlap. The driver leaves the order of a batch's copies open, but in
//   practice the last copy wins.
// - The driver would accept the arguments, and the sources may be read in stream order.
// - The stream belongs to the current context and is not being captured. The context is the primary
//   context of a GPU. The kernel was loaded before the program's first work.
//
// All other batches go to the driver, and the reason is counted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {
class block_copier;
}

namespace interlace::preload {

// The driver's CUmemcpyAttributes.
struct copy_attributes {
  int order = 0;  // the driver's srcAccessOrder
  cuda::memory_location source;
  cuda::memory_location destination;
  unsigned flags = 0;
};

// The arguments of cuMemcpyBatchAsync.
struct requested_batch {
  const cuda::device_address* to = nullptr;
  const cuda::device_address* from = nullptr;
  const std::size_t* bytes = nullptr;
  std::size_t count = 0;
  const copy_attributes* attributes = nullptr;
  const std::size_t* firsts = nullptr;  // number of the first copy for each of the attributes
  std::size_t kinds = 0;                // number of attributes
  CUstream_st* stream = nullptr;        // null means the legacy default stream
};

struct batch_bytes {
  std::uint64_t total = 0;
  bool any_empty = false;  // whether there is a block without bytes
};
batch_bytes bytes_of(const requested_batch& asked) noexcept;
// Enqueues the batch if it can be taken over. Returns whether the batch is enqueued. If not, the
// caller must make the batch. Counts the batch's copies in both cases.
bool take_over_batch(const requested_batch& asked, const batch_bytes& bytes) noexcept;

// The driver's CUDA_MEMCPY3D_BATCH_OP.
struct volume_operand {
  int type = 1;  // 1 means an address, and 2 means an array
  cuda::device_address address = 0;
  std::size_t row_length = 0;
  std::size_t layer_height = 0;
  cuda::memory_location hint;
};
struct volume_copy {
  volume_operand from;
  volume_operand to;
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t depth = 0;
  int order = 0;
  unsigned flags = 0;
};
static_assert(sizeof(volume_copy) == 112);

struct volumes {
  std::uint64_t bytes = 0;  // number of bytes, or of elements if an element is larger than a byte
  cuda::device_address to = 0;
  cuda::device_address from = 0;
};
volumes volumes_of(const volume_copy* operations, std::size_t count) noexcept;
void count_volumes(std::uint64_t bytes, std::size_t copies) noexcept;

// While a thread holds this lock, no other thread of the program begins or ends a GPU's primary
// context. A caller holds the lock while the driver begins or ends a context, and during calls of
// the functions below.
class primary_change {
 public:
  explicit primary_change(int gpu) noexcept;
  ~primary_change();
  primary_change(const primary_change&) = delete;
  primary_change& operator=(const primary_change&) = delete;

 private:
  int gpu_;
};

// Loads the kernel into a GPU's primary context, unless the kernel is already loaded there. The
// program has just retained the context. If this is the program's first reference to the context,
// the program has no work there yet.
void load_kernel(int gpu, CUctx_st* context) noexcept;
// Takes the kernel away before its context ends. Nothing uses the kernel afterwards. Returns the
// kernel, or null if there is none.
cuda::block_copier* forget_kernel(int gpu) noexcept;
// The caller calls this function after the driver call that may end the context. The context still
// exists if another user, for example the engine, holds it. In this case, the kernel is used again.
// Otherwise the kernel's memory is freed.
void settle_kernel(int gpu, CUctx_st* context, cuda::block_copier* kernel, bool exists) noexcept;

}  // namespace interlace::preload
