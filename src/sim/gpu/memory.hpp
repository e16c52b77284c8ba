// The second-level cache and the memory behind it. Banks and channels are servers. A miss holds one
// of its bank's finite entries until its data arrives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/gpu/cache.hpp"

namespace interlace::sim {

class memory {
 public:
  explicit memory(const machine::gpu& g);

  // Requests sectors of a line. Returns when they can be sent on. All times are times at the bank.
  picoseconds read(picoseconds time, std::uint64_t line, std::uint8_t sectors);
  // Returns the time when the bank has taken the store. The store's place in the sender's queue is
  // then free.
  picoseconds write(picoseconds time, std::uint64_t line, std::uint8_t sectors);
  picoseconds atomic(picoseconds time, std::uint64_t line, std::uint32_t lanes);
  // A copy engine reads a range. Returns the time when the engine has all of the range. Lines that
  // are in the cache are read from there. A miss does not allocate a line.
  picoseconds stream_out(picoseconds time, std::uint64_t address, std::uint32_t bytes);
  // The data of a copy engine arrives at a range. Returns the time when the banks have taken the
  // data. The data is then in the cache, so that every reader finds it there.
  picoseconds stream_in(picoseconds time, std::uint64_t address, std::uint64_t bytes);
  // The time that a free bank needs to take the first line of `bytes` bytes.
  picoseconds line_time(std::uint32_t bytes) const {
    const std::uint32_t in_line = std::min(bytes, config_.l2.line_bytes);
    return (in_line + config_.l2.sector_bytes - 1) / config_.l2.sector_bytes * written_at_bank_;
  }
  // Leaves the cache in the state after stream_in, but takes no time: even write-backs of displaced
  // lines do not occupy the channels.
  void appear(std::uint64_t address, std::uint64_t bytes);
  // A kernel of a library reads or writes a range through the cache. Returns when banks and
  // channels have moved the data, without the latency of the memory. `missed` becomes true if some
  // of it was not in the cache.
  picoseconds sweep(picoseconds time, std::uint64_t address, std::uint64_t bytes, bool writes,
                    bool& missed);
  // Adds traffic that is spread evenly over all channels. Returns the time when the last channel
  // has done its part.
  picoseconds stream_all(picoseconds time, std::uint64_t loaded, std::uint64_t stored);

  // Sets the size of the cache when the RDMA cache takes a part of it or returns that part. Writes
  // dirty lines to memory and empties the cache.
  void resize(picoseconds time, std::uint64_t bytes);

  // Writes dirty lines to memory and empties the cache. Returns the time when that is done.
  picoseconds flush(picoseconds time);

  // Drops all lines of the range. Their dirty data must already be in another place.
  void drop(std::uint64_t address, std::uint64_t bytes);

  void prefetch(std::uint64_t line) const { tags_.prefetch(line); }

  std::uint64_t dram_bytes() const { return dram_bytes_; }
  // The number of loads and atomics so far, and the number of those whose data was all in the cache
  // or in flight to it.
  std::uint64_t reads() const { return reads_; }
  std::uint64_t read_hits() const { return read_hits_; }

 private:
  struct bank {
    resource port;
    std::priority_queue<picoseconds, std::vector<picoseconds>, std::greater<>> misses;
  };
  // Consecutive lines, and lines at power-of-two strides, go to different banks and channels.
  bank& bank_of(std::uint64_t line) { return banks_[pick(hash(line) >> 32U, banks_.size())]; }
  resource& channel_of(std::uint64_t line) {
    return channels_[pick(hash(line) & 0xffffffffU, channels_.size())];
  }
  std::uint64_t hash(std::uint64_t line) const {
    return (line >> line_shift_) * 0x9E3779B97F4A7C15U;
  }
  static std::size_t pick(std::uint64_t hash32, std::size_t n) { return hash32 * n >> 32U; }
  // Calls visit(line, its sectors) for each line of a range.
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
  // The time that a bank or a channel needs for a request of this number of sectors.
  picoseconds at_bank(std::uint32_t sectors) const {
    return std::max(request_at_bank_, sectors * sector_at_bank_);
  }
  picoseconds at_channel(std::uint32_t sectors) const {
    return std::max(request_at_channel_, sectors * sector_at_channel_);
  }
  picoseconds request_at_bank_ = 0;
  picoseconds request_at_channel_ = 0;
  picoseconds sector_at_bank_ = 0;  // of a load
  picoseconds sector_at_channel_ = 0;
  picoseconds written_at_bank_ = 0;  // a stored sector
  picoseconds written_at_channel_ = 0;
  picoseconds atomic_at_bank_ = 0;
  std::uint64_t dram_bytes_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t read_hits_ = 0;
};

}  // namespace interlace::sim
