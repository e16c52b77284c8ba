// The kernels that copy batches of blocks, in one context.
#pragma once

#include <cstdint>

#include "cuda/transfer/block_arguments.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {

inline constexpr unsigned block_kernel_threads = 512;  // the most threads of a thread block

// Thrown if the driver cannot load the kernels, now or later.
class no_block_kernels : public device_error {
 public:
  using device_error::device_error;
};

class block_kernels {
 public:
  // Loads the kernels into the current context, which takes some ms the first time. Later launches
  // then need not wait for running kernels. Throws no_block_kernels, and device_error if the driver
  // fails.
  explicit block_kernels(const driver_table& driver);
  // The context must be current.
  ~block_kernels();
  block_kernels(const block_kernels&) = delete;
  block_kernels& operator=(const block_kernels&) = delete;

  // The context has ended, and the kernels with it: the destructor does not call the driver.
  void abandon() { module_ = nullptr; }

  // Enqueues, on a stream of the context, the kernel for even blocks or the kernel for any blocks.
  // Takes at most `thread_blocks` thread blocks. The arguments have no `run` yet. Throws
  // device_error.
  void launch(block_arguments& what, bool even, unsigned thread_blocks, CUstream_st* stream) const;

 private:
  const driver_table& driver_;
  CUmod_st* module_ = nullptr;
  CUfunc_st* even_ = nullptr;
  CUfunc_st* any_ = nullptr;
};

}  // namespace interlace::cuda
