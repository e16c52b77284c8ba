// The second-level cache and the memory behind it: banks and channels are servers, a miss holds one
// of a bank's finite entries until its data arrive.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/gpu/cache.hpp"

namespace interlace::sim {

class memory {
 public:
  explicit memory(const machine::gpu& g);

  // All times are at the bank. A line's sectors arrive; returns when they can be sent on.
  picoseconds read(picoseconds time, std::uint64_t line, std::uint8_t sectors);
  // Returns when the bank has taken the store (its place in the sender's queue is free).
  picoseconds write(picoseconds time, std::uint64_t line, std::uint8_t sectors);
  picoseconds atomic(picoseconds time, std::uint64_t line, std::uint32_t lanes);
  // A copy engine reads a stretch; returns when it has all. What the cache holds comes from there,
  // and what it does not is not put there.
  picoseconds stream_out(picoseconds time, std::uint64_t address, std::uint32_t bytes);
  // What a copy engine writes to a stretch arrives; returns when the banks have taken it. It is in
  // the cache then, which lies in front of the memory for all that use it.
  picoseconds stream_in(picoseconds time, std::uint64_t address, std::uint64_t bytes);
  // As after stream_in, in no time: what has to make room in the cache takes the channels none.
  void appear(std::uint64_t address, std::uint64_t bytes);
  // Traffic that all channels share evenly; returns when the last of them has done its part.
  picoseconds stream_all(picoseconds time, std::uint64_t bytes);

  // The cache has so many bytes from now on, because others begin or end to use the rest: what is
  // dirty goes to memory, and it is empty.
  void resize(picoseconds time, std::uint64_t bytes);

  // What is dirty goes to memory, and the cache is empty; returns when that is done.
  picoseconds flush(picoseconds time);

  // The cache has nothing of the stretch any more; what was dirty of it is somewhere else.
  void drop(std::uint64_t address, std::uint64_t bytes);

  void prefetch(std::uint64_t line) const { tags_.prefetch(line); }

  std::uint64_t dram_bytes() const { return dram_bytes_; }
  // Loads and atomics so far, and those that found all in the cache or on its
  // way.
  std::uint64_t reads() const { return reads_; }
  std::uint64_t read_hits() const { return read_hits_; }

 private:
  struct bank {
    resource port;
    std::priority_queue<picoseconds, std::vector<picoseconds>, std::greater<>> misses;
  };
  // Consecutive lines go to different banks and channels, strides of a power of two as well.
  bank& bank_of(std::uint64_t line) { return banks_[pick(hash(line) >> 32U, banks_.size())]; }
  resource& channel_of(std::uint64_t line) {
    return channels_[pick(hash(line) & 0xffffffffU, channels_.size())];
  }
  std::uint64_t hash(std::uint64_t line) const {
    return (line >> line_shift_) * 0x9E3779B97F4A7C15U;
  }
  static std::size_t pick(std::uint64_t hash32, std::size_t n) { return hash32 * n >> 32U; }
  // visit(line, its sectors) for the lines of a stretch.
  template <class Visit>
  void each_line(std::uint64_t address, std::uint64_t bytes, const Visit& visit) const;
  void keep(cache::line& l, std::uint8_t sectors) const;
  picoseconds fetch(picoseconds time, std::uint64_t line, std::uint32_t sectors);
  cache::line& line_for(picoseconds time, std::uint64_t line);

  machine::gpu config_;
  std::uint32_t line_shift_;
  cache tags_;
  std::vector<bank> banks_;
  std::vector<resource> channels_;
  picoseconds sector_at_bank_ = 0;
  picoseconds sector_at_channel_ = 0;
  picoseconds atomic_at_bank_ = 0;
  std::uint64_t dram_bytes_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t read_hits_ = 0;
};

}  // namespace interlace::sim
