// Turns launches, calls and exchanges into operations. Within a run the operations are recorded.
// Outside of a run they are issued at once.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/issuer.hpp"
#include "cuda/epoch/kernels.hpp"
#include "cuda/epoch/operation.hpp"
#include "cuda/epoch/regions.hpp"
#include "interlace/kernel/library_call.hpp"
#include "interlace/kernel/mapping.hpp"

namespace interlace::cuda {

// Throws model_error unless `device` is below `devices` and a GPU accepts the grid.
void check_launch(std::uint32_t devices, std::uint32_t device, const kernel_operation& k);

class recorder {
 public:
  recorder(node_gpus& gpus, node_regions& regions, loaded_kernels& kernels, issuer& issues)
      : gpus_(gpus),
        regions_(regions),
        kernels_(kernels),
        issues_(issues),
        copies_pending_(gpus.count(), 0),
        launched_(gpus.count()) {}

  void add_kernel(std::uint32_t device, kernel_operation k);
  void add_call(std::uint32_t device, kernel::library_call c);
  // Adds copies that start after all earlier work of the device. The next exchange waits for these
  // copies.
  void add_copies(std::uint32_t device, std::vector<copy_operation> copies);
  void add_exchange(const std::vector<std::uint32_t>& ids);

  // Makes the device's next exchange wait for these copy streams.
  void add_pending(std::uint32_t device, std::uint32_t streams) {
    copies_pending_[device] |= streams;
  }
  // The tracked launch of this epoch that writes the region, or null if there is none.
  const tracked_region* launched(std::uint32_t device, std::uint32_t id) const;
  void set_launched(std::uint32_t device, std::uint32_t id, const tracked_region& by) {
    launched_[device].emplace(id, &by);
  }
  void end_launched(std::uint32_t device, std::uint32_t id) { launched_[device].erase(id); }

  void begin();
  // Ends the recording and returns its operations. Throws model_error in the middle of an epoch.
  std::vector<operation> end();
  void cancel();
  // Sets whether an operation of the recording was launched since the regions were last restored.
  void set_launched_since(bool was) { launched_since_ = was; }

 private:
  bool between_exchanges() const;
  void check_exchange(const std::vector<std::uint32_t>& ids) const;
  void add_reduction(exchange_operation& e, std::uint32_t device, std::uint32_t id) const;
  void submit(operation o);

  node_gpus& gpus_;
  node_regions& regions_;
  loaded_kernels& kernels_;
  issuer& issues_;
  // For each device, the copy streams that have work for which the main stream does not wait yet.
  std::vector<std::uint32_t> copies_pending_;
  // For each device and each region id, the tracked launch of this epoch.
  std::vector<std::map<std::uint32_t, const tracked_region*>> launched_;
  std::vector<operation> recorded_;
  std::vector<std::uint32_t> parities_before_;
  bool launched_since_ = false;
};

}  // namespace interlace::cuda
