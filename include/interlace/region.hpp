// Regions for kernels of your own: CUDA, PyTorch, Triton, CuPy.
//
//   auto group = interlace::group::local({0, 1, 2, 3});          // one process, or group::join
//   interlace::region_spec spec;
//   spec.elements = n;
//   spec.element_bytes = sizeof(float);
//   spec.mechanism = "polling";
//   interlace::region ranks(group, spec);
//   ...
//   for (std::uint32_t d : group.local_devices()) {              // an epoch
//     ranks.begin(d, stream[d]);
//     update<<<blocks, 256, 0, stream[d]>>>(ranks.writer<float>(d));
//     ranks.exchange(d, stream[d]);
//   }
//
// A device of the group holds a replica of the region: two buffers, front and back. In an epoch its
// kernels read the front and write their part of the back, [boundaries[d], boundaries[d + 1]); the
// exchange brings what they wrote to the subscribers' backs and swaps. interlace/region_device.cuh
// has what a kernel calls.
//
// Order of calls. An epoch of a device is begin, the kernels that write, exchange, all on one
// stream. Every device of the group takes part in every epoch of a region, and devices take epochs
// in the same order. Epochs of one device stand behind each other: on one stream, or the caller
// orders its streams. The host waits in none of these calls.
//
// Memory. What kernels in front of an exchange stored to the part is in the subscribers' fronts for
// whatever stands behind that exchange in their stream (release and acquire, system scope). Nobody
// writes a peer's buffer before that peer's exchange let it: kernels that read a front stand in
// front of the epoch's exchange in its stream, or the caller joins their stream to it. An element
// that an epoch does not store shows after its exchange what it was one exchange earlier.
//
// CUDA graphs. All of an epoch may be captured with the caller's kernels, begin and exchange in the
// same capture; each device has a graph of its own. Buffers swap, so a graph holds an even number
// of epochs of a region, and an even number of epochs runs between its capture and any of its
// launches. A graph that runs out of turn is reported. A graph runs only while the region lives.
//
// Kernels are loaded first. What loads or allocates on a device can wait for what runs there, and
// what runs may wait for what the host has yet to enqueue. So a kernel is loaded before its first
// epoch: cudaFuncGetAttributes or a launch that writes nothing, on each device, or
// CUDA_MODULE_LOADING=EAGER. Between begin and exchange nothing may wait for the device: no
// cudaMalloc or cudaFree. Should a kernel be loaded there all the same, no agent waits for it in
// the first epoch of a device that is not captured: under `polling` it moves by copies behind the
// kernel.
//
// Deadlines. Every wait on a device ends at the group's deadline at the latest. It is reported by
// the next call of the group or the region as a device_error that names device or rank, region,
// chunk, counter and target; the group can only be destroyed then. A kernel of the caller's that
// never ends is reported where something waits for it, another device's exchange or a chunk's
// transfer, but its device never gets behind it. A stream that waits for a chunk under
// `copy-engine` has no deadline of its own: `synchronize` watches it, unless the epoch is a graph's
// or 64 others are enqueued behind it.
//
// Errors: usage_error for what is asked wrongly, model_error for calls out of order, device_error
// for what fails on a device or passes its deadline (interlace/base/errors.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/mechanism.hpp"

struct CUstream_st;  // a cudaStream_t points to it

namespace interlace {

namespace cuda {
class group_state;
class shared_region;
}  // namespace cuda

// Bytes in, all ranks' bytes out, in the order of the ranks; each call by all ranks.
using all_gather = std::function<std::vector<std::string>(const std::string& own)>;

// Settings of a group.
struct group_options {
  double deadline_s = 10;  // of every wait on a device, and of what processes tell each other
};

// The GPUs that hold replicas. Copies are the same group; it lives as long as one of them or a
// region does.
class group {
 public:
  // One process: device d is GPU ordinals[d]. Up to 16, and each must reach each other's memory.
  // A GPU may stand for several devices, {0, 0}: docs/how-to/shared-gpu.md says what such a program
  // must do and what is refused.
  static group local(std::vector<int> ordinals, const group_options& o = {});
  // The same with all GPUs that the process sees.
  static group all(const group_options& o = {});
  // A process for each GPU of one machine and one user: device `rank` is this process's GPU
  // `ordinal`. Called by all ranks; `gather` is also called by each region that is made, and must
  // do so as long as regions are. Every process must see the GPUs of all. Where processes share a
  // GPU, the deadline is longer: times the number of processes on it.
  static group join(std::uint32_t rank, std::uint32_t size, int ordinal, all_gather gather,
                    const group_options& o = {});

  // The number of devices, over all processes.
  std::uint32_t devices() const;
  // The devices of this process, ascending: those that the calls of a region take.
  const std::vector<std::uint32_t>& local_devices() const;
  // The GPU of a device of this process, as CUDA numbers it.
  int ordinal(std::uint32_t device) const;

  // Throws device_error if a wait of any region expired, a kernel announced wrongly, or the process
  // of another rank ended. Does not wait.
  void check() const;
  // Waits until the stream has done all that is enqueued, or until there is something to throw.
  // `regularly` is called by this thread about every 50 ms, and ends the wait by what it throws.
  void synchronize(std::uint32_t device, CUstream_st* stream,
                   const std::function<void()>& regularly = {}) const;

 private:
  friend class region;
  explicit group(std::shared_ptr<cuda::group_state> state) : state_(std::move(state)) {}
  std::shared_ptr<cuda::group_state> state_;
};

// Which elements each block of a device's kernel writes, for kernels that call `announce`.
struct region_producer {
  std::uint64_t blocks = 0;
  kernel::block_mapping mapping;
};

// What a region is asked to be. Every rank of a group asks for the same.
struct region_spec {
  std::string name;  // in messages; empty: its number
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 0;
  // Device d writes [boundaries[d], boundaries[d + 1]); empty: equal parts.
  std::vector<std::uint64_t> boundaries;
  // For each device, who receives what of its part; empty: every other device all of it.
  std::vector<std::vector<subscriber_range>> subscribers;
  // One of the mechanisms of regions in docs/reference/mechanisms.md, which has the ranges of the
  // next two.
  std::string mechanism = kernel::mechanism_name(kernel::mechanism::bulk_copy);
  std::uint64_t chunk_bytes =  // the most
      kernel::row_of(kernel::mechanism_parameter::chunk_bytes).initial;
  std::uint32_t agent_threads =  // of `polling`
      kernel::row_of(kernel::mechanism_parameter::agent_threads).initial;
  // How they copy: "vectors", by loads and stores, or "bulk", by cp.async.bulk through shared
  // memory of 64 KiB for each 32 threads, which the kernel cannot have; fewer threads are as fast
  // then, on H200 4096. Refused is what leaves not even a warp a place.
  std::string agent_copy = "vectors";
  // For each device, if its kernel calls `announce`; those of other processes are not looked at.
  // Empty: kernels publish each element of their part once. Of `polling` and `copy-engine`.
  std::vector<region_producer> producers;
  // Debug mode: `store` and `publish` note each element, and the exchange reports an element that
  // is stored outside of the device's part, published twice, published but not stored or stored
  // but not published, with its block and chunk. Takes 8 bytes an element and much time.
  bool checks = false;
};

// A replica in the caller's memory, which outlives the region: device memory by cudaMalloc or by
// virtual memory management, such as PyTorch's. Aligned to 16 bytes.
struct region_memory {
  void* front = nullptr;
  void* back = nullptr;
};

// What the debug mode notes of one device, in its memory.
struct region_audit {
  // The first mistake that the debug mode found.
  struct finding {
    unsigned int what = 0;  // 0: nothing yet; 1: stored outside of the part; 2: published twice
    unsigned int block = 0;
    unsigned int other_block = 0;
    unsigned long long element = 0;
  };
  std::uint64_t begin = 0;  // the part
  std::uint64_t end = 0;
  unsigned int* stored = nullptr;     // by element of the part: the block that stored it, plus 1
  unsigned int* published = nullptr;  // that published it, plus 1
  finding* first = nullptr;
};

// What a kernel takes by value. Valid for kernels of the epoch in which it was made, and for
// those of graphs that captured them.
template <class T>
struct region_writer {
  replicated<T> view;          // front, back, and peers' backs where stores are inline
  kernel::chunk_table chunks;  // count 0: nobody asks for announcements
  region_audit audit;          // first null: no debug mode
};

// An array of which each device of a group holds a replica.
class region {
 public:
  // Memory of Interlace's own: every byte 0xff. By all ranks of a group, with equal specs; throws
  // what is wrong with any rank's in all of them, and nothing is left then.
  region(const group& g, const region_spec& spec);
  // The caller's memory, one for each local device; its contents stay.
  region(const group& g, const region_spec& spec, const std::vector<region_memory>& memory);
  // In place of making one, by a rank that has found out by itself that it cannot: throws
  // usage_error on all of them.
  [[noreturn]] static void refuse(const group& g, const std::string& why);
  // Waits for what runs on the devices. By all ranks, in the same order of regions; a rank that
  // does not come is waited for until the deadline.
  ~region();
  region(region&&) noexcept;
  region& operator=(region&&) noexcept;
  region(const region&) = delete;
  region& operator=(const region&) = delete;

  // The number of elements of the whole region.
  std::uint64_t elements() const;
  // The size of an element in bytes.
  std::uint32_t element_bytes() const;
  // The elements that a device writes.
  kernel::element_range part(std::uint32_t device) const;

  // The buffer that kernels read in the epoch that has begun, or else in the next one.
  void* front(std::uint32_t device) const;
  // The buffer that kernels write in that epoch. `exchange` swaps the two.
  void* back(std::uint32_t device) const;
  // The backs of all devices, as this one reaches them; by device.
  std::vector<void*> backs(std::uint32_t device) const;
  // What a kernel of the device takes by value to write its part. Throws usage_error unless T has
  // the size of an element.
  template <class T>
  region_writer<T> writer(std::uint32_t device) const;

  // Begins an epoch of the device. Enqueues on `stream`, and does not wait.
  void begin(std::uint32_t device, CUstream_st* stream);
  // Ends the epoch: brings the device's part to its subscribers, and swaps front and back. Enqueues
  // on `stream`, and does not wait.
  void exchange(std::uint32_t device, CUstream_st* stream);

  // What a device's part is cut into, ascending; empty where nothing is tracked.
  const std::vector<kernel::chunk>& chunks(std::uint32_t device) const;
  // The pointers, in the device's memory, for producers that announce by themselves. Behind a
  // barrier of the block, that all its stores stand before, one thread adds to counters[c] the
  // number of elements of chunk c that the block has stored: an atomic addition of 64 bits with
  // release at device scope, as PTX red.release.gpu, or Triton's
  // tl.atomic_add(..., sem="release", scope="gpu"). A launch adds targets[c] to each. Under
  // `copy-engine` the addition also acquires, and whoever brings the counter to (*launches + 1) *
  // targets[c] stores 1 to flags[c] with release at system scope.
  const kernel::chunk_table& table(std::uint32_t device) const;
  // Where kernels that do not use `store` and `publish` note for the debug mode what they do; null
  // pointers without it.
  region_audit audit(std::uint32_t device) const;

 private:
  replicated<std::byte> view(std::uint32_t device) const;
  void check_type(std::size_t bytes) const;
  std::unique_ptr<cuda::shared_region> state_;
};

template <class T>
region_writer<T> region::writer(std::uint32_t device) const {
  check_type(sizeof(T));
  const replicated<std::byte> raw = view(device);
  region_writer<T> w;
  w.view.front = reinterpret_cast<const T*>(raw.front);
  w.view.back = reinterpret_cast<T*>(raw.back);
  w.view.size = raw.size;
  w.view.region = raw.region;
  w.view.device = raw.device;
  w.view.everybody = raw.everybody;
  w.view.range_count = raw.range_count;
  for (std::uint32_t r = 0; r < raw.range_count; ++r) w.view.ranges[r] = raw.ranges[r];
  for (std::uint32_t d = 0; d < max_devices; ++d) {
    w.view.peer_back[d] = reinterpret_cast<T*>(raw.peer_back[d]);
  }
  w.chunks = table(device);
  w.audit = audit(device);
  return w;
}

}  // namespace interlace
