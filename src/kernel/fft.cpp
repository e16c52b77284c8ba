#include "interlace/kernel/fft.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

namespace {

using number = complex_number;

number operator+(number a, number b) { return {a.re + b.re, a.im + b.im}; }
number operator-(number a, number b) { return {a.re - b.re, a.im - b.im}; }
number operator*(number a, number b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Transforms of one length and direction by Stockham's method. A stage of radix r takes r numbers
// at distance n / r and stores the transform of these numbers in adjacent places. The results
// therefore end up in order.
class transform {
 public:
  transform(std::uint32_t length, bool forward) : length_(length) {
    const double turn = (forward ? -2 : 2) * std::acos(-1.0);
    const auto root = [&](std::uint64_t k, std::uint64_t n) {
      const double angle = turn * static_cast<double>(k % n) / static_cast<double>(n);
      return number{static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
    };
    for (std::uint32_t rest = length; rest > 1;) {
      std::uint32_t radix = rest % 4 == 0 ? 4 : 2;
      while (rest % radix != 0) ++radix;
      stage s{radix, rest / radix, {}, {}};
      for (std::uint32_t p = 0; p < s.apart; ++p) {
        for (std::uint32_t j = 0; j < radix; ++j) s.twiddles.push_back(root(p * j, rest));
      }
      for (std::uint32_t j = 0; j < radix * radix; ++j) {
        s.roots.push_back(root(j / radix * (j % radix), radix));
      }
      rest = s.apart;
      stages_.push_back(std::move(s));
    }
  }

  // Transforms `columns` columns. `data` and `spare` have the shape [length][columns].
  void run(number* data, number* spare, std::size_t columns) const {
    number* from = data;
    number* to = spare;
    std::size_t inner = columns;
    for (const stage& s : stages_) {
      s.run(from, to, inner);
      std::swap(from, to);
      inner *= s.radix;
    }
    if (from != data) std::copy_n(from, length_ * columns, data);
  }

 private:
  struct stage {
    std::uint32_t radix, apart;
    std::vector<number> twiddles;  // [apart][radix]
    std::vector<number> roots;     // [radix][radix]

    void run(const number* from, number* to, std::size_t inner) const {
      const std::size_t leap = apart * inner;
      for (std::uint32_t p = 0; p < apart; ++p) {
        const number* x = from + p * inner;
        number* y = to + p * radix * inner;
        const number* w = twiddles.data() + p * radix;
        if (radix == 2) {
          for (std::size_t q = 0; q < inner; ++q) {
            const number a = x[q];
            const number b = x[q + leap];
            y[q] = a + b;
            y[q + inner] = (a - b) * w[1];
          }
        } else if (radix == 4) {
          const float sign = roots[5].im;  // sign of a quarter turn
          for (std::size_t q = 0; q < inner; ++q) {
            const number a = x[q] + x[q + 2 * leap];
            const number b = x[q] - x[q + 2 * leap];
            const number c = x[q + leap] + x[q + 3 * leap];
            const number d = x[q + leap] - x[q + 3 * leap];
            const number turned{-sign * d.im, sign * d.re};
            y[q] = a + c;
            y[q + inner] = (b + turned) * w[1];
            y[q + 2 * inner] = (a - c) * w[2];
            y[q + 3 * inner] = (b - turned) * w[3];
          }
        } else {
          for (std::uint32_t j = 0; j < radix; ++j) {
            for (std::size_t q = 0; q < inner; ++q) {
              number sum{0, 0};
              for (std::uint32_t k = 0; k < radix; ++k) {
                sum = sum + x[q + k * leap] * roots[j * radix + k];
              }
              y[q + j * inner] = sum * w[j];
            }
          }
        }
      }
    }
  };

  std::size_t length_;
  std::vector<stage> stages_;
};

// Transforms two real rows as one complex row. The real part of the complex row is the first row,
// and the imaginary part is the second. `pair` and `spare` have room for one complex row each.
// `row(k)` is row k, and `half_row(k)` is the place for its transform. If the number of rows is
// odd, the last row is transformed together with itself.
class real_rows {
 public:
  explicit real_rows(std::uint32_t length, bool forward)
      : length_(length), along_(length, forward), pair_(length), spare_(length) {}

  void forward(const float* a, const float* b, number* to_a, number* to_b) {
    for (std::size_t k = 0; k < length_; ++k) pair_[k] = {a[k], b[k]};
    along_.run(pair_.data(), spare_.data(), 1);
    for (std::size_t k = 0; k <= length_ / 2; ++k) {
      const number z = pair_[k];
      const number m = pair_[(length_ - k) % length_];
      to_a[k] = {0.5F * (z.re + m.re), 0.5F * (z.im - m.im)};
      to_b[k] = {0.5F * (z.im + m.im), 0.5F * (m.re - z.re)};
    }
  }

  void backward(const number* a, const number* b, float* to_a, float* to_b) {
    for (std::size_t k = 0; k <= length_ / 2; ++k) {
      // These two numbers of a real row's transform are real.
      const bool real = k == 0 || 2 * k == length_;
      const number x{a[k].re, real ? 0 : a[k].im};
      const number y{b[k].re, real ? 0 : b[k].im};
      pair_[k] = {x.re - y.im, x.im + y.re};
      if (!real) pair_[length_ - k] = {x.re + y.im, y.re - x.im};
    }
    along_.run(pair_.data(), spare_.data(), 1);
    for (std::size_t k = 0; k < length_; ++k) {
      to_a[k] = pair_[k].re;
      to_b[k] = pair_[k].im;
    }
  }

 private:
  std::size_t length_;
  transform along_;
  std::vector<number> pair_, spare_;
};

void run_columns(const fft& f) {
  const transform columns(f.length, f.kind == fft_kind::columns_forward);
  std::vector<number> spare(std::size_t{f.length} * f.count);
  columns.run(f.spectrum.data, spare.data(), f.count);
}

void run_planes(const fft& f) {
  const bool forward = f.kind == fft_kind::planes_forward;
  const std::size_t n = f.length;
  const std::size_t half = f.half();
  const transform columns(f.length, forward);
  real_rows rows(f.length, forward);
  std::vector<number> spare(n * half);
  for (std::size_t plane = 0; plane < f.count; ++plane) {
    number* spectrum = f.spectrum.data + plane * n * half;
    float* points = f.points.data + plane * n * n;
    if (!forward) columns.run(spectrum, spare.data(), half);
    for (std::size_t row = 0; row < n; row += 2) {
      const std::size_t other = std::min(row + 1, n - 1);
      number* a = spectrum + row * half;
      number* b = spectrum + other * half;
      if (forward) {
        rows.forward(points + row * n, points + other * n, a, b);
      } else {
        rows.backward(a, b, points + row * n, points + other * n);
      }
    }
    if (forward) columns.run(spectrum, spare.data(), half);
  }
}

}  // namespace

library_call fft_call(const fft& f) {
  const bool planes = f.kind == fft_kind::planes_forward || f.kind == fft_kind::planes_backward;
  const std::uint64_t complexes =
      std::uint64_t{f.count} * f.length * (planes ? f.half() : std::uint64_t{1});
  const std::uint64_t reals = planes ? std::uint64_t{f.count} * f.length * f.length : 0;
  if (f.length == 0 || f.spectrum.size < complexes || f.points.size < reals) {
    throw model_error("a Fourier transform of length " + std::to_string(f.length) +
                      " does not fit into its arrays");
  }
  const double logarithm = std::log2(static_cast<double>(f.length));
  const auto flops = [&](std::uint64_t numbers) {
    return static_cast<std::uint64_t>(5 * logarithm * static_cast<double>(numbers));
  };
  const std::uint64_t spectrum_bytes = complexes * sizeof(complex_number);
  const std::uint64_t point_bytes = reals * sizeof(float);
  library_call call;
  call.name = "fft";
  call.operations.fp32 = flops(complexes) + flops(reals) / 2;
  // Adds a sweep of one kernel of the call. The call has one kernel for each dimension.
  const auto sweep = [&](bool spectrum, bool writes, std::uint32_t kernel) {
    const void* data = spectrum ? static_cast<const void*>(f.spectrum.data) : f.points.data;
    const std::uint64_t bytes = spectrum ? spectrum_bytes : point_bytes;
    call.sweeps.push_back({.data = data, .bytes = bytes, .writes = writes, .kernel = kernel});
    (writes ? call.bytes_written : call.bytes_read) += bytes;
  };
  if (!planes) {
    sweep(true, false, 0);
    sweep(true, true, 0);
    call.on_cpu = [f] { run_columns(f); };
  } else {
    const bool forward = f.kind == fft_kind::planes_forward;
    sweep(!forward, false, 0);
    sweep(true, true, 0);
    sweep(true, false, 1);
    sweep(forward, true, 1);
    call.on_cpu = [f] { run_planes(f); };
  }
  return call;
}

}  // namespace interlace::kernel
