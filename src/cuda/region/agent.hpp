// What moves complete chunks while the kernel that writes them still runs (PROACT, section III-C),
// and what finds out that a launch announced its chunks wrongly.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "interlace/cuda/region/exchange.hpp"
#include "interlace/cuda/shared_gpu.hpp"
#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/replicas.hpp"

namespace interlace::cuda {

struct agent_arguments {
  barrier_arguments barrier;  // deadline, failures
  kernel::chunk_table table;
  std::uint32_t blocks_per_chunk = 1;  // launch_agent decides
  unsigned int* started = nullptr;     // [0] once all blocks run, which [1] counts; both cleared
  kernel::replicas where;
};

// Few enough that a block of the agent fits where one of a kernel has ended.
inline constexpr std::uint32_t agent_block_threads = 128;

// Throws usage_error if the agent would not run as a whole on the GPU with a block of the kernel
// beside it: neither would then end.
void check_agent(const kernel::region_options& how, const grid& kernel, int ordinal);

// What the agent takes of the current device.
grid_needs agent_needs(const kernel::region_options& how);

// What the agent's blocks take of the shared memory that a multiprocessor of the GPU can have, in
// percent.
unsigned int agent_shared_percent(const kernel::region_options& how, int ordinal);

// The polling agent of a launch: how.agent_threads threads, in blocks of at most
// agent_block_threads, or of a warp where it copies in bulk. Each block looks at its next 32 parts
// of chunks and stores those that are complete to the chunk's devices.
//
// Ordering. The agent reads a counter with acquire, device scope; blocks announce with release. So
// it copies what they wrote. Its stores are visible to a device that has passed the next exchange,
// which stands behind the agent in the launching device's stream.
//
// `shared_percent` of what a multiprocessor can have of shared memory is set aside for the agent
// and the kernel that runs beside it, the rest is L1. While the agent runs, that cannot change: a
// kernel whose blocks do not find their shared memory gets few places, and an agent whose own do
// not never runs as a whole.
void launch_agent(agent_arguments a, const kernel::region_options& how, unsigned int shared_percent,
                  cudaStream_t stream);

// Behind a tracked launch in its stream: reports a chunk whose counter is not at its target, and
// then lets all that waits for the launch's chunks go.
void launch_check(const barrier_arguments& b, const kernel::chunk_table& table,
                  cudaStream_t stream);

// Enqueues a wait until `*flag` is at least 1. Captured, it becomes a node of the graph.
void enqueue_wait(cudaStream_t stream, const unsigned int* flag);

// Loads the above on the current device.
void load_agent_kernels();

}  // namespace interlace::cuda
