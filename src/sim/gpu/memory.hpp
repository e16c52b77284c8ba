// The second-level cache and the memory that it caches. Banks and channels are servers. A miss
// holds one of its bank's finite entries until the miss's data arrives.
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

  // The part of the L2 beside a compute unit. Neighbouring pairs of units are beside different
  // parts.
  std::uint32_t beside(std::uint32_t unit) const {
    return unit / 2 % static_cast<std::uint32_t>(tags_.size());
  }
  // The part of the L2 whose memory has the line.
  std::uint32_t home_of(std::uint64_t line) const {
    return static_cast<std::uint32_t>(pick(hash(line) >> 32U, tags_.size()));
  }

  // Requests sectors of a line from a part of the L2. Returns the time when the bank can send the
  // sectors on. All times are times at the bank.
  picoseconds read(picoseconds time, std::uint64_t line, std::uint8_t sectors, std::uint32_t part);
  picoseconds read(picoseconds time, std::uint64_t line, std::uint8_t sectors) {
    return read(time, line, sectors, home_of(line));
  }
  // Returns the time when the bank has taken the store. From that time on, the store's place in the
  // sender's queue is free. The line's home keeps the data, and so does the part `part`, which
  // passes the data on.
  picoseconds write(picoseconds time, std::uint64_t line, std::uint8_t sectors, std::uint32_t part);
  picoseconds write(picoseconds time, std::uint64_t line, std::uint8_t sectors) {
    return write(time, line, sectors, home_of(line));
  }
  picoseconds atomic(picoseconds time, std::uint64_t line, std::uint32_t lanes);
  // Reads a range for a copy engine. Returns the time when the engine has the whole range. Lines
  // that are in the cache are read from the cache. A miss does not allocate a line.
  picoseconds stream_out(picoseconds time, std::uint64_t address, std::uint32_t bytes);
  // Writes a range for a copy engine. Returns the time when the banks have taken the data. From
  // that time on, the data is in the cache, and every reader finds it there.
  picoseconds stream_in(picoseconds time, std::uint64_t address, std::uint64_t bytes);
  // The time in which an idle bank takes the first line of a write of `bytes` bytes.
  picoseconds line_time(std::uint32_t bytes) const {
    const std::uint32_t in_line = std::min(bytes, config_.l2.line_bytes);
    return (in_line + config_.l2.sector_bytes - 1) / config_.l2.sector_bytes * written_at_bank_;
  }
  // Brings the cache into the state that stream_in leaves, but takes no time. Not even write-backs
  // of displaced lines occupy the channels.
  void appear(std::uint64_t address, std::uint64_t bytes);
  // Reads or writes a range through the cache for a kernel of a library. Returns the time when
  // banks and channels have moved the data. Raises `late` to the latency that some of the data has
  // in addition to the latency of the L2. `kernel` is the kernel's number among all kernels of
  // libraries on this GPU.
  picoseconds sweep(picoseconds time, std::uint64_t address, std::uint64_t bytes, bool writes,
                    std::uint64_t kernel, picoseconds& late);
  // Adds traffic that is spread evenly over all channels. Returns the time when the last channel
  // has done its part.
  picoseconds stream_all(picoseconds time, std::uint64_t loaded, std::uint64_t stored);

  // Sets the size of the cache. The RDMA cache takes a part of this cache, and later returns it.
  // The function writes dirty lines to memory and empties the cache.
  void resize(picoseconds time, std::uint64_t bytes);

  // Writes dirty lines to memory and empties the cache. Returns the time when all lines are
  // written.
  picoseconds flush(picoseconds time);

  // Drops all lines of the range without writing them. The caller must already have moved their
  // dirty data to another place.
  void drop(std::uint64_t address, std::uint64_t bytes);

  void prefetch(std::uint64_t line) const { tags_[home_of(line)].prefetch(line); }

  std::uint64_t dram_bytes() const { return dram_bytes_; }
  // The number of loads and atomics so far.
  std::uint64_t reads() const { return reads_; }
  // The number of loads and atomics that found all their data in the cache, or in flight to it.
  std::uint64_t read_hits() const { return read_hits_; }

 private:
  struct bank {
    resource port;
    // Loads leave a bank, and stores reach it, by different wires. If the machine states a rate of
    // stores, stores do not delay loads.
    resource store_port;
    std::priority_queue<picoseconds, std::vector<picoseconds>, std::greater<>> misses;
  };
  struct channel {
    resource port;
    // The number of loaded sectors that have not yet made a stored sector slower.
    std::uint64_t loaded = 0;
  };
  // The hash sends consecutive lines, and lines at power-of-two strides, to different banks and
  // channels.
  bank& bank_of(std::uint64_t line) { return banks_[pick(hash(line) >> 32U, banks_.size())]; }
  // The bank of a line, or of a copy of the line, in this part.
  bank& bank_of(std::uint64_t line, std::uint32_t part) {
    const std::size_t of_part = banks_.size() / tags_.size();
    const std::size_t own = pick(hash(line) >> 32U, banks_.size());
    return banks_[tags_.size() == 1 ? own : own % of_part + part * of_part];
  }
  // The port of a bank that stores use.
  resource& stores_of(bank& b) const {
    return config_.l2.write_bytes_per_s == 0 ? b.port : b.store_port;
  }
  channel& channel_of(std::uint64_t line) {
    return channels_[pick(hash(line) & 0xffffffffU, channels_.size())];
  }
  std::uint64_t hash(std::uint64_t line) const {
    return (line >> line_shift_) * 0x9E3779B97F4A7C15U;
  }
  static std::size_t pick(std::uint64_t hash32, std::size_t n) { return hash32 * n >> 32U; }
  // Calls visit(line, sectors of the line) for each line of a range.
  template <class Visit>
  void each_line(std::uint64_t address, std::uint64_t bytes, const Visit& visit) const;
  void keep(cache::line& l, std::uint8_t sectors) const;
  picoseconds fetch(picoseconds time, std::uint64_t line, std::uint32_t sectors);
  // These functions return the start of the access to the memory. A load occupies the channel for
  // `busy`.
  picoseconds load(picoseconds time, std::uint64_t line, std::uint32_t sectors, picoseconds busy);
  picoseconds write_back(picoseconds time, std::uint64_t line, std::uint32_t sectors);
  cache::line& line_for(picoseconds time, std::uint64_t line, std::uint32_t part);
  // Fetches sectors of a line that the part `part` does not have from the line's home. Returns the
  // time when the part has the sectors.
  picoseconds fetch_from_home(picoseconds time, std::uint64_t line, std::uint8_t sectors);
  // The home of a line has new data in these sectors, so copies in other parts, except for the part
  // `writer`, are no longer valid.
  void drop_copies(std::uint64_t line, std::uint8_t sectors, std::uint32_t writer);
  // The part beside the compute unit that accesses the line in a sweep.
  std::uint32_t swept_beside(std::uint64_t line, std::uint64_t kernel) const;
  // Keeps stored sectors of a line in the line's home and in the part that passes them on.
  void keep_stored(picoseconds time, std::uint64_t line, std::uint8_t sectors, std::uint32_t part);
  void make_tags();

  machine::gpu config_;
  std::uint32_t line_shift_;
  std::vector<cache> tags_;  // the tags of each part of the L2
  std::vector<bank> banks_;
  std::vector<channel> channels_;
  resource between_parts_;
  // The time that a bank or a channel needs for a request of `sectors` sectors.
  picoseconds at_bank(std::uint32_t sectors) const {
    return std::max(request_at_bank_, sectors * sector_at_bank_);
  }
  picoseconds at_channel(std::uint32_t sectors) const {
    return std::max(request_at_channel_, sectors * sector_at_channel_);
  }
  picoseconds request_at_bank_ = 0;
  picoseconds request_at_channel_ = 0;
  picoseconds sector_at_bank_ = 0;  // time for which a load of a sector occupies the bank
  picoseconds sector_at_channel_ = 0;
  picoseconds written_at_bank_ = 0;  // time for which a store of a sector occupies the bank
  picoseconds written_at_channel_ = 0;
  // time that a stored sector takes in addition, if the channel also loads a sector
  picoseconds change_of_direction_ = 0;
  picoseconds atomic_at_bank_ = 0;
  picoseconds sector_between_parts_ = 0;
  std::uint64_t dram_bytes_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t read_hits_ = 0;
};

}  // namespace interlace::sim
