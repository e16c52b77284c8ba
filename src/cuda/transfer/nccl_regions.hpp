// The regions of a node that NCCL delivers at their exchange.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/transfer/nccl_library.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/kernel/region.hpp"
#include "kernel/collective.hpp"

namespace interlace::cuda {

class nccl_regions {
 public:
  // Makes a communicator for each GPU. `streams` are the devices' main streams and must outlive
  // this object.
  nccl_regions(std::vector<int> gpus, std::vector<cudaStream_t> streams);

  // Plans the region's exchange, registers both buffers of every replica, and delivers each buffer
  // once. Later deliveries therefore have nothing to set up while kernels wait for each other. The
  // first delivery changes no byte if the replicas are equal. The replicas of a new region are
  // equal. Blocks until the delivery is done. Throws the same errors as plan_collective.
  void add(std::uint32_t id, const kernel::region_state& state);

  // A delivery of the buffers with these parities, as one group on the main streams. NCCL orders
  // the delivery. A device's part starts after the work that is on the device's stream, and ends
  // when the device has sent and received everything. Nothing writes a device's buffer before the
  // device's own part starts. Readers and writers therefore need no other barrier. The delivery can
  // be captured, on all streams or on none.
  struct delivery {
    std::uint32_t region = 0;
    std::uint32_t parity = 0;
  };
  void enqueue(const std::vector<delivery>& deliveries) const;

  // The name of the collective: "all-gather", "broadcast" or "send-receive".
  const char* collective_of(std::uint32_t region) const;

  // Sentences with NCCL's version, the features that are switched off, and the reason if a buffer
  // could not be registered.
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Ends NCCL's kernels, which may be waiting for a failed GPU.
  void abort() noexcept { communicators_.abort(); }

 private:
  struct planned {
    kernel::collective_plan plan;
    std::vector<std::vector<std::byte*>> buffers;  // [parity][device]
    std::vector<std::byte*> scratch;  // one for each device, if the plan needs scratch memory
  };
  void enqueue_copies(const planned& p, std::uint32_t parity, bool pack) const;

  std::vector<int> gpus_;
  std::vector<cudaStream_t> streams_;
  device_memory memory_;
  std::map<std::uint32_t, planned> regions_;
  std::vector<std::string> remarks_;
  // This member is declared last and therefore destroyed first, because NCCL has registered memory
  // of the other members.
  nccl_communicators communicators_;
};

}  // namespace interlace::cuda
