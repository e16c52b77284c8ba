// The functions of the CUDA driver that this library stands in front of, and where the real ones
// are. A program gets at them in three ways: it links libcuda (then the dynamic linker finds those
// that this library exports), it asks dlsym, or it asks cuGetProcAddress.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace interlace::preload {

enum class entry : std::uint8_t {
  copy,  // cuMemcpyAsync
  copy_per_thread,
  host_to_gpu,
  host_to_gpu_per_thread,
  gpu_to_host,
  gpu_to_host_per_thread,
  gpu_to_gpu,
  gpu_to_gpu_per_thread,
  peer,
  peer_per_thread,
  // These wait for the copy.
  copy_now,
  copy_now_per_thread,
  host_to_gpu_now,
  host_to_gpu_now_per_thread,
  gpu_to_host_now,
  gpu_to_host_now_per_thread,
  gpu_to_gpu_now,
  gpu_to_gpu_now_per_thread,
  peer_now,
  peer_now_per_thread,
  // These change what the copies of this library rest on.
  enable_peer,
  disable_peer,
  primary_retain,
  primary_release_old,
  primary_release,
  primary_reset_old,
  primary_reset,
  // These find all others.
  find_old,
  find,
};
inline constexpr std::size_t entry_count = static_cast<std::size_t>(entry::find) + 1;

struct entry_facts {
  const char* symbol;  // as libcuda exports it
  const char* name;    // as cuGetProcAddress is asked for it
  int version;         // of the first driver API with this form of it, 1000 * major + 10 * minor
  bool per_thread;     // whether its null stream is the thread's own one
};

const entry_facts& facts_of(entry which);
inline constexpr std::size_t index_of(entry which) { return static_cast<std::size_t>(which); }

// What programs that look it up get in its place.
void* stand_in(entry which);

// The next dlsym behind this library's own.
using find_symbol = void* (*)(void*, const char*);
find_symbol next_dlsym();
// The driver's function; null where the driver is not loaded or has none.
void* driver_function(entry which);
void* driver_symbol(const char* symbol);
// What a program that is linked to it would call without this library: somebody else's stand-in,
// or else the driver's.
void* linked_function(entry which);

}  // namespace interlace::preload
