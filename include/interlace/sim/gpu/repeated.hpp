// The record of a stretch of a kernel that repeats (warp.repeated). The record has the instructions
// of the stretch, and the order in which the warp's lanes reach memory. The addresses differ in
// each repetition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "interlace/sim/gpu/program.hpp"

namespace interlace::sim {

struct repeated_program {
  struct access {
    std::uint32_t instruction = 0;
    std::uint32_t bytes = 0;
    std::uint32_t lanes = 0;
  };
  // Dependences are numbered from the first instruction of this list; the instructions have no
  // lines.
  std::vector<instruction> instructions;
  std::vector<access> accesses;  // accesses to memory other than shared memory
  // The order in which lanes reach memory. An element is access * repeated_lanes + the number of
  // lower lanes that make the same access.
  std::vector<std::uint32_t> order;
};

inline constexpr std::uint32_t repeated_lanes = 64;  // lanes of the widest warp

// All records of a GPU. The key of a record has three parts: the place in the source, the stretch's
// key, and the number of lanes of the warp.
class repeated_programs {
 public:
  using name = std::tuple<const void*, std::uint32_t, std::uint32_t>;

  const repeated_program* find(const name& of) const {
    const auto found = all_.find(of);
    return found == all_.end() ? nullptr : &found->second;
  }
  // Adds a record. This can remove other records, so results of earlier find() calls become
  // invalid.
  void add(const name& of, repeated_program&& p) {
    if (size_ > most) {
      all_.clear();
      size_ = 0;
    }
    size_ += p.instructions.size() + p.order.size();
    all_.insert_or_assign(of, std::move(p));
  }

 private:
  // The most instructions plus lanes' accesses in one record.
  static constexpr std::size_t most = std::size_t{1} << 17U;

  std::map<name, repeated_program> all_;
  std::size_t size_ = 0;
};

}  // namespace interlace::sim
