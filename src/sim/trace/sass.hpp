// The memory access that an opcode of NVIDIA's machine code describes. The opcode is in NVBit's
// notation, such as LDG.E.128.SYS.
#pragma once

#include <cstdint>
#include <string_view>

#include "interlace/kernel.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim::trace {

enum class opcode_kind : std::uint8_t {
  other,      // computation or control flow
  access,     // an access to global memory, or to a generic address
  elsewhere,  // an access to shared, local or constant memory or to textures
  fence,      // MEMBAR
  barrier,    // a barrier of the block
  bulk,       // a bulk move of memory; a trace does not say how many bytes move
};

struct opcode {
  opcode_kind kind = opcode_kind::other;
  action what = action::load;  // for accesses
  trace::scope scope = trace::scope::none;
  std::uint8_t bytes = 0;  // for accesses: bytes of each lane
  bool generic = false;    // the address can also be in shared or local memory
  operation computes = operation::integer;
};

opcode read_opcode(std::string_view name);

}  // namespace interlace::sim::trace
