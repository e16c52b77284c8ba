// The functions that programs call in place of the driver's functions. Each function exists twice.
// A lookup returns the first function, which calls the driver. The library exports the second
// function, which calls the function to which the program would have been linked.
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "preload/batches.hpp"
#include "preload/counters.hpp"
#include "preload/entries.hpp"
#include "preload/own_call.hpp"
#include "preload/process.hpp"
#include "preload/take_over.hpp"
#include "preload/watched_call.hpp"

namespace interlace::preload {
namespace {

using address = cuda::device_address;

constexpr int not_found = 500;  // CUDA_ERROR_NOT_FOUND
constexpr int peer_access_not_enabled = 705;
constexpr std::uint64_t lookup_per_thread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

// Calls the function that the program meant to call.
template <class... Arguments>
int call_next(entry which, bool linked, Arguments... arguments) {
  void* found = linked ? linked_function(which) : driver_function(which);
  if (found == nullptr) return not_found;
  return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
}

CUstream_st* stream_of(entry which, CUstream_st* given) {
  if (given == nullptr && facts_of(which).per_thread)
    return reinterpret_cast<CUstream_st*>(cuda::per_thread_stream);
  return given;
}

constexpr copy_direction direction_of(entry which) {
  switch (which) {
    case entry::host_to_gpu:
    case entry::host_to_gpu_per_thread:
    case entry::synchronous_host_to_gpu:
    case entry::synchronous_host_to_gpu_per_thread:
      return copy_direction::host_to_gpu;
    case entry::gpu_to_host:
    case entry::gpu_to_host_per_thread:
    case entry::synchronous_gpu_to_host:
    case entry::synchronous_gpu_to_host_per_thread:
      return copy_direction::gpu_to_host;
    case entry::copy:
    case entry::copy_per_thread:
    case entry::synchronous_copy:
    case entry::synchronous_copy_per_thread:
      return copy_direction::unknown;
    default:
      return copy_direction::gpu_to_gpu;
  }
}

template <entry Which, bool Linked>
int copy(address to, address from, std::size_t bytes, CUstream_st* stream) {
  const watched_call seen(Which, to, from, bytes);
  if (take_over({.moves = direction_of(Which),
                 .to = to,
                 .from = from,
                 .bytes = bytes,
                 .stream = stream_of(Which, stream)}))
    return 0;
  return call_next(Which, Linked, to, from, bytes, stream);
}

// The contexts are not needed, because the addresses identify the memory.
template <entry Which, bool Linked>
int peer_copy(address to, void* to_context, address from, void* from_context, std::size_t bytes,
              CUstream_st* stream) {
  const watched_call seen(Which, to, from, bytes);
  if (take_over({.moves = direction_of(Which),
                 .to = to,
                 .from = from,
                 .bytes = bytes,
                 .stream = stream_of(Which, stream)}))
    return 0;
  return call_next(Which, Linked, to, to_context, from, from_context, bytes, stream);
}

template <entry Which, bool Linked>
int synchronous_copy(address to, address from, std::size_t bytes) {
  const watched_call seen(Which, to, from, bytes);
  if (const auto result = take_over_waiting({.moves = direction_of(Which),
                                             .to = to,
                                             .from = from,
                                             .bytes = bytes,
                                             .stream = stream_of(Which, nullptr)}))
    return *result;
  return call_next(Which, Linked, to, from, bytes);
}

template <entry Which, bool Linked>
int synchronous_peer_copy(address to, void* to_context, address from, void* from_context,
                          std::size_t bytes) {
  const watched_call seen(Which, to, from, bytes);
  if (const auto result = take_over_waiting({.moves = direction_of(Which),
                                             .to = to,
                                             .from = from,
                                             .bytes = bytes,
                                             .stream = stream_of(Which, nullptr)}))
    return *result;
  return call_next(Which, Linked, to, to_context, from, from_context, bytes);
}

// --- batches -------------------------------------------------------------------------------------

address first_of(const address* list, std::size_t count) {
  return list == nullptr || count == 0 ? 0 : list[0];
}

template <entry Which>
requested_batch batch_of(const address* to, const address* from, const std::size_t* bytes,
                         std::size_t count, const copy_attributes* attributes,
                         const std::size_t* firsts, std::size_t kinds, CUstream_st* stream) {
  return {.to = to,
          .from = from,
          .bytes = bytes,
          .count = count,
          .attributes = attributes,
          .firsts = firsts,
          .kinds = kinds,
          // In CUDA 13's form for the threads' default streams, drivers refuse the null stream.
          .stream = Which == entry::batch_per_thread ? stream : stream_of(Which, stream)};
}

template <entry Which, bool Linked>
int batch_old(address* to, address* from, std::size_t* bytes, std::size_t count,
              copy_attributes* attributes, std::size_t* firsts, std::size_t kinds,
              std::size_t* failed, CUstream_st* stream) {
  const auto asked = batch_of<Which>(to, from, bytes, count, attributes, firsts, kinds, stream);
  const batch_bytes sizes = bytes_of(asked);
  const watched_call seen(Which, first_of(to, count), first_of(from, count), sizes.total, count);
  if (take_over_batch(asked, sizes)) {
    // The driver does the same if no copy failed.
    if (failed != nullptr) *failed = std::numeric_limits<std::size_t>::max();
    return 0;
  }
  return call_next(Which, Linked, to, from, bytes, count, attributes, firsts, kinds, failed,
                   stream);
}

template <entry Which, bool Linked>
int batch(address* to, address* from, std::size_t* bytes, std::size_t count,
          copy_attributes* attributes, std::size_t* firsts, std::size_t kinds,
          CUstream_st* stream) {
  const auto asked = batch_of<Which>(to, from, bytes, count, attributes, firsts, kinds, stream);
  const batch_bytes sizes = bytes_of(asked);
  const watched_call seen(Which, first_of(to, count), first_of(from, count), sizes.total, count);
  if (take_over_batch(asked, sizes)) return 0;
  return call_next(Which, Linked, to, from, bytes, count, attributes, firsts, kinds, stream);
}

template <entry Which, bool Linked>
int batch_3d_old(std::size_t count, volume_copy* operations, std::size_t* failed,
                 unsigned long long flags, CUstream_st* stream) {
  const volumes all = volumes_of(operations, count);
  const watched_call seen(Which, all.to, all.from, all.bytes, count);
  count_volumes(all.bytes, count);
  return call_next(Which, Linked, count, operations, failed, flags, stream);
}

template <entry Which, bool Linked>
int batch_3d(std::size_t count, volume_copy* operations, unsigned long long flags,
             CUstream_st* stream) {
  const volumes all = volumes_of(operations, count);
  const watched_call seen(Which, all.to, all.from, all.bytes, count);
  count_volumes(all.bytes, count);
  return call_next(Which, Linked, count, operations, flags, stream);
}

// --- peer access ---------------------------------------------------------------------------------
//
// The engine enables peer access between the primary contexts. A program that does the same gets
// the results that it would get without the engine.

using peer_pair = std::pair<CUctx_st*, CUctx_st*>;

// The pairs of contexts between which the program itself enabled access. This class uses no heap,
// so a fork cannot leave it inconsistent.
class peer_pairs {
 public:
  // Adds a pair. Returns false if the pair is already present.
  bool insert(peer_pair one) {
    if (find(one) < count_) return false;
    if (count_ < pairs_.size()) pairs_.at(count_++) = one;
    return true;
  }
  // Removes a pair. Returns false if the pair is not present.
  bool erase(peer_pair one) {
    const std::size_t at = find(one);
    if (at == count_) return false;
    pairs_.at(at) = pairs_.at(--count_);
    return true;
  }
  void erase_all_of(const CUctx_st* context) {
    for (std::size_t at = 0; at < count_;) {
      if (pairs_.at(at).first == context || pairs_.at(at).second == context)
        pairs_.at(at) = pairs_.at(--count_);
      else
        ++at;
    }
  }

 private:
  std::size_t find(peer_pair one) const {
    std::size_t at = 0;
    while (at < count_ && pairs_.at(at) != one) ++at;
    return at;
  }
  std::array<peer_pair, 1024> pairs_{};
  std::size_t count_ = 0;
};

pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;
peer_pairs peers;  // guarded by peers_lock

class peers_locked {
 public:
  peers_locked() { pthread_mutex_lock(&peers_lock); }
  ~peers_locked() { pthread_mutex_unlock(&peers_lock); }
  peers_locked(const peers_locked&) = delete;
  peers_locked& operator=(const peers_locked&) = delete;
};

template <bool Linked>
int enable_peer(CUctx_st* peer, unsigned flags) {
  const int result = call_next(entry::enable_peer, Linked, peer, flags);
  if (result != 0 && result != cuda::driver_result::peer_access_already_enabled) return result;
  CUctx_st* context = current_context();
  if (context == nullptr) return result;
  const peers_locked locked;
  const bool first = peers.insert({context, peer});
  return result != 0 && first && engine_started() ? 0 : result;
}

template <bool Linked>
int disable_peer(CUctx_st* peer) {
  CUctx_st* context = current_context();
  {
    const peers_locked locked;
    if (context != nullptr && engine_started()) {
      // Access stays enabled, because the engine's copies need it.
      return peers.erase({context, peer}) ? 0 : peer_access_not_enabled;
    }
  }
  const int result = call_next(entry::disable_peer, Linked, peer);
  if (result == 0 && context != nullptr) {
    const peers_locked locked;
    peers.erase({context, peer});
  }
  return result;
}

// --- primary contexts ----------------------------------------------------------------------------
//
// The engine retains the primary contexts of all GPUs. A program can reset a context, or release a
// context that it retained before the engine started. Such a program expects everything in the
// context to end, so the engine ends first. A context that the program retained after the engine
// started stays.

// For each device, `retained` counts how often the program itself retained the context. `primaries`
// has the handle of the context. `retained_before` says whether the program had retained the
// context when the engine started.
std::array<std::atomic<int>, 64> retained;
std::array<std::atomic<CUctx_st*>, 64> primaries;
std::array<std::atomic<bool>, 64> retained_before;

bool is_tracked(int device) {
  return device >= 0 && static_cast<std::size_t>(device) < retained.size();
}

// Whether a call on a device is a call of the program. Calls that the engine and the kernel make
// are not calls of the program. Such calls can come while a thread changes the same context.
bool is_of_program(int device) { return is_tracked(device) && !in_own_call; }

template <bool Linked>
int primary_retain(CUctx_st** context, int device) {
  if (!is_of_program(device)) return call_next(entry::primary_retain, Linked, context, device);
  const primary_change only_one(device);
  const int result = call_next(entry::primary_retain, Linked, context, device);
  if (result != 0) return result;
  primaries[static_cast<std::size_t>(device)].store(*context);
  retained[static_cast<std::size_t>(device)].fetch_add(1);
  load_kernel(device, *context);
  return result;
}

// Forgets the access from and to a context, because this access ends with the context.
void forget_peers_of(int device) {
  if (!is_tracked(device)) return;
  const CUctx_st* context = primaries[static_cast<std::size_t>(device)].load();
  if (context == nullptr) return;  // the program never got the context
  const peers_locked locked;
  peers.erase_all_of(context);
}

// Whether a GPU's primary context exists. If the driver does not tell, the context may have ended,
// so the result is false.
bool is_active(int device) {
  const cuda::driver_table* driver = usable_driver();
  unsigned flags = 0;
  int active = 0;
  return driver != nullptr && driver->primary_state(device, &flags, &active) == 0 && active != 0;
}

template <entry Which, bool Linked>
int primary_release(int device) {
  if (!is_of_program(device)) return call_next(Which, Linked, device);
  const primary_change only_one(device);
  const auto at = static_cast<std::size_t>(device);
  CUctx_st* const context = primaries[at].load();
  const bool last = retained[at].load() <= 1;
  cuda::block_copier* const kernel = last ? forget_kernel(device) : nullptr;
  if (last && retained_before[at].load()) stop_engine();
  const int result = call_next(Which, Linked, device);
  if (result == 0 && retained[at].fetch_sub(1) == 1) forget_peers_of(device);
  if (kernel != nullptr) settle_kernel(device, context, kernel, is_active(device));
  return result;
}

template <entry Which, bool Linked>
int primary_reset(int device) {
  stop_engine();
  if (!is_of_program(device)) return call_next(Which, Linked, device);
  const primary_change only_one(device);
  CUctx_st* const context = primaries[static_cast<std::size_t>(device)].load();
  cuda::block_copier* const kernel = forget_kernel(device);
  forget_peers_of(device);
  const int result = call_next(Which, Linked, device);
  settle_kernel(device, context, kernel, result != 0);
  return result;
}

// --- lookups by the driver -----------------------------------------------------------------------

// The stand-in for the function that the driver found, if this library knows this form of the
// function. The form is known if the driver returns the same address for it.
template <class Ask>
void* replaced(const char* name, void* found, std::uint64_t flags, const Ask& ask) {
  const bool per_thread = (flags & lookup_per_thread) != 0;
  for (const bool matching : {true, false}) {
    for (std::size_t index = 0; index < entry_count; ++index) {
      const auto which = static_cast<entry>(index);
      const entry_facts& one = facts_of(which);
      if ((one.per_thread == per_thread) != matching || std::strcmp(name, one.name) != 0) continue;
      if (ask(one.version, one.per_thread ? lookup_per_thread : 0) == found) return stand_in(which);
    }
  }
  return found;
}

template <bool Linked>
int get_proc_address_old(const char* name, void** function, int version, std::uint64_t flags) {
  const int result = call_next(entry::get_proc_address_old, Linked, name, function, version, flags);
  if (result != 0 || name == nullptr || function == nullptr || *function == nullptr) return result;
  counters_seen_driver();
  *function = replaced(name, *function, flags, [&](int of_version, std::uint64_t with) {
    void* found = nullptr;
    if (call_next(entry::get_proc_address_old, Linked, name, &found, of_version, with) != 0)
      found = nullptr;
    return found;
  });
  return result;
}

template <bool Linked>
int get_proc_address(const char* name, void** function, int version, std::uint64_t flags,
                     int* status) {
  const int result =
      call_next(entry::get_proc_address, Linked, name, function, version, flags, status);
  if (result != 0 || name == nullptr || function == nullptr || *function == nullptr) return result;
  counters_seen_driver();
  *function = replaced(name, *function, flags, [&](int of_version, std::uint64_t with) {
    void* found = nullptr;
    int found_status = 0;
    if (call_next(entry::get_proc_address, Linked, name, &found, of_version, with, &found_status) !=
        0)
      found = nullptr;
    return found;
  });
  return result;
}

// --- all of them ---------------------------------------------------------------------------------

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void* stand_in(entry which) {
  switch (which) {
    case entry::copy:
      return address_of(copy<entry::copy, false>);
    case entry::copy_per_thread:
      return address_of(copy<entry::copy_per_thread, false>);
    case entry::host_to_gpu:
      return address_of(copy<entry::host_to_gpu, false>);
    case entry::host_to_gpu_per_thread:
      return address_of(copy<entry::host_to_gpu_per_thread, false>);
    case entry::gpu_to_host:
      return address_of(copy<entry::gpu_to_host, false>);
    case entry::gpu_to_host_per_thread:
      return address_of(copy<entry::gpu_to_host_per_thread, false>);
    case entry::gpu_to_gpu:
      return address_of(copy<entry::gpu_to_gpu, false>);
    case entry::gpu_to_gpu_per_thread:
      return address_of(copy<entry::gpu_to_gpu_per_thread, false>);
    case entry::peer:
      return address_of(peer_copy<entry::peer, false>);
    case entry::peer_per_thread:
      return address_of(peer_copy<entry::peer_per_thread, false>);
    case entry::synchronous_copy:
      return address_of(synchronous_copy<entry::synchronous_copy, false>);
    case entry::synchronous_copy_per_thread:
      return address_of(synchronous_copy<entry::synchronous_copy_per_thread, false>);
    case entry::synchronous_host_to_gpu:
      return address_of(synchronous_copy<entry::synchronous_host_to_gpu, false>);
    case entry::synchronous_host_to_gpu_per_thread:
      return address_of(synchronous_copy<entry::synchronous_host_to_gpu_per_thread, false>);
    case entry::synchronous_gpu_to_host:
      return address_of(synchronous_copy<entry::synchronous_gpu_to_host, false>);
    case entry::synchronous_gpu_to_host_per_thread:
      return address_of(synchronous_copy<entry::synchronous_gpu_to_host_per_thread, false>);
    case entry::synchronous_gpu_to_gpu:
      return address_of(synchronous_copy<entry::synchronous_gpu_to_gpu, false>);
    case entry::synchronous_gpu_to_gpu_per_thread:
      return address_of(synchronous_copy<entry::synchronous_gpu_to_gpu_per_thread, false>);
    case entry::synchronous_peer:
      return address_of(synchronous_peer_copy<entry::synchronous_peer, false>);
    case entry::synchronous_peer_per_thread:
      return address_of(synchronous_peer_copy<entry::synchronous_peer_per_thread, false>);
    case entry::batch_old:
      return address_of(batch_old<entry::batch_old, false>);
    case entry::batch_old_per_thread:
      return address_of(batch_old<entry::batch_old_per_thread, false>);
    case entry::batch:
      return address_of(batch<entry::batch, false>);
    case entry::batch_per_thread:
      return address_of(batch<entry::batch_per_thread, false>);
    case entry::batch_3d_old:
      return address_of(batch_3d_old<entry::batch_3d_old, false>);
    case entry::batch_3d_old_per_thread:
      return address_of(batch_3d_old<entry::batch_3d_old_per_thread, false>);
    case entry::batch_3d:
      return address_of(batch_3d<entry::batch_3d, false>);
    case entry::batch_3d_per_thread:
      return address_of(batch_3d<entry::batch_3d_per_thread, false>);
    case entry::enable_peer:
      return address_of(enable_peer<false>);
    case entry::disable_peer:
      return address_of(disable_peer<false>);
    case entry::primary_retain:
      return address_of(primary_retain<false>);
    case entry::primary_release_old:
      return address_of(primary_release<entry::primary_release_old, false>);
    case entry::primary_release:
      return address_of(primary_release<entry::primary_release, false>);
    case entry::primary_reset_old:
      return address_of(primary_reset<entry::primary_reset_old, false>);
    case entry::primary_reset:
      return address_of(primary_reset<entry::primary_reset, false>);
    case entry::get_proc_address_old:
      return address_of(get_proc_address_old<false>);
    case entry::get_proc_address:
      return address_of(get_proc_address<false>);
  }
  return nullptr;
}

void stand_ins_forked() noexcept { peers_lock = PTHREAD_MUTEX_INITIALIZER; }

void remember_own_contexts() noexcept {
  for (std::size_t device = 0; device < retained_before.size(); ++device)
    retained_before.at(device).store(retained.at(device).load() > 0);
}

// --- what is exported ----------------------------------------------------------------------------

// INTERLACE_EXPORT(entry, symbol, parameters, function)
#define INTERLACE_EXPORT(which, symbol, parameters, ...)                                  \
  __attribute__((visibility("default"))) int exported_##which parameters __asm__(symbol); \
  int exported_##which parameters { return __VA_ARGS__; }

#define INTERLACE_EXPORT_COPY(which, symbol)                                            \
  INTERLACE_EXPORT(which, symbol,                                                       \
                   (address to, address from, std::size_t bytes, CUstream_st * stream), \
                   copy<entry::which, true>(to, from, bytes, stream))
#define INTERLACE_EXPORT_PEER(which, symbol)                                              \
  INTERLACE_EXPORT(                                                                       \
      which, symbol,                                                                      \
      (address to, void* to_context, address from, void* from_context, std::size_t bytes, \
       CUstream_st* stream),                                                              \
      peer_copy<entry::which, true>(to, to_context, from, from_context, bytes, stream))
#define INTERLACE_EXPORT_SYNCHRONOUS(which, symbol)                              \
  INTERLACE_EXPORT(which, symbol, (address to, address from, std::size_t bytes), \
                   synchronous_copy<entry::which, true>(to, from, bytes))
#define INTERLACE_EXPORT_SYNCHRONOUS_PEER(which, symbol)                                   \
  INTERLACE_EXPORT(                                                                        \
      which, symbol,                                                                       \
      (address to, void* to_context, address from, void* from_context, std::size_t bytes), \
      synchronous_peer_copy<entry::which, true>(to, to_context, from, from_context, bytes))

#define INTERLACE_EXPORT_BATCH_OLD(which, symbol)                                            \
  INTERLACE_EXPORT(which, symbol,                                                            \
                   (address * to, address * from, std::size_t * bytes, std::size_t count,    \
                    copy_attributes * attributes, std::size_t * firsts, std::size_t kinds,   \
                    std::size_t * failed, CUstream_st * stream),                             \
                   batch_old<entry::which, true>(to, from, bytes, count, attributes, firsts, \
                                                 kinds, failed, stream))
#define INTERLACE_EXPORT_BATCH(which, symbol)                                 \
  INTERLACE_EXPORT(                                                           \
      which, symbol,                                                          \
      (address * to, address * from, std::size_t * bytes, std::size_t count,  \
       copy_attributes * attributes, std::size_t * firsts, std::size_t kinds, \
       CUstream_st * stream),                                                 \
      batch<entry::which, true>(to, from, bytes, count, attributes, firsts, kinds, stream))
#define INTERLACE_EXPORT_BATCH_3D_OLD(which, symbol)                                   \
  INTERLACE_EXPORT(which, symbol,                                                      \
                   (std::size_t count, volume_copy * operations, std::size_t * failed, \
                    unsigned long long flags, CUstream_st* stream),                    \
                   batch_3d_old<entry::which, true>(count, operations, failed, flags, stream))
#define INTERLACE_EXPORT_BATCH_3D(which, symbol)                                           \
  INTERLACE_EXPORT(which, symbol,                                                          \
                   (std::size_t count, volume_copy * operations, unsigned long long flags, \
                    CUstream_st* stream),                                                  \
                   batch_3d<entry::which, true>(count, operations, flags, stream))

INTERLACE_EXPORT_COPY(copy, "cuMemcpyAsync")
INTERLACE_EXPORT_COPY(copy_per_thread, "cuMemcpyAsync_ptsz")
INTERLACE_EXPORT_COPY(host_to_gpu, "cuMemcpyHtoDAsync_v2")
INTERLACE_EXPORT_COPY(host_to_gpu_per_thread, "cuMemcpyHtoDAsync_v2_ptsz")
INTERLACE_EXPORT_COPY(gpu_to_host, "cuMemcpyDtoHAsync_v2")
INTERLACE_EXPORT_COPY(gpu_to_host_per_thread, "cuMemcpyDtoHAsync_v2_ptsz")
INTERLACE_EXPORT_COPY(gpu_to_gpu, "cuMemcpyDtoDAsync_v2")
INTERLACE_EXPORT_COPY(gpu_to_gpu_per_thread, "cuMemcpyDtoDAsync_v2_ptsz")
INTERLACE_EXPORT_PEER(peer, "cuMemcpyPeerAsync")
INTERLACE_EXPORT_PEER(peer_per_thread, "cuMemcpyPeerAsync_ptsz")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_copy, "cuMemcpy")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_copy_per_thread, "cuMemcpy_ptds")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_host_to_gpu, "cuMemcpyHtoD_v2")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_host_to_gpu_per_thread, "cuMemcpyHtoD_v2_ptds")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_gpu_to_host, "cuMemcpyDtoH_v2")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_gpu_to_host_per_thread, "cuMemcpyDtoH_v2_ptds")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_gpu_to_gpu, "cuMemcpyDtoD_v2")
INTERLACE_EXPORT_SYNCHRONOUS(synchronous_gpu_to_gpu_per_thread, "cuMemcpyDtoD_v2_ptds")
INTERLACE_EXPORT_SYNCHRONOUS_PEER(synchronous_peer, "cuMemcpyPeer")
INTERLACE_EXPORT_SYNCHRONOUS_PEER(synchronous_peer_per_thread, "cuMemcpyPeer_ptds")
INTERLACE_EXPORT_BATCH_OLD(batch_old, "cuMemcpyBatchAsync")
INTERLACE_EXPORT_BATCH_OLD(batch_old_per_thread, "cuMemcpyBatchAsync_ptsz")
INTERLACE_EXPORT_BATCH(batch, "cuMemcpyBatchAsync_v2")
INTERLACE_EXPORT_BATCH(batch_per_thread, "cuMemcpyBatchAsync_v2_ptsz")
INTERLACE_EXPORT_BATCH_3D_OLD(batch_3d_old, "cuMemcpy3DBatchAsync")
INTERLACE_EXPORT_BATCH_3D_OLD(batch_3d_old_per_thread, "cuMemcpy3DBatchAsync_ptsz")
INTERLACE_EXPORT_BATCH_3D(batch_3d, "cuMemcpy3DBatchAsync_v2")
INTERLACE_EXPORT_BATCH_3D(batch_3d_per_thread, "cuMemcpy3DBatchAsync_v2_ptsz")

INTERLACE_EXPORT(enable_peer, "cuCtxEnablePeerAccess", (CUctx_st * peer, unsigned flags),
                 enable_peer<true>(peer, flags))
INTERLACE_EXPORT(disable_peer, "cuCtxDisablePeerAccess", (CUctx_st * peer),
                 disable_peer<true>(peer))
INTERLACE_EXPORT(primary_retain, "cuDevicePrimaryCtxRetain", (CUctx_st * *context, int device),
                 primary_retain<true>(context, device))
INTERLACE_EXPORT(primary_release_old, "cuDevicePrimaryCtxRelease", (int device),
                 primary_release<entry::primary_release_old, true>(device))
INTERLACE_EXPORT(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device),
                 primary_release<entry::primary_release, true>(device))
INTERLACE_EXPORT(primary_reset_old, "cuDevicePrimaryCtxReset", (int device),
                 primary_reset<entry::primary_reset_old, true>(device))
INTERLACE_EXPORT(primary_reset, "cuDevicePrimaryCtxReset_v2", (int device),
                 primary_reset<entry::primary_reset, true>(device))
INTERLACE_EXPORT(get_proc_address_old, "cuGetProcAddress",
                 (const char* name, void** function, int version, std::uint64_t flags),
                 get_proc_address_old<true>(name, function, version, flags))
INTERLACE_EXPORT(get_proc_address, "cuGetProcAddress_v2",
                 (const char* name, void** function, int version, std::uint64_t flags, int* status),
                 get_proc_address<true>(name, function, version, flags, status))

}  // namespace interlace::preload
