#include "interlace/cuda/memory/unified.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "cuda/memory/driver_calls.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

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
  // The memory has only one mapping, so unmapping it frees the memory.
  if (a.mapped != 0) driver().log(driver().unmap(a.address, a.mapped), "cuMemUnmap");
  driver().log(driver().free(a.address, a.reserved), "cuMemAddressFree");
}

void* unified_memory::take(const std::vector<int>& ordinals, std::uint64_t bytes,
                           const kernel::page_placement& pages) {
  if (bytes == 0) return nullptr;
  const driver_calls& d = driver();
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
      const int ordinal = ordinals[kernel::home_of_page(
          pages, k, a.reserved / page, 0, static_cast<std::uint32_t>(ordinals.size()))];
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
      // The handle is no longer needed, because the mapping keeps the memory allocated.
      d.log(d.release(handle), "cuMemRelease");
      d.check(mapped, "cuMemMap");
      a.mapped += page;
    }
    // If several devices share a GPU, the list must name the GPU only once.
    std::vector<int> users = ordinals;
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    std::vector<CUmemAccessDesc> access;
    access.reserve(users.size());
    for (const int user : users) {
      access.push_back({on_gpu(user).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
    d.check(d.set_access(address, a.reserved, access.data(), access.size()), "cuMemSetAccess");
    // Each GPU sets its own pages, because nothing guarantees that one memset works across the
    // memory of several GPUs.
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
