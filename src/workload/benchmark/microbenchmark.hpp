// Microbenchmarks of a kernel's accesses to another device's memory. Each microbenchmark makes one
// kind of access over the whole memory, and nothing else. The same source runs on real and on
// simulated GPUs. The first run of each microbenchmark warms up the caches and is not counted.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "workload/benchmark/store_request.hpp"

namespace interlace::workload {

// An element of `Words` words.
template <std::uint32_t Words>
struct alignas(4 * Words) words_element {
  static constexpr std::uint32_t words = Words;
  std::uint32_t word[Words] = {};
  friend bool operator==(const words_element&, const words_element&) = default;
  // The sum of all words. A benchmark uses this sum because a compiler drops loads whose values are
  // not used.
  INTERLACE_HOST_DEVICE std::uint32_t sum() const {
    std::uint32_t all = 0;
    for (std::uint32_t k = 0; k < Words; ++k) all += word[k];
    return all;
  }
  static INTERLACE_HOST_DEVICE words_element of(std::uint64_t index, std::uint32_t seed) {
    words_element e;
    for (std::uint32_t k = 0; k < Words; ++k) {
      e.word[k] = (static_cast<std::uint32_t>(index) * Words + k) ^ seed;
    }
    return e;
  }
};

// A permutation of 0 to n - 1 that moves neighbours far apart.
struct scattered_order {
  std::uint64_t last = 0;   // n - 1
  std::uint32_t shift = 0;  // half the number of bits of n

  // `n` must be a power of two.
  static scattered_order of(std::uint64_t n) {
    return {n - 1, static_cast<std::uint32_t>(std::bit_width(n)) / 2};
  }
  // Element i of the permutation.
  INTERLACE_HOST_DEVICE std::uint64_t operator[](std::uint64_t i) const {
    std::uint64_t x = i;
    for (std::uint32_t round = 0; round < 3; ++round) {
      x = (x * 0x9E3779B97F4A7C15U) & last;
      x ^= x >> shift;
    }
    return x & last;
  }
};

// Each sending device stores its part of a region once. There are two patterns. In the first
// pattern, all lanes store to adjacent elements. In the second pattern, lanes form groups: the
// lanes of a group store to adjacent elements, and each group stores to another place. The last
// lanes of each group may store nothing.
template <class Element>
struct region_stores {
  static constexpr std::uint32_t threads = 256;
  replicated<Element> data;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  bool grouped = false;
  std::uint32_t group_shift = 0;  // log2 of a group's lanes
  std::uint32_t lanes = 1;        // the number of lanes of each group that store
  std::uint32_t shift = 0;        // elements by which the places of groups are moved
  scattered_order groups;
  std::uint32_t seed = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = lane.global_index();
      if (i >= count) return;
      std::uint64_t at = i;
      if (grouped) {
        const std::uint64_t of_group = (std::uint64_t{1} << group_shift) - 1;
        const std::uint64_t in_group = i & of_group;
        if (in_group >= lanes) return;
        at = (groups[i >> group_shift] << group_shift) + in_group + shift;
        if (at >= count) at -= count;
      }
      // The three rounds of the permutation take these operations.
      lane.compute(operation::integer, grouped ? 60 : 12);
      lane.store(data, begin + at, Element::of(begin + at, seed));
    });
  }
};

// The elements that the second of two devices owns of a unified array. The array's pages alternate
// between the two devices.
struct other_pages {
  std::uint64_t size = 0;  // elements of a page; a power of two
  std::uint32_t shift = 0;

  // Returns `elements` elements of the second device. An element has `element_bytes` bytes. Throws
  // usage_error unless there are two devices and the elements fill a power of two of whole pages.
  static other_pages of(std::uint32_t devices, std::uint64_t page_bytes,
                        std::uint64_t element_bytes, std::uint64_t elements) {
    const std::uint64_t size = page_bytes / element_bytes;
    if (devices != 2 || !std::has_single_bit(size) || !std::has_single_bit(elements) ||
        elements < size) {
      throw usage_error(
          "a microbenchmark of another device's memory needs two devices and a power of two of " +
          std::to_string(size) + " elements or more");
    }
    return {size, static_cast<std::uint32_t>(std::countr_zero(size))};
  }
  // The index in the array of the i-th element of the second device.
  INTERLACE_HOST_DEVICE std::uint64_t place(std::uint64_t i) const {
    return ((2 * (i >> shift) + 1) << shift) + (i & (size - 1));
  }
};

// Copies a local array to the other device `rounds` times. Each block lives for the whole copy.
template <class Element>
struct remote_copy {
  static constexpr std::uint32_t threads = 512;
  local<const Element> source;
  unified<Element> target;
  other_pages pages;
  std::uint32_t rounds = 1;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (std::uint32_t r = 0; r < rounds; ++r) {
        for (auto i : lane.range(lane.global_index(), source.size, lane.global_count())) {
          lane.store(target, pages.place(i), lane.load(source, i));
          lane.compute(operation::integer, 12);
        }
      }
    });
  }
};

// Loads each element of the other device's pages of a unified array once, in a scattered order.
template <class Element>
struct remote_loads {
  static constexpr std::uint32_t threads = 256;
  unified<const Element> data;
  local<std::uint32_t> sums;  // one sum for each lane of the grid
  other_pages pages;
  std::uint64_t count = 0;  // elements to load: half of the array
  scattered_order order;

  INTERLACE_HOST_DEVICE std::uint64_t place(std::uint64_t i) const { return pages.place(order[i]); }

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      std::uint32_t sum = 0;
      for (auto i : lane.range(lane.global_index(), count, lane.global_count())) {
        lane.compute(operation::integer, 67 + Element::words);
        sum += lane.load(data, place(i)).sum();
      }
      lane.store(sums, lane.global_index(), sum);
    });
  }
};

// The numbers of epochs and runs of a benchmark. With many epochs, the start and the end of a run
// take a small share of the time.
struct repetition {
  // The epochs of a run. Each epoch is a launch of the kernel, followed by an exchange if the
  // kernel stores.
  std::uint32_t epochs = 1;
  std::uint32_t runs = 1;  // runs that are counted
};

// Throws model_error unless every device holds the stored values. Each sender has `asked.elements`
// elements.
template <class Element, class Node>
void check_stored(const Node& node, const kernel::region<Element>& data, const store_request& asked,
                  std::uint32_t seed) {
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const std::vector<Element> found = node.front(data, d);
    for (std::uint64_t i = 0; i < asked.senders * asked.elements; ++i) {
      if (!asked.stores(i % asked.elements)) continue;
      if (found[i] == Element::of(i, seed)) continue;
      throw model_error("gpu" + std::to_string(d) + " does not have element " + std::to_string(i) +
                        " of a microbenchmark's stores");
    }
  }
}

// Runs the benchmark and returns the results of all runs after the first run. Each result has the
// counts of its run alone.
template <class Node, class F>
std::vector<kernel::run_result> counted_runs(Node& node, std::uint32_t runs, const F& enqueue) {
  std::vector<kernel::run_result> found;
  kernel::remote_store_counts before = node.run(enqueue).stores;
  for (std::uint32_t k = 0; k < runs; ++k) {
    kernel::run_result one = node.run(enqueue);
    const kernel::remote_store_counts all = one.stores;
    one.stores.bytes -= before.bytes;
    one.stores.wire -= before.wire;
    one.stores.packets -= before.packets;
    before = all;
    found.push_back(std::move(one));
  }
  return found;
}

template <class Element, class Node>
std::vector<kernel::run_result> run_stores(Node& node, const store_request& asked,
                                           const repetition& repeated = {}) {
  if (!std::has_single_bit(asked.elements) || asked.senders == 0 ||
      asked.senders > node.devices()) {
    throw usage_error(
        "a microbenchmark of stores needs senders, and a number of elements that is a power of "
        "two");
  }
  const bool grouped = asked.together != 0;
  if (grouped && (!std::has_single_bit(asked.together) || asked.together > asked.elements)) {
    throw usage_error(std::to_string(asked.together) +
                      " adjacent stores; give a power of two, no more than there are elements");
  }
  if (asked.lanes > asked.together || (!grouped && asked.shift != 0) ||
      asked.shift > asked.elements) {
    throw usage_error(std::to_string(asked.lanes) + " of " + std::to_string(asked.together) +
                      " adjacent lanes, moved by " + std::to_string(asked.shift) +
                      " elements; give lanes of a group, and at most all elements");
  }
  const std::uint32_t together = grouped ? asked.together : 1;
  const std::uint32_t lanes = asked.lanes == 0 ? together : asked.lanes;
  kernel::region_options o;
  o.mechanism = kernel::mechanism::inline_stores;
  for (std::uint32_t d = 0; d <= node.devices(); ++d) {
    o.boundaries.push_back(std::uint64_t{d < asked.senders ? d : asked.senders} * asked.elements);
  }
  const auto data = node.template create_region<Element>(std::move(o));
  constexpr std::uint32_t seed = 1;
  using stores = region_stores<Element>;
  const auto group_shift = static_cast<std::uint32_t>(std::countr_zero(together));
  const scattered_order groups = scattered_order::of(asked.elements >> group_shift);
  auto results = counted_runs(node, repeated.runs, [&] {
    for (std::uint32_t e = 0; e < repeated.epochs; ++e) {
      for (std::uint32_t d = 0; d < asked.senders; ++d) {
        const std::uint64_t begin = d * asked.elements;
        node.launch(
            d,
            stores{node.view(data, d), begin, asked.elements, grouped, group_shift, lanes,
                   asked.shift, groups, seed},
            {(asked.elements + stores::threads - 1) / stores::threads, stores::threads, 0}, data,
            kernel::block_mapping::contiguous(begin, stores::threads, begin + asked.elements));
      }
      node.exchange(data);
    }
  });
  check_stored<Element>(node, data, asked, seed);
  return results;
}

// Runs epochs on one device: a block stores, and an exchange follows. If `sums` is not 0, the
// exchange also combines this number of sums of doubles.
template <class Node>
std::vector<kernel::run_result> run_exchanges(Node& node, std::uint32_t sums,
                                              const repetition& repeated = {}) {
  using element = words_element<1>;
  using stores = region_stores<element>;
  constexpr std::uint32_t copies = 64;  // copies of a sum, to which blocks add in turn
  constexpr std::uint32_t seed = 1;
  constexpr std::uint64_t elements = stores::threads;
  kernel::region_options o;
  o.mechanism = kernel::mechanism::inline_stores;
  o.boundaries = {0, elements};
  const auto data = node.template create_region<element>(std::move(o));
  const auto totals =
      node.template create_reduction<double, combine::add>(sums == 0 ? 1 : sums, copies);
  const scattered_order groups = scattered_order::of(elements);
  auto results = counted_runs(node, repeated.runs, [&] {
    for (std::uint32_t e = 0; e < repeated.epochs; ++e) {
      node.launch(0, stores{node.view(data, 0), 0, elements, false, 0, 1, 0, groups, seed},
                  {1, stores::threads, 0}, data,
                  kernel::block_mapping::contiguous(0, stores::threads, elements));
      if (sums == 0) {
        node.exchange(data);
      } else {
        node.exchange(data, totals);
      }
    }
  });
  check_stored<element>(node, data, {.senders = 1, .elements = elements}, seed);
  return results;
}

// A copy of more bytes than this copies one array of this size several times. The array stays in
// the L2, so the measurement shows the route to the other GPU and not the memory.
inline constexpr std::uint64_t copied_at_once = std::uint64_t{4} << 20U;

// The number of rounds for a copy of `bytes` bytes. `bytes` must be at most copied_at_once, or a
// multiple of it.
inline std::uint32_t copy_rounds(std::uint64_t bytes) {
  if (bytes > copied_at_once && bytes % copied_at_once != 0) {
    throw usage_error("a kernel cannot copy " + std::to_string(bytes) + " bytes; give at most " +
                      std::to_string(copied_at_once) + " or a multiple of them");
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, bytes / copied_at_once));
}

// Copies `elements` elements in each round. `page_bytes` is the page size of the node's unified
// memory.
template <class Element, class Node>
std::vector<kernel::run_result> run_copy(Node& node, std::uint64_t elements, std::uint32_t blocks,
                                         std::uint32_t rounds, std::uint64_t page_bytes,
                                         const repetition& repeated = {}) {
  const other_pages pages = other_pages::of(node.devices(), page_bytes, sizeof(Element), elements);
  const auto target = node.template allocate_unified<Element>(2 * elements);
  node.upload(target, std::vector<Element>(2 * elements));
  std::vector<Element> values;
  for (std::uint64_t i = 0; i < elements; ++i) values.push_back(Element::of(i, 2));
  const auto source = node.template allocate<Element>(0, elements);
  node.upload(source, values);
  using copy = remote_copy<Element>;
  const copy kernel{{source.data, source.size}, target, pages, rounds};
  auto results = counted_runs(node, repeated.runs, [&] {
    for (std::uint32_t e = 0; e < repeated.epochs; ++e) {
      node.launch(0, kernel, {blocks, copy::threads, 0});
    }
  });
  const std::vector<Element> found = node.download(target);
  for (std::uint64_t i = 0; i < elements; ++i) {
    if (found[pages.place(i)] == values[i]) continue;
    throw model_error("gpu1 does not have element " + std::to_string(i) +
                      " of a microbenchmark's copy");
  }
  return results;
}

// `page_bytes` is the page size of the node's unified memory.
template <class Element, class Node>
std::vector<kernel::run_result> run_loads(Node& node, std::uint64_t elements,
                                          std::uint64_t page_bytes,
                                          const repetition& repeated = {}) {
  using loads = remote_loads<Element>;
  const other_pages pages = other_pages::of(node.devices(), page_bytes, sizeof(Element), elements);
  const auto data = node.template allocate_unified<Element>(2 * elements);
  std::vector<Element> values;
  for (std::uint64_t i = 0; i < 2 * elements; ++i) values.push_back(Element::of(i, 3));
  node.upload(data, values);
  // A lane has several loads in flight, which hide each other's latency.
  constexpr std::uint64_t each = 8;
  const grid shape{(elements / each + loads::threads - 1) / loads::threads, loads::threads, 0};
  const auto sums = node.template allocate<std::uint32_t>(0, shape.blocks * loads::threads);
  const loads kernel{{data.data, data.size}, sums, pages, elements, scattered_order::of(elements)};
  auto results = counted_runs(node, repeated.runs, [&] {
    for (std::uint32_t e = 0; e < repeated.epochs; ++e) node.launch(0, kernel, shape);
  });
  const std::vector<std::uint32_t> found = node.download(sums);
  for (std::uint64_t k = 0; k < found.size(); k += found.size() / 64 + 1) {
    std::uint32_t expected = 0;
    for (std::uint64_t i = k; i < elements; i += found.size()) {
      expected += values[kernel.place(i)].sum();
    }
    if (found[k] != expected) throw model_error("a microbenchmark of loads read wrong values");
  }
  return results;
}

}  // namespace interlace::workload
