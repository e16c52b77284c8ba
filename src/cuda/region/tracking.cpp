#include "cuda/region/tracking.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "cuda/region/agent.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

// The most chunks of a launch for which streams can wait. Each chunk takes two operations on a
// stream for each peer.
constexpr std::size_t most_waits = 256;

}  // namespace

launch_tracking make_tracking(device_memory& memory, int ordinal,
                              const std::vector<kernel::chunk>& chunks,
                              const kernel::publications& announced, std::uint32_t region,
                              const kernel::region_state& state, chunk_waiter waiter) {
  const std::size_t count = chunks.size();
  const bool waits = waiter == chunk_waiter::streams;
  if (waits && count > most_waits) {
    throw usage_error(std::string("the ") + kernel::mechanism_name(state.options.mechanism) +
                      " mechanism would wait for " + std::to_string(count) + " chunks of " +
                      std::to_string(state.options.chunk_bytes) + " bytes; at most " +
                      std::to_string(most_waits) + " are possible: use larger chunks");
  }
  const current_device on(ordinal);
  const auto put = [&](const auto& values) {
    const std::uint64_t bytes = values.size() * sizeof(values[0]);
    void* to = memory.take(ordinal, std::max<std::uint64_t>(bytes, sizeof(counter)));
    INTERLACE_CUDA_CHECK(cudaMemcpy(to, values.data(), bytes, cudaMemcpyHostToDevice));
    return to;
  };
  launch_tracking made;
  kernel::chunk_table& table = made.table;
  table.region = region;
  table.element_bytes = state.element_bytes;
  table.count = static_cast<std::uint32_t>(count);
  if (announced.first.size() > 1) {
    table.first = static_cast<const std::uint32_t*>(put(announced.first));
    table.entries = static_cast<const kernel::publication*>(put(announced.entries));
  }
  table.chunks = static_cast<const kernel::chunk*>(put(chunks));
  table.targets = static_cast<const counter*>(
      put(std::vector<counter>(announced.targets.begin(), announced.targets.end())));
  table.counters = static_cast<counter*>(put(std::vector<counter>(count, 0)));
  made.launches = static_cast<counter*>(put(std::vector<counter>(1, 0)));
  table.launches = made.launches;
  table.copy_threads = state.options.agent_threads;
  if (!state.options.transfers) {
    // No stream and no agent waits for the chunks.
  } else if (waits) {
    table.flags = static_cast<unsigned int*>(put(std::vector<unsigned int>(count, 0)));
  } else if (waiter == chunk_waiter::agent) {
    made.started = static_cast<unsigned int*>(put(std::vector<unsigned int>(2, 0)));
  }
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  return made;
}

std::uint32_t receivers(const std::vector<kernel::chunk>& chunks) {
  std::uint32_t peers = 0;
  for (const kernel::chunk& chunk : chunks) peers |= chunk.peers;
  return peers;
}

std::uint32_t copy_lanes(std::uint32_t peers) { return std::popcount(peers) == 1 ? 2 : 1; }

void enqueue_chunk_copies(const std::vector<kernel::chunk>& chunks,
                          const kernel::chunk_table& table, const copy_stream& how,
                          const std::byte* from, std::byte* to, cudaStream_t stream) {
  for (std::size_t c = how.lane; c < chunks.size(); c += how.lanes) {
    const kernel::chunk& chunk = chunks[c];
    if ((chunk.peers >> how.peer & 1U) == 0) continue;
    enqueue_wait(stream, table.flags + c);
    const std::uint64_t at = chunk.begin * table.element_bytes;
    const std::uint64_t bytes = (chunk.end - chunk.begin) * table.element_bytes;
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(to + at, from + at, bytes, cudaMemcpyDefault, stream));
  }
}

}  // namespace interlace::cuda
