// Compares the results of tomographic reconstruction with another projector and with plain loops in
// double precision.
#include "workload/ct.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "each_node.hpp"
#include "workload/random.hpp"

namespace interlace::ct_tests {
namespace {

struct entry {
  std::uint32_t pixel;
  double length;
};

// Computes the lengths of a ray in pixels by Siddon's method. It sorts the points where the ray
// crosses grid lines. The middle of the piece between two points shows in which pixel the piece
// lies.
std::vector<entry> ray_lengths(std::uint32_t size, double angle, double distance) {
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  const double half = size / 2.0;
  std::vector<double> crossings;
  for (std::uint32_t k = 0; k <= size; ++k) {
    const double line = k - half;
    if (std::abs(s) > 1e-12) crossings.push_back((distance * c - line) / s);
    if (std::abs(c) > 1e-12) crossings.push_back((line - distance * s) / c);
  }
  std::sort(crossings.begin(), crossings.end());
  std::vector<entry> found;
  for (std::size_t k = 0; k + 1 < crossings.size(); ++k) {
    const double middle = (crossings[k] + crossings[k + 1]) / 2;
    const double column = std::floor(distance * c - middle * s + half);
    const double row = std::floor(half - distance * s - middle * c);
    if (column < 0 || column >= size || row < 0 || row >= size) continue;
    found.push_back({static_cast<std::uint32_t>(row) * size + static_cast<std::uint32_t>(column),
                     crossings[k + 1] - crossings[k]});
  }
  return found;
}

struct scan {
  std::uint32_t size, angles, detectors, subsets;
  std::vector<std::vector<entry>> rays;  // [angle][bin]
  std::vector<float> measured, weights, curvature;
  float beta = 0.5F;

  scan(std::uint32_t n, std::uint32_t a, std::uint32_t s, std::uint32_t seed)
      : size(n), angles(a), detectors(workload::least_detectors(n)), subsets(s) {
    test::random_numbers random(seed);
    std::vector<double> image(std::size_t{n} * n);
    for (double& x : image) x = random.below(3) == 0 ? 0 : random.unit();
    std::vector<double> sums(image.size(), 0);
    for (std::uint32_t angle = 0; angle < angles; ++angle) {
      for (std::uint32_t bin = 0; bin < detectors; ++bin) {
        rays.push_back(
            ray_lengths(size, std::acos(-1.0) * angle / angles, bin - (detectors - 1) / 2.0));
        // The measured value differs slightly from the projection of the image.
        double y = 0.2 * random.unit();
        double length = 0;
        for (const entry& e : rays.back()) {
          y += e.length * image[e.pixel];
          length += e.length;
        }
        measured.push_back(static_cast<float>(y));
        weights.push_back(0.1F + random.unit());
        for (const entry& e : rays.back()) {
          sums[e.pixel] += e.length * static_cast<double>(weights.back()) * length;
        }
      }
    }
    for (std::uint32_t j = 0; j < sums.size(); ++j) {
      const auto d =
          sums[j] + 2 * static_cast<double>(beta) * static_cast<double>(neighbours(j).size());
      curvature.push_back(static_cast<float>(d));
    }
  }

  std::vector<std::uint32_t> neighbours(std::uint32_t j) const {
    std::vector<std::uint32_t> found;
    if (j >= size) found.push_back(j - size);
    if (j + size < size * size) found.push_back(j + size);
    const std::uint32_t column = j - j / std::max(1U, size) * size;
    if (column > 0) found.push_back(j - 1);
    if (column + 1 < size) found.push_back(j + 1);
    return found;
  }

  workload::ct_scan view() const {
    return {size, angles,          detectors,      subsets,
            beta, measured.data(), weights.data(), curvature.data()};
  }

  // Makes one iteration on x. Returns the sum of the weighted squared errors.
  double iterate(std::vector<double>& x) const {
    double cost = 0;
    for (std::uint32_t subset = 0; subset < subsets; ++subset) {
      std::vector<double> down(x.size(), 0);
      for (std::uint32_t angle = subset; angle < angles; angle += subsets) {
        for (std::uint32_t bin = 0; bin < detectors; ++bin) {
          const std::size_t ray = std::size_t{angle} * detectors + bin;
          auto error = static_cast<double>(measured[ray]);
          for (const entry& e : rays[ray]) error -= e.length * x[e.pixel];
          const double weighted = static_cast<double>(weights[ray]) * error;
          cost += weighted * error;
          for (const entry& e : rays[ray]) down[e.pixel] += subsets * e.length * weighted;
        }
      }
      const std::vector<double> before = x;
      for (std::uint32_t j = 0; j < x.size(); ++j) {
        for (const std::uint32_t k : neighbours(j)) {
          down[j] -= static_cast<double>(beta) * (before[j] - before[k]);
        }
        x[j] = std::max(0.0, x[j] + down[j] / static_cast<double>(curvature[j]));
      }
    }
    return cost;
  }
};

kernel::region_options cut(std::uint32_t size, std::uint32_t devices, kernel::mechanism how) {
  kernel::region_options o;
  o.mechanism = how;
  o.split_ranges = 3;
  o.chunk_bytes = 4096;
  for (std::uint32_t d = 0; d <= devices; ++d) {
    o.boundaries.push_back(std::uint64_t{size} * d / devices * size);
  }
  return o;
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  const double largest = *std::max_element(expected.begin(), expected.end());
  ASSERT_GT(largest, 0.1);
  double worst = 0;
  for (std::size_t j = 0; j < expected.size(); ++j) {
    ASSERT_FALSE(std::isnan(found[j])) << "pixel " << j;
    worst = std::max(worst, std::abs(static_cast<double>(found[j]) - expected[j]));
  }
  EXPECT_LE(worst, 1e-5 * largest);
}

void compare(const scan& s, std::uint32_t iterations, bool to_readers = false) {
  std::vector<double> expected(std::size_t{s.size} * s.size, 0);
  double cost = 0;
  for (std::uint32_t k = 0; k < iterations; ++k) cost = s.iterate(expected);
  // The first results for each number of devices. The rounding of a position in a part depends on
  // where the part starts.
  std::map<std::uint32_t, std::vector<float>> first;
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t, auto how) {
    workload::ct work(node, s.view(), cut(s.size, devices, how), to_readers);
    const int rounds = how == kernel::mechanism::bulk_copy ? 2 : 1;
    for (int round = 0; round < rounds; ++round) {
      work.reset();
      node.run([&] {
        for (std::uint32_t k = 0; k < iterations; ++k) work.enqueue_iteration(k + 1 == iterations);
      });
      for (std::uint32_t d = 0; d < devices; ++d) {
        const auto found = work.result(d);
        const auto& same = first.try_emplace(devices, found).first->second;
        EXPECT_TRUE(found == same) << "device " << d << ", round " << round;
      }
      EXPECT_NEAR(work.residual(), cost, 1e-5 * cost);
    }
  });
  for (const auto& [devices, found] : first) {
    SCOPED_TRACE(devices);
    expect_near(found, expected);
  }
}

TEST(ct, is_the_reference) { compare(scan(40, 12, 4, 1), 2); }
// Each ray goes only to the devices whose pixels it crosses. The host node finds a ray that a
// device reads but does not receive.
TEST(ct, of_rays_for_those_that_need_them) {
  compare(scan(40, 12, 4, 1), 2, true);
  compare(scan(100, 4, 2, 3), 1, true);
}
TEST(ct, of_one_subset_and_an_odd_size) { compare(scan(37, 9, 1, 2), 1); }
// Teams of warps share the angles. There are more angles than a kernel prepares at a time.
TEST(ct, of_many_angles) { compare(scan(37, 70, 1, 4), 1); }
// Several blocks share the rays of an angle.
TEST(ct, of_more_than_one_block_of_rays_an_angle) { compare(scan(100, 4, 2, 3), 2); }

// If only one pixel of an image is set, the projection of the image is a column of the system's
// matrix. The projection along a ray is a row of this matrix.
TEST(ct, projects_each_pixel_with_its_length) {
  const std::uint32_t size = 24;
  const std::uint32_t angles = 36;
  scan s(size, angles, 1, 5);
  host::node node({.devices = 1});
  const workload::scan_geometry geometry(size, angles, s.detectors);
  std::vector<workload::ray_family> families;
  for (std::uint32_t a = 0; a < angles; ++a) families.push_back(geometry.rays(a));
  const auto angle_table = workload::put(node, 0, families);
  const std::size_t count = std::size_t{angles} * s.detectors;
  const auto zeros = workload::put(node, 0, std::vector<float>(count, 0.0F));
  const auto ones = workload::put(node, 0, std::vector<float>(count, 1.0F));
  kernel::region_options whole;
  whole.boundaries = {0, std::uint64_t{size} * size};
  const auto image = node.create_region<float>(whole);
  whole.boundaries = {0, count};
  const auto rays = node.create_region<float>(whole);
  const auto cost = node.create_reduction<double, combine::add>(1, 1);
  for (const std::uint32_t pixel : {0U, size - 1, 5 * size + 7, size * size - 1}) {
    std::vector<float> dot(std::size_t{size} * size, 0.0F);
    dot[pixel] = -1;
    node.set_front(image, dot);
    node.run([&] {
      const workload::project_rays project{angle_table,
                                           zeros,
                                           ones,
                                           {},
                                           {},
                                           node.view(image, 0),
                                           node.view(rays, 0),
                                           node.view(cost, 0),
                                           size,
                                           s.detectors,
                                           0,
                                           0,
                                           32,
                                           false};
      using workload::project_rays;
      node.launch(0, project, {angles, project_rays::threads, project_rays::shared_bytes}, rays,
                  kernel::block_mapping::contiguous(0, s.detectors, count));
      node.exchange(rays);
    });
    const auto found = node.front(rays, 0);
    double total = 0;
    for (std::size_t ray = 0; ray < count; ++ray) {
      double length = 0;
      for (const entry& e : s.rays[ray]) length += e.pixel == pixel ? e.length : 0.0;
      const auto& family = families[ray / s.detectors];
      EXPECT_NEAR(found[ray] / family.length, length, 1e-4) << "ray " << ray;
      total += length;
    }
    EXPECT_GT(total, angles * 0.8);
  }
}

TEST(ct, lanes_have_few_pixels_where_images_are_small) {
  // The GPU has 132 multiprocessors and holds 1056 blocks.
  const auto alone = [](std::uint64_t columns, std::uint64_t rows) {
    return workload::rows_of_lane(columns, rows, 1056, false);
  };
  EXPECT_EQ(alone(256, 256), 1U);
  EXPECT_EQ(alone(512, 512), 2U);
  EXPECT_EQ(alone(1024, 512), 4U);
  EXPECT_EQ(alone(2048, 2048), 4U);
  // If kernels send data, a part of the data must be ready early. Lanes therefore have fewer
  // pixels.
  const auto of_two = [](std::uint64_t columns) {
    return workload::rows_of_lane(columns, columns / 2, 1056, true);
  };
  EXPECT_EQ(of_two(1024), 1U);
  EXPECT_EQ(of_two(1100), 2U);
  EXPECT_EQ(of_two(2048), 4U);
  EXPECT_EQ(workload::rows_of_lane(2048, 0, 1056, true), 1U);
}

// A host node that reports as many threads as a GPU has. It finds a pixel that a block stores
// outside of its mapping, and a ray that a device reads but does not receive.
struct holding_node : host::node {
  using host::node::node;
  std::uint64_t threads = 0;
  std::uint64_t threads_at_once(std::uint32_t) const { return threads; }
};

TEST(ct, of_lanes_with_few_pixels) {
  const scan s(100, 4, 2, 3);
  std::vector<double> expected(std::size_t{s.size} * s.size, 0);
  s.iterate(expected);
  struct {
    std::uint64_t at_once;  // number of blocks that fit on a device at the same time
    std::uint32_t pixels;   // number of pixels of each lane; the image has 50 rows of 100 pixels
  } constexpr held[] = {{8, 4}, {16, 2}, {100, 1}};
  std::vector<float> first;
  for (const auto& [at_once, pixels] : held) {
    EXPECT_EQ(workload::rows_of_lane(s.size, s.size / 2, at_once, true), pixels);
    for (const bool to_readers : {false, true}) {
      SCOPED_TRACE(std::to_string(pixels) + (to_readers ? " to readers" : ""));
      holding_node node({.devices = 3, .warp_width = 32, .checks = true});
      node.threads = at_once * workload::renew_pixels<1, 1>::threads;
      auto options = cut(s.size, 3, kernel::mechanism::inline_stores);
      options.boundaries = {0, 5000, 5000, 10000};  // one device has no pixels
      workload::ct work(node, s.view(), options, to_readers);
      node.run([&] { work.enqueue_iteration(false); });
      for (const std::uint32_t d : {0U, 2U}) {
        const auto found = work.result(d);
        if (first.empty()) first = found;
        EXPECT_TRUE(found == first) << "device " << d;
        expect_near(found, expected);
      }
    }
  }
}

TEST(ct, the_cost_falls) {
  const scan s(32, 24, 3, 7);
  test::on_each_node(2, 32, [&](auto& node) {
    workload::ct work(node, s.view(), cut(s.size, 2, kernel::mechanism::bulk_copy));
    double before = HUGE_VAL;
    for (int k = 0; k < 4; ++k) {
      node.run([&] { work.enqueue_iteration(true); });
      EXPECT_LT(work.residual(), before);
      before = work.residual();
    }
  });
}

TEST(ct, refuses_what_it_cannot_use) {
  const scan s(16, 6, 2, 1);
  host::node node({.devices = 1});
  auto options = cut(16, 1, kernel::mechanism::bulk_copy);
  const auto refused = [&](auto change) {
    auto wrong = s.view();
    change(wrong);
    EXPECT_THROW(workload::ct(node, wrong, options), usage_error);
  };
  refused([](auto& v) { v.size = 1; });
  refused([](auto& v) { v.size = 8194; });
  refused([](auto& v) { v.detectors += 1; });
  refused([](auto& v) { v.detectors -= 2; });
  refused([](auto& v) { v.subsets = 4; });
  refused([](auto& v) { v.subsets = 0; });
  refused([](auto& v) { v.angles = 0; });
  options.boundaries.back() -= 1;
  EXPECT_THROW(workload::ct(node, s.view(), options), model_error);
}

}  // namespace
}  // namespace interlace::ct_tests
