// A launch, taken down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <typeinfo>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/replicas.hpp"

namespace interlace::cuda {

struct tracked_region;

struct kernel_operation {
  const void* entry = nullptr;
  const void* launches = nullptr;  // the kernel that it launches itself
  const char* type_name = "";
  std::vector<std::byte> functor;
  grid shape;               // blocks to launch
  std::uint32_t first = 0;  // of a range of blocks: block `first` of `total` is the launch's first
  std::uint32_t total = 0;
  const tracked_region* tracked = nullptr;  // what the blocks announce,
  kernel::replicas where;                   // and what is then copied
};

// A kernel as it is compiled: what it does with a store, and which blocks it has.
struct kernel_entries {
  const void* whole = nullptr;           // all blocks; stores stay on the device
  const void* ranged = nullptr;          // the same, of a range of blocks
  const void* stores_inline = nullptr;   // stores go to the subscribers too
  const void* announces = nullptr;       // blocks announce the chunks that they write
  const std::type_info* type = nullptr;  // by which one that launches copies is found
};

}  // namespace interlace::cuda
