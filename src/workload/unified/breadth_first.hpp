// Levels of a breadth-first search, from SHOC's bfs (Hong et al., PPoPP 2011). A group of 32 lanes
// handles 32 vertices one after another. For each vertex that the previous launch reached, the
// lanes of the group divide its neighbours among themselves. The host repeats the launch until no
// vertex is added.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

inline constexpr std::uint32_t unreached = 0xffffffffU;

struct breadth_first_kernel {
  static constexpr std::uint32_t threads = 1024;
  // The number of lanes of a group. A group also handles this number of vertices.
  static constexpr std::uint32_t group = 32;

  unified<std::uint32_t> levels;
  unified<std::uint32_t> offsets;
  unified<std::uint32_t> targets;
  unified<std::uint32_t> grown;  // a single element: whether the launch reached any new vertex
  std::uint32_t current = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto id = static_cast<std::uint32_t>(lane.global_index());
      const auto vertices = static_cast<std::uint32_t>(levels.size);
      const std::uint32_t first = id / group * group;
      const std::uint32_t last = first + group < vertices ? first + group : vertices;
      for (auto v : lane.range(first, last)) {
        const std::uint32_t level = lane.load(levels, v);
        lane.compute(operation::integer, 6);
        if (level != current) continue;
        const std::uint32_t begin = lane.load(offsets, v);
        const std::uint32_t end = lane.load(offsets, v + 1);
        lane.compute(operation::integer, 6);
        for (auto e : lane.range(begin + id % group, end, group)) {
          const auto neighbour = lane.load_index(targets, e);
          // Several lanes can reach a vertex at the same time. All of them store the same value.
          const std::uint32_t seen = lane.load(levels, neighbour);
          lane.compute(operation::integer, 6);
          if (seen != unreached) continue;
          lane.store(levels, neighbour, current + 1);
          lane.store(grown, 0U, 1U);
        }
      }
    });
  }
};

template <class Node>
class breadth_first;

struct breadth_first_problem {
  static constexpr const char* summary = "a search for the levels of a graph";
  static constexpr std::array arguments{"offsets", "targets", "source"};

  std::vector<std::uint32_t> offsets;  // vertices + 1 offsets
  std::vector<std::uint32_t> targets;  // the targets of each vertex's edges
  std::uint32_t source = 0;

  static breadth_first_problem make(const array_view<std::uint32_t>& offsets,
                                    const array_view<std::uint32_t>& targets,
                                    std::uint32_t source) {
    return {values_of(offsets), values_of(targets), source};
  }

  template <class Node>
  breadth_first<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class breadth_first {
 public:
  breadth_first(Node& node, const breadth_first_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    const std::size_t vertices = data.offsets.empty() ? 0 : data.offsets.size() - 1;
    const bool rows = vertices != 0 && data.offsets.front() == 0 &&
                      data.offsets.back() == data.targets.size() &&
                      std::is_sorted(data.offsets.begin(), data.offsets.end());
    const bool inside = std::all_of(data.targets.begin(), data.targets.end(),
                                    [&](std::uint32_t t) { return t < vertices; });
    if (!rows || !inside || data.source >= vertices || data.targets.empty()) {
      throw usage_error("offsets, targets and source do not describe a graph with edges");
    }
    const auto pages = placement.of({});
    std::vector<std::uint32_t> levels(vertices, unreached);
    levels[data.source] = 0;
    kernel_.levels = put_unified(node, levels, pages);
    kernel_.offsets = put_unified(node, data.offsets, pages);
    kernel_.targets = put_unified(node, data.targets, pages);
    kernel_.grown = put_unified(node, std::vector<std::uint32_t>{0}, pages);
  }

  void enqueue() {
    const std::uint64_t blocks =
        (kernel_.levels.size + breadth_first_kernel::threads - 1) / breadth_first_kernel::threads;
    node_.launch_over(kernel_, {blocks, breadth_first_kernel::threads, 0}, blocks_);
    node_.exchange();
  }
  bool another() {
    if (node_.download(kernel_.grown).front() == 0) return false;
    node_.upload(kernel_.grown, std::vector<std::uint32_t>{0});
    ++kernel_.current;
    return true;
  }
  // For each vertex, the number of edges on the shortest path from the source, or -1 if there is no
  // path. Floats hold numbers below 2^24 exactly.
  std::vector<float> result() const {
    const std::vector<std::uint32_t> levels = node_.download(kernel_.levels);
    std::vector<float> values(levels.size());
    std::transform(levels.begin(), levels.end(), values.begin(), [](std::uint32_t level) {
      return level == unreached ? -1.0F : static_cast<float>(level);
    });
    return values;
  }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  breadth_first_kernel kernel_;
};

}  // namespace interlace::workload
