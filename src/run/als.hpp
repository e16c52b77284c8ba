// Matrix factorisation, as every node runs it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/errors.hpp"
#include "run/workload.hpp"
#include "workload/als.hpp"
#include "workload/als_sgd.hpp"
#include "workload/readers.hpp"

namespace interlace::run {

enum class factorisation_method : std::uint8_t { equations, gradient, gradient_by_lane };

struct als_problem {
  workload::rating_matrix ratings;
  const float* start_users = nullptr;  // factors before the first iteration, `rank` numbers each
  const float* start_items = nullptr;
  std::uint32_t rank = 16;  // or 32
  factorisation_method method = factorisation_method::equations;
  float lambda = 0;
  float rate = 0;           // of a gradient
  std::uint32_t steps = 1;  // of a gradient, in an epoch
  bool to_readers = false;  // factors go to the devices with ratings of them, not to all

  // A request cuts the users' factors; the items' are cut here.
  std::uint64_t elements() const { return ratings.users * rank; }

  template <class Node>
  using works =
      std::variant<workload::als<Node, 16>, workload::als<Node, 32>, workload::als_sgd<Node, 16>,
                   workload::als_sgd<Node, 32>, workload::als_sgd_by_lane<Node, 16>,
                   workload::als_sgd_by_lane<Node, 32>>;

  // Every method with every rank, with the interface that a run needs.
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
    // The users' factors, then the items'.
    std::vector<float> result(std::uint32_t device) const {
      auto [users, items] = std::visit([&](const auto& w) { return w.factors(device); }, chosen_);
      users.insert(users.end(), items.begin(), items.end());
      return std::move(users);
    }
    double residual() const {
      return std::visit([](const auto& w) { return w.residual(); }, chosen_);
    }

   private:
    workload::factors start_;
    works<Node> chosen_;
  };

  template <class Node>
  work<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, *this, options};
  }

 private:
  workload::factors start() const {
    return {{start_users, start_users + ratings.users * rank},
            {start_items, start_items + ratings.items * rank}};
  }

  // The items' region: contiguous parts of nearly as many ratings and items each.
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
                  workload::sent_to_readers(
                      users,
                      workload::readers_of_columns(rows(items.boundaries), ratings.item_offsets,
                                                   ratings.item_users, ratings.users),
                      shift),
                  workload::sent_to_readers(
                      items,
                      workload::readers_of_columns(rows(users.boundaries), ratings.user_offsets,
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

}  // namespace interlace::run
