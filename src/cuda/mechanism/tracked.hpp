// The common part of polling, device-launch and copy-engine. Kernels announce the chunks that they
// write. Each device may launch one such kernel in an epoch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/epoch/issuer.hpp"
#include "cuda/mechanism/node_mechanism.hpp"
#include "cuda/region/tracking.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "kernel/chunks.hpp"

namespace interlace::cuda {

class tracked_mechanism;

// The chunks of a region on one device, for one kind of launch that announces them. This object
// lives as long as the node.
struct tracked_region : launch_tracking {
  const tracked_mechanism* by = nullptr;
  kernel::block_mapping mapping;  // kept so that no other mapping gets the same identity
  std::uint64_t blocks = 0;
  std::vector<kernel::chunk> chunks;
  kernel::publications announced;
};

class tracked_mechanism : public node_mechanism {
 public:
  explicit tracked_mechanism(const node_parts& of)
      : node_mechanism(of), tracked_(of.gpus.count()) {}

  void launch(recorder& to, region_launch l) override;
  // Ends the tracked launches of the epoch. The exchange waits for the copy streams on which the
  // launches' chunks move.
  bool deliver(recorder& from, std::uint32_t id, exchange_operation& to) override;

  // Checks a GPU that several devices share. The GPU must be able to hold a block of the kernel and
  // the movers of all devices' chunks at the same time. Throws usage_error if the GPU cannot hold
  // them. The kernel must be loaded.
  virtual void require_places(const loaded_kernels& /*kernels*/,
                              const kernel_operation& /*k*/) const {}

  // Enqueues a tracked launch and the movers of its chunks. The launch's device must be the current
  // one.
  void enqueue(issuer& to, std::uint32_t device, const kernel_operation& k, stopwatch* watch) const;

 protected:
  // A tracked launch while it is being enqueued.
  struct enqueued {
    issuer& to;
    std::uint32_t device = 0;
    const kernel_operation& kernel;
    const tracked_region& tracked;
    const kernel::region_options& how;
    stopwatch* draws = nullptr;  // records a timeline; null if there is no timeline
  };
  virtual void choose_entry(kernel_operation& k, const kernel_entries& entries,
                            const kernel::region_options& how) const;
  // Throws usage_error if the launch cannot run with this mechanism. The launch's device must be
  // the current one.
  virtual void check(const kernel_operation& /*k*/, const kernel::region_options& /*how*/,
                     int /*ordinal*/) const {}
  virtual chunk_waiter waiter() const { return chunk_waiter::nobody; }
  // `streams` returns the copy streams on which the chunks of a launch move. The other two
  // functions enqueue work before the launch and after the launch. All three are called only if the
  // region has transfers and chunks.
  virtual std::uint32_t streams(std::uint32_t /*device*/, const tracked_region& /*t*/) const {
    return 0;
  }
  virtual void enqueue_ahead(const enqueued& /*l*/) const {}
  virtual void enqueue_after(const enqueued& /*l*/) const {}

  // Enqueues work on a copy stream. The work starts after everything that was on the main stream
  // before the launch.
  template <class Enqueue>
  void on_stream(const enqueued& l, std::uint32_t which, const std::string& name,
                 const Enqueue& enqueue) const {
    cudaStream_t on = of().gpus.copy_streams(l.device)[which];
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(on, of().gpus.event(l.device), 0));
    cudaEvent_t begin = l.draws != nullptr ? l.draws->mark(on) : nullptr;
    enqueue(on);
    if (l.draws != nullptr) l.draws->span(l.device, "copy", name, begin, l.draws->mark(on));
  }

 private:
  const tracked_region& track(std::uint32_t device, std::uint32_t id, std::uint64_t blocks,
                              const kernel::block_mapping& mapping);

  device_memory memory_;                                               // holds the tables
  std::vector<std::vector<std::unique_ptr<tracked_region>>> tracked_;  // one list for each device
};

}  // namespace interlace::cuda
