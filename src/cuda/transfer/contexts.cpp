#include "cuda/transfer/contexts.hpp"

#include <atomic>
#include <exception>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

// A number for the calling thread. No later thread gets the same number.
unsigned long long thread_number() {
  static std::atomic<unsigned long long> last{0};
  thread_local const unsigned long long own = ++last;
  return own;
}

}  // namespace

stream_identity identity_of(const driver_table& driver, CUstream_st* stream, int gpu) {
  stream_identity found{.gpu = gpu};
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (handle == 0 || handle == legacy_stream) {
    found.id = found.scope = legacy_stream;
  } else if (handle == per_thread_stream) {
    found.id = per_thread_stream;
    found.scope = per_thread_stream + thread_number();
  } else if (driver.stream_id(stream, &found.id) != driver_result::success) {
    found.id = 0;
  }
  return found;
}

contexts::contexts(const driver_table& driver) : driver_(driver) {
  int count = 0;
  check(driver_, driver_.device_count(&count), "cuDeviceGetCount");
  contexts_.assign(static_cast<std::size_t>(count), nullptr);
  events_.resize(contexts_.size());
  scratch_.resize(contexts_.size(), 0);
  has_access_.assign(contexts_.size() * contexts_.size(), false);
  for (int gpu = 0; gpu < count; ++gpu) {
    CUctx_st* made = nullptr;
    try {
      check(driver_, driver_.primary_retain(&made, gpu), "cuDevicePrimaryCtxRetain");
      contexts_[static_cast<std::size_t>(gpu)] = made;
    } catch (const device_error& error) {
      remarks_.push_back("GPU " + std::to_string(gpu) +
                         " relays nothing and its copies are direct: " + error.what());
    }
  }
  for (int one = 0; one < count; ++one)
    for (int other = 0; other < count; ++other)
      if (one != other && context_of(one) != nullptr && context_of(other) != nullptr)
        enable_access(one, other);
}

void contexts::enable_access(int one, int other) {
  int can = 0;
  if (driver_.can_access_peer(&can, one, other) != driver_result::success || can == 0) return;
  const in_context on(driver_, context_of(one));
  const int result = driver_.enable_peer(context_of(other), 0);
  has_access_[pair(one, other)] =
      result == driver_result::success || result == driver_result::peer_access_already_enabled;
}

contexts::~contexts() {
  for (int gpu = 0; gpu < count(); ++gpu) {
    if (context_of(gpu) == nullptr) continue;
    {
      const in_context on(driver_, context_of(gpu), std::nothrow);
      for (CUevent_st* event : events_[static_cast<std::size_t>(gpu)])
        log_failure(driver_, driver_.event_destroy(event), "cuEventDestroy");
      if (const device_address taken = scratch_[static_cast<std::size_t>(gpu)]; taken != 0)
        log_failure(driver_, driver_.free(taken), "cuMemFree");
    }
    log_failure(driver_, driver_.primary_release(gpu), "cuDevicePrimaryCtxRelease");
  }
}

CUctx_st* contexts::any_context() const {
  for (CUctx_st* one : contexts_)
    if (one != nullptr) return one;
  return nullptr;
}

std::optional<int> contexts::gpu_of(const CUctx_st* context) const {
  for (int gpu = 0; gpu < count(); ++gpu)
    if (context != nullptr && context_of(gpu) == context) return gpu;
  return std::nullopt;
}

bool contexts::peers(int one, int other) const {
  return one == other || (has_access_[pair(one, other)] && has_access_[pair(other, one)]);
}

CUevent_st* contexts::take_event(int gpu) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = events_[static_cast<std::size_t>(gpu)];
    if (!idle.empty()) {
      CUevent_st* event = idle.back();
      idle.pop_back();
      return event;
    }
  }
  const in_context on(driver_, context_of(gpu));
  CUevent_st* event = nullptr;
  check(driver_, driver_.event_create(&event, event_without_timing), "cuEventCreate");
  return event;
}

void contexts::give_event(int gpu, CUevent_st* event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    events_[static_cast<std::size_t>(gpu)].push_back(event);
  } catch (const std::exception&) {  // no memory is left to keep the event for reuse
    log_failure(driver_, driver_.event_destroy(event), "cuEventDestroy");
  }
}

bool contexts::enqueue_work(int gpu, CUstream_st* stream) {
  device_address byte = 0;
  {
    const std::lock_guard lock(mutex_);
    device_address& taken = scratch_[static_cast<std::size_t>(gpu)];
    if (taken == 0) {
      const in_context on(driver_, context_of(gpu));
      const int result = driver_.allocate(&taken, 1);
      if (result == driver_result::out_of_memory) return false;
      check(driver_, result, "cuMemAlloc");
    }
    byte = taken;
  }
  check(driver_, driver_.set_bytes(byte, 0, 1, stream), "cuMemsetD8Async");
  return true;
}

completion::completion(contexts& of, CUstream_st* stream, const stream_identity& identity)
    : contexts_(of), stream_(identity), event_(of.take_event(identity.gpu)) {
  try {
    check(of.driver(), of.driver().event_record(event_, stream), "cuEventRecord");
  } catch (...) {
    contexts_.give_event(stream_.gpu, event_);
    throw;
  }
}

completion::~completion() { contexts_.give_event(stream_.gpu, event_); }

bool completion::done() const {
  if (done_.load(std::memory_order_acquire)) return true;
  const int result = contexts_.driver().event_query(event_);
  if (result == driver_result::not_ready) return false;
  check(contexts_.driver(), result, "cuEventQuery");
  done_.store(true, std::memory_order_release);
  return true;
}

void completion::wait() const {
  if (done_.load(std::memory_order_acquire)) return;
  check(contexts_.driver(), contexts_.driver().event_synchronize(event_), "cuEventSynchronize");
  done_.store(true, std::memory_order_release);
}

}  // namespace interlace::cuda
