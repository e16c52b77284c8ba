// The agent, which moves complete chunks while the kernel that writes them still runs (PROACT,
// section III-C). This file also has a check that finds launches that announced their chunks
// wrongly.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "interlace/cuda/region/exchange.hpp"
#include "interlace/cuda/shared_gpu.hpp"
#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/replicas.hpp"

namespace interlace::cuda {

struct agent_arguments {
  barrier_arguments barrier;  // the deadline, and where to report failures
  kernel::chunk_table table;
  std::uint32_t blocks_per_chunk = 1;  // launch_agent sets this member
  // Word 0 is set once all blocks run. Word 1 counts the blocks that run. The exchange clears both
  // words.
  unsigned int* started = nullptr;
  kernel::replicas where;
};

// The number of threads of an agent's block. The number is small, so that a block of the agent fits
// into the room that one ended block of the kernel leaves on a multiprocessor.
inline constexpr std::uint32_t agent_block_threads = 128;

// The reason why agents cannot copy in bulk on the current device: their code was compiled for a
// compute capability below 9.0. The text is empty if they can copy in bulk.
std::string why_no_bulk_agent();

// Throws usage_error if the GPU has no code for the agent. Also throws usage_error if the whole
// agent and one block of the kernel do not fit on the GPU at the same time. In that case neither
// the agent nor the kernel would ever end.
void check_agent(const kernel::region_options& how, const grid& kernel, int ordinal);

// The resources that the agent takes on the current device.
grid_needs agent_needs(const kernel::region_options& how);

// The percentage of a multiprocessor's shared memory that the agent's blocks take on the GPU.
unsigned int agent_shared_percent(const kernel::region_options& how, int ordinal);

// Launches the polling agent of a launch with how.agent_threads threads. The agent's blocks have at
// most agent_block_threads threads, or one warp if the agent copies in bulk. Each block looks at
// its next 32 parts of chunks, and stores the complete parts to the devices that receive the chunk.
//
// Memory ordering: the agent reads a counter with acquire at device scope, and blocks announce with
// release. The agent therefore copies what the blocks wrote. A device sees the agent's stores after
// its next exchange, because the exchange comes after the agent in the launching device's stream.
//
// `shared_percent` is the percentage of a multiprocessor's shared memory that is set aside for the
// agent and for the kernel beside it. The L1 uses the remaining memory. This percentage cannot
// change while the agent runs. If it leaves too little shared memory for the kernel's blocks, only
// few of them run at a time. If it leaves too little for the agent's blocks, the agent never runs
// as a whole.
void launch_agent(agent_arguments a, const kernel::region_options& how, unsigned int shared_percent,
                  cudaStream_t stream);

// Enqueues a check after a tracked launch, in the launch's stream. The check reports a chunk whose
// counter is not at its target. It then releases everything that waits for the launch's chunks.
void launch_check(const barrier_arguments& b, const kernel::chunk_table& table,
                  cudaStream_t stream);

// Enqueues a wait until `*flag` is at least 1. If the stream is being captured, the wait becomes a
// node of the graph.
void enqueue_wait(cudaStream_t stream, const unsigned int* flag);

// Loads the kernels of this file on the current device.
void load_agent_kernels();

}  // namespace interlace::cuda
