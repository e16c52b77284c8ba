// What the mechanisms share whose chunks move themselves: a launch whose blocks announce what they
// write, and copies that wait for their chunk to be complete.
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
  // Who copies, and by how many threads.
  virtual simulation::copy_request mover(const kernel::region_options& how) const = 0;
  // Warps of the kernel's places that are taken while there are chunks.
  virtual std::uint32_t agent_warps(const kernel::region_options& /*how*/,
                                    std::uint32_t /*warp_width*/) const {
    return 0;
  }
  // Whether blocks add to counters in memory; otherwise stores update counters by themselves.
  virtual bool counts_in_memory() const { return true; }
  // The copies of a chunk to its peers: one of all, unless each peer has a stream of its own.
  // `last_to` are the copies before to each device.
  virtual std::vector<task_id> add_copies(const region_launch& l, const kernel::chunk& c,
                                          const std::vector<std::uint32_t>& peers,
                                          const simulation::copy_request& how,
                                          std::vector<task_id>& last_to, streams& on) const;
};

}  // namespace interlace::sim
