// The operations that kernels name with compute against those that a GPU executed, as
// bench/operation_counts.py measured them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "../../probes/traces.hpp"
#include "sim/described.hpp"
#include "sim/node.hpp"

namespace interlace {
namespace {

// The number at "workload": {... "kind": number ...} of the file.
double measured(const std::string& file, const std::string& workload, const char* kind) {
  const std::regex place("\"" + workload + "\": *\\{[^}]*\"" + kind + "\": *([0-9]+)");
  std::smatch found;
  if (!std::regex_search(file, found, place)) {
    ADD_FAILURE() << "no count of " << kind << " of " << workload;
    return -1;
  }
  return std::stod(found[1]);
}

TEST(operations, are_those_of_the_machine_code) {
  const std::string path = "bench/results/operation-counts-h200.json";  // from the project's root
  std::ifstream stream(path);
  ASSERT_TRUE(stream) << path;
  const std::string file(std::istreambuf_iterator<char>(stream), {});

  sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
  for (const auto& w : probe::trace_workloads(node)) {
    const auto expect = [&](operation kind, const char* name) {
      const auto named = static_cast<double>(w.totals.operations[static_cast<std::size_t>(kind)]);
      const double executed = measured(file, w.name, name);
      EXPECT_NEAR(named, executed, 0.2 * executed) << w.name << ", " << name;
      std::printf("[    OPS   ] %-8s %-7s %10.0f named, %10.0f executed\n", w.name.c_str(), name,
                  named, executed);
    };
    expect(operation::fp32, "fp32");
    expect(operation::fp64, "fp64");
    expect(operation::integer, "integer");
  }
}

}  // namespace
}  // namespace interlace
