// Copies between the memories of a node over all paths that help: directly, through the memory of
// other GPUs, and through the host's memory.
//
//   interlace::copy_async(dst, src, bytes, stream);   // as cudaMemcpyAsync(..., cudaMemcpyDefault)
//
// A large message between page-locked host memory and a GPU, or between two GPUs, is cut over the
// paths that make it faster (`interlace plan` prints them). The message runs as copies on several
// streams, or as a CUDA graph. The library keeps the graph and launches it again with other
// addresses. The method is that of A. Sojoodi et al., Accelerating Intra-Node GPU-to-GPU
// Communication Through Multi-Path Transfers with CUDA Graphs, section 4. Every other message is
// one plain copy on the caller's stream: small messages, memory that is not page-locked, managed
// memory, copies inside a GPU, streams of contexts that are not primary contexts, and messages that
// one path carries as fast as several paths.
//
// Messages that repeatedly overlap in time avoid each other's links. Each such message is relayed
// only by GPUs that neither send nor receive a message themselves. When a message is enqueued, the
// copier takes into account only the messages that are in flight at that time. In the first of many
// bursts, a message can therefore be slower than a plain copy. 500 ms after a message last
// overlapped with another message, it uses all paths again. Messages of different processes of a
// user avoid each other's links, too, no matter which GPUs each process can use.
//
// A copy is ordered like one asynchronous copy on `stream`: it starts after the work that is
// already on the stream, and later work on the stream starts after the copy. The host does not
// wait. As usual in CUDA, the null stream is the legacy default stream, which waits for all
// blocking streams. The caller can also give cudaStreamPerThread. If the stream is being captured,
// the copies become nodes of the stream's graph. The graph owns its staging memory until the graph
// is destroyed. Two instances of one captured graph may not run at the same time.
//
// A caller can enqueue copies that belong together by one call, as a batch. The batch is planned as
// a whole, so that no copy takes a link that another copy needs. Messages through one port run one
// after another. Their order ensures that no two senders compete for the port. All-gathers and
// all-to-alls are batches. An all-reduce is two batches with kernels between them. (The paper names
// all-reduces as future work, section 6.) A batch is ordered like one copy. All GPUs of a batch
// belong to one process.
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

struct CUstream_st;  // the type to which cudaStream_t and CUstream point

namespace interlace {

// The way in which a message is enqueued.
enum class copy_executor : std::uint8_t {
  automatic,  // streams; graphs if a message of many copies recurs
  direct,     // always one plain copy
  streams,
  graphs,
};

inline constexpr int copy_through_host = -1;
// The threshold that applies if neither the options nor the machine's profile set another
// threshold.
inline constexpr std::uint64_t copy_threshold_bytes = std::uint64_t{1} << 20U;
inline constexpr std::uint32_t most_copy_chunks = 1024;

// Each option has an environment variable, which `copy_options::from_environment` reads.
struct copy_options {
  // INTERLACE_COPY: auto, direct, streams or graphs. With auto, the machine's profile decides. If
  // there is no profile, the rule of copy_executor::automatic decides.
  copy_executor executor = copy_executor::automatic;
  // INTERLACE_COPY_THRESHOLD: a size such as 64K, 1M or 2G. A message below this size is one plain
  // copy. No value (auto) means copy_threshold_bytes, or a smaller threshold that the machine's
  // profile has. The first message of copy_threshold_bytes or more reads the profile, and so does
  // `prepare`.
  std::optional<std::uint64_t> threshold_bytes;
  // INTERLACE_COPY_RELAYS: where messages may be staged. The value is all, none, or a list such as
  // gpu1,gpu3,host. This member lists CUDA's numbers of GPUs, and copy_through_host for the host.
  // No value means all.
  std::optional<std::vector<int>> relays;
  // INTERLACE_COPY_CHUNKS: the number of chunks into which a staged part is cut. The value is auto,
  // or 1 to most_copy_chunks. With 0 (auto), the machine's profile decides. If there is no profile,
  // the planner decides. If the user gives a number, a message takes several paths even if these
  // paths are predicted to help only a little.
  std::uint32_t chunks = 0;
  // INTERLACE_COPY_PROFILE: auto, none, or a file. With auto, the library reads the profile that
  // `interlace tune copy` wrote for GPUs of this model, if there is such a profile. With none,
  // batches of blocks do not use the profile of `interlace tune blocks` either.
  std::string profile = "auto";
  // INTERLACE_COPY_STAGING: the most staging memory on each GPU and on the host. The value is 0, or
  // at least 1M.
  std::uint64_t staging_bytes = std::uint64_t{256} << 20U;
  // INTERLACE_COPY_GRAPHS: the most executable graphs that the library keeps, at least 1.
  std::uint32_t graphs = 128;
  // INTERLACE_COPY_TRAFFIC: the file through which processes see each other's messages. The value
  // is auto, none, or a path. No value (auto) means a file in /dev/shm, one for each user. An empty
  // path (none) means that processes do not see each other's messages.
  std::optional<std::string> traffic_file;

  // Reads the options from the environment. Throws usage_error if a value is not valid. The error
  // names the variable.
  static copy_options from_environment();
};

// Counts of a copier's work since the copier was made.
struct copy_statistics {
  std::uint64_t direct = 0;   // messages that were one plain copy
  std::uint64_t streams = 0;  // messages over several paths, and batches, that ran by streams
  std::uint64_t graphs = 0;   // messages over several paths, and batches, that ran by graphs
  // Messages over several paths, and batches, captured in the caller's graph.
  std::uint64_t captured = 0;
  std::uint64_t bytes = 0;  // bytes of all messages
  // The members `hits`, `misses` and `evictions` count lookups in the cache of executable graphs,
  // and removals from it.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t executables = 0;  // number of executable graphs that are kept now
  // The next five members are the host times of the phases of making and launching graphs, in
  // seconds. The three members after them count the work of these phases.
  double creation_s = 0;
  double construction_s = 0;
  double instantiation_s = 0;
  double update_s = 0;
  double launch_s = 0;
  std::uint64_t nodes = 0;          // number of nodes that were constructed
  std::uint64_t updates = 0;        // number of nodes whose addresses were changed
  std::uint64_t launches = 0;       // number of launches of graphs
  std::uint64_t staging_bytes = 0;  // sum over all places where staging memory is reserved
};

// The types of elements that an all-reduce combines. Integers are signed, and their sums wrap.
// 16-bit numbers are added as 32-bit numbers and rounded once. For a number and a NaN, the minimum
// and the maximum are the number.
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

// One side of a batch of blocks. Block i lies at base + numbers[i] * stride.
struct blocks_side {
  void* base = nullptr;    // null, together with a stride of 1, if the numbers are addresses
  std::size_t stride = 1;  // bytes from a block to the next block
  // The numbers, which must be at least 0; null stands for 0, 1, 2 and so on.
  const void* numbers = nullptr;
  std::size_t number_bytes = 8;  // bytes of each number, 4 or 8
  // All blocks of this side must lie in the first `extent` bytes from `base`. A block outside of
  // this range is refused. 0 means that the extent is unknown.
  std::size_t extent = 0;
};

// The way in which a batch of blocks was enqueued.
enum class blocks_way : std::uint8_t {
  nothing,  // every block has 0 bytes
  // one kernel reads or writes the host's memory over the GPU's link; kernels on other GPUs can
  // copy parts of a large batch over their links
  kernel,
  driver_batch,  // one call of cuMemcpyBatchAsync
  copies,        // a plain copy for each block
  // kernels copy to or from page-locked memory, and the host copies between page-locked and
  // pageable memory
  staged,
};

// Many blocks that are copied between the host's memory and a GPU, or inside a GPU. The blocks are
// copied in any order. If two destinations overlap, each byte comes from one of their blocks. If a
// destination overlaps a source, the bytes of the destination are undefined.
struct block_batch {
  blocks_side dst;
  blocks_side src;
  // The bytes of each block; null if all blocks have `bytes` bytes.
  const std::uint64_t* sizes = nullptr;
  std::size_t bytes = 0;
  std::size_t count = 0;
  // Whether the numbers of both sides lie in memory of the GPU. The GPU reads these numbers when
  // the batch runs, and nothing checks them. With such numbers, both sides need an `extent`, and
  // `sizes` must be null.
  bool numbers_on_gpu = false;
  // The most thread blocks of a kernel; 0 means the smallest number that reaches the kernel's full
  // speed.
  unsigned most_thread_blocks = 0;
  // If true, pageable memory is copied through page-locked memory. If false, pageable memory is
  // refused.
  bool stage_pageable = false;
  // The way that the batch must take: kernel, driver_batch or copies. A batch that cannot take this
  // way is refused. With `nothing`, the batch takes the way that is predicted to be the fastest.
  blocks_way only = blocks_way::nothing;
};

namespace cuda {
class copy_engine;
}

// A copy engine with its own options. Thread-safe.
class copier {
 public:
  // Throws usage_error if an option is not valid or there is no NVIDIA driver.
  explicit copier(const copy_options& options = copy_options::from_environment());
  // Waits for the copies of this copier. A captured graph that still exists keeps its staging
  // memory.
  ~copier();
  copier(copier&&) noexcept;
  copier& operator=(copier&&) noexcept;
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  // Copies `bytes` bytes from `src` to `dst`, on `stream`. Does nothing for 0 bytes. Throws
  // usage_error if the two ranges overlap. Throws device_error if the driver fails, because the
  // memory is not allocated or because the stream or the GPU no longer exists.
  void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream);
  // Makes all copies, on `stream`. The copies have no order among themselves. They start after the
  // work that is on the stream now, and later work on the stream starts after all of them. In each
  // of the following cases, the whole batch runs as plain copies, one after another:
  // - an end of a copy is neither in page-locked memory nor in the memory of a GPU,
  // - a copy is between GPUs that cannot access each other's memory,
  // - all bytes together are below the threshold,
  // - more than 256 copies are between different places.
  //
  // Copies inside a GPU run at the same time as the other copies. Throws usage_error if a range
  // that is written overlaps any other range of the batch. Otherwise the function throws the same
  // errors as copy_async.
  void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream);
  // Copies blocks, on `stream`, in the way that is predicted to be the fastest. Returns this way.
  // The caller may change `batch` and its lists after the call, except numbers on the GPU. A
  // captured batch becomes a kernel or copies in the graph, and the graph owns the lists. If
  // pageable memory is staged, the call waits for the stream, and the stream must not be captured.
  //
  // Throws usage_error if a block is outside of its `extent` or of its allocation, or at an
  // impossible address. Throws usage_error for pageable memory that is not staged. Throws
  // usage_error if the numbers are on a GPU that cannot run the kernel on this memory. Throws
  // device_error if the driver fails.
  blocks_way copy_blocks_async(const block_batch& batch, CUstream_st* stream);
  // Each of n participants sends its bytes to all participants. Participant i sends `bytes` bytes
  // from send[i]. Each participant i receives the bytes of all participants in order, n * bytes in
  // all, at receive[i]. send[i] may be receive[i] + i * bytes, the place where the participant's
  // own bytes belong. Throws usage_error unless `send` and `receive` have the same size. Otherwise
  // the function throws the same errors as copy_batch_async.
  void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t bytes, CUstream_st* stream);
  // Each of n participants sends a block to each participant. Participant i sends n blocks of
  // `bytes` bytes from send[i]. Participant j receives block j of participant i as block i of
  // receive[j]. Throws the same errors as all_gather_async.
  void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t bytes, CUstream_st* stream);
  // Combines the elements of 1 to 16 participants. Participant i has `count` elements at send[i],
  // and receives the combination of all participants' elements at receive[i]. receive[i] must
  // either be send[i] or overlap no other buffer. send[i] and receive[i] must be in the memory of
  // one GPU. Elements are combined in the order of the participants, so all participants receive
  // the same bits in every run.
  //
  // Each participant combines one part of the elements. A batch of copies brings the other
  // participants' elements of this part into staging memory, and a second batch takes the result to
  // all participants. If half of the staging memory is too small for a message, the copier cuts the
  // message into pieces. It combines one piece while it copies the next piece. If other all-reduces
  // use all staging memory, the host waits for them. In a captured graph, pieces run one after
  // another, and the graph owns the staging memory of each of its all-reduces. If graphs own much
  // staging memory, later all-reduces use smaller pieces. Graphs can own so much staging memory
  // that none is left for later all-reduces. The first all-reduce of a process loads kernels.
  // Loading can wait for kernels that are running.
  //
  // Throws usage_error for buffers that break these rules, and if the library was built without
  // nvcc. Throws device_error if no staging memory is left, or if the GPUs cannot be used together.
  // Otherwise the function throws the same errors as copy_batch_async.
  void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream);
  // Does in advance what the first large message would do: makes contexts, enables access between
  // GPUs, and finds the machine's links.
  void prepare();
  // Counts since the copier was made.
  copy_statistics statistics() const;

 private:
  std::unique_ptr<cuda::copy_engine> engine_;
};

// The following functions use the process's own copier. The first call makes this copier, with the
// options of the environment. The copier lives until the process ends.
//
// This function does the same as copier::copy_async.
void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream);
// Does the same as copier::copy_batch_async.
void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream);
// Does the same as copier::copy_blocks_async.
blocks_way copy_blocks_async(const block_batch& batch, CUstream_st* stream);
// Does the same as copier::all_gather_async.
void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream);
// Does the same as copier::all_to_all_async.
void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream);
// Does the same as copier::all_reduce_async.
void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream);
// The process's own copier.
copier& process_copier();

}  // namespace interlace
