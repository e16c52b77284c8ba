#include "python/multiprocessor.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "bench/multiprocessor_sim.hpp"
#include "python/signals.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

// Calls f with the microbenchmarks of a simulated machine.
template <class F>
double simulated(const machine::machine& described, const F& f) {
  const nb::gil_scoped_release release;
  return f(bench::multiprocessor_on_sim(described, check_signals));
}

}  // namespace

void bind_multiprocessor(nb::module_& module) {
  using benches = bench::multiprocessor_on_sim;
  using described = const machine::machine&;
  module.def(
      "simulate_chain",
      [](described m, const std::string& kind, std::uint32_t warps) {
        return simulated(m, [&](const benches& on) { return on.chain_clocks(kind, warps); });
      },
      nb::arg("machine"), nb::arg("kind"), nb::arg("warps"),
      "Returns the clocks from one operation of a chain to the next, with `warps` warps on a "
      "sub-core.");
  module.def(
      "simulate_load_loop",
      [](described m, const std::string& memory, std::uint32_t unroll, std::uint32_t warps) {
        return simulated(m, [&](const benches& on) {
          return on.loop_clocks(bench::loaded_from_of(memory), unroll, warps);
        });
      },
      nb::arg("machine"), nb::arg("memory"), nb::arg("unroll"), nb::arg("warps"),
      "Returns the clocks of an iteration of a loop that adds up what it loads.");
  module.def(
      "simulate_load_chain",
      [](described m, const std::string& memory, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) {
          return on.chase_clocks(bench::loaded_from_of(memory), bytes);
        });
      },
      nb::arg("machine"), nb::arg("memory"), nb::arg("bytes"),
      "Returns the clocks of a load whose address is the result of the previous load.");
  module.def(
      "simulate_peer_load_chain",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.peer_chase_clocks(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Returns the clocks of a load whose address is the result of the previous load, from the "
      "second GPU's memory.");
  module.def(
      "simulate_fresh_load_chain",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) {
          return on.chase_clocks(bench::loaded_from::l2, bytes, true);
        });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Returns the clocks of a load whose address is the result of the previous load, if the "
      "previous kernel stored the lines.");
  module.def(
      "simulate_line_loads",
      [](described m, std::uint32_t lines, std::uint32_t offset) {
        return simulated(m, [&](const benches& on) { return on.line_load_clocks(lines, offset); });
      },
      nb::arg("machine"), nb::arg("lines"), nb::arg("offset"),
      "Returns the clocks from one load of a multiprocessor to the next, if each load reads "
      "`lines` "
      "lines of the L1.");
  module.def(
      "simulate_cached_copies",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.copies_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Returns the bytes copied per second, if a kernel copies the same bytes again and again.");
  module.def(
      "simulate_writes",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.writes_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Returns the bytes written per second, if a kernel writes the same bytes again and again.");
  module.def(
      "simulate_fresh_reads",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.fresh_reads_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Returns the bytes that a kernel reads per second, if the previous kernel wrote them.");
  module.def(
      "simulate_small_kernels",
      [](described m, std::uint32_t instructions, std::uint32_t kernels) {
        return simulated(
            m, [&](const benches& on) { return on.small_kernel_s(instructions, kernels); });
      },
      nb::arg("machine"), nb::arg("instructions"), nb::arg("kernels"),
      "Returns the seconds from one small kernel to the next.");
  module.def(
      "simulate_blocks",
      [](described m) { return simulated(m, [](const benches& on) { return on.block_s(); }); },
      nb::arg("machine"), "Returns the seconds from one block of an empty kernel to the next.");
  module.def(
      "simulate_exchange",
      [](described m, std::uint32_t sums) {
        return simulated(m, [&](const benches& on) { return on.exchange_s(sums); });
      },
      nb::arg("machine"), nb::arg("sums"),
      "Returns the seconds of a kernel of one block, with an exchange that combines `sums` sums.");
  module.def(
      "simulate_gather",
      [](described m, std::uint32_t registers, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.gathers_per_s(registers, bytes); });
      },
      nb::arg("machine"), nb::arg("registers"), nb::arg("bytes"),
      "Returns the elements that kernels gather per second, with `registers` registers per "
      "thread.");
  module.def(
      "simulate_sectors",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.sectors_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"), "Returns the scattered sectors loaded per second.");
  module.def(
      "simulate_reads",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.reads_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Returns the bytes read per second, if a kernel reads the same bytes again and again.");
  module.def(
      "simulate_fft",
      [](described m, bool planes, std::uint32_t length) {
        return simulated(m, [&](const benches& on) { return on.fft_s(planes, length); });
      },
      nb::arg("machine"), nb::arg("planes"), nb::arg("length"),
      "Returns the seconds of a call of the library of Fourier transforms.");
}

}  // namespace interlace::python
