// Microbenchmarks of what kernels do to another device's memory: one kind of access, as many of it
// as memory is long, and nothing else. The same source runs on real and on simulated GPUs. The
// first of two runs warms caches up, the second one counts.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "kernel/region.hpp"

namespace interlace::workload {

// An element of `Words` words.
template <std::uint32_t Words>
struct alignas(4 * Words) words_element {
  static constexpr std::uint32_t words = Words;
  std::uint32_t word[Words] = {};
  friend bool operator==(const words_element&, const words_element&) = default;
  static INTERLACE_HOST_DEVICE words_element of(std::uint64_t index, std::uint32_t seed) {
    words_element e;
    for (std::uint32_t k = 0; k < Words; ++k) {
      e.word[k] = (static_cast<std::uint32_t>(index) * Words + k) ^ seed;
    }
    return e;
  }
};

// Number i of 0 to n - 1 in an order without neighbours; n is a power of two. No two are the same.
INTERLACE_HOST_DEVICE std::uint64_t scattered(std::uint64_t i, std::uint64_t n) {
  std::uint64_t bits = 1;
  while ((n >> bits) != 0) ++bits;
  const std::uint64_t half = bits / 2;
  std::uint64_t x = i;
  for (std::uint32_t round = 0; round < 3; ++round) {
    x = (x * 0x9E3779B97F4A7C15U) & (n - 1);
    x ^= x >> half;
  }
  return x & (n - 1);
}

// Each device that sends stores its part of a region once: `together` lanes side by side, each such
// group at another place; all side by side if it is 0.
template <class Element>
struct region_stores {
  static constexpr std::uint32_t threads = 256;
  replicated<Element> data;
  std::uint64_t begin = 0;
  std::uint64_t count = 0;  // a power of two
  std::uint32_t together = 0;
  std::uint32_t seed = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = lane.global_index();
      if (i >= count) return;
      std::uint64_t at = i;
      if (together != 0) at = scattered(i / together, count / together) * together + i % together;
      // The three rounds of the permutation.
      lane.compute(operation::integer, together == 0 ? 12 : 60);
      lane.store(data, begin + at, Element::of(begin + at, seed));
    });
  }
};

// A number of long-lived blocks copies a local array into a region.
template <class Element>
struct region_copy {
  static constexpr std::uint32_t threads = 512;
  local<const Element> source;
  replicated<Element> data;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.global_index(), source.size, lane.global_count())) {
        lane.store(data, i, lane.load(source, i));
        lane.compute(operation::integer, 6);
      }
    });
  }
};

// Loads each element of the other devices' pages of a unified array once, in a scattered order.
template <class Element>
struct remote_loads {
  static constexpr std::uint32_t threads = 256;
  unified<const Element> data;
  local<std::uint32_t> sums;  // by lane of the grid
  std::uint64_t page = 0;     // elements
  std::uint64_t count = 0;    // a power of two; the array has twice as many

  // Every second page belongs to the second of two devices.
  INTERLACE_HOST_DEVICE std::uint64_t place(std::uint64_t i) const {
    const std::uint64_t at = scattered(i, count);
    return (2 * (at / page) + 1) * page + at % page;
  }

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      std::uint32_t sum = 0;
      for (auto i : lane.range(lane.global_index(), count, lane.global_count())) {
        lane.compute(operation::integer, 68);
        sum += lane.load(data, place(i)).word[0];
      }
      lane.store(sums, lane.global_index(), sum);
    });
  }
};

struct store_request {
  std::uint32_t senders = 1;   // devices that store; everybody receives
  std::uint64_t elements = 0;  // of each; a power of two
  std::uint32_t together = 0;
};

// Throws model_error unless every device has what was stored.
template <class Element, class Node>
void check_stored(const Node& node, const kernel::region<Element>& data, std::uint64_t elements,
                  std::uint32_t seed) {
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const std::vector<Element> found = node.front(data, d);
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (found[i] == Element::of(i, seed)) continue;
      throw model_error("gpu" + std::to_string(d) + " does not have element " + std::to_string(i) +
                        " of a microbenchmark's stores");
    }
  }
}

// The second of two runs, with what it alone counted.
template <class Node, class F>
kernel::run_result second_run(Node& node, const F& enqueue) {
  const kernel::run_result first = node.run(enqueue);
  kernel::run_result second = node.run(enqueue);
  second.stores.bytes -= first.stores.bytes;
  second.stores.wire -= first.stores.wire;
  second.stores.packets -= first.stores.packets;
  return second;
}

template <class Element, class Node>
kernel::run_result run_stores(Node& node, const store_request& asked) {
  if (asked.elements == 0 || (asked.elements & (asked.elements - 1)) != 0 || asked.senders == 0 ||
      asked.senders > node.devices()) {
    throw usage_error("a microbenchmark of stores needs a power of two of elements, and senders");
  }
  kernel::region_options o;
  o.mechanism = kernel::mechanism::inline_stores;
  for (std::uint32_t d = 0; d <= node.devices(); ++d) {
    o.boundaries.push_back(std::uint64_t{d < asked.senders ? d : asked.senders} * asked.elements);
  }
  const auto data = node.template create_region<Element>(std::move(o));
  constexpr std::uint32_t seed = 1;
  using stores = region_stores<Element>;
  auto result = second_run(node, [&] {
    for (std::uint32_t d = 0; d < asked.senders; ++d) {
      const std::uint64_t begin = d * asked.elements;
      node.launch(
          d, stores{node.view(data, d), begin, asked.elements, asked.together, seed},
          {(asked.elements + stores::threads - 1) / stores::threads, stores::threads, 0}, data,
          kernel::block_mapping::contiguous(begin, stores::threads, begin + asked.elements));
    }
    node.exchange(data);
  });
  check_stored<Element>(node, data, asked.senders * asked.elements, seed);
  return result;
}

template <class Element, class Node>
kernel::run_result run_copy(Node& node, std::uint64_t elements, std::uint32_t blocks) {
  kernel::region_options o;
  o.mechanism = kernel::mechanism::inline_stores;
  o.boundaries.assign(node.devices() + std::size_t{1}, elements);
  o.boundaries[0] = 0;
  const auto data = node.template create_region<Element>(std::move(o));
  constexpr std::uint32_t seed = 2;
  std::vector<Element> values;
  for (std::uint64_t i = 0; i < elements; ++i) values.push_back(Element::of(i, seed));
  const auto source = node.template allocate<Element>(0, elements);
  node.upload(source, values);
  using copy = region_copy<Element>;
  const local<const Element> from{source.data, source.size};
  auto result = second_run(node, [&] {
    node.launch(0, copy{from, node.view(data, 0)}, {blocks, copy::threads, 0}, data,
                kernel::block_mapping::contiguous(0, (elements + blocks - 1) / blocks, elements));
    node.exchange(data);
  });
  check_stored<Element>(node, data, elements, seed);
  return result;
}

// `page_bytes` as the node's unified memory has them.
template <class Element, class Node>
kernel::run_result run_loads(Node& node, std::uint64_t elements, std::uint64_t page_bytes) {
  using loads = remote_loads<Element>;
  const std::uint64_t page = page_bytes / sizeof(Element);
  if (node.devices() != 2 || elements % page != 0 || (elements & (elements - 1)) != 0) {
    throw usage_error("a microbenchmark of loads needs two devices and a power of two of pages");
  }
  const auto data = node.template allocate_unified<Element>(2 * elements);
  std::vector<Element> values;
  for (std::uint64_t i = 0; i < 2 * elements; ++i) values.push_back(Element::of(i, 3));
  node.upload(data, values);
  // Loads that a lane has under way hide the others' latency.
  constexpr std::uint64_t each = 8;
  const grid shape{(elements / each + loads::threads - 1) / loads::threads, loads::threads, 0};
  const auto sums = node.template allocate<std::uint32_t>(0, shape.blocks * loads::threads);
  const loads kernel{{data.data, data.size}, sums, page, elements};
  auto result = second_run(node, [&] { node.launch(0, kernel, shape); });
  const std::vector<std::uint32_t> found = node.download(sums);
  for (std::uint64_t k = 0; k < found.size(); k += found.size() / 64 + 1) {
    std::uint32_t expected = 0;
    for (std::uint64_t i = k; i < elements; i += found.size()) {
      expected += values[kernel.place(i)].word[0];
    }
    if (found[k] != expected) throw model_error("a microbenchmark of loads read something else");
  }
  return result;
}

}  // namespace interlace::workload
