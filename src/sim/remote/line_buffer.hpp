// A fully associative buffer of lines, with a byte enable for each byte of a line. Each line is in
// one of several lists, which keep the order of insertion. Queues of remote stores are built on
// this buffer. To find a line, the buffer computes a hash and usually makes one probe.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/sim/fabric/byte_mask.hpp"

namespace interlace::sim {

class line_buffer {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  struct entry {
    std::uint64_t line = 0;
    byte_mask bytes;
    std::uint32_t list = 0;
    std::uint32_t before = none;  // the previous entry in this entry's list
    std::uint32_t behind = none;
    // The next entry with the same hash; for a free entry, the next free entry.
    std::uint32_t chained = none;
  };

  line_buffer(std::uint32_t entries, std::uint32_t lists)
      : entries_(entries), ends_(lists), shift_(shift_of(entries)) {
    heads_.assign(std::size_t{1} << (64 - shift_), none);
    for (std::uint32_t k = entries; k-- > 0;) {
      entries_[k].chained = free_;
      free_ = k;
    }
  }

  std::uint32_t size() const { return size_; }
  bool full() const { return free_ == none; }
  entry& operator[](std::uint32_t id) { return entries_[id]; }
  const entry& operator[](std::uint32_t id) const { return entries_[id]; }

  std::uint32_t find(std::uint64_t line) const {
    std::uint32_t id = heads_[slot(line)];
    while (id != none && entries_[id].line != line) id = entries_[id].chained;
    return id;
  }
  // The oldest entry of a list, or `none` if the list is empty.
  std::uint32_t oldest(std::uint32_t list) const { return ends_[list].first; }

  // Inserts a line as the newest line of a list. No byte of the line is enabled yet. The line must
  // not be in the buffer, and the buffer must not be full.
  std::uint32_t insert(std::uint64_t line, std::uint32_t list) {
    const std::uint32_t id = free_;
    entry& e = entries_[id];
    free_ = e.chained;
    std::uint32_t& head = heads_[slot(line)];
    e = {line, {}, list, none, none, head};
    head = id;
    append(id);
    ++size_;
    return id;
  }
  void erase(std::uint32_t id) {
    entry& e = entries_[id];
    std::uint32_t* link = &heads_[slot(e.line)];
    while (*link != id) link = &entries_[*link].chained;
    *link = e.chained;
    remove(id);
    e.chained = free_;
    free_ = id;
    --size_;
  }
  // Makes the entry the newest entry of its list.
  void touch(std::uint32_t id) {
    if (entries_[id].behind == none) return;
    remove(id);
    append(id);
  }

 private:
  struct ends {
    std::uint32_t first = none;
    std::uint32_t last = none;
  };

  // Computes the shift for the table of heads. The table's size is a power of two and at least
  // twice the number of entries.
  static std::uint32_t shift_of(std::uint32_t entries) {
    std::uint32_t bits = 1;
    while (std::uint64_t{1} << bits < std::uint64_t{2} * entries) ++bits;
    return 64 - bits;
  }
  std::size_t slot(std::uint64_t line) const { return line * 0x9E3779B97F4A7C15U >> shift_; }

  void append(std::uint32_t id) {
    entry& e = entries_[id];
    ends& l = ends_[e.list];
    e.before = l.last;
    e.behind = none;
    (l.last == none ? l.first : entries_[l.last].behind) = id;
    l.last = id;
  }
  void remove(std::uint32_t id) {
    const entry& e = entries_[id];
    ends& l = ends_[e.list];
    (e.before == none ? l.first : entries_[e.before].behind) = e.behind;
    (e.behind == none ? l.last : entries_[e.behind].before) = e.before;
  }

  std::vector<entry> entries_;
  std::vector<ends> ends_;  // for each list, its oldest and newest entry
  std::vector<std::uint32_t> heads_;
  std::uint32_t shift_;
  std::uint32_t free_ = none;
  std::uint32_t size_ = 0;
};

}  // namespace interlace::sim
