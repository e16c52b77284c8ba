// What the driver knows of the memory at an address.
#pragma once

#include <cstdint>

#include "cuda/transfer/contexts.hpp"

namespace interlace::cuda {

enum class memory_kind : std::uint8_t {
  pinned,   // page-locked memory of the host, one allocation or registration
  gpu,      // memory of one GPU
  managed,  // moved by the driver
  host,     // not page-locked, or the driver does not know it
  mixed,    // several allocations that are not of one place
};

enum class memory_origin : std::uint8_t {
  host,
  plain,  // cuMemAlloc: a GPU's peers can reach it
  pool,   // cuMemAllocAsync
  mapped  // virtual memory
};

// What the driver says of one address.
struct memory_facts {
  CUctx_st* context = nullptr;
  unsigned type = memory_unknown;
  unsigned long long buffer = 0;
  unsigned managed = 0;
  int gpu = 0;
  unsigned plain = 0;
  CUmemPoolHandle_st* pool = nullptr;
};

// Throws device_error where the driver fails.
memory_facts ask(const driver_table& driver, device_address address);

struct memory_view {
  memory_kind kind = memory_kind::host;
  int gpu = 0;                  // of gpu
  CUctx_st* context = nullptr;  // in which it was allocated; null for virtual memory
  memory_origin origin = memory_origin::host;
  CUmemPoolHandle_st* pool = nullptr;
  unsigned long long id = 0;  // of the allocation, if it is one; 0 for virtual memory
};

// Bytes is at least 1. Throws device_error where the driver fails.
memory_view look_at(const driver_table& driver, device_address address, std::uint64_t bytes);
// `first` is what was told of the address; the same otherwise.
memory_view look_at(const driver_table& driver, const memory_facts& first, device_address address,
                    std::uint64_t bytes);

// Whether the GPU may read and write all of it, which is a question where it is neither plain nor
// the host's.
bool reachable(const driver_table& driver, const memory_view& seen, int gpu, device_address address,
               std::uint64_t bytes);

}  // namespace interlace::cuda
