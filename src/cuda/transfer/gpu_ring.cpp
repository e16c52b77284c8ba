#include "checkpoint/gpu_ring.hpp"

#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cuda/transfer/checkpoint_carrier.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/copy.h"
#include "plan/copy_settings.hpp"

namespace interlace::checkpoint {

namespace {

// A ring that no transfer uses now.
struct idle_ring {
  std::mutex changing;
  std::unique_ptr<cuda::checkpoint_carrier> carrier;
  bool relays = false;  // whether copies go through the engine

  void exchange(std::unique_ptr<cuda::checkpoint_carrier>& own, bool& own_relays) {
    const std::lock_guard lock(changing);
    std::swap(own, carrier);
    std::swap(own_relays, relays);
  }
};

idle_ring& ring_of_process() {
  // This object is never destroyed, because the driver may shut down before the process's last
  // objects are destroyed.
  static auto* const own = new idle_ring();
  return *own;
}

// Makes a copy by libinterlace.so, so that the process has one engine for all callers.
void copy(cuda::device_address to, cuda::device_address from, std::uint64_t bytes,
          CUstream_st* stream) {
  switch (interlace_copy_async(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from),
                               bytes, stream)) {
    case INTERLACE_SUCCESS:
      return;
    case INTERLACE_INVALID_ARGUMENT:
    case INTERLACE_INVALID_SETTING:
    case INTERLACE_NO_GPU:
      throw usage_error(interlace_last_error());
    case INTERLACE_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case INTERLACE_DEVICE_ERROR:
    case INTERLACE_INTERNAL_ERROR:
      break;
  }
  throw device_error(interlace_last_error());
}

// Makes a copy without relays. Such a copy needs neither the engine's plans nor the time in which
// the engine discovers the machine.
void copy_directly(cuda::device_address to, cuda::device_address from, std::uint64_t bytes,
                   CUstream_st* stream) {
  const cuda::driver_table& driver = cuda::real_driver();
  cuda::check(driver, driver.copy(to, from, bytes, stream), "cuMemcpyAsync");
}

// The most memory on a GPU through which the engine relays copies.
std::uint64_t staging_bytes() {
  return plan::read_copy_options(std::vector<std::string>{}).staging_bytes;
}

}  // namespace

std::uint32_t visible_gpus() {
  const cuda::driver_table& driver = cuda::real_driver();
  int count = 0;
  cuda::check(driver, driver.device_count(&count), "cuDeviceGetCount");
  return static_cast<std::uint32_t>(count);
}

struct gpu_ring::held {
  std::unique_ptr<cuda::checkpoint_carrier> carrier;
  bool relays = false;
};

gpu_ring::gpu_ring(std::uint32_t slots, std::uint64_t slot_bytes,
                   std::optional<std::uint64_t> most_staging)
    : held_(std::make_unique<held>()) {
  auto& [carrier, relays] = *held_;
  ring_of_process().exchange(carrier, relays);
  const bool wanted =
      visible_gpus() > 1 && (!most_staging.has_value() || *most_staging >= staging_bytes());
  if (carrier && carrier->slots() == slots && carrier->slot_bytes() == slot_bytes &&
      relays == wanted)
    return;
  carrier.reset();
  relays = wanted;
  carrier = std::make_unique<cuda::checkpoint_carrier>(
      cuda::real_driver(), relays ? copy : copy_directly, relays ? 2 : 1, slots, slot_bytes);
}

gpu_ring::~gpu_ring() {
  if (!held_->carrier || held_->carrier->abandoned()) return;
  ring_of_process().exchange(held_->carrier, held_->relays);
}

carrier& gpu_ring::slots() const { return *held_->carrier; }

}  // namespace interlace::checkpoint
