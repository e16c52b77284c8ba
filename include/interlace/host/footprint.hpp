// Counts the sectors of memory that a launch loads and the sectors to which the launch stores. Each
// sector counts once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "interlace/kernel/launch_work.hpp"

namespace interlace::host {

// A set of sectors, with two bits for each sector. The caller must register memory before the
// memory is accessed. Accesses to other memory are not counted. Not thread-safe.
class footprint {
 public:
  // Registers memory. The memory must be aligned to a sector and must not overlap registered
  // memory.
  void add(const void* memory, std::uint64_t bytes);

  // Counts a load. A sector to which the launch has already stored is not loaded from memory.
  void load(const void* address, std::uint32_t bytes) {
    each_sector(address, bytes, [this](piece& p, std::size_t word, std::uint64_t bit) {
      if (((p.loaded[word] | p.stored[word]) & bit) != 0) return;
      p.loaded[word] |= bit;
      ++loaded_;
      ++touched_;
    });
  }
  void store(const void* address, std::uint32_t bytes) {
    each_sector(address, bytes, [this](piece& p, std::size_t word, std::uint64_t bit) {
      if ((p.stored[word] & bit) != 0) return;
      p.stored[word] |= bit;
      ++stored_;
      if ((p.loaded[word] & bit) == 0) ++touched_;
    });
  }

  // Adds to `to` everything that was counted since the last call. Starts counting anew.
  void take(kernel::launch_work& to);

 private:
  struct piece {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool used = false;
    std::vector<std::uint64_t> loaded{};
    std::vector<std::uint64_t> stored{};
  };
  static constexpr std::uint32_t places = 64;

  template <class F>
  void each_sector(const void* address, std::uint32_t bytes, F&& f) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    piece* p = find(at);
    if (p == nullptr) return;
    p->used = true;
    const std::uint64_t last = (at + bytes - 1 - p->begin) / kernel::sector_bytes;
    for (std::uint64_t s = (at - p->begin) / kernel::sector_bytes; s <= last; ++s) {
      f(*p, s / 64, std::uint64_t{1} << (s % 64));
    }
  }
  // Finds the piece that contains an address. Successive accesses are mostly to the same memory, so
  // the function first tries the piece that it found last.
  piece* find(std::uintptr_t at) {
    std::uint32_t& known = near_[(at >> 21U) % places];
    if (known < pieces_.size() && at >= pieces_[known].begin && at < pieces_[known].end) {
      return &pieces_[known];
    }
    return search(at, known);
  }
  piece* search(std::uintptr_t at, std::uint32_t& known);

  std::vector<piece> pieces_;  // ordered by address
  std::array<std::uint32_t, places> near_{};
  std::uint64_t loaded_ = 0;
  std::uint64_t stored_ = 0;
  std::uint64_t touched_ = 0;
};

}  // namespace interlace::host
