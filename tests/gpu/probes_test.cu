// On any number of GPUs and with every mechanism, the probe kernels must give the same results as
// plain loops. The probe kernels and PageRank's kernel must not be slower than their twins. A twin
// is a handwritten kernel that does the same.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <future>
#include <random>

#include "../probes/bitonic.hpp"
#include "../probes/spmv.hpp"
#include "../probes/stencil.hpp"
#include "cuda/library.hpp"
#include "gpu.hpp"
#include "interlace/cuda/check.hpp"
#include "twins.cuh"
#include "workload/pagerank.hpp"

namespace interlace::probes_tests {
namespace {

using gpu_test::options_for;
using kernel::mechanism;

constexpr mechanism mechanisms[] = {mechanism::bulk_copy, mechanism::split,
                                    mechanism::inline_stores, mechanism::polling,
                                    mechanism::copy_engine};

std::vector<float> random_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(n);
  std::generate(values.begin(), values.end(), [&] { return value(random); });
  return values;
}

std::vector<std::uint32_t> random_keys(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> keys(n);
  std::generate(keys.begin(), keys.end(), random);
  return keys;
}

class probes_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, probes_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

TEST_P(probes_test, stencil) {
  constexpr std::uint32_t columns = 1000;
  constexpr std::uint32_t rows = 517;
  constexpr std::uint32_t steps = 25;
  const auto start = random_values(std::size_t{columns} * rows, 1);
  const auto expected = probe::stencil_reference(start, columns, rows, steps);
  for (const mechanism how : mechanisms) {
    cuda::node node(options_for(GetParam()));
    probe::stencil<cuda::node> s(node, columns, rows, how);
    s.set(start);
    node.run([&] {
      for (std::uint32_t k = 0; k < steps; ++k) s.enqueue_step();
    });
    const auto result = s.result();
    ASSERT_EQ(result.size(), expected.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      ASSERT_NEAR(result[i], expected[i], 1e-5) << "element " << i;
    }
  }
}

TEST_P(probes_test, bitonic) {
  cuda::node node(options_for(GetParam()));
  for (const std::size_t n : {std::size_t{512}, std::size_t{1} << 18U}) {
    std::vector<local<std::uint32_t>> arrays;
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      arrays.push_back(node.allocate<std::uint32_t>(d, n));
      node.upload(arrays[d], random_keys(n, d));
    }
    node.run([&] {
      for (std::uint32_t d = 0; d < node.devices(); ++d) {
        probe::enqueue_bitonic_sort(node, d, arrays[d]);
      }
    });
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      auto expected = random_keys(n, d);
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(node.download(arrays[d]), expected) << n << " keys on device " << d;
    }
  }
}

TEST_P(probes_test, spmv) {
  const auto a = probe::random_matrix(20'011, 30, 3);
  const auto x = random_values(a.rows(), 4);
  const auto expected = probe::spmv_reference(a, x);
  for (const mechanism how : mechanisms) {
    cuda::node node(options_for(GetParam()));
    probe::spmv<cuda::node> s(node, a, how);
    s.set(x);
    node.run([&] { s.enqueue_step(); });
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      ASSERT_NEAR(s.product(d), expected.product, 1e-2);
      const auto y = s.y(d);
      for (std::uint64_t r = 0; r < a.rows(); ++r) ASSERT_NEAR(y[r], expected.y[r], 1e-3);
    }
  }
}

// --- beside the twins ----------------------------------------------------------------------------

class twins_test : public testing::Test {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(1); }
};

// The median times of interleaved runs. Each run has many repetitions. Events measure the times.
struct race {
  double model_s = 0;
  double twin_s = 0;
};
race run_race(cudaStream_t stream, const std::function<void()>& model,
              const std::function<void()>& by_hand, int repetitions) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  INTERLACE_CUDA_CHECK(cudaEventCreate(&begin));
  INTERLACE_CUDA_CHECK(cudaEventCreate(&end));
  std::vector<double> times[2];
  for (int round = 0; round < 8; ++round) {
    for (int which = 0; which < 2; ++which) {
      INTERLACE_CUDA_CHECK(cudaEventRecord(begin, stream));
      for (int k = 0; k < repetitions; ++k) which == 0 ? model() : by_hand();
      INTERLACE_CUDA_CHECK(cudaEventRecord(end, stream));
      INTERLACE_CUDA_CHECK(cudaEventSynchronize(end));
      float ms = 0;
      INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (round > 0) times[which].push_back(static_cast<double>(ms) * 1e-3 / repetitions);
    }
  }
  INTERLACE_CUDA_CHECK(cudaEventDestroy(begin));
  INTERLACE_CUDA_CHECK(cudaEventDestroy(end));
  for (auto& t : times) std::sort(t.begin(), t.end());
  return {times[0][times[0].size() / 2], times[1][times[1].size() / 2]};
}

void judge(const char* name, const race& r) {
  std::printf("[  TWINS   ] %-8s model %9.1f us, by hand %9.1f us, ratio %.3f\n", name,
              r.model_s * 1e6, r.twin_s * 1e6, r.model_s / r.twin_s);
  // Both times are equal except for noise. Another test compares the machine code instruction by
  // instruction.
  EXPECT_LT(r.model_s, r.twin_s * 1.10) << name;
}

TEST_F(twins_test, stencil) {
  constexpr std::uint32_t columns = 8192;
  constexpr std::uint32_t rows = 8192;
  cuda::node node(options_for(1));
  kernel::region_options o;
  o.boundaries = {0, std::uint64_t{columns} * rows};
  auto u = node.create_region<float>(o);
  const auto start = random_values(std::size_t{columns} * rows, 2);
  node.set_front(u, start);
  const auto view = node.view(u, 0);
  auto next = node.allocate<float>(0, view.size);
  const std::uint64_t blocks =
      std::uint64_t{columns / probe::stencil_step::tile_x} * (rows / probe::stencil_step::tile_y);
  const auto race = run_race(
      node.stream(0),
      [&] {
        node.launch(0, probe::stencil_step{view, columns, rows, 0, rows},
                    {blocks, probe::stencil_step::threads, 0});
      },
      [&] {
        twin::stencil_step<<<static_cast<unsigned int>(blocks), 256, 0, node.stream(0)>>>(
            view.front, next.data, columns, rows);
      },
      20);
  node.exchange(u);
  EXPECT_EQ(node.front(u, 0), node.download(next));
  judge("stencil", race);
}

TEST_F(twins_test, bitonic) {
  const std::size_t n = std::size_t{1} << 23U;
  cuda::node node(options_for(1));
  const auto keys = random_keys(n, 8);
  auto sorted = std::async(std::launch::async, [values = keys]() mutable {
    std::sort(values.begin(), values.end());
    return values;
  });
  auto model = node.allocate<std::uint32_t>(0, n);
  auto by_hand = node.allocate<std::uint32_t>(0, n);
  node.upload(model, keys);
  node.upload(by_hand, keys);
  // The work of a bitonic sort does not depend on the keys, with one exception: the sort does not
  // store keys that are already in order.
  const auto race = run_race(
      node.stream(0), [&] { probe::enqueue_bitonic_sort(node, 0, model); },
      [&] { twin::sort(by_hand.data, n, node.stream(0)); }, 3);
  const auto expected = sorted.get();
  EXPECT_EQ(node.download(model), expected);
  EXPECT_EQ(node.download(by_hand), expected);
  judge("bitonic", race);
}

TEST_F(twins_test, spmv) {
  const auto a = probe::random_matrix(400'000, 40, 5);
  const auto x = random_values(a.rows(), 6);
  cuda::node node(options_for(1));
  const auto put = [&](const auto& values) {
    auto array = node.allocate<std::remove_cvref_t<decltype(values[0])>>(0, values.size());
    node.upload(array, values);
    return array;
  };
  const auto offsets = put(a.offsets);
  const auto columns = put(a.columns);
  const auto values = put(a.values);
  kernel::region_options o;
  o.boundaries = {0, a.rows()};
  auto region = node.create_region<float>(o);
  node.set_front(region, x);
  const auto view = node.view(region, 0);
  auto product = node.create_reduction<double, combine::add>(1, 16);
  auto y = node.allocate<float>(0, a.rows());
  auto sum = put(std::vector<double>(16, 0.0));
  const std::uint64_t blocks = (a.rows() + 7) / 8;
  const auto race = run_race(
      node.stream(0),
      [&] {
        node.launch(
            0, probe::spmv_rows{offsets, columns, values, view, node.view(product, 0), 0, a.rows()},
            {blocks, probe::spmv_rows::threads, probe::spmv_rows::shared_bytes});
      },
      [&] {
        twin::spmv<<<static_cast<unsigned int>(blocks), 256, 0, node.stream(0)>>>(
            offsets.data, columns.data, values.data, view.front, y.data, sum.data, a.rows(), 16);
      },
      20);
  node.exchange(region, product);
  EXPECT_EQ(node.front(region, 0), node.download(y));
  double by_hand = 0;
  for (const double s : node.download(sum)) by_hand += s;
  EXPECT_NEAR(node.front(product, 0)[0], by_hand, 1e-6 * std::abs(by_hand) + 1e-3);
  judge("spmv", race);
}

TEST_F(twins_test, rank_update) {
  using rank_update = workload::rank_update<workload::edge_units>;
  cuda::node node(options_for(1));
  cuda::rmat_options made;
  made.scale = 21;
  const cuda::device_graph graph = cuda::make_rmat(node, 0, made);
  const auto offsets = node.download(graph.offsets);
  const auto out_degree = node.download(graph.out_degree);
  const auto units = workload::make_units(offsets.data(), 0, graph.rows);
  ASSERT_GT(units.shared_rows, 0U);
  const auto put = [&](const auto& values) {
    auto array = node.allocate<std::remove_cvref_t<decltype(values[0])>>(0, values.size());
    node.upload(array, values);
    return array;
  };
  const auto row_offsets = put(std::vector<std::uint32_t>(offsets.begin(), offsets.end()));
  const auto unit_rows = put(units.rows);
  const auto unit_edges = put(units.edges);
  const auto unit_slots = put(units.slots);
  const auto row_sums = put(std::vector<std::uint64_t>(units.shared_rows, 0));
  const auto twin_row_sums = put(std::vector<std::uint64_t>(units.shared_rows, 0));

  constexpr std::uint32_t copies = 64;
  kernel::region_options o;
  o.boundaries = {0, graph.rows};
  auto rank = node.create_region<float>(o);
  auto totals = node.create_reduction<double, combine::add>(2, copies);
  const auto n = static_cast<double>(graph.rows);
  std::vector<float> start(graph.rows);
  double dangling = 0;
  for (std::uint64_t v = 0; v < graph.rows; ++v) {
    start[v] = static_cast<float>(1.0 / n / std::max(1U, out_degree[v]));
    if (out_degree[v] == 0) dangling += 1.0 / n;
  }
  node.set_front(rank, start);
  node.set_front(totals, {dangling, 0.0});
  const auto view = node.view(rank, 0);
  const auto total = node.view(totals, 0);
  auto next = node.allocate<float>(0, graph.rows);
  auto partials = put(std::vector<double>(2 * copies, 0.0));

  const rank_update model{
      {{row_offsets, graph.columns, 0, graph.rows}, unit_rows, unit_edges, unit_slots, row_sums},
      graph.out_degree,
      view,
      total,
      0.85F,
      n,
      false};
  const twin::rank_input input{
      row_offsets.data,      graph.columns.data, unit_rows.data, unit_edges.data, unit_slots.data,
      graph.out_degree.data, view.front,         total.front,    0.85F,           n};
  const auto race = run_race(
      node.stream(0),
      [&] {
        node.launch(0, model, {units.count(), rank_update::threads, rank_update::shared_bytes});
      },
      [&] {
        twin::rank_update<<<static_cast<unsigned int>(units.count()), twin::rank_threads, 0,
                            node.stream(0)>>>(input, twin_row_sums.data, next.data, partials.data,
                                              copies, false);
      },
      20);
  // Both kernels ran equally often on the same fronts.
  node.exchange(rank, totals);
  EXPECT_EQ(node.front(rank, 0), node.download(next));
  double by_hand = 0;
  const auto sums = node.download(partials);
  for (std::uint32_t c = 0; c < copies; ++c) by_hand += sums[2 * c];
  EXPECT_NEAR(node.front(totals, 0)[0], by_hand, 1e-9 * by_hand);
  EXPECT_GT(by_hand, 0);
  judge("pagerank", race);
}

}  // namespace
}  // namespace interlace::probes_tests
