#include "cuda/transfer/memory_view.hpp"

#include <algorithm>
#include <array>

namespace interlace::cuda {
namespace {

// The end of the mapping of virtual memory that contains an address, or 0 if there is no mapping.
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

memory_facts query_memory(const driver_table& driver, device_address address) {
  memory_facts found;
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

memory_view view_memory(const driver_table& driver, const memory_facts& first,
                        device_address address, std::uint64_t bytes) {
  memory_view seen;
  seen.context = first.context;
  if (first.managed != 0) {
    seen.kind = memory_kind::managed;
    return seen;
  }
  if (first.type != memory_host && first.type != memory_device) return seen;
  const memory_facts last = query_memory(driver, address + bytes - 1);
  seen.kind = memory_kind::mixed;
  if (last.type != first.type || last.managed != 0 || last.gpu != first.gpu) return seen;
  const bool one_buffer = first.buffer != 0 && first.buffer == last.buffer;
  if (first.type == memory_host) {
    if (!one_buffer) return seen;
    seen.kind = memory_kind::pinned;
    seen.id = first.buffer;
    return seen;
  }
  seen.gpu = first.gpu;
  if (one_buffer && (first.plain != 0 || first.pool != nullptr)) {
    seen.kind = memory_kind::gpu;
    seen.origin = first.pool != nullptr ? memory_origin::pool : memory_origin::plain;
    seen.pool = first.pool;
    seen.id = first.buffer;
    return seen;
  }
  seen.origin = memory_origin::mapped;
  // Each piece of virtual memory can be in a different place.
  for (device_address at = address; at < address + bytes;) {
    const memory_facts piece = query_memory(driver, at);
    const device_address end = end_of_mapping(driver, at);
    if (piece.type != memory_device || piece.gpu != first.gpu || end <= at) return seen;
    at = end;
  }
  seen.kind = memory_kind::gpu;
  return seen;
}

memory_view view_memory(const driver_table& driver, device_address address, std::uint64_t bytes) {
  return view_memory(driver, query_memory(driver, address), address, bytes);
}

bool accessible(const driver_table& driver, const memory_view& seen, int gpu,
                device_address address, std::uint64_t bytes) {
  // For memory of pools, the access attribute of an address also names GPUs that have no access.
  // The pool itself is therefore asked.
  memory_location place;
  place.id = gpu;
  if (seen.pool != nullptr) {
    int access = 0;
    return driver.pool_access(&access, seen.pool, &place) == driver_result::success &&
           access == access_read_and_write;
  }
  for (device_address at = address; at < address + bytes;) {
    unsigned long long access = 0;
    if (driver.memory_access(&access, &place, at) != driver_result::success ||
        access != access_read_and_write)
      return false;
    const device_address end = end_of_mapping(driver, at);
    if (end <= at) return false;
    at = end;
  }
  return true;
}

}  // namespace interlace::cuda
