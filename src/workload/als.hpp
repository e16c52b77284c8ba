// Matrix factorisation by alternating least squares with weighted regularisation (Zhou, Wilkinson,
// Schreiber and Pan, 2008). Users and items take turns. A user with n ratings r gets new factors x
// from the factors of the rated items, which are the rows y of the matrix Y. An item gets its
// factors from users in the same way. The new factors x minimise
//
//   sum of (r - x . y)^2 + lambda * n * |x|^2,   that is,   (Y^T Y + lambda n I) x = Y^T r.
//
// The kernel solves this system in float32 by Cholesky's method. A user or item without ratings
// gets factors of 0.
//
// F is the rank, the number of factors of a user or item. A rating costs at least F (F + 1) / 2 + F
// multiply-adds (152 for F = 16, 560 for F = 32). A rating also costs 8 + 4 F bytes. Memory
// delivers 8 of these bytes. The L2 delivers the other 4 F, the gathered factors, if all factors of
// the other side fit in the L2. Each user or item adds F^3 / 6 multiply-adds and 8 F + 12 bytes. A
// multiprocessor of an H200 spends this many clocks on a rating:
//
//             float32 lanes   L2
//   F = 16    1.2             1.7
//   F = 32    4.4             3.5
//
// The lower triangle of the F x F matrix Y^T Y is cut into ten square tiles, each F / 4 wide. A
// lane holds one tile in registers. Ten lanes work on a rating, so a warp handles three ratings at
// a time (six if the warp has 64 lanes). With these tiles, a rating takes 5 F^2 / 8 multiply-adds.
// Its lanes read 5 F words of shared memory, 16 bytes at a time. For F = 16 these reads take 2.7
// clocks, which is the limit. For F = 32 the reads take 5.3 clocks, the same as the multiply-adds
// on 30 of 32 lanes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/workload/problem.hpp"
#include "workload/shared/als_sgd.hpp"
#include "workload/shared/csr.hpp"
#include "workload/shared/factorisation.hpp"
#include "workload/shared/readers.hpp"

namespace interlace::workload {

INTERLACE_HOST_DEVICE float inverse_root(float x) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(x);
#else
  return 1.0F / std::sqrt(x);
#endif
}

// Calls f(k) for k from 0 to N - 1. On a GPU each k is a constant, so f can index arrays that are
// in registers. On the CPU a plain loop is enough: unrolling would only compile the code N times.
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

// The index of an element of a symmetric matrix whose lower triangle is stored row by row. If each
// lane has a row of its own, lanes that read element j of their rows access 32 different banks.
INTERLACE_HOST_DEVICE constexpr std::uint32_t triangle(std::uint32_t row, std::uint32_t column) {
  return row * (row + 1) / 2 + column;
}

template <std::uint32_t F>
struct normal_equations {
  static_assert(F == 16 || F == 32,
                "a warp needs a lane for each number, and tiles are loaded as vectors");
  static constexpr std::uint32_t factor = F;
  static constexpr std::uint32_t triangle_size = triangle(F, 0);
  static constexpr std::uint32_t record = triangle_size + F;  // size of Y^T Y and Y^T r
  static constexpr std::uint32_t tiles = 10;
  static constexpr std::uint32_t tile_side = F / 4;
  // The number of ratings that are staged in shared memory at a time. A warp works in groups of ten
  // lanes, one rating for each group. The number must be a multiple of the number of groups.
  static constexpr std::uint32_t chunk = 36;
  // The stride of the Cholesky factor's columns. With this stride, columns start aligned, and the
  // elements of a row are in different banks.
  static constexpr std::uint32_t column = F + 4;
  // Words of shared memory for each warp.
  static constexpr std::uint32_t scratch = chunk > column ? chunk* F : column* F;
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
          lane.compute(operation::integer, 11);  // the operations that find the lane's group
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
            // Charges the operations for the right-hand side and for the loop.
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
    // Combines the sums of all lanes in shared memory.
    template <class Warp>
    INTERLACE_KERNEL void make_record(const Warp& warp, std::uint32_t base,
                                      std::uint32_t groups) const {
      for (std::uint32_t apart = F; apart < width_; apart *= 2) {
        const auto more = warp.shuffle_xor(right_, apart);
        warp.each([&](auto lane) { right_[lane] += more[lane]; });
      }
      // The groups add their sums one after another. A shuffle cannot help, because no shuffle
      // exchanges values of lanes that are ten apart.
      for (std::uint32_t group = 0; group < groups; ++group) {
        warp.each([&](auto lane) {
          const place p = place_of(lane);
          lane.compute(operation::integer, 2);
          if (p.group == group) add_to_record(lane, base, p);
        });
      }
      warp.each([&](auto lane) {
        // These operations compute the right side and the addresses of the tile's rows in the
        // record.
        lane.compute(operation::integer, (F == 16 ? 40 : 55) + 1);
        if (lane.in_warp() >= F) return;
        lane.store(staged, base + triangle_size + lane.in_warp(), right_[lane]);
        lane.compute(operation::integer, 2);
      });
    }

    // Solves the system of one user or item. Each lane has a row of the matrix.
    template <class Warp>
    INTERLACE_KERNEL void solve(const Warp& warp, std::uint32_t n) const {
      const std::uint32_t base = record_at(warp);
      const float ridge = lambda_ * static_cast<float>(n);
      warp.each([&](auto lane) {
        const std::uint32_t i = lane.in_warp();
        // These operations compute the warp's position and the addresses of a row.
        lane.compute(operation::integer, 6);
        if (i >= F) return;
        for (auto j : lane.range(0U, F)) {
          const float a = j > i ? 0.0F : lane.load(staged, base + triangle(i, j));
          row_[lane].v[j] = j == i ? a + ridge : a;
        }
        right_[lane] = lane.load(staged, base + triangle_size + i);
        // These operations compare i with each j for the two choices above, and they compute
        // addresses.
        lane.compute(operation::integer, 2 * F + 6);
      });
      if (n == 0) {
        warp.each([&](auto lane) { right_[lane] = 0; });
        return;
      }
      // Solves L L^T = A and L z = b in the same loop. Step k writes column k of L to shared
      // memory.
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
      // Solves L^T x = z from the last row to the first. A lane's number is final once all later
      // rows are done.
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

    // The tile that a lane holds, and the lane's share of the ratings that a warp handles at a
    // time.
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
      // For F = 16 the loop handles four ratings in each turn.
      constexpr std::uint32_t unroll = F == 16 ? 4 : 1;
      for (auto j :
           lane.carrying(unroll, {.fp32 = tile_side * tile_side}, p.group, count, groups)) {
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
      }
      sums_[lane] = sums;
      lane.compute(operation::integer, product_addresses((count + groups - 1 - p.group) / groups));
    }

    // The integer operations that compute addresses for a lane that takes `mine` ratings of a
    // chunk. For F = 16 the loop runs four ratings at a time. One turn of two ratings and one turn
    // of a single rating handle the ratings that are left.
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
    state<numbers> row_;    // a row of the matrix; later a row of its Cholesky factor
    state<float> right_;    // the lane's element of Y^T r, then of z, then of x
    state<float> inverse_;  // the inverse of the lane's diagonal element of the Cholesky factor
    state<float> pivot_;    // values that the lanes of the warp exchange
  };
};

template <class Node, std::uint32_t F = 16>
class als : public factorisation<Node, normal_equations<F>> {
 public:
  als(Node& node, const rating_matrix& ratings, const kernel::region_options& users,
      const kernel::region_options& items, float lambda)
      : factorisation<Node, normal_equations<F>>(node, ratings, users, items, {lambda}) {
    if (!(lambda > 0))
      throw usage_error(
          "lambda must be above 0, so that every system of equations has one solution");
  }
};

enum class factorisation_method : std::uint8_t { equations, gradient, gradient_by_lane };

struct als_problem {
  static constexpr const char* summary = "matrix factorisation";
  static constexpr std::array arguments{
      "user_offsets", "user_items",  "user_values", "item_offsets", "item_users",
      "item_values",  "start_users", "start_items", "method",       "lambda_",
      "rate",         "steps",       "kernel",      "subscribe"};
  using launching_kernels =
      kernel_list<renew_rows<normal_equations<16>>, renew_rows<normal_equations<32>>,
                  renew_rows<gradient<16>>, renew_rows<gradient<32>>, renew_rows_by_lane<16>,
                  renew_rows_by_lane<32>>;

  rating_matrix ratings;
  // The factors before the first iteration: `rank` numbers for each user.
  const float* start_users = nullptr;
  const float* start_items = nullptr;
  std::uint32_t rank = 16;  // 16 or 32
  factorisation_method method = factorisation_method::equations;
  float lambda = 0;
  float rate = 0;           // step size of the gradient method
  std::uint32_t steps = 1;  // gradient steps in an epoch
  // Each factor goes only to devices that have ratings of its user or item.
  bool to_readers = false;

  static als_problem make(
      const array_view<std::uint64_t>& user_offsets, const array_view<std::uint32_t>& user_items,
      const array_view<float>& user_values, const array_view<std::uint64_t>& item_offsets,
      const array_view<std::uint32_t>& item_users, const array_view<float>& item_values,
      const array_view<float, 2>& start_users, const array_view<float, 2>& start_items,
      const std::string& method, double lambda, double rate, std::uint32_t steps,
      const std::string& kernel, const std::string& subscribe) {
    const std::size_t users = start_users.extent(0);
    const std::size_t items = start_items.extent(0);
    check_rows(user_offsets, user_items, items, "items");
    check_rows(item_offsets, item_users, users, "users");
    if (user_offsets.size() != users + 1 || item_offsets.size() != items + 1 ||
        start_users.extent(1) != start_items.extent(1)) {
      throw usage_error("the initial factors do not match the users and items");
    }
    const std::size_t count = user_items.size();
    if (user_values.size() != count || item_users.size() != count || item_values.size() != count) {
      throw usage_error(
          "the ratings sorted by users and those sorted by items have different lengths");
    }
    if (method != "als" && method != "sgd") {
      throw usage_error("unknown method '" + method + "'; give 'als' or 'sgd'");
    }
    if (kernel != "warp-per-row" && kernel != "lane-per-row") {
      throw usage_error("unknown kernel '" + kernel + "'; give 'warp-per-row' or 'lane-per-row'");
    }
    const bool by_lane = kernel == "lane-per-row";
    if (by_lane && method != "sgd") {
      throw usage_error("lane-per-row is a kernel of method sgd; least squares have warp-per-row");
    }
    als_problem problem;
    problem.ratings = {users,
                       items,
                       user_offsets.data(),
                       user_items.data(),
                       user_values.data(),
                       item_offsets.data(),
                       item_users.data(),
                       item_values.data()};
    problem.start_users = start_users.data();
    problem.start_items = start_items.data();
    problem.rank = static_cast<std::uint32_t>(start_users.extent(1));
    problem.method = method == "als" ? factorisation_method::equations
                     : by_lane       ? factorisation_method::gradient_by_lane
                                     : factorisation_method::gradient;
    problem.lambda = static_cast<float>(lambda);
    problem.rate = static_cast<float>(rate);
    problem.steps = steps;
    problem.to_readers = parse_subscribers(subscribe);
    return problem;
  }

  // The options of a request cut the users' factors into parts. The items' factors are cut by this
  // class.
  std::uint64_t elements() const { return ratings.users * rank; }

  template <class Node>
  using works = std::variant<als<Node, 16>, als<Node, 32>, als_sgd<Node, 16>, als_sgd<Node, 32>,
                             als_sgd_by_lane<Node, 16>, als_sgd_by_lane<Node, 32>>;

  // The interface that a run needs, for both methods and all ranks.
  template <class Node>
  class work {
   public:
    work(Node& node, const als_problem& problem, const kernel::region_options& users)
        : start_(problem.start()), chosen_(problem.choose_for(node, users)) {
      reset();
    }
    void reset() {
      std::visit([&](auto& w) { w.reset(start_); }, chosen_);
    }
    void enqueue_iteration(bool track_residual) {
      std::visit([&](auto& w) { w.enqueue_iteration(track_residual); }, chosen_);
    }
    // The users' factors, followed by the items' factors.
    std::vector<float> result(std::uint32_t device) const {
      auto [users, items] = std::visit([&](const auto& w) { return w.factors(device); }, chosen_);
      users.insert(users.end(), items.begin(), items.end());
      return std::move(users);
    }
    double residual() const {
      return std::visit([](const auto& w) { return w.residual(); }, chosen_);
    }

   private:
    factors start_;
    works<Node> chosen_;
  };

  template <class Node>
  work<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, *this, options};
  }

 private:
  factors start() const {
    return {{start_users, start_users + ratings.users * rank},
            {start_items, start_items + ratings.items * rank}};
  }

  // Cuts the items' region into contiguous parts. The parts have nearly equal numbers of ratings
  // and items.
  kernel::region_options cut_items(kernel::region_options options) const {
    const std::uint64_t parts = options.boundaries.size() - 1;
    const std::uint64_t total = ratings.item_offsets[ratings.items] + ratings.items;
    std::uint64_t item = 0;
    for (std::uint64_t p = 1; p < parts; ++p) {
      const std::uint64_t share = (total * p + parts - 1) / parts;
      while (ratings.item_offsets[item] + item < share) ++item;
      options.boundaries[p] = item * rank;
    }
    options.boundaries[parts] = ratings.items * rank;
    return options;
  }

  template <class Node>
  works<Node> choose_for(Node& node, const kernel::region_options& users) const {
    const kernel::region_options items = cut_items(users);
    if (!to_readers || (rank != 16 && rank != 32)) return choose(node, users, items);
    const auto rows = [&](std::vector<std::uint64_t> elements) {
      for (std::uint64_t& e : elements) e /= rank;
      return elements;
    };
    const std::uint32_t shift = rank == 16 ? 4 : 5;
    return choose(node,
                  sent_to_readers(users,
                                  readers_of_columns(rows(items.boundaries), ratings.item_offsets,
                                                     ratings.item_users, ratings.users),
                                  shift),
                  sent_to_readers(items,
                                  readers_of_columns(rows(users.boundaries), ratings.user_offsets,
                                                     ratings.user_items, ratings.items),
                                  shift));
  }

  template <class Node>
  auto choose(Node& node, const kernel::region_options& users,
              const kernel::region_options& items) const {
    using chosen = works<Node>;
    if (rank != 16 && rank != 32) {
      throw usage_error("the rank is " + std::to_string(rank) + "; it must be 16 or 32");
    }
    if (method == factorisation_method::equations) {
      return rank == 16 ? chosen(std::in_place_index<0>, node, ratings, users, items, lambda)
                        : chosen(std::in_place_index<1>, node, ratings, users, items, lambda);
    }
    if (method == factorisation_method::gradient) {
      return rank == 16
                 ? chosen(std::in_place_index<2>, node, ratings, users, items, lambda, rate, steps)
                 : chosen(std::in_place_index<3>, node, ratings, users, items, lambda, rate, steps);
    }
    return rank == 16
               ? chosen(std::in_place_index<4>, node, ratings, users, items, lambda, rate, steps)
               : chosen(std::in_place_index<5>, node, ratings, users, items, lambda, rate, steps);
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::accumulate_parts<workload::gradient<16>>>{
    48, 334};
template <>
inline constexpr compiled_kernel compiled_as<workload::accumulate_parts<workload::gradient<32>>>{
    64, 369};
template <>
inline constexpr compiled_kernel
    compiled_as<workload::accumulate_parts<workload::normal_equations<16>>>{56, 783};
template <>
inline constexpr compiled_kernel
    compiled_as<workload::accumulate_parts<workload::normal_equations<32>>>{128, 794};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_rows<workload::gradient<16>>>{48, 683};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_rows<workload::gradient<32>>>{71, 701};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_rows<workload::normal_equations<16>>>{
    56, 2280};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_rows<workload::normal_equations<32>>>{
    166, 3730};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_rows_by_lane<16>>{64, 348};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_rows_by_lane<32>>{128, 561};
template <>
inline constexpr compiled_kernel compiled_as<workload::squared_errors<16>>{48, 511};
template <>
inline constexpr compiled_kernel compiled_as<workload::squared_errors<32>>{64, 570};

}  // namespace interlace
