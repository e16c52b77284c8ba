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
  // Makes a communicator for each GPU; `streams` are the devices' main streams and outlive this.
  nccl_regions(std::vector<int> gpus, std::vector<cudaStream_t> streams);

  // Plans the region's exchange, registers both buffers of every replica and delivers each once, so
  // that nothing is left to set up when kernels wait for each other. That changes no byte of a
  // region whose replicas are equal, as new ones are. Throws as plan_collective; waits.
  void add(std::uint32_t id, const kernel::region_state& state);

  // Enqueues the delivery of the buffers with these parities as one group, on the main streams, as
  // NCCL orders it: a device's part of the call starts behind what its stream holds, ends when the
  // device has sent and received everything, and nobody writes to a device's buffer before. So
  // neither readers nor writers need another barrier. May be captured, all streams or none.
  struct delivery {
    std::uint32_t region = 0;
    std::uint32_t parity = 0;
  };
  void enqueue(const std::vector<delivery>& deliveries) const;

  // "all-gather", "broadcast" or "send-receive".
  const char* collective_of(std::uint32_t region) const;

  // The version, what is switched off, and why a buffer could not be registered; a sentence each.
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Ends kernels of NCCL that wait for a GPU that failed.
  void abort() noexcept { communicators_.abort(); }

 private:
  struct planned {
    kernel::collective_plan plan;
    std::vector<std::vector<std::byte*>> buffers;  // [parity][device]
    std::vector<std::byte*> scratch;               // [device], where the plan needs it
  };
  void enqueue_copies(const planned& p, std::uint32_t parity, bool pack) const;

  std::vector<int> gpus_;
  std::vector<cudaStream_t> streams_;
  device_memory memory_;
  std::map<std::uint32_t, planned> regions_;
  std::vector<std::string> remarks_;
  nccl_communicators communicators_;  // the last member: they know memory of the others
};

}  // namespace interlace::cuda
