// Bitonic sort, from the AMD APP SDK. A stage has several passes, and every pass is a launch. In a
// pass, a lane orders two keys. A pass needs all results of the previous pass.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct bitonic_kernel {
  static constexpr std::uint32_t threads = 64;

  unified<std::uint32_t> keys;
  std::uint32_t stage = 0;
  std::uint32_t pass = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto pair = static_cast<std::uint32_t>(lane.global_index());
      if (pair >= keys.size / 2) return;
      const std::uint32_t distance = 1U << (stage - pass);
      const std::uint32_t left = pair % distance + pair / distance * 2 * distance;
      const std::uint32_t right = left + distance;
      const bool ascending = (pair >> stage & 1U) == 0;
      const std::uint32_t a = lane.load(keys, left);
      const std::uint32_t b = lane.load(keys, right);
      const std::uint32_t low = a < b ? a : b;
      const std::uint32_t high = a < b ? b : a;
      lane.compute(operation::integer, 16);
      lane.store(keys, left, ascending ? low : high);
      lane.store(keys, right, ascending ? high : low);
    });
  }
};

template <class Node>
class bitonic_sort;

struct bitonic_sort_problem {
  static constexpr const char* summary = "a sort of keys below 2^24";
  static constexpr std::array arguments{"keys"};

  std::vector<std::uint32_t> keys;  // the number of keys must be a power of two

  static bitonic_sort_problem make(const array_view<std::uint32_t>& keys) {
    return {values_of(keys)};
  }

  template <class Node>
  bitonic_sort<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class bitonic_sort {
 public:
  bitonic_sort(Node& node, const bitonic_sort_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    const std::size_t n = data.keys.size();
    if (n < 2 || (n & (n - 1)) != 0) {
      throw usage_error(std::to_string(n) + " keys cannot be sorted; give a power of two");
    }
    keys_ = put_unified(node, data.keys, placement.of(kernel::page_placement::contiguous()));
  }

  void enqueue() {
    const std::uint64_t blocks =
        (keys_.size / 2 + bitonic_kernel::threads - 1) / bitonic_kernel::threads;
    for (std::uint32_t stage = 0; std::uint64_t{1} << stage < keys_.size; ++stage) {
      for (std::uint32_t pass = 0; pass <= stage; ++pass) {
        node_.launch_over(bitonic_kernel{keys_, stage, pass}, {blocks, bitonic_kernel::threads, 0},
                          blocks_);
        node_.exchange();
      }
    }
  }
  // The sorted keys. Floats hold them exactly, because keys are below 2^24.
  std::vector<float> result() const {
    const std::vector<std::uint32_t> sorted = node_.download(keys_);
    std::vector<float> values(sorted.size());
    for (std::size_t k = 0; k < sorted.size(); ++k) values[k] = static_cast<float>(sorted[k]);
    return values;
  }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  unified<std::uint32_t> keys_;
};

}  // namespace interlace::workload
