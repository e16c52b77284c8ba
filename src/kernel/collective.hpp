// The collective operations that deliver a region at its exchange, and the calls that each device
// makes. No library is called here: a plan can be carried out in any memory.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/kernel/variants.hpp"

namespace interlace::kernel {

// The call of one device; all calls of all devices form one group. Offsets and lengths are bytes in
// the device's own buffer. That buffer is the region's back, or scratch memory if the plan uses
// any.
struct collective_call {
  enum class kind : std::uint8_t { all_gather, broadcast, send, receive };
  kind what = kind::send;
  std::uint32_t peer = 0;   // the root of a broadcast, or the other end of a send or receive
  std::uint64_t at = 0;     // all_gather: the start of the first device's part
  std::uint64_t bytes = 0;  // all_gather: the size of one part
};

// A copy on one device between the region's back and the scratch memory.
struct part_copy {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;
};

struct collective_plan {
  collective how = collective::send_receive;  // never best_fitting
  std::uint64_t scratch_bytes = 0;            // on every device; 0: everything is in place
  // for each device: region to scratch memory, before the calls
  std::vector<std::vector<part_copy>> pack;
  std::vector<std::vector<collective_call>> calls;
  std::vector<std::vector<part_copy>> unpack;  // scratch memory to region, after the calls
};

// The distance between parts in scratch memory is a multiple of this. Copies are fast at this
// alignment.
inline constexpr std::uint64_t scratch_alignment = 256;

// Delivers every subscribed byte exactly once to each of its subscribers. Throws usage_error if the
// region names ranges of subscribers, but asks for a collective that delivers everything.
collective_plan plan_collective(const region_state& state);

}  // namespace interlace::kernel
