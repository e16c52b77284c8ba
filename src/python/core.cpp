// The module interlace._core: machines, the search for the fastest mechanism, and the workloads on
// the host node and the simulated node.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "bench/microbenchmark_sim.hpp"
#include "bench/overlap_sim.hpp"
#include "interlace/base/errors.hpp"
#include "python/bind_checkpoint.hpp"
#include "python/bind_machine.hpp"
#include "python/bind_plan.hpp"
#include "python/bind_trace.hpp"
#include "python/bind_transfers.hpp"
#include "python/bind_tune.hpp"
#include "python/bind_update_packets.hpp"
#include "python/bind_workload_library.hpp"
#include "python/bind_workloads.hpp"
#include "python/multiprocessor.hpp"
#include "python/signals.hpp"
#include "python/workloads.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

double simulate_overlap(const machine::machine& described, std::uint32_t peers, std::uint64_t bytes,
                        const std::string& mechanism, std::uint64_t chunk_bytes,
                        std::uint32_t agent_threads, std::uint32_t rounds) {
  bench::simulated_overlap asked;
  asked.peers = peers;
  asked.bytes = bytes;
  asked.how.mechanism = kernel::parse_mechanism(mechanism);
  asked.how.chunk_bytes = chunk_bytes;
  asked.how.agent_threads = agent_threads;
  asked.rounds = rounds;
  asked.check_interrupt = check_signals;
  const nb::gil_scoped_release release;
  return bench::overlap_on_sim(asked, described);
}

// A tuple: the time in seconds, the bytes of payload, and all bytes on the wire.
using timed = std::tuple<double, std::uint64_t, std::uint64_t>;

timed of(const bench::timed_bytes& t) { return {t.time_s, t.payload, t.wire}; }

// The fields of `timed`, followed by the number of packets.
using timed_packets = std::tuple<double, std::uint64_t, std::uint64_t, std::uint64_t>;

timed_packets simulate_stores(const machine::machine& described, std::uint32_t gpus,
                              std::uint32_t senders, std::uint32_t element_bytes,
                              std::uint64_t elements, std::uint32_t together, std::uint32_t lanes,
                              std::uint32_t shift) {
  const nb::gil_scoped_release release;
  const bench::timed_bytes t = bench::stores_on_sim(described, gpus, element_bytes,
                                                    {.senders = senders,
                                                     .elements = elements,
                                                     .together = together,
                                                     .lanes = lanes,
                                                     .shift = shift},
                                                    check_signals);
  return {t.time_s, t.payload, t.wire, t.packets};
}

timed simulate_copy_kernel(const machine::machine& described, std::uint64_t bytes,
                           std::uint32_t blocks) {
  const nb::gil_scoped_release release;
  return of(bench::copy_kernel_on_sim(described, bytes, blocks, check_signals));
}

timed simulate_loads(const machine::machine& described, std::uint32_t element_bytes,
                     std::uint64_t elements) {
  const nb::gil_scoped_release release;
  return of(bench::loads_on_sim(described, element_bytes, elements, check_signals));
}

// Simulates copies. Each copy is a tuple (from, to, bytes, stream).
double simulate_copies(
    const machine::machine& described,
    const std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::uint32_t>>&
        copies,
    bool by_host) {
  const nb::gil_scoped_release release;
  std::vector<bench::simulated_copy> asked;
  asked.reserve(copies.size());
  for (const auto& [from, to, bytes, stream] : copies) asked.push_back({from, to, bytes, stream});
  return bench::copies_on_sim(described, asked, by_host, check_signals);
}

}  // namespace

}  // namespace interlace::python

NB_MODULE(_core, module) {
  module.doc() = "Machines, and workloads on the host and the simulated node.";
  interlace::python::translate_errors();
  interlace::python::bind_machine(module);
  interlace::python::bind_tune(module);
  interlace::python::bind_plan(module);
  interlace::python::bind_transfers(module);
  interlace::python::bind_checkpoint(module);
  interlace::python::bind_trace(module);
  interlace::python::bind_update_packets(module);
  interlace::python::bind_workloads(module);
  interlace::python::bind_workload_library(module);
  module.def("simulate_overlap", &interlace::python::simulate_overlap, nb::arg("machine"),
             nb::arg("peers"), nb::arg("bytes"), nb::arg("mechanism"), nb::arg("chunk_bytes"),
             nb::arg("agent_threads"), nb::arg("rounds"),
             "Returns the seconds of an epoch of the overlap benchmark. The kernel's `rounds` of "
             "computation take time but compute nothing.");
  module.def(
      "simulate_stores", &interlace::python::simulate_stores, nb::arg("machine"), nb::arg("gpus"),
      nb::arg("senders"), nb::arg("element_bytes"), nb::arg("elements"), nb::arg("together"),
      nb::arg("lanes"), nb::arg("shift"),
      "Simulates kernels that store to all other GPUs, `together` adjacent lanes at a time (0: "
      "all lanes). The first `lanes` of these lanes store (0: all), and all places are moved by "
      "`shift` elements. Returns the seconds, the payload, the bytes with protocol, and the number "
      "of packets.");
  module.def(
      "simulate_copy_kernel", &interlace::python::simulate_copy_kernel, nb::arg("machine"),
      nb::arg("bytes"), nb::arg("blocks"),
      "Simulates blocks of 512 threads that copy to the second GPU. Returns seconds, payload "
      "and 0.");
  module.def("simulate_loads", &interlace::python::simulate_loads, nb::arg("machine"),
             nb::arg("element_bytes"), nb::arg("elements"),
             "Simulates loads of scattered elements from the second GPU. Returns seconds, payload "
             "and 0.");
  module.def(
      "simulate_copies", &interlace::python::simulate_copies, nb::arg("machine"), nb::arg("copies"),
      nb::arg("by_host"),
      "Returns the seconds that the copy engines take for copies (from, to, bytes, stream).");
  interlace::python::bind_multiprocessor(module);
  module.def(
      "store_goodput", &interlace::bench::store_goodput, nb::arg("machine"), nb::arg("bytes"),
      "Returns the useful fraction of all bytes of stores from the first GPU to the second.");
}
