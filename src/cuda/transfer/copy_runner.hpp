// Runs planned copies. It takes staging memory for the copies. Then it enqueues the copies on
// streams, launches them as a graph, or adds them to the graph that the caller captures. It also
// makes plain copies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_accounts.hpp"
#include "cuda/transfer/copy_call.hpp"
#include "cuda/transfer/copy_report.hpp"
#include "cuda/transfer/graph_cache.hpp"
#include "cuda/transfer/reductions.hpp"
#include "cuda/transfer/staging_pool.hpp"
#include "cuda/transfer/stream_executor.hpp"
#include "interlace/copy.hpp"

namespace interlace::cuda {

// Enqueues one copy on the caller's stream, by one call of the driver. Throws device_error.
void enqueue_plain_copy(const driver_table& driver, device_address to, device_address from,
                        std::uint64_t bytes, CUstream_st* stream);

// Runs planned copies. Thread-safe.
class copy_runner {
 public:
  // `of` and `image` must outlive the runner. `accounts` must outlive all calls, but can end before
  // the runner. A runner lives longer than its engine if captured graphs own the runner's staging
  // memory.
  copy_runner(contexts& of, const copy_options& options, kernel_image image,
              copy_accounts& accounts);

  // Enqueues the planned call on its stream. Returns the executor that was used, streams or graph.
  // Returns no value if there is no staging memory or no stream for the call; in this case, nothing
  // was enqueued. If the function throws device_error, it has waited for the work that it enqueued.
  std::optional<copy_result> run(copy_call& call);
  // Adds the planned call to the graph that captures the call's stream. Returns false if there is
  // no staging memory for the call. Throws device_error.
  bool capture(copy_call& call);
  // Makes the graph the owner of the staging memory. Everything that is instantiated from the graph
  // owns the memory, too. Throws device_error.
  void give_to_graph(CUgraph_st* graph, std::vector<placed_block> blocks);
  // Whether a graph owns staging memory.
  bool graphs_own_staging() const { return owning_graphs_.load() > 0; }

  // All-reduces use `kernels`, `streams` and `pool`.
  reductions& kernels() { return kernels_; }
  stream_executor& streams() { return streams_; }
  staging_pool& pool(int place);  // `place` is the number of a GPU, or host_place
  // An all-reduce holds this mutex while it takes memory from several pools.
  std::mutex& staging_mutex() { return staging_mutex_; }

  // Adds the counts of graphs and of staging memory.
  void add_to(copy_statistics& now) const;

 private:
  bool uses_graph(const copy_call& call) const;
  bool take_staging(copy_call& call);
  void return_staging(copy_call& call, const shared_completion& end);

  contexts& contexts_;
  copy_accounts& accounts_;
  copy_executor executor_;  // the executor that the options name
  // one for each GPU, followed by the host's pool
  std::vector<std::unique_ptr<staging_pool>> pools_;
  std::mutex staging_mutex_;
  std::atomic<std::uint64_t> owning_graphs_{0};
  graph_cache graphs_;
  reductions kernels_;
  stream_executor streams_;
};

}  // namespace interlace::cuda
