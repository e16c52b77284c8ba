#include "cuda/transfer/stream_executor.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace interlace::cuda {
namespace {

constexpr std::size_t most_stream_sets = 64;

}  // namespace

stream_set::stream_set(contexts& of)
    : contexts_(of),
      streams_(static_cast<std::size_t>(of.count())),
      events_(static_cast<std::size_t>(of.count())) {}

stream_set::~stream_set() {
  const driver_table& driver = contexts_.driver();
  const in_context on(driver, contexts_.any_context(), std::nothrow);
  for (const auto& of_gpu : streams_)
    for (CUstream_st* one : of_gpu)
      log_failure(driver, driver.stream_destroy(one), "cuStreamDestroy");
  for (const auto& of_gpu : events_)
    for (CUevent_st* one : of_gpu) log_failure(driver, driver.event_destroy(one), "cuEventDestroy");
}

CUstream_st* stream_set::stream(int gpu, std::size_t number) {
  auto& made = streams_[static_cast<std::size_t>(gpu)];
  while (made.size() <= number) {
    const in_context on(contexts_.driver(), contexts_.context_of(gpu));
    CUstream_st* one = nullptr;
    check(contexts_.driver(), contexts_.driver().stream_create(&one, stream_non_blocking),
          "cuStreamCreate");
    made.push_back(one);
  }
  return made[number];
}

CUevent_st* stream_set::event(int gpu, std::size_t number) {
  auto& made = events_[static_cast<std::size_t>(gpu)];
  while (made.size() <= number) {
    const in_context on(contexts_.driver(), contexts_.context_of(gpu));
    CUevent_st* one = nullptr;
    check(contexts_.driver(), contexts_.driver().event_create(&one, event_without_timing),
          "cuEventCreate");
    made.push_back(one);
  }
  return made[number];
}

void stream_set::run(const copy_program& program, const addresses& where,
                     const caller_stream& caller) {
  try {
    enqueue(program, where, caller);
  } catch (...) {
    wait(caller.stream);
    throw;
  }
}

void stream_set::wait(CUstream_st* caller) const noexcept {
  const driver_table& driver = contexts_.driver();
  for (const auto& of_gpu : streams_)
    for (CUstream_st* one : of_gpu)
      log_failure(driver, driver.stream_synchronize(one), "cuStreamSynchronize");
  log_failure(driver, driver.stream_synchronize(caller), "cuStreamSynchronize");
}

void stream_set::enqueue(const copy_program& program, const addresses& where,
                         const caller_stream& caller) {
  const driver_table& driver = contexts_.driver();
  const auto record = [&](CUevent_st* one, CUstream_st* on) {
    check(driver, driver.event_record(one, on), "cuEventRecord");
  };
  const auto wait = [&](CUstream_st* on, CUevent_st* one) {
    check(driver, driver.stream_wait(on, one, 0), "cuStreamWaitEvent");
  };
  std::vector<std::size_t> used_events(events_.size(), 0);
  const auto next_event = [&](int gpu) {
    return event(gpu, used_events[static_cast<std::size_t>(gpu)]++);
  };

  // The slot with the most bytes on the caller's GPU runs on the caller's own stream.
  const std::size_t slots = program.slots.size();
  std::size_t own = slots;
  for (std::size_t slot = 0; slot < slots; ++slot)
    if (program.slots[slot].gpu == caller.identity.gpu &&
        (own == slots || program.slots[slot].bytes > program.slots[own].bytes))
      own = slot;

  std::vector<CUstream_st*> streams(slots);
  std::vector<std::size_t> used_streams(streams_.size(), 0);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const int gpu = program.slots[slot].gpu;
    streams[slot] =
        slot == own ? caller.stream : stream(gpu, used_streams[static_cast<std::size_t>(gpu)]++);
  }
  // CUDA ignores a wait for an event that is not recorded yet. Each event is therefore recorded
  // before the waits for it.
  CUevent_st* begun = next_event(caller.identity.gpu);
  record(begun, caller.stream);
  for (std::size_t slot = 0; slot < slots; ++slot)
    if (slot != own && !program.slots[slot].first_waits) wait(streams[slot], begun);

  std::vector<CUevent_st*> ends(program.copies.size(), nullptr);
  for (std::size_t index = 0; index < program.copies.size(); ++index) {
    const copy_program::copy& one = program.copies[index];
    for (const std::uint32_t on : one.after) wait(streams[one.slot], ends[on]);
    check(driver, driver.copy(where.of(one.to), where.of(one.from), one.bytes, streams[one.slot]),
          "cuMemcpyAsync");
    if (!one.awaited) continue;
    ends[index] = next_event(program.slots[one.slot].gpu);
    record(ends[index], streams[one.slot]);
  }
  for (std::size_t slot = 0; slot < slots; ++slot) {
    if (slot == own || program.slots[slot].last_awaited) continue;
    CUevent_st* end = next_event(program.slots[slot].gpu);
    record(end, streams[slot]);
    wait(caller.stream, end);
  }
}

stream_executor::~stream_executor() {
  for (const idle& one : idle_) {
    try {
      if (one.end) one.end->wait();
    } catch (const std::exception&) {  // the GPU has failed, so no work runs on its streams
      continue;
    }
  }
}

std::unique_ptr<stream_set> stream_executor::take(const stream_identity& next) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const idle& one) {
      return !one.end || one.end->precedes(next);
    });
    if (found != idle_.end()) {
      auto used = std::move(found->streams);
      idle_.erase(found);
      return used;
    }
    if (made_ == most_stream_sets) return nullptr;
    ++made_;
  }
  return std::make_unique<stream_set>(contexts_);
}

std::unique_ptr<stream_set> stream_executor::run(const copy_program& program,
                                                 const addresses& where,
                                                 const caller_stream& caller) {
  std::unique_ptr<stream_set> used = take(caller.identity);
  if (!used) return nullptr;
  try {
    used->run(program, where, caller);
  } catch (...) {
    keep(std::move(used), nullptr);  // `run` has already waited for the streams
    throw;
  }
  return used;
}

void stream_executor::keep(std::unique_ptr<stream_set> used, shared_completion end) {
  const std::lock_guard lock(mutex_);
  idle_.push_back({std::move(used), std::move(end)});
}

}  // namespace interlace::cuda
