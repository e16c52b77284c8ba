// The exchange between GPUs, without the host. An exchange is the work that runs on each device's
// stream after the kernels and copies of an epoch.
//
// Devices meet at barriers. Each device keeps the number of barriers that it has entered, and the
// number that each peer last reported. To enter a barrier, a device stores its own number to all
// peers (release, system scope). The device leaves the barrier when all peers' numbers have reached
// its own number (acquire, system scope). The numbers only grow, and they are in device memory. A
// graph that contains exchanges can therefore be launched again without any reset.
//
// No device overwrites data that a peer still reads, for the following reasons. A device's main
// stream orders everything that the device does. Copies and agents on other streams start after the
// work that was on the main stream when they were enqueued. This work includes the previous
// exchange. The main stream waits for the copies and agents before the next exchange. Let B(n) be
// barrier n.
//
// - Regions have two buffers. In the epoch that ends at B(n), a device's kernels read the device's
//   front F and write its back. The device's copies and inline stores write the backs of peers.
//   After B(n) front and back swap. The first writes to a peer's F are therefore in the next epoch,
//   by kernels or copies after B(n) in the writer's stream. The writer left B(n), so the peer had
//   entered B(n). The peer's kernels that read F are before B(n) in the peer's stream, so these
//   kernels had retired. For the same reason, the data of an epoch has arrived when the data's
//   readers start: the writer's stores and copies come before the writer enters B(n), and the
//   reader leaves B(n) only after that.
// - The inbox of a small reduction has two slots; B(n) uses slot n mod 2. The slot is written
//   before the writer enters B(n), and read after the reader has left B(n), in the same kernel. The
//   next write to the slot belongs to B(m) with m >= n + 2, by a kernel after B(n + 1) in the
//   writer's stream. The writer left B(n + 1), so the reader had entered B(n + 1). The reader
//   entered B(n + 1) in a kernel after the kernel that read the slot.
// - A large reduction has barriers A and B. Between them, a device reads its segment of all
//   devices' partial results and writes the result to all fronts. Kernels that accumulate, or that
//   read the front, come before A. After B, partial results are reset and kernels read the new
//   front. A device enters B only after it has read and written its segment.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "interlace/base/limits.hpp"
#include "interlace/kernel.hpp"

namespace interlace::cuda {

using counter = unsigned long long;

// The barrier words of a device, in its own memory. The peers store to them.
struct device_control {
  counter arrived[max_devices];  // the number of barriers that each peer has entered
  counter entered;               // the number of barriers that this device has entered
  unsigned int failed;           // set when a wait expired on any device; ends all waits
};

// A failure that a device reports in host memory: one of its own waits expired, or a launch
// announced too little or too much of a chunk.
enum class failed_wait : unsigned int {
  none,
  peer,
  host,
  chunk,
  announcement,
  elsewhere,    // a failure in another process; that process has the details
  turn,         // an exchange ran with the wrong one of its two pairs of buffers
  outside,      // an audit found an element that was stored outside of the device's part
  twice,        // an audit found an element that was published twice
  unpublished,  // an audit found an element that was stored but not published
  unstored,     // an audit found an element that was published but not stored
};
struct wait_failure {
  failed_wait what;
  unsigned int device;
  // the number of the exchange, which the host sets; only for waits for peers
  unsigned int exchange;
  unsigned int peer;    // set only for waits for peers
  unsigned int region;  // set only for waits for chunks
  unsigned int chunk;
  unsigned int block;        // set for audits only, like `other_block` and `element`
  unsigned int other_block;  // the block that published the element first
  counter element;
  counter seen;
  counter target;
};

struct barrier_arguments {
  std::uint32_t device = 0;
  std::uint32_t devices = 1;
  std::uint32_t exchange = 0;  // number of the exchange in error messages
  std::uint64_t deadline_ns = 0;
  // True if the peers belong to other processes. In this case, `failure` also notes the failures
  // that these processes report.
  bool notes_failures = false;
  device_control* controls[max_devices] = {};
  wait_failure* failure = nullptr;  // this device's failure
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

// The most elements of a reduction that one thread block folds, sends and combines.
inline constexpr std::uint64_t small_reduction_elements = 1024;
inline constexpr std::uint32_t max_small_reductions = 8;

struct small_reduction {
  element_type type = element_type::f32;
  combine operation = combine::add;
  std::uint32_t elements = 0;
  std::uint32_t copies = 1;
  void* partial = nullptr;          // [copies][elements]
  void* front = nullptr;            // [elements]
  void* inboxes[max_devices] = {};  // for each device, an array [2][devices][elements]
};

// The state of a tracked launch in the epoch. The exchange counts the launch and clears the words
// for which streams waited.
struct tracked_launch {
  static constexpr std::uint32_t any_parity = 2;
  counter* launches = nullptr;
  unsigned int* words = nullptr;
  std::uint32_t count = 0;
  std::uint32_t region = 0;  // number of the region in error messages
  // The expected parity of the launches before the exchange. Another parity is a failure.
  std::uint32_t parity = any_parity;
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

// The launch functions only enqueue on the stream. The caller must make the stream's device
// current.

// Says whether an exchange, and the next kernel of the same stream, are launched early.
struct early_launch {
  // Whether the exchange is launched before the previous kernel has ended. With an early launch,
  // the exchange itself waits for the kernel's end.
  bool comes = false;
  bool lets_next = false;  // whether the next kernel is launched while the exchange waits for peers
};

// Sends the sums of small reductions, passes one barrier and combines the sums.
void launch_exchange(const exchange_arguments& a, early_launch how, cudaStream_t stream);
// Folds a large reduction's copies into the first copy. Call this function before barrier A is
// enqueued.
void launch_fold_copies(const large_reduction& r, cudaStream_t stream);
// Combines the device's segment into all fronts. Call this function after barrier A and before
// barrier B is enqueued.
void launch_combine_segment(const large_reduction& r, cudaStream_t stream);
// Resets the partial results. Call this function after barrier B is enqueued.
void launch_reset_partial(const large_reduction& r, cudaStream_t stream);
// Waits until the host has stored `ticket`, then passes one barrier, so that all devices leave the
// gate within the latency of a flag. The host must store the ticket atomically; relaxed order is
// enough.
void launch_gate(const barrier_arguments& a, unsigned int* host_ticket, unsigned int ticket,
                 cudaStream_t stream);

// Loads the kernels of all functions above on the current device. Otherwise the first launch of a
// kernel would load the kernel, and loading can wait for kernels that spin. Returns whether
// exchanges may be launched early on this device.
bool load_exchange_kernels();

}  // namespace interlace::cuda
