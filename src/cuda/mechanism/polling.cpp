#include <algorithm>
#include <string>

#include "cuda/mechanism/region_mechanism.hpp"
#include "cuda/mechanism/table.hpp"
#include "cuda/mechanism/tracked.hpp"
#include "cuda/region/agent.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/occupancy.hpp"
#include "interlace/cuda/shared_gpu.hpp"

namespace interlace::cuda {

namespace {

// An agent is a long-lived kernel on a stream of its own. It stores complete chunks to the devices
// that receive them.
class polling final : public tracked_mechanism {
 public:
  using tracked_mechanism::tracked_mechanism;

  void require_places(const loaded_kernels& kernels, const kernel_operation& k) const override {
    if (k.tracked->started == nullptr) return;
    const node_gpus& gpus = of().gpus;
    const kernel::region_options& how = region(k.tracked->table.region).options;
    for (std::uint32_t d = 0; d < gpus.count(); ++d) {
      const loaded_kernels::properties& known = kernels.of(d, k);
      const block_needs block{.threads = k.shape.threads,
                              .registers = known.registers,
                              .shared_bytes = known.fixed_shared_bytes + k.shape.shared_bytes};
      const std::string reason =
          why_not_at_once(places_of(gpus.ordinal(d)), agent_needs(how), block, gpus.sharers(d));
      if (!reason.empty()) {
        throw usage_error("GPU " + std::to_string(gpus.ordinal(d)) + " cannot run " + reason +
                          "; give the agent fewer threads (--threads), or share the GPU among "
                          "fewer devices");
      }
    }
  }

 protected:
  chunk_waiter waiter() const override { return chunk_waiter::agent; }
  void check(const kernel_operation& k, const kernel::region_options& how,
             int ordinal) const override {
    check_agent(how, k.shape, ordinal);
  }
  std::uint32_t streams(std::uint32_t device, const tracked_region& t) const override {
    return receivers(t.chunks) != 0 ? 1U << device : 0;
  }
  // Enqueues the agent ahead of the kernel. If the agent came after the kernel, the agent would
  // find no place until the kernel ends.
  void enqueue_ahead(const enqueued& l) const override {
    const node_gpus& gpus = of().gpus;
    agent_arguments a;
    a.barrier = gpus.barrier(l.device, node_gpus::no_exchange);
    a.table = l.tracked.table;
    a.started = l.tracked.started;
    a.where = l.kernel.where;
    on_stream(l, l.device, "agent", [&](cudaStream_t on) {
      launch_agent(a, l.how,
                   std::min(100U, l.to.kernels().of(l.device, l.kernel).shared_percent +
                                      gpus.sharers(l.device) *
                                          agent_shared_percent(l.how, gpus.ordinal(l.device))),
                   on);
    });
    enqueue_wait(gpus.streams()[l.device], l.tracked.started);
  }
};

class polling_of_region final : public region_mechanism {
 public:
  chunk_waiter waiter() const override { return chunk_waiter::agent; }
  void check(const kernel::region_options& how, int ordinal, std::uint32_t sharers) const override {
    // The caller's kernel is not known yet, but it has at least one warp.
    check_agent(how, {.blocks = 1, .threads = 32, .shared_bytes = 0}, ordinal);
    if (sharers == 1) return;
    const std::string reason =
        why_not_at_once(places_of(ordinal), agent_needs(how),
                        {.threads = 32, .registers = 32, .shared_bytes = 0}, sharers);
    if (!reason.empty()) {
      throw usage_error("GPU " + std::to_string(ordinal) + " cannot run " + reason +
                        "; give the agent fewer threads, or share the GPU among fewer devices");
    }
  }

  void begin(const kernel::region_state& state, region_side& s, bool loaded) const override {
    s.by_agent = loaded && !s.chunks.empty();
    if (!s.by_agent) return;
    agent_arguments a;
    a.barrier = s.barrier;
    a.table = s.tracking.table;
    a.started = s.tracking.started;
    a.where.from = back_of(state, s, s.device);
    for (std::uint32_t d = 0; d < state.devices(); ++d) a.where.to[d] = back_of(state, s, d);
    // The agent is launched before the kernel. If the agent came later, it would find no place
    // until the kernel ends.
    cudaStream_t agent = s.streams[s.device];
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(agent, s.begun_event, 0));
    // The caller's kernel is not known yet, so the agent leaves shared memory for it.
    launch_agent(a, state.options, 100, agent);
    enqueue_wait(s.stream, s.tracking.started);
  }

  void deliver(const kernel::region_state& state, const region_side& s) const override {
    if (s.by_agent) {
      join(s, s.streams[s.device]);
    } else {
      copy_part(state, s);
    }
  }
};

}  // namespace

std::unique_ptr<node_mechanism> make_polling(const node_parts& of) {
  return std::make_unique<polling>(of);
}

const region_mechanism& region_by_polling() {
  static const polling_of_region how;
  return how;
}

}  // namespace interlace::cuda
