// Copies between the memories of a node over all paths that help: directly, through the memory of
// other GPUs, and through the host's memory.
//
//   interlace::copy_async(dst, src, bytes, stream);   // as cudaMemcpyAsync(..., cudaMemcpyDefault)
//
// A large message between page-locked host memory and a GPU, or between two GPUs, is cut over the
// paths that make it faster (`interlace plan` prints them). It runs as copies on several streams,
// or as a CUDA graph that is kept and launched again with other addresses. The method is that of A.
// Sojoodi et al., Accelerating Intra-Node GPU-to-GPU Communication Through Multi-Path Transfers
// with CUDA Graphs, section 4. Everything else is one plain copy on the caller's stream: small
// messages, memory that is not page-locked, managed memory, copies inside a GPU, streams of
// contexts that are not primary ones, and messages for which one path is as fast.
//
// Messages that repeatedly come at the same time avoid each other's links: each is relayed only by
// GPUs that neither send nor receive a message of their own. A message learns of another one if its
// copy is enqueued while the other message is in flight. In the first of many bursts, a message can
// therefore be slower than a plain copy. A message uses all paths again 500 ms after it last met
// another message. Messages of all processes of a user avoid each other, whichever GPUs each
// process can use.
//
// A copy is ordered like one asynchronous copy on `stream`: it starts after the work that is
// already on the stream, and later work on the stream starts after the copy. The host does not
// wait. The null stream is the legacy default stream, which waits for all blocking streams as
// always. The caller can also give cudaStreamPerThread. If the stream is being captured, the copies
// become nodes of its graph. The graph owns its staging memory until the graph is destroyed. Two
// instances of one captured graph may not run at the same time.
//
// Copies that belong together are enqueued by one call, as a batch. The batch is planned as a
// whole, so that no copy takes a link that another copy needs. Messages through one port follow
// each other in an order in which no two senders compete for it. All-gathers and all-to-alls are
// batches. An all-reduce is two batches with kernels between them (which the paper names as future
// work, section 6). A batch is ordered like one copy. All GPUs of a batch belong to one process.
//
// The first large message makes contexts on the other GPUs, which takes some hundred MB of memory
// on each GPU and up to a second. `prepare` makes the contexts in advance. A GPU reset
// (cudaDeviceReset) ends all copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct CUstream_st;  // cudaStream_t and CUstream are pointers to it

namespace interlace {

// How a message is enqueued.
enum class copy_executor : std::uint8_t {
  automatic,  // graphs for messages of many copies from the second time on; otherwise streams
  direct,     // always one plain copy
  streams,
  graphs,
};

inline constexpr int copy_through_host = -1;
// The threshold that applies if neither the options nor the machine's profile set another one.
inline constexpr std::uint64_t copy_threshold_bytes = std::uint64_t{1} << 20U;
inline constexpr std::uint32_t most_copy_chunks = 1024;

// Each option has an environment variable, which `copy_options::from_environment` reads.
struct copy_options {
  // INTERLACE_COPY: auto, direct, streams or graphs. With auto the machine's profile decides;
  // without a profile, the rule of copy_executor::automatic does.
  copy_executor executor = copy_executor::automatic;
  // INTERLACE_COPY_THRESHOLD: the size, such as 64K, 1M or 2G, below which a message is one plain
  // copy. No value (auto): copy_threshold_bytes, or less if the machine's profile says so. The
  // first message of copy_threshold_bytes, or `prepare`, reads the profile.
  std::optional<std::uint64_t> threshold_bytes;
  // INTERLACE_COPY_RELAYS: where messages may be staged: all, none, or a list such as
  // gpu1,gpu3,host. This member lists CUDA's numbers of GPUs, and copy_through_host for the host.
  // No value: all.
  std::optional<std::vector<int>> relays;
  // INTERLACE_COPY_CHUNKS: the number of chunks of a part that is staged: auto, or 1 to
  // most_copy_chunks. 0 (auto): the machine's profile decides; without a profile, the planner does.
  // If the user gives a number, a message takes several paths even if they are predicted to help
  // only little.
  std::uint32_t chunks = 0;
  // INTERLACE_COPY_PROFILE: auto, none, or a file. auto reads the profile that `interlace tune
  // copy` wrote for GPUs of this model, if there is one. With none, batches of blocks do not use
  // the profile of `interlace tune blocks` either.
  std::string profile = "auto";
  // INTERLACE_COPY_STAGING: the most staging memory on each GPU and on the host: 0, or at least 1M.
  std::uint64_t staging_bytes = std::uint64_t{256} << 20U;
  // INTERLACE_COPY_GRAPHS: the most executable graphs that are kept, at least 1.
  std::uint32_t graphs = 128;
  // INTERLACE_COPY_TRAFFIC: the file through which processes see each other's messages: auto, none,
  // or a path. No value (auto): a file in /dev/shm for each user. Empty (none): processes do not
  // see each other's messages.
  std::optional<std::string> traffic_file;

  // Throws usage_error that names the variable if a value is not valid.
  static copy_options from_environment();
};

// Counts of a copier's work since it was made.
struct copy_statistics {
  std::uint64_t direct = 0;    // messages that were one plain copy
  std::uint64_t streams = 0;   // messages over several paths, and batches, by streams
  std::uint64_t graphs = 0;    // messages over several paths, and batches, by graphs
  std::uint64_t captured = 0;  // messages over several paths, and batches, in the caller's graph
  std::uint64_t bytes = 0;     // bytes of all messages
  // The cache of executable graphs.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t executables = 0;  // kept now
  // The host time in seconds of each phase of graphs, and the amount of work in that phase.
  double creation_s = 0;
  double construction_s = 0;
  double instantiation_s = 0;
  double update_s = 0;
  double launch_s = 0;
  std::uint64_t nodes = 0;          // constructed
  std::uint64_t updates = 0;        // nodes whose addresses were changed
  std::uint64_t launches = 0;       // launches of graphs
  std::uint64_t staging_bytes = 0;  // the sum over all places where memory is reserved
};

// The types of elements that an all-reduce combines. Integers are signed, and their sums wrap.
// 16-bit numbers are added as 32-bit numbers and rounded once. The minimum or maximum of a number
// and a NaN is the number.
enum class reduced_type : std::uint8_t { float32, float64, float16, bfloat16, int32, int64 };
inline constexpr std::size_t reduced_types = 6;
// The operation that combines two elements.
enum class reduce_by : std::uint8_t { sum, min, max };
inline constexpr std::size_t reduce_kinds = 3;

// One copy of a batch.
struct batch_copy {
  void* dst = nullptr;
  const void* src = nullptr;
  std::size_t bytes = 0;
};

// One side of a batch of blocks: block i lies at base + numbers[i] * stride.
struct blocks_side {
  void* base = nullptr;           // null, with a stride of 1, if the numbers are addresses
  std::size_t stride = 1;         // bytes from a block to the next one
  const void* numbers = nullptr;  // at least 0; null stands for 0, 1, 2 and so on
  std::size_t number_bytes = 8;   // bytes of each number, 4 or 8
  // The bytes from `base` on in which all blocks of this side must lie; a block outside of them is
  // refused. 0: unknown.
  std::size_t extent = 0;
};

// How a batch of blocks was enqueued.
enum class blocks_way : std::uint8_t {
  nothing,       // every block has 0 bytes
  kernel,        // one kernel reads or writes the host's memory over the link
  driver_batch,  // one call of cuMemcpyBatchAsync
  copies,        // a plain copy for each block
  staged,        // kernels to or from page-locked memory, and host copies between that memory and
                 // pageable memory
};

// Many blocks between the host's memory and a GPU, or inside a GPU. The blocks are copied in any
// order. If two destinations overlap, each byte comes from one of their blocks; if a destination
// overlaps a source, the bytes are undefined.
struct block_batch {
  blocks_side dst;
  blocks_side src;
  const std::uint64_t* sizes = nullptr;  // bytes of each block; null if all blocks have `bytes`
  std::size_t bytes = 0;
  std::size_t count = 0;
  // The numbers of both sides lie in memory of the GPU. The GPU reads them when the batch runs, and
  // nobody checks them. Both sides need an `extent`, and there can be no `sizes`.
  bool numbers_on_gpu = false;
  unsigned most_thread_blocks =
      0;  // most thread blocks of a kernel; 0: the fewest that reach the kernel's full speed
  bool stage_pageable =
      false;  // whether pageable memory is copied through page-locked memory; if not, it is refused
  // The way to take: kernel, driver_batch or copies. A batch for which it is impossible is refused.
  // `nothing` takes the way that is predicted to be the fastest.
  blocks_way only = blocks_way::nothing;
};

namespace cuda {
class copy_engine;
}

// A copy engine with options of its own. Thread-safe.
class copier {
 public:
  // Throws usage_error if an option is not valid or there is no NVIDIA driver.
  explicit copier(const copy_options& options = copy_options::from_environment());
  // Waits for the copies of this copier. Captured graphs that still exist keep their staging
  // memory.
  ~copier();
  copier(copier&&) noexcept;
  copier& operator=(copier&&) noexcept;
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  // Copies `bytes` from `src` to `dst`, on `stream`; does nothing for 0 bytes. Throws usage_error
  // if the ranges overlap, and device_error if the driver fails: the memory is not allocated, or
  // the stream or the GPU does not exist any more.
  void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream);
  // Makes all copies, on `stream`, in no order among themselves. They start after the work that the
  // stream has, and later work on the stream starts after all of them. The whole batch is plain
  // copies, one after another,
  // - if a copy has an end that is neither in page-locked memory nor in the memory of a GPU,
  // - if a copy is between GPUs without access to each other,
  // - if all bytes together are below the threshold, or
  // - if more than 256 copies are between different places.
  // Copies inside GPUs run at the same time as the others. Throws usage_error if a range that is
  // written overlaps any other range of the batch. Otherwise it throws the same errors as
  // copy_async.
  void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream);
  // Copies blocks, on `stream`, by the way that is predicted to be the fastest, and returns the
  // way. `batch` and its lists may change after the call, except numbers on the GPU. A captured
  // batch is a kernel or copies; the graph owns the lists. If pageable memory is staged, the call
  // waits for the stream, and the stream must not be captured. Throws usage_error for a block
  // outside of its `extent`, its allocation or all addresses, for pageable memory that is not
  // staged, and if the numbers are on a GPU that cannot run the kernel on this memory; device_error
  // if the driver fails.
  blocks_way copy_blocks_async(const block_batch& batch, CUstream_st* stream);
  // Participant i of n sends `bytes` from send[i]. Each participant i receives the bytes of all
  // participants in order, n * bytes in all, at receive[i]. send[i] can be the place where its own
  // bytes belong, receive[i] + i * bytes. Throws usage_error unless `send` and `receive` have the
  // same size. Otherwise it throws the same errors as copy_batch_async.
  void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t bytes, CUstream_st* stream);
  // Participant i of n sends n blocks of `bytes` from send[i]. Block j goes to participant j, which
  // receives it as block i of receive[j]. Throws the same errors as all_gather_async.
  void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t bytes, CUstream_st* stream);
  // Participant i of 1 to 16 has `count` elements at send[i], and receives the combination of all
  // participants' elements at receive[i]. receive[i] is send[i] or overlaps no other buffer; both
  // must be in the memory of one GPU. Elements are combined in the order of the participants, so
  // all participants receive the same bits, in every run.
  //
  // Each participant combines one part. A batch of copies brings the other participants' elements
  // of this part into staging memory, and a second batch takes the result to all participants. If
  // half of the staging memory is too small for a message, the message goes in pieces, and a piece
  // is combined while the next one is copied. If other all-reduces use all staging memory, the host
  // waits for them. In a captured graph, pieces follow each other, and the graph owns the staging
  // memory of each of its all-reduces. If graphs own many of them, later all-reduces have smaller
  // pieces, and in the end no memory. The first all-reduce of a process loads kernels, which can
  // wait for kernels that run.
  //
  // Throws usage_error for other buffers, and if the library was built without nvcc. Throws
  // device_error if no staging memory is left, or if the GPUs cannot be used together. Otherwise it
  // throws the same errors as copy_batch_async.
  void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream);
  // Does what the first large message would do: makes contexts, enables access between GPUs, and
  // finds the machine's links.
  void prepare();
  // Counts since the copier was made.
  copy_statistics statistics() const;

 private:
  std::unique_ptr<cuda::copy_engine> engine_;
};

// The following functions use the process's own copier. The first call makes this
// copier, with the options of the environment. The copier lives until the process ends.
//
// Same as copier::copy_async.
void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream);
// Same as copier::copy_batch_async.
void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream);
// Same as copier::copy_blocks_async.
blocks_way copy_blocks_async(const block_batch& batch, CUstream_st* stream);
// Same as copier::all_gather_async.
void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream);
// Same as copier::all_to_all_async.
void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream);
// Same as copier::all_reduce_async.
void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream);
// The process's own copier.
copier& process_copier();

}  // namespace interlace
