// A finite impulse response filter, from Hetero-Mark: y(t) = sum over i of c(i) x(t - i). For t <
// i, the sample x(t - i) comes from a history. A lane computes one sample. The coefficients are the
// same for all lanes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct fir_kernel {
  static constexpr std::uint32_t threads = 64;

  unified<float> input;
  unified<float> coefficients;
  // One sample for each tap: the samples before the first input sample, in order of time.
  unified<float> history;
  unified<float> output;
  std::uint32_t taps = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto sum = lane_state<float>(block);
    block.each_warp([&](auto warp) {
      for (std::uint32_t i = 0; i < taps; ++i) {
        const float c = warp.load(coefficients, i);
        warp.each([&](auto lane) {
          const std::uint64_t t = lane.global_index();
          if (t >= output.size) return;
          if (t >= i) {
            sum[lane] += c * lane.load(input, t - i);
          } else {
            sum[lane] += c * lane.load(history, taps + t - i);
          }
          lane.compute({.fp32 = 1, .integer = 4});
        });
      }
      warp.each([&](auto lane) {
        if (lane.global_index() < output.size) lane.store(output, lane.global_index(), sum[lane]);
        lane.compute(operation::integer, 8);
      });
    });
  }
};

template <class Node>
class fir;

struct fir_problem {
  static constexpr const char* summary = "a filter";
  static constexpr std::array arguments{"input", "coefficients", "history"};

  std::vector<float> input;
  std::vector<float> coefficients;
  std::vector<float> history;

  static fir_problem make(const array_view<float>& input, const array_view<float>& coefficients,
                          const array_view<float>& history) {
    return {values_of(input), values_of(coefficients), values_of(history)};
  }

  template <class Node>
  fir<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class fir {
 public:
  fir(Node& node, const fir_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    if (data.input.empty() || data.coefficients.empty() ||
        data.coefficients.size() != data.history.size()) {
      throw usage_error("a filter needs samples, and one sample of history for each coefficient");
    }
    const auto own = kernel::page_placement::contiguous();
    kernel_.input = put_unified(node, data.input, placement.of(own));
    kernel_.output = node.template allocate_unified<float>(data.input.size(), placement.of(own));
    kernel_.coefficients = put_unified(node, data.coefficients, placement.of({}));
    kernel_.history = put_unified(node, data.history, placement.of({}));
    kernel_.taps = static_cast<std::uint32_t>(data.coefficients.size());
  }

  void enqueue() {
    const std::uint64_t blocks =
        (kernel_.output.size + fir_kernel::threads - 1) / fir_kernel::threads;
    node_.launch_over(kernel_, {blocks, fir_kernel::threads, 0}, blocks_);
    node_.exchange();
  }
  std::vector<float> result() const { return node_.download(kernel_.output); }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  fir_kernel kernel_;
};

}  // namespace interlace::workload
