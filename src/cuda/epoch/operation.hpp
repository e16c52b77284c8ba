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
  std::uint32_t peer = 0;  // the device that it goes to
  void* to = nullptr;
  const void* from = nullptr;
  std::uint64_t bytes = 0;
};

struct prefetch_operation {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
};

// A delivery that all devices of a node make together at an exchange, before everything else of the
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
  // Enqueues it on the main streams of all devices.
  virtual void enqueue() const = 0;
  virtual std::string name() const = 0;  // name in a timeline
  // The number of stream operations that it enqueues on a device while the gate is shut.
  // gate::holds: the gate must be open.
  virtual std::uint32_t weight() const = 0;
  // Why a run with it must be on plain streams, as a remark; null: it can be in graphs.
  virtual const char* why_on_streams() const { return nullptr; }

 private:
  const node_mechanism* by_;
};

struct exchange_operation {
  std::uint32_t id = 0;
  bool meets = true;  // false if joint deliveries deliver and order everything
  std::vector<std::unique_ptr<joint_delivery>> joint;
  std::vector<std::vector<prefetch_operation>> prefetches;  // of each device, after the barrier
  std::vector<std::vector<copy_operation>> copies;          // of each device
  std::vector<std::uint32_t> join;        // of each device, the copy streams that it waits for
  std::vector<exchange_arguments> first;  // of each device
  std::vector<std::vector<large_reduction>> large;  // of each device

  // The mechanism's own delivery; null if it has none.
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
  std::uint32_t device = 0;  // not for exchanges
  kernel_operation kernel;
  std::vector<copy_operation> copies;  // after all kernels so far
  exchange_operation exchange;
  kernel::library_call call;
};

}  // namespace interlace::cuda
