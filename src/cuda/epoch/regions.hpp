// The regions and reductions of a node, and the mechanism of each region.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/epoch/gpus.hpp"
#include "cuda/mechanism/node_mechanism.hpp"
#include "interlace/base/limits.hpp"
#include "interlace/cuda/epoch/arrays.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/packing_table.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

class node_regions {
 public:
  struct reduction_details {
    element_type type = element_type::f32;
    combine operation = combine::add;
    std::array<void*, max_devices> inboxes{};  // only small reductions have inboxes
  };
  struct partition_details {
    combine operation = combine::add;
    kernel::number_type type = kernel::number_type::u32;
  };

  node_regions(node_gpus& gpus, node_arrays& arrays, const std::optional<copy_options>& copies,
               std::vector<std::string>& remarks)
      : gpus_(gpus), arrays_(arrays), copies_(copies), remarks_(remarks) {}

  std::uint32_t add_region(kernel::region_options o, std::uint32_t element_bytes);
  std::uint32_t add_reduction(std::uint64_t n, std::uint32_t copies, std::uint32_t element_bytes,
                              element_type type, combine operation);
  std::uint32_t add_partition(kernel::region_options o, std::uint32_t element_bytes,
                              combine operation, kernel::number_type type);
  void write_front(std::uint32_t id, std::uint32_t device, const void* values, std::uint64_t n,
                   std::uint64_t element_bytes);

  // Throws model_error if a kernel has updated an element beyond the end of a partition that checks
  // updates.
  void check_updates() const;

  // The states of regions and reductions. The index is the id.
  const std::vector<kernel::region_state>& states() const { return states_; }
  const reduction_details& reduction(std::uint32_t id) const { return reductions_[id]; }
  const partition_details& partition(std::uint32_t id) const { return partitions_.at(id); }
  // The mechanism of a region or partition. `id` must not be the id of a reduction.
  node_mechanism& mechanism_of(std::uint32_t id) const { return *by_region_.at(id); }
  void set_parity(std::uint32_t id, std::uint32_t parity) { states_[id].parity = parity; }

  // The mechanisms' report about the exchanges so far. It is one sentence without its full stop, or
  // empty.
  std::string made() const;

 private:
  node_mechanism& find_mechanism(kernel::mechanism which);

  node_gpus& gpus_;
  node_arrays& arrays_;
  const std::optional<copy_options>& copies_;
  std::vector<std::string>& remarks_;
  std::vector<kernel::region_state> states_;
  std::vector<reduction_details> reductions_;              // the same index as in states_
  std::map<std::uint32_t, partition_details> partitions_;  // the key is the id
  std::vector<node_mechanism*> by_region_;  // the same index as in states_; null for a reduction
  std::map<kernel::mechanism, std::unique_ptr<node_mechanism>> mechanisms_;
};

}  // namespace interlace::cuda
