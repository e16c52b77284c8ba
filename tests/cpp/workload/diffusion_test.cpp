// Compares the results for the heat equation and for Burgers' equation with plain loops in double
// precision.
#include "workload/diffusion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "each_node.hpp"
#include "workload/random.hpp"

namespace interlace::diffusion_tests {
namespace {

using workload::diffusion_equation;

// A grid with its own arithmetic: points have coordinates, and loops go over the dimensions.
struct grid {
  std::array<int, 3> n;  // planes, rows, columns
  std::vector<float> start;
  diffusion_equation equation;
  double rate;
  double speed = 0;

  grid(int planes, int rows, int columns, diffusion_equation e, std::uint32_t seed)
      : n{planes, rows, columns}, equation(e), rate(e == diffusion_equation::heat ? 0.1 : 0.13) {
    test::random_numbers random(seed);
    for (int i = 0; i < planes * rows * columns; ++i) start.push_back(2 * random.unit() - 1);
    for (const float u : start) speed = std::max(speed, std::abs(static_cast<double>(u)));
  }

  using values = std::vector<double>;
  using place = std::array<int, 3>;

  double at(const values& u, place p) const {
    for (std::size_t k = 0; k < 3; ++k) p[k] = std::clamp(p[k], 0, n[k] - 1);
    return u[static_cast<std::size_t>((p[0] * n[1] + p[1]) * n[2] + p[2])];
  }

  // Returns the flux after point p along a dimension, by the textbook formula.
  double face(const values& u, place p, std::size_t along) const {
    double sum = 0;
    for (const int way : {1, -1}) {
      std::array<double, 5> f{};
      for (int k = 0; k < 5; ++k) {
        place q = p;
        q[along] += way == 1 ? k - 2 : 3 - k;
        const double v = at(u, q);
        f[static_cast<std::size_t>(k)] = (v * v / 2 + way * speed * v) / 2;
      }
      const auto [a, b, c, d, e] = f;
      const double rough[3] = {
          13.0 / 12 * std::pow(a - 2 * b + c, 2) + std::pow(a - 4 * b + 3 * c, 2) / 4,
          13.0 / 12 * std::pow(b - 2 * c + d, 2) + std::pow(b - d, 2) / 4,
          13.0 / 12 * std::pow(c - 2 * d + e, 2) + std::pow(3 * c - 4 * d + e, 2) / 4};
      const double candidates[3] = {(2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6,
                                    (2 * c + 5 * d - e) / 6};
      const double ideal[3] = {0.1, 0.6, 0.3};
      double weights = 0;
      double mean = 0;
      for (int k = 0; k < 3; ++k) {
        const double w = ideal[k] / std::pow(1e-6 + rough[k], 2);
        weights += w;
        mean += w * candidates[k];
      }
      sum += mean / weights;
    }
    return sum;
  }

  values change(const values& u) const {
    values l(u.size(), 0);
    std::size_t i = 0;
    for (int z = 0; z < n[0]; ++z) {
      for (int y = 0; y < n[1]; ++y) {
        for (int x = 0; x < n[2]; ++x, ++i) {
          for (std::size_t k = 0; k < 3; ++k) {
            const place p{z, y, x};
            const auto beside = [&](int by) {
              place q = p;
              q[k] += by;
              return at(u, q);
            };
            if (equation == diffusion_equation::heat) {
              l[i] += rate / 12 *
                      (-beside(-2) + 16 * beside(-1) - 30 * u[i] + 16 * beside(1) - beside(2));
            } else if (n[k] > 1) {
              place before = p;
              before[k] -= 1;
              l[i] -= rate * (face(u, p, k) - face(u, before, k));
            }
          }
        }
      }
    }
    return l;
  }

  values after(std::uint32_t steps) const {
    values u(start.begin(), start.end());
    for (std::uint32_t s = 0; s < steps; ++s) {
      const auto stage = [&](const values& from, double keep) {
        const values l = change(from);
        values to(u.size());
        for (std::size_t i = 0; i < u.size(); ++i) {
          to[i] = keep * u[i] + (1 - keep) * (from[i] + l[i]);
        }
        return to;
      };
      u = stage(stage(stage(u, 0), 0.75), 1.0 / 3);
    }
    return u;
  }

  workload::diffusion_start view() const {
    const auto u = [](int k) { return static_cast<std::uint32_t>(k); };
    return {{u(n[0]), u(n[1]), u(n[2])},
            start.data(),
            equation,
            static_cast<float>(rate),
            static_cast<float>(speed)};
  }

  kernel::region_options cut(std::uint32_t devices, kernel::mechanism how) const {
    kernel::region_options o;
    o.mechanism = how;
    o.split_ranges = 3;
    o.chunk_bytes = 4096;
    const auto shape = view().shape;
    for (std::uint32_t d = 0; d <= devices; ++d) {
      o.boundaries.push_back(std::uint64_t{shape.planes} * d / devices * shape.plane());
    }
    return o;
  }
};

template <class Node>
void compare(Node& node, const grid& g, const kernel::region_options& options, std::uint32_t steps,
             const std::vector<double>& expected) {
  workload::diffusion work(node, g.view(), options);
  const std::uint64_t plane = g.view().shape.plane();
  const std::uint64_t halo = plane * (g.equation == diffusion_equation::heat ? 2 : 3);
  for (int round = 0; round < 2; ++round) {
    work.reset();
    node.run([&] {
      for (std::uint32_t k = 0; k < steps; ++k) work.enqueue_iteration(false);
    });
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = options.boundaries[d];
      const std::uint64_t end = options.boundaries[d + 1];
      if (begin == end) continue;
      const auto found = work.result(d);
      const std::uint64_t last = std::min(end + halo, options.boundaries.back());
      for (std::uint64_t i = begin - std::min(begin, halo); i < last; ++i) {
        ASSERT_NEAR(found[i], expected[i], 3e-6) << "point " << i << " on device " << d;
      }
    }
  }
}

void on_every_node(const grid& g, std::uint32_t steps) {
  const auto expected = g.after(steps);
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    compare(node, g, g.cut(devices, how), steps, expected);
  });
}

TEST(diffusion, heat_in_three_dimensions) {
  on_every_node(grid(11, 7, 9, diffusion_equation::heat, 1), 2);
}
TEST(diffusion, heat_in_two_dimensions) {
  on_every_node(grid(26, 1, 35, diffusion_equation::heat, 2), 2);
}
TEST(diffusion, burgers_in_three_dimensions) {
  on_every_node(grid(13, 5, 8, diffusion_equation::burgers, 3), 2);
}
TEST(diffusion, burgers_in_two_dimensions) {
  on_every_node(grid(21, 1, 33, diffusion_equation::burgers, 4), 2);
}

// Some parts have one plane, which is less than the halo. Some parts have no planes.
TEST(diffusion, of_thin_slabs) {
  const grid g(5, 6, 7, diffusion_equation::burgers, 5);
  const auto expected = g.after(1);
  for (const auto& planes :
       {std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}, std::vector<std::uint64_t>{0, 0, 4, 5, 5}}) {
    auto options = g.cut(1, kernel::mechanism::inline_stores);
    options.boundaries.clear();
    for (const std::uint64_t p : planes) options.boundaries.push_back(p * 42);
    test::on_each_node(static_cast<std::uint32_t>(planes.size()) - 1, 32,
                       [&](auto& node) { compare(node, g, options, 1, expected); });
  }
}

TEST(diffusion, sends_the_halo_and_nothing_else) {
  const grid g(12, 4, 8, diffusion_equation::heat, 6);
  test::on_each_node(3, 32, [&](auto& node) {
    workload::diffusion work(node, g.view(), g.cut(3, kernel::mechanism::bulk_copy));
    const auto wire = node.run([&] {
                            for (int k = 0; k < 2; ++k) work.enqueue_iteration(false);
                          })
                          .wire;
    // At each of two boundaries, two devices send, so there are 4 messages. A message has 2 planes
    // of 32 floats of 4 bytes. The devices send in each of three stages of two steps, 6 times.
    EXPECT_EQ(wire.useful, 4 * 2 * 32 * 4 * 6);
    EXPECT_EQ(wire.wasted, 0);
  });
}

// A front moves at the mean of the values on its two sides.
TEST(diffusion, moves_a_shock_at_its_speed) {
  const int columns = 100;
  grid g(1, 1, columns, diffusion_equation::burgers, 7);
  for (int x = 0; x < columns; ++x) g.start[static_cast<std::size_t>(x)] = x < 30 ? 1.0F : 0.0F;
  g.rate = 0.4;
  g.speed = 1;
  host::node node({.devices = 1});
  workload::diffusion work(node, g.view(), g.cut(1, kernel::mechanism::bulk_copy));
  node.run([&] {
    for (int k = 0; k < 100; ++k) work.enqueue_iteration(false);
  });
  double sum = 0;
  for (const float u : work.result(0)) sum += static_cast<double>(u);
  EXPECT_NEAR(sum, 30 + 100 * 0.4 / 2, 0.01);
}

TEST(diffusion, refuses_what_it_cannot_use) {
  const grid g(6, 4, 4, diffusion_equation::heat, 8);
  host::node node({.devices = 1});
  auto options = g.cut(1, kernel::mechanism::bulk_copy);
  auto empty = g.view();
  empty.shape.rows = 0;
  EXPECT_THROW(workload::diffusion(node, empty, options), usage_error);
  auto large = g.view();
  large.shape = {1U << 16U, 1U << 16U, 1};
  EXPECT_THROW(workload::diffusion(node, large, options), usage_error);
  workload::diffusion work(node, g.view(), options);
  EXPECT_THROW(work.enqueue_iteration(true), usage_error);
  options.boundaries.back() -= 1;
  EXPECT_THROW(workload::diffusion(node, g.view(), options), model_error);
}

}  // namespace
}  // namespace interlace::diffusion_tests
