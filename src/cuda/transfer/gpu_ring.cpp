#include "checkpoint/gpu_ring.hpp"

#include <mutex>
#include <new>

#include "cuda/transfer/checkpoint_carrier.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/copy.h"

namespace interlace::checkpoint {

namespace {

struct process_ring {
  std::mutex used;
  std::unique_ptr<cuda::checkpoint_carrier> carrier;
};

process_ring& ring_of_process() {
  // Never destroyed, because the driver may shut down before the process's last objects are
  // destroyed.
  static auto* const own = new process_ring();
  return *own;
}

// libinterlace.so makes the copies, so that the process has one engine for all callers.
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

}  // namespace

struct gpu_ring::held {
  held(std::mutex& used, std::unique_ptr<cuda::checkpoint_carrier>& of) : lock(used), carrier(of) {}

  std::unique_lock<std::mutex> lock;
  std::unique_ptr<cuda::checkpoint_carrier>& carrier;
};

gpu_ring::gpu_ring(std::uint32_t slots, std::uint64_t slot_bytes) {
  process_ring& ring = ring_of_process();
  held_ = std::make_unique<held>(ring.used, ring.carrier);
  auto& carrier = held_->carrier;
  if (carrier && carrier->slots() == slots && carrier->slot_bytes() == slot_bytes) return;
  carrier.reset();
  carrier =
      std::make_unique<cuda::checkpoint_carrier>(cuda::real_driver(), copy, slots, slot_bytes);
}

gpu_ring::~gpu_ring() {
  auto& carrier = held_->carrier;
  if (carrier && carrier->abandoned()) carrier.reset();
}

carrier& gpu_ring::slots() const { return *held_->carrier; }

}  // namespace interlace::checkpoint
