// Jacobi iteration for Laplace's equation on a grid. The rows are divided among the devices, as in
// the MPI program of NVIDIA's multi-GPU programming models. The grid is periodic from the last row
// to the first. The values of the first and the last column are fixed. A device also keeps the row
// before its own rows and the row after them.
//
//   next(y, x) = (a(y, x - 1) + a(y, x + 1) + a(y - 1, x) + a(y + 1, x)) / 4
//
// A block has 32 x 32 lanes, as in that program. The same kernel also computes the sum of the
// squared changes. Memory is the limit: a point is read once and written once, which is 8 bytes for
// 6 operations.
//
// The kernel works on rows in arrays of each device (local_rows) or in a region (ring_rows). With
// arrays, the code that launches the kernel moves the rows between devices. With a region, the
// region's mechanism moves them. A device's first row goes to the previous device of the ring, and
// the device's last row goes to the next device.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "interlace/workload/slabs.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

// The rows of one device. Row 0 belongs to the previous device, rows 1, 2, ... are the device's
// own, and the row after them belongs to the next device.
struct local_rows {
  // The operations that compute the addresses of a point and its neighbours, counted in the machine
  // code.
  static constexpr std::uint32_t place_operations = 10;

  local<const float> a;  // [rows + 2][columns]
  local<float> a_next;   // same shape
  std::uint32_t columns = 0;

  INTERLACE_HOST_DEVICE const local<const float>& now() const { return a; }
  INTERLACE_HOST_DEVICE const local<float>& next() const { return a_next; }
  // The index of row y's first element.
  INTERLACE_HOST_DEVICE std::uint64_t row(std::uint32_t y) const {
    return std::uint64_t{y} * columns;
  }
};

// The same rows as in local_rows, but stored as a part of the whole grid.
struct ring_rows {
  static constexpr std::uint32_t place_operations = 24;  // see place_operations of local_rows

  replicated<float> grid;  // [all rows][columns]
  std::uint32_t columns = 0;
  std::uint32_t first = 0;  // row of the grid that is row 1 of this device
  std::uint32_t all = 0;

  INTERLACE_HOST_DEVICE const replicated<float>& now() const { return grid; }
  INTERLACE_HOST_DEVICE const replicated<float>& next() const { return grid; }
  INTERLACE_HOST_DEVICE std::uint32_t row_of_grid(std::uint32_t y) const {
    const std::uint32_t behind = first + y;
    if (behind == 0) return all - 1;
    return behind > all ? 0 : behind - 1;
  }
  INTERLACE_HOST_DEVICE std::uint64_t row(std::uint32_t y) const {
    return std::uint64_t{row_of_grid(y)} * columns;
  }
};

// The way in which blocks cover a device's rows.
struct halo_jacobi_blocks {
  static constexpr std::uint32_t tile = 32;
  static constexpr std::uint32_t threads = tile * tile;

  static std::uint64_t count(std::uint64_t columns, std::uint64_t rows) {
    return (columns + tile - 1) / tile * ((rows + tile - 1) / tile);
  }
  // A lane's column, counted from 0, and its row, counted from 1.
  struct place {
    std::uint32_t x, y;
  };
  static INTERLACE_HOST_DEVICE place of(std::uint32_t block, std::uint32_t lane,
                                        std::uint32_t columns, std::uint32_t rows) {
    std::uint32_t above = 0;  // number of tiles above this tile
    std::uint32_t before = block;
    if (rows > tile) {  // this test saves a division, which is half of a lane's computation
      const std::uint32_t across = (columns + tile - 1) / tile;
      above = block / across;
      before -= above * across;
    }
    return {before * tile + lane % tile, above * tile + lane / tile + 1};
  }
  // The operations of the function `of`, and of the test whether the place exists.
  static INTERLACE_HOST_DEVICE operations work(std::uint32_t rows) {
    return {.integer = rows > tile ? 28U : 12U, .special = rows > tile ? 3U : 0U};
  }
};

template <class Rows>
struct halo_jacobi_step {
  static constexpr std::uint32_t threads = halo_jacobi_blocks::threads;
  static constexpr std::uint32_t shared_bytes = sum_bytes(1);

  Rows grid;
  reduced<double> norm;
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;  // rows of this device

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto index = static_cast<std::uint32_t>(block.index());
    auto change = lane_state<float>(block);
    block.each([&](auto lane) {
      const auto [x, y] = halo_jacobi_blocks::of(index, lane.index(), columns, rows);
      lane.compute(halo_jacobi_blocks::work(rows));
      if (x >= columns || y > rows) return;
      const std::uint64_t i = grid.row(y) + x;
      const float own = lane.load(grid.now(), i);
      if (x == 0 || x == columns - 1) {
        lane.store(grid.next(), i, own);
        return;
      }
      const float sides = lane.load(grid.now(), i + 1) + lane.load(grid.now(), i - 1);
      const float made = 0.25F * (sides + lane.load(grid.now(), grid.row(y + 1) + x) +
                                  lane.load(grid.now(), grid.row(y - 1) + x));
      lane.store(grid.next(), i, made);
      const float difference = made - own;
      change[lane] = difference * difference;
      lane.compute({.fp32 = 6, .integer = Rows::place_operations});
    });
    add_sums(block, norm, 1, change);
  }
};

// An initial value of the grid. Adjacent values differ, and each is exact in single precision.
inline float halo_jacobi_value(std::uint64_t row, std::uint64_t column) {
  return static_cast<float>((row * 7919 + column * 104729) % 1021) / 1024.0F;
}

struct halo_jacobi_grid {
  std::uint32_t rows = 0;     // number of rows of all devices together
  std::uint32_t columns = 0;  // number of columns, at least 3

  std::uint64_t points() const { return std::uint64_t{rows} * columns; }
};

// Sets the subscribers for a grid whose rows are periodic. Every device needs the row before its
// own rows and the row after them.
inline kernel::region_options with_ring(kernel::region_options options,
                                        const halo_jacobi_grid& grid) {
  const auto& cut = options.boundaries;
  const auto devices = static_cast<std::uint32_t>(cut.size()) - 1;
  options.subscribers.assign(devices, {});
  for (std::uint32_t d = 0; d < devices; ++d) {
    if (cut[d] == cut[d + 1]) continue;
    const std::uint64_t first = cut[d] / grid.columns;
    const std::uint64_t last = cut[d + 1] / grid.columns;  // exclusive
    const std::array<std::uint64_t, 2> needed{(first + grid.rows - 1) % grid.rows,
                                              last % grid.rows};
    for (const std::uint64_t row : needed) {
      const std::uint64_t begin = row * grid.columns;
      const auto above = std::upper_bound(cut.begin(), cut.end(), begin);
      const auto owner = static_cast<std::uint32_t>(above - cut.begin()) - 1;
      if (owner == d) continue;
      std::vector<subscriber_range>& to = options.subscribers[owner];
      const auto known = std::find_if(to.begin(), to.end(),
                                      [&](const subscriber_range& r) { return r.begin == begin; });
      if (known == to.end()) {
        to.push_back({begin, begin + grid.columns, 1U << d});
      } else {
        known->devices |= 1U << d;
      }
    }
  }
  return options;
}

// Owns the grid. At first, the rows that a device receives from other devices are NaN, and the
// first exchange fills these rows. If a row does not arrive, or if a kernel reads it too early,
// every result that depends on the row is therefore NaN.
template <class Node>
class halo_jacobi {
 public:
  // `options.boundaries`: device d owns the points [boundaries[d], boundaries[d + 1]), which must
  // be whole rows. Throws usage_error if the grid is invalid.
  halo_jacobi(Node& node, const halo_jacobi_grid& grid, const kernel::region_options& options)
      : node_(node),
        grid_(grid),
        boundaries_(options.boundaries),
        points_(node.template create_region<float>(with_ring(options, checked(grid, options)))),
        norm_(node.template create_reduction<double, combine::add>(1, 64)) {
    start_.reserve(grid.points());
    for (std::uint32_t row = 0; row < grid.rows; ++row) {
      for (std::uint32_t x = 0; x < grid.columns; ++x) start_.push_back(halo_jacobi_value(row, x));
    }
    reset();
  }

  // Restores the initial values.
  void reset() {
    node_.set_front(points_, start_);
    const std::vector<float> nothing(grid_.columns, std::numeric_limits<float>::quiet_NaN());
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const ring_rows rows = rows_of(d);
      if (own_rows(d) == 0 || own_rows(d) == grid_.rows || rows.grid.back == nullptr) continue;
      for (const std::uint32_t y : {0U, own_rows(d) + 1}) {
        node_.upload(local<float>{rows.grid.back + rows.row(y), grid_.columns}, nothing);
      }
    }
    node_.set_front(norm_, std::vector<double>{0.0});
  }

  // The residual is always tracked, as in the MPI program.
  void enqueue_iteration(bool /*track_residual*/) {
    using step = halo_jacobi_step<ring_rows>;
    constexpr std::uint32_t tile = halo_jacobi_blocks::tile;
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const std::uint32_t rows = own_rows(d);
      node_.launch(
          d, step{rows_of(d), node_.view(norm_, d), grid_.columns, rows},
          {halo_jacobi_blocks::count(grid_.columns, rows), step::threads, step::shared_bytes},
          points_,
          kernel::block_mapping::stencil(boundaries_[d], grid_.columns, grid_.columns, rows, tile,
                                         tile));
    }
    node_.exchange(points_, norm_);
  }

  // The grid that device `device` holds. The device's own rows and the rows next to them are up to
  // date.
  std::vector<float> result(std::uint32_t device) const { return node_.front(points_, device); }

  // The square root of the sum of the squared changes in the last iteration.
  double residual() const { return std::sqrt(node_.front(norm_, 0)[0]); }

 private:
  static const halo_jacobi_grid& checked(const halo_jacobi_grid& grid,
                                         const kernel::region_options& options) {
    if (grid.rows == 0 || grid.columns < 3) {
      throw usage_error("a grid of " + std::to_string(grid.rows) + " x " +
                        std::to_string(grid.columns) +
                        " points cannot be used; give at least a row of 3");
    }
    check_planes(options.boundaries, grid.columns);
    return grid;
  }

  std::uint32_t first_row(std::uint32_t d) const {
    return static_cast<std::uint32_t>(boundaries_[d] / grid_.columns);
  }
  std::uint32_t own_rows(std::uint32_t d) const { return first_row(d + 1) - first_row(d); }
  ring_rows rows_of(std::uint32_t d) const {
    return {node_.view(points_, d), grid_.columns, first_row(d), grid_.rows};
  }

  Node& node_;
  halo_jacobi_grid grid_;
  std::vector<float> start_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> points_;
  kernel::reduction<double, combine::add> norm_;
};

struct halo_jacobi_problem {
  static constexpr const char* summary = "Jacobi with halos round a ring";
  static constexpr std::array arguments{"rows", "columns"};
  using launching_kernels = kernel_list<halo_jacobi_step<ring_rows>>;

  halo_jacobi_grid grid;

  static halo_jacobi_problem make(std::uint64_t rows, std::uint64_t columns) {
    constexpr std::uint64_t most = std::uint64_t{1} << 31U;
    if (rows == 0 || columns < 3 || rows >= most || columns >= most) {
      throw usage_error("a grid of " + std::to_string(rows) + " x " + std::to_string(columns) +
                        " points cannot be used; give at least a row of 3, and fewer than " +
                        std::to_string(most) + " of either");
    }
    return {{static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns)}};
  }

  std::uint64_t elements() const { return grid.points(); }

  template <class Node>
  halo_jacobi<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, grid, options};
  }
};

}  // namespace interlace::workload
