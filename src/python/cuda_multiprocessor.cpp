#include "python/cuda_multiprocessor.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/microbenchmark_cuda.hpp"
#include "bench/multiprocessor_cuda.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

namespace measured = bench::multiprocessor;
using released = nb::call_guard<nb::gil_scoped_release>;

std::vector<double> measure_load_loop(const std::string& memory, std::uint32_t unroll,
                                      std::uint32_t warps, std::uint32_t repeats) {
  return measured::loop_clocks(bench::loaded_from_of(memory), unroll, warps, repeats);
}

// Measures 128 epochs that run in a row in a graph.
std::vector<double> measure_exchange(std::uint32_t sums, std::uint32_t repeats) {
  constexpr std::uint32_t epochs = 128;
  return bench::exchanges_on_cuda(sums, {epochs, repeats}).time_s;
}

std::vector<double> measure_load_chain(const std::string& memory, std::uint64_t bytes,
                                       std::uint32_t repeats) {
  return measured::chase_clocks(bench::loaded_from_of(memory), bytes, repeats);
}

std::vector<double> measure_fresh_load_chain(std::uint64_t bytes, std::uint32_t repeats) {
  return measured::chase_clocks(bench::loaded_from::l2, bytes, repeats, 0, true);
}

std::vector<double> measure_peer_load_chain(std::uint64_t bytes, std::uint32_t repeats) {
  return measured::chase_clocks(bench::loaded_from::l2, bytes, repeats, 1);
}

std::pair<std::uint32_t, std::vector<double>> measure_fft(bool planes, std::uint32_t length,
                                                          std::uint32_t repeats) {
  measured::library_times found = measured::fft_times(planes, length, repeats);
  return {found.kernels, std::move(found.time_s)};
}

}  // namespace

void bind_cuda_multiprocessor(nb::module_& module) {
  module.def("measure_chain", &measured::chain_clocks, nb::arg("kind"), nb::arg("warps"),
             nb::arg("repeats"), released(),
             "Like simulate_chain of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_busy_clock", &measured::busy_clock_mhz, nb::arg("repeats"), released(),
             "Returns the MHz of the multiprocessors while all of them compute, for each repeat.");
  module.def("measure_load_loop", &measure_load_loop, nb::arg("memory"), nb::arg("unroll"),
             nb::arg("warps"), nb::arg("repeats"), released(),
             "Like simulate_load_loop of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_load_chain", &measure_load_chain, nb::arg("memory"), nb::arg("bytes"),
             nb::arg("repeats"), released(),
             "Like simulate_load_chain of _core, but measured on a GPU: a value for each repeat.");
  module.def(
      "measure_peer_load_chain", &measure_peer_load_chain, nb::arg("bytes"), nb::arg("repeats"),
      released(),
      "Like simulate_peer_load_chain of _core, but measured on GPUs: a value for each repeat.");
  module.def(
      "measure_fresh_load_chain", &measure_fresh_load_chain, nb::arg("bytes"), nb::arg("repeats"),
      released(),
      "Like simulate_fresh_load_chain of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_line_loads", &measured::line_load_clocks, nb::arg("lines"), nb::arg("offset"),
             nb::arg("repeats"), released(),
             "Like simulate_line_loads of _core, but measured on a GPU: a value for each repeat.");
  module.def(
      "measure_cached_copies", &measured::copies_per_s, nb::arg("bytes"), nb::arg("repeats"),
      released(),
      "Like simulate_cached_copies of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_writes", &measured::writes_per_s, nb::arg("bytes"), nb::arg("repeats"),
             released(),
             "Like simulate_writes of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_fresh_reads", &measured::fresh_reads_per_s, nb::arg("bytes"),
             nb::arg("repeats"), released(),
             "Like simulate_fresh_reads of _core, but measured on a GPU: a value for each repeat.");
  module.def(
      "measure_small_kernels", &measured::small_kernel_s, nb::arg("instructions"),
      nb::arg("kernels"), nb::arg("repeats"), released(),
      "Like simulate_small_kernels of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_blocks", &measured::block_s, nb::arg("repeats"), released(),
             "Like simulate_blocks of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_exchange", &measure_exchange, nb::arg("sums"), nb::arg("repeats"), released(),
             "Like simulate_exchange of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_gather", &measured::gathers_per_s, nb::arg("registers"), nb::arg("bytes"),
             nb::arg("repeats"), released(),
             "Like simulate_gather of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_sectors", &measured::sectors_per_s, nb::arg("bytes"), nb::arg("repeats"),
             released(),
             "Like simulate_sectors of _core, but measured on a GPU: a value for each repeat.");
  module.def("measure_reads", &measured::reads_per_s, nb::arg("bytes"), nb::arg("repeats"),
             released(),
             "Like simulate_reads of _core, but measured on a GPU: a value for each repeat.");
  module.def(
      "measure_fft", &measure_fft, nb::arg("planes"), nb::arg("length"), nb::arg("repeats"),
      released(),
      "Returns the number of kernels of a call of cuFFT, and the measured seconds of a call in "
      "each repeat.");
}

}  // namespace interlace::python
