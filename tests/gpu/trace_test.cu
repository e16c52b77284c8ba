// Accesses that warps make on a real GPU, counted by the traced policy, beside what the simulated
// node records of the same kernels on the same data.
#include <cstdio>

#include "../probes/traces.hpp"
#include "cuda/fft.hpp"
#include "gpu.hpp"
#include "trace_sim.hpp"

namespace interlace {
namespace {

using gpu_test::options_for;
using kernel::trace_totals;

class trace_test : public testing::Test {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(1); }
};

// Prints both, and holds each kind of access to each kind of view to `part` of the simulated one.
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
}  // namespace interlace
