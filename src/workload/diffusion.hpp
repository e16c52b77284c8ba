// The heat equation and the inviscid Burgers' equation on a grid of two or three dimensions, by
// explicit schemes. The scheme is that of Diaz's MultiGPU_AdvectionDiffusion, the multi-GPU
// baseline from which the FinePack paper takes its diffusion workload:
//
//   heat      u_t = D (u_xx + u_yy + u_zz), central differences of fourth order
//   Burgers   u_t + f(u)_x + f(u)_y + f(u)_z = 0, f(u) = u^2 / 2, by the finite-difference WENO
//             scheme of fifth order (Jiang and Shu, 1996) with global Lax-Friedrichs splitting
//
// Time integration is the strong-stability-preserving Runge-Kutta method of third order (Shu and
// Osher, 1988). L(u) is the change of u in a step:
//
//   a = u + L(u);  b = 3/4 u + 1/4 (a + L(a));  u' = 1/3 u + 2/3 (b + L(b))
//
// Beyond its edges the grid repeats its outermost points. Each of the three stages is an epoch, so
// a step moves the halo three times. The halo is two planes of points for heat and three planes for
// Burgers.
//
// Heat: a lane has one point and reads 13 points. Neighbouring lanes load 12 of these points too,
// because they are the neighbours' own points. Memory moves 12 bytes for each point and stage: the
// point, the step's start and the result. The addresses of a point and its neighbours take about 90
// integer operations. These integer operations are the limit. Burgers: a point takes 12
// reconstructions. Neighbouring lanes compute 6 of these reconstructions a second time. Arithmetic
// is the limit.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "interlace/workload/slabs.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

struct heat_change {
  static constexpr std::uint32_t halo = 2;
  // The operations for one point, counted in the machine code.
  static INTERLACE_HOST_DEVICE operations work(std::uint32_t dimensions) {
    return {.fp32 = 5 * dimensions + 4, .integer = 18 * dimensions + 38, .special = 6};
  }

  float rate;  // D dt / dx^2

  template <class Lane>
  INTERLACE_KERNEL float along(const Lane& lane, const replicated<float>& u, float own,
                               const grid_line& line) const {
    const float near = lane.load(u, line.lower(1)) + lane.load(u, line.upper(1));
    const float far = lane.load(u, line.lower(2)) + lane.load(u, line.upper(2));
    return rate * (1.0F / 12) * (16 * near - far - 30 * own);
  }
};

struct burgers_change {
  static constexpr std::uint32_t halo = 3;
  static INTERLACE_HOST_DEVICE operations work(std::uint32_t dimensions) {
    return {.fp32 = 243 * dimensions + 6,
            .integer = 27 * dimensions + 40,
            .special = 4 * dimensions + 6};
  }

  float rate;   // dt / dx
  float speed;  // an upper bound of all |u|

  template <class Lane>
  INTERLACE_KERNEL float along(const Lane& lane, const replicated<float>& u, float own,
                               const grid_line& line) const {
    float right[2 * halo + 1];  // the flux to the right: (f(u) + speed u) / 2
    float left[2 * halo + 1];   // the flux to the left: (f(u) - speed u) / 2
    for (std::uint32_t k = 0; k <= 2 * halo; ++k) {
      const float v = k == halo  ? own
                      : k < halo ? lane.load(u, line.lower(halo - k))
                                 : lane.load(u, line.upper(k - halo));
      right[k] = 0.25F * v * (v + 2 * speed);
      left[k] = 0.25F * v * (v - 2 * speed);
    }
    const float in = face(right[0], right[1], right[2], right[3], right[4]) +
                     face(left[5], left[4], left[3], left[2], left[1]);
    const float out = face(right[1], right[2], right[3], right[4], right[5]) +
                      face(left[6], left[5], left[4], left[3], left[2]);
    return rate * (in - out);
  }

 private:
  // The value on the face between points c and d. It is the mean of three parabolas, through a b c,
  // b c d and c d e, weighted by their smoothness. The weights share a common denominator, so there
  // is only one division.
  static INTERLACE_KERNEL float face(float a, float b, float c, float d, float e) {
    constexpr float tiny = 1e-6F;
    const float s0 = rough(a - 2 * b + c, a - 4 * b + 3 * c) + tiny;
    const float s1 = rough(b - 2 * c + d, b - d) + tiny;
    const float s2 = rough(c - 2 * d + e, 3 * c - 4 * d + e) + tiny;
    const float w0 = s1 * s2 * (s1 * s2);
    const float w1 = 6 * (s0 * s2 * (s0 * s2));
    const float w2 = 3 * (s0 * s1 * (s0 * s1));
    const float sum =
        w0 * (2 * a - 7 * b + 11 * c) + w1 * (5 * c - b + 2 * d) + w2 * (2 * c + 5 * d - e);
    return sum / (6 * (w0 + w1 + w2));
  }
  static INTERLACE_KERNEL float rough(float curve, float slope) {
    return (13.0F / 12) * curve * curve + 0.25F * slope * slope;
  }
};

template <class Change>
struct diffusion_stage {
  static constexpr std::uint32_t threads = 256;

  replicated<float> u;
  local<float> start;  // values at the start of the step, at this device's points
  Change change;
  grid_shape shape;
  std::uint32_t first = 0;  // first of this device's points
  std::uint32_t last = 0;
  std::uint32_t stage = 0;  // 0, 1 or 2

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint32_t i = first + static_cast<std::uint32_t>(lane.global_index());
      if (i >= last) return;
      const grid_point p = point_of(shape, i);
      const float own = lane.load(u, i);
      float next = own;
      next += change.along(lane, u, own, {i, p.column, shape.columns - 1 - p.column, 1});
      if (shape.rows > 1) {
        next += change.along(lane, u, own, {i, p.row, shape.rows - 1 - p.row, shape.columns});
      }
      next += change.along(lane, u, own,
                           {i, p.plane, shape.planes - 1 - p.plane, shape.rows * shape.columns});
      if (stage == 0) {
        lane.store(start, i - first, own);
      } else {
        const float keep = stage == 1 ? 0.75F : 1.0F / 3;
        next = keep * lane.load(start, i - first) + (1 - keep) * next;
      }
      lane.store(u, i, next);
      lane.compute(Change::work(shape.rows > 1 ? 3 : 2));
    });
  }
};

enum class diffusion_equation : std::uint8_t { heat, burgers };

struct diffusion_start {
  grid_shape shape;
  const float* values = nullptr;  // [planes][rows][columns]
  diffusion_equation equation = diffusion_equation::heat;
  float rate = 0;   // heat: D dt / dx^2; Burgers: dt / dx
  float speed = 0;  // Burgers: an upper bound of all |u|
};

template <class Node>
class diffusion {
 public:
  // `options.boundaries`: device d owns the points [boundaries[d], boundaries[d + 1]), which are
  // whole planes. Throws usage_error if the grid is invalid.
  diffusion(Node& node, const diffusion_start& start, const kernel::region_options& options)
      : node_(node),
        start_(start),
        boundaries_(options.boundaries),
        u_(node.template create_region<float>(with_halo(options, halo(start)))) {
    check_planes(boundaries_, start.shape.plane());
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      starts_.push_back(node.template allocate<float>(d, boundaries_[d + 1] - boundaries_[d]));
    }
    reset();
  }

  void reset() {
    node_.set_front(u_, std::vector<float>(start_.values, start_.values + start_.shape.points()));
  }

  // Makes a time step. A step has no residual, so the function throws usage_error if
  // `track_residual` is set.
  void enqueue_iteration(bool track_residual) {
    if (track_residual) {
      throw usage_error(
          "diffusion makes a fixed number of steps; give iterations, not a tolerance");
    }
    for (std::uint32_t stage = 0; stage < 3; ++stage) {
      for (std::uint32_t d = 0; d < node_.devices(); ++d) {
        if (start_.equation == diffusion_equation::heat) {
          launch(d, heat_change{start_.rate}, stage);
        } else {
          launch(d, burgers_change{start_.rate, start_.speed}, stage);
        }
      }
      node_.exchange(u_);
    }
  }

  // The values u that device `device` holds. The device's own planes and its halo are up to date.
  // Other planes are out of date.
  std::vector<float> result(std::uint32_t device) const { return node_.front(u_, device); }

  double residual() const { return 0; }

 private:
  static std::uint64_t halo(const diffusion_start& start) {
    check_grid(start.shape, 1);
    return start.shape.plane() *
           (start.equation == diffusion_equation::heat ? heat_change::halo : burgers_change::halo);
  }

  template <class Change>
  void launch(std::uint32_t d, const Change& change, std::uint32_t stage) {
    using kernel_type = diffusion_stage<Change>;
    const std::uint64_t points = boundaries_[d + 1] - boundaries_[d];
    const kernel_type kernel{node_.view(u_, d),
                             starts_[d],
                             change,
                             start_.shape,
                             static_cast<std::uint32_t>(boundaries_[d]),
                             static_cast<std::uint32_t>(boundaries_[d + 1]),
                             stage};
    node_.launch(
        d, kernel,
        {(points + kernel_type::threads - 1) / kernel_type::threads, kernel_type::threads, 0}, u_,
        kernel::block_mapping::contiguous(boundaries_[d], kernel_type::threads,
                                          boundaries_[d + 1]));
  }

  Node& node_;
  diffusion_start start_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> u_;
  std::vector<local<float>> starts_;
};

struct diffusion_problem {
  static constexpr const char* summary = "the heat or Burgers' equation";
  static constexpr std::array arguments{"start", "equation", "rate", "speed"};
  using launching_kernels =
      kernel_list<diffusion_stage<heat_change>, diffusion_stage<burgers_change>>;

  diffusion_start start;

  static diffusion_problem make(const array_view<float, 3>& start, const std::string& equation,
                                double rate, double speed) {
    if (equation != "heat" && equation != "burgers") {
      throw usage_error("unknown equation '" + equation + "'; give heat or burgers");
    }
    if (!(rate > 0 && std::isfinite(rate) && speed >= 0 && std::isfinite(speed))) {
      throw usage_error("rate and speed of a diffusion must be finite and above 0");
    }
    return {{shape_of(start), start.data(),
             equation == "heat" ? diffusion_equation::heat : diffusion_equation::burgers,
             static_cast<float>(rate), static_cast<float>(speed)}};
  }

  std::uint64_t elements() const { return start.shape.points(); }

  template <class Node>
  diffusion<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, start, options};
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::diffusion_stage<workload::burgers_change>>{
    43, 1099};
template <>
inline constexpr compiled_kernel compiled_as<workload::diffusion_stage<workload::heat_change>>{26,
                                                                                               154};

}  // namespace interlace
