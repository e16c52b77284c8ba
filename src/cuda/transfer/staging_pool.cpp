#include "cuda/transfer/staging_pool.hpp"

#include <algorithm>
#include <iterator>

namespace interlace::cuda {
namespace {

constexpr std::uint64_t alignment = 256;
constexpr std::uint64_t slab_bytes = std::uint64_t{64} << 20U;

}  // namespace

staging_pool::staging_pool(contexts& of, int place, std::uint64_t bound)
    : contexts_(of), place_(place), bound_(bound / alignment * alignment) {}

staging_pool::~staging_pool() {
  const driver_table& driver = contexts_.driver();
  for (const lingering& one : lingering_) {
    try {
      if (one.end) one.end->wait();
    } catch (const std::exception&) {  // the GPU has failed, and the driver frees its memory
      continue;
    }
  }
  if (slabs_.empty()) return;
  const in_context on(driver, contexts_.any_context(), std::nothrow);
  for (const block& slab : slabs_) {
    if (place_ == host_place)
      log_failure(driver, driver.free_host(reinterpret_cast<void*>(slab.address)), "cuMemFreeHost");
    else
      log_failure(driver, driver.free(slab.address), "cuMemFree");
  }
}

std::optional<staging_pool::block> staging_pool::take(std::uint64_t bytes,
                                                      const stream_identity& stream) {
  const std::uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(mutex_);
  take_returned();
  auto found = take_last_block(rounded, stream);
  if (!found) found = first_fit(rounded);
  if (!found) {
    reclaim();
    found = first_fit(rounded);
  }
  if (!found && grow(rounded)) found = first_fit(rounded);
  if (found) in_use_ += found->bytes;
  return found;
}

void staging_pool::give(block used, shared_completion end) {
  in_use_ -= used.bytes;
  if (end) {
    const std::lock_guard lock(mutex_);
    lingering_.push_back({used, std::move(end)});
  } else {
    const std::lock_guard lock(returned_mutex_);
    returned_.push_back(used);
  }
}

void staging_pool::wait() {
  std::vector<shared_completion> ends;
  {
    const std::lock_guard lock(mutex_);
    for (const lingering& one : lingering_) ends.push_back(one.end);
  }
  for (const shared_completion& end : ends) end->wait();
}

void staging_pool::take_returned() {
  const std::lock_guard lock(returned_mutex_);
  for (const block& one : returned_) insert_free(one);
  returned_.clear();
}

// A message of the same shape on the same stream gets the same block as the previous message. The
// nodes of the message's graph therefore stay unchanged.
std::optional<staging_pool::block> staging_pool::take_last_block(std::uint64_t bytes,
                                                                 const stream_identity& stream) {
  const auto found = std::find_if(lingering_.begin(), lingering_.end(), [&](const lingering& one) {
    return one.memory.bytes == bytes && one.end->precedes(stream);
  });
  if (found == lingering_.end()) return std::nullopt;
  const block taken = found->memory;
  lingering_.erase(found);
  return taken;
}

void staging_pool::reclaim() {
  std::erase_if(lingering_, [&](const lingering& one) {
    if (!one.end->done()) return false;
    insert_free(one.memory);
    return true;
  });
}

void staging_pool::insert_free(block freed) {
  auto [at, added] = free_.emplace(freed.address, freed.bytes);
  const auto apart = [&](device_address border) {
    return std::any_of(slabs_.begin(), slabs_.end(),
                       [&](const block& slab) { return slab.address == border; });
  };
  const auto next = std::next(at);
  if (next != free_.end() && at->first + at->second == next->first && !apart(next->first)) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second == at->first && !apart(at->first)) {
    before->second += at->second;
    free_.erase(at);
  }
}

std::optional<staging_pool::block> staging_pool::first_fit(std::uint64_t bytes) {
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& range) { return range.second >= bytes; });
  if (found == free_.end()) return std::nullopt;
  const block taken{found->first, bytes};
  const block rest{found->first + bytes, found->second - bytes};
  free_.erase(found);
  if (rest.bytes > 0) free_.emplace(rest.address, rest.bytes);
  return taken;
}

bool staging_pool::grow(std::uint64_t bytes) {
  const std::uint64_t left = bound_ - std::min<std::uint64_t>(bound_, reserved_);
  const std::uint64_t wanted = std::min(std::max(bytes, slab_bytes), left);
  if (wanted < bytes) return false;
  const driver_table& driver = contexts_.driver();
  block slab{0, wanted};
  int result = driver_result::success;
  if (place_ == host_place) {
    void* memory = nullptr;
    result = driver.allocate_host(&memory, wanted, host_memory_portable);
    slab.address = reinterpret_cast<device_address>(memory);
  } else {
    const in_context on(driver, contexts_.context_of(place_));
    result = driver.allocate(&slab.address, wanted);
  }
  if (result == driver_result::out_of_memory) return false;
  check(driver, result, place_ == host_place ? "cuMemHostAlloc" : "cuMemAlloc");
  slabs_.push_back(slab);
  reserved_ += wanted;
  insert_free(slab);
  return true;
}

}  // namespace interlace::cuda
