// What moves complete chunks while the kernel that writes them still runs (PROACT, section III-C),
// and what finds out that a launch announced its chunks wrongly.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/region/exchange.hpp"
#include "kernel/chunk_table.hpp"

namespace interlace::cuda {

struct agent_arguments {
  barrier_arguments barrier;  // deadline, failures
  kernel::chunk_table table;
  std::uint32_t blocks_per_chunk = 1;  // launch_agent decides
  unsigned int* started = nullptr;     // [0] once all blocks run, which [1] counts; both cleared
  const std::byte* from = nullptr;     // the replica that the launch writes
  std::byte* to[max_devices] = {};     // those of the devices
};

// Few enough that a block of the agent fits where one of a kernel has ended.
inline constexpr std::uint32_t agent_block_threads = 128;

// The polling agent: `threads` threads, in blocks of at most agent_block_threads. Each block looks
// at its next 32 parts of chunks and stores those that are complete to the chunk's devices, 16
// bytes a thread.
//
// Ordering. The agent reads a counter with acquire, device scope; blocks announce with release. So
// it copies what they wrote. Its stores are visible to a device that has passed the next exchange,
// which stands behind the agent in the launching device's stream.
void launch_agent(agent_arguments a, std::uint64_t chunk_bytes, std::uint32_t threads,
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
