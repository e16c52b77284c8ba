// All-reduces. A batch of copies brings each participant the others' elements of its part, a kernel
// on every GPU combines them, and another batch brings the results to all participants.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_batch.hpp"
#include "cuda/transfer/reductions.hpp"
#include "cuda/transfer/staging_pool.hpp"
#include "cuda/transfer/stream_executor.hpp"
#include "interlace/copy.hpp"

namespace interlace::cuda {

struct all_reduce_call {
  std::vector<device_address> send;  // by participant
  std::vector<device_address> receive;
  std::uint64_t count = 0;  // elements
  reduced_type type = reduced_type::float32;
  reduce_by by = reduce_by::sum;
};

// Bytes of a buffer, relative to its begin.
struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

// How a message is cut. Pieces follow each other. Each piece has a part for every participant,
// which reduces it. Parts begin at multiples of a vector's bytes; parts at the end can be empty.
struct all_reduce_cut {
  std::vector<std::vector<byte_range>> pieces;  // [piece][participant]
  std::uint64_t slot_bytes = 0;  // of staging memory, for a part of another participant
  std::uint64_t set_bytes = 0;   // for a participant: a slot for each other participant
  std::uint32_t sets = 1;        // 2: a piece is received while its predecessor is reduced
};

// Cuts a message. `staging_bytes` is the memory that a participant can have for all its sets. The
// cut is one piece in one set if that fits; otherwise `overlap` says whether there are two sets.
// The cut has no pieces if the smallest parts do not fit. There must be at least 2 participants and
// 1 byte.
all_reduce_cut cut_all_reduce(std::uint64_t bytes, std::size_t participants,
                              std::uint64_t staging_bytes, bool overlap);

// Throws usage_error unless `copier::all_reduce_async` accepts the call, as far as its addresses
// tell.
void check_all_reduce(const all_reduce_call& what);

// The GPU of each participant. Throws usage_error unless each participant has both buffers in the
// memory of one GPU.
std::vector<int> gpus_of_participants(const contexts& of, const all_reduce_call& what);

// Resources that an all-reduce uses for memory and for enqueueing.
struct all_reduce_resources {
  contexts& gpus;
  reductions& kernels;
  stream_executor& streams;
  std::function<staging_pool&(int)> pool;  // of a GPU
  std::mutex& staging;                     // held while memory is taken from several pools
  std::uint64_t staging_bytes = 0;         // of each pool; all-reduces take half of it
  std::function<void(std::span<const batch_part>)> copy;  // a batch, on the caller's stream
  // The graph owns the staging memory from now on.
  std::function<void(CUgraph_st*, std::vector<placed_block>)> give_to_graph;
};

// Enqueues the all-reduce on the caller's stream, whose context is a primary one. `gpus` are the
// participants' GPUs. If anything fails, waits for the enqueued work and throws device_error.
void enqueue_all_reduce(const all_reduce_call& what, const std::vector<int>& gpus,
                        const caller_stream& caller, const all_reduce_resources& by);
// Adds the all-reduce to the graph that the caller's stream is captured into.
void capture_all_reduce(const all_reduce_call& what, const std::vector<int>& gpus,
                        const caller_stream& caller, const all_reduce_resources& by);

}  // namespace interlace::cuda
