// Decides for a batch of copies whether one kernel makes them, or the driver.
//
// The copy engines of a GPU take 0.4 to 3 us for each copy of a batch. A kernel that reads and
// writes the host's memory over the link moves small blocks many times faster. The library takes
// over a batch if the program cannot tell the difference:
// - All blocks lead from page-locked host memory to the GPU of the stream, or all lead back; the
// GPU
//   has the same address for that host memory, and the right to read or write all of it.
// - No two destinations overlap. The driver leaves the order of a batch's copies open, but in
//   practice the last one wins.
// - The arguments are what the driver accepts, and the sources may be read in stream order.
// - The stream belongs to the current context, which is a GPU's primary one, and is not being
//   captured. The kernel was loaded before the program's first work.
// All other batches are passed through, with a reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {
class block_copier;
}

namespace interlace::preload {

// CUmemcpyAttributes.
struct copy_attributes {
  int order = 0;  // the order of the accesses to the source
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
  const std::size_t* firsts = nullptr;  // the first copy with each of the attributes
  std::size_t kinds = 0;                // the number of attributes
  CUstream_st* stream = nullptr;        // null: the legacy default stream
};

struct batch_bytes {
  std::uint64_t total = 0;
  bool any_empty = false;  // a block without bytes
};
batch_bytes bytes_of(const requested_batch& asked) noexcept;
// Whether the batch is enqueued. If not, the caller must make it. Counts its copies in both cases.
bool take_over_batch(const requested_batch& asked, const batch_bytes& bytes) noexcept;

// CUDA_MEMCPY3D_BATCH_OP.
struct volume_operand {
  int type = 1;  // 1: an address; 2: an array
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
  std::uint64_t bytes = 0;  // bytes, or elements if these are larger than a byte
  cuda::device_address to = 0;
  cuda::device_address from = 0;
};
volumes volumes_of(const volume_copy* operations, std::size_t count) noexcept;
void count_volumes(std::uint64_t bytes, std::size_t copies) noexcept;

// While this lock is held, no other thread of the program begins or ends a GPU's primary context.
// The caller holds the lock while the driver begins or ends a context, and during calls of the
// functions below.
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
// program has just retained the context, so it runs no work there yet, unless it retained the
// context earlier.
void load_kernel(int gpu, CUctx_st* context) noexcept;
// Called when the context, and the kernel with it, is about to end. Nobody uses the kernel
// afterwards. Returns the kernel; null if there is none.
cuda::block_copier* forget_kernel(int gpu) noexcept;
// Called after the call that may end the context. If the context still exists, because somebody
// else, such as the engine, holds it, the kernel is used again. If not, its memory is freed.
void settle_kernel(int gpu, CUctx_st* context, cuda::block_copier* kernel, bool exists) noexcept;

}  // namespace interlace::preload
