// The stores that the microbenchmark of stores makes.
#pragma once

#include <cstdint>

namespace interlace::workload {

struct store_request {
  std::uint32_t senders = 1;   // devices that store; all devices receive
  std::uint64_t elements = 0;  // elements of each sender; a power of two
  std::uint32_t together = 0;  // the number of lanes in a group, a power of two; 0 means all lanes
  std::uint32_t lanes = 0;     // only the first lanes of each group store; 0 means all of the group
  // All places are moved by this number of elements. The last places become the first ones.
  std::uint32_t shift = 0;

  // The number of elements that each sender stores.
  [[nodiscard]] std::uint64_t stored() const {
    return lanes == 0 ? elements : elements / together * lanes;
  }
  // Whether a sender stores this element of its elements.
  [[nodiscard]] bool stores(std::uint64_t element) const {
    return lanes == 0 || (element + elements - shift) % together < lanes;
  }
};

}  // namespace interlace::workload
