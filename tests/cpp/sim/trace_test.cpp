// Compares the totals of recorded accesses with closed forms. Time plays no role. Also compares the
// operations in calls of `compute` with the operations that a GPU executed. All tests are in one
// file, because traced kernels take long to compile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <utility>

#include "../../probes/traces.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::trace_tests {
namespace {

using kernel::memory_space;
using kernel::trace_totals;
using kernel::traced_access;

void expect_equal(const trace_totals& seen, const trace_totals& expected) {
  for (std::size_t kind = 0; kind < trace_totals::kinds; ++kind) {
    for (std::size_t space = 0; space < trace_totals::spaces; ++space) {
      EXPECT_EQ(seen.counts[kind][space].lines, expected.counts[kind][space].lines)
          << "kind " << kind << " space " << space;
      EXPECT_EQ(seen.counts[kind][space].lanes, expected.counts[kind][space].lanes)
          << "kind " << kind << " space " << space;
    }
  }
}

TEST(trace, closed_forms) {
  for (const std::uint32_t devices : {1U, 2U}) {
    sim::node node(test::meshed(devices, machine::protocol_kind::nvlink2), devices, [] {});
    for (const auto& f : probe::trace_forms(node)) {
      SCOPED_TRACE(f.name);
      expect_equal(f.seen, f.expected);
    }
  }
}

TEST(trace, workloads) {
  sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  std::map<std::string, trace_totals> all;
  for (const auto& w : probe::trace_workloads(node)) all[w.name] = w.totals;
  {
    // There are 32 tiles. 6 kernels work on tiles, and 1 + 2 + 3 + 4 + 5 kernels work on pairs.
    // Each of these kernels reads every key. The kernels for tiles also write every key. The
    // kernels for pairs write only the keys that they exchange.
    const trace_totals& t = all.at("bitonic");
    const std::uint64_t n = 1U << 14U;
    EXPECT_EQ(t.of(traced_access::load, memory_space::local).lanes, 21 * n);
    EXPECT_EQ(t.of(traced_access::load, memory_space::local).lines, 21 * n / 32);
    EXPECT_GT(t.of(traced_access::store, memory_space::local).lanes, 6 * n);
    EXPECT_LT(t.of(traced_access::store, memory_space::local).lanes, 21 * n);
  }
  {
    // Each inner point takes five loads, and each edge point takes one load. For a warp, the left
    // neighbours and the right neighbours reach into another line.
    const trace_totals& t = all.at("stencil");
    const std::uint64_t inner = std::uint64_t{4094} * 128;
    EXPECT_EQ(t.of(traced_access::load, memory_space::replicated).lanes, 4096 * 130 + 4 * inner);
    EXPECT_EQ(t.of(traced_access::load, memory_space::replicated).lines,
              128 * 130 + 128 * (4 * 128 + 2 * 127));
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lanes, 4096 * 130);
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lines, 128 * 130 + 2 * 128);
  }
  {
    const trace_totals& t = all.at("pagerank");
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lanes, 2 * 20'000U);
    // There are two iterations. Each iteration gathers once for each edge. The second iteration
    // also loads each rank once.
    EXPECT_EQ(t.of(traced_access::load, memory_space::replicated).lanes, 2 * 400'000U + 20'000U);
    EXPECT_GT(t.of(traced_access::atomic, memory_space::local).lanes,
              0U);  // rows that consist of several units need atomics
  }
  {
    // Each of three stages loads, for each point, the point itself and four points along each
    // dimension. The last two stages also load the values from the start of the step, which the
    // first stage stored.
    const trace_totals& t = all.at("diffusion");
    const std::uint64_t points = 12 * 13 * 35;
    EXPECT_EQ(t.of(traced_access::load, memory_space::replicated).lanes, 3 * 13 * points);
    EXPECT_EQ(t.of(traced_access::load, memory_space::local).lanes, 2 * points);
    EXPECT_EQ(t.of(traced_access::store, memory_space::local).lanes, points);
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lanes, 3 * points);
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lines, 3 * ((points + 31) / 32));
    EXPECT_EQ(all.at("burgers").of(traced_access::load, memory_space::replicated).lanes,
              3 * 19 * points);
  }
  {
    // For each point, the stage for stresses loads the point's three velocities, three velocities
    // of neighbours for each of nine differences (30 values together), and the six stresses to
    // which it adds. The stage for velocities loads the point's six stresses, three stresses of
    // neighbours for each of nine differences (33 values together), and the three velocities to
    // which it adds. Each stage loads the medium once.
    const trace_totals& t = all.at("eqwp");
    const std::uint64_t points = 10 * 17 * 33;
    const auto loads = [&](memory_space s) { return t.of(traced_access::load, s).lanes; };
    EXPECT_EQ(loads(memory_space::replicated) + loads(memory_space::local),
              (30 + 6 + 1 + 33 + 3 + 1) * points);
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lanes, 6 * points);
    EXPECT_EQ(t.of(traced_access::store, memory_space::local).lanes, 3 * points);
  }
  {
    // The first of two stages sends six half spectra to planes. The second stage sends three half
    // spectra back.
    const trace_totals& t = all.at("hit");
    const std::uint64_t modes = 20 * 20 * 11;
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lanes, 2 * 9 * modes);
    EXPECT_EQ(t.of(traced_access::load, memory_space::replicated).lanes, 2 * 9 * modes);
    // Complex numbers have 8 bytes, so each warp except the last one touches two lines.
    EXPECT_NEAR(static_cast<double>(t.of(traced_access::store, memory_space::replicated).lines),
                2 * 9 * static_cast<double>(modes) / 16, 4);
  }
  {
    // There are two iterations. Each iteration loads each entry and the unknown of that entry. The
    // second iteration also loads, for each row, the row's own unknown.
    const trace_totals& t = all.at("jacobi");
    const std::uint64_t rows = 5003;
    const std::uint64_t entries = 2 * (6 * rows - 21);
    EXPECT_EQ(t.of(traced_access::load, memory_space::local).lanes, 2 * (entries + 2 * rows));
    EXPECT_EQ(t.of(traced_access::load, memory_space::replicated).lanes, 2 * entries + rows);
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lanes, 2 * rows);
    EXPECT_EQ(t.of(traced_access::store, memory_space::replicated).lines, 2 * ((rows + 31) / 32));
    EXPECT_EQ(t.of(traced_access::atomic, memory_space::reduced).lanes, (rows + 255) / 256);
  }
}

struct count_up {
  replicated<float> out;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      lane.store(out, i, lane.load(out, i) + 1);
    });
  }
};

TEST(trace, really_runs_and_leaves_the_counts_of_runs_alone) {
  sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  kernel::region_options o;
  o.boundaries = {0, 64};
  const auto region = node.create_region<float>(o);
  node.set_front(region, std::vector<float>(64, 3.0F));
  node.trace(0, count_up{node.view(region, 0)}, {2, 32, 0});
  const auto result = node.run([&] { node.exchange(region); });
  EXPECT_EQ(node.front(region, 0), std::vector<float>(64, 4.0F));
  EXPECT_EQ(result.accesses, 0U);
  EXPECT_THROW(node.run([&] {
    node.launch(0, count_up{node.view(region, 0)}, {2, 32, 0});
    node.trace(0, count_up{node.view(region, 0)}, {2, 32, 0});
  }),
               model_error);
}

// Returns the numbers in a section of the file. A section has the form "section": {"name": {"kind":
// number, ...}, ...}.
std::map<std::string, std::map<std::string, double>> numbers(const std::string& file,
                                                             const std::string& section) {
  std::map<std::string, std::map<std::string, double>> found;
  const std::size_t begin = file.find('"' + section + "\": {");
  EXPECT_NE(begin, std::string::npos) << section;
  if (begin == std::string::npos) return found;
  const std::size_t inside = file.find('{', begin) + 1;
  std::size_t end = inside;
  for (int depth = 1; depth > 0 && end < file.size(); ++end) {
    depth += file[end] == '{' ? 1 : file[end] == '}' ? -1 : 0;
  }
  const std::string text = file.substr(inside, end - inside);
  const std::regex object(R"re("([^"]+)": \{([^}]*)\})re");
  const std::regex member(R"re("([^"]+)": ([0-9]+))re");
  const std::sregex_iterator none;
  for (std::sregex_iterator o(text.begin(), text.end(), object); o != none; ++o) {
    const std::string members = (*o)[2];
    for (std::sregex_iterator m(members.begin(), members.end(), member); m != none; ++m) {
      found[(*o)[1]][(*m)[1]] = std::stod((*m)[2]);
    }
  }
  return found;
}

// Compares the operations in the kernels' calls of `compute` with the operations that a GPU
// executed. bench/operation_counts.py measured the operations of the GPU for each workload and
// kernel.
TEST(operations, are_those_of_the_machine_code) {
  // The path is relative to the project's root.
  const std::string path = "bench/results/operation-counts-h200.json";
  std::ifstream stream(path);
  ASSERT_TRUE(stream) << path;
  const std::string file(std::istreambuf_iterator<char>(stream), {});
  const auto of_workloads = numbers(file, "operations");
  const auto of_kernels = numbers(file, "kernels");

  const auto expect = [](const std::string& of, const trace_totals& totals,
                         const std::map<std::string, double>& executed) {
    for (const auto& [kind, name] : {std::pair{operation::fp32, "fp32"},
                                     {operation::fp64, "fp64"},
                                     {operation::integer, "integer"}}) {
      const auto named = static_cast<double>(totals.operations[static_cast<std::size_t>(kind)]);
      const double counted = executed.at(name);
      EXPECT_NEAR(named, counted, 0.2 * counted) << of << ", " << name;
      std::printf("[    OPS   ] %-16s %-7s %10.0f named, %10.0f executed\n", of.c_str(), name,
                  named, counted);
    }
  };
  sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  // Each key is the name of a kernel in the file. It is a part of the kernel's name in the trace.
  std::map<std::string, trace_totals> traced;
  for (const auto& w : probe::trace_workloads(node)) {
    expect(w.name, w.totals, of_workloads.at(w.name));
    for (const auto& [name, totals] : w.kernels) {
      const auto key = std::find_if(of_kernels.begin(), of_kernels.end(), [&](const auto& k) {
        return name.find(k.first) != std::string::npos;
      });
      ASSERT_NE(key, of_kernels.end()) << name;
      traced[key->first] += totals;
    }
  }
  EXPECT_EQ(traced.size(), of_kernels.size());
  for (const auto& [name, totals] : traced) expect(name, totals, of_kernels.at(name));
}

}  // namespace
}  // namespace interlace::trace_tests
