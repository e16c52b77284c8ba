// Propagation of seismic waves in an elastic, layered medium. The unknowns are velocities v and
// stresses s:
//
//   rho dv(i)/dt = sum over j of ds(i, j)/dx(j)
//   ds(i, j)/dt = lambda (div v) [i = j] + mu (dv(i)/dx(j) + dv(j)/dx(i))
//
// The scheme has finite differences of fourth order in space and of second order in time, on a
// staggered grid (Virieux, 1986; Levander, 1988). The FinePack paper takes EQWP from an earthquake
// code (Liu, b2r). That code has the same equations and orders, but stores all values at the same
// points. Beyond the grid's edges everything is zero.
//
// A step is two epochs. The first epoch computes stresses from velocities, and the second computes
// velocities from stresses. Devices exchange a halo of two planes of all three velocities, and of
// the three stresses xz, yz and zz. The other stresses stay on their device. In a region a plane's
// three components are stored one after another, so that a halo is contiguous.
//
// For stresses, a point loads 3 + 6 words and stores 6. For velocities, a point loads 6 + 3 words
// and stores 3. Together these are 108 bytes of memory for each point in a step. In each of the two
// epochs, a point also reads 27 words of its neighbours, which neighbouring lanes load as well. The
// addresses of the point and its neighbours take 130 integer operations in each epoch.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "interlace/workload/slabs.hpp"
#include "workload/shared/chosen.hpp"
#include "workload/shared/parts.hpp"
#include "workload/shared/plane_points.hpp"
#include "workload/shared/point_kernel.hpp"

namespace interlace::workload {

// The medium in a plane, for a time step dt and a distance dx between points.
struct elastic_plane {
  float lambda;    // lambda dt / dx
  float mu;        // mu dt / dx
  float buoyancy;  // dt / (rho dx)
};

inline constexpr std::uint32_t elastic_components = 3;  // components of each point in a region

// The common part of both kernels. A block covers some points of a plane, and a lane computes one
// of these points.
template <class Points>
struct elastic_points {
  static constexpr std::uint32_t threads = Points::threads;
  static constexpr std::uint32_t halo = 2;
  static constexpr std::uint32_t components = elastic_components;

  grid_shape shape;
  std::uint32_t first_plane = 0;  // number of this device's first plane
  std::uint32_t blocks_a_plane = 0;

  // A point. Its indices are the indices of its component 0, in the whole grid and in the device's
  // part. The other members describe the grid lines through the point.
  struct place {
    std::uint32_t here, own, plane;
    grid_line x, y, z;
    bool inside;
  };
  template <class Block, class Lane>
  INTERLACE_KERNEL place place_of(const Block& block, const Lane& lane) const {
    const auto b = static_cast<std::uint32_t>(block.index());
    const std::uint32_t part_plane = b / blocks_a_plane;
    const plane_point p =
        Points::at(b - part_plane * blocks_a_plane, lane.index(), shape.rows, shape.columns);
    const std::uint32_t points = shape.rows * shape.columns;
    const std::uint32_t plane = first_plane + part_plane;
    const std::uint32_t here = plane * components * points + p.index;
    return {here,
            part_plane * components * points + p.index,
            part_plane,
            {0, p.column, shape.columns - 1 - p.column, 1},
            {0, p.row, shape.rows - 1 - p.row, shape.columns},
            {0, plane, shape.planes - 1 - plane, components * points},
            p.inside};
  }

  // Differences of fourth order along a grid line through element `at`, which has the value `own`.
  // `behind` is the difference half-way between this point and the next point. `before` is the
  // difference half-way between the previous point and this point.
  template <class Lane, class View>
  static INTERLACE_KERNEL float behind(const Lane& lane, const View& v, std::uint32_t at, float own,
                                       const grid_line& line) {
    return staggered(below(lane, v, at, line, 1), own, above(lane, v, at, line, 1),
                     above(lane, v, at, line, 2));
  }
  template <class Lane, class View>
  static INTERLACE_KERNEL float before(const Lane& lane, const View& v, std::uint32_t at, float own,
                                       const grid_line& line) {
    return staggered(below(lane, v, at, line, 2), below(lane, v, at, line, 1), own,
                     above(lane, v, at, line, 1));
  }

 private:
  static INTERLACE_KERNEL float staggered(float a, float b, float c, float d) {
    return (9.0F / 8) * (c - b) - (1.0F / 24) * (d - a);
  }
  template <class Lane, class View>
  static INTERLACE_KERNEL float below(const Lane& lane, const View& v, std::uint32_t at,
                                      const grid_line& line, std::uint32_t k) {
    const float value = lane.load(v, at + line.lower(k));
    return k <= line.before ? value : 0.0F;
  }
  template <class Lane, class View>
  static INTERLACE_KERNEL float above(const Lane& lane, const View& v, std::uint32_t at,
                                      const grid_line& line, std::uint32_t k) {
    const float value = lane.load(v, at + line.upper(k));
    return k <= line.behind ? value : 0.0F;
  }
};

template <class Points>
struct renew_stresses : elastic_points<Points> {
  using base = elastic_points<Points>;
  using base::before;
  using base::behind;
  using base::place_of;
  using base::shape;

  replicated<float> velocity;  // shape [plane][x, y, z][row][column]
  replicated<float> across;    // stresses; shape [plane][xz, yz, zz][row][column]
  local<float> within;         // stresses; shape [own plane][xx, yy, xy][row][column]
  local<const elastic_plane> medium;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto p = place_of(block, lane);
      if (!p.inside) return;
      const std::uint32_t points = shape.rows * shape.columns;
      const elastic_plane m = lane.load(medium, p.plane);
      const std::uint32_t vx = p.here;
      const std::uint32_t vy = p.here + points;
      const std::uint32_t vz = p.here + 2 * points;
      const float x = lane.load(velocity, vx);
      const float y = lane.load(velocity, vy);
      const float z = lane.load(velocity, vz);
      const float xx = before(lane, velocity, vx, x, p.x);
      const float yy = before(lane, velocity, vy, y, p.y);
      const float zz = before(lane, velocity, vz, z, p.z);
      const float xy = behind(lane, velocity, vx, x, p.y) + behind(lane, velocity, vy, y, p.x);
      const float xz = behind(lane, velocity, vx, x, p.z) + behind(lane, velocity, vz, z, p.x);
      const float yz = behind(lane, velocity, vy, y, p.z) + behind(lane, velocity, vz, z, p.y);
      const float all = m.lambda * (xx + yy + zz);
      const std::uint32_t own = p.own;
      lane.store(within, own, lane.load(within, own) + (all + 2 * m.mu * xx));
      lane.store(within, own + points, lane.load(within, own + points) + (all + 2 * m.mu * yy));
      lane.store(within, own + 2 * points, lane.load(within, own + 2 * points) + m.mu * xy);
      lane.store(across, vx, lane.load(across, vx) + m.mu * xz);
      lane.store(across, vy, lane.load(across, vy) + m.mu * yz);
      lane.store(across, vz, lane.load(across, vz) + (all + 2 * m.mu * zz));
      lane.compute({.fp32 = 79, .integer = Points::tiled ? 120U : 130U, .special = 6});
    });
  }
};

template <class Points>
struct renew_velocities : elastic_points<Points> {
  using base = elastic_points<Points>;
  using base::before;
  using base::behind;
  using base::place_of;
  using base::shape;
  static constexpr std::uint32_t blocks_at_once = 2048 / Points::threads;

  replicated<float> velocity;
  replicated<float> across;
  local<float> within;
  local<const elastic_plane> medium;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto p = place_of(block, lane);
      if (!p.inside) return;
      const std::uint32_t points = shape.rows * shape.columns;
      const float buoyancy = lane.load(medium, p.plane).buoyancy;
      const std::uint32_t xz = p.here;
      const std::uint32_t yz = p.here + points;
      const std::uint32_t zz = p.here + 2 * points;
      const std::uint32_t xx = p.own;
      const std::uint32_t yy = p.own + points;
      const std::uint32_t xy = p.own + 2 * points;
      const float s_xz = lane.load(across, xz);
      const float s_yz = lane.load(across, yz);
      const float s_xy = lane.load(within, xy);
      const float x = behind(lane, within, xx, lane.load(within, xx), p.x) +
                      before(lane, within, xy, s_xy, p.y) + before(lane, across, xz, s_xz, p.z);
      const float y = before(lane, within, xy, s_xy, p.x) +
                      behind(lane, within, yy, lane.load(within, yy), p.y) +
                      before(lane, across, yz, s_yz, p.z);
      const float z = before(lane, across, xz, s_xz, p.x) + before(lane, across, yz, s_yz, p.y) +
                      behind(lane, across, zz, lane.load(across, zz), p.z);
      lane.store(velocity, xz, lane.load(velocity, xz) + buoyancy * x);
      lane.store(velocity, yz, lane.load(velocity, yz) + buoyancy * y);
      lane.store(velocity, zz, lane.load(velocity, zz) + buoyancy * z);
      lane.compute({.fp32 = 72, .integer = Points::tiled ? 120U : 130U, .special = 6});
    });
  }
};

struct elastic_start {
  grid_shape shape;
  // The velocities at the start, with shape [planes][x, y, z][rows][columns]. The stresses start at
  // 0.
  const float* velocity = nullptr;
  const elastic_plane* medium = nullptr;  // shape [planes]
};

template <class Node, class Points = point_runs>
class eqwp {
 public:
  // `options.boundaries`: device d owns the velocities [boundaries[d], boundaries[d + 1]), which
  // must be whole planes. Throws usage_error if the grid is invalid.
  eqwp(Node& node, const elastic_start& start, const kernel::region_options& options)
      : node_(node),
        start_(start),
        boundaries_(options.boundaries),
        velocity_(node.template create_region<float>(with_halo(options, halo(start)))),
        across_(node.template create_region<float>(with_halo(options, halo(start)))) {
    check_planes(boundaries_, values_a_plane());
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t values = boundaries_[d + 1] - boundaries_[d];
      const elastic_plane* first = start.medium + boundaries_[d] / values_a_plane();
      mediums_.push_back(
          put(node, d, std::vector<elastic_plane>(first, first + values / values_a_plane())));
      withins_.push_back(node.template allocate<float>(d, values));
    }
    reset();
  }

  void reset() {
    const std::uint64_t values = boundaries_.back();
    node_.set_front(velocity_, std::vector<float>(start_.velocity, start_.velocity + values));
    node_.set_front(across_, std::vector<float>(values, 0.0F));
    for (const auto& within : withins_) {
      node_.upload(within, std::vector<float>(within.size, 0.0F));
    }
  }

  // Makes a time step. A step has no residual, so the function throws usage_error if
  // `track_residual` is set.
  void enqueue_iteration(bool track_residual) {
    if (track_residual) {
      throw usage_error("eqwp makes a fixed number of steps; give iterations, not a tolerance");
    }
    enqueue<renew_stresses<Points>>(across_);
    enqueue<renew_velocities<Points>>(velocity_);
  }

  // The velocities that device `device` holds. The device's own planes and its halo are up to date.
  std::vector<float> result(std::uint32_t device) const { return node_.front(velocity_, device); }

  double residual() const { return 0; }

 private:
  using points_type = elastic_points<Points>;

  static std::uint64_t halo(const elastic_start& start) {
    check_grid(start.shape, points_type::components);
    return points_type::halo * points_type::components * start.shape.plane();
  }
  std::uint64_t values_a_plane() const { return points_type::components * start_.shape.plane(); }

  template <class Kernel>
  void enqueue(const kernel::region<float>& writes) {
    const std::uint32_t rows = start_.shape.rows;
    const std::uint32_t columns = start_.shape.columns;
    const std::uint64_t points = start_.shape.plane();
    const std::uint64_t blocks_a_plane = Points::blocks(rows, columns);
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const std::uint64_t first = boundaries_[d];
      const std::uint64_t planes = (boundaries_[d + 1] - first) / values_a_plane();
      Kernel kernel;
      kernel.shape = start_.shape;
      kernel.first_plane = static_cast<std::uint32_t>(first / values_a_plane());
      kernel.blocks_a_plane = static_cast<std::uint32_t>(blocks_a_plane);
      kernel.velocity = node_.view(velocity_, d);
      kernel.across = node_.view(across_, d);
      kernel.within = withins_[d];
      kernel.medium = mediums_[d];
      const auto writes_of = [first, points, rows, columns, blocks_a_plane](std::uint64_t block) {
        constexpr std::uint64_t components = points_type::components;
        const std::uint64_t plane = block / blocks_a_plane;
        const auto in_plane = Points::writes(block % blocks_a_plane, rows, columns);
        std::vector<kernel::element_range> ranges;
        for (std::uint64_t c = 0; c < components; ++c) {
          const std::uint64_t base = first + (plane * components + c) * points;
          for (const auto& [begin, end] : in_plane) ranges.push_back({base + begin, base + end});
        }
        return ranges;
      };
      node_.launch(d, kernel, {planes * blocks_a_plane, Points::threads, 0}, writes,
                   kernel::block_mapping::custom(writes_of));
    }
    node_.exchange(writes);
  }

  Node& node_;
  elastic_start start_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> velocity_;
  kernel::region<float> across_;
  std::vector<local<elastic_plane>> mediums_;
  std::vector<local<float>> withins_;
};

struct eqwp_problem {
  static constexpr const char* summary = "the propagation of seismic waves";
  static constexpr std::array arguments{"velocity", "medium", "kernel"};
  using launching_kernels =
      kernel_list<renew_stresses<point_runs>, renew_stresses<point_tiles>,
                  renew_velocities<point_runs>, renew_velocities<point_tiles>>;

  grid_shape shape;
  const float* velocity = nullptr;    // shape [planes][x, y, z][rows][columns]
  std::vector<elastic_plane> medium;  // [planes]

  point_kernel kernel = point_kernel::runs;

  static eqwp_problem make(const array_view<float, 3>& velocity, const array_view<float, 2>& medium,
                           const std::string& kernel) {
    constexpr std::size_t values = sizeof(elastic_plane) / sizeof(float);
    eqwp_problem problem;
    problem.shape = shape_of(velocity);
    // In Python a plane has three components, which are stored one after another. The grid here
    // therefore has three times as many rows.
    if (medium.extent(0) != problem.shape.planes || medium.extent(1) != values ||
        problem.shape.rows % elastic_components != 0) {
      throw usage_error("velocities and medium do not belong to the same grid");
    }
    if (!std::all_of(medium.begin(), medium.end(),
                     [](float m) { return m >= 0 && std::isfinite(m); })) {
      throw usage_error("a value of the medium is not finite, or below 0");
    }
    problem.shape.rows /= elastic_components;
    problem.velocity = velocity.data();
    for (const float* plane = medium.begin(); plane != medium.end(); plane += values) {
      problem.medium.push_back({plane[0], plane[1], plane[2]});
    }
    problem.kernel = parse_point_kernel(kernel);
    return problem;
  }

  std::uint64_t elements() const { return elastic_components * shape.points(); }

  template <class Node>
  auto on(Node& node, const kernel::region_options& options) const {
    using by_runs = eqwp<Node, point_runs>;
    using by_tiles = eqwp<Node, point_tiles>;
    using work = chosen<by_runs, by_tiles>;
    const elastic_start start{shape, velocity, medium.data()};
    return kernel == point_kernel::runs ? work(std::in_place_type<by_runs>, node, start, options)
                                        : work(std::in_place_type<by_tiles>, node, start, options);
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::renew_stresses<workload::point_runs>>{32,
                                                                                             323};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_stresses<workload::point_tiles>>{32,
                                                                                              333};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_velocities<workload::point_runs>>{32,
                                                                                               306};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_velocities<workload::point_tiles>>{
    32, 315};

}  // namespace interlace
