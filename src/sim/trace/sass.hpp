// What an opcode of NVIDIA's machine code says of memory, as NVBit names it: LDG.E.128.SYS.
#pragma once

#include <cstdint>
#include <string_view>

#include "interlace/kernel.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim::trace {

enum class opcode_kind : std::uint8_t {
  other,      // computes, or steers
  access,     // global memory, or by a generic address
  elsewhere,  // shared, local or constant memory, textures
  fence,      // MEMBAR
  barrier,    // of the block
  bulk,       // moves memory by itself, of which a trace does not say how much
};

struct opcode {
  opcode_kind kind = opcode_kind::other;
  action what = action::load;  // of an access
  trace::scope scope = trace::scope::none;
  std::uint8_t bytes = 0;  // of each lane of an access
  bool generic = false;    // its address may also be one of shared or local memory
  operation computes = operation::integer;
};

opcode read_opcode(std::string_view name);

}  // namespace interlace::sim::trace
