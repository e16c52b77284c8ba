#include <algorithm>
#include <string>

#include "cuda/epoch/gate.hpp"
#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/table.hpp"
#include "cuda/transfer/nccl_regions.hpp"

namespace interlace::cuda {

namespace {

// The collectives of all devices in an exchange. NCCL receives them as one group.
class collectives final : public joint_delivery {
 public:
  collectives(const node_mechanism& by, const nccl_regions& regions)
      : joint_delivery(by), regions_(regions) {}

  void add(nccl_regions::delivery d) { deliveries_.push_back(d); }
  void enqueue() const override { regions_.enqueue(deliveries_); }
  std::string name() const override {
    return std::string(kernel::mechanism_name(kernel::mechanism::nccl)) + " " +
           regions_.collective_of(deliveries_.front().region);
  }
  std::uint32_t weight() const override {
    return 2 * max_devices * static_cast<std::uint32_t>(deliveries_.size());
  }

 private:
  const nccl_regions& regions_;
  std::vector<nccl_regions::delivery> deliveries_;
};

class nccl final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void prepare(std::uint32_t id, kernel::region_state& state) override {
    node_mechanism::prepare(id, state);
    if (of().gpus.count() == 1) return;
    if (regions_ == nullptr) {
      regions_ = std::make_unique<nccl_regions>(of().gpus.ordinals(), of().gpus.streams());
      of().gpus.abort_by([this] { regions_->abort(); });
    }
    regions_->add(id, state);
    for (const std::string& remark : regions_->remarks()) {
      if (std::find(of().remarks.begin(), of().remarks.end(), remark) == of().remarks.end()) {
        of().remarks.push_back(remark);
      }
    }
  }

  // Runs before the deliveries of other mechanisms. NCCL orders its own deliveries, so the devices
  // need not meet.
  bool deliver(recorder& /*from*/, std::uint32_t id, exchange_operation& to) override {
    auto* group = to.find<collectives>(*this);
    if (group == nullptr) {
      const auto made =
          to.joint.insert(to.joint.begin(), std::make_unique<collectives>(*this, *regions_));
      group = static_cast<collectives*>(made->get());
    }
    group->add({.region = id, .parity = region(id).parity ^ 1U});
    return false;
  }

 private:
  std::unique_ptr<nccl_regions> regions_;  // set once a region uses this mechanism
};

}  // namespace

std::unique_ptr<node_mechanism> make_nccl(const node_parts& of) {
  return std::make_unique<nccl>(of);
}

}  // namespace interlace::cuda
