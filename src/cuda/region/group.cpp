#include "cuda/region/group.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/errors.hpp"
#include "cuda/check.hpp"
#include "cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

constexpr std::chrono::microseconds between_looks{20};

int visible_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    (void)cudaGetLastError();
    throw usage_error(std::string("no GPU can be used here: ") + cudaGetErrorString(error));
  }
  INTERLACE_CUDA_CHECK(error);
  return count;
}

void check_options(std::size_t devices, const group_options& o) {
  if (devices < 1 || devices > max_devices) {
    throw usage_error("a group has 1 to " + std::to_string(max_devices) + " devices, not " +
                      std::to_string(devices));
  }
  if (!(o.deadline_s > 0) || o.deadline_s > 86400) {
    throw usage_error("a deadline is more than 0 and at most 86400 seconds");
  }
}

}  // namespace

group_state::group_state(std::vector<int> ordinals, const group_options& o)
    : options_(o), ordinals_(std::move(ordinals)) {
  check_options(ordinals_.size(), o);
  const int present = visible_gpus();
  for (const int gpu : ordinals_) {
    if (gpu < 0 || gpu >= present) {
      throw usage_error("there is no GPU " + std::to_string(gpu) + "; there are " +
                        std::to_string(present));
    }
  }
  enable_peer_access(ordinals_);
  for (std::uint32_t d = 0; d < devices(); ++d) local_.push_back(d);
}

bool group_state::is_local(std::uint32_t device) const {
  return std::find(local_.begin(), local_.end(), device) != local_.end();
}

std::string group_state::device_name(std::uint32_t device) const {
  return "GPU " + std::to_string(device);
}

std::vector<std::string> group_state::agree(const std::function<std::string()>& make) const {
  return {make()};
}

void group_state::require_local(std::uint32_t device) const {
  if (is_local(device)) return;
  throw usage_error("device " + std::to_string(device) + " of " + std::to_string(devices()) +
                    (device < devices() ? " belongs to another process" : " does not exist"));
}

void group_state::check() const {
  const std::lock_guard lock(mutex_);
  for (const group_member* m : members_) {
    if (failure_.empty()) failure_ = m->failure();
  }
  if (!failure_.empty()) throw device_error(failure_);
}

void group_state::synchronize(std::uint32_t device, cudaStream_t stream) const {
  require_local(device);
  const current_device on(ordinal(device));
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream);
    check();
    if (error == cudaSuccess) return;
    if (error != cudaErrorNotReady) {
      throw_failure(error, "cudaStreamQuery", __FILE__, __LINE__);
    }
    std::this_thread::sleep_for(between_looks);
  }
}

void group_state::add(const group_member* member) {
  const std::lock_guard lock(mutex_);
  members_.push_back(member);
}

void group_state::remove(const group_member* member) noexcept {
  const std::lock_guard lock(mutex_);
  // Another region may still be asked what was wrong with this one.
  if (failure_.empty()) failure_ = member->failure();
  std::erase(members_, member);
}

}  // namespace interlace::cuda

namespace interlace {

group group::local(std::vector<int> ordinals, const group_options& o) {
  return group(std::make_shared<cuda::group_state>(std::move(ordinals), o));
}

std::uint32_t group::devices() const { return state_->devices(); }
const std::vector<std::uint32_t>& group::local_devices() const { return state_->local_devices(); }
int group::ordinal(std::uint32_t device) const {
  state_->require_local(device);
  return state_->ordinal(device);
}
void group::check() const { state_->check(); }
void group::synchronize(std::uint32_t device, CUstream_st* stream) const {
  state_->synchronize(device, stream);
}

}  // namespace interlace
