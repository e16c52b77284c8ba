// Which collective operations deliver a region at its exchange, and what each device calls. No
// library is called here: what is planned can be carried out in any memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/region.hpp"
#include "kernel/variants.hpp"

namespace interlace::kernel {

// What one device calls; all calls of all devices form one group. Offsets and lengths are bytes of
// the device's own buffer, which is the region's back, or scratch memory where the plan has some.
struct collective_call {
  enum class kind : std::uint8_t { all_gather, broadcast, send, receive };
  kind what = kind::send;
  std::uint32_t peer = 0;   // the root of a broadcast, the other end of a send or receive
  std::uint64_t at = 0;     // of all_gather: where the first device's part is
  std::uint64_t bytes = 0;  // of all_gather: of one part
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
  std::vector<std::vector<part_copy>> pack;   // of each device, region to scratch, before the calls
  std::vector<std::vector<collective_call>> calls;
  std::vector<std::vector<part_copy>> unpack;  // scratch to region, behind the calls
};

// Between two parts in scratch memory: the unit that copies are fast in.
inline constexpr std::uint64_t scratch_alignment = 256;

// Delivers every subscribed byte once to each of its subscribers. Throws usage_error if the region
// asks for a collective of everything and names ranges of subscribers.
collective_plan plan_collective(const region_state& state);

}  // namespace interlace::kernel
