// Compares the results of matrix factorisation with plain loops in double precision.
#include "workload/als.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "each_node.hpp"
#include "sim/trace/temporary_file.hpp"
#include "workload/random.hpp"
#include "workload/shared/als_sgd.hpp"

namespace interlace::als_tests {
namespace {

using workload::rating_rows;

struct rating {
  std::uint32_t user, item;
  float value;
};

struct side {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> others;
  std::vector<float> values;
  std::uint64_t rows() const { return offsets.size() - 1; }
};

struct ratings {
  side users, items;
  workload::rating_matrix view() const {
    return {users.rows(),        items.rows(),         users.offsets.data(), users.others.data(),
            users.values.data(), items.offsets.data(), items.others.data(),  items.values.data()};
  }
};

template <class Row, class Other>
side by_rows(const std::vector<rating>& all, std::uint32_t rows, Row row, Other other) {
  side s;
  s.offsets.assign(rows + 1, 0);
  for (const rating& r : all) ++s.offsets[row(r) + 1];
  for (std::uint32_t k = 0; k < rows; ++k) s.offsets[k + 1] += s.offsets[k];
  std::vector<std::uint64_t> at(s.offsets.begin(), s.offsets.end() - 1);
  s.others.resize(all.size());
  s.values.resize(all.size());
  for (const rating& r : all) {
    const std::uint64_t e = at[row(r)]++;
    s.others[e] = other(r);
    s.values[e] = r.value;
  }
  return s;
}

// Some rows have no ratings, and some have few. Some have as many ratings as a warp holds at a
// time, or one more. Some have enough ratings for several parts.
ratings skewed(std::uint32_t users, std::uint32_t items, std::uint32_t seed) {
  test::random_numbers random(seed);
  std::vector<rating> all;
  const auto add = [&](std::uint32_t user, std::uint32_t item) {
    all.push_back({user, item, 1.0F + 4.0F * random.unit()});
  };
  for (std::uint32_t u = 0; u < users; ++u) {
    if (u % 11 == 3) continue;
    std::uint32_t count = 1 + random.below(25);
    if (u == 20) count = rating_rows::part_ratings;
    if (u == 21) count = rating_rows::part_ratings + 1;
    if (u == users - 1) count = 2 * rating_rows::part_ratings + 40;
    if (u == 30) count = 36;
    if (u == 31) count = 37;
    if (u == 32) count = 64;
    for (std::uint32_t k = 0; k < count; ++k) {
      // A few items have many ratings. The last tenth of the items has no ratings.
      add(u, random.below(1 + random.below(items - items / 10)));
    }
  }
  return {by_rows(
              all, users, [](const rating& r) { return r.user; },
              [](const rating& r) { return r.item; }),
          by_rows(
              all, items, [](const rating& r) { return r.item; },
              [](const rating& r) { return r.user; })};
}

std::vector<float> start_values(std::uint64_t n, std::uint32_t seed) {
  test::random_numbers random(seed);
  std::vector<float> values(n);
  std::generate(values.begin(), values.end(), [&] { return random.unit(); });
  return values;
}

template <std::uint32_t F>
workload::factors start_factors(const ratings& r) {
  return {start_values(r.users.rows() * F, 1), start_values(r.items.rows() * F, 2)};
}

std::vector<double> widened(const std::vector<float>& v) { return {v.begin(), v.end()}; }

// Solves A x = b by elimination with pivoting.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t best = k;
    for (std::size_t i = k; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[best][k])) best = i;
    }
    std::swap(a[k], a[best]);
    std::swap(b[k], b[best]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double by = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= by * a[k][j];
      b[i] -= by * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

void renew_by_equations(const side& s, std::vector<double>& own, const std::vector<double>& other,
                        std::size_t f, double lambda) {
  for (std::uint64_t r = 0; r < s.rows(); ++r) {
    const auto n = static_cast<double>(s.offsets[r + 1] - s.offsets[r]);
    std::vector<std::vector<double>> a(f, std::vector<double>(f, 0.0));
    std::vector<double> b(f, 0.0);
    for (std::size_t i = 0; i < f; ++i) a[i][i] = n == 0 ? 1 : lambda * n;
    for (std::uint64_t e = s.offsets[r]; e < s.offsets[r + 1]; ++e) {
      const double* y = &other[s.others[e] * f];
      for (std::size_t i = 0; i < f; ++i) {
        for (std::size_t j = 0; j < f; ++j) a[i][j] += y[i] * y[j];
        b[i] += static_cast<double>(s.values[e]) * y[i];
      }
    }
    const auto x = solve(a, b);
    std::copy(x.begin(), x.end(), own.begin() + static_cast<std::ptrdiff_t>(r * f));
  }
}

void renew_by_steps(const side& s, std::vector<double>& own, const std::vector<double>& other,
                    std::size_t f, double lambda, double rate, std::uint32_t steps) {
  for (std::uint64_t r = 0; r < s.rows(); ++r) {
    const auto n = static_cast<double>(s.offsets[r + 1] - s.offsets[r]);
    double* x = &own[r * f];
    for (std::uint32_t step = 0; step < steps && n > 0; ++step) {
      std::vector<double> sum(f, 0.0);
      for (std::uint64_t e = s.offsets[r]; e < s.offsets[r + 1]; ++e) {
        const double* y = &other[s.others[e] * f];
        auto error = static_cast<double>(s.values[e]);
        for (std::size_t k = 0; k < f; ++k) error -= x[k] * y[k];
        for (std::size_t k = 0; k < f; ++k) sum[k] += error * y[k];
      }
      for (std::size_t k = 0; k < f; ++k) x[k] += rate * (sum[k] / n - lambda * x[k]);
    }
  }
}

double squared_error(const ratings& r, const std::vector<double>& users,
                     const std::vector<double>& items, std::size_t f) {
  double sum = 0;
  for (std::uint64_t i = 0; i < r.items.rows(); ++i) {
    for (std::uint64_t e = r.items.offsets[i]; e < r.items.offsets[i + 1]; ++e) {
      auto error = static_cast<double>(r.items.values[e]);
      for (std::size_t k = 0; k < f; ++k) {
        error -= users[r.items.others[e] * f + k] * items[i * f + k];
      }
      sum += error * error;
    }
  }
  return sum;
}

// The tolerance is relative to the largest number.
void expect_close(const std::vector<float>& found, const std::vector<double>& expected,
                  double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - expected[i]));
    ASSERT_FALSE(std::isnan(found[i])) << i;
  }
  EXPECT_LE(worst, tolerance * largest);
}

kernel::region_options cut(std::uint64_t rows, std::uint32_t f, std::uint32_t devices,
                           kernel::mechanism how) {
  kernel::region_options o;
  o.mechanism = how;
  o.split_ranges = 3;
  for (std::uint32_t d = 0; d <= devices; ++d) o.boundaries.push_back(rows * d / devices * f);
  return o;
}

constexpr float lambda = 0.05F;

template <std::uint32_t F, class Node>
auto make_als(Node& node, const ratings& r, std::uint32_t devices, kernel::mechanism how) {
  return workload::als<Node, F>(node, r.view(), cut(r.users.rows(), F, devices, how),
                                cut(r.items.rows(), F, devices, how), lambda);
}

template <std::uint32_t F>
void compare_als(std::uint32_t iterations) {
  const auto r = skewed(48, 24, 1);
  const auto start = start_factors<F>(r);
  auto users = widened(start.users);
  auto items = widened(start.items);
  for (std::uint32_t k = 0; k < iterations; ++k) {
    renew_by_equations(r.users, users, items, F, lambda);
    renew_by_equations(r.items, items, users, F, lambda);
  }
  const double expected = squared_error(r, users, items, F);
  // The first results for each warp width. The order in which lanes add numbers depends on the
  // width.
  std::map<std::uint32_t, workload::factors> first;
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t width, auto how) {
    auto work = make_als<F>(node, r, devices, how);
    const int rounds = how == kernel::mechanism::bulk_copy ? 2 : 1;
    for (int round = 0; round < rounds; ++round) {
      work.reset(start);
      node.run([&] {
        for (std::uint32_t k = 0; k < iterations; ++k) work.enqueue_iteration(k + 1 == iterations);
      });
      const auto all = first.try_emplace(width, work.factors(0)).first->second;
      for (std::uint32_t d = 0; d < devices; ++d) {
        const auto found = work.factors(d);
        EXPECT_EQ(found.users, all.users) << "device " << d << ", round " << round;
        EXPECT_EQ(found.items, all.items) << "device " << d << ", round " << round;
      }
      EXPECT_NEAR(work.residual(), expected, 1e-4 * expected);
    }
  });
  for (const auto& [width, found] : first) {
    SCOPED_TRACE(width);
    expect_close(found.users, users, 2e-4);
    expect_close(found.items, items, 2e-4);
  }
}

TEST(als, solves_the_normal_equations_of_16) { compare_als<16>(2); }
TEST(als, solves_the_normal_equations_of_32) { compare_als<32>(1); }

TEST(als, the_error_falls) {
  const auto r = skewed(80, 40, 3);
  test::on_each_node(2, 32, [&](auto& node) {
    auto work = make_als<16>(node, r, 2, kernel::mechanism::bulk_copy);
    work.reset(start_factors<16>(r));
    double before = HUGE_VAL;
    for (int k = 0; k < 4; ++k) {
      node.run([&] { work.enqueue_iteration(true); });
      EXPECT_LT(work.residual(), before);
      before = work.residual();
    }
  });
}

template <std::uint32_t F, template <class, std::uint32_t> class Sgd>
void compare_sgd(std::uint32_t steps, std::uint32_t iterations) {
  constexpr float rate = 0.02F;
  const auto r = skewed(48, 24, 2);
  const auto start = start_factors<F>(r);
  auto users = widened(start.users);
  auto items = widened(start.items);
  const double before = squared_error(r, users, items, F);
  for (std::uint32_t k = 0; k < iterations; ++k) {
    renew_by_steps(r.users, users, items, F, lambda, rate, steps);
    renew_by_steps(r.items, items, users, F, lambda, rate, steps);
  }
  const double expected = squared_error(r, users, items, F);
  EXPECT_LT(expected, before);
  std::map<std::uint32_t, workload::factors> first;
  test::on_every_node([&](auto& node, std::uint32_t devices, std::uint32_t width, auto how) {
    using node_type = std::remove_reference_t<decltype(node)>;
    Sgd<node_type, F> work(node, r.view(), cut(r.users.rows(), F, devices, how),
                           cut(r.items.rows(), F, devices, how), lambda, rate, steps);
    const int rounds = how == kernel::mechanism::bulk_copy ? 2 : 1;
    for (int round = 0; round < rounds; ++round) {
      work.reset(start);
      node.run([&] {
        for (std::uint32_t k = 0; k < iterations; ++k) work.enqueue_iteration(k + 1 == iterations);
      });
      const auto all = first.try_emplace(width, work.factors(0)).first->second;
      for (std::uint32_t d = 0; d < devices; ++d) {
        const auto found = work.factors(d);
        EXPECT_EQ(found.users, all.users) << "device " << d << ", round " << round;
        EXPECT_EQ(found.items, all.items) << "device " << d << ", round " << round;
      }
      EXPECT_NEAR(work.residual(), expected, 1e-5 * expected);
    }
  });
  for (const auto& [width, found] : first) {
    SCOPED_TRACE(width);
    expect_close(found.users, users, 1e-5);
    expect_close(found.items, items, 1e-5);
  }
}

TEST(als_sgd, one_step_of_16) { compare_sgd<16, workload::als_sgd>(1, 2); }
TEST(als_sgd, three_steps_of_32) { compare_sgd<32, workload::als_sgd>(3, 1); }
TEST(als_sgd, one_step_of_16_by_lane) { compare_sgd<16, workload::als_sgd_by_lane>(1, 2); }
TEST(als_sgd, three_steps_of_32_by_lane) { compare_sgd<32, workload::als_sgd_by_lane>(3, 1); }

// Kernels declare some stretches as repeated. This function checks them: a recorded run, in which
// the simulator observes every lane, must take the same time, to the picosecond.
template <class Work, class... Method>
void expect_repeats(std::uint32_t f, Method... method) {
  const auto r = skewed(80, 40, 5);
  for (const std::uint32_t width : {32U, 64U}) {
    auto machine = test::meshed(2, machine::protocol_kind::nvlink2);
    machine.gpu.warp_width = width;
    const auto run = [&](const std::string& record_to) {
      sim::node node(machine, 2, [] {});
      const auto how = kernel::mechanism::inline_stores;
      Work work(node, r.view(), cut(r.users.rows(), f, 2, how), cut(r.items.rows(), f, 2, how),
                method...);
      work.reset({start_values(r.users.rows() * f, 1), start_values(r.items.rows() * f, 2)});
      if (!record_to.empty()) node.record(record_to);
      const auto result = node.run([&] {
        for (int k = 0; k < 2; ++k) work.enqueue_iteration(true);
      });
      if (!record_to.empty()) node.finish_recording();
      return result;
    };
    const test::temporary_file file;
    const auto every_lane = run(file.path());
    const auto repeated = run("");
    EXPECT_EQ(repeated.time_s, every_lane.time_s) << width;
    EXPECT_EQ(repeated.accesses, every_lane.accesses) << width;
  }
}

TEST(als, repeated_stretches_do_repeat) {
  expect_repeats<workload::als<sim::node, 16>>(16, lambda);
  expect_repeats<workload::als<sim::node, 32>>(32, lambda);
}
TEST(als_sgd, repeated_stretches_do_repeat) {
  expect_repeats<workload::als_sgd<sim::node, 16>>(16, lambda, 0.02F, 2U);
  expect_repeats<workload::als_sgd<sim::node, 32>>(32, lambda, 0.02F, 1U);
}

// Each lane has its own row, and stores the 16 numbers of the row one by one. No two lanes store
// adjacent numbers at the same time, so no stores are merged.
TEST(als_sgd, lanes_store_one_number_each) {
  const auto r = skewed(80, 40, 2);
  auto machine = test::meshed(2, machine::protocol_kind::nvlink2);
  sim::node node(machine, 2, [] {});
  const auto how = kernel::mechanism::inline_stores;
  workload::als_sgd_by_lane<sim::node> work(node, r.view(), cut(r.users.rows(), 16, 2, how),
                                            cut(r.items.rows(), 16, 2, how), lambda, 0.02F, 1);
  work.reset(start_factors<16>(r));
  const auto stores = node.run([&] { work.enqueue_iteration(false); }).stores;
  EXPECT_EQ(stores.stores, (r.users.rows() + r.items.rows()) * 16);
  EXPECT_EQ(stores.bytes, 4 * stores.stores);
}

TEST(als, refuses_what_it_cannot_use) {
  const auto r = skewed(40, 20, 4);
  host::node node({.devices = 1});
  const auto users = cut(r.users.rows(), 16, 1, kernel::mechanism::bulk_copy);
  auto items = cut(r.items.rows(), 16, 1, kernel::mechanism::bulk_copy);
  using als = workload::als<host::node>;
  using als_sgd = workload::als_sgd<host::node>;
  EXPECT_THROW(als(node, r.view(), users, items, 0), usage_error);
  EXPECT_THROW(als_sgd(node, r.view(), users, items, 0.1F, 0.1F, 0), usage_error);
  items.boundaries.back() -= 1;
  EXPECT_THROW(als(node, r.view(), users, items, 0.1F), model_error);
}

}  // namespace
}  // namespace interlace::als_tests
