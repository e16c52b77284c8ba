// Matrix factorisation by gradient steps in pull form. This is the variant of als.hpp that the
// PROACT paper (Muthukrishnan et al., 2021) describes. The factors of the other side (items for
// users, users for items) are fixed. A row belongs to a user or an item with n ratings r and has
// the factors x. The factors of the other side in these ratings are y. In every epoch the row makes
// a number of steps
//
//   x' = x + rate * ((1 / n) * sum of (r - x . y) y - lambda * x)
//
// The step takes the mean over the ratings, so one rate suits rows of any length. A row without
// ratings keeps its factors.
//
// In a step, a rating costs 2 F multiply-adds and 8 + 4 F bytes. Memory delivers 8 of these bytes.
// The L2 delivers the other 4 F, the gathered factors, if all factors of the other side fit in the
// L2. A row adds 8 F + 12 bytes. That is less than one multiply-add for each byte. The limit is
// therefore the rate at which the L2 gathers, or the rate of memory if the other side does not fit.
// Each rating is written to shared memory once and read twice.
#pragma once

#include <cstdint>
#include <utility>

#include "workload/shared/factorisation.hpp"

namespace interlace::workload {

template <std::uint32_t F>
struct gradient {
  static_assert(F == 16 || F == 32, "a warp needs a lane for each number");
  static constexpr std::uint32_t factor = F;
  static constexpr std::uint32_t record = F;  // sum of (r - x . y) y
  static constexpr std::uint32_t shared_floats = predictor_floats<F> + rating_rows::threads;

  float lambda = 0;
  float rate = 0;
  std::uint32_t count = 1;  // number of steps
  // In the first step, factors come from the region; in later steps, from `state`.
  bool first = true;
  bool last = true;  // in the last step, factors go to the region; in earlier steps, to `state`
  local<float> state;

  std::uint32_t steps() const { return count; }
  gradient at_step(std::uint32_t step, const local<float>& where) const {
    return {lambda, rate, count, step == 0, step + 1 == count, where};
  }

  template <class Block>
  class worker {
   public:
    INTERLACE_KERNEL worker(Block& block, const gradient& method, const rating_rows& ratings,
                            const replicated<float>& own)
        : predictor_(block),
          staged(shared<float>(block, rating_rows::threads)),
          method_(method),
          ratings_(ratings),
          own_(own),
          width_(block.warp_width()),
          number_(lane_state<float>(block)),
          sum_(lane_state<float>(block)) {}

   private:
    predictor<Block, F> predictor_;

   public:
    decltype(shared<float>(std::declval<Block&>(), 0)) staged;  // the errors, and later the record

    template <class Warp>
    INTERLACE_KERNEL std::uint32_t record_at(const Warp& warp) const {
      return warp.index() * width_;
    }

    template <class Warp>
    INTERLACE_KERNEL void start(const Warp& warp, std::uint32_t row) const {
      warp.repeated(method_.first, [&](const auto& same) {
        predictor_.start(same, [&](const auto& lane) {
          const std::uint32_t k = lane.in_warp();
          number_[lane] = method_.first ? lane.load(own_, (ratings_.first_row + row) * F + k)
                                        : lane.load(method_.state, std::uint64_t{row} * F + k);
          return number_[lane];
        });
      });
    }

    template <class Warp>
    INTERLACE_KERNEL void accumulate(const Warp& warp, const replicated<float>& other,
                                     std::uint32_t begin, std::uint32_t end) const {
      const std::uint32_t base = record_at(warp);
      const std::uint32_t factors = predictor_.base_of(warp);
      warp.each([&](auto lane) { sum_[lane] = 0; });
      for (std::uint32_t from = begin; from < end; from += width_) {
        const std::uint32_t n = end - from < width_ ? end - from : width_;
        warp.repeated(n, [&](const auto& same) {
          predictor_.predict(same, ratings_, other, from, n);
          add_errors(same, base, factors, n);
        });
      }
      for (std::uint32_t apart = F; apart < width_; apart *= 2) {
        const auto more = warp.shuffle_xor(sum_, apart);
        warp.each([&](auto lane) { sum_[lane] += more[lane]; });
      }
      warp.each([&](auto lane) {
        if (lane.in_warp() < F) lane.store(staged, base + lane.in_warp(), sum_[lane]);
      });
    }

    template <class Warp>
    INTERLACE_KERNEL void finish(const Warp& warp, std::uint32_t n) const {
      if (n == 0) return;
      const std::uint32_t base = record_at(warp);
      warp.each([&](auto lane) {
        if (lane.in_warp() >= F) return;
        const float mean = lane.load(staged, base + lane.in_warp()) / static_cast<float>(n);
        number_[lane] += method_.rate * (mean - method_.lambda * number_[lane]);
        lane.compute(operation::fp32, 7);
        lane.compute(operation::special, 1);
      });
    }

    template <class Lane>
    INTERLACE_KERNEL void store(const Lane& lane, std::uint32_t row) const {
      const std::uint32_t k = lane.in_warp();
      if (method_.last) {
        lane.store(own_, (ratings_.first_row + row) * F + k, number_[lane]);
      } else {
        lane.store(method_.state, std::uint64_t{row} * F + k, number_[lane]);
      }
    }

   private:
    // Adds up error times factors over n ratings.
    template <class Warp>
    INTERLACE_KERNEL void add_errors(const Warp& warp, std::uint32_t base, std::uint32_t factors,
                                     std::uint32_t n) const {
      warp.each(
          [&](auto lane) { lane.store(staged, base + lane.in_warp(), predictor_.error(lane)); });
      warp.each([&](auto lane) {
        const std::uint32_t k = lane.in_warp() % F;
        float s = sum_[lane];
        for (auto j : lane.range(lane.in_warp() / F, n, width_ / F)) {
          s += lane.load(staged, base + j) *
               lane.load(predictor_.staged(), factors + j * (F + 1) + k);
        }
        sum_[lane] = s;
        // The loop handles four ratings at a time. One turn of two ratings and one turn of a single
        // rating handle the ratings that are left.
        const std::uint32_t turns = passes<F>(n, width_);
        lane.compute({.fp32 = turns,
                      .integer = 19 + 6 * (turns / 4) + 6 * (turns / 2 % 2) + 4 * (turns % 2)});
      });
    }

    const gradient& method_;
    const rating_rows& ratings_;
    const replicated<float>& own_;
    std::uint32_t width_;
    decltype(lane_state<float>(std::declval<Block&>())) number_;  // one number of the row's factors
    decltype(lane_state<float>(std::declval<Block&>())) sum_;
  };
};

// Makes the same steps as renew_rows, with one lane for each row, as in programs with a thread for
// each vertex. A lane reads and stores one number of its row at a time. The numbers of adjacent
// lanes are F words apart, so no accesses coalesce. If factors go to other devices, each number is
// a separate store. In the ALS of the PROACT paper (section V-B), stores also make 26 times as
// many transactions as copies. A warp takes as long as its longest row.
template <std::uint32_t F>
struct renew_rows_by_lane;

template <std::uint32_t F>
struct gradient_by_lane {
  static_assert(F == 16 || F == 32, "a lane needs all numbers in registers");
  static constexpr std::uint32_t factor = F;
  using rows_kernel = renew_rows_by_lane<F>;

  float lambda = 0;
  float rate = 0;
  std::uint32_t count = 1;  // number of steps
};

template <std::uint32_t F>
struct renew_rows_by_lane {
  static constexpr std::uint32_t threads = rating_rows::threads;
  static constexpr std::uint32_t shared_bytes = 0;

  rating_rows ratings;
  gradient_by_lane<F> method;
  replicated<float> own;
  replicated<float> other;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto row = static_cast<std::uint32_t>(lane.global_index());
      if (row >= ratings.rows) return;
      const auto begin = lane.load_index(ratings.offsets, row);
      const auto end = lane.load_index(ratings.offsets, row + 1);
      const auto at = static_cast<std::uint32_t>((ratings.first_row + row) * F);
      float x[F];
      for (auto k : lane.range(0U, F)) x[k] = lane.load(own, at + k);
      for (std::uint32_t step = 0; step < method.count; ++step) {
        float sum[F] = {};
        for (auto e : lane.range(begin, end)) {
          const auto from = lane.load_index(ratings.others, e);
          float error = lane.load(ratings.values, e);
          float y[F];
          for (auto k : lane.range(0U, F)) {
            y[k] = lane.load(other, from + k);
            error -= x[k] * y[k];
          }
          for (std::uint32_t k = 0; k < F; ++k) sum[k] += error * y[k];
          lane.compute({.fp32 = 2 * F, .integer = 2 * F + 5});
        }
        const std::uint32_t n = end - begin;
        if (n == 0) continue;
        const float each = 1.0F / static_cast<float>(n);
        for (std::uint32_t k = 0; k < F; ++k) {
          x[k] += method.rate * (sum[k] * each - method.lambda * x[k]);
        }
        lane.compute({.fp32 = 3 * F + 4, .integer = 6, .special = 2});
      }
      for (auto k : lane.range(0U, F)) lane.store(own, at + k, x[k]);
      lane.compute(operation::integer, 3 * F + 8);
    });
  }
};

template <class Node, std::uint32_t F = 16>
class als_sgd : public factorisation<Node, gradient<F>> {
 public:
  als_sgd(Node& node, const rating_matrix& ratings, const kernel::region_options& users,
          const kernel::region_options& items, float lambda, float rate, std::uint32_t steps)
      : factorisation<Node, gradient<F>>(node, ratings, users, items,
                                         {lambda, rate, steps, true, true, {}}) {
    if (steps == 0) throw usage_error("an epoch needs at least one step");
  }
};

template <class Node, std::uint32_t F = 16>
class als_sgd_by_lane : public factorisation<Node, gradient_by_lane<F>> {
 public:
  als_sgd_by_lane(Node& node, const rating_matrix& ratings, const kernel::region_options& users,
                  const kernel::region_options& items, float lambda, float rate,
                  std::uint32_t steps)
      : factorisation<Node, gradient_by_lane<F>>(node, ratings, users, items,
                                                 {lambda, rate, steps}) {
    if (steps == 0) throw usage_error("an epoch needs at least one step");
  }
};

}  // namespace interlace::workload
