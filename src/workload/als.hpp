// Matrix factorisation by alternating least squares with weighted regularisation (Zhou, Wilkinson,
// Schreiber and Pan, 2008): a row of n ratings r of factors y gets the x that minimises
//
//   sum of (r - x . y)^2 + lambda * n * |x|^2,   that is,   (Y^T Y + lambda n I) x = Y^T r,
//
// solved in float32 by Cholesky. A row without ratings gets 0.
//
// A rating costs at least F (F + 1) / 2 + F multiply-adds (152 for F = 16, 560 for 32) and 8 + 4 F
// bytes, of which 8 come from memory and the gathered factor from the L2 where that holds the other
// side. A row adds F^3 / 6 multiply-adds and 8 F + 12 bytes. On an H200 that is 1.2 clocks a rating
// of a multiprocessor's float32 lanes and 1.7 of the L2 for F = 16, and 4.4 and 3.5 for F = 32.
//
// The lower triangle of the F x F sums is ten square tiles of a quarter of F; a lane holds one in
// registers, and a group of ten lanes takes a rating, so a warp takes three at a time (six where
// it is 64 wide). That makes 5 F^2 / 8 multiply-adds of a rating, and 5 F words that lanes read of
// shared memory, 16 bytes at a time: 2.7 clocks for F = 16, its limit, and 5.3 for F = 32, as many
// as its multiply-adds on 30 of 32 lanes take.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "workload/factorisation.hpp"

namespace interlace::workload {

INTERLACE_HOST_DEVICE float inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(x);
#else
  return 1.0F / std::sqrt(x);
#endif
}

// f(k) for k from 0 to N - 1. On a GPU each is a constant, so that it may index what lies in
// registers; elsewhere that would only be N times the code to compile.
template <std::uint32_t N, class F>
INTERLACE_KERNEL void unrolled(const F& f) {
#if defined(__CUDACC__)
  [&]<std::uint32_t... K>(std::integer_sequence<std::uint32_t, K...>) {
    (f(std::integral_constant<std::uint32_t, K>{}), ...);
  }
  (std::make_integer_sequence<std::uint32_t, N>{});
#else
  for (std::uint32_t k = 0; k < N; ++k) f(k);
#endif
}

// Row by row, the lower triangle of a symmetric matrix. Lanes that take a row each find element j
// of them in 32 different banks.
INTERLACE_HOST_DEVICE constexpr std::uint32_t triangle(std::uint32_t row, std::uint32_t column) {
  return row * (row + 1) / 2 + column;
}

template <std::uint32_t F>
struct normal_equations {
  static_assert(F == 16 || F == 32, "a warp has a lane a number, and tiles are loaded as vectors");
  static constexpr std::uint32_t factor = F;
  static constexpr std::uint32_t triangle_size = triangle(F, 0);
  static constexpr std::uint32_t record = triangle_size + F;  // Y^T Y, then Y^T r
  static constexpr std::uint32_t tiles = 10;
  static constexpr std::uint32_t tile_side = F / 4;
  static constexpr std::uint32_t chunk = 36;  // ratings staged at a time: whole rounds of groups
  // Columns of the Cholesky factor: starts stay aligned, and a row is spread over the banks.
  static constexpr std::uint32_t column = F + 4;
  static constexpr std::uint32_t scratch = chunk > column ? chunk* F : column* F;  // of a warp
  static_assert(record <= scratch);
  static constexpr std::uint32_t shared_floats = rating_rows::per_block * scratch;

  float lambda = 0;

  static constexpr std::uint32_t steps() { return 1; }
  normal_equations at_step(std::uint32_t, const local<float>&) const { return *this; }

  template <class Block>
  class worker {
    struct tile_sums {
      float v[tile_side * tile_side];
    };
    struct numbers {
      float v[F];
    };
    template <class T>
    using state = decltype(lane_state<T>(std::declval<Block&>()));

   public:
    INTERLACE_KERNEL worker(Block& block, const normal_equations& method,
                            const rating_rows& ratings, const replicated<float>& own)
        : staged(shared<float>(block, shared_floats)),
          lambda_(method.lambda),
          ratings_(ratings),
          own_(own),
          width_(block.warp_width()),
          sums_(lane_state<tile_sums>(block)),
          row_(lane_state<numbers>(block)),
          right_(lane_state<float>(block)),
          inverse_(lane_state<float>(block)),
          pivot_(lane_state<float>(block)) {}

    decltype(shared<float>(std::declval<Block&>(), 0)) staged;

    template <class Warp>
    INTERLACE_KERNEL std::uint32_t record_at(const Warp& warp) const {
      return warp.index() * scratch;
    }
    template <class Warp>
    INTERLACE_KERNEL void start(const Warp&, std::uint32_t) const {}

    template <class Warp>
    INTERLACE_KERNEL void accumulate(const Warp& warp, const replicated<float>& other,
                                     std::uint32_t begin, std::uint32_t end) const {
      const std::uint32_t base = record_at(warp);
      const std::uint32_t groups = width_ / tiles;
      warp.repeated(0, [&](const auto& same) {
        same.each([&](auto lane) {
          right_[lane] = 0;
          for (float& s : sums_[lane].v) s = 0;
          lane.compute(operation::integer, 11);  // of the lane's group
        });
      });
      for (std::uint32_t first = begin; first < end; first += chunk) {
        const std::uint32_t count = end - first < chunk ? end - first : chunk;
        warp.repeated(count, [&](const auto& same) {
          gather_factors<F>(same, width_, ratings_, other, first, count,
                            [&](const auto& lane, std::uint32_t j, std::uint32_t k, float y) {
                              lane.store(staged, base + j * F + k, y);
                              right_[lane] += y * lane.load(ratings_.values, j + first);
                            });
          same.each([&](auto lane) {
            // Those of the right side, above, and of the loop.
            const std::uint32_t turns = passes<F>(count, width_);
            lane.compute({.fp32 = turns, .integer = 2 * turns + 5});
            const place p = place_of(lane);
            if (p.group < groups) add_products(lane, base, p, count, groups);
          });
        });
      }
      warp.repeated(0, [&](const auto& same) { make_record(same, base, groups); });
    }

    template <class Warp>
    INTERLACE_KERNEL void finish(const Warp& warp, std::uint32_t n) const {
      warp.repeated(n == 0, [&](const auto& same) { solve(same, n); });
    }

    template <class Lane>
    INTERLACE_KERNEL void store(const Lane& lane, std::uint32_t row) const {
      lane.store(own_, (ratings_.first_row + row) * F + lane.in_warp(), right_[lane]);
    }

   private:
    // The sums of all lanes, in shared memory.
    template <class Warp>
    INTERLACE_KERNEL void make_record(const Warp& warp, std::uint32_t base,
                                      std::uint32_t groups) const {
      for (std::uint32_t apart = F; apart < width_; apart *= 2) {
        const auto more = warp.shuffle_xor(right_, apart);
        warp.each([&](auto lane) { right_[lane] += more[lane]; });
      }
      // Group after group, for lack of a shuffle between lanes ten apart.
      for (std::uint32_t group = 0; group < groups; ++group) {
        warp.each([&](auto lane) {
          const place p = place_of(lane);
          lane.compute(operation::integer, 2);
          if (p.group == group) add_to_record(lane, base, p);
        });
      }
      warp.each([&](auto lane) {
        // Of where the rows of the lane's tile are in the record, and of the right side.
        lane.compute(operation::integer, (F == 16 ? 40 : 55) + 1);
        if (lane.in_warp() >= F) return;
        lane.store(staged, base + triangle_size + lane.in_warp(), right_[lane]);
        lane.compute(operation::integer, 2);
      });
    }

    // A lane has a row of the matrix.
    template <class Warp>
    INTERLACE_KERNEL void solve(const Warp& warp, std::uint32_t n) const {
      const std::uint32_t base = record_at(warp);
      const float ridge = lambda_ * static_cast<float>(n);
      warp.each([&](auto lane) {
        const std::uint32_t i = lane.in_warp();
        lane.compute(operation::integer, 6);  // of the warp's place and what follows for a row
        if (i >= F) return;
        for (auto j : lane.range(0U, F)) {
          const float a = j > i ? 0.0F : lane.load(staged, base + triangle(i, j));
          row_[lane].v[j] = j == i ? a + ridge : a;
        }
        right_[lane] = lane.load(staged, base + triangle_size + i);
        // Comparisons of i with each j for the two choices above, and addresses.
        lane.compute(operation::integer, 2 * F + 6);
      });
      if (n == 0) {
        warp.each([&](auto lane) { right_[lane] = 0; });
        return;
      }
      // L L^T = A and L z = b together; column k of L goes to shared memory.
      unrolled<F>([&](auto step) {
        const std::uint32_t k = step;
        warp.each([&](auto lane) { pivot_[lane] = row_[lane].v[k]; });
        const auto pivot = warp.shuffle(pivot_, k);
        const auto right = warp.shuffle(right_, k);
        warp.each([&](auto lane) {
          const std::uint32_t i = lane.in_warp();
          if (i >= F) return;
          const float inverse = inverse_root(pivot[lane]);
          const float l = row_[lane].v[k] * inverse;
          lane.store(staged, base + k * column + i, l);
          row_[lane].v[k] = l;
          const float z = right[lane] * inverse;
          if (i > k) right_[lane] -= l * z;
          if (i == k) right_[lane] = z;
          if (i == k) inverse_[lane] = inverse;
          lane.compute(operation::fp32, 5);
          lane.compute(operation::special, 1);
          lane.compute(operation::integer, 5);
        });
        warp.each([&](auto lane) {
          if (lane.in_warp() >= F) return;
          for (auto j : lane.range(k + 1, F)) {
            row_[lane].v[j] -= row_[lane].v[k] * lane.load(staged, base + k * column + j);
          }
          lane.compute(operation::fp32, F - 1 - k);
        });
      });
      // L^T x = z from below: a lane's number is done when all below it are.
      warp.each([&](auto lane) {
        pivot_[lane] = right_[lane] * inverse_[lane];
        lane.compute(operation::integer, 4);
      });
      for (std::uint32_t k = F - 1; k > 0; --k) {
        const auto below = warp.shuffle(pivot_, k);
        warp.each([&](auto lane) {
          const std::uint32_t i = lane.in_warp();
          lane.compute(operation::integer, 1);
          if (i >= k) return;
          right_[lane] -= below[lane] * lane.load(staged, base + i * column + k);
          pivot_[lane] = right_[lane] * inverse_[lane];
          lane.compute(operation::fp32, 2);
        });
      }
      warp.each([&](auto lane) { right_[lane] = pivot_[lane]; });
    }

    // The tile that a lane holds, and which of the ratings in flight it takes.
    struct place {
      std::uint32_t group, row, column;
    };
    template <class Lane>
    static INTERLACE_KERNEL place place_of(const Lane& lane) {
      const std::uint32_t t = lane.in_warp() % tiles;
      const std::uint32_t row = t < 1 ? 0 : t < 3 ? 1 : t < 6 ? 2 : 3;
      return {lane.in_warp() / tiles, row, t - triangle(row, 0)};
    }

    template <class Lane>
    INTERLACE_KERNEL void add_products(const Lane& lane, std::uint32_t base, const place& p,
                                       std::uint32_t count, std::uint32_t groups) const {
      tile_sums sums = sums_[lane];
      for (auto j : lane.range(p.group, count, groups)) {
        const std::uint32_t from = base + j * F;
        float a[tile_side];
        float b[tile_side];
        for (auto r : lane.range(0U, tile_side)) {
          a[r] = lane.load(staged, from + p.row * tile_side + r);
          b[r] = lane.load(staged, from + p.column * tile_side + r);
        }
        for (std::uint32_t r = 0; r < tile_side; ++r) {
          for (std::uint32_t c = 0; c < tile_side; ++c) sums.v[r * tile_side + c] += a[r] * b[c];
        }
        lane.compute(operation::fp32, tile_side * tile_side);
      }
      sums_[lane] = sums;
      lane.compute(operation::integer, product_addresses((count + groups - 1 - p.group) / groups));
    }

    // Integer operations of a lane that takes `mine` ratings of a chunk: where its tile lies, and
    // the addresses. For F = 16 the loop is unrolled to four ratings, then two and one.
    static INTERLACE_KERNEL std::uint32_t product_addresses(std::uint32_t mine) {
      if (mine == 0) return 0;
      if constexpr (F == 16) return 26 + 10 * (mine / 4) + 9 * (mine / 2 % 2) + 7 * (mine % 2);
      return 11 + 8 * mine;
    }

    template <class Lane>
    INTERLACE_KERNEL void add_to_record(const Lane& lane, std::uint32_t base,
                                        const place& p) const {
      for (auto r : lane.range(0U, tile_side)) {
        for (auto c : lane.range(0U, tile_side)) {
          if (p.row == p.column && c > r) continue;
          const std::uint32_t at = base + triangle(p.row * tile_side + r, p.column * tile_side + c);
          const float before = p.group == 0 ? 0.0F : lane.load(staged, at);
          lane.store(staged, at, before + sums_[lane].v[r * tile_side + c]);
        }
      }
      lane.compute(operation::fp32, tile_side * tile_side);
      lane.compute(operation::integer, 7);
    }

    float lambda_;
    const rating_rows& ratings_;
    const replicated<float>& own_;
    std::uint32_t width_;
    state<tile_sums> sums_;
    state<numbers> row_;    // of the matrix, then of its Cholesky factor
    state<float> right_;    // Y^T r, then z, then x
    state<float> inverse_;  // of the diagonal of the Cholesky factor
    state<float> pivot_;    // what the warp exchanges
  };
};

template <class Node, std::uint32_t F = 16>
class als : public factorisation<Node, normal_equations<F>> {
 public:
  als(Node& node, const rating_matrix& ratings, const kernel::region_options& users,
      const kernel::region_options& items, float lambda)
      : factorisation<Node, normal_equations<F>>(node, ratings, users, items, {lambda}) {
    if (!(lambda > 0)) throw usage_error("lambda must be above 0, or equations may be singular");
  }
};

}  // namespace interlace::workload
