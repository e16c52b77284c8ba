#include "cuda/memory/share.hpp"

#include <cuda_runtime.h>

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/cut_text.hpp"
#include "base/hexadecimal.hpp"
#include "cuda/memory/driver_calls.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

// The two forms of the text. In "plain OFFSET HANDLE", the handle has 64 bytes in hexadecimal
// digits. The other form is "mapped OFFSET COUNT BYTES...".
constexpr const char* plain = "plain";

cudaIpcMemHandle_t from_hex(const std::string& text) {
  cudaIpcMemHandle_t handle{};
  if (text.size() != 2 * sizeof(handle.reserved)) {
    throw device_error(
        "another process described its memory in a form that this process does not know");
  }
  for (std::size_t k = 0; k < sizeof(handle.reserved); ++k) {
    const auto value = std::stoul(text.substr(2 * k, 2), nullptr, 16);
    handle.reserved[k] = static_cast<char>(value);
  }
  return handle;
}

// Removes the number at the beginning of `rest` and returns it.
std::uint64_t take_number(std::string_view& rest) {
  const std::string_view word = cut_text(rest, ' ');
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    throw device_error(
        "another process described its memory in a form that this process does not know");
  }
  return value;
}

}  // namespace

exported_memory export_memory(const memory_pieces& memory, const std::string& what) {
  exported_memory exported;
  std::string text;
  if (!memory.mapped) {
    cudaIpcMemHandle_t handle{};
    void* base = reinterpret_cast<void*>(memory.pieces.front().address);
    if (const cudaError_t error = cudaIpcGetMemHandle(&handle, base); error != cudaSuccess) {
      (void)cudaGetLastError();
      throw usage_error(what + " cannot be shared between processes: " + cudaGetErrorString(error) +
                        " (" + cudaGetErrorName(error) + "); use cudaMalloc");
    }
    text = std::string(plain) + " " + std::to_string(memory.offset) + " " +
           hexadecimal(handle.reserved);
  } else {
    text = "mapped " + std::to_string(memory.offset) + " " + std::to_string(memory.pieces.size());
    for (const memory_pieces::piece& p : memory.pieces) {
      CUmemGenericAllocationHandle handle = 0;
      driver().check(driver().retain(&handle, reinterpret_cast<void*>(p.address)),
                     "cuMemRetainAllocationHandle");
      int fd = -1;
      const CUresult error =
          driver().export_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      driver().log(driver().release(handle), "cuMemRelease");
      if (error != CUDA_SUCCESS) {
        throw usage_error(what + " cannot be shared between processes (" + driver().name_of(error) +
                          "): it was made without the handle type "
                          "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
      }
      exported.descriptors.emplace_back(fd);
      text += " " + std::to_string(p.bytes);
    }
  }
  exported.text = std::move(text);
  return exported;
}

std::size_t imported_memory::descriptors_of(const std::string& text) {
  std::string_view rest = text;
  if (cut_text(rest, ' ') == plain) return 0;
  (void)cut_text(rest, ' ');
  return take_number(rest);
}

void* imported_memory::import(const std::string& text, const std::vector<descriptor>& descriptors,
                              int ordinal) {
  const current_device on(ordinal);
  std::string_view rest = text;
  const std::string_view kind = cut_text(rest, ' ');
  const std::uint64_t offset = take_number(rest);
  if (kind == plain) {
    void* data = nullptr;
    INTERLACE_CUDA_CHECK(cudaIpcOpenMemHandle(&data, from_hex(std::string(cut_text(rest, ' '))),
                                              cudaIpcMemLazyEnablePeerAccess));
    opened_.push_back({.ordinal = ordinal, .data = data, .address = 0, .reserved = 0, .mapped = 0});
    return static_cast<std::byte*>(data) + offset;
  }
  const std::uint64_t count = take_number(rest);
  if (count == 0 || count != descriptors.size()) {
    throw device_error(
        "another process described its memory in a form that this process does not know");
  }
  std::vector<std::uint64_t> bytes(count);
  std::uint64_t total = 0;
  for (std::uint64_t& b : bytes) {
    b = take_number(rest);
    total += b;
  }
  const driver_calls& d = driver();
  CUdeviceptr address = 0;
  d.check(d.reserve(&address, total, 0, 0, 0), "cuMemAddressReserve");
  opened& o = opened_.emplace_back(opened{
      .ordinal = ordinal, .data = nullptr, .address = address, .reserved = total, .mapped = 0});
  for (std::size_t k = 0; k < count; ++k) {
    CUmemGenericAllocationHandle handle = 0;
    void* fd = reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptors[k].get()));
    d.check(d.import_handle(&handle, fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            "cuMemImportFromShareableHandle");
    const CUresult mapped = d.map(address + o.mapped, bytes[k], 0, handle, 0);
    // The handle is no longer needed, because the mapping keeps the memory allocated.
    d.log(d.release(handle), "cuMemRelease");
    d.check(mapped, "cuMemMap");
    o.mapped += bytes[k];
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  d.check(d.set_access(address, total, &access, 1), "cuMemSetAccess");
  return reinterpret_cast<std::byte*>(address) + offset;
}

void imported_memory::clear() noexcept {
  int before = 0;
  if (opened_.empty()) return;
  INTERLACE_CUDA_LOG(cudaGetDevice(&before));
  for (const opened& o : opened_) {
    INTERLACE_CUDA_LOG(cudaSetDevice(o.ordinal));
    if (o.data != nullptr) {
      INTERLACE_CUDA_LOG(cudaIpcCloseMemHandle(o.data));
      continue;
    }
    if (o.mapped != 0) driver().log(driver().unmap(o.address, o.mapped), "cuMemUnmap");
    driver().log(driver().free(o.address, o.reserved), "cuMemAddressFree");
  }
  opened_.clear();
  INTERLACE_CUDA_LOG(cudaSetDevice(before));
}

}  // namespace interlace::cuda
