// A probe of library calls. Kernels run before and after a sort and a scan. Each round uses the
// results of the previous round, so work out of order gives wrong results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::probe {

INTERLACE_HOST_DEVICE std::uint32_t scrambled(std::uint32_t x) {
  x = (x ^ (x >> 16U)) * 0x7feb352dU;
  x = (x ^ (x >> 15U)) * 0x846ca68bU;
  return (x ^ (x >> 16U)) % 10'000;
}

struct make_keys {
  local<const std::uint32_t> from;
  local<std::uint32_t> keys;
  std::uint32_t round = 0;  // the first round uses indices, because `from` is still empty
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i >= keys.size) return;
      lane.store(keys, i,
                 scrambled(round == 0 ? static_cast<std::uint32_t>(i) : lane.load(from, i)));
    });
  }
};

struct add_sums {
  local<const std::uint32_t> sorted, sums;
  local<std::uint32_t> out;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i < out.size) lane.store(out, i, 2 * lane.load(sums, i) + lane.load(sorted, i));
    });
  }
};

struct sorted_sums {
  local<std::uint32_t> keys, sorted, sums, out;
  kernel::library_call sort;  // sorts `keys` into `sorted`
  kernel::library_call scan;  // writes the exclusive prefix sums of `sorted`
};

// The arrays and calls on one device. A test on GPUs adds the functions `on_gpu`.
template <class Node>
sorted_sums make_sorted_sums(Node& node, std::uint32_t device, std::uint64_t n) {
  sorted_sums s;
  for (auto* array : {&s.keys, &s.sorted, &s.sums, &s.out}) {
    *array = node.template allocate<std::uint32_t>(device, n);
  }
  const std::uint64_t bytes = n * sizeof(std::uint32_t);
  s.sort.name = "sort";
  s.sort.bytes_read = 4 * bytes;  // the sort makes four passes of eight bits
  s.sort.bytes_written = 4 * bytes;
  s.sort.operations.integer = 4 * 10 * n;
  s.sort.on_cpu = [from = s.keys, to = s.sorted] {
    std::copy(from.data, from.data + from.size, to.data);
    std::sort(to.data, to.data + to.size);
  };
  s.scan.name = "scan";
  s.scan.bytes_read = bytes;
  s.scan.bytes_written = bytes;
  s.scan.operations.integer = n;
  s.scan.on_cpu = [from = s.sorted, to = s.sums] {
    std::exclusive_scan(from.data, from.data + from.size, to.data, 0U);
  };
  return s;
}

template <class Node>
void enqueue_sorted_sums(Node& node, std::uint32_t device, const sorted_sums& s,
                         std::uint32_t rounds) {
  const grid shape{(s.keys.size + 127) / 128, 128, 0};
  for (std::uint32_t round = 0; round < rounds; ++round) {
    node.launch(device, make_keys{s.out, s.keys, round}, shape);
    node.call(device, s.sort);
    node.call(device, s.scan);
    node.launch(device, add_sums{s.sorted, s.sums, s.out}, shape);
  }
}

inline std::vector<std::uint32_t> sorted_sums_reference(std::uint64_t n, std::uint32_t rounds) {
  std::vector<std::uint32_t> out(n);
  std::iota(out.begin(), out.end(), 0U);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::transform(out.begin(), out.end(), out.begin(), scrambled);
    std::sort(out.begin(), out.end());
    std::uint32_t sum = 0;
    for (std::uint32_t& v : out) {
      const std::uint32_t key = v;
      v = 2 * sum + key;
      sum += key;
    }
  }
  return out;
}

}  // namespace interlace::probe
