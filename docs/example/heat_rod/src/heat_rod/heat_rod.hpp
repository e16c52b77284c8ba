// Heat in a rod with insulated ends. An epoch is one step:
//
//   u'(i) = u(i) + rate (u(i - 1) - 2 u(i) + u(i + 1))
//
// The region is u. A device owns a contiguous range of points, and also needs the point on either
// side of this range.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <interlace/base/array_view.hpp>
#include <interlace/base/errors.hpp>
#include <interlace/kernel/region.hpp>
#include <interlace/workload/problem.hpp>
#include <interlace/workload/slabs.hpp>

namespace interlace::workload {

struct heat_rod_step {
  static constexpr std::uint32_t threads = 256;

  replicated<float> heat;   // a region: loads read the front, and stores write the back
  std::uint32_t first = 0;  // first point of this device; `end` is one past its last point
  std::uint32_t end = 0;
  float rate = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane.global_index());
      if (i >= end) return;
      const float left = lane.load(heat, i == 0 ? i : i - 1);
      const float here = lane.load(heat, i);
      const float right = lane.load(heat, i + 1 == heat.size ? i : i + 1);
      lane.store(heat, i, here + rate * (left - 2 * here + right));
      lane.compute({.fp32 = 4, .integer = 12});  // takes time only where time is simulated
    });
  }
};

template <class Node>
class heat_rod {
 public:
  heat_rod(Node& node, const std::vector<float>& start, float rate,
           const kernel::region_options& options)
      : node_(node),
        start_(start),
        rate_(rate),
        boundaries_(options.boundaries),
        heat_(node.template create_region<float>(with_halo(options, 1))) {
    reset();
  }

  void reset() { node_.set_front(heat_, start_); }

  void enqueue_iteration(bool track_residual) {
    if (track_residual) throw usage_error("heat_rod makes a fixed number of steps");
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const std::uint64_t first = boundaries_[d];
      const std::uint64_t end = boundaries_[d + 1];
      const heat_rod_step step{node_.view(heat_, d), static_cast<std::uint32_t>(first),
                               static_cast<std::uint32_t>(end), rate_};
      const std::uint64_t blocks = (end - first + step.threads - 1) / step.threads;
      node_.launch(d, step, {blocks, step.threads, 0}, heat_,
                   kernel::block_mapping::contiguous(first, step.threads, end));
    }
    node_.exchange(heat_);
  }

  // A device holds its own points and one neighbouring point on each side.
  std::vector<float> result(std::uint32_t device) const { return node_.front(heat_, device); }

  double residual() const { return 0; }

 private:
  Node& node_;
  std::vector<float> start_;
  float rate_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> heat_;
};

struct heat_rod_problem {
  static constexpr const char* summary = "heat in a rod";
  static constexpr std::array arguments{"start", "rate"};
  using launching_kernels = kernel_list<heat_rod_step>;

  std::vector<float> start;
  float rate = 0;

  static heat_rod_problem make(const array_view<float>& start, double rate) {
    constexpr std::uint64_t most = std::uint64_t{1} << 31U;
    if (start.size() == 0 || start.size() >= most) {
      throw usage_error("a rod has " + std::to_string(start.size()) + " points; give 1 to " +
                        std::to_string(most - 1));
    }
    if (!(rate > 0 && rate <= 0.5)) {
      throw usage_error("a rod's rate must be above 0 and at most 0.5");
    }
    return {{start.begin(), start.end()}, static_cast<float>(rate)};
  }

  std::uint64_t elements() const { return start.size(); }

  template <class Node>
  heat_rod<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, start, rate, options};
  }
};

}  // namespace interlace::workload
