// Compares the results for turbulence with sums over all waves and points in double precision.
#include "workload/hit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "each_node.hpp"
#include "workload/random.hpp"

namespace interlace::hit_tests {
namespace {

using wide = std::complex<double>;

// A box with its own arithmetic. It has the coefficients for 0 <= kx <= n / 2 and for all ky and
// kz.
struct box {
  int n;
  std::vector<float> start;  // [ky][3][kz][kx][re, im]
  double viscosity = 0.05;
  double step = 0.02;

  box(int points, std::uint32_t seed) : n(points) {
    test::random_numbers random(seed);
    for (int i = 0; i < 6 * n * n * half(); ++i) start.push_back(0.2F * random.unit() - 0.1F);
  }

  int half() const { return n / 2 + 1; }
  std::size_t at(int ky, int c, int kz, int kx) const {
    return static_cast<std::size_t>(((ky * 3 + c) * n + kz) * half() + kx);
  }
  int wave(int index) const { return 2 * index <= n ? index : index - n; }
  wide root(int turns) const { return std::polar(1.0, 2 * std::acos(-1.0) * (turns % n) / n); }

  template <class Body>
  void each_mode(Body body) const {
    for (int ky = 0; ky < n; ++ky) {
      for (int kz = 0; kz < n; ++kz) {
        for (int kx = 0; kx < half(); ++kx) body(ky, kz, kx);
      }
    }
  }

  // Computes P(k) [u x w](k) for each coefficient.
  std::vector<wide> nonlinear(const std::vector<wide>& u) const {
    std::vector<wide> result(u.size());
    for (int z = 0; z < n; ++z) {
      for (int y = 0; y < n; ++y) {
        for (int x = 0; x < n; ++x) {
          std::array<double, 6> here{};
          each_mode([&](int ky, int kz, int kx) {
            // The factor 2 stands for this wave and the wave of -k.
            const double times = kx == 0 || 2 * kx == n ? 1 : 2;
            const wide turn = times * root(kx * x + ky * y + kz * z);
            const std::array<double, 3> k{static_cast<double>(kx), static_cast<double>(wave(ky)),
                                          static_cast<double>(wave(kz))};
            for (std::size_t c = 0; c < 3; ++c) {
              const int next = static_cast<int>(c + 1) % 3;
              const int last = static_cast<int>(c + 2) % 3;
              const wide rotation =
                  wide(0, 1) * (k[static_cast<std::size_t>(next)] * u[at(ky, last, kz, kx)] -
                                k[static_cast<std::size_t>(last)] * u[at(ky, next, kz, kx)]);
              here[c] += (turn * u[at(ky, static_cast<int>(c), kz, kx)]).real();
              here[c + 3] += (turn * rotation).real();
            }
          });
          each_mode([&](int ky, int kz, int kx) {
            const wide turn =
                std::conj(root(kx * x + ky * y + kz * z)) / std::pow(static_cast<double>(n), 3);
            for (std::size_t c = 0; c < 3; ++c) {
              const std::size_t p = (c + 1) % 3;
              const std::size_t q = (c + 2) % 3;
              result[at(ky, static_cast<int>(c), kz, kx)] +=
                  turn * (here[p] * here[q + 3] - here[q] * here[p + 3]);
            }
          });
        }
      }
    }
    each_mode([&](int ky, int kz, int kx) {
      const std::array<int, 3> k{kx, wave(ky), wave(kz)};
      const int square = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
      wide along = 0;
      bool keep = square > 0;
      for (int c = 0; c < 3; ++c) {
        const int one = k[static_cast<std::size_t>(c)];
        keep = keep && 3 * std::abs(one) < n;
        along += static_cast<double>(one) * result[at(ky, c, kz, kx)];
      }
      for (int c = 0; c < 3; ++c) {
        wide& a = result[at(ky, c, kz, kx)];
        const double one = k[static_cast<std::size_t>(c)];
        a = keep ? a - one * along / static_cast<double>(square) : 0;
      }
    });
    return result;
  }

  std::vector<wide> after(std::uint32_t steps) const {
    std::vector<wide> u;
    for (std::size_t i = 0; i < start.size(); i += 2) u.emplace_back(start[i], start[i + 1]);
    std::vector<double> decay(u.size());
    each_mode([&](int ky, int kz, int kx) {
      const int square = kx * kx + wave(ky) * wave(ky) + wave(kz) * wave(kz);
      for (int c = 0; c < 3; ++c) {
        decay[at(ky, c, kz, kx)] = std::exp(-viscosity * square * step / 2);
      }
    });
    for (std::uint32_t s = 0; s < steps; ++s) {
      const auto first = nonlinear(u);
      std::vector<wide> middle(u.size());
      for (std::size_t i = 0; i < u.size(); ++i)
        middle[i] = decay[i] * (u[i] + step / 2 * first[i]);
      const auto second = nonlinear(middle);
      for (std::size_t i = 0; i < u.size(); ++i) {
        u[i] = decay[i] * (decay[i] * u[i] + step * second[i]);
      }
    }
    return u;
  }

  workload::point_kernel kernel = workload::point_kernel::runs;

  workload::hit_problem problem() const {
    return {{static_cast<std::uint32_t>(n), start.data(), static_cast<float>(viscosity),
             static_cast<float>(step)},
            kernel};
  }
  kernel::region_options cut(std::uint32_t devices, kernel::mechanism how) const {
    kernel::region_options o;
    o.mechanism = how;
    o.split_ranges = 3;
    o.chunk_bytes = 4096;
    const auto length = static_cast<std::uint64_t>(n);
    const auto numbers = static_cast<std::uint64_t>(6 * n * half());
    for (std::uint32_t d = 0; d <= devices; ++d) {
      o.boundaries.push_back(length * d / devices * numbers);
    }
    return o;
  }
};

template <class Node>
void compare(Node& node, const box& b, const kernel::region_options& options, std::uint32_t steps,
             const std::vector<wide>& expected) {
  auto work = b.problem().on(node, options);
  for (int round = 0; round < 2; ++round) {
    work.reset();
    node.run([&] {
      for (std::uint32_t k = 0; k < steps; ++k) work.enqueue_iteration(false);
    });
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const auto found = work.result(d);
      ASSERT_EQ(found.size(), 2 * expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (i < options.boundaries[d] || i >= options.boundaries[d + 1]) {
          ASSERT_TRUE(std::isnan(found[i])) << "number " << i << " on device " << d;
          continue;
        }
        const wide& e = expected[i / 2];
        ASSERT_NEAR(found[i], i % 2 == 0 ? e.real() : e.imag(), 1e-6)
            << "number " << i << " on device " << d;
      }
    }
  }
}

TEST(hit, is_the_reference) {
  const box b(6, 1);
  const auto expected = b.after(2);
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    compare(node, b, b.cut(devices, how), 2, expected);
  });
}

// Lines of 5 numbers are narrower than a tile. Lines of 17 numbers are wider.
TEST(hit, by_tiles) {
  for (const int n : {8, 32}) {
    box b(n, 1);
    b.kernel = workload::point_kernel::tiles;
    auto by_runs = b;
    by_runs.kernel = workload::point_kernel::runs;
    host::node first({.devices = 3});
    auto work = by_runs.problem().on(first, b.cut(3, kernel::mechanism::bulk_copy));
    first.run([&] { work.enqueue_iteration(false); });
    test::on_each_node(3, 32, [&](auto& node) {
      for (const auto how : {kernel::mechanism::inline_stores, kernel::mechanism::split}) {
        auto tiled = b.problem().on(node, b.cut(3, how));
        node.run([&] { tiled.enqueue_iteration(false); });
        for (std::uint32_t d = 0; d < 3; ++d) {
          const auto expected = work.result(d);
          const auto found = tiled.result(d);
          ASSERT_EQ(found.size(), expected.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            if (std::isnan(expected[i])) continue;
            ASSERT_EQ(found[i], expected[i]) << "number " << i << " on device " << d;
          }
        }
      }
    });
  }
}

TEST(hit, of_more_than_a_block) {
  const box b(8, 2);
  const auto expected = b.after(1);
  for (const std::uint32_t devices : {3U, 5U}) {
    test::on_each_node(devices, 32, [&](auto& node) {
      compare(node, b, b.cut(devices, kernel::mechanism::inline_stores), 1, expected);
    });
  }
}

// There are more devices than planes, so some devices have no planes.
TEST(hit, of_sixteen_devices) {
  const box b(6, 3);
  const auto expected = b.after(1);
  host::node node({.devices = max_devices});
  compare(node, b, b.cut(max_devices, kernel::mechanism::bulk_copy), 1, expected);
}

TEST(hit, sends_to_each_device_what_it_reads) {
  const box b(8, 4);
  test::on_each_node(4, 32, [&](auto& node) {
    auto work = b.problem().on(node, b.cut(4, kernel::mechanism::bulk_copy));
    const auto wire = node.run([&] { work.enqueue_iteration(false); }).wire;
    // Each of two stages sends nine half spectra: six to planes, and three back. A half spectrum
    // has 8 * 8 * 5 numbers of 8 bytes. Three quarters of the numbers go to other devices.
    EXPECT_EQ(wire.useful, 2 * 9 * 8 * 8 * 8 * 5 * 3 / 4);
    EXPECT_EQ(wire.wasted, 0);
  });
}

TEST(hit, a_vortex_sheet_without_pressure_only_decays) {
  // A velocity u(y) along x has no nonlinear term.
  box b(8, 5);
  std::fill(b.start.begin(), b.start.end(), 0.0F);
  b.start[2 * b.at(1, 0, 0, 0)] = 0.5F;
  b.start[2 * b.at(7, 0, 0, 0)] = 0.5F;
  host::node node({.devices = 2});
  auto work = b.problem().on(node, b.cut(2, kernel::mechanism::bulk_copy));
  node.run([&] {
    for (int k = 0; k < 10; ++k) work.enqueue_iteration(false);
  });
  const auto found = work.result(0);
  EXPECT_NEAR(found[2 * b.at(1, 0, 0, 0)], 0.5 * std::exp(-10 * b.viscosity * b.step), 1e-6);
  EXPECT_NEAR(found[2 * b.at(1, 1, 0, 0)], 0, 1e-6);
}

TEST(hit, refuses_what_it_cannot_use) {
  const box b(6, 6);
  host::node node({.devices = 2});
  auto options = b.cut(2, kernel::mechanism::bulk_copy);
  for (const std::uint32_t n : {0U, 2U, 7U, 642U}) {
    auto wrong = b.problem();
    wrong.start.length = n;
    EXPECT_THROW(wrong.on(node, options), usage_error) << n;
  }
  auto work = b.problem().on(node, options);
  EXPECT_THROW(work.enqueue_iteration(true), usage_error);
  options.boundaries[1] += 144;
  EXPECT_THROW(b.problem().on(node, options), model_error);
}

}  // namespace
}  // namespace interlace::hit_tests
