// Tests of the measurements of links, of link counters, and of CUDA's libraries.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <thread>

#include "bench/all_reduces.hpp"
#include "bench/copies.hpp"
#include "bench/microbenchmark_cuda.hpp"
#include "bench/multiprocessor_cuda.hpp"
#include "bench/relay_cost.hpp"
#include "cuda/library.hpp"
#include "cuda/measure_links.hpp"
#include "cuda/measure_rates.hpp"
#include "cuda/transfer/nccl_library.hpp"
#include "gpu.hpp"
#include "interlace/cuda/nvlink_counters.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::measure_tests {
namespace {

using gpu_test::options_for;
using gpu_test::random_at;

class measure_test : public testing::Test {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(1); }
};

std::string name_of(int memory) {
  return memory == cuda::host_memory ? "host" : "GPU " + std::to_string(memory);
}

TEST_F(measure_test, links) {
  cuda::link_options o;
  o.sizes = {std::uint64_t{1} << 20U, std::uint64_t{64} << 20U};
  o.repetitions = 3;
  double done = 0;
  o.progress = [&](double d) { done = d; };
  const auto links = cuda::measure_links(o);
  const std::size_t gpus = cuda::device_count();
  // Each connection has two measurements for each size: one direction alone, and both directions
  // together.
  EXPECT_EQ(links.size(), 2 * (gpus * (gpus - 1) + 2 * gpus + gpus * (gpus - 1) / 2 + gpus));
  EXPECT_EQ(done, 1);
  for (const auto& l : links) {
    std::printf("[  LINKS   ] %-6s %s %-6s %10.0f KiB %8.1f GB/s (%.1f to %.1f)\n",
                name_of(l.from).c_str(), l.both_ways ? "<->" : "-->", name_of(l.to).c_str(),
                static_cast<double>(l.bytes) / 1024, l.bytes_per_s / 1e9, l.lowest / 1e9,
                l.highest / 1e9);
    EXPECT_GT(l.bytes_per_s, 1e8);
    EXPECT_LT(l.bytes_per_s, 5e12);
    EXPECT_LE(l.lowest, l.bytes_per_s);
    EXPECT_GE(l.highest, l.bytes_per_s);
  }
  o.sizes = {};
  EXPECT_THROW((void)cuda::measure_links(o), usage_error);
}

// The counters grow by the bytes that an exchange sends. The driver may update the counters late.
// Other programs may use the GPU, and the counters include their traffic, so only a lower bound
// holds.
TEST_F(measure_test, link_counters) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  const auto options = options_for(2);
  const auto before = cuda::read_nvlink_counters(0);
  if (!before) GTEST_SKIP() << "the driver has no NVLink counters for GPU 0";
  cuda::node node(options);
  const std::uint64_t n = std::uint64_t{64} << 20U;
  kernel::region_options o;
  o.boundaries = {0, n, n};
  auto region = node.create_region<std::uint32_t>(o);
  node.run([&] {
    for (int e = 0; e < 8; ++e) node.exchange(region);
  });
  const double sent = 8.0 * n * sizeof(std::uint32_t);
  auto after = cuda::read_nvlink_counters(0);
  for (int k = 0; k < 20; ++k) {
    if (after && static_cast<double>((*after - *before).data_sent) >= 0.99 * sent) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    after = cuda::read_nvlink_counters(0);
  }
  ASSERT_TRUE(after);
  const auto moved = *after - *before;
  std::printf("[ COUNTERS ] sent %.0f bytes, data %.3f, raw %.3f of it\n", sent,
              static_cast<double>(moved.data_sent) / sent,
              static_cast<double>(moved.raw_sent) / sent);
  EXPECT_GE(static_cast<double>(moved.data_sent), 0.99 * sent);
  EXPECT_GE(moved.raw_sent, moved.data_sent);
}

double attribute(cudaDeviceAttr which) {
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, which, 0), cudaSuccess);
  return value;
}

// Compares the rates with the driver's clocks and widths, and with the operations per clock in
// NVIDIA's guide.
TEST_F(measure_test, rates) {
  const auto rates = cuda::measure_rates({});
  const double memory =
      2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  const double clocks =
      1e3 * attribute(cudaDevAttrClockRate) * attribute(cudaDevAttrMultiProcessorCount);
  std::printf(
      "[  RATES   ] read %.0f, write %.0f of %.0f GB/s; fp32 %.1f, fp64 %.1f, integer %.1f, "
      "together %.1f a clock and multiprocessor\n",
      rates.read_bytes_per_s / 1e9, rates.write_bytes_per_s / 1e9, memory / 1e9,
      rates.fp32_per_s / clocks, rates.fp64_per_s / clocks, rates.integer_per_s / clocks,
      rates.together_per_s / clocks);
  EXPECT_GT(rates.cache_bytes, std::uint64_t{1} << 20U);
  for (const double found : {rates.read_bytes_per_s, rates.write_bytes_per_s}) {
    EXPECT_GT(found, 0.75 * memory);
    EXPECT_LT(found, 1.0 * memory);
  }
  for (const double found : {rates.fp32_per_s, rates.fp64_per_s, rates.integer_per_s}) {
    EXPECT_LE(found, rates.together_per_s);
    EXPECT_GT(found, clocks);
  }
  // At most four warps complete an instruction in each clock.
  EXPECT_LT(rates.together_per_s, 128.5 * clocks);
  if (attribute(cudaDevAttrComputeCapabilityMajor) == 9) {
    EXPECT_GT(rates.fp32_per_s, 0.75 * 128 * clocks);
    EXPECT_GT(rates.fp64_per_s, 0.75 * 64 * clocks);
    EXPECT_LT(rates.fp64_per_s, 64.5 * clocks);
    EXPECT_GT(rates.integer_per_s, 0.75 * 64 * clocks);
  }
  EXPECT_THROW((void)cuda::measure_rates({.repetitions = 0}), usage_error);
  EXPECT_THROW((void)cuda::measure_rates({.bytes = std::uint64_t{1} << 20U}), device_error);
}

struct scale {
  static constexpr std::uint32_t threads = 256;
  local<const float> in;
  local<float> out;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i < in.size) lane.store(out, i, 2.0F * lane.load(in, i));
    });
  }
};

// The time of a kernel that only streams is about the kernel's bytes divided by the measured rates.
// The time can be shorter only because of data that the L2 keeps.
TEST_F(measure_test, a_stream_is_near_its_limit) {
  const auto rates = cuda::measure_rates({});
  const std::uint64_t n = std::max<std::uint64_t>(1U << 24U, rates.cache_bytes);
  cuda::node node(options_for(1));
  const auto in = node.allocate<float>(0, n);
  const auto out = node.allocate<float>(0, n);
  cuda::run_options asked;
  asked.warm_ups = 1;
  asked.repetitions = 5;
  const double time_s =
      node.run(
              [&] {
                node.launch(0, scale{in, out},
                            {(n + scale::threads - 1) / scale::threads, scale::threads, 0});
              },
              asked)
          .time_s;
  const double bytes = 4.0 * static_cast<double>(n);
  const double limit_s = bytes / rates.read_bytes_per_s + bytes / rates.write_bytes_per_s;
  std::printf("[  RATES   ] a stream of %.0f MB reaches %.0f %% of its limit\n", 2 * bytes / 1e6,
              100 * limit_s / time_s);
  EXPECT_GT(limit_s, 0.5 * time_s);
  EXPECT_LT(limit_s, 1.3 * time_s);
}

TEST_F(measure_test, sort) {
  cuda::node node(options_for(1));
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    std::vector<std::uint64_t> keys(n);
    for (std::size_t i = 0; i < n; ++i) keys[i] = random_at(1, i) >> 20U;
    auto d_keys = node.allocate<std::uint64_t>(0, n);
    node.upload(d_keys, keys);
    cuda::sort_keys(node, 0, d_keys, node.allocate<std::uint64_t>(0, n), 44);
    std::sort(keys.begin(), keys.end());
    ASSERT_EQ(node.download(d_keys), keys);
  }
}

// Returns the edges of the generator, computed as graphs.py documents it.
std::vector<std::pair<std::uint64_t, std::uint64_t>> rmat_edges(const cuda::rmat_options& o) {
  const auto threshold = [](double p) { return static_cast<std::uint64_t>(std::ldexp(p, 32)); };
  const std::uint64_t at_a = threshold(o.a);
  const std::uint64_t at_ab = threshold(o.a + o.b);
  const std::uint64_t at_abc = threshold((o.a + o.b) + o.c);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> edges;  // pairs of target and source
  for (std::uint64_t k = 0; k < std::uint64_t{o.edge_factor} << o.scale; ++k) {
    std::uint64_t source = 0;
    std::uint64_t target = 0;
    for (std::uint64_t level = 0; level < o.scale; ++level) {
      std::uint64_t z = o.seed * 0x9E3779B97F4A7C15ULL + k * o.scale + level;
      z += 0x9E3779B97F4A7C15ULL;
      z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
      z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
      const std::uint64_t u = (z ^ (z >> 31U)) >> 32U;
      source = 2 * source + (u >= at_ab ? 1 : 0);
      target = 2 * target + (u < at_a ? 0 : u < at_ab ? 1 : u < at_abc ? 0 : 1);
    }
    edges.emplace_back(target, source);
  }
  return edges;
}

TEST_F(measure_test, rmat_is_the_documented_graph) {
  cuda::node node(options_for(1));
  for (const std::uint32_t scale : {1U, 9U, 14U}) {
    cuda::rmat_options o;
    o.scale = scale;
    o.seed = 5 + scale;
    auto edges = rmat_edges(o);
    std::sort(edges.begin(), edges.end());
    const auto g = cuda::make_rmat(node, 0, o);
    ASSERT_EQ(g.edges, edges.size());
    std::vector<std::uint32_t> degree(g.rows, 0), columns(g.edges);
    std::vector<std::uint64_t> offsets(g.rows + 1, 0);
    for (std::size_t k = 0; k < edges.size(); ++k) {
      ++offsets[edges[k].first + 1];
      ++degree[edges[k].second];
      columns[k] = static_cast<std::uint32_t>(edges[k].second);
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    EXPECT_EQ(node.download(g.offsets), offsets);
    EXPECT_EQ(node.download(g.columns), columns);
    EXPECT_EQ(node.download(g.out_degree), degree);
  }
  cuda::rmat_options bad;
  bad.scale = 40;
  EXPECT_THROW((void)cuda::make_rmat(node, 0, bad), usage_error);
}

// A graph of scale 24 with 16 edges for each vertex must fit, and takes seconds.
TEST_F(measure_test, rmat_scale_24) {
  cuda::node node(options_for(1));
  cuda::rmat_options o;
  o.scale = 24;
  const auto g = cuda::make_rmat(node, 0, o);
  const auto degree = node.download(g.out_degree);
  EXPECT_EQ(std::accumulate(degree.begin(), degree.end(), std::uint64_t{0}), g.edges);
  const auto offsets = node.download(g.offsets);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_EQ(offsets.front(), 0U);
  EXPECT_EQ(offsets.back(), g.edges);
}

TEST_F(measure_test, what_relays_cost) {
  INTERLACE_NEED_DISTINCT_GPUS(3);
  const bench::relay_cost_request request{
      .to = 0,
      .bytes = std::uint64_t{64} << 20U,
      .method = "INTERLACE_COPY=auto INTERLACE_COPY_RELAYS=gpu1",
      .kernels = {1, 2},
      .window_s = 0.02,
      .warmup = 2,
      .repeats = 2};
  const bench::relay_cost found = bench::measure_relay_cost(request);
  EXPECT_EQ(found.wrong, 0U);
  ASSERT_EQ(found.message_alone_s.size(), 2U);
  ASSERT_EQ(found.message_beside_s.size(), 2U);
  for (const auto* rates : {&found.alone_bytes_per_s, &found.beside_bytes_per_s}) {
    ASSERT_EQ(rates->size(), 2U);
    for (const auto& of_gpu : *rates) {
      ASSERT_EQ(of_gpu.size(), 2U);
      for (const double rate : of_gpu) EXPECT_GT(rate, 1e10);
    }
  }
}

// Each measurement throws if data did not arrive. The rates must be below 1 TB/s: an H100's links
// carry 478 GB/s, protocol included, in one direction.
TEST_F(measure_test, kernels_that_store_and_load) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  const bench::kernel_repeats few{4, 3};
  const auto show = [](const char* what, const bench::kernel_times& found) {
    ASSERT_EQ(found.time_s.size(), 3U);
    for (const double time_s : found.time_s) {
      const double rate = static_cast<double>(found.payload) / time_s;
      std::printf("[ KERNELS  ] %-20s %8.1f GB/s\n", what, 1e-9 * rate);
      EXPECT_GT(rate, 1e9);
      EXPECT_LT(rate, 1e12);
    }
  };
  constexpr std::uint64_t n = 1U << 20U;
  const bench::kernel_times scattered = bench::stores_on_cuda(2, 4, {1, n, 1}, few);
  EXPECT_EQ(scattered.payload, 4 * n);
  show("4 B scattered", scattered);
  show("128 B scattered", bench::stores_on_cuda(2, 4, {1, n, 32}, few));
  const bench::kernel_times both = bench::stores_on_cuda(2, 16, {2, n, 0}, few);
  EXPECT_EQ(both.payload, 2 * 16 * n);
  show("both ways", both);
  const bench::kernel_times pieces = bench::stores_on_cuda(2, 4, {1, n, 8, 4, 2}, few);
  EXPECT_EQ(pieces.payload, 2 * n);
  show("16 B, 8 B further", pieces);
  show("copy of 8 blocks", bench::copy_kernel_on_cuda(16 * n, 8, few));
  const bench::kernel_times loads = bench::loads_on_cuda(4, n, few);
  EXPECT_EQ(loads.payload, 4 * n);
  show("4 B loads", loads);
  show("16 B loads", bench::loads_on_cuda(16, n, few));

  EXPECT_THROW((void)bench::stores_on_cuda(2, 8, {1, n, 1}, few), usage_error);
  EXPECT_THROW((void)bench::stores_on_cuda(2, 4, {1, n, 3}, few), usage_error);
  EXPECT_THROW((void)bench::stores_on_cuda(2, 4, {1, n, 1}, {0, 1}), usage_error);
  EXPECT_THROW((void)bench::copy_kernel_on_cuda(n, 0, few), usage_error);
}

// The L1 must have a lower latency than the L2, and the L2 a lower latency than the memory. If more
// warps run than the lanes can serve, each chain of dependent operations becomes slower.
TEST_F(measure_test, multiprocessors) {
  namespace measured = bench::multiprocessor;
  using bench::loaded_from;
  constexpr std::uint32_t repeats = 3;
  const auto middle = [](std::vector<double> values) {
    EXPECT_EQ(values.size(), 3U);
    std::sort(values.begin(), values.end());
    return values[1];
  };
  for (const std::string& kind : measured::chain_kinds()) {
    const double one = middle(measured::chain_clocks(kind, 1, repeats));
    const double many = middle(measured::chain_clocks(kind, 8, repeats));
    std::printf("[  CHAIN   ] %-24s %6.1f clocks alone, %6.1f among 8\n", kind.c_str(), one, many);
    EXPECT_GT(one, 1);
    EXPECT_GT(many, 0.95 * one);
    EXPECT_LT(many, 9 * one);
  }
  const double l1 = middle(measured::chase_clocks(loaded_from::l1, 1U << 14U, repeats));
  const double l2 = middle(measured::chase_clocks(loaded_from::l2, 1U << 20U, repeats));
  const double far = middle(measured::chase_clocks(loaded_from::l2, 1U << 30U, repeats));
  EXPECT_GT(l1, 10);
  EXPECT_GT(l2, 2 * l1);
  EXPECT_GT(far, 1.3 * l2);
  const double alone = middle(measured::loop_clocks(loaded_from::l2, 1, 1, repeats));
  EXPECT_GT(alone, 1.5 * middle(measured::loop_clocks(loaded_from::l2, 4, 1, repeats)));
  EXPECT_GT(middle(measured::small_kernel_s(1000, 8, repeats)),
            middle(measured::small_kernel_s(0, 1, repeats)));
  for (const std::uint32_t registers : {32U, 64U, 128U}) {
    EXPECT_GT(middle(measured::gathers_per_s(registers, 1U << 24U, repeats)), 1e9);
  }
  EXPECT_GT(middle(measured::sectors_per_s(1U << 24U, repeats)), 1e10);
  EXPECT_GT(middle(measured::reads_per_s(1U << 24U, repeats)), 1e12);
  const double line = middle(measured::line_load_clocks(1, 0, repeats));
  EXPECT_GT(line, 0.9);
  EXPECT_GT(middle(measured::line_load_clocks(32, 0, repeats)), 2 * line);
  EXPECT_GT(middle(measured::line_load_clocks(1, 1, repeats)), 0.95 * line);
  EXPECT_GT(middle(measured::chase_clocks(loaded_from::l2, 1U << 20U, repeats, 0, true)), 0.9 * l2);
  EXPECT_GT(middle(measured::writes_per_s(1U << 24U, repeats)), 1e12);
  EXPECT_GT(middle(measured::fresh_reads_per_s(1U << 24U, repeats)), 1e12);
  const double exchange = middle(bench::exchanges_on_cuda(0, {32, repeats}).time_s);
  EXPECT_GT(exchange, 5e-7);
  EXPECT_LT(exchange, 1e-4);
  EXPECT_GT(middle(bench::exchanges_on_cuda(2, {32, repeats}).time_s), exchange);
  EXPECT_GT(middle(measured::block_s(repeats)), 1e-11);
  EXPECT_LT(middle(measured::block_s(repeats)), 1e-7);
  EXPECT_THROW((void)measured::line_load_clocks(3, 0, repeats), usage_error);
  EXPECT_THROW((void)measured::chain_clocks("DADD", 1, repeats), usage_error);
  EXPECT_THROW((void)measured::loop_clocks(loaded_from::l1, 3, 1, repeats), usage_error);
  EXPECT_THROW((void)measured::gathers_per_s(48, 1U << 24U, repeats), usage_error);
}

TEST_F(measure_test, bytes_on_the_wire_of_stores) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  const auto scattered = bench::store_wire_on_cuda(4, {1, 1U << 18U, 1}, {64, 2});
  if (!scattered) GTEST_SKIP() << "the driver has no NVLink counters for GPU 0";
  const auto contiguous = bench::store_wire_on_cuda(16, {1, 1U << 18U, 0}, {64, 2});
  ASSERT_TRUE(contiguous);
  ASSERT_EQ(scattered->size(), 2U);
  std::printf("[   WIRE   ] 4 B %.3f, contiguous %.3f bytes a byte\n", scattered->front(),
              contiguous->front());
  for (const double bytes : *contiguous) {
    EXPECT_GT(bytes, 1);
    EXPECT_LT(bytes, 2);
  }
  // A scattered store of 4 bytes sends a sector of at least 32 bytes and headers, so each stored
  // byte takes more than 4 bytes.
  for (const double bytes : *scattered) EXPECT_GT(bytes, 4);
}

TEST_F(measure_test, copies_on_streams) {
  const std::uint64_t large = 16'000'001;
  std::vector<bench::stream_copy> copies{{-1, 0, large, 0}, {0, -1, large, 1}, {-1, 0, 100, 0}};
  if (gpu_test::gpus_here() > 1) {
    copies.push_back({0, 1, large, 2});
    copies.push_back({1, 0, large, 3});
    copies.push_back({1, -1, large, 3});
  }
  for (const bool by_host : {false, true}) {
    const std::vector<double> time_s = bench::copies_on_cuda(copies, by_host, 3);
    ASSERT_EQ(time_s.size(), 3U);
    for (const double one_s : time_s) {
      EXPECT_GT(one_s, static_cast<double>(large) / 1e12);
      EXPECT_LT(one_s, 0.1);
    }
  }
  EXPECT_THROW((void)bench::copies_on_cuda({}, false, 3), usage_error);
  EXPECT_THROW((void)bench::copies_on_cuda({{0, 0, 8, 0}}, false, 3), usage_error);
  EXPECT_THROW((void)bench::copies_on_cuda({{-1, 99, 8, 0}}, false, 3), usage_error);
  EXPECT_THROW((void)bench::copies_on_cuda(copies, false, 0), usage_error);
}

// Two messages at a time go in each direction. Sums may differ only by rounding.
TEST_F(measure_test, nccl_beside_copies_and_all_reduces) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  try {
    (void)cuda::nccl_library::of_process();
  } catch (const usage_error& error) {
    GTEST_SKIP() << error.what();
  }
  bench::copy_request copies;
  copies.messages = {{0, 1}, {1, 0}, {0, 1}, {1, 0}};
  copies.bytes = 3'000'001;
  copies.methods = {"memcpy", "auto", "nccl"};
  copies.warmup = copies.repeats = 2;
  for (const bench::copy_times& one : bench::measure_copies(copies)) {
    EXPECT_EQ(one.wrong, 0U) << one.method;
    EXPECT_EQ(one.time_s.size(), 2U);
  }
  copies.messages = {{-1, 0}};
  EXPECT_THROW((void)bench::measure_copies(copies), usage_error);
  bench::collective_request sums;
  sums.pattern = bench::collective_pattern::all_reduce;
  sums.gpus = 2;
  sums.bytes = 4'000'004;
  sums.methods = {"auto", "nccl"};
  sums.warmup = sums.repeats = 2;
  for (const bench::copy_times& one : bench::measure_collective(sums))
    EXPECT_EQ(one.wrong, 0U) << one.method;
}

}  // namespace
}  // namespace interlace::measure_tests
