// Kernels that launch the copies of complete chunks themselves (the device-launch mechanism). These
// kernels need relocatable device code, which makes other kernels slower. Therefore they are
// compiled separately, and the node finds them by their type.
#pragma once

#include <typeinfo>

namespace interlace::cuda {

struct launching_kernel {
  const void* entry = nullptr;   // null: no object file has the kernel
  const void* copies = nullptr;  // the kernel that the entry launches for each chunk
};

// Thread-safe.
void add_launching_kernel(const std::type_info& kernel, launching_kernel k);
launching_kernel find_launching_kernel(const std::type_info& kernel);

}  // namespace interlace::cuda
