#include "cuda/memory/unified.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/errors.hpp"
#include "cuda/check.hpp"
#include "cuda/driver_entry.hpp"
#include "cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

// Their types are those of the declarations, which are not linked.
struct driver {
  decltype(&cuGetErrorName) error_name = driver_entry<decltype(&cuGetErrorName)>("cuGetErrorName");
  decltype(&cuMemGetAllocationGranularity) granularity =
      driver_entry<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemAddressReserve) reserve =
      driver_entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = driver_entry<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemCreate) create = driver_entry<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver_entry<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemMap) map = driver_entry<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver_entry<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = driver_entry<decltype(&cuMemSetAccess)>("cuMemSetAccess");

  std::string name_of(CUresult error) const {
    const char* name = nullptr;
    if (error_name(error, &name) != CUDA_SUCCESS || name == nullptr) {
      return "error " + std::to_string(static_cast<int>(error));
    }
    return name;
  }
  void check(CUresult error, const char* what) const {
    if (error == CUDA_SUCCESS) return;
    throw device_error(std::string(what) + " failed: " + name_of(error));
  }
  void log(CUresult error, const char* what) const {
    if (error == CUDA_SUCCESS || error == CUDA_ERROR_DEINITIALIZED) return;
    std::fprintf(stderr, "interlace: %s failed: %s\n", what, name_of(error).c_str());
  }
};

// Looked up once it is needed; throws as long as the driver lacks any of it.
const driver& calls() {
  static const driver found;
  return found;
}

CUmemAllocationProp on_gpu(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  return properties;
}

}  // namespace

unified_memory::~unified_memory() {
  for (const allocation& a : allocations_) release(a);
}

void unified_memory::release(const allocation& a) noexcept {
  // The memory goes with its only mapping.
  if (a.mapped != 0) calls().log(calls().unmap(a.address, a.mapped), "cuMemUnmap");
  calls().log(calls().free(a.address, a.reserved), "cuMemAddressFree");
}

void* unified_memory::take(const std::vector<int>& ordinals, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const driver& d = calls();
  std::uint64_t page = page_bytes;
  for (const int ordinal : ordinals) {
    const CUmemAllocationProp properties = on_gpu(ordinal);
    std::size_t granularity = 0;
    d.check(d.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            "cuMemGetAllocationGranularity");
    page = std::max<std::uint64_t>(page, granularity);
  }

  allocation a{0, (bytes + page - 1) / page * page, 0};
  CUdeviceptr address = 0;
  d.check(d.reserve(&address, a.reserved, page, 0, 0), "cuMemAddressReserve");
  a.address = address;
  try {
    for (std::uint64_t k = 0; k < a.reserved / page; ++k) {
      const int ordinal = ordinals[k % ordinals.size()];
      const CUmemAllocationProp properties = on_gpu(ordinal);
      CUmemGenericAllocationHandle handle = 0;
      const CUresult error = d.create(&handle, page, &properties, 0);
      if (error == CUDA_ERROR_OUT_OF_MEMORY) {
        throw device_error("GPU " + std::to_string(ordinal) + " has no memory left for page " +
                           std::to_string(k) + " of " + std::to_string(a.reserved / page) +
                           " of an array of " + std::to_string(bytes) + " bytes on " +
                           std::to_string(ordinals.size()) + " GPUs");
      }
      d.check(error, "cuMemCreate");
      const CUresult mapped = d.map(address + k * page, page, 0, handle, 0);
      // The mapping keeps it.
      d.log(d.release(handle), "cuMemRelease");
      d.check(mapped, "cuMemMap");
      a.mapped += page;
    }
    // One GPU may stand for several devices, and is named once.
    std::vector<int> users = ordinals;
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    std::vector<CUmemAccessDesc> access;
    access.reserve(users.size());
    for (const int user : users) {
      access.push_back({on_gpu(user).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
    d.check(d.set_access(address, a.reserved, access.data(), access.size()), "cuMemSetAccess");
    // Each page by its own GPU: nothing promises a memset that goes over several GPUs' memory.
    auto* data = reinterpret_cast<std::byte*>(address);
    for (std::uint64_t k = 0; k < a.reserved / page; ++k) {
      const current_device on(ordinals[k % ordinals.size()]);
      INTERLACE_CUDA_CHECK(cudaMemset(data + k * page, 0xff, page));
    }
    for (const int user : users) {
      const current_device on(user);
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
    allocations_.push_back(a);
    return data;
  } catch (...) {
    release(a);
    throw;
  }
}

}  // namespace interlace::cuda
