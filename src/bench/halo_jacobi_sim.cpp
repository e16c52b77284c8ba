#include "bench/halo_jacobi_sim.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "sim/transfer/plan_executor.hpp"
#include "workload/halo_jacobi.hpp"

namespace interlace::bench {

namespace {

using device_step = workload::halo_jacobi_step<workload::local_rows>;

// The row above row `at` of a periodic grid. `at` may be one more than the number of the last row.
std::uint64_t above(std::uint64_t at, std::uint64_t rows) {
  if (at == 0) return rows - 1;
  return at <= rows ? at - 1 : at - 1 - rows;
}

class halo_jacobi {
 public:
  halo_jacobi(const simulated_halo_jacobi& asked, const machine::machine& described)
      : asked_(asked),
        described_(described),
        node_(described, asked.devices, asked.check_interrupt),
        norm_(node_.create_reduction<double, combine::add>(1, 64)),
        start_(std::uint64_t{asked.devices} * asked.rows * asked.columns) {
    const std::uint64_t all = std::uint64_t{asked.devices} * asked.rows;
    for (std::uint64_t row = 0; row < all; ++row)
      for (std::uint64_t column = 0; column < asked.columns; ++column)
        start_[row * asked.columns + column] = workload::halo_jacobi_value(row, column);
    for (std::uint32_t d = 0; d < asked.devices; ++d) {
      const std::uint64_t points = (std::uint64_t{asked.rows} + 2) * asked.columns;
      std::vector<float> own(points);
      for (std::uint64_t row = 0; row < asked.rows + 2U; ++row) {
        const std::uint64_t of_all = above(std::uint64_t{d} * asked.rows + row, all);
        std::copy_n(&start_[of_all * asked.columns], asked.columns, &own[row * asked.columns]);
      }
      for (auto* grid : {&a_, &next_}) {
        grid->push_back(node_.allocate<float>(d, points));
        node_.upload(grid->back(), own);
      }
    }
  }

  halo_jacobi_result run() {
    halo_jacobi_result result;
    for (std::uint32_t iteration = 0; iteration < asked_.iterations; ++iteration) {
      result.compute_s += node_
                              .run([&] {
                                for (std::uint32_t d = 0; d < asked_.devices; ++d) launch(d);
                              })
                              .time_s;
      // A device's first own row goes to its predecessor, and its last own row goes to its
      // successor.
      result.exchange_s += exchange(asked_.before, asked_.devices - 1, 1, asked_.rows + 1);
      result.exchange_s += exchange(asked_.behind, 1, asked_.rows, 0);
      std::swap(a_, next_);
    }
    result.compute_s /= asked_.iterations;
    result.exchange_s /= asked_.iterations;
    result.wrong = compare();
    return result;
  }

 private:
  void launch(std::uint32_t d) {
    const device_step kernel{
        {a_[d], next_[d], asked_.columns}, node_.view(norm_, d), asked_.columns, asked_.rows};
    node_.launch(d, kernel,
                 {workload::halo_jacobi_blocks::count(asked_.columns, asked_.rows),
                  device_step::threads, device_step::shared_bytes});
  }

  std::byte* row(std::uint32_t device, std::uint32_t at) const {
    return reinterpret_cast<std::byte*>(next_[device].data + std::uint64_t{at} * asked_.columns);
  }

  // Copies row `from` of each device to row `to` of the device that is `distance` places further on
  // the ring.
  double exchange(const std::vector<plan::plan>& plans, std::uint32_t distance, std::uint32_t from,
                  std::uint32_t to) {
    if (asked_.devices == 1) {
      std::memcpy(row(0, to), row(0, from), asked_.columns * sizeof(float));
      return 0;
    }
    sim::plan_executor executor(described_, asked_.check_interrupt);
    for (std::uint32_t d = 0; d < asked_.devices; ++d) {
      sim::execution wanted;
      wanted.made = &plans[d];
      wanted.sources = {row(d, from)};
      wanted.destinations = {row((d + distance) % asked_.devices, to)};
      wanted.thread = d;
      wanted.how = asked_.graphs ? sim::launched_by::cached_graph : sim::launched_by::streams;
      wanted.delay = static_cast<sim::picoseconds>(std::llround(asked_.handshake_s * 1e12));
      executor.add(std::move(wanted));
    }
    return seconds_of(executor.run());
  }

  std::uint64_t compare() const {
    const std::uint64_t columns = asked_.columns;
    const std::uint64_t all = std::uint64_t{asked_.devices} * asked_.rows;
    std::vector<float> a = start_;
    std::vector<float> next = start_;
    for (std::uint32_t iteration = 0; iteration < asked_.iterations; ++iteration) {
      for (std::uint64_t y = 0; y < all; ++y) {
        const float* up = &a[above(y, all) * columns];
        const float* own = &a[y * columns];
        const float* down = &a[above(y + 2, all) * columns];
        for (std::uint64_t x = 1; x + 1 < columns; ++x)
          next[y * columns + x] = 0.25F * (own[x + 1] + own[x - 1] + down[x] + up[x]);
      }
      std::swap(a, next);
    }
    std::uint64_t wrong = 0;
    for (std::uint32_t d = 0; d < asked_.devices; ++d) {
      for (std::uint64_t row = 0; row < asked_.rows + 2U; ++row) {
        const std::uint64_t of_all = above(std::uint64_t{d} * asked_.rows + row, all);
        for (std::uint64_t x = 0; x < columns; ++x)
          wrong += a_[d].data[row * columns + x] == a[of_all * columns + x] ? 0 : 1;
      }
    }
    return wrong;
  }

  const simulated_halo_jacobi& asked_;
  const machine::machine& described_;
  sim::node node_;
  kernel::reduction<double, combine::add> norm_;
  std::vector<float> start_;
  std::vector<local<float>> a_;  // one for each device
  std::vector<local<float>> next_;
};

void check_plans(const simulated_halo_jacobi& asked, const std::vector<plan::plan>& plans,
                 std::uint32_t distance) {
  if (plans.size() != asked.devices)
    throw usage_error("a ring of " + std::to_string(asked.devices) +
                      " devices needs a plan for each device");
  for (std::uint32_t d = 0; d < asked.devices; ++d) {
    const machine::endpoint from{machine::endpoint_kind::gpu, d};
    const machine::endpoint to{machine::endpoint_kind::gpu, (d + distance) % asked.devices};
    const auto& messages = plans[d].messages;
    if (messages.size() != 1 || messages[0].from != from || messages[0].to != to ||
        messages[0].bytes != asked.columns * sizeof(float))
      throw usage_error("the plan of gpu" + std::to_string(d) +
                        " is not for one row from a device to its neighbour");
  }
}

}  // namespace

halo_jacobi_result halo_jacobi_on_sim(const simulated_halo_jacobi& asked,
                                      const machine::machine& described) {
  if (asked.devices == 0 || asked.columns < 3 || asked.rows == 0 || asked.iterations == 0)
    throw usage_error("Jacobi needs at least 1 device, 3 columns, 1 row and 1 iteration");
  if (asked.devices > 1) {
    check_plans(asked, asked.before, asked.devices - 1);
    check_plans(asked, asked.behind, 1);
  }
  return halo_jacobi(asked, described).run();
}

}  // namespace interlace::bench
