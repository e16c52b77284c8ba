// The operations that a node records for an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interlace/cuda/epoch/kernel_operation.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/kernel/library_call.hpp"

namespace interlace::cuda {

class node_mechanism;

struct copy_operation {
  std::uint32_t peer = 0;  // device to which the copy goes
  void* to = nullptr;
  const void* from = nullptr;
  std::uint64_t bytes = 0;
};

struct prefetch_operation {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};

// A delivery that all devices of a node make together at an exchange, before all other work of the
// exchange.
class joint_delivery {
 public:
  explicit joint_delivery(const node_mechanism& by) : by_(&by) {}
  virtual ~joint_delivery() = default;
  joint_delivery(const joint_delivery&) = delete;
  joint_delivery& operator=(const joint_delivery&) = delete;
  joint_delivery(joint_delivery&&) = delete;
  joint_delivery& operator=(joint_delivery&&) = delete;

  const node_mechanism* by() const { return by_; }
  // Enqueues the delivery on the main streams of all devices.
  virtual void enqueue() const = 0;
  virtual std::string name() const = 0;  // name in a timeline
  // The number of calls by which the delivery is enqueued on one device. The value gate::holds
  // means that the gate must be open.
  virtual std::uint32_t weight() const = 0;
  // The reason, as a remark, why a run with this delivery must use plain streams. Null means that
  // the delivery can be in graphs.
  virtual const char* why_on_streams() const { return nullptr; }

 private:
  const node_mechanism* by_;
};

struct exchange_operation {
  std::uint32_t id = 0;
  // Whether the devices wait for each other at a barrier. They need no barrier if joint deliveries
  // deliver and order everything.
  bool meets = true;
  std::vector<std::unique_ptr<joint_delivery>> joint;
  // For each device, the prefetches that follow the barrier.
  std::vector<std::vector<prefetch_operation>> prefetches;
  std::vector<std::vector<copy_operation>> copies;  // for each device, its copies
  // For each device, the copy streams for which the exchange waits.
  std::vector<std::uint32_t> join;
  // for each device, the arguments of its exchange
  std::vector<exchange_arguments> first;
  std::vector<std::vector<large_reduction>> large;  // for each device, its large reductions

  // The joint delivery of type `Delivery`, or null if the exchange has none.
  template <class Delivery>
  Delivery* find(const node_mechanism& by) const {
    for (const auto& j : joint) {
      if (j->by() == &by) return static_cast<Delivery*>(j.get());
    }
    return nullptr;
  }
};

struct operation {
  enum class kind : std::uint8_t { kernel, copies, exchange, call };
  kind what = kind::kernel;
  std::uint32_t device = 0;  // device of the operation; exchanges do not use it
  kernel_operation kernel;
  // copies that start after all kernels that were enqueued before them
  std::vector<copy_operation> copies;
  exchange_operation exchange;
  kernel::library_call call;
};

}  // namespace interlace::cuda
