// The kernels that copy batches of blocks, in one context.
#pragma once

#include <cstdint>

#include "cuda/transfer/block_arguments.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {

inline constexpr unsigned block_kernel_threads = 512;  // most threads of a thread block

// Thrown if the driver can never load the kernels.
class no_block_kernels : public device_error {
 public:
  using device_error::device_error;
};

class block_kernels {
 public:
  // Loads the kernels into the current context, which takes a few ms the first time. After this
  // call, launches do not have to wait for running kernels. Throws no_block_kernels if the driver
  // can never load the kernels, and device_error if the driver fails.
  explicit block_kernels(const driver_table& driver);
  // Unloads the kernels. The context must be current.
  ~block_kernels();
  block_kernels(const block_kernels&) = delete;
  block_kernels& operator=(const block_kernels&) = delete;

  // Tells this object that the context has ended, and the kernels with it. After this call, the
  // destructor does not call the driver.
  void abandon() { module_ = nullptr; }

  // Enqueues a kernel on a stream of the context: the kernel for even blocks if `even` is true, and
  // otherwise the kernel for any blocks. The kernel has at most `thread_blocks` thread blocks. This
  // function sets `run` in the arguments. Throws device_error.
  void launch(block_arguments& what, bool even, unsigned thread_blocks, CUstream_st* stream) const;

 private:
  const driver_table& driver_;
  CUmod_st* module_ = nullptr;
  CUfunc_st* even_ = nullptr;
  CUfunc_st* any_ = nullptr;
};

}  // namespace interlace::cuda
