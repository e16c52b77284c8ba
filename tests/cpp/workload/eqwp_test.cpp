// Compares the results for the propagation of seismic waves with plain loops in double precision.
#include "workload/eqwp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "each_node.hpp"
#include "workload/random.hpp"

namespace interlace::eqwp_tests {
namespace {

constexpr std::array<std::array<std::size_t, 3>, 3> stress_of{{{0, 3, 4}, {3, 1, 5}, {4, 5, 2}}};

// A grid with its own arithmetic. The dimensions are x, y and z. Along some dimensions, the values
// of a component lie half a point further. A difference has the position of the component that it
// changes.
struct medium {
  std::array<int, 3> n;
  std::vector<float> start;  // [planes][x, y, z][rows][columns]
  std::vector<workload::elastic_plane> planes;

  medium(int nz, int ny, int nx, std::uint32_t seed) : n{nx, ny, nz} {
    test::random_numbers random(seed);
    for (int i = 0; i < 3 * nz * ny * nx; ++i) start.push_back(2 * random.unit() - 1);
    for (int p = 0; p < nz; ++p) {
      planes.push_back({0.1F + 0.1F * random.unit(), 0.1F * random.unit(), 0.5F + random.unit()});
    }
  }

  using place = std::array<int, 3>;
  using field = std::vector<double>;

  std::size_t index(place p) const {
    return static_cast<std::size_t>((p[2] * n[1] + p[1]) * n[0] + p[0]);
  }
  double at(const field& f, place p) const {
    for (std::size_t k = 0; k < 3; ++k) {
      if (p[k] < 0 || p[k] >= n[k]) return 0;
    }
    return f[index(p)];
  }
  // Returns the difference at the position half a point before p. If the last argument is true,
  // the position is half a point after p.
  double difference(const field& f, place p, std::size_t along, bool behind) const {
    const auto value = [&](int by) {
      place q = p;
      q[along] += by + (behind ? 1 : 0);
      return at(f, q);
    };
    return 9.0 / 8 * (value(0) - value(-1)) - (value(1) - value(-2)) / 24;
  }

  template <class Body>
  void each(Body body) const {
    for (int z = 0; z < n[2]; ++z) {
      for (int y = 0; y < n[1]; ++y) {
        for (int x = 0; x < n[0]; ++x) body(place{x, y, z});
      }
    }
  }

  std::vector<double> after(std::uint32_t steps) const {
    const auto points = static_cast<std::size_t>(n[0] * n[1] * n[2]);
    std::array<field, 3> v;
    std::array<field, 6> s;  // xx, yy, zz, xy, xz, yz
    for (auto& f : v) f.resize(points);
    for (auto& f : s) f.assign(points, 0);
    const auto given = [&](place p, std::size_t c) {
      const auto plane = static_cast<std::size_t>(n[0] * n[1]);
      return (static_cast<std::size_t>(p[2]) * 3 + c) * plane + index({p[0], p[1], 0});
    };
    each([&](place p) {
      for (std::size_t c = 0; c < 3; ++c) v[c][index(p)] = static_cast<double>(start[given(p, c)]);
    });
    for (std::uint32_t step = 0; step < steps; ++step) {
      each([&](place p) {
        const auto& m = planes[static_cast<std::size_t>(p[2])];
        const std::size_t i = index(p);
        double spread = 0;
        for (std::size_t c = 0; c < 3; ++c) spread += difference(v[c], p, c, false);
        for (std::size_t a = 0; a < 3; ++a) {
          s[a][i] += static_cast<double>(m.lambda) * spread +
                     2 * static_cast<double>(m.mu) * difference(v[a], p, a, false);
          for (std::size_t b = a + 1; b < 3; ++b) {
            s[stress_of[a][b]][i] += static_cast<double>(m.mu) *
                                     (difference(v[a], p, b, true) + difference(v[b], p, a, true));
          }
        }
      });
      each([&](place p) {
        const auto& m = planes[static_cast<std::size_t>(p[2])];
        for (std::size_t a = 0; a < 3; ++a) {
          double force = 0;
          for (std::size_t b = 0; b < 3; ++b) {
            force += difference(s[stress_of[a][b]], p, b, a == b);
          }
          v[a][index(p)] += static_cast<double>(m.buoyancy) * force;
        }
      });
    }
    std::vector<double> all(start.size());
    each([&](place p) {
      for (std::size_t c = 0; c < 3; ++c) all[given(p, c)] = v[c][index(p)];
    });
    return all;
  }

  workload::elastic_start view() const {
    const auto u = [](int k) { return static_cast<std::uint32_t>(k); };
    return {{u(n[2]), u(n[1]), u(n[0])}, start.data(), planes.data()};
  }

  kernel::region_options cut(std::uint32_t devices, kernel::mechanism how) const {
    kernel::region_options o;
    o.mechanism = how;
    o.split_ranges = 3;
    o.chunk_bytes = 4096;
    const auto shape = view().shape;
    for (std::uint32_t d = 0; d <= devices; ++d) {
      o.boundaries.push_back(std::uint64_t{shape.planes} * d / devices * 3 * shape.plane());
    }
    return o;
  }
};

template <class Points = workload::point_runs, class Node>
void compare(Node& node, const medium& m, const kernel::region_options& options,
             std::uint32_t steps, const std::vector<double>& expected) {
  workload::eqwp<Node, Points> work(node, m.view(), options);
  const std::uint64_t halo = 2 * 3 * m.view().shape.plane();
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
        ASSERT_NEAR(found[i], expected[i], 3e-6) << "value " << i << " on device " << d;
      }
    }
  }
}

template <class Points = workload::point_runs>
void on_every_node(const medium& m, std::uint32_t steps) {
  const auto expected = m.after(steps);
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    compare<Points>(node, m, m.cut(devices, how), steps, expected);
  });
}

TEST(eqwp, is_the_reference) { on_every_node(medium(10, 6, 9, 1), 3); }
TEST(eqwp, of_planes_of_more_than_a_block) { on_every_node(medium(7, 19, 21, 2), 1); }
// The last tiles of rows and columns extend past the edge of the grid.
TEST(eqwp, by_tiles) { on_every_node<workload::point_tiles>(medium(7, 19, 21, 2), 1); }

// Some parts have one plane, which is less than the halo. Some parts have no planes.
TEST(eqwp, of_thin_slabs) {
  const medium m(5, 4, 7, 3);
  const auto expected = m.after(2);
  for (const auto& planes :
       {std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}, std::vector<std::uint64_t>{0, 0, 4, 5, 5}}) {
    auto options = m.cut(1, kernel::mechanism::inline_stores);
    options.boundaries.clear();
    for (const std::uint64_t p : planes) options.boundaries.push_back(p * 3 * 28);
    test::on_each_node(static_cast<std::uint32_t>(planes.size()) - 1, 32,
                       [&](auto& node) { compare(node, m, options, 2, expected); });
  }
}

// There are two boundaries between devices, and a message in each direction, so there are 4
// messages. A message has 2 planes of 3 components of 32 floats of 4 bytes. The devices send twice
// in each of three steps, 6 times. Half of the differences of a shear stress reach two planes ahead
// and one plane back. The other half reach one plane ahead and two planes back.
TEST(eqwp, sends_the_halo_and_nothing_else) {
  const medium m(12, 4, 8, 4);
  test::on_each_node(3, 32, [&](auto& node) {
    workload::eqwp work(node, m.view(), m.cut(3, kernel::mechanism::bulk_copy));
    const auto wire = node.run([&] {
                            for (int k = 0; k < 3; ++k) work.enqueue_iteration(false);
                          })
                          .wire;
    EXPECT_EQ(wire.useful + wire.wasted, 4 * 2 * 3 * 32 * 4 * 6);
    EXPECT_LT(wire.wasted, 0.26 * (wire.useful + wire.wasted));
  });
}

TEST(eqwp, refuses_what_it_cannot_use) {
  const medium m(6, 4, 4, 5);
  host::node node({.devices = 1});
  auto options = m.cut(1, kernel::mechanism::bulk_copy);
  auto empty = m.view();
  empty.shape.columns = 0;
  EXPECT_THROW(workload::eqwp(node, empty, options), usage_error);
  auto large = m.view();
  large.shape = {1U << 10U, 1U << 10U, 1U << 10U};
  EXPECT_THROW(workload::eqwp(node, large, options), usage_error);
  workload::eqwp work(node, m.view(), options);
  EXPECT_THROW(work.enqueue_iteration(true), usage_error);
  options.boundaries.back() -= 1;
  EXPECT_THROW(workload::eqwp(node, m.view(), options), model_error);
}

}  // namespace
}  // namespace interlace::eqwp_tests
