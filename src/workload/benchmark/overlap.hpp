// The overlap microbenchmark (PROACT, sections IV-C and V-A). The first device's kernel computes a
// region, and every other device needs the whole region. Each block writes 4 KB, in ascending
// order. The number of rounds sets how long a block computes.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"

namespace interlace::workload {

struct alignas(16) quad {
  std::uint32_t word[4] = {};
  friend bool operator==(const quad&, const quad&) = default;
};

struct overlap_producer {
  static constexpr std::uint32_t threads = 256;  // with this number of threads, a block writes 4 KB

  replicated<quad> data;
  std::uint32_t rounds = 0;
  std::uint32_t seed = 0;
  std::uint32_t charged = 0;  // additional rounds that are only charged in simulated time

  static INTERLACE_HOST_DEVICE quad value(std::uint64_t element, std::uint32_t rounds,
                                          std::uint32_t seed) {
    quad q;
    for (std::uint32_t k = 0; k < 4; ++k) {
      q.word[k] = (static_cast<std::uint32_t>(element) * 4 + k) ^ seed;
    }
    for (std::uint32_t r = 0; r < rounds; ++r) {
      for (std::uint32_t& w : q.word) w = w * 1664525U + 1013904223U;
    }
    return q;
  }

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = lane.global_index();
      if (i >= data.size) return;
      lane.compute(operation::integer, 10 + 4 * (rounds + charged));
      lane.store(data, i, value(i, rounds, seed));
    });
  }
};

// The build generates the code of `device-launch` from this struct, as it does for workloads
// (interlace/workload/problem.hpp).
struct overlap_problem {
  using launching_kernels = kernel_list<overlap_producer>;
};

template <class Node>
class overlap {
 public:
  // `options` names the mechanism, the chunks and the agent. Device 0 owns all elements.
  overlap(Node& node, std::uint64_t elements, kernel::region_options options)
      : node_(node), elements_(elements) {
    options.boundaries.assign(node.devices() + std::size_t{1}, elements);
    options.boundaries[0] = 0;
    data_ = node.template create_region<quad>(std::move(options));
    mapping_ = kernel::block_mapping::contiguous(0, overlap_producer::threads, elements);
  }

  void enqueue_epoch(std::uint32_t rounds, std::uint32_t seed, std::uint32_t charged = 0) {
    const std::uint64_t blocks =
        (elements_ + overlap_producer::threads - 1) / overlap_producer::threads;
    node_.launch(0, overlap_producer{node_.view(data_, 0), rounds, seed, charged},
                 {blocks, overlap_producer::threads, 0}, data_, mapping_);
    node_.exchange(data_);
  }

  // A view of the region. Its front is the result of the last epoch.
  replicated<quad> view(std::uint32_t device) const { return node_.view(data_, device); }

 private:
  Node& node_;
  std::uint64_t elements_;
  kernel::region<quad> data_;
  kernel::block_mapping mapping_;
};

}  // namespace interlace::workload
