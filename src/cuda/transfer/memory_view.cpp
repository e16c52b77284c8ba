#include "cuda/transfer/memory_view.hpp"

#include <algorithm>
#include <array>

namespace interlace::cuda {
namespace {

struct facts {
  CUctx_st* context = nullptr;
  unsigned type = memory_unknown;
  unsigned long long buffer = 0;
  unsigned managed = 0;
  int gpu = 0;
  unsigned plain = 0;
  void* pool = nullptr;
};

facts ask(const driver_table& driver, device_address address) {
  facts found;
  std::array<int, 7> which{pointer_context,    pointer_memory_type, pointer_buffer_id,
                           pointer_is_managed, pointer_device,      pointer_is_plain,
                           pointer_pool};
  std::array<void*, 7> into{&found.context, &found.type,  &found.buffer, &found.managed,
                            &found.gpu,     &found.plain, &found.pool};
  check(driver,
        driver.pointer_attributes(static_cast<unsigned>(which.size()), which.data(), into.data(),
                                  address),
        "cuPointerGetAttributes");
  return found;
}

// The end of the mapping of virtual memory at an address, 0 if there is none.
device_address end_of_mapping(const driver_table& driver, device_address address) {
  device_address base = 0;
  std::size_t bytes = 0;
  std::array<int, 2> which{pointer_mapping_base, pointer_mapping_bytes};
  std::array<void*, 2> into{&base, &bytes};
  const int result = driver.pointer_attributes(2, which.data(), into.data(), address);
  if (result != driver_result::success || bytes == 0) return 0;
  return base + bytes;
}

}  // namespace

memory_view look_at(const driver_table& driver, device_address address, std::uint64_t bytes) {
  const facts first = ask(driver, address);
  memory_view seen;
  seen.context = first.context;
  if (first.managed != 0) {
    seen.kind = memory_kind::managed;
    return seen;
  }
  if (first.type != memory_host && first.type != memory_device) return seen;
  const facts last = ask(driver, address + bytes - 1);
  seen.kind = memory_kind::mixed;
  if (last.type != first.type || last.managed != 0 || last.gpu != first.gpu) return seen;
  const bool one_buffer = first.buffer != 0 && first.buffer == last.buffer;
  if (first.type == memory_host) {
    if (one_buffer) seen.kind = memory_kind::pinned;
    return seen;
  }
  seen.gpu = first.gpu;
  seen.plain = first.plain != 0 && one_buffer;
  if (seen.plain || (first.pool != nullptr && one_buffer)) {
    seen.kind = memory_kind::gpu;
    return seen;
  }
  // Virtual memory may be mapped piece by piece, to several places.
  for (device_address at = address; at < address + bytes;) {
    const facts piece = ask(driver, at);
    const device_address end = end_of_mapping(driver, at);
    if (piece.type != memory_device || piece.gpu != first.gpu || end <= at) return seen;
    at = end;
  }
  seen.kind = memory_kind::gpu;
  return seen;
}

bool reachable(const driver_table& driver, device_address address, std::uint64_t bytes) {
  for (device_address at = address; at < address + bytes;) {
    unsigned access = 0;
    std::array<int, 1> which{pointer_access};
    std::array<void*, 1> into{&access};
    if (driver.pointer_attributes(1, which.data(), into.data(), at) != driver_result::success ||
        access != 3)
      return false;
    const device_address end = end_of_mapping(driver, at);
    if (end <= at) return false;
    at = end;
  }
  return true;
}

}  // namespace interlace::cuda
