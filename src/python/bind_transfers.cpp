#include "python/bind_transfers.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "bench/halo_jacobi_sim.hpp"
#include "bench/transfers_sim.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/machine/machine.hpp"
#include "plan/plan.hpp"
#include "python/signals.hpp"
#include "python/workloads.hpp"

namespace nb = nanobind;

namespace interlace::python {
namespace {

// The type of the results in the type stub.
using result_dict = nb::typed<nb::dict, nb::str, nb::any>;

bool is_graphs(const std::string& executor) {
  if (executor != "streams" && executor != "graphs")
    throw usage_error("unknown executor '" + executor + "'; give streams or graphs");
  return executor == "graphs";
}

nb::dict to_dict(const sim::execution_times& t) {
  nb::dict d;
  d["begin_s"] = seconds_of(t.begin);
  d["creation_s"] = seconds_of(t.creation);
  d["construction_s"] = seconds_of(t.construction);
  d["instantiation_s"] = seconds_of(t.instantiation);
  d["update_s"] = seconds_of(t.update);
  d["launch_s"] = seconds_of(t.launch);
  d["enqueued_s"] = seconds_of(t.enqueued);
  d["end_s"] = seconds_of(t.end);
  return d;
}

result_dict simulate_transfers(const machine::machine& described, std::vector<plan::plan> plans,
                               std::uint32_t messages, std::uint32_t window, bool sliding,
                               const std::string& executor, bool overlap, bool warm,
                               bool other_addresses, double handshake_s, double acknowledgement_s,
                               bool moves) {
  bench::simulated_transfers asked;
  asked.plans = std::move(plans);
  asked.messages = messages;
  asked.window = window;
  asked.sliding = sliding;
  asked.graphs = is_graphs(executor);
  asked.overlap = overlap;
  asked.warm = warm;
  asked.other_addresses = other_addresses;
  asked.handshake_s = handshake_s;
  asked.acknowledgement_s = acknowledgement_s;
  asked.moves = moves;
  asked.check_interrupt = check_signals;
  bench::transfers_result found;
  {
    const nb::gil_scoped_release release;
    found = bench::transfers_on_sim(asked, described);
  }
  nb::list times;
  for (const auto& row : found.times) {
    nb::list of_plan;
    for (const sim::execution_times& t : row) of_plan.append(to_dict(t));
    times.append(of_plan);
  }
  nb::list links;
  for (const sim::link_count& count : found.links) {
    nb::dict link;
    link["link"] = count.name;
    link["payload"] = count.payload;
    link["wire"] = count.wire;
    link["busy_s"] = seconds_of(count.busy);
    links.append(link);
  }
  nb::dict d;
  d["times"] = times;
  d["links"] = links;
  d["time_s"] = found.time_s;
  d["wrong_bytes"] = found.wrong_bytes;
  d["most_engines"] = found.most_engines;
  return d;
}

result_dict simulate_halo_jacobi(const machine::machine& described, std::uint32_t devices,
                                 std::uint32_t columns, std::uint32_t rows,
                                 std::uint32_t iterations, std::vector<plan::plan> before,
                                 std::vector<plan::plan> behind, const std::string& executor,
                                 double handshake_s) {
  bench::simulated_halo_jacobi asked;
  asked.devices = devices;
  asked.columns = columns;
  asked.rows = rows;
  asked.iterations = iterations;
  asked.before = std::move(before);
  asked.behind = std::move(behind);
  asked.graphs = is_graphs(executor);
  asked.handshake_s = handshake_s;
  asked.check_interrupt = check_signals;
  bench::halo_jacobi_result found;
  {
    const nb::gil_scoped_release release;
    found = bench::halo_jacobi_on_sim(asked, described);
  }
  nb::dict d;
  d["compute_s"] = found.compute_s;
  d["exchange_s"] = found.exchange_s;
  d["wrong"] = found.wrong;
  return d;
}

}  // namespace

void bind_transfers(nb::module_& module) {
  module.def(
      "simulate_transfers", &simulate_transfers, nb::arg("machine"), nb::arg("plans"),
      nb::arg("messages"), nb::arg("window"), nb::arg("sliding") = false,
      nb::arg("executor") = "streams", nb::arg("overlap") = false, nb::arg("warm") = true,
      nb::arg("other_addresses") = false, nb::arg("handshake_s") = 0.0,
      nb::arg("acknowledgement_s") = 0.0, nb::arg("moves") = true,
      "Simulates a process for each plan. The process sends the messages of its plan `messages` "
      "times, with `window` of them in flight. Returns the seconds of every message, the bytes "
      "that "
      "each link carried, and the number of wrong bytes.");
  module.def("simulate_halo_jacobi", &simulate_halo_jacobi, nb::arg("machine"), nb::arg("devices"),
             nb::arg("columns"), nb::arg("rows"), nb::arg("iterations"), nb::arg("before"),
             nb::arg("behind"), nb::arg("executor") = "streams", nb::arg("handshake_s") = 0.0,
             "Simulates Jacobi on a ring of devices that exchange rows by these plans. Returns the "
             "seconds "
             "of computation and of exchange in an iteration, and the number of wrong points.");
}

}  // namespace interlace::python
