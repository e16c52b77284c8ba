// One access of one lane, in the form that observers of serial blocks get.
#pragma once

#include <cstdint>

#include "interlace/kernel/trace.hpp"

namespace interlace::kernel {

// This type is separate, so that the compiler rejects a plain number in place of a site.
enum class site_id : std::uintptr_t {};

enum class access_kind : std::uint8_t { load, load_index, store, atomic, reduce };

inline constexpr std::uint32_t no_instruction = 0xffffffffU;

struct access {
  access_kind kind = access_kind::load;
  memory_space space = memory_space::local;
  std::uint32_t bytes = 0;
  const void* address = nullptr;
  site_id site{};
  std::uint32_t depends = no_instruction;  // number of the instruction that loaded the address
  std::uint32_t region = 0;                // number of the region; for replicated views only
  std::uint64_t element = 0;               // index in the view
  // False for the copies that an inline store makes, and for its search for readers.
  bool primary = true;
};

// Whether an access is part of the work that a kernel does with every mechanism.
constexpr bool counts_as_work(const access& a) {
  return a.primary && a.space != memory_space::shared;
}

// The index and the size of a block, in the form that the block's lanes and warps use.
struct block_place {
  std::uint64_t index = 0;
  std::uint64_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t warp_width = 0;  // a power of two
};

}  // namespace interlace::kernel
