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

struct memory_view {
  memory_kind kind = memory_kind::host;
  int gpu = 0;                  // of gpu
  CUctx_st* context = nullptr;  // in which it was allocated; null for virtual memory
  bool plain = false;           // of gpu, by cuMemAlloc: its peers can reach it
};

// A context is current. Throws device_error where the driver fails; bytes is at least 1.
memory_view look_at(const driver_table& driver, device_address address, std::uint64_t bytes);

// Whether the current context's GPU may read and write all of it, which is a question where it is
// neither plain nor the host's.
bool reachable(const driver_table& driver, device_address address, std::uint64_t bytes);

}  // namespace interlace::cuda
