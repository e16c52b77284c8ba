// Combines writes to the same line, for one destination. A store to a line that already waits in
// the queue is combined with the waiting store. If no entry is free, the queue sends the line whose
// last store is the oldest.
#pragma once

#include <cstdint>

#include "sim/remote/line_buffer.hpp"
#include "sim/remote/remote_write_queue.hpp"

namespace interlace::sim {

class combining_queue {
 public:
  explicit combining_queue(std::uint32_t entries) : lines_(entries, 1) {}

  // Offers a store. Returns false if no entry is free. In this case, the caller takes the oldest
  // line and offers the store again.
  bool offer(std::uint64_t line, const byte_mask& bytes) {
    std::uint32_t id = lines_.find(line);
    if (id == line_buffer::none) {
      if (lines_.full()) return false;
      id = lines_.insert(line, 0);
    } else {
      lines_.touch(id);
    }
    byte_mask& held = lines_[id].bytes;
    stored_ += bytes.count();
    overwritten_ += (held & bytes).count();
    held = held | bytes;
    return true;
  }

  bool has_line(std::uint64_t line) const { return lines_.find(line) != line_buffer::none; }
  bool empty() const { return lines_.size() == 0; }
  // Takes the line whose last store is the oldest out of the queue. The queue must not be empty.
  queued_line take_oldest() { return take(lines_.oldest(0)); }
  // Takes a line out of the queue. The line must be in the queue.
  queued_line take_line(std::uint64_t line) { return take(lines_.find(line)); }

  std::uint64_t stored_bytes() const { return stored_; }
  std::uint64_t overwritten_bytes() const { return overwritten_; }

 private:
  queued_line take(std::uint32_t id) {
    const queued_line found{lines_[id].line, lines_[id].bytes};
    lines_.erase(id);
    return found;
  }

  line_buffer lines_;
  std::uint64_t stored_ = 0;
  std::uint64_t overwritten_ = 0;
};

}  // namespace interlace::sim
