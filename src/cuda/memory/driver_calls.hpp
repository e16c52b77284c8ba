// Memory functions that only the driver has: virtual memory management, and the properties of a
// pointer. The program looks up these functions at run time and does not link the driver.
#pragma once

#include <cuda.h>

#include <string>

#include "cuda/driver_entry.hpp"

namespace interlace::cuda {

// Pointers to the driver's functions. Their types come from the driver's declarations, which need
// no linking.
struct driver_calls {
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
  decltype(&cuMemRetainAllocationHandle) retain =
      driver_entry<decltype(&cuMemRetainAllocationHandle)>("cuMemRetainAllocationHandle");
  decltype(&cuMemExportToShareableHandle) export_handle =
      driver_entry<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle");
  decltype(&cuMemImportFromShareableHandle) import_handle =
      driver_entry<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle");
  decltype(&cuPointerGetAttribute) attribute =
      driver_entry<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");

  std::string name_of(CUresult error) const;
  // Throws device_error if `error` is an error.
  void check(CUresult error, const char* what) const;
  // Logs `error`, unless the driver is already shutting down.
  void log(CUresult error, const char* what) const;
};

// The functions, looked up at the first call. Throws device_error if the driver lacks any of them.
const driver_calls& driver();

}  // namespace interlace::cuda
