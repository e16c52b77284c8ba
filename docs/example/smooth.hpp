// A kernel of your own: a moving average on a ring of numbers. Each device of the node computes a
// part of the ring.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <interlace/kernel/region.hpp>

struct smooth {
  static constexpr std::uint32_t threads = 256;
  interlace::replicated<float> u;  // a region: loads read the front, and stores write the back
  std::uint64_t begin = 0;         // this device's elements
  std::uint64_t end = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = begin + lane.global_index();
      if (i >= end) return;
      const float left = lane.load(u, i == 0 ? u.size - 1 : i - 1);
      const float right = lane.load(u, i + 1 == u.size ? 0 : i + 1);
      lane.store(u, i, (left + lane.load(u, i) + right) / 3.0F);
      lane.compute(interlace::operation::fp32, 3);  // takes time only where time is simulated
    });
  }
};

template <class Node>
std::vector<float> smooth_ring(Node& node, const std::vector<float>& start, int steps,
                               interlace::kernel::mechanism how) {
  using interlace::kernel::block_mapping;
  interlace::kernel::region_options options;  // by default, every device receives all elements
  options.mechanism = how;
  const std::uint64_t devices = node.devices();
  for (std::uint64_t d = 0; d <= devices; ++d) {
    options.boundaries.push_back(start.size() * d / devices);
  }
  const auto cut = options.boundaries;
  const auto ring = node.template create_region<float>(std::move(options));
  node.set_front(ring, start);
  node.run([&] {
    for (int step = 0; step < steps; ++step) {
      for (std::uint32_t d = 0; d < devices; ++d) {
        const smooth kernel{node.view(ring, d), cut[d], cut[d + 1]};
        const std::uint64_t blocks = (cut[d + 1] - cut[d] + smooth::threads - 1) / smooth::threads;
        // This mapping names the elements that a block writes. `split` copies them as soon as they
        // are complete.
        const auto writes = block_mapping::contiguous(cut[d], smooth::threads, cut[d + 1]);
        node.launch(d, kernel, {blocks, smooth::threads, 0}, ring, writes);
      }
      node.exchange(ring);
    }
  });
  return node.front(ring, 0);
}
