// A histogram. Each epoch counts all keys again. The bins are a partitioned array.
//
// A kernel reads each key once (4 B, coalesced) and adds one to the key's bin.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "workload/shared/dealt_items.hpp"

namespace interlace::workload {

struct histogram_count {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t keys_a_lane = 16;

  partitioned<std::uint32_t, combine::add> bins;
  local<const std::uint32_t> keys;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(lane.global_index(), keys.size, lane.global_count())) {
        lane.update(bins, lane.load_index(keys, k), 1U);
        lane.compute(operation::integer, 8 + 3 * bins.devices);
      }
    });
  }
};

template <class Node>
class histogram {
 public:
  histogram(Node& node, const array_view<std::uint32_t>& keys, kernel::region_options options)
      : node_(node),
        boundaries_(options.boundaries),
        bins_(node.template create_partition<std::uint32_t, combine::add>(
            with_queues(std::move(options), keys.size()))),
        keys_(deal(node, keys)) {
    reset();
  }

  void reset() {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      node_.set_part(bins_, d, std::vector<std::uint32_t>(boundaries_[d + 1] - boundaries_[d], 0));
    }
  }

  void enqueue_iteration(bool track_residual) {
    if (track_residual) {
      throw usage_error(
          "histogram counts a fixed number of times; give iterations, not a tolerance");
    }
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const histogram_count k{node_.view(bins_, d), keys_[d]};
      const std::uint64_t each =
          histogram_count::threads * items_a_lane(histogram_count::keys_a_lane, k.bins);
      node_.launch(d, k, {(keys_[d].size + each - 1) / each, histogram_count::threads}, bins_);
    }
    node_.exchange(bins_);
  }

  // The counts of the device's own bins. The counts are below 2^24, so a float holds them exactly.
  std::vector<float> result(std::uint32_t device) const {
    return values_of_part(node_.part(bins_, device), boundaries_[device], boundaries_.back());
  }

  double residual() const { return 0; }

 private:
  Node& node_;
  std::vector<std::uint64_t> boundaries_;
  kernel::partition<std::uint32_t, combine::add> bins_;
  std::vector<local<std::uint32_t>> keys_;
};

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): views are always given
struct histogram_problem {
  static constexpr const char* summary = "a histogram";
  static constexpr std::array arguments{"bins", "keys"};
  using launching_kernels = kernel_list<>;

  std::uint64_t bins = 0;
  array_view<std::uint32_t> keys;

  static histogram_problem make(std::uint64_t bins, const array_view<std::uint32_t>& keys) {
    if (bins == 0) throw usage_error("a histogram needs a bin");
    if (const auto* found =
            std::find_if(keys.begin(), keys.end(), [&](std::uint32_t key) { return key >= bins; });
        found != keys.end()) {
      throw usage_error("key " + std::to_string(found - keys.begin()) + " is " +
                        std::to_string(*found) + "; there are " + std::to_string(bins) + " bins");
    }
    return {bins, keys};
  }

  std::uint64_t elements() const { return bins; }

  template <class Node>
  histogram<Node> on(Node& node, kernel::region_options options) const {
    return {node, keys, std::move(options)};
  }
};

}  // namespace interlace::workload
