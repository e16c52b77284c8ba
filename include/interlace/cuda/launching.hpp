// Kernels that launch the copies of complete chunks themselves (the device-launch mechanism). These
// kernels need relocatable device code, which makes other kernels slower. They are therefore
// compiled separately, and the node finds them by the type of the kernel.
#pragma once

#include <typeinfo>

namespace interlace::cuda {

struct launching_kernel {
  const void* entry = nullptr;   // null if no object file has the kernel
  const void* copies = nullptr;  // the kernel that the entry launches for each chunk
};

// Registers the device-launch variant of a kernel type. Thread-safe.
void add_launching_kernel(const std::type_info& kernel, launching_kernel k);
launching_kernel find_launching_kernel(const std::type_info& kernel);

}  // namespace interlace::cuda
