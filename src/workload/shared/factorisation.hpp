// Matrix factorisation. A rating r(u, i) of item i by user u is approximated by x(u) . y(i). Every
// user u and every item i has a factor, x(u) or y(i), of F numbers. An iteration is two epochs. The
// first epoch computes new factors of the users from the factors of the items. The second epoch
// computes new factors of the items from the factors of the users. In each epoch a row is a user
// (or item) with its ratings, and a `Method` defines how the row's new factor is computed (als.hpp,
// als_sgd.hpp).
//
// A warp renews a row. If a method has its own `rows_kernel`, a lane renews a row instead
// (als_sgd.hpp). A warp's sums over the row's ratings form a record of a few hundred numbers. A row
// of more than `part_ratings` ratings is cut into parts. For such rows, another kernel runs first
// and makes a record of each part, with one warp for each part. No warp therefore reads more than
// `part_ratings` ratings.
//
//   Method::factor, record                  F; numbers of a record
//   rows_kernel                             a kernel with a row for each lane, constructed from
//                                           ratings, method, own and other region; replaces
//                                           everything that follows
//   shared_floats                           shared memory of a block
//   steps()                                 how often all rows are renewed in an epoch
//   at_step(step, state)                    the method for a step; `state` has a factor for each
//                                           row
//   worker<Block>                           constructed from block, method, ratings and own region:
//     start(warp, row)                        called before a row
//     accumulate(warp, other, begin, end)     leaves the record of these ratings in shared memory
//     record_at(warp)                         the record's place in `staged`
//     finish(warp, n)                         makes a new factor from the record of n ratings
//     store(lane, row)                        stores the factor's number lane.in_warp()
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "workload/shared/csr.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

// The ratings of a device's rows, which are users or items.
struct rating_rows {
  static constexpr std::uint32_t threads = 128;
  static constexpr std::uint32_t per_block = 4;  // rows or parts in a block
  static constexpr std::uint32_t part_ratings = 512;

  // for each row, the number of ratings in the device's earlier rows
  local<const std::uint32_t> offsets;
  // For each rating, the first element of the other side's factor.
  local<const std::uint32_t> others;
  local<const float> values;              // the ratings
  local<const std::uint32_t> first_part;  // for each row that is cut, the number of its first part
  local<const std::uint32_t> part_rows;   // the row of each part
  std::uint64_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t parts = 0;

  // Ratings [begin, end) of a row.
  struct stretch {
    std::uint32_t row = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    INTERLACE_KERNEL bool cut() const { return end - begin > part_ratings; }
  };
  template <class Warp>
  INTERLACE_KERNEL stretch whole_row(const Warp& warp, std::uint32_t row) const {
    return {row, warp.load(offsets, row), warp.load(offsets, row + 1)};
  }
  template <class Warp>
  INTERLACE_KERNEL stretch part(const Warp& warp, std::uint32_t p) const {
    const std::uint32_t row = warp.load(part_rows, p);
    const std::uint32_t skipped = (p - warp.load(first_part, row)) * part_ratings;
    const std::uint32_t begin = warp.load(offsets, row) + skipped;
    const std::uint32_t end = warp.load(offsets, row + 1);
    return {row, begin, end - begin > part_ratings ? begin + part_ratings : end};
  }
};

// Calls f(warp, i) for each i below `count` that belongs to this block.
template <class Block, class F>
INTERLACE_KERNEL void for_each_task(Block& block, std::uint64_t block_index, std::uint32_t count,
                                    const F& f) {
  block.each_warp([&](auto warp) {
    // The form of this loop lets the compiler see that the loop has a single iteration if there are
    // as many warps as tasks.
    for (std::uint32_t k = 0; k < rating_rows::per_block / warp.count(); ++k) {
      const auto i = static_cast<std::uint32_t>(block_index) * rating_rows::per_block +
                     k * warp.count() + warp.index();
      if (i < count) f(warp, i);
    }
  });
}
inline std::uint64_t blocks_of(std::uint32_t tasks) {
  return (tasks + rating_rows::per_block - 1) / rating_rows::per_block;
}

// The number of rounds of loads in which a warp gathers `count` factors.
template <std::uint32_t F>
INTERLACE_HOST_DEVICE std::uint32_t passes(std::uint32_t count, std::uint32_t width) {
  return (count * F + width - 1) / width;
}

// Gathers the other side's factors for the ratings [first, first + count). Calls keep(lane, j, k,
// number) with number k of the j-th factor. Loads are coalesced within each factor, and a lane has
// several loads in flight.
template <std::uint32_t F, class Warp, class Keep>
INTERLACE_KERNEL void gather_factors(const Warp& warp, std::uint32_t width,
                                     const rating_rows& ratings, const replicated<float>& other,
                                     std::uint32_t first, std::uint32_t count, const Keep& keep) {
  constexpr std::uint32_t batch = 6;
  const std::uint32_t step = width / F;
  warp.each([&](auto lane) {
    const std::uint32_t k = lane.in_warp() % F;
    for (auto from : lane.range(lane.in_warp() / F, count, batch * step)) {
      decltype(lane.load_index(ratings.others, 0U)) at[batch];
      float number[batch];
      for (auto b : lane.range(0U, batch)) {
        const std::uint32_t j = from + b * step;
        if (j < count) at[b] = lane.load_index(ratings.others, first + j);
      }
      for (auto b : lane.range(0U, batch)) {
        if (from + b * step < count) number[b] = lane.load(other, at[b] + k);
      }
      for (auto b : lane.range(0U, batch)) {
        const std::uint32_t j = from + b * step;
        if (j < count) keep(lane, j, k, number[b]);
      }
    }
    // These operations compute two addresses for each factor, and the bounds and steps of each
    // batch. A few more operations, needed only once, compute where the factors begin.
    const std::uint32_t turns = passes<F>(count, width);
    lane.compute(operation::integer, 4 * turns + 15 * ((turns + batch - 1) / batch) + 9);
  });
}

template <std::uint32_t F>
inline constexpr std::uint32_t predictor_floats = rating_rows::threads*(F + 1);

// Computes the errors of predicted ratings, with one rating in each lane.
template <class Block, std::uint32_t F>
class predictor {
 public:
  INTERLACE_KERNEL explicit predictor(Block& block)
      : width_(block.warp_width()),
        staged_(shared<float>(block, predictor_floats<F>)),
        factor_(lane_state<numbers>(block)),
        error_(lane_state<float>(block)) {}

  // Sets the factor from which later predictions are made. Each lane below F gives one number of
  // the factor.
  template <class Warp, class Number>
  INTERLACE_KERNEL void start(const Warp& warp, const Number& number) const {
    const std::uint32_t base = base_of(warp);
    warp.each([&](auto lane) {
      lane.compute(operation::integer, 8);  // address of the warp's staged ratings
      if (lane.in_warp() >= F) return;
      lane.store(staged_, base + lane.in_warp(), number(lane));
      lane.compute(operation::integer, 8);
    });
    warp.each([&](auto lane) {
      for (auto k : lane.range(0U, F)) factor_[lane].v[k] = lane.load(staged_, base + k);
    });
  }

  // Takes the ratings [first, first + count), at most one for each lane.
  template <class Warp>
  INTERLACE_KERNEL void predict(const Warp& warp, const rating_rows& ratings,
                                const replicated<float>& other, std::uint32_t first,
                                std::uint32_t count) const {
    const std::uint32_t base = base_of(warp);
    gather_factors<F>(warp, width_, ratings, other, first, count,
                      [&](const auto& lane, std::uint32_t j, std::uint32_t k, float y) {
                        lane.store(staged_, base + j * (F + 1) + k, y);
                      });
    warp.each([&](auto lane) {
      error_[lane] = 0;
      lane.compute(operation::integer, 8);  // address of the lane's staged rating
      if (lane.in_warp() >= count) return;
      float e = lane.load(ratings.values, first + lane.in_warp());
      for (auto k : lane.range(0U, F)) {
        e -= factor_[lane].v[k] * lane.load(staged_, base + lane.in_warp() * (F + 1) + k);
      }
      error_[lane] = e;
      lane.compute({.fp32 = F, .integer = 2});
    });
  }

  // The error of the lane's rating, or 0 for a lane without a rating.
  template <class Lane>
  INTERLACE_KERNEL float error(const Lane& lane) const {
    return error_[lane];
  }
  // The position of the warp's first factor. Number k of the j-th rating's factor is at
  // base_of(warp) + j * (F + 1) + k.
  template <class Warp>
  INTERLACE_KERNEL std::uint32_t base_of(const Warp& warp) const {
    return warp.index() * width_ * (F + 1);
  }
  INTERLACE_KERNEL const auto& staged() const { return staged_; }

 private:
  struct numbers {
    float v[F];
  };
  std::uint32_t width_;
  decltype(shared<float>(std::declval<Block&>(), 0)) staged_;
  decltype(lane_state<numbers>(std::declval<Block&>())) factor_;
  decltype(lane_state<float>(std::declval<Block&>())) error_;
};

// Makes the records of all parts.
template <class Method>
struct accumulate_parts {
  static constexpr std::uint32_t threads = rating_rows::threads;
  static constexpr std::uint32_t shared_bytes = Method::shared_floats * sizeof(float);
  static constexpr std::uint32_t record = Method::record;

  rating_rows ratings;
  Method method;
  replicated<float> own;
  replicated<float> other;
  local<float> records;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const typename Method::template worker<Block> work(block, method, ratings, own);
    const std::uint32_t width = block.warp_width();
    for_each_task(block, block.index(), ratings.parts, [&](const auto& warp, std::uint32_t p) {
      const auto part = ratings.part(warp, p);
      work.start(warp, part.row);
      work.accumulate(warp, other, part.begin, part.end);
      const std::uint32_t at = work.record_at(warp);
      warp.each([&](auto lane) {
        for (auto e : lane.range(lane.in_warp(), record, width)) {
          lane.store(records, std::uint64_t{p} * record + e, lane.load(work.staged, at + e));
        }
        // These operations compute the bounds of the part, and the steps of this loop. The loop
        // handles four numbers in each turn.
        lane.compute(operation::integer, 30 + 5 * (record / (4 * width)));
      });
    });
  }
};

template <class Method>
struct renew_rows {
  static constexpr std::uint32_t threads = rating_rows::threads;
  static constexpr std::uint32_t shared_bytes = Method::shared_floats * sizeof(float);
  static constexpr std::uint32_t record = Method::record;

  rating_rows ratings;
  Method method;
  replicated<float> own;
  replicated<float> other;
  local<const float> records;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const typename Method::template worker<Block> work(block, method, ratings, own);
    const std::uint32_t width = block.warp_width();
    for_each_task(block, block.index(), ratings.rows, [&](const auto& warp, std::uint32_t r) {
      const auto row = ratings.whole_row(warp, r);
      work.start(warp, r);
      if (row.cut()) {
        const std::uint32_t parts =
            (row.end - row.begin + rating_rows::part_ratings - 1) / rating_rows::part_ratings;
        const std::uint64_t first = std::uint64_t{warp.load(ratings.first_part, r)} * record;
        const std::uint32_t at = work.record_at(warp);
        warp.each([&](auto lane) {
          for (auto e : lane.range(lane.in_warp(), record, width)) {
            float sum = 0;
            for (auto i : lane.range(first + e, first + std::uint64_t{parts} * record, record)) {
              sum += lane.load(records, i);
            }
            lane.store(work.staged, at + e, sum);
            // The loop handles four parts in each turn.
            lane.compute({.fp32 = parts, .integer = 32 + 6 * (parts / 4)});
          }
        });
      } else {
        work.accumulate(warp, other, row.begin, row.end);
      }
      work.finish(warp, row.end - row.begin);
      warp.each([&](auto lane) {
        lane.compute(operation::integer, 10);  // bounds of the row's ratings
        if (lane.in_warp() >= Method::factor) return;
        work.store(lane, r);
        lane.compute(operation::integer, 8);
      });
    });
  }
};

// The sum of squared errors of a device's ratings.
template <std::uint32_t F>
struct squared_errors {
  static constexpr std::uint32_t threads = rating_rows::threads;
  static constexpr std::uint32_t shared_bytes =
      predictor_floats<F> * sizeof(float) + sum_bytes<double>(1);

  rating_rows ratings;
  replicated<float> own;
  replicated<float> other;
  reduced<double> totals;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    predictor<Block, F> predict(block);
    auto sum = lane_state<double>(block);
    const std::uint32_t width = block.warp_width();
    const auto add = [&](const auto& warp, const rating_rows::stretch& some) {
      warp.repeated(0, [&](const auto& same) {
        predict.start(same, [&](const auto& lane) {
          return lane.load(own, (ratings.first_row + some.row) * F + lane.in_warp());
        });
      });
      for (std::uint32_t first = some.begin; first < some.end; first += width) {
        const std::uint32_t count = some.end - first < width ? some.end - first : width;
        warp.repeated(
            count, [&](const auto& same) { predict.predict(same, ratings, other, first, count); });
        warp.each([&](auto lane) {
          const double e = predict.error(lane);
          sum[lane] += e * e;
          // In the first turn, nine integer operations compute the bounds of the row. The other
          // operations are those of one turn.
          lane.compute({.fp64 = 1, .integer = first == some.begin ? 9U + 2U : 2U, .special = 1});
        });
      }
    };
    // The blocks of whole rows come first. The blocks of parts follow.
    const std::uint64_t row_blocks =
        (ratings.rows + rating_rows::per_block - 1) / rating_rows::per_block;
    if (block.index() < row_blocks) {
      for_each_task(block, block.index(), ratings.rows, [&](const auto& warp, std::uint32_t r) {
        const auto row = ratings.whole_row(warp, r);
        if (!row.cut()) add(warp, row);
      });
    } else {
      for_each_task(block, block.index() - row_blocks, ratings.parts,
                    [&](const auto& warp, std::uint32_t p) { add(warp, ratings.part(warp, p)); });
    }
    add_sums<double>(block, totals, 1, sum);
  }
};

// The ratings sorted by user, and the same ratings sorted by item.
struct rating_matrix {
  std::uint64_t users = 0;
  std::uint64_t items = 0;
  const std::uint64_t* user_offsets = nullptr;  // [users + 1]
  const std::uint32_t* user_items = nullptr;    // [user_offsets[users]]
  const float* user_values = nullptr;
  const std::uint64_t* item_offsets = nullptr;  // [items + 1]
  const std::uint32_t* item_users = nullptr;
  const float* item_values = nullptr;
};

struct factors {
  std::vector<float> users;  // F numbers for each user
  std::vector<float> items;
};

template <class Node, class Method>
class factorisation {
 public:
  static constexpr std::uint32_t factor = Method::factor;

  // `users.boundaries`: device d owns the elements [boundaries[d], boundaries[d + 1]) of the users'
  // factors. Each user has F elements. `items.boundaries` means the same for items.
  factorisation(Node& node, const rating_matrix& ratings, const kernel::region_options& users,
                const kernel::region_options& items, Method method)
      : node_(node),
        method_(method),
        users_(make_side(ratings.users, ratings.user_offsets, ratings.user_items,
                         ratings.user_values, ratings.items, users, "user")),
        items_(make_side(ratings.items, ratings.item_offsets, ratings.item_users,
                         ratings.item_values, ratings.users, items, "item")),
        totals_(node.template create_reduction<double, combine::add>(1, 64)) {}

  void reset(const factors& start) {
    node_.set_front(users_.region, start.users);
    node_.set_front(items_.region, start.items);
    node_.set_front(totals_, std::vector<double>{0.0});
  }

  // Computes new factors of the users from the factors of the items, and then new factors of the
  // items from the factors of the users.
  void enqueue_iteration(bool track_residual) {
    enqueue_half(users_, items_);
    enqueue_half(items_, users_);
    if (!track_residual) return;
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const rating_rows& ratings = users_.parts[d].ratings;
      node_.launch(
          d,
          squared_errors<factor>{ratings, node_.view(users_.region, d),
                                 node_.view(items_.region, d), node_.view(totals_, d)},
          shape<squared_errors<factor>>(blocks_of(ratings.rows) + blocks_of(ratings.parts)));
    }
    node_.exchange(totals_);
  }

  // The factors that device `device` holds.
  workload::factors factors(std::uint32_t device) const {
    return {node_.front(users_.region, device), node_.front(items_.region, device)};
  }
  // The sum of squared errors over the ratings, after the last iteration that tracked the residual.
  double residual() const { return node_.front(totals_, 0)[0]; }

 private:
  struct part {
    rating_rows ratings;
    local<float> records;
    local<float> state;
    kernel::block_mapping mapping;
  };
  struct side {
    kernel::region<float> region;
    std::vector<part> parts;
  };

  static constexpr bool has_rows_kernel = requires { typename Method::rows_kernel; };

  static constexpr std::uint32_t rows_per_block() {
    if constexpr (has_rows_kernel) {
      return Method::rows_kernel::threads;
    } else {
      return rating_rows::per_block;
    }
  }

  template <class Kernel>
  static grid shape(std::uint64_t blocks) {
    return {blocks, Kernel::threads, Kernel::shared_bytes};
  }

  side make_side(std::uint64_t rows, const std::uint64_t* offsets, const std::uint32_t* columns,
                 const float* values, std::uint64_t others, const kernel::region_options& options,
                 const char* what) {
    if (others > 0xffffffffU / factor) {
      throw usage_error("factors of " + std::to_string(factor) +
                        " numbers are possible for up to " + std::to_string(0xffffffffU / factor) +
                        " rows, but there are " + std::to_string(others) + " rows");
    }
    for (const std::uint64_t b : options.boundaries) {
      if (b % factor == 0 && b <= rows * factor) continue;
      throw model_error(std::string("a boundary of the ") + what + "s' factors is element " +
                        std::to_string(b) + ", where no " + what + " begins");
    }
    side s;
    s.region = node_.template create_region<float>(options);
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const std::uint64_t begin = options.boundaries[d] / factor;
      const std::uint64_t end = options.boundaries[d + 1] / factor;
      const auto own = owned_entries(offsets, begin, end, d, "ratings", rating_rows::threads);
      std::vector<std::uint32_t> starts(columns + own.first, columns + own.first + own.count);
      for (std::uint32_t& c : starts) c *= factor;
      std::vector<std::uint32_t> first_part(end - begin, 0);
      std::vector<std::uint32_t> part_rows;
      for (std::uint64_t r = begin; r < end; ++r) {
        const std::uint64_t n = offsets[r + 1] - offsets[r];
        if (n <= rating_rows::part_ratings) continue;
        first_part[r - begin] = static_cast<std::uint32_t>(part_rows.size());
        part_rows.insert(part_rows.end(),
                         (n + rating_rows::part_ratings - 1) / rating_rows::part_ratings,
                         static_cast<std::uint32_t>(r - begin));
      }
      part p;
      p.ratings = {
          put(node_, d, relative_offsets(offsets, begin, end)),
          put(node_, d, starts),
          put(node_, d, std::vector<float>(values + own.first, values + own.first + own.count)),
          put(node_, d, first_part),
          put(node_, d, part_rows),
          begin,
          static_cast<std::uint32_t>(end - begin),
          static_cast<std::uint32_t>(part_rows.size())};
      if constexpr (!has_rows_kernel) {
        p.records = node_.template allocate<float>(d, part_rows.size() * Method::record);
        if (method_.steps() > 1) {
          p.state = node_.template allocate<float>(d, (end - begin) * factor);
        }
      }
      p.mapping = kernel::block_mapping::contiguous(
          begin * factor, std::uint64_t{rows_per_block()} * factor, end * factor);
      s.parts.push_back(std::move(p));
    }
    return s;
  }

  void enqueue_half(const side& to, const side& from) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = to.parts[d];
      const auto own = node_.view(to.region, d);
      const auto other = node_.view(from.region, d);
      if constexpr (has_rows_kernel) {
        using kernel_type = typename Method::rows_kernel;
        const std::uint64_t blocks =
            (p.ratings.rows + kernel_type::threads - 1) / kernel_type::threads;
        node_.launch(d, kernel_type{p.ratings, method_, own, other}, shape<kernel_type>(blocks),
                     to.region, p.mapping);
      } else {
        renew_by_warps(d, p, to, own, other);
      }
    }
    node_.exchange(to.region);
  }

  void renew_by_warps(std::uint32_t d, const part& p, const side& to, const replicated<float>& own,
                      const replicated<float>& other) {
    for (std::uint32_t step = 0; step < method_.steps(); ++step) {
      const Method method = method_.at_step(step, p.state);
      if (p.ratings.parts > 0) {
        node_.launch(d, accumulate_parts<Method>{p.ratings, method, own, other, p.records},
                     shape<accumulate_parts<Method>>(blocks_of(p.ratings.parts)));
      }
      const renew_rows<Method> renew{p.ratings, method, own, other, p.records};
      const grid g = shape<renew_rows<Method>>(blocks_of(p.ratings.rows));
      if (step + 1 == method_.steps()) {
        node_.launch(d, renew, g, to.region, p.mapping);
      } else {
        node_.launch(d, renew, g);
      }
    }
  }

  Node& node_;
  Method method_;
  side users_;
  side items_;
  kernel::reduction<double, combine::add> totals_;
};

}  // namespace interlace::workload
