#include "sim/gpu/memory.hpp"

#include <algorithm>
#include <cmath>

namespace interlace::sim {

namespace {
constexpr std::uint8_t all_sectors = 0xff;
// At most this many loaded sectors of a channel wait to slow a store, except that all loads of a
// slice of a library call can slow the stores of the same slice. An assumption: a channel gathers
// the stores of 16 lines of 128 bytes before it changes from loads to stores.
constexpr std::uint64_t gathered_sectors = 64;
}  // namespace

memory::memory(const machine::gpu& g)
    : config_(g),
      line_shift_(static_cast<std::uint32_t>(__builtin_ctz(g.l2.line_bytes))),
      banks_(std::max(1U, g.l2.banks)),
      channels_(std::max(1U, g.dram.channels)) {
  const auto ps = [](double seconds) {
    return static_cast<picoseconds>(std::max<long long>(1, std::llround(seconds * 1e12)));
  };
  const double sector = g.l2.sector_bytes;
  sector_at_bank_ = ps(sector * static_cast<double>(banks_.size()) / g.l2.bytes_per_s);
  sector_at_channel_ = ps(sector * static_cast<double>(channels_.size()) / g.dram.bytes_per_s);
  const auto written = [&](double rate, std::size_t parts, picoseconds loaded) {
    return rate == 0 ? loaded : ps(sector * static_cast<double>(parts) / rate);
  };
  written_at_bank_ = written(g.l2.write_bytes_per_s, banks_.size(), sector_at_bank_);
  written_at_channel_ = written(g.dram.write_bytes_per_s, channels_.size(), sector_at_channel_);
  if (g.dram.copy_bytes_per_s != 0) {
    const picoseconds copied =
        ps(2 * sector * static_cast<double>(channels_.size()) / g.dram.copy_bytes_per_s);
    const picoseconds alone = sector_at_channel_ + written_at_channel_;
    change_of_direction_ = copied - std::min(copied, alone);
  }
  const auto each = [&](double rate, std::size_t parts) {
    return rate == 0 ? 0 : ps(static_cast<double>(parts) / rate);
  };
  request_at_bank_ = each(g.l2.requests_per_s, banks_.size());
  request_at_channel_ = each(g.dram.requests_per_s, channels_.size());
  sector_between_parts_ = g.l2.far_bytes_per_s == 0 ? 0 : ps(sector / g.l2.far_bytes_per_s);
  make_tags();
  atomic_at_bank_ = ps(1.0 / (g.clock_hz * std::max(1U, g.atomic_ops_per_clock_per_bank)));
}

void memory::make_tags() {
  machine::cache part = config_.l2;
  part.bytes /= part.parts;
  tags_.assign(part.parts, cache(part));
}

cache::line& memory::line_for(picoseconds time, std::uint64_t line, std::uint32_t part) {
  if (cache::line* hit = tags_[part].find(line)) return *hit;
  cache::victim v;
  cache::line& l = tags_[part].allocate(line, v);
  if (v.dirty != 0) {
    const auto sectors = static_cast<std::uint32_t>(__builtin_popcount(v.dirty));
    const picoseconds start = write_back(time, v.address, sectors);
    // Write-backs wait in a buffer. The buffer is large enough to cover the latency of one memory
    // access. If the buffer is full, the bank waits.
    if (start > config_.dram.latency_ps) {
      bank& b = bank_of(line, part);
      b.port.hold_until(start - config_.dram.latency_ps);
      stores_of(b).hold_until(start - config_.dram.latency_ps);
    }
  }
  return l;
}

// A channel loads and stores in turn, and each change of direction takes time. The channel gathers
// stores, so each loaded sector makes only one stored sector slower.
picoseconds memory::write_back(picoseconds time, std::uint64_t line, std::uint32_t sectors) {
  channel& c = channel_of(line);
  const std::uint64_t beside_loads = std::min<std::uint64_t>(sectors, c.loaded);
  c.loaded -= beside_loads;
  dram_bytes_ += sectors * config_.l2.sector_bytes;
  return c.port.reserve(time, sectors * written_at_channel_ + beside_loads * change_of_direction_);
}

picoseconds memory::load(picoseconds time, std::uint64_t line, std::uint32_t sectors,
                         picoseconds busy) {
  channel& c = channel_of(line);
  c.loaded = std::max(c.loaded, std::min(c.loaded + sectors, gathered_sectors));
  dram_bytes_ += sectors * config_.l2.sector_bytes;
  return c.port.reserve(time, busy);
}

picoseconds memory::fetch(picoseconds time, std::uint64_t line, std::uint32_t sectors) {
  bank& b = bank_of(line);
  while (!b.misses.empty() && b.misses.top() <= time) b.misses.pop();
  picoseconds entry_free = time;
  if (config_.l2.mshrs != 0 && b.misses.size() >= config_.l2.mshrs) {
    entry_free = b.misses.top();
    b.misses.pop();
  }
  // If no entry is free, the miss waits for one. Meanwhile the channel serves other misses.
  const picoseconds busy = at_channel(sectors);
  const picoseconds start = std::max(load(time, line, sectors, busy), entry_free);
  const picoseconds done = start + busy + config_.dram.latency_ps;
  b.misses.push(done);
  return done;
}

picoseconds memory::fetch_from_home(picoseconds time, std::uint64_t line, std::uint8_t sectors) {
  const auto n = static_cast<std::uint32_t>(__builtin_popcount(sectors));
  const picoseconds busy = at_bank(n);
  // Reservations are made now, although the request is on its way. Otherwise the bank would seem
  // busy to requests that reach it before this request.
  const picoseconds start = bank_of(line).port.reserve(time, busy);
  cache::line& l = line_for(start, line, home_of(line));
  const auto missing = static_cast<std::uint8_t>(sectors & ~l.valid);
  if (missing != 0) {
    l.ready = std::max(l.ready,
                       fetch(start, line, static_cast<std::uint32_t>(__builtin_popcount(missing))));
    l.valid = static_cast<std::uint8_t>(l.valid | missing);
    return std::max(start + busy, l.ready) + config_.l2.far_latency_ps;
  }
  const picoseconds passed = between_parts_.reserve(start, n * sector_between_parts_);
  return std::max(passed + n * sector_between_parts_, std::max(start + busy, l.ready)) +
         config_.l2.far_latency_ps;
}

void memory::drop_copies(std::uint64_t line, std::uint8_t sectors, std::uint32_t writer) {
  const std::uint32_t home = home_of(line);
  for (std::uint32_t part = 0; part < tags_.size(); ++part) {
    if (part == home || part == writer) continue;
    if (cache::line* copy = tags_[part].find(line)) {
      copy->valid = static_cast<std::uint8_t>(copy->valid & ~sectors);
    }
  }
}

picoseconds memory::read(picoseconds time, std::uint64_t line, std::uint8_t sectors,
                         std::uint32_t part) {
  const auto n = static_cast<std::uint32_t>(__builtin_popcount(sectors));
  const picoseconds busy = at_bank(n);
  const picoseconds start = bank_of(line, part).port.reserve(time, busy);
  cache::line& l = line_for(start, line, part);
  const auto missing = static_cast<std::uint8_t>(sectors & ~l.valid);
  ++reads_;
  if (missing == 0) ++read_hits_;
  if (missing != 0) {
    const picoseconds done =
        part == home_of(line)
            ? fetch(start, line, static_cast<std::uint32_t>(__builtin_popcount(missing)))
            : fetch_from_home(start, line, missing);
    l.ready = std::max(l.ready, done);
    l.valid = static_cast<std::uint8_t>(l.valid | missing);
  }
  return std::max(start + busy, l.ready);
}

picoseconds memory::write(picoseconds time, std::uint64_t line, std::uint8_t sectors,
                          std::uint32_t part) {
  const auto n = static_cast<std::uint32_t>(__builtin_popcount(sectors));
  const picoseconds busy = std::max(request_at_bank_, n * written_at_bank_);
  const picoseconds start = stores_of(bank_of(line)).reserve(time, busy);
  keep_stored(start, line, sectors, part);
  if (!config_.l2.write_back) write_back(start, line, n);
  return start;
}

void memory::keep_stored(picoseconds time, std::uint64_t line, std::uint8_t sectors,
                         std::uint32_t part) {
  const std::uint32_t home = home_of(line);
  keep(line_for(time, line, home), sectors);
  if (part != home) {
    cache::line& copy = line_for(time, line, part);
    copy.valid = static_cast<std::uint8_t>(copy.valid | sectors);
  }
  drop_copies(line, sectors, part);
}

picoseconds memory::atomic(picoseconds time, std::uint64_t line, std::uint32_t lanes) {
  const picoseconds busy = lanes * atomic_at_bank_;
  const picoseconds start = bank_of(line).port.reserve(time, busy);
  drop_copies(line, all_sectors, home_of(line));
  return std::max(read(time, line, 1), start + busy);
}

// Keeps written sectors of a line in the cache.
void memory::keep(cache::line& l, std::uint8_t sectors) const {
  l.valid = static_cast<std::uint8_t>(l.valid | sectors);
  if (config_.l2.write_back) l.dirty = static_cast<std::uint8_t>(l.dirty | sectors);
}

template <class Visit>
void memory::each_line(std::uint64_t address, std::uint64_t bytes, const Visit& visit) const {
  const std::uint64_t sector = config_.l2.sector_bytes;
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t line = at >> line_shift_ << line_shift_;
    const std::uint64_t last = std::min(end, line + config_.l2.line_bytes);
    const std::uint32_t above = (1U << ((last - line + sector - 1) / sector)) - 1;
    const std::uint32_t below = (1U << ((at - line) / sector)) - 1;
    visit(line, static_cast<std::uint8_t>(above & ~below));
    at = last;
  }
}

picoseconds memory::stream_out(picoseconds time, std::uint64_t address, std::uint32_t bytes) {
  picoseconds done = time;
  each_line(address, bytes, [&](std::uint64_t line, std::uint8_t sectors) {
    const cache::line* hit = tags_[home_of(line)].find(line);
    if (hit != nullptr) {
      const auto held = static_cast<std::uint32_t>(__builtin_popcount(hit->valid & sectors));
      const picoseconds busy = held * sector_at_bank_;
      done = std::max({done, bank_of(line).port.reserve(time, busy) + busy, hit->ready});
      sectors = static_cast<std::uint8_t>(sectors & ~hit->valid);
    }
    const auto missing = static_cast<std::uint32_t>(__builtin_popcount(sectors));
    if (missing == 0) return;
    const picoseconds busy = missing * sector_at_channel_;
    done = std::max(done, load(time, line, missing, busy) + busy);
  });
  return done;
}

picoseconds memory::stream_in(picoseconds time, std::uint64_t address, std::uint64_t bytes) {
  picoseconds done = time;
  each_line(address, bytes, [&](std::uint64_t line, std::uint8_t sectors) {
    const auto n = static_cast<std::uint32_t>(__builtin_popcount(sectors));
    done = std::max(done, write(time, line, sectors) + n * written_at_bank_);
  });
  return done;
}

// The compute units that access a line are spread evenly, and differently for each kernel.
std::uint32_t memory::swept_beside(std::uint64_t line, std::uint64_t kernel) const {
  const std::uint64_t mixed =
      (hash(line) ^ (kernel + 1) * 0xD6E8FEB86659FD93U) * 0x9E3779B97F4A7C15U;
  return static_cast<std::uint32_t>(pick(mixed >> 32U, tags_.size()));
}

picoseconds memory::sweep(picoseconds time, std::uint64_t address, std::uint64_t bytes, bool writes,
                          std::uint64_t kernel, picoseconds& late) {
  std::uint64_t fetched = 0;  // number of sectors that memory must deliver
  std::uint64_t asked = 0;    // number of sectors that one part requests from another part
  // The number of these sectors in lines that need nothing from memory.
  std::uint64_t passed = 0;
  each_line(address, bytes, [&](std::uint64_t line, std::uint8_t sectors) {
    const std::uint32_t home = home_of(line);
    const std::uint32_t part = swept_beside(line, kernel);
    const auto count = [](std::uint8_t of) {
      return static_cast<std::uint64_t>(__builtin_popcount(of));
    };
    if (writes) {
      keep_stored(time, line, sectors, part);
      if (!config_.l2.write_back) fetched += count(sectors);
      return;
    }
    cache::line& own = line_for(time, line, part);
    auto missing = static_cast<std::uint8_t>(sectors & ~own.valid);
    own.valid = static_cast<std::uint8_t>(own.valid | sectors);
    if (part != home && missing != 0) {
      const std::uint64_t from_home = count(missing);
      cache::line& at_home = line_for(time, line, home);
      missing = static_cast<std::uint8_t>(missing & ~at_home.valid);
      at_home.valid = static_cast<std::uint8_t>(at_home.valid | missing);
      asked += from_home;
      if (missing == 0) passed += from_home;
    }
    fetched += count(missing);
  });
  if (!writes) {
    late = std::max(late, (fetched != 0 ? config_.dram.latency_ps : 0) +
                              (asked != 0 ? config_.l2.far_latency_ps : 0));
  }
  // Many accesses are in flight, so all banks and channels are assumed to be equally busy.
  const double rate = writes && config_.l2.write_bytes_per_s != 0 ? config_.l2.write_bytes_per_s
                                                                  : config_.l2.bytes_per_s;
  const std::uint64_t at_banks = bytes + asked * config_.l2.sector_bytes;
  const auto busy =
      static_cast<picoseconds>(std::llround(static_cast<double>(at_banks) / rate * 1e12));
  const std::uint64_t moved = fetched * config_.l2.sector_bytes;
  picoseconds done = stream_all(time, writes ? 0 : moved, writes ? moved : 0);
  for (bank& b : banks_) {
    resource& port = writes ? stores_of(b) : b.port;
    done = std::max(done, port.reserve(time, busy) + busy);
  }
  const picoseconds crossing = passed * sector_between_parts_;
  if (crossing != 0) done = std::max(done, between_parts_.reserve(time, crossing) + crossing);
  return done;
}

void memory::appear(std::uint64_t address, std::uint64_t bytes) {
  each_line(address, bytes, [&](std::uint64_t line, std::uint8_t sectors) {
    cache& tags = tags_[home_of(line)];
    cache::line* l = tags.find(line);
    cache::victim displaced;
    if (l == nullptr) l = &tags.allocate(line, displaced);
    keep(*l, sectors);
    drop_copies(line, sectors, home_of(line));
  });
}

void memory::resize(picoseconds time, std::uint64_t bytes) {
  flush(time);
  config_.l2.bytes = bytes;
  make_tags();
}

picoseconds memory::flush(picoseconds time) {
  std::uint64_t dirty = 0;
  for (const cache& part : tags_) dirty += part.dirty_sectors();
  const picoseconds done = stream_all(time, 0, dirty * config_.l2.sector_bytes);
  for (cache& part : tags_) part.invalidate();
  return done;
}

void memory::drop(std::uint64_t address, std::uint64_t bytes) {
  each_line(address, bytes, [&](std::uint64_t line, std::uint8_t /*sectors*/) {
    for (cache& part : tags_) part.erase(line);
  });
}

picoseconds memory::stream_all(picoseconds time, std::uint64_t loaded, std::uint64_t stored) {
  const machine::dram& d = config_.dram;
  const double write_rate = d.write_bytes_per_s == 0 ? d.bytes_per_s : d.write_bytes_per_s;
  const auto busy = static_cast<picoseconds>(std::llround(
      (static_cast<double>(loaded) / d.bytes_per_s + static_cast<double>(stored) / write_rate) *
      1e12));
  const std::uint64_t row = channels_.size() * config_.l2.sector_bytes;  // a sector of each channel
  picoseconds done = time;
  for (channel& c : channels_) {
    c.loaded = std::max(loaded / row, std::min(c.loaded, gathered_sectors));
    const std::uint64_t beside_loads = std::min(stored / row, c.loaded);
    c.loaded -= beside_loads;
    const picoseconds taken = busy + beside_loads * change_of_direction_;
    done = std::max(done, c.port.reserve(time, taken) + taken);
  }
  dram_bytes_ += loaded + stored;
  return done;
}

}  // namespace interlace::sim
