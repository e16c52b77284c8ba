// Other GPUs that copy a part of a batch of blocks, each over its own link to the host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/transfer/block_memory.hpp"
#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

// A batch between the host's memory and the memory of a GPU.
struct block_need {
  bool to_gpu = true;
  CUctx_st* context = nullptr;  // context of the GPU
  CUstream_st* stream = nullptr;
  std::uint64_t bytes = 0;
  double kernel_us = 0;  // the predicted time of the kernel on this GPU alone
  double best_us = 0;    // the predicted time of the fastest way without help
};

// GPUs that are lent to one batch. Their kernels can use the memory of the batch's GPU.
class block_help {
 public:
  struct gpu {
    CUctx_st* context = nullptr;
    // Work that is launched on this stream runs after the earlier work of the batch's stream.
    CUstream_st* stream = nullptr;
    double share = 0;  // share of the batch's bytes that the GPU copies
  };

  virtual ~block_help() = default;
  block_help(const block_help&) = delete;
  block_help& operator=(const block_help&) = delete;

  virtual const std::vector<gpu>& gpus() const = 0;
  // Orders all later work of the batch's stream after the work that was launched on the lent GPUs'
  // streams. Call this function once, after the last launch, even if nothing was launched. Throws
  // device_error. After an error, all launched work is complete.
  virtual void finish() = 0;

 protected:
  block_help() = default;
};

// The functions of a copy engine that help with batches of blocks. Each function may be empty.
struct block_helpers {
  // Lends GPUs that copy parts of the batch. Returns null if no GPU can help. Throws device_error.
  std::function<std::unique_ptr<block_help>(const block_need&)> lend = {};
  // Returns the GPUs whose memory the GPU of the context can use. Throws device_error.
  std::function<peer_contexts(const CUctx_st* context)> peers_of = {};
};

}  // namespace interlace::cuda
