// A recorded launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <typeinfo>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/packing_table.hpp"
#include "interlace/replicas.hpp"

namespace interlace::cuda {

struct tracked_region;

struct kernel_operation {
  const void* entry = nullptr;
  // the kernel for copies that the recorded kernel launches from the GPU
  const void* launches = nullptr;
  const char* type_name = "";
  std::vector<std::byte> functor;
  grid shape;  // the blocks to launch
  // The first block, if the launch runs only a range of blocks. In this case, `total` is the number
  // of blocks of all ranges together.
  std::uint32_t first = 0;
  std::uint32_t total = 0;
  const tracked_region* tracked = nullptr;  // the chunks that the blocks announce
  kernel::replicas where;                   // the memory to which results are copied
  bool packs = false;                       // whether the kernel packs updates
  // the partition whose updates the kernel packs, if `packs` is true
  kernel::packing_table packing;
};

// The compiled variants of a kernel. Variants differ in what a store does and in which blocks run.
struct kernel_entries {
  const void* whole = nullptr;          // all blocks; stores stay on the device
  const void* ranged = nullptr;         // a range of blocks; stores stay on the device
  const void* stores_inline = nullptr;  // stores also go to the subscribers
  const void* announces = nullptr;      // blocks announce the chunks that they write
  const void* packs = nullptr;          // all blocks; packs the updates of a partition
  // The kernel's type. The node finds the variant that launches copies by this type.
  const std::type_info* type = nullptr;
};

}  // namespace interlace::cuda
