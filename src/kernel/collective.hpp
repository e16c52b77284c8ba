// The collective operations that deliver a region at its exchange, and the calls that each device
// makes. This file calls no library. A plan can be carried out in any memory.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/kernel/variants.hpp"

namespace interlace::kernel {

// A call of one device. The calls of all devices form one group. Offsets and lengths are in bytes
// of the device's own buffer. This buffer is the region's back, or scratch memory if the plan uses
// it.
struct collective_call {
  enum class kind : std::uint8_t { all_gather, broadcast, send, receive };
  kind what = kind::send;
  std::uint32_t peer = 0;  // root of a broadcast, or other end of a send or receive
  std::uint64_t at = 0;  // offset of the data; for all_gather, where the first device's part starts
  std::uint64_t bytes = 0;  // length of the data; for all_gather, the size of one part
};

// A copy between the region's back and the scratch memory of one device.
struct part_copy {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;
};

struct collective_plan {
  collective how = collective::send_receive;  // the collective; never best_fitting
  // The size of the scratch memory on every device; 0 if the plan needs none.
  std::uint64_t scratch_bytes = 0;
  // For each device, the copies from the region to scratch memory that precede the calls.
  std::vector<std::vector<part_copy>> pack;
  std::vector<std::vector<collective_call>> calls;
  // for each device, the copies from scratch memory to the region that follow the calls
  std::vector<std::vector<part_copy>> unpack;
};

// The distance between parts in scratch memory is a multiple of this number. Copies are fast at
// this alignment.
inline constexpr std::uint64_t scratch_alignment = 256;

// Plans a delivery in which each subscriber receives every byte to which it subscribes, exactly
// once. Throws usage_error if the region has ranges with different subscribers but asks for a
// collective that delivers all elements to all devices.
collective_plan plan_collective(const region_state& state);

}  // namespace interlace::kernel
