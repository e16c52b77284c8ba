#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/epoch/gate.hpp"
#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/table.hpp"
#include "cuda/transfer/nccl_messages.hpp"
#include "cuda/transfer/nccl_regions.hpp"
#include "interlace/kernel/partition.hpp"

namespace interlace::cuda {

namespace {

// The collectives of all devices in an exchange. NCCL gets them as one group.
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

// The queues of packets that all devices send to each other in an exchange, as an all-to-all.
class queue_exchange final : public joint_delivery {
 public:
  queue_exchange(const node_mechanism& by, const nccl_messages& messages,
                 const std::vector<opaque_stream>& streams)
      : joint_delivery(by), messages_(messages), streams_(streams) {}

  void enqueue() const override { messages_.enqueue(streams_); }
  std::string name() const override {
    return std::string(kernel::mechanism_name(kernel::mechanism::nccl)) + " all-to-all";
  }
  std::uint32_t weight() const override { return 2 * max_devices; }

 private:
  const nccl_messages& messages_;
  const std::vector<opaque_stream>& streams_;
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

  // This delivery runs before the deliveries of other mechanisms. NCCL orders its own deliveries,
  // so the devices do not have to meet.
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

  void prepare_updates(std::uint32_t id, const kernel::region_state& state) override {
    const node_gpus& gpus = of().gpus;
    auto& both = queues_[id];
    for (std::uint32_t parity = 0; parity < 2; ++parity) {
      std::vector<nccl_message> messages;
      for (std::uint32_t d = 0; d < gpus.count(); ++d) {
        for (const kernel::queue_move& m : kernel::queue_moves_of(state, d, parity)) {
          messages.push_back({.from = gpus.ordinal(d),
                              .to = gpus.ordinal(m.to),
                              .source = const_cast<void*>(m.from),  // NOLINT: sends only read
                              .target = m.inbox,
                              .bytes = m.bytes});
        }
      }
      if (communicators_ == nullptr) join(nccl_messages::gpus_of(messages));
      both[parity] = std::make_unique<nccl_messages>(*communicators_, messages);
      // The first exchange sets up connections. That must not happen while kernels wait, so the
      // first exchange is made here.
      both[parity]->enqueue(streams_);
    }
    of().gpus.synchronize();
  }

  void launch_updates(recorder& to, update_launch l) override { launch_packing(to, std::move(l)); }

  void deliver_updates(std::uint32_t id, exchange_operation& to) override {
    to.joint.insert(to.joint.begin(), std::make_unique<queue_exchange>(
                                          *this, *queues_.at(id)[region(id).parity], streams_));
  }

 private:
  // Makes communicators for the GPUs in the order of `ordinals`. The streams get the same order.
  void join(const std::vector<int>& ordinals) {
    const node_gpus& gpus = of().gpus;
    communicators_ = std::make_unique<nccl_communicators>(nccl_library::of_process(), ordinals);
    of().gpus.abort_by([this] { communicators_->abort(); });
    for (const int ordinal : ordinals) {
      for (std::uint32_t d = 0; d < gpus.count(); ++d) {
        if (gpus.ordinal(d) == ordinal) streams_.push_back(gpus.streams()[d]);
      }
    }
  }

  std::unique_ptr<nccl_regions> regions_;  // set once a region uses this mechanism
  // For partitions: the communicators, the main streams in the same order and, for each id and
  // parity, the messages.
  std::unique_ptr<nccl_communicators> communicators_;
  std::vector<opaque_stream> streams_;
  std::map<std::uint32_t, std::array<std::unique_ptr<nccl_messages>, 2>> queues_;
};

}  // namespace

std::unique_ptr<node_mechanism> make_nccl(const node_parts& of) {
  return std::make_unique<nccl>(of);
}

}  // namespace interlace::cuda
