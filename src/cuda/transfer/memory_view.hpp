// The facts that the driver reports about the memory at an address.
#pragma once

#include <cstdint>

#include "cuda/transfer/contexts.hpp"

namespace interlace::cuda {

enum class memory_kind : std::uint8_t {
  pinned,   // page-locked memory of the host, in one allocation or registration
  gpu,      // memory of one GPU
  managed,  // memory that the driver moves
  host,     // memory that is not page-locked, or that the driver does not know
  mixed,    // several allocations in different places
};

enum class memory_origin : std::uint8_t {
  host,
  plain,  // memory of cuMemAlloc, to which the GPU's peers have access
  pool,   // memory from cuMemAllocAsync
  mapped  // virtual memory
};

// The driver's attributes of one address.
struct memory_facts {
  CUctx_st* context = nullptr;
  unsigned type = memory_unknown;
  unsigned long long buffer = 0;
  unsigned managed = 0;
  int gpu = 0;
  unsigned plain = 0;
  CUmemPoolHandle_st* pool = nullptr;
};

// Asks the driver about an address. Throws device_error if the driver fails.
memory_facts query_memory(const driver_table& driver, device_address address);

struct memory_view {
  memory_kind kind = memory_kind::host;
  int gpu = 0;                  // number of the GPU; only for memory of a GPU
  CUctx_st* context = nullptr;  // context of the allocation; null for virtual memory
  memory_origin origin = memory_origin::host;
  CUmemPoolHandle_st* pool = nullptr;
  // id of the allocation; 0 for virtual memory, and if there is no allocation
  unsigned long long id = 0;
};

// Inspects a range of memory. `bytes` must be at least 1. Throws device_error if the driver fails.
memory_view view_memory(const driver_table& driver, device_address address, std::uint64_t bytes);
// Does the same without asking the driver about `address` again. `first` has the attributes of
// `address`.
memory_view view_memory(const driver_table& driver, const memory_facts& first,
                        device_address address, std::uint64_t bytes);

// Whether the GPU can read and write all of the memory. This question makes sense only for virtual
// memory and memory of pools. A GPU's plain memory and the host's memory are always accessible to
// the GPU's peers.
bool accessible(const driver_table& driver, const memory_view& seen, int gpu,
                device_address address, std::uint64_t bytes);

}  // namespace interlace::cuda
