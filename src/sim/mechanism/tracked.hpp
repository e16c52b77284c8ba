// The base of mechanisms that move chunks as soon as they are complete. The blocks of a launch
// announce the elements that they write. A copy waits until its chunk is complete.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/chunks.hpp"
#include "sim/mechanism/region_mechanism.hpp"

namespace interlace::sim {

class tracked_mechanism : public region_mechanism {
 public:
  void launch(const region_launch& l, streams& on) const final;
  void exchange(std::uint32_t region, streams& on, region_exchange& work) const final;

 private:
  // The mover of the copies, and its number of threads.
  virtual simulation::copy_request mover(const kernel::region_options& how) const = 0;
  // The number of warps that the agent takes from the kernel while there are chunks.
  virtual std::uint32_t agent_warps(const kernel::region_options& /*how*/,
                                    std::uint32_t /*warp_width*/) const {
    return 0;
  }
  // Whether blocks add to counters in memory. With false, the stores themselves update the
  // counters.
  virtual bool counts_in_memory() const { return true; }
  // Adds the copies of a chunk to its peers. There is one copy to all peers, or one copy for each
  // peer if each peer has its own stream. `last_to` holds the previous copy to each device.
  virtual std::vector<task_id> add_copies(const region_launch& l, const kernel::chunk& c,
                                          const std::vector<std::uint32_t>& peers,
                                          const simulation::copy_request& how,
                                          std::vector<task_id>& last_to, streams& on) const;
};

}  // namespace interlace::sim
