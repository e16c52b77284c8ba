// A probe of the kernel model: a 5-point stencil on a grid. The rows of the grid are divided among
// the devices, so only rows at the borders are transferred.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::probe {

struct stencil_step {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t tile_x = 64;
  static constexpr std::uint32_t tile_y = threads / tile_x;

  replicated<float> u;
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  std::uint32_t first_row = 0;  // first row of this device
  std::uint32_t last_row = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const std::uint32_t tiles = (columns + tile_x - 1) / tile_x;
    const auto tile = static_cast<std::uint32_t>(block.index());
    const std::uint32_t left = tile % tiles * tile_x;
    const std::uint32_t top = first_row + tile / tiles * tile_y;
    block.each([&](auto lane) {
      const std::uint32_t x = left + lane.index() % tile_x;
      const std::uint32_t y = top + lane.index() / tile_x;
      lane.compute(operation::special, 3);  // for the division tile / tiles
      lane.compute(operation::integer, 31);
      if (x >= columns || y >= last_row) return;
      const std::uint64_t i = std::uint64_t{y} * columns + x;
      const float centre = lane.load(u, i);
      if (x == 0 || y == 0 || x == columns - 1 || y == rows - 1) {
        lane.store(u, i, centre);
        return;
      }
      const float sides = lane.load(u, i - 1) + lane.load(u, i + 1);
      const float ends = lane.load(u, i - columns) + lane.load(u, i + columns);
      lane.compute(operation::fp32, 5);
      lane.compute(operation::integer, 10);
      lane.store(u, i, 0.5F * centre + 0.125F * (sides + ends));
    });
  }
};

template <class Node>
class stencil {
 public:
  stencil(Node& node, std::uint32_t columns, std::uint32_t rows, kernel::mechanism how)
      : node_(node), columns_(columns), rows_(rows) {
    kernel::region_options options;
    options.mechanism = how;
    options.split_ranges = 3;
    const std::uint32_t devices = node.devices();
    for (std::uint32_t d = 0; d <= devices; ++d) options.boundaries.push_back(first(d) * columns);
    options.subscribers.resize(devices);
    for (std::uint32_t d = 0; d < devices; ++d) {
      auto& to = options.subscribers[d];
      if (d > 0) to.push_back({first(d) * columns, (first(d) + 1) * columns, 1U << (d - 1)});
      if (d + 1 < devices) {
        to.push_back({(first(d + 1) - 1) * columns, first(d + 1) * columns, 1U << (d + 1)});
      }
    }
    u_ = node.template create_region<float>(std::move(options));
  }

  void set(const std::vector<float>& u) { node_.set_front(u_, u); }

  void enqueue_step() {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const auto top = static_cast<std::uint32_t>(first(d));
      const auto bottom = static_cast<std::uint32_t>(first(d + 1));
      const std::uint64_t tiles_x = (columns_ + stencil_step::tile_x - 1) / stencil_step::tile_x;
      const std::uint64_t tiles_y =
          (bottom - top + stencil_step::tile_y - 1) / stencil_step::tile_y;
      node_.launch(
          d, stencil_step{node_.view(u_, d), columns_, rows_, top, bottom},
          {tiles_x * tiles_y, stencil_step::threads, 0}, u_,
          kernel::block_mapping::stencil(std::uint64_t{top} * columns_, columns_, columns_,
                                         bottom - top, stencil_step::tile_x, stencil_step::tile_y));
    }
    node_.exchange(u_);
  }

  // Returns, for each device, the results of the rows that it owns.
  std::vector<float> result() const {
    std::vector<float> whole;
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const auto part = node_.front(u_, d);
      whole.insert(whole.end(), part.begin() + static_cast<std::ptrdiff_t>(first(d) * columns_),
                   part.begin() + static_cast<std::ptrdiff_t>(first(d + 1) * columns_));
    }
    return whole;
  }

 private:
  std::uint64_t first(std::uint32_t device) const {
    return std::uint64_t{rows_} * device / node_.devices();
  }

  Node& node_;
  std::uint32_t columns_;
  std::uint32_t rows_;
  kernel::region<float> u_;
};

// Returns the grid after `steps` steps from u.
inline std::vector<float> stencil_reference(std::vector<float> u, std::uint32_t columns,
                                            std::uint32_t rows, std::uint32_t steps) {
  std::vector<float> next = u;
  for (std::uint32_t s = 0; s < steps; ++s) {
    for (std::uint64_t y = 1; y + 1 < rows; ++y) {
      for (std::uint64_t x = 1; x + 1 < columns; ++x) {
        const std::uint64_t i = y * columns + x;
        next[i] =
            0.5F * u[i] + 0.125F * ((u[i - 1] + u[i + 1]) + (u[i - columns] + u[i + columns]));
      }
    }
    std::swap(u, next);
  }
  return u;
}

}  // namespace interlace::probe
