// The functions of the CUDA driver that this library replaces, and the places of the real
// functions. If a program links libcuda, the dynamic linker finds the functions that this library
// exports. Other programs look up driver functions by dlsym or by cuGetProcAddress.
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
  // These functions block until the copy is complete.
  synchronous_copy,
  synchronous_copy_per_thread,
  synchronous_host_to_gpu,
  synchronous_host_to_gpu_per_thread,
  synchronous_gpu_to_host,
  synchronous_gpu_to_host_per_thread,
  synchronous_gpu_to_gpu,
  synchronous_gpu_to_gpu_per_thread,
  synchronous_peer,
  synchronous_peer_per_thread,
  // These functions make many copies in one call. The forms of CUDA 12.8, which come first, also
  // say which copy failed.
  batch_old,
  batch_old_per_thread,
  batch,
  batch_per_thread,
  batch_3d_old,
  batch_3d_old_per_thread,
  batch_3d,
  batch_3d_per_thread,
  // These functions change peer access, or contexts that the engine uses.
  enable_peer,
  disable_peer,
  primary_retain,
  primary_release_old,
  primary_release,
  primary_reset_old,
  primary_reset,
  // The next two functions give programs the addresses of all other functions.
  get_proc_address_old,
  get_proc_address,
};
inline constexpr std::size_t entry_count = static_cast<std::size_t>(entry::get_proc_address) + 1;

struct entry_facts {
  const char* symbol;  // name that libcuda exports
  const char* name;    // name for cuGetProcAddress
  int version;         // first version of the driver API with this form: 1000 * major + 10 * minor
  bool per_thread;     // whether the null stream means the thread's default stream
};

const entry_facts& facts_of(entry which);
inline constexpr std::size_t index_of(entry which) { return static_cast<std::size_t>(which); }

// The function that a program gets when it looks up the entry.
void* stand_in(entry which);

// The type of dlsym. This is the dlsym that comes after this library's own dlsym in the order of
// the linker.
using find_symbol = void* (*)(void*, const char*);
find_symbol next_dlsym();
// The driver's function, or null if the driver is not loaded or has no such function.
void* driver_function(entry which);
void* driver_symbol(const char* symbol);
// The function that a linked program would call without this library. It belongs to another
// preloaded library or to the driver.
void* linked_function(entry which);

}  // namespace interlace::preload
