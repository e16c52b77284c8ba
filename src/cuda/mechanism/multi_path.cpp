#include <string>

#include "cuda/epoch/gate.hpp"
#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/table.hpp"
#include "interlace/copy.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

// The copies of all devices at an exchange, as one batch of the copy engine.
class batch final : public joint_delivery {
 public:
  batch(const node_mechanism& by, const node_gpus& gpus, copier& engine)
      : joint_delivery(by), gpus_(gpus), engine_(engine) {}

  void add(const copy_operation& c) {
    copies_.push_back({.dst = c.to, .src = c.from, .bytes = c.bytes});
  }

  // The batch starts after all work that each device has so far, and ends before all later work.
  // All kernels that write the sent data have therefore ended, and so have all kernels that read
  // the overwritten data.
  void enqueue() const override {
    const std::vector<cudaStream_t>& streams = gpus_.streams();
    for (std::uint32_t d = 1; d < gpus_.count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
      INTERLACE_CUDA_CHECK(cudaEventRecord(gpus_.event(d), streams[d]));
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(streams[0], gpus_.event(d), 0));
    }
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(0)));
    engine_.copy_batch_async(copies_, streams[0]);
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(0)));
    INTERLACE_CUDA_CHECK(cudaEventRecord(gpus_.event(0), streams[0]));
    for (std::uint32_t d = 1; d < gpus_.count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(streams[d], gpus_.event(0), 0));
    }
  }
  std::string name() const override {
    return kernel::mechanism_name(kernel::mechanism::multi_path);
  }
  // The engine may have to plan, to allocate memory or to make a graph, so the gate must be open.
  std::uint32_t weight() const override { return gate::holds; }
  // A graph belongs to one device, but a batch spans all devices.
  const char* why_on_streams() const override {
    return "runs on plain streams, so that the time of short iterations contains some of the "
           "host's";
  }

 private:
  const node_gpus& gpus_;
  copier& engine_;
  std::vector<batch_copy> copies_;
};

class multi_path final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void prepare(std::uint32_t id, kernel::region_state& state) override {
    node_mechanism::prepare(id, state);
    if (!state.options.transfers || of().gpus.count() == 1) return;
    if (engine_ == nullptr) {
      engine_ =
          std::make_unique<copier>(of().copies ? *of().copies : copy_options::from_environment());
    }
    // This call plans the first batch with these sizes and places, and creates everything that the
    // engine needs for such a batch.
    batch first(*this, of().gpus, *engine_);
    const std::vector<kernel::delivery> deliveries = state.deliveries();
    for (const kernel::delivery& d : deliveries) first.add(copy_of(d, state));
    const current_device restore(of().gpus.ordinal(0));
    if (!deliveries.empty()) first.enqueue();
    of().gpus.synchronize();
  }

  // The batch orders its own deliveries, so the devices do not have to meet.
  bool deliver(recorder& /*from*/, std::uint32_t id, exchange_operation& to) override {
    const kernel::region_state& s = region(id);
    if (!s.options.transfers) return true;
    auto* all = to.find<batch>(*this);
    for (const kernel::delivery& d : s.deliveries()) {
      if (all == nullptr) {
        to.joint.push_back(std::make_unique<batch>(*this, of().gpus, *engine_));
        all = static_cast<batch*>(to.joint.back().get());
      }
      all->add(copy_of(d, s));
    }
    return all == nullptr;
  }

  std::string made() const override {
    if (engine_ == nullptr) return {};
    const copy_statistics made = engine_->statistics();
    return "the copy engine ran " + std::to_string(made.streams) + " batches by streams and " +
           std::to_string(made.graphs) + " by graphs, with " +
           std::to_string(made.staging_bytes >> 20U) + " MiB of staging memory, and made " +
           std::to_string(made.direct) + " plain copies";
  }

 private:
  std::unique_ptr<copier> engine_;  // set once a region uses this mechanism
};

}  // namespace

std::unique_ptr<node_mechanism> make_multi_path(const node_parts& of) {
  return std::make_unique<multi_path>(of);
}

}  // namespace interlace::cuda
