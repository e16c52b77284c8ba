// Kernels that launch copies of complete chunks themselves (the device-launch mechanism). They need
// relocatable device code, which makes other kernels slower. So they are compiled separately, and
// found by their type.
#pragma once

#include <typeinfo>

namespace interlace::cuda {

struct launching_kernel {
  const void* entry = nullptr;   // null: no object file has it
  const void* copies = nullptr;  // the kernel that it launches
};

// Thread-safe.
void add_launching_kernel(const std::type_info& kernel, launching_kernel k);
launching_kernel find_launching_kernel(const std::type_info& kernel);

}  // namespace interlace::cuda
