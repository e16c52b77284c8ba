// Copies between the memories of a node over all the wires that help: directly, through the memory
// of other GPUs, through the host's.
//
//   interlace::copy_async(dst, src, bytes, stream);   // as cudaMemcpyAsync(..., cudaMemcpyDefault)
//
// A large message between page-locked host memory and a GPU, or between two GPUs, is cut over the
// paths that make it faster (`interlace plan` prints them) and runs as copies on several streams,
// or as a CUDA graph that is kept and launched again with other addresses. The method is that of
// A. Sojoodi et al., Accelerating Intra-Node GPU-to-GPU Communication Through Multi-Path Transfers
// with CUDA Graphs, section 4. Everything else is one plain copy on the caller's stream: small
// messages, memory that is not page-locked, managed memory, copies inside a GPU, streams of
// contexts that are not primary ones, and whatever one path carries as fast.
//
// A message keeps off the links of messages that come at the same time, again and again: its relays
// are GPUs that send and receive nothing themselves. It learns of them when it is made while they
// are under way, so that in the first of many bursts a message may be slower than a plain copy, and
// it goes back to all paths 500 ms after it met the last of them. Processes of a user see each
// other's messages, whichever GPUs each of them may use.
//
// Ordering is that of one asynchronous copy on `stream`: it begins behind what the stream was given
// before, and what the stream is given later begins behind it. The host does not wait. The null
// stream is the legacy default stream, which waits for all blocking streams as it always does;
// cudaStreamPerThread may be given as well. A stream that is being captured gets the copies as
// nodes of its graph, which has staging memory of its own for its life; instances of one captured
// graph may not run at the same time.
//
// Copies that belong together are given at once, as a batch: they are planned together, so that
// none takes a link that another one needs, and messages behind one port follow each other in an
// order in which no two senders meet. All-gathers and all-to-alls are batches, and an all-reduce is
// two with kernels between (what the paper names as future work, section 6). A batch is ordered
// like one copy; one process has all its GPUs.
//
// The first large message makes contexts on the other GPUs (some hundred MB of each one's memory)
// and may take a second; `prepare` does that ahead. A GPU reset (cudaDeviceReset) ends all copies.
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

enum class copy_executor : std::uint8_t {
  automatic,  // graphs for what comes again with many copies, else streams
  direct,     // always one plain copy
  streams,
  graphs,
};

inline constexpr int copy_through_host = -1;
// Where neither the options nor the machine's profile say anything else.
inline constexpr std::uint64_t copy_threshold_bytes = std::uint64_t{1} << 20U;
inline constexpr std::uint32_t most_copy_chunks = 1024;

// Each has an environment variable, for which `copy_options::from_environment` looks.
struct copy_options {
  // INTERLACE_COPY: auto (what the machine's profile says, else as above), direct, streams or
  // graphs.
  copy_executor executor = copy_executor::automatic;
  // INTERLACE_COPY_THRESHOLD: a message of fewer bytes is one plain copy; 64K, 1M, 2G. No value
  // (auto): copy_threshold_bytes, or less where the machine's profile says so, which is read with
  // the first message of that size or by `prepare`.
  std::optional<std::uint64_t> threshold_bytes;
  // INTERLACE_COPY_RELAYS: where messages may be staged: all, none, or a list as gpu1,gpu3,host.
  // CUDA's numbers of GPUs, copy_through_host; no value: all.
  std::optional<std::vector<int>> relays;
  // INTERLACE_COPY_CHUNKS: chunks of a part that is staged, auto or up to most_copy_chunks; 0: what
  // the machine's profile says, else what the planner takes. With a number, paths are used that are
  // predicted to help by little.
  std::uint32_t chunks = 0;
  // INTERLACE_COPY_PROFILE: auto (what `interlace tune copy` wrote for GPUs of this model, if it
  // did), none, or a file.
  std::string profile = "auto";
  // INTERLACE_COPY_STAGING: staging memory on each GPU, and on the host, at most; 0, or 1M and
  // more.
  std::uint64_t staging_bytes = std::uint64_t{256} << 20U;
  // INTERLACE_COPY_GRAPHS: executable graphs that are kept, at least 1.
  std::uint32_t graphs = 128;
  // INTERLACE_COPY_TRAFFIC: the file in which processes see each other's messages: auto, none, or a
  // path. No value: one in /dev/shm for each user; empty: none, they do not see each other.
  std::optional<std::string> traffic_file;

  // Throws usage_error, which names the variable, for a value that means nothing.
  static copy_options from_environment();
};

struct copy_statistics {
  std::uint64_t direct = 0;    // messages that were one plain copy
  std::uint64_t streams = 0;   // messages over several paths, and batches, by streams
  std::uint64_t graphs = 0;    // the same, by graphs
  std::uint64_t captured = 0;  // the same, in the caller's graph
  std::uint64_t bytes = 0;     // of all messages
  // The cache of executable graphs.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t executables = 0;  // there now
  // Host time, in seconds, of the phases of graphs, and what they were spent on.
  double creation_s = 0;
  double construction_s = 0;
  double instantiation_s = 0;
  double update_s = 0;
  double launch_s = 0;
  std::uint64_t nodes = 0;          // constructed
  std::uint64_t updates = 0;        // whose addresses were changed
  std::uint64_t launches = 0;       // of graphs
  std::uint64_t staging_bytes = 0;  // reserved, all places together
};

// What an all-reduce combines, and how. Integers are signed, and their sums wrap. Numbers of 16
// bits are added as 32-bit ones and rounded once. Of a number and a NaN the least and the greatest
// is the number.
enum class reduced_type : std::uint8_t { float32, float64, float16, bfloat16, int32, int64 };
inline constexpr std::size_t reduced_types = 6;
enum class reduce_by : std::uint8_t { sum, min, max };
inline constexpr std::size_t reduce_kinds = 3;

// One copy of a batch.
struct batch_copy {
  void* dst = nullptr;
  const void* src = nullptr;
  std::size_t bytes = 0;
};

namespace cuda {
class copy_engine;
}

// A copy engine with options of its own. Threads may use it at the same time.
class copier {
 public:
  // Throws usage_error where an option means nothing or there is no NVIDIA driver.
  explicit copier(const copy_options& options = copy_options::from_environment());
  // Waits for its copies. Staging memory of captured graphs that still exist stays.
  ~copier();
  copier(copier&&) noexcept;
  copier& operator=(copier&&) noexcept;
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  // `bytes` from `src` to `dst`, on `stream`. No bytes are no copy. Throws usage_error where the
  // ranges overlap, device_error where the driver fails: memory that is not there, a stream or a
  // GPU that is gone.
  void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream);
  // All of them, on `stream`, in no order among themselves: behind what the stream was given
  // before, and what it is given later begins behind all. The whole batch is plain copies, one
  // after another, if one of them has an end that is neither in page-locked nor in a GPU's memory,
  // or is between GPUs without access to each other; if all together are below the threshold; and
  // if more than 256 of them are between different places. Copies inside GPUs run beside the
  // others. Throws usage_error where a range that is written overlaps any other range of the batch,
  // else as copy_async.
  void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream);
  // Of n participants number i sends `bytes` from send[i], and all of them receive those of all, in
  // order, n * bytes at receive[i]. send[i] may be where its bytes belong, receive[i] + i * bytes.
  // Throws usage_error unless there are as many of both, else as copy_batch_async.
  void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t bytes, CUstream_st* stream);
  // Of n participants number i sends n blocks of `bytes` from send[i], block j to participant j,
  // which receives it as its block i at receive[j]. Throws as all_gather_async.
  void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t bytes, CUstream_st* stream);
  // Of 1 to 16 participants number i has `count` elements at send[i], and all of them receive what
  // these are combined to, at receive[i], which is send[i] or overlaps none. Both are in the memory
  // of one GPU. Elements are combined in the participants' order, so that all of them receive the
  // same bits, in every run. Each combines its part: a batch of copies brings it the others', into
  // staging memory, and another batch takes the result to them; messages for which half of the
  // staging memory is too little go in pieces, of which one is combined while the next one is
  // copied. Where other all-reduces have all of it, the host waits for them. Captured, pieces
  // follow each other, and the graph owns the staging memory of each of its all-reduces: of many in
  // graphs later ones have smaller pieces, and then none. The first one of a process loads its
  // kernels, which may wait for kernels that run. Throws usage_error for buffers that are not so,
  // and where the library was built without nvcc; device_error where there is no staging memory
  // left or the GPUs cannot be used together; else as copy_batch_async.
  void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                        std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream);
  // What the first large message would do: contexts, access between GPUs, the machine's links.
  void prepare();
  copy_statistics statistics() const;

 private:
  std::unique_ptr<cuda::copy_engine> engine_;
};

// By the process's own copier, which is made with the options of the environment at the first call
// and never ends.
void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream);
void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream);
void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream);
void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream);
void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream);
copier& process_copier();

}  // namespace interlace
