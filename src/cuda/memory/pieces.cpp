#include "cuda/memory/pieces.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/memory/driver_calls.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

// An attribute of a pointer, or 0 if the address belongs to no allocation.
CUdeviceptr pointer_attribute(CUpointer_attribute which, std::uint64_t address) {
  CUdeviceptr value = 0;
  const CUresult error = driver().attribute(&value, which, static_cast<CUdeviceptr>(address));
  if (error == CUDA_ERROR_INVALID_VALUE) return 0;
  driver().check(error, "cuPointerGetAttribute");
  return value;
}

// The piece that contains the address, with the bounds of the driver's mapping or allocation.
memory_pieces::piece piece_at(std::uint64_t address, bool mapped) {
  return {
      .address = pointer_attribute(
          mapped ? CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR : CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
          address),
      .bytes = pointer_attribute(
          mapped ? CU_POINTER_ATTRIBUTE_MAPPING_SIZE : CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)};
}

bool is_mapped(std::uint64_t address) {
  if (pointer_attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) != 0) {
    return false;
  }
  CUmemGenericAllocationHandle handle = 0;
  if (driver().retain(&handle, reinterpret_cast<void*>(address)) != CUDA_SUCCESS) return false;
  driver().log(driver().release(handle), "cuMemRelease");
  return true;
}

}  // namespace

memory_pieces find_pieces(const void* data, std::uint64_t bytes, int ordinal,
                          const std::string& what) {
  const current_device on(ordinal);
  cudaPointerAttributes attributes{};
  INTERLACE_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
  if (attributes.type != cudaMemoryTypeDevice || attributes.device != ordinal) {
    throw usage_error(what +
                      (attributes.type != cudaMemoryTypeDevice
                           ? " is not device memory"
                           : " is on GPU " + std::to_string(attributes.device)) +
                      "; give memory of GPU " + std::to_string(ordinal));
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  memory_pieces found;
  found.mapped = is_mapped(begin);
  if (!found.mapped && pointer_attribute(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, begin) != 0) {
    throw usage_error(
        what +
        " comes from cudaMallocAsync and cannot be shared with other GPUs; use cudaMalloc or "
        "virtual memory management");
  }
  std::uint64_t end = begin;
  while (end < begin + bytes) {
    if (found.pieces.empty() || (found.mapped && is_mapped(end))) {
      const memory_pieces::piece p = piece_at(end, found.mapped);
      if (p.address + p.bytes > end && (found.pieces.empty() || p.address == end)) {
        found.pieces.push_back(p);
        end = p.address + p.bytes;
        continue;
      }
    }
    throw usage_error(what + " ends after " + std::to_string(end - begin) + " bytes, but needs " +
                      std::to_string(bytes) + "; give larger memory");
  }
  found.offset = begin - found.pieces.front().address;
  return found;
}

void grant_access(const memory_pieces& memory, const std::vector<int>& ordinals) {
  if (!memory.mapped) return;
  std::vector<int> users = ordinals;
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  std::vector<CUmemAccessDesc> access(users.size());
  for (std::size_t k = 0; k < users.size(); ++k) {
    access[k].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[k].location.id = users[k];
    access[k].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  for (const memory_pieces::piece& p : memory.pieces) {
    driver().check(driver().set_access(p.address, p.bytes, access.data(), access.size()),
                   "cuMemSetAccess");
  }
}

}  // namespace interlace::cuda
