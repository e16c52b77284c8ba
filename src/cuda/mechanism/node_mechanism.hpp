// What a mechanism does on a node of GPUs: how a launch is entered that writes a region, what is
// delivered at the exchange, and how. A mechanism is a class in a file of its own and a row of
// mechanism/table.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/operation.hpp"
#include "interlace/copy.hpp"
#include "interlace/cuda/epoch/arrays.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

class recorder;

// What mechanisms use of the node that they belong to; all of it lives longer than they do.
struct node_parts {
  node_gpus& gpus;
  node_arrays& arrays;
  const std::vector<kernel::region_state>& regions;  // by id
  const std::optional<copy_options>& copies;         // of the node's options
  std::vector<std::string>& remarks;
};

// A launch of a node with several devices that writes a region.
struct region_launch {
  std::uint32_t device = 0;
  kernel_operation kernel;  // all blocks; without an entry
  const kernel_entries& entries;
  std::uint32_t region = 0;
  const kernel::block_mapping& mapping;
};

class node_mechanism {
 public:
  explicit node_mechanism(const node_parts& of) : of_(of) {}
  virtual ~node_mechanism() = default;
  node_mechanism(const node_mechanism&) = delete;
  node_mechanism& operator=(const node_mechanism&) = delete;
  node_mechanism(node_mechanism&&) = delete;
  node_mechanism& operator=(node_mechanism&&) = delete;

  // Gives a new region its memory, and does what else is to be done once: nothing may be set up
  // when kernels wait for each other. Here: two buffers in the memory of each device.
  virtual void prepare(std::uint32_t id, kernel::region_state& state);

  // Enters a launch that writes the region. Here: one whose stores stay on the device.
  virtual void launch(recorder& to, region_launch l);

  // Enters what the exchange is to deliver of the region, of a node with several devices. Returns
  // whether the devices have to meet for it. Here: nothing is left to deliver, and they meet.
  virtual bool deliver(recorder& from, std::uint32_t id, exchange_operation& to);

  // What it made of the exchanges so far, a sentence without its end; empty: nothing to say.
  virtual std::string made() const { return {}; }

 protected:
  const node_parts& of() const { return of_; }
  const kernel::region_state& region(std::uint32_t id) const { return of_.regions[id]; }

 private:
  node_parts of_;
};

// Where a delivery of the epoch that is under way goes, and from where.
copy_operation copy_of(const kernel::delivery& d, const kernel::region_state& of);

}  // namespace interlace::cuda
