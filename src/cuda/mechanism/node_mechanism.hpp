// A mechanism on a node of GPUs. The mechanism decides how a launch that writes a region is
// enqueued. It also decides which data the exchange delivers, and how. Each mechanism is a class in
// its own file and a row of mechanism/table.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/operation.hpp"
#include "interlace/copy.hpp"
#include "interlace/cuda/epoch/arrays.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/packing_table.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

class recorder;

// The parts of a node that the node's mechanisms use. These parts outlive the mechanisms.
struct node_parts {
  node_gpus& gpus;
  node_arrays& arrays;
  const std::vector<kernel::region_state>& regions;  // the index is the id
  const std::optional<copy_options>& copies;         // copy options in the node's options
  std::vector<std::string>& remarks;
};

// A launch that writes a region, on a node with several devices.
struct region_launch {
  std::uint32_t device = 0;
  kernel_operation kernel;  // launches all blocks; its `entry` is not set yet
  const kernel_entries& entries;
  std::uint32_t region = 0;
  const kernel::block_mapping& mapping;
};

// A launch that updates a partition, on a node with several devices.
struct update_launch {
  std::uint32_t device = 0;
  kernel_operation kernel;  // launches all blocks; its `entry` is not set yet
  const kernel_entries& entries;
  const kernel::region_state& partition;
  combine operation = combine::add;
  kernel::number_type type = kernel::number_type::u32;
};

class node_mechanism {
 public:
  explicit node_mechanism(const node_parts& of) : of_(of) {}
  virtual ~node_mechanism() = default;
  node_mechanism(const node_mechanism&) = delete;
  node_mechanism& operator=(const node_mechanism&) = delete;
  node_mechanism(node_mechanism&&) = delete;
  node_mechanism& operator=(node_mechanism&&) = delete;

  // Gives a new region its memory, and does all other work that must be done once. This work is
  // done here because nothing may be set up while kernels wait for each other. The default
  // allocates two buffers in the memory of each device.
  virtual void prepare(std::uint32_t id, kernel::region_state& state);

  // Adds a launch that writes the region. The default is a launch whose stores stay on the device.
  virtual void launch(recorder& to, region_launch l);

  // Adds the deliveries of the region to an exchange, on a node with several devices. Returns
  // whether the devices must meet for the exchange. The default delivers nothing, and the devices
  // meet.
  virtual bool deliver(recorder& from, std::uint32_t id, exchange_operation& to);

  // Does the work for a new partition that must be done once, on a node with several devices. The
  // partition already has its memory. The default does nothing.
  virtual void prepare_updates(std::uint32_t id, const kernel::region_state& state);

  // Adds a launch that updates a partition. The default is a launch that updates the memory to
  // which the launch's view points.
  virtual void launch_updates(recorder& to, update_launch l);

  // Adds the movement of a partition's updates to an exchange at which all devices meet. Only a
  // node with several devices calls this function. The default moves nothing.
  virtual void deliver_updates(std::uint32_t id, exchange_operation& to);

  // A report about the exchanges so far, as one sentence without its full stop. The text is empty
  // if there is nothing to report.
  virtual std::string made() const { return {}; }

 protected:
  // Adds a launch whose warps pack their updates. Throws usage_error if the warps' packets do not
  // fit in the shared memory of a block.
  void launch_packing(recorder& to, update_launch l) const;

  const node_parts& of() const { return of_; }
  const kernel::region_state& region(std::uint32_t id) const { return of_.regions[id]; }

 private:
  node_parts of_;
};

// The copy, with its source and destination, that makes a delivery of the current epoch.
copy_operation copy_of(const kernel::delivery& d, const kernel::region_state& of);

}  // namespace interlace::cuda
