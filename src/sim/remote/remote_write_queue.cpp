#include "sim/remote/remote_write_queue.hpp"

#include <algorithm>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

namespace {

std::uint32_t first_byte(const byte_mask& m) {
  return m.bits[0] != 0 ? static_cast<std::uint32_t>(__builtin_ctzll(m.bits[0]))
                        : 64 + static_cast<std::uint32_t>(__builtin_ctzll(m.bits[1]));
}

std::uint32_t last_byte(const byte_mask& m) {
  return m.bits[1] != 0 ? 127 - static_cast<std::uint32_t>(__builtin_clzll(m.bits[1]))
                        : 63 - static_cast<std::uint32_t>(__builtin_clzll(m.bits[0]));
}

}  // namespace

remote_write_queue::remote_write_queue(const settings& s)
    : settings_(s),
      whole_lines_(s.format.window_bytes() >= s.line_bytes),
      part_bytes_(static_cast<std::uint32_t>(
          std::min<std::uint64_t>({64, s.line_bytes, s.format.window_bytes()}))),
      lines_(s.entries, s.windows),
      windows_(s.windows) {
  if (s.entries == 0 || s.windows == 0 ||
      s.format.payload_bytes < s.line_bytes + s.format.subheader_bytes ||
      s.format.payload_bytes > most_payload_bytes) {
    throw model_error("a remote write queue has no entries, no windows, or a wrong payload: " +
                      std::to_string(s.format.payload_bytes) + " bytes");
  }
  for (outer_window& w : windows_) reset(w);
}

void remote_write_queue::reset(outer_window& w) const {
  w = {};
  w.available = settings_.format.payload_bytes;
}

// Whether the bytes from `first` to `last` are in the open window, or whether the window can grow
// to contain them.
bool remote_write_queue::holds(const outer_window& w, std::uint64_t first,
                               std::uint64_t last) const {
  const std::uint64_t bytes = settings_.format.window_bytes();
  if (!settings_.grows) return first - w.first < bytes && first >= w.first;
  return std::max(w.end, last + 1) - std::min(w.first, first & ~std::uint64_t{3}) <= bytes;
}

std::uint32_t remote_write_queue::longest_unused() const {
  std::uint32_t found = line_buffer::none;
  for (std::uint32_t k = 0; k < windows(); ++k) {
    if (windows_[k].open() &&
        (found == line_buffer::none || windows_[k].used < windows_[found].used)) {
      found = k;
    }
  }
  return found;
}

std::optional<remote_write_queue::refusal> remote_write_queue::offer(std::uint64_t line,
                                                                     const byte_mask& bytes,
                                                                     std::uint32_t stores) {
  const std::uint64_t first = line + first_byte(bytes);
  const std::uint64_t last = line + last_byte(bytes);
  // Two parts of a line that are in different windows have different entries.
  const std::uint64_t tag = whole_lines_ ? line : first & ~std::uint64_t{part_bytes_ - 1};
  std::uint32_t id = lines_.find(tag);
  std::uint32_t in = line_buffer::none;
  if (id != line_buffer::none) {
    in = lines_[id].list;
    if (!holds(windows_[in], first, last)) return refusal{in, flush_reason::window};
  } else {
    std::uint32_t closed = line_buffer::none;
    for (std::uint32_t k = windows(); k-- > 0;) {
      if (!windows_[k].open()) {
        closed = k;
      } else if (holds(windows_[k], first, last)) {
        in = k;
      }
    }
    if (in == line_buffer::none) in = closed;
    if (in == line_buffer::none) return refusal{longest_unused(), flush_reason::window};
  }
  outer_window& w = windows_[in];
  const byte_mask before = id == line_buffer::none ? byte_mask{} : lines_[id].bytes;
  const byte_mask after = before | bytes;
  const std::uint32_t more = cost(after);
  const std::uint32_t had = id == line_buffer::none ? 0 : cost(before);
  if (more > had + w.available) return refusal{in, flush_reason::payload};
  if (id == line_buffer::none) {
    if (lines_.full()) return refusal{longest_unused(), flush_reason::entries};
    id = lines_.insert(tag, in);
  }
  if (!w.open()) {
    w.first = settings_.grows ? first & ~std::uint64_t{3}
                              : first & ~(settings_.format.window_bytes() - 1);
    w.end = last + 1;
  } else if (settings_.grows) {
    w.first = std::min(w.first, first & ~std::uint64_t{3});
    w.end = std::max(w.end, last + 1);
  }
  lines_[id].bytes = after;
  w.available = w.available + had - more;
  w.stores += stores;
  w.used = ++uses_;
  const std::uint32_t count = bytes.count();
  stored_ += count;
  overwritten_ += before.count() + count - after.count();
  return std::nullopt;
}

void remote_write_queue::take_out(std::uint32_t id, flushed_window& out) {
  const line_buffer::entry& e = lines_[id];
  out.lines.push_back({e.line & ~std::uint64_t{settings_.line_bytes - 1}, e.bytes});
  lines_.erase(id);
}

bool remote_write_queue::flush(std::uint32_t from, flush_reason reason, flushed_window& out) {
  outer_window& w = windows_[from];
  if (!w.open()) return false;
  out.base = w.first;
  out.reason = reason;
  out.stores = w.stores;
  out.payload = settings_.format.payload_bytes - w.available;
  out.lines.clear();
  for (std::uint32_t id = lines_.oldest(from); id != line_buffer::none; id = lines_.oldest(from)) {
    take_out(id, out);
  }
  reset(w);
  return true;
}

std::uint32_t remote_write_queue::entry_of(std::uint64_t line) const {
  std::uint32_t id = line_buffer::none;
  const std::uint32_t step = whole_lines_ ? settings_.line_bytes : part_bytes_;
  for (std::uint32_t at = 0; at < settings_.line_bytes && id == line_buffer::none; at += step) {
    id = lines_.find(line + at);
  }
  return id;
}

bool remote_write_queue::flush_line(std::uint64_t line, flush_reason reason, flushed_window& out) {
  const std::uint32_t id = entry_of(line);
  if (id == line_buffer::none) return false;
  const std::uint32_t in = lines_[id].list;
  outer_window& w = windows_[in];
  out.base = w.first;
  out.reason = reason;
  out.payload = cost(lines_[id].bytes);
  out.lines.clear();
  take_out(id, out);
  w.available += out.payload;
  // The number of stores to a single line is not recorded. The window's stores are therefore
  // counted when the last line of the window leaves.
  out.stores = 0;
  if (lines_.oldest(in) == line_buffer::none) {
    out.stores = w.stores;
    reset(w);
  }
  return true;
}

}  // namespace interlace::sim
