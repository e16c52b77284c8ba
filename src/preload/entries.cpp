#include "preload/entries.hpp"

#include <dlfcn.h>

#include <atomic>

namespace interlace::preload {
namespace {

// The facts of each entry: symbol, name, version and per_thread.
constexpr std::array<entry_facts, entry_count> entries{{
    {"cuMemcpyAsync", "cuMemcpyAsync", 4000, false},
    {"cuMemcpyAsync_ptsz", "cuMemcpyAsync", 7000, true},
    {"cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", 3020, false},
    {"cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", 7000, true},
    {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", 3020, false},
    {"cuMemcpyDtoHAsync_v2_ptsz", "cuMemcpyDtoHAsync", 7000, true},
    {"cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync", 3020, false},
    {"cuMemcpyDtoDAsync_v2_ptsz", "cuMemcpyDtoDAsync", 7000, true},
    {"cuMemcpyPeerAsync", "cuMemcpyPeerAsync", 4000, false},
    {"cuMemcpyPeerAsync_ptsz", "cuMemcpyPeerAsync", 7000, true},
    {"cuMemcpy", "cuMemcpy", 4000, false},
    {"cuMemcpy_ptds", "cuMemcpy", 7000, true},
    {"cuMemcpyHtoD_v2", "cuMemcpyHtoD", 3020, false},
    {"cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD", 7000, true},
    {"cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020, false},
    {"cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH", 7000, true},
    {"cuMemcpyDtoD_v2", "cuMemcpyDtoD", 3020, false},
    {"cuMemcpyDtoD_v2_ptds", "cuMemcpyDtoD", 7000, true},
    {"cuMemcpyPeer", "cuMemcpyPeer", 4000, false},
    {"cuMemcpyPeer_ptds", "cuMemcpyPeer", 7000, true},
    {"cuMemcpyBatchAsync", "cuMemcpyBatchAsync", 12080, false},
    {"cuMemcpyBatchAsync_ptsz", "cuMemcpyBatchAsync", 12080, true},
    {"cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync", 13000, false},
    {"cuMemcpyBatchAsync_v2_ptsz", "cuMemcpyBatchAsync", 13000, true},
    {"cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync", 12080, false},
    {"cuMemcpy3DBatchAsync_ptsz", "cuMemcpy3DBatchAsync", 12080, true},
    {"cuMemcpy3DBatchAsync_v2", "cuMemcpy3DBatchAsync", 13000, false},
    {"cuMemcpy3DBatchAsync_v2_ptsz", "cuMemcpy3DBatchAsync", 13000, true},
    {"cuCtxEnablePeerAccess", "cuCtxEnablePeerAccess", 4000, false},
    {"cuCtxDisablePeerAccess", "cuCtxDisablePeerAccess", 4000, false},
    {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, false},
    {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease", 7000, false},
    {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", 11000, false},
    {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000, false},
    {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", 11000, false},
    {"cuGetProcAddress", "cuGetProcAddress", 11030, false},
    {"cuGetProcAddress_v2", "cuGetProcAddress", 12000, false},
}};

std::array<std::atomic<void*>, entry_count> of_driver;
std::array<std::atomic<void*>, entry_count> of_linker;

// The driver's library if the program has loaded it, and null otherwise. The handle is never
// closed, so the driver stays loaded.
void* driver_library() {
  static std::atomic<void*> library{nullptr};
  void* found = library.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    library.store(found, std::memory_order_release);
  }
  return found;
}

}  // namespace

const entry_facts& facts_of(entry which) { return entries[index_of(which)]; }

find_symbol next_dlsym() {
  static std::atomic<find_symbol> next{nullptr};
  find_symbol found = next.load(std::memory_order_acquire);
  if (found == nullptr) {
    // The function dlsym cannot look itself up, so dlvsym looks it up. The second version is for C
    // libraries before 2.34.
    void* symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (symbol == nullptr) symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    found = reinterpret_cast<find_symbol>(symbol);
    next.store(found, std::memory_order_release);
  }
  return found;
}

void* driver_symbol(const char* symbol) {
  void* library = driver_library();
  return library == nullptr ? nullptr : next_dlsym()(library, symbol);
}

void* driver_function(entry which) {
  std::atomic<void*>& kept = of_driver[index_of(which)];
  void* found = kept.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  found = driver_symbol(facts_of(which).symbol);
  kept.store(found, std::memory_order_release);
  return found;
}

void* linked_function(entry which) {
  std::atomic<void*>& kept = of_linker[index_of(which)];
  void* found = kept.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  found = next_dlsym()(RTLD_NEXT, facts_of(which).symbol);
  if (found == nullptr) found = driver_function(which);
  kept.store(found, std::memory_order_release);
  return found;
}

}  // namespace interlace::preload
