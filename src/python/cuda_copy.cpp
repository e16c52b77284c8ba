#include "python/cuda_copy.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/collectives.hpp"
#include "bench/copies.hpp"
#include "bench/relay_cost.hpp"
#include "interlace/base/errors.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

nb::list to_list(const std::vector<bench::copy_times>& measured) {
  nb::list found;
  for (const bench::copy_times& one : measured)
    found.append(nb::make_tuple(one.method, one.time_s, one.call_s, one.wrong));
  return found;
}

nb::list measure_copies(std::vector<std::pair<int, int>> messages, std::uint64_t bytes,
                        std::vector<std::string> methods, std::uint32_t warmup,
                        std::uint32_t repeats) {
  bench::copy_request request;
  request.messages = std::move(messages);
  request.bytes = bytes;
  request.methods = std::move(methods);
  request.warmup = warmup;
  request.repeats = repeats;
  std::vector<bench::copy_times> measured;
  {
    const nb::gil_scoped_release release;
    measured = bench::measure_copies(request);
  }
  return to_list(measured);
}

nb::list measure_collective(const std::string& pattern, std::uint32_t gpus, std::uint64_t bytes,
                            std::vector<std::string> methods, std::uint32_t warmup,
                            std::uint32_t repeats) {
  bench::collective_request request;
  if (pattern == "all-gather")
    request.pattern = bench::collective_pattern::all_gather;
  else if (pattern == "all-to-all")
    request.pattern = bench::collective_pattern::all_to_all;
  else if (pattern == "all-reduce")
    request.pattern = bench::collective_pattern::all_reduce;
  else
    throw usage_error("unknown collective '" + pattern +
                      "'; give all-gather, all-to-all or all-reduce");
  request.gpus = gpus;
  request.bytes = bytes;
  request.methods = std::move(methods);
  request.warmup = warmup;
  request.repeats = repeats;
  std::vector<bench::copy_times> measured;
  {
    const nb::gil_scoped_release release;
    measured = bench::measure_collective(request);
  }
  return to_list(measured);
}

nb::dict measure_relay_cost(std::uint64_t bytes, int to, std::string method,
                            std::vector<int> kernels, double window_s, std::uint32_t warmup,
                            std::uint32_t repeats) {
  const bench::relay_cost_request request{
      to, bytes, std::move(method), std::move(kernels), window_s, warmup, repeats};
  bench::relay_cost measured;
  {
    const nb::gil_scoped_release release;
    measured = bench::measure_relay_cost(request);
  }
  nb::dict found;
  found["alone_bytes_per_s"] = measured.alone_bytes_per_s;
  found["beside_bytes_per_s"] = measured.beside_bytes_per_s;
  found["message_alone_s"] = measured.message_alone_s;
  found["message_beside_s"] = measured.message_beside_s;
  found["relayed"] = measured.relayed;
  found["wrong"] = measured.wrong;
  return found;
}

}  // namespace

void bind_copies(nb::module_& module) {
  module.def(
      "measure_copies", &measure_copies, nb::arg("messages"), nb::arg("bytes"), nb::arg("methods"),
      nb::arg("warmup"), nb::arg("repeats"),
      "Measures messages (from, to) that are in flight together, with each method in turn; -1 is "
      "the host. Returns (method, seconds of each repeat, the host's part, wrong bytes).");
  module.def(
      "measure_collective", &measure_collective, nb::arg("pattern"), nb::arg("gpus"),
      nb::arg("bytes"), nb::arg("methods"), nb::arg("warmup"), nb::arg("repeats"),
      "Measures an all-gather, all-to-all or all-reduce of blocks of `bytes` bytes on the first "
      "GPUs, with each method in turn. The result has the form of the result of measure_copies.");
  module.def(
      "measure_relay_cost", &measure_relay_cost, nb::arg("bytes"), nb::arg("to"), nb::arg("method"),
      nb::arg("kernels"), nb::arg("window_s"), nb::arg("warmup"), nb::arg("repeats"),
      "Measures messages from the host to a GPU, by a copier with these settings, and memory-bound "
      "kernels on other GPUs: first each alone, then both together. Returns times by GPU and "
      "repeat.");
}

}  // namespace interlace::python
