#include "python/multiprocessor.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "bench/multiprocessor_sim.hpp"
#include "python/signals.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

// Calls f with the microbenchmarks of the machine.
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
      "Clocks from one operation of a chain to the next, with `warps` warps on a sub-core.");
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
      nb::arg("machine"), nb::arg("bytes"),
      "Clocks of such a load if the lines are in the second GPU's memory.");
  module.def(
      "simulate_fresh_load_chain",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) {
          return on.chase_clocks(bench::loaded_from::l2, bytes, true);
        });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Clocks of such a load if the previous kernel stored the lines.");
  module.def(
      "simulate_line_loads",
      [](described m, std::uint32_t lines, std::uint32_t offset) {
        return simulated(m, [&](const benches& on) { return on.line_load_clocks(lines, offset); });
      },
      nb::arg("machine"), nb::arg("lines"), nb::arg("offset"),
      "Clocks from one load of a multiprocessor to the next, if each load reads `lines` lines of "
      "the L1.");
  module.def(
      "simulate_writes",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.writes_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Bytes written per second, if the same bytes are written again and again.");
  module.def(
      "simulate_fresh_reads",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.fresh_reads_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Bytes read per second by a kernel, if the previous kernel has written them.");
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
      "simulate_exchange",
      [](described m, std::uint32_t sums) {
        return simulated(m, [&](const benches& on) { return on.exchange_s(sums); });
      },
      nb::arg("machine"), nb::arg("sums"),
      "Seconds of a kernel of one block and an exchange that also combines `sums` sums.");
  module.def(
      "simulate_gather",
      [](described m, std::uint32_t registers, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.gathers_per_s(registers, bytes); });
      },
      nb::arg("machine"), nb::arg("registers"), nb::arg("bytes"),
      "Elements gathered per second by kernels that use `registers` registers in each thread.");
  module.def(
      "simulate_sectors",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.sectors_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"), "Scattered sectors loaded per second.");
  module.def(
      "simulate_reads",
      [](described m, std::uint64_t bytes) {
        return simulated(m, [&](const benches& on) { return on.reads_per_s(bytes); });
      },
      nb::arg("machine"), nb::arg("bytes"),
      "Bytes read per second, if the same bytes are read again and again.");
  module.def(
      "simulate_fft",
      [](described m, bool planes, std::uint32_t length) {
        return simulated(m, [&](const benches& on) { return on.fft_s(planes, length); });
      },
      nb::arg("machine"), nb::arg("planes"), nb::arg("length"),
      "Seconds of a call to the library of Fourier transforms.");
}

}  // namespace interlace::python
