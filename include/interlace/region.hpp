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
// Each device of the group holds a replica of the region: two buffers, front and back. In an epoch
// a device's kernels read the front and write the device's part of the back, [boundaries[d],
// boundaries[d + 1]). The exchange copies that part to the subscribers' backs and swaps the
// buffers. interlace/region_device.cuh has the functions that a kernel calls.
//
// Order of calls: an epoch of a device is begin, the kernels that write, and exchange, all on one
// stream. Every device of the group must take part in every epoch of a region, and all devices must
// take the epochs in the same order. Epochs of a device must run in order: use one stream, or order
// the streams yourself. None of these calls blocks the host.
//
// Memory ordering: stores to the part by kernels before an exchange are in the subscribers' fronts
// for everything after that exchange in their streams (release and acquire, system scope). No
// device writes a peer's buffer before that peer's exchange allows it. Kernels that read a front
// must therefore come before the epoch's exchange in the exchange's stream. If such kernels run in
// another stream, the caller must make the exchange's stream wait for them. The buffers swap at
// every exchange: an element that an epoch leaves unwritten falls back to its value of the epoch
// before.
//
// CUDA graphs: a whole epoch can be captured, with begin, the caller's kernels and exchange in the
// same capture. Each device has a graph of its own. Because the buffers swap, a graph must hold an
// even number of epochs of a region. Between the graph's capture and each of its launches, an even
// number of epochs must run. The library reports a graph that is launched out of turn. The region
// must outlive the graph.
//
// Load kernels first: loading or allocating on a device can wait for work that runs there, and that
// work may wait for work that the host has yet to enqueue. Load each kernel before its first epoch:
// on each device, call cudaFuncGetAttributes or make a launch that writes nothing. Or set
// CUDA_MODULE_LOADING=EAGER. Between begin and exchange nothing may wait for the device, so call
// neither cudaMalloc nor cudaFree. A program may still load a kernel between the two calls.
// Therefore no agent runs in a device's first epoch that is not captured: with `polling`, copies
// after the kernel move the data of this epoch.
//
// Deadlines: every wait on a device ends at the group's deadline at the latest. The next call of
// the group or the region reports the expired wait as a device_error, which names the device or
// rank, region, chunk, counter and target. After this error, the group can only be destroyed. If a
// kernel of the caller never ends, the library reports an error when another device's exchange or a
// chunk's transfer waits for the kernel. The kernel's device cannot continue. A stream that waits
// for a chunk under `copy-engine` has no deadline of its own. `synchronize` watches this stream,
// unless the epoch is in a graph or 64 later epochs have been enqueued.
//
// Errors: usage_error for invalid arguments, model_error for calls out of order, device_error for
// failures on a device and passed deadlines (interlace/base/errors.hpp).
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

struct CUstream_st;  // the type to which a cudaStream_t points

namespace interlace {

namespace cuda {
class group_state;
class shared_region;
}  // namespace cuda

// Takes this rank's bytes and returns the bytes of all ranks in rank order. If one rank makes a
// call, all ranks must make it.
using all_gather = std::function<std::vector<std::string>(const std::string& own)>;

// Settings of a group.
struct group_options {
  // The longest wait in seconds, on a device or for a message of another process.
  double deadline_s = 10;
  // Whether `interlace ps` shows the group. If it does, a thread of the process answers the
  // questions of `interlace ps`. The thread also answers SIGQUIT, unless the program uses this
  // signal itself.
  bool shown = true;
};

// The GPUs that hold replicas. Copies of this object refer to the same group. The group lives as
// long as any copy of the object, or any region of the group, lives.
class group {
 public:
  // A group in one process. Device d is GPU ordinals[d]. There can be up to 16 devices, and each
  // GPU must have access to every other GPU's memory. Several devices can share one GPU, as in {0,
  // 0}. docs/how-to/shared-gpu.md says what such a program must do, and which calls are refused.
  static group local(std::vector<int> ordinals, const group_options& o = {});
  // A group in one process, with all GPUs that the process sees.
  static group all(const group_options& o = {});
  // A group with one process for each GPU. All processes run on one machine, as one user. Device
  // `rank` is this process's GPU `ordinal`. All ranks must call this function. Constructing a
  // region also calls `gather`, so `gather` must work as long as the program makes regions. Every
  // process must see the GPUs of all processes. If several processes share a GPU, the deadline is
  // multiplied by the number of these processes.
  static group join(std::uint32_t rank, std::uint32_t size, int ordinal, all_gather gather,
                    const group_options& o = {});

  // The number of devices, over all processes.
  std::uint32_t devices() const;
  // The devices of this process in ascending order. The functions of a region accept only these
  // devices.
  const std::vector<std::uint32_t>& local_devices() const;
  // CUDA's number of a device's GPU. The device must belong to this process.
  int ordinal(std::uint32_t device) const;

  // Throws device_error if a wait of any region expired, if a kernel announced elements wrongly, or
  // if the process of another rank ended. Does not block.
  void check() const;
  // The chunk for which a stream of this process waits now, with its counter and target, as a
  // sentence. The text is empty if no stream waits, if the epoch is in a graph, or if the devices
  // do not answer within 200 ms. Any thread may call this function at any time.
  std::string waits() const;
  // Blocks until all work that is enqueued on the stream has ended. Throws the first error as soon
  // as there is one. The calling thread calls `regularly` about every 50 ms. An exception from
  // `regularly` ends the wait.
  void synchronize(std::uint32_t device, CUstream_st* stream,
                   const std::function<void()>& regularly = {}) const;

 private:
  friend class partition_base;
  friend class region;
  explicit group(std::shared_ptr<cuda::group_state> state) : state_(std::move(state)) {}
  std::shared_ptr<cuda::group_state> state_;
};

// The elements that each block of a device's kernel writes. Kernels that call `announce` need this
// struct.
struct region_producer {
  std::uint64_t blocks = 0;
  kernel::block_mapping mapping;
};

// The properties of a region. Every rank of a group must pass equal properties.
struct region_spec {
  std::string name;  // name for messages; if it is empty, messages show the region's number
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 0;
  // Device d writes the elements [boundaries[d], boundaries[d + 1]). An empty list means equal
  // parts.
  std::vector<std::uint64_t> boundaries;
  // For each device, ranges of its part and their subscribers. An empty list means that every other
  // device receives the whole part.
  std::vector<std::vector<subscriber_range>> subscribers;
  // The name of a mechanism that regions support. docs/reference/mechanisms.md lists these
  // mechanisms, and the bounds of `chunk_bytes` and `agent_threads`.
  std::string mechanism = kernel::mechanism_name(kernel::mechanism::bulk_copy);
  std::uint64_t chunk_bytes =  // largest size of a chunk
      kernel::row_of(kernel::mechanism_parameter::chunk_bytes).initial;
  std::uint32_t agent_threads =  // for `polling` only
      kernel::row_of(kernel::mechanism_parameter::agent_threads).initial;
  // The way in which the agent's threads copy. With "vectors", they copy by loads and stores. With
  // "bulk", they copy by cp.async.bulk through shared memory. "bulk" needs fewer threads for the
  // same throughput; 4096 threads suffice on an H200. For every 32 threads, "bulk" takes 64 KiB of
  // shared memory from the kernel. The region refuses an agent that leaves no room for a single
  // warp of the kernel.
  std::string agent_copy = "vectors";
  // One element for each device, if the device's kernel calls `announce`. Entries for devices of
  // other processes are ignored. An empty list means that kernels publish each element of their
  // part once. Only `polling` and `copy-engine` use this list.
  std::vector<region_producer> producers;
  // Debug mode: `store` and `publish` note each element. The exchange reports each of these
  // mistakes, with the element's block and chunk: stored outside of the device's part, published
  // twice, published but not stored, or stored but not published. Debug mode takes 8 bytes for each
  // element and is slow.
  bool checks = false;
};

// A replica in the caller's memory. The memory must outlive the region and be aligned to 16 bytes.
// It must be device memory from cudaMalloc or virtual memory management, as PyTorch's memory is.
struct region_memory {
  void* front = nullptr;
  void* back = nullptr;
};

// The notes of the debug mode for one device, in the device's memory.
struct region_audit {
  // The first mistake that the debug mode found.
  struct finding {
    unsigned int what = 0;  // 0: no mistake yet; 1: stored outside of the part; 2: published twice
    unsigned int block = 0;
    unsigned int other_block = 0;
    unsigned long long element = 0;
  };
  std::uint64_t begin = 0;  // first element of the part
  std::uint64_t end = 0;
  unsigned int* stored = nullptr;  // for each element of the part: the block that stored it, plus 1
  // for each element of the part: the block that published it, plus 1
  unsigned int* published = nullptr;
  finding* first = nullptr;
};

// The argument through which a kernel writes to a region. Kernels take the argument by value. It is
// valid for kernels of the epoch in which it was made, and for graphs that captured these kernels.
template <class T>
struct region_writer {
  replicated<T> view;          // front, back, and (if stores are inline) the backs of peers
  kernel::chunk_table chunks;  // if its count is 0, no announcements are needed
  region_audit audit;          // if `first` is null, debug mode is off
};

// An array that has a replica on each device of a group.
class region {
 public:
  // Allocates the region's memory and sets every byte to 0xff. All ranks of a group must construct
  // the region, with equal specs. If any rank fails, all ranks throw that rank's error, and nothing
  // is allocated.
  region(const group& g, const region_spec& spec);
  // Makes a region in the caller's memory. `memory` has one element for each local device. The
  // contents of the memory are kept.
  region(const group& g, const region_spec& spec, const std::vector<region_memory>& memory);
  // Tells the other ranks that this rank cannot make the region. The rank must call this function
  // in place of a constructor. The function throws usage_error on all ranks.
  [[noreturn]] static void refuse(const group& g, const std::string& why);
  // Waits for the work that runs on the devices. All ranks must destroy their regions in the same
  // order. If a rank does not destroy its region, the other ranks wait until the deadline.
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

  // The buffer that kernels read in the current epoch. Between epochs, this is the buffer that
  // kernels read in the next epoch.
  void* front(std::uint32_t device) const;
  // The buffer that kernels write in the same epoch as they read `front`. `exchange` swaps the two
  // buffers.
  void* back(std::uint32_t device) const;
  // The backs of all devices, indexed by device, at the addresses by which this device accesses
  // them.
  std::vector<void*> backs(std::uint32_t device) const;
  // The argument through which a kernel writes the device's part. The kernel takes the argument by
  // value. Throws usage_error unless T has the size of an element.
  template <class T>
  region_writer<T> writer(std::uint32_t device) const;

  // Begins an epoch of the device. The call enqueues on `stream` and does not block.
  void begin(std::uint32_t device, CUstream_st* stream);
  // Ends the epoch: copies the device's part to its subscribers, and swaps front and back. Enqueues
  // on `stream` and does not block.
  void exchange(std::uint32_t device, CUstream_st* stream);

  // The chunks of a device's part, in ascending order. The list is empty if the mechanism does not
  // track chunks.
  const std::vector<kernel::chunk>& chunks(std::uint32_t device) const;
  // Pointers into the device's memory, for producers that announce without `announce` or `publish`.
  // After all its stores, a block must pass a barrier. One thread of the block then adds to
  // counters[c] the number of elements of chunk c that the block has stored. The addition must be a
  // 64-bit atomic with release at device scope, such as PTX red.release.gpu or Triton's
  // tl.atomic_add(..., sem="release", scope="gpu"). In all, one launch must add targets[c] to
  // counter c. For `copy-engine` there are two more rules. The addition must also acquire. The
  // thread that raises the counter to (*launches + 1) * targets[c] must store 1 to flags[c], with
  // release at system scope.
  const kernel::chunk_table& table(std::uint32_t device) const;
  // The memory in which kernels that do not use `store` and `publish` can make notes for the debug
  // mode. Without debug mode the pointers are null.
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
