// The memory of a partitioned array of a group, and the barrier of its exchanges.
//
// The memory is that of a region whose exchange moves nothing. One buffer of the region has the
// device's part. The other buffer has the queues for packets, the counters of sent packets and the
// note of a wrong update. The region swaps its buffers, but the array ignores this: it keeps the
// addresses that the buffers had at first, and has a parity of its own for its two sets of queues.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/region/shared_region.hpp"
#include "interlace/partition.hpp"

namespace interlace::cuda {

class shared_partition {
 public:
  shared_partition(std::shared_ptr<group_state> group, const partition_spec& spec,
                   std::uint32_t element_bytes, combine operation, kernel::number_type type);

  const group_state& devices() const { return *group_; }
  const kernel::region_state& whole() const { return state_; }
  kernel::region_state state(std::uint32_t device) const;
  combine operation() const { return operation_; }
  kernel::number_type type() const { return type_; }

  void begin(std::uint32_t device, cudaStream_t stream);
  std::uint32_t exchange(std::uint32_t device, cudaStream_t stream);
  void require_begun(std::uint32_t device) const;
  void check(std::uint32_t device, cudaStream_t stream);

 private:
  struct epochs {
    bool begun = false;
    std::uint32_t parity = 0;
  };

  void place();
  void clear() const;
  void meet();

  std::shared_ptr<group_state> group_;
  std::string label_;
  combine operation_;
  kernel::number_type type_;
  kernel::region_state state_;
  std::unique_ptr<shared_region> memory_;
  std::array<epochs, max_devices> epochs_{};
};

}  // namespace interlace::cuda
