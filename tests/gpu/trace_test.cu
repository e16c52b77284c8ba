// The traced policy counts the accesses of warps on a real GPU. The tests compare these counts with
// those of the simulated node for the same kernels and data.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "../probes/traces.hpp"
#include "gpu.hpp"
#include "interlace/cuda/fft.hpp"
#include "run/gpu_trace.hpp"
#include "trace_sim.hpp"

namespace interlace::trace_tests {
namespace {

using gpu_test::options_for;
using kernel::trace_totals;

class trace_test : public testing::Test {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(1); }
};

// Prints both totals. For each kind of access and each kind of view, the count must be within
// `part` of the simulated count.
void compare(const std::string& name, const trace_totals& seen, const trace_totals& simulated,
             double part) {
  constexpr const char* kinds[] = {"load", "store", "atomic"};
  constexpr const char* spaces[] = {"local", "replicated", "unified", "reduced"};
  const auto hold = [&](const char* what, std::uint64_t here, std::uint64_t there) {
    EXPECT_NEAR(static_cast<double>(here), static_cast<double>(there),
                part * static_cast<double>(there))
        << name << ": " << what;
  };
  for (std::size_t k = 0; k < trace_totals::kinds; ++k) {
    for (std::size_t s = 0; s < trace_totals::spaces; ++s) {
      const auto& here = seen.counts[k][s];
      const auto& there = simulated.counts[k][s];
      if (here.lanes == 0 && there.lanes == 0) continue;
      std::printf("[  TRACES  ] %-8s %-6s %-10s lines %9llu, simulated %9llu; lanes %9llu, %9llu\n",
                  name.c_str(), kinds[k], spaces[s], static_cast<unsigned long long>(here.lines),
                  static_cast<unsigned long long>(there.lines),
                  static_cast<unsigned long long>(here.lanes),
                  static_cast<unsigned long long>(there.lanes));
      const std::string what = std::string(kinds[k]) + " " + spaces[s];
      hold((what + " lines").c_str(), here.lines, there.lines);
      hold((what + " lanes").c_str(), here.lanes, there.lanes);
    }
  }
}

TEST_F(trace_test, closed_forms) {
  cuda::node node(options_for(1));
  const auto simulated = gpu_test::simulated_forms();
  const auto forms = probe::trace_forms(node);
  ASSERT_EQ(forms.size(), simulated.size());
  for (std::size_t i = 0; i < forms.size(); ++i) {
    ASSERT_EQ(forms[i].name, simulated[i].name);
    compare(forms[i].name, forms[i].seen, simulated[i].totals, 0);
    EXPECT_EQ(forms[i].seen, forms[i].expected);
  }
}

TEST_F(trace_test, workloads) {
  cuda::node node(options_for(1));
  const auto simulated = gpu_test::simulated_workloads();
  const auto real = probe::trace_workloads(node);
  ASSERT_EQ(real.size(), simulated.size());
  for (std::size_t i = 0; i < real.size(); ++i) {
    ASSERT_EQ(real[i].name, simulated[i].name);
    compare(real[i].name, real[i].totals, simulated[i].totals, 0.02);
  }
}

TEST_F(trace_test, every_access_is_recorded_where_it_is) {
  cuda::node node(options_for(1));
  constexpr std::uint64_t n = 100'000;
  const auto x = node.allocate<float>(0, n);
  const auto y = node.allocate<float>(0, n);
  node.upload(x, std::vector<float>(n, 2.0F));
  node.upload(y, std::vector<float>(n, 1.0F));
  const probe::trace_axpy kernel{x, y};
  const grid shape{(n + 255) / 256, 256, 0};
  std::set<std::uint64_t> loaded;
  std::set<std::uint64_t> stored;
  node.record(0, kernel, shape, [&](const kernel::warp_access& a) {
    const auto base_x = reinterpret_cast<std::uintptr_t>(x.data);
    const auto base_y = reinterpret_cast<std::uintptr_t>(y.data);
    ASSERT_EQ(a.bytes, sizeof(float));
    std::size_t at = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((a.lanes >> lane & 1U) == 0) continue;
      const std::uint64_t i = a.block * 256 + a.warp * 32 + lane;
      const std::uint64_t address = a.addresses[at++];
      const bool is_x = address == base_x + i * sizeof(float);
      ASSERT_TRUE(is_x || address == base_y + i * sizeof(float));
      const bool store = a.kind == kernel::traced_access::store;
      ASSERT_FALSE(store && is_x);
      EXPECT_TRUE((store ? stored : loaded).insert(address).second);
    }
  });
  EXPECT_EQ(loaded.size(), 2 * n);
  EXPECT_EQ(stored.size(), n);
  EXPECT_EQ(node.download(y), std::vector<float>(n, 5.0F));
}

TEST_F(trace_test, a_recording_has_the_counted_accesses) {
  cuda::node node(options_for(1));
  constexpr std::uint64_t n = 5000;
  const auto x = node.allocate<float>(0, n);
  const auto y = node.allocate<float>(0, n);
  node.upload(x, std::vector<float>(n, 1.0F));
  node.upload(y, std::vector<float>(n, 1.0F));
  const probe::trace_lengths lengths{x, y};
  const probe::trace_axpy axpy{x, y};
  const grid few{4, 64, 0};
  const grid all{(n + 127) / 128, 128, 0};
  trace_totals counted = node.trace(0, lengths, few);
  counted += node.trace(0, axpy, all);
  const std::string path = testing::TempDir() + "interlace-gpu-" + std::to_string(getpid());
  std::ofstream(path).close();
  run::gpu_trace file(node, path);
  file.record(0, lengths, few, "lengths");
  file.record(0, axpy, all, "axpy");
  file.finish();
  const auto seen = gpu_test::read_trace(path);
  std::remove(path.c_str());
  EXPECT_EQ(seen.totals, counted);
  EXPECT_EQ(seen.kernels, 2U);
  EXPECT_EQ(seen.blocks, few.blocks + all.blocks);
  EXPECT_GT(seen.replayed, 0U);
}

struct store_part {
  replicated<float> out;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = first + lane.global_index();
      if (i < last) lane.store(out, i, 3.0F);
    });
  }
};

TEST_F(trace_test, a_recording_has_stores_to_other_gpus) {
  INTERLACE_NEED_GPUS(2);
  cuda::node node(options_for(2));
  constexpr std::uint64_t n = 10'000;
  kernel::region_options o;
  o.boundaries = {0, n, 2 * n};
  const auto region = node.create_region<float>(o);
  const std::string path = testing::TempDir() + "interlace-gpu-" + std::to_string(getpid());
  std::ofstream(path).close();
  run::gpu_trace file(node, path);
  for (const std::uint32_t d : {0U, 1U}) {
    file.record(d, store_part{node.view(region, d), d * n, (d + 1) * n}, {(n + 127) / 128, 128, 0},
                "store", true);
  }
  file.finish();
  const auto seen = gpu_test::read_trace(path);
  std::remove(path.c_str());
  const std::uint64_t bytes = n * sizeof(float);
  EXPECT_EQ(seen.bytes_to_home, (std::vector<std::uint64_t>{bytes, bytes, bytes, bytes}));
  EXPECT_EQ(seen.remote_payload, 2 * bytes);
}

TEST_F(trace_test, wrong_use_is_refused) {
  cuda::node node(options_for(1));
  const auto x = node.allocate<float>(0, 32);
  const probe::trace_axpy kernel{x, x};
  EXPECT_EQ(node.trace(0, kernel, {0, 32, 0}), trace_totals{});
  EXPECT_THROW(node.trace(0, kernel, {1, 33, 0}), model_error);
  EXPECT_THROW(node.trace(1, kernel, {1, 32, 0}), model_error);
  EXPECT_THROW(node.run([&] { node.trace(0, kernel, {1, 32, 0}); }), model_error);
}

}  // namespace
}  // namespace interlace::trace_tests
