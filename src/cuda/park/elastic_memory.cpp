#include "cuda/park/elastic_memory.hpp"

#include <string>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

elastic_place elastic_place_of(const driver_table& driver, int gpu, std::vector<int> peers) {
  elastic_place found;
  found.properties.location.id = gpu;
  found.peers = std::move(peers);
  int possible = 0;
  if (driver.device_attribute(&possible, attribute_rdma_of_mapped_memory, gpu) ==
      driver_result::success)
    found.properties.gpu_direct_rdma = possible != 0 ? 1 : 0;
  std::size_t granularity = 0;
  check(driver, driver.granularity(&granularity, &found.properties, granularity_minimum),
        "cuMemGetAllocationGranularity");
  found.granularity = granularity;
  if (found.properties.gpu_direct_rdma != 0) {
    // Some drivers report that network cards can access such memory, but then refuse to allocate
    // it.
    physical_memory made = 0;
    if (driver.physical_create(&made, granularity, &found.properties, 0) == driver_result::success)
      log_failure(driver, driver.physical_release(made), "cuMemRelease");
    else
      found.properties.gpu_direct_rdma = 0;
  }
  return found;
}

elastic_memory::elastic_memory(const driver_table& driver, const elastic_place& place,
                               std::uint64_t bytes, int user)
    : driver_(driver),
      place_(place),
      bytes_((bytes + place.granularity - 1) / place.granularity * place.granularity),
      user_(user) {
  check(driver_, driver_.reserve(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve");
}

elastic_memory::~elastic_memory() {
  if (mapped_) {
    const int result = driver_.unmap(address_, bytes_);
    log_failure(driver_, result, "cuMemUnmap");
    mapped_ = result != driver_result::success;
  }
  if (mapped_) return;  // the addresses are still mapped, so they must stay reserved
  release();
  log_failure(driver_, driver_.free_reserved(address_, bytes_), "cuMemAddressFree");
}

void elastic_memory::throw_no_memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  std::string has = "too little memory";
  if (driver_.memory_info(&free, &total) == driver_result::success)
    has = std::to_string(free) + " of " + std::to_string(total) + " bytes free";
  throw device_error("GPU " + std::to_string(gpu()) + " has " + has + ", and " +
                     std::to_string(bytes_) + " more are needed");
}

void elastic_memory::attach() {
  if (usable_) return;
  const bool had_physical = has_physical_;
  try {
    if (!has_physical_) {
      const int result = driver_.physical_create(&physical_, bytes_, &place_.properties, 0);
      if (result == driver_result::out_of_memory) throw_no_memory();
      check(driver_, result, "cuMemCreate");
      has_physical_ = true;
    }
    if (!mapped_) check(driver_, driver_.map(address_, bytes_, 0, physical_, 0), "cuMemMap");
    mapped_ = true;
    give_access();
  } catch (const device_error&) {
    try {
      detach();
      if (!had_physical) release();
    } catch (const device_error&) {  // the memory stays mapped, and the next call unmaps it
    }
    throw;
  }
}

void elastic_memory::give_access() {
  std::vector<access_description> users;
  const auto add = [&](int user) { users.emplace_back().location.id = user; };
  add(gpu());
  if (user_ != gpu()) add(user_);
  const std::size_t needed = users.size();
  for (const int peer : place_.peers)
    if (peer != user_) add(peer);
  int result = driver_.set_access(address_, bytes_, users.data(), users.size());
  // The GPU that uses the memory has access now. If the other GPUs get no access, the call still
  // succeeds, but copies take no path through these GPUs.
  if (result != driver_result::success && users.size() > needed)
    result = driver_.set_access(address_, bytes_, users.data(), needed);
  check(driver_, result, "cuMemSetAccess");
  usable_ = true;
}

void elastic_memory::detach() {
  if (!mapped_) return;
  check(driver_, driver_.unmap(address_, bytes_), "cuMemUnmap");
  mapped_ = usable_ = false;
}

void elastic_memory::release() noexcept {
  if (mapped_ || !has_physical_) return;
  log_failure(driver_, driver_.physical_release(physical_), "cuMemRelease");
  has_physical_ = false;
}

}  // namespace interlace::cuda
