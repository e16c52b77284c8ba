// The tests compare the results of Fourier transforms with sums in double precision.
#include "interlace/kernel/fft.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/random.hpp"

namespace interlace::fft_tests {
namespace {

using kernel::complex_number;
using kernel::fft;
using kernel::fft_kind;
using wide = std::complex<double>;

constexpr std::uint32_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 30, 32, 49, 64};

// Transforms every `apart`-th element of `from`.
std::vector<wide> transformed(const std::vector<wide>& from, std::size_t first, std::size_t apart,
                              std::size_t n, int sign) {
  std::vector<wide> to(n);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < n; ++k) {
      const double angle = 2 * std::acos(-1.0) * sign * static_cast<double>(j * k % n);
      to[j] += from[first + k * apart] * std::polar(1.0, angle / static_cast<double>(n));
    }
  }
  return to;
}

std::vector<complex_number> random_numbers(std::size_t n, std::uint32_t seed) {
  test::random_numbers random(seed);
  std::vector<complex_number> all(n);
  for (complex_number& c : all) c = {2 * random.unit() - 1, 2 * random.unit() - 1};
  return all;
}

std::vector<wide> widened(const std::vector<complex_number>& from) {
  std::vector<wide> to;
  for (const complex_number& c : from) to.emplace_back(c.re, c.im);
  return to;
}

void expect_near(const complex_number& found, wide expected, std::uint32_t n) {
  const double most = 4e-7 * n;
  EXPECT_NEAR(found.re, expected.real(), most);
  EXPECT_NEAR(found.im, expected.imag(), most);
}

TEST(fft, of_columns) {
  for (const std::uint32_t n : lengths) {
    SCOPED_TRACE(n);
    const std::uint32_t count = 1 + n % 5;
    for (const bool forward : {true, false}) {
      auto data = random_numbers(std::size_t{n} * count, n);
      const auto before = widened(data);
      const auto kind = forward ? fft_kind::columns_forward : fft_kind::columns_backward;
      kernel::fft_call({kind, n, count, {data.data(), data.size()}, {}}).on_cpu();
      for (std::uint32_t c = 0; c < count; ++c) {
        const auto expected = transformed(before, c, count, n, forward ? -1 : 1);
        for (std::uint32_t j = 0; j < n; ++j) expect_near(data[j * count + c], expected[j], n);
      }
    }
  }
}

TEST(fft, of_planes_forward) {
  for (const std::uint32_t n : lengths) {
    SCOPED_TRACE(n);
    const std::uint32_t planes = 2;
    const std::uint32_t half = n / 2 + 1;
    test::random_numbers random(n);
    std::vector<float> points(std::size_t{planes} * n * n);
    for (float& p : points) p = 2 * random.unit() - 1;
    std::vector<complex_number> spectrum(std::size_t{planes} * n * half, {NAN, NAN});
    kernel::fft_call({fft_kind::planes_forward,
                      n,
                      planes,
                      {spectrum.data(), spectrum.size()},
                      {points.data(), points.size()}})
        .on_cpu();
    for (std::uint32_t plane = 0; plane < planes; ++plane) {
      std::vector<wide> rows;
      for (std::uint32_t row = 0; row < n; ++row) {
        const float* first = points.data() + (std::size_t{plane} * n + row) * n;
        const auto one = transformed({first, first + n}, 0, 1, n, -1);
        rows.insert(rows.end(), one.begin(), one.end());
      }
      for (std::uint32_t x = 0; x < half; ++x) {
        const auto expected = transformed(rows, x, n, n, -1);
        for (std::uint32_t y = 0; y < n; ++y) {
          expect_near(spectrum[(std::size_t{plane} * n + y) * half + x], expected[y], n * n);
        }
      }
    }
  }
}

TEST(fft, of_planes_backward_undoes_it) {
  for (const std::uint32_t n : lengths) {
    SCOPED_TRACE(n);
    test::random_numbers random(n);
    std::vector<float> points(std::size_t{3} * n * n);
    for (float& p : points) p = 2 * random.unit() - 1;
    const auto before = points;
    std::vector<complex_number> spectrum(std::size_t{3} * n * (n / 2 + 1), {NAN, NAN});
    fft f{fft_kind::planes_forward,
          n,
          3,
          {spectrum.data(), spectrum.size()},
          {points.data(), points.size()}};
    kernel::fft_call(f).on_cpu();
    std::fill(points.begin(), points.end(), NAN);
    f.kind = fft_kind::planes_backward;
    kernel::fft_call(f).on_cpu();
    for (std::size_t i = 0; i < points.size(); ++i) {
      ASSERT_NEAR(points[i] / static_cast<float>(n * n), before[i], 2e-6) << i;
    }
  }
}

TEST(fft, takes_a_pass_for_each_dimension) {
  std::vector<complex_number> spectrum(std::size_t{2} * 16 * 9);
  std::vector<float> points(std::size_t{2} * 16 * 16);
  const local<complex_number> s{spectrum.data(), spectrum.size()};
  const local<float> p{points.data(), points.size()};
  const auto columns = kernel::fft_call({fft_kind::columns_backward, 16, 18, s, {}});
  EXPECT_EQ(columns.bytes_read, 8 * 288);
  EXPECT_EQ(columns.bytes_written, 8 * 288);
  EXPECT_EQ(columns.operations.fp32, 5 * 4 * 288);
  const auto forward = kernel::fft_call({fft_kind::planes_forward, 16, 2, s, p});
  EXPECT_EQ(forward.bytes_read, 4 * 512 + 8 * 288);
  EXPECT_EQ(forward.bytes_written, 2 * 8 * 288);
  const auto backward = kernel::fft_call({fft_kind::planes_backward, 16, 2, s, p});
  EXPECT_EQ(backward.bytes_read, forward.bytes_written);
  EXPECT_EQ(backward.bytes_written, forward.bytes_read);
  EXPECT_EQ(forward.operations.fp32, 5 * 4 * 288 + 5 * 4 * 512 / 2);
}

TEST(fft, refuses_arrays_that_are_too_short) {
  std::vector<complex_number> spectrum(15);
  const local<complex_number> s{spectrum.data(), spectrum.size()};
  EXPECT_THROW(kernel::fft_call({fft_kind::columns_forward, 4, 4, s, {}}), model_error);
  EXPECT_THROW(kernel::fft_call({fft_kind::columns_forward, 0, 4, s, {}}), model_error);
  EXPECT_THROW(kernel::fft_call({fft_kind::planes_forward, 4, 1, s, {}}), model_error);
}

}  // namespace
}  // namespace interlace::fft_tests
