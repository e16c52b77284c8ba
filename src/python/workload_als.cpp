#include <nanobind/stl/string.h>

#include "base/errors.hpp"
#include "python/workloads.hpp"

namespace interlace::python {

run::als_problem als_problem(
    const array_in<std::uint64_t>& user_offsets, const array_in<std::uint32_t>& user_items,
    const array_in<float>& user_values, const array_in<std::uint64_t>& item_offsets,
    const array_in<std::uint32_t>& item_users, const array_in<float>& item_values,
    const matrix_in<float>& start_users, const matrix_in<float>& start_items,
    const std::string& method, double lambda, double rate, std::uint32_t steps,
    const std::string& kernel, const std::string& subscribe) {
  const std::size_t users = start_users.shape(0);
  const std::size_t items = start_items.shape(0);
  check_rows(user_offsets, user_items, items, "items");
  check_rows(item_offsets, item_users, users, "users");
  if (user_offsets.shape(0) != users + 1 || item_offsets.shape(0) != items + 1 ||
      start_users.shape(1) != start_items.shape(1)) {
    throw usage_error("the factors to start from are not those of the users and items");
  }
  const std::size_t count = user_items.shape(0);
  if (user_values.shape(0) != count || item_users.shape(0) != count ||
      item_values.shape(0) != count) {
    throw usage_error("the ratings by users and those by items are not the same");
  }
  if (method != "als" && method != "sgd") {
    throw usage_error("unknown method '" + method + "'; there are als and sgd");
  }
  if (kernel != "warp-per-row" && kernel != "lane-per-row") {
    throw usage_error("unknown kernel '" + kernel + "'; there are warp-per-row and lane-per-row");
  }
  const bool by_lane = kernel == "lane-per-row";
  if (by_lane && method != "sgd") {
    throw usage_error("lane-per-row is a kernel of method sgd; least squares have warp-per-row");
  }
  run::als_problem problem;
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
  problem.rank = static_cast<std::uint32_t>(start_users.shape(1));
  problem.method = method == "als" ? run::factorisation_method::equations
                   : by_lane       ? run::factorisation_method::gradient_by_lane
                                   : run::factorisation_method::gradient;
  problem.lambda = static_cast<float>(lambda);
  problem.rate = static_cast<float>(rate);
  problem.steps = steps;
  problem.to_readers = to_readers(subscribe);
  return problem;
}

}  // namespace interlace::python
