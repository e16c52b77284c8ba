// The devices' streams, which a node fills. They hold the tasks of each device in order, and the
// copies of the current epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/sim/gpu/recorder.hpp"
#include "sim/remote/egress.hpp"
#include "sim/tasks/arena.hpp"
#include "sim/tasks/simulation.hpp"

namespace interlace::sim {

// A launch on one device that writes a region.
struct region_launch {
  std::uint32_t device = 0;
  grid shape;
  recorder::settings record;
  const block_function& block;
  std::uint32_t region = none;
  const kernel::block_mapping& mapping;
};

class streams {
 public:
  struct stream {
    std::vector<task_id> last;        // the tasks for which the next kernel waits
    std::vector<task_id> copies;      // copies of this epoch
    std::vector<task_id> last_copy;   // for each device, the last copy of this epoch to it
    std::set<std::uint32_t> tracked;  // regions that a tracked launch of this epoch writes
  };

  streams(std::uint32_t devices, simulation& tasks, arena& memory,
          std::vector<kernel::region_state>& regions);

  std::uint32_t devices() const { return static_cast<std::uint32_t>(streams_.size()); }
  stream& operator[](std::uint32_t device) { return streams_[device]; }
  simulation& tasks() { return simulation_; }
  const arena& memory() const { return arena_; }
  const kernel::region_state& region(std::uint32_t id) const { return regions_[id]; }

  void add_kernel(std::uint32_t device, grid shape, recorder::settings record, block_function block,
                  store_path path);
  // Copies the elements [begin, end) from their owner to one device or to several.
  task_id add_copy(std::uint32_t region, std::uint32_t from, std::uint64_t begin, std::uint64_t end,
                   const std::vector<std::uint32_t>& to, simulation::copy_request how,
                   const std::vector<task_id>& after);
  // Copies `bytes` bytes from one device's memory to another device's memory, after the kernels so
  // far.
  void add_copy_to(std::uint32_t from, std::uint32_t to, const void* source, void* target,
                   std::uint64_t bytes);
  // Adds copies as if each destination had a copy stream. Copies to one destination run one after
  // another. Copies to different destinations share engines and links.
  void add_copies(std::uint32_t region, const std::vector<kernel::delivery>& deliveries,
                  const std::vector<task_id>& after);
  // The deliveries for a device's whole part of a region.
  std::vector<kernel::delivery> deliveries_of(std::uint32_t region, std::uint32_t device) const;
  // The counters of `chunks` chunks in the device's memory. Each counter has 8 bytes.
  const std::byte* counters(std::uint32_t device, std::uint32_t region, std::size_t chunks);

 private:
  simulation& simulation_;
  arena& arena_;
  std::vector<kernel::region_state>& regions_;
  std::vector<stream> streams_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::byte*> counters_;  // [device, region]
};

}  // namespace interlace::sim
