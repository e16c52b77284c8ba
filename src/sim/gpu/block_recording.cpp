#include "sim/gpu/block_recording.hpp"

#include <utility>

namespace interlace::sim {

namespace {

std::uint64_t instructions_of(const block_recording::block& b) {
  std::uint64_t sum = 0;
  for (const warp_program& p : b.programs) sum += p.instructions.size();
  return sum;
}

}  // namespace

void block_recording::start(const recorder::settings& settings, const block_function& function,
                            std::uint32_t warps) {
  const std::scoped_lock lock(recording_);
  settings_ = &settings;
  function_ = &function;
  warps_ = warps;
  ahead_ = false;
  end_ = 0;
}

void block_recording::fit(block& b) {
  while (b.programs.size() > warps_) b.programs.pop_back();
  while (b.programs.size() < warps_) b.programs.emplace_back(memory_);
}

void block_recording::allow_ahead(std::uint64_t blocks) {
  const std::scoped_lock lock(recording_);
  ahead_ = true;
  taken_ = 0;
  next_ = 0;
  end_ = blocks;
  recorded_ = 0;
  free_ = 0;
  instructions_ = 0;
  for (place& p : ring_) {
    p.failed = nullptr;
    fit(p.what);
  }
}

void block_recording::record(std::uint64_t index, block& into) {
  into.written.clear();
  recorder_.begin_block(*settings_, into.programs);
  (*function_)(index, recorder_, scratch_);
  recorder_.end_block();
  into.stores_left = recorder_.take_written(into.written);
}

void block_recording::take(std::uint64_t index, block& into) {
  if (!ahead_) return record(index, into);
  ++taken_;
  if (recorded_.load(std::memory_order_acquire) <= index) {
    const std::scoped_lock lock(recording_);
    if (next_ == index) {
      free_.store(++next_, std::memory_order_relaxed);
      recorded_.store(next_, std::memory_order_relaxed);
      return record(index, into);
    }
  }
  place& p = ring_[index % places];
  if (p.failed) std::rethrow_exception(p.failed);
  instructions_.fetch_sub(instructions_of(p.what), std::memory_order_relaxed);
  std::swap(into, p.what);
  free_.store(index + 1, std::memory_order_release);
}

bool block_recording::record_ahead() {
  const std::unique_lock lock(recording_, std::try_to_lock);
  if (!lock || next_ >= end_ || next_ - free_.load(std::memory_order_acquire) >= places ||
      instructions_.load(std::memory_order_relaxed) > most_instructions) {
    return false;
  }
  place& p = ring_[next_ % places];
  try {
    record(next_, p.what);
    instructions_.fetch_add(instructions_of(p.what), std::memory_order_relaxed);
  } catch (...) {
    p.failed = std::current_exception();
    end_ = 0;
  }
  recorded_.store(++next_, std::memory_order_release);
  return true;
}

}  // namespace interlace::sim
