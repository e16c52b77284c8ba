#include <string>

#include "cuda/mechanism/region_mechanism.hpp"
#include "cuda/mechanism/table.hpp"
#include "cuda/mechanism/tracked.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

// For each chunk, a stream waits for the chunk and then copies it.
class copies_of_chunks final : public tracked_mechanism {
 public:
  using tracked_mechanism::tracked_mechanism;

 protected:
  chunk_waiter waiter() const override { return chunk_waiter::streams; }
  std::uint32_t streams(std::uint32_t device, const tracked_region& t) const override {
    std::uint32_t used = 0;
    each_copy_stream(receivers(t.chunks), device, of().gpus.count(),
                     [&](const copy_stream& c) { used |= 1U << c.which; });
    return used;
  }
  // The waits are enqueued after the kernel. If there is only one hardware queue, waits in front of
  // the kernel would cause a deadlock.
  void enqueue_after(const enqueued& l) const override {
    each_copy_stream(
        receivers(l.tracked.chunks), l.device, of().gpus.count(), [&](const copy_stream& c) {
          on_stream(l, c.which, "chunks to GPU " + std::to_string(c.peer), [&](cudaStream_t on) {
            enqueue_chunk_copies(l.tracked.chunks, l.tracked.table, c, l.kernel.where.from,
                                 l.kernel.where.to[c.peer], on);
          });
        });
  }
};

class copy_engine_of_region final : public region_mechanism {
 public:
  chunk_waiter waiter() const override { return chunk_waiter::streams; }
  void deliver(const kernel::region_state& state, const region_side& s) const override {
    const std::uint32_t peers = receivers(s.chunks);
    each_copy_stream(peers, s.device, state.devices(), [&](const copy_stream& c) {
      cudaStream_t stream = s.streams[c.which];
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(stream, s.begun_event, 0));
      enqueue_chunk_copies(s.chunks, s.tracking.table, c, back_of(state, s, s.device),
                           back_of(state, s, c.peer), stream);
    });
    each_copy_stream(peers, s.device, state.devices(),
                     [&](const copy_stream& c) { join(s, s.streams[c.which]); });
  }
};

}  // namespace

std::unique_ptr<node_mechanism> make_copy_engine(const node_parts& of) {
  return std::make_unique<copies_of_chunks>(of);
}

const region_mechanism& region_by_copy_engine() {
  static const copy_engine_of_region how;
  return how;
}

}  // namespace interlace::cuda
