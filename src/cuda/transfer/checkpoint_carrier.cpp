#include "cuda/transfer/checkpoint_carrier.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace interlace::cuda {

namespace {

constexpr unsigned touching_threads = 4;  // more threads would not be faster

std::uint64_t memory_bytes(std::uint64_t slot_bytes) {
  constexpr std::uint64_t page = 4096;
  return (slot_bytes + page - 1) / page * page;
}

// Keeps memory until the process ends, because copies may still use the memory.
void keep(page_locked memory) {
  static auto* const kept = new std::vector<page_locked>();
  static std::mutex adding;
  const std::lock_guard lock(adding);
  kept->push_back(std::move(memory));
}

}  // namespace

checkpoint_carrier::checkpoint_carrier(const driver_table& driver, copy_function copy,
                                       std::uint32_t streams, std::uint32_t slots,
                                       std::uint64_t slot_bytes)
    : driver_(driver),
      copy_(std::move(copy)),
      streams_(streams),
      slot_bytes_(slot_bytes),
      slots_(slots) {}

checkpoint_carrier::~checkpoint_carrier() {
  locker_.reset();
  if (abandoned_) {
    for (slot_state& s : slots_) keep(std::move(s.memory));
    return;
  }
  if (!gpus_.empty()) {
    const in_context current(driver_, gpus_.begin()->second.context, std::nothrow);
    slots_.clear();
  }
  for (const auto& [number, gpu] : gpus_) free(number, gpu);
}

void checkpoint_carrier::expect(std::uint32_t slots) {
  expected_ = std::max(expected_.load(), std::min(slots, this->slots()));
}

char* checkpoint_carrier::slot(std::uint32_t number, int gpu) {
  slot_state& s = slots_[number];
  std::call_once(s.made, [&] {
    const in_context current(driver_, state_of(gpu).context);
    const std::lock_guard lock(making_);
    if (!locker_ || left_ == 0) {
      left_ = std::max(expected_.load(), made_ + 1) - made_;
      locker_ = std::make_unique<page_locker>(driver_, memory_bytes(slot_bytes_), left_,
                                              touching_threads);
    }
    --left_;  // counts even if the next line throws
    s.memory = locker_->next();
    ++made_;
    if (left_ == 0) locker_.reset();
  });
  return s.memory.data();
}

checkpoint_carrier::gpu_state& checkpoint_carrier::state_of(int gpu) {
  const std::lock_guard lock(mutex_);
  const auto found = gpus_.find(gpu);
  if (found != gpus_.end()) return found->second;
  gpu_state made;
  check(driver_, driver_.primary_retain(&made.context, gpu), "cuDevicePrimaryCtxRetain");
  try {
    made.events.resize(slots_.size());
    made.streams.resize(streams_);
    const in_context current(driver_, made.context);
    for (CUstream_st*& stream : made.streams) {
      check(driver_, driver_.stream_create(&stream, stream_non_blocking), "cuStreamCreate");
    }
    return gpus_.emplace(gpu, std::move(made)).first->second;
  } catch (...) {
    free(gpu, made);
    throw;
  }
}

void checkpoint_carrier::free(int number, const gpu_state& gpu) const noexcept {
  for (CUevent_st* event : gpu.events) {
    if (event != nullptr) log_failure(driver_, driver_.event_destroy(event), "cuEventDestroy");
  }
  for (CUstream_st* stream : gpu.streams) {
    if (stream != nullptr) log_failure(driver_, driver_.stream_destroy(stream), "cuStreamDestroy");
  }
  log_failure(driver_, driver_.primary_release(number), "cuDevicePrimaryCtxRelease");
}

void checkpoint_carrier::send(std::uint32_t slot, std::span<const checkpoint::part> parts) {
  enqueue(slot, parts, true);
}

void checkpoint_carrier::fetch(std::uint32_t slot, std::span<const checkpoint::part> parts) {
  enqueue(slot, parts, false);
}

void checkpoint_carrier::enqueue(std::uint32_t slot, std::span<const checkpoint::part> parts,
                                 bool to_gpu) {
  gpu_state& gpu = state_of(parts.front().gpu);
  const char* memory = this->slot(slot, parts.front().gpu);
  slot_state& s = slots_[slot];
  const in_context current(driver_, gpu.context);
  const relaxed_capture_mode undisturbed(driver_);
  CUstream_st* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    stream = gpu.streams[gpu.chunks++ % streams_];
    if (gpu.events[slot] == nullptr) {
      check(driver_, driver_.event_create(&gpu.events[slot], event_without_timing),
            "cuEventCreate");
    }
  }
  try {
    for (std::size_t next = 0; next < parts.size();) {
      const checkpoint::part& first = parts[next];
      std::uint64_t bytes = 0;
      do {
        bytes += parts[next++].bytes;
      } while (next < parts.size() && parts[next].address == first.address + bytes &&
               parts[next].slot_offset == first.slot_offset + bytes);
      const auto in_slot = reinterpret_cast<device_address>(memory) + first.slot_offset;
      const auto there = static_cast<device_address>(first.address);
      copy_(to_gpu ? there : in_slot, to_gpu ? in_slot : there, bytes, stream);
    }
    check(driver_, driver_.event_record(gpu.events[slot], stream), "cuEventRecord");
  } catch (...) {
    // Some of the copies may still be in flight.
    if (!ends_soon(stream, gpu.events[slot])) abandon();
    throw;
  }
  s.gpu = &gpu;
  s.event = gpu.events[slot];
}

// Whether all work of the stream ends within a second.
bool checkpoint_carrier::ends_soon(CUstream_st* stream, CUevent_st* event) const noexcept {
  using clock = std::chrono::steady_clock;
  if (driver_.event_record(event, stream) != driver_result::success) return false;
  const auto until = clock::now() + std::chrono::seconds(1);
  for (;;) {
    const int result = driver_.event_query(event);
    if (result != driver_result::not_ready) return result == driver_result::success;
    if (clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool checkpoint_carrier::done(std::uint32_t slot) {
  slot_state& s = slots_[slot];
  const in_context current(driver_, s.gpu->context);
  const relaxed_capture_mode undisturbed(driver_);
  const int result = driver_.event_query(s.event);
  if (result == driver_result::not_ready) return false;
  check(driver_, result, "cuEventQuery");
  return true;
}

}  // namespace interlace::cuda
