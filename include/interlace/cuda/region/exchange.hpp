// The exchange between GPUs, without the host in its loop: what runs on each device's stream after
// the kernels and the copies of an epoch.
//
// Devices meet at barriers. Each keeps the number of barriers that it has entered, and for every
// peer the number that the peer last told it. To enter a barrier a device stores its number to all
// peers (release, system scope); it leaves when all peers' numbers have reached its own (acquire,
// system scope). Numbers only grow and live in device memory, so that a graph that contains
// exchanges can be launched again without any reset.
//
// Why nobody overwrites what a peer still reads. Everything of a device is in the order of its main
// stream: copies and agents on other streams start behind what it had reached when they were
// enqueued, at least the exchange before, and are joined before the next. Let B(n) be barrier n.
//
// - Regions have two buffers. In the epoch that ends at B(n) a device's kernels read its front F
//   and write its back; its copies and inline stores write peers' backs. After B(n) the roles swap,
//   so the first writes to a peer's F are in the next epoch, by kernels or copies that stand behind
//   B(n) in the writer's stream. The writer left B(n), so the peer had entered it, and the peer's
//   kernels that read F stand before B(n) in the peer's stream: they had retired. In the same way
//   the data of an epoch is there when its readers start: the writer's stores and copies stand
//   before its entering B(n), which the reader's leaving has seen.
// - The inbox of a small reduction has two slots; B(n) uses slot n mod 2. It is written before the
//   writer enters B(n) and read after the reader has left it, in the same kernel. The next write to
//   the slot belongs to B(m) with m >= n + 2, by a kernel behind B(n + 1) in the writer's stream;
//   the writer left B(n + 1), so the reader had entered it, in a kernel behind the one that read.
// - A large reduction has barriers A and B. Between them a device reads its segment of all devices'
//   partial results and writes it to all fronts. Kernels that accumulated or read the front stand
//   before A. Partial results are reset, and the front read, behind B, which every device enters
//   only when its segment is read and written.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/base/limits.hpp"
#include "interlace/kernel.hpp"

namespace interlace::cuda {

using counter = unsigned long long;

// In each device's memory; peers store to it.
struct device_control {
  counter arrived[max_devices];  // barriers that each peer has entered
  counter entered;               // barriers that this device has entered
  unsigned int failed;           // a wait expired somewhere: nobody waits any more
};

// What a device writes to host memory when a wait of its own expires, or when a launch left a chunk
// incomplete or announced too much of it.
enum class failed_wait : unsigned int {
  none,
  peer,
  host,
  chunk,
  announcement,
  elsewhere,    // something of another process, which says what
  turn,         // an exchange of other buffers than it is the turn of
  outside,      // what an audit finds: an element stored outside of the device's part,
  twice,        // published twice,
  unpublished,  // stored and not published,
  unstored,     // published and not stored
};
struct wait_failure {
  failed_wait what;
  unsigned int device;
  unsigned int exchange;  // of waits for peers: what the host passed
  unsigned int peer;      // of waits for peers
  unsigned int region;    // of chunks
  unsigned int chunk;
  unsigned int block;        // of what an audit finds, as the next two
  unsigned int other_block;  // that published the element before
  counter element;
  counter seen;
  counter target;
};

struct barrier_arguments {
  std::uint32_t device = 0;
  std::uint32_t devices = 1;
  std::uint32_t exchange = 0;  // only named in failures
  std::uint64_t deadline_ns = 0;
  // Peers are of other processes: a failure that one of them reports is also noted here.
  bool notes_failures = false;
  device_control* controls[max_devices] = {};
  wait_failure* failure = nullptr;  // this device's
};

enum class element_type : std::uint8_t { f32, f64, u32, i32, u64, i64 };

template <class T>
constexpr element_type element_type_of();
template <>
constexpr element_type element_type_of<float>() {
  return element_type::f32;
}
template <>
constexpr element_type element_type_of<double>() {
  return element_type::f64;
}
template <>
constexpr element_type element_type_of<std::uint32_t>() {
  return element_type::u32;
}
template <>
constexpr element_type element_type_of<std::int32_t>() {
  return element_type::i32;
}
template <>
constexpr element_type element_type_of<std::uint64_t>() {
  return element_type::u64;
}
template <>
constexpr element_type element_type_of<std::int64_t>() {
  return element_type::i64;
}

// Up to this many elements one thread block folds, sends and combines a reduction.
inline constexpr std::uint64_t small_reduction_elements = 1024;
inline constexpr std::uint32_t max_small_reductions = 8;

struct small_reduction {
  element_type type = element_type::f32;
  combine operation = combine::add;
  std::uint32_t elements = 0;
  std::uint32_t copies = 1;
  void* partial = nullptr;          // [copies][elements]
  void* front = nullptr;            // [elements]
  void* inboxes[max_devices] = {};  // each device's [2][devices][elements]
};

// What a tracked launch of the epoch leaves behind: the exchange counts the launch and clears the
// words that streams waited for.
struct tracked_launch {
  static constexpr std::uint32_t any_parity = 2;
  counter* launches = nullptr;
  unsigned int* words = nullptr;
  std::uint32_t count = 0;
  std::uint32_t region = 0;           // only named in failures
  std::uint32_t parity = any_parity;  // of the launches before it, where another is a failure
};
inline constexpr std::uint32_t max_tracked_launches = 8;

struct exchange_arguments {
  barrier_arguments barrier;
  std::uint32_t reductions = 0;
  std::uint32_t tracked = 0;
  small_reduction items[max_small_reductions];
  tracked_launch launches[max_tracked_launches];
};

struct large_reduction {
  element_type type = element_type::f32;
  combine operation = combine::add;
  std::uint32_t device = 0;
  std::uint32_t devices = 1;
  std::uint32_t copies = 1;
  std::uint64_t elements = 0;
  void* partials[max_devices] = {};
  void* fronts[max_devices] = {};
};

// All only enqueue on the stream, whose device is the current one.

// How an exchange stands between two kernels of its stream.
struct early_launch {
  bool comes = false;      // is launched before the one ahead has ended, and waits for it
  bool lets_next = false;  // so may the one behind be, while the exchange waits for peers
};

// Sends the small reductions' sums, passes one barrier, combines.
void launch_exchange(const exchange_arguments& a, early_launch how, cudaStream_t stream);
// Folds a large reduction's copies into the first; before barrier A.
void launch_fold_copies(const large_reduction& r, cudaStream_t stream);
// Combines the device's segment into all fronts; between barriers A and B.
void launch_combine_segment(const large_reduction& r, cudaStream_t stream);
// After barrier B.
void launch_reset_partial(const large_reduction& r, cudaStream_t stream);
// Waits until the host has stored `ticket` (atomically; any order of memory will do), then passes
// one barrier, so that all devices leave within a flag's way of each other.
void launch_gate(const barrier_arguments& a, unsigned int* host_ticket, unsigned int ticket,
                 cudaStream_t stream);

// Loads all of the above on the current device: the first launch of a kernel that is not loaded
// can wait for kernels that spin. Returns whether exchanges may be launched early there.
bool load_exchange_kernels();

}  // namespace interlace::cuda
