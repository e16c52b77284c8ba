// All-reduces. A batch of copies brings each participant the elements of its part from all other
// participants. A kernel on every GPU combines these elements. Another batch brings the results to
// all participants.
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
  std::vector<device_address> send;  // for each participant, the address of its elements
  std::vector<device_address> receive;
  std::uint64_t count = 0;  // number of elements
  reduced_type type = reduced_type::float32;
  reduce_by by = reduce_by::sum;
};

// A range of bytes of a buffer, relative to the beginning of the buffer.
struct byte_range {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

// The division of a message into pieces, which run one after another. Each piece has one part for
// each participant, and this participant reduces the part. The offset of each part is a multiple of
// a vector's size. Parts at the end can be empty.
struct all_reduce_cut {
  std::vector<std::vector<byte_range>> pieces;  // [piece][participant]
  std::uint64_t slot_bytes = 0;  // size of the staging memory for a part of another participant
  // The size of a participant's set, which has a slot for each other participant.
  std::uint64_t set_bytes = 0;
  std::uint32_t sets = 1;  // with 2 sets, a piece is received while the previous piece is reduced
};

// Cuts a message. `staging_bytes` is the memory that a participant can have for all its sets. If
// one piece in one set fits, the cut has one piece and one set. Otherwise the cut has several
// pieces, with two sets if `overlap` is true and one set if it is false. The cut has no pieces if
// not even the smallest parts fit. There must be at least 2 participants and 1 byte.
all_reduce_cut cut_all_reduce(std::uint64_t bytes, std::size_t participants,
                              std::uint64_t staging_bytes, bool overlap);

// Throws usage_error if `copier::all_reduce_async` does not accept the call. This check uses only
// the addresses and does not call the driver.
void check_all_reduce(const all_reduce_call& what);

// The GPU of each participant. Throws usage_error unless both buffers of each participant are in
// the memory of one GPU.
std::vector<int> gpus_of_participants(const contexts& of, const all_reduce_call& what);

// The resources with which an all-reduce gets memory and enqueues its work.
struct all_reduce_resources {
  contexts& gpus;
  reductions& kernels;
  stream_executor& streams;
  std::function<staging_pool&(int)> pool;  // returns the pool of a GPU
  std::mutex& staging;                     // held while memory is taken from several pools
  std::uint64_t staging_bytes = 0;  // the size of each pool; all-reduces take at most half of it
  // Enqueues a batch on the caller's stream, with a role as in `copy_call`.
  std::function<void(std::span<const batch_part>, std::uint32_t role)> copy;
  // Makes a graph the owner of staging memory.
  std::function<void(CUgraph_st*, std::vector<placed_block>)> give_to_graph;
};

// Enqueues the all-reduce on the caller's stream. The stream's context must be a primary context.
// `gpus` are the participants' GPUs. If a step fails, the function waits for the work that it has
// enqueued, and throws device_error.
void enqueue_all_reduce(const all_reduce_call& what, const std::vector<int>& gpus,
                        const caller_stream& caller, const all_reduce_resources& by);
// Adds the all-reduce to the graph that captures the caller's stream.
void capture_all_reduce(const all_reduce_call& what, const std::vector<int>& gpus,
                        const caller_stream& caller, const all_reduce_resources& by);

}  // namespace interlace::cuda
