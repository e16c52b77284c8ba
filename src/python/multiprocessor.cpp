#include "python/multiprocessor.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "bench/multiprocessor_sim.hpp"
#include "python/signals.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

// Calls f with the microbenchmarks on the machine.
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
      "Clocks of an operation in a chain, with this number of warps of a sub-core.");
  module.def(
      "simulate_load_loop",
      [](described m, const std::string& memory, std::uint32_t unroll, std::uint32_t warps) {
        return simulated(m, [&](const benches& on) {
          return on.loop_clocks(bench::loaded_from_of(memory), unroll, warps);
        });
      },
      nb::arg("machine"), nb::arg("memory"), nb::arg("unroll"), nb::arg("warps"),
      "Clocks of an iteration of a loop that sums what it loads.");
  module.def(
      "simulate_load_chain",
      [](described m, const std::string& memory, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) {
          return on.chase_clocks(bench::loaded_from_of(memory), bytes);
        });
      },
      nb::arg("machine"), nb::arg("memory"), nb::arg("bytes"),
      "Clocks of a load whose address is the result of the load before it.");
  module.def(
      "simulate_peer_load_chain",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.peer_chase_clocks(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"), "The same from the second GPU's memory.");
  module.def(
      "simulate_fresh_load_chain",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) {
          return on.chase_clocks(bench::loaded_from::l2, bytes, true);
        });
      },
      nb::arg("machine"), nb::arg("bytes"), "The same from lines that the kernel before stored.");
  module.def(
      "simulate_line_loads",
      [](described m, std::uint32_t lines, std::uint32_t offset) {
        return simulated(m, [&](const benches& on) { return on.line_load_clocks(lines, offset); });
      },
      nb::arg("machine"), nb::arg("lines"), nb::arg("offset"),
      "Clocks of a multiprocessor for a load from this number of lines of the L1.");
  module.def(
      "simulate_writes",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.writes_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"), "Bytes that are written again and again in a second.");
  module.def(
      "simulate_fresh_reads",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.fresh_reads_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Bytes that a kernel reads in a second after the kernel before has written them.");
  module.def(
      "simulate_small_kernels",
      [](described m, std::uint32_t instructions, std::uint32_t kernels) {
        return simulated(
            m, [&](const benches& on) { return on.small_kernel_s(instructions, kernels); });
      },
      nb::arg("machine"), nb::arg("instructions"), nb::arg("kernels"),
      "Seconds from one small kernel to the next.");
  module.def(
      "simulate_blocks",
      [](described m) { return simulated(m, [](const benches& on) { return on.block_s(); }); },
      nb::arg("machine"), "Seconds from one block of an empty kernel to the next.");
  module.def(
      "simulate_gather",
      [](described m, std::uint32_t registers, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.gathers_per_s(registers, bytes); });
      },
      nb::arg("machine"), nb::arg("registers"), nb::arg("bytes"),
      "Elements that kernels of so many registers gather in a second.");
  module.def(
      "simulate_sectors",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.sectors_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"), "Scattered sectors that are loaded in a second.");
  module.def(
      "simulate_reads",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.reads_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"), "Bytes that are read again and again in a second.");
  module.def(
      "simulate_fft",
      [](described m, bool planes, std::uint32_t length) {
        return simulated(m, [&](const benches& on) { return on.fft_s(planes, length); });
      },
      nb::arg("machine"), nb::arg("planes"), nb::arg("length"),
      "Seconds of a call of the library of Fourier transforms.");
}

}  // namespace interlace::python
