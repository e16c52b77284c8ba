#include "python/cuda_updates.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>

#include "bench/updates.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

nb::dict measure_updates(std::uint64_t table_bytes, std::uint64_t updates, std::uint32_t repeats) {
  bench::update_request request;
  request.table_bytes = table_bytes;
  request.updates = updates;
  request.repeats = repeats;
  bench::update_times t;
  {
    const nb::gil_scoped_release release;
    t = bench::measure_updates(request);
  }
  nb::dict d;
  d["updates"] = t.updates;
  d["plain_s"] = t.plain_s;
  d["binned_s"] = t.binned_s;
  d["wrong"] = t.wrong;
  d["bins"] = t.bins;
  d["window_bytes"] = t.window_bytes;
  d["windows_a_bin"] = t.windows_a_bin;
  d["passes"] = t.passes;
  d["round_updates"] = t.round_updates;
  d["buffer_bytes"] = t.buffer_bytes;
  d["look_ahead"] = t.look_ahead;
  d["direct"] = t.direct;
  d["memory_bytes_per_s"] = t.memory_bytes_per_s;
  d["bytes_an_update"] = t.bytes_an_update;
  d["group_s"] = t.group_s;
  d["append_s"] = t.append_s;
  d["split_s"] = t.split_s;
  d["combine_s"] = t.combine_s;
  return d;
}

nb::dict measure_host_updates(std::uint64_t table_bytes, std::uint64_t updates,
                              std::uint64_t link_updates, std::uint32_t repeats) {
  bench::host_update_request request;
  request.table_bytes = table_bytes;
  request.updates = updates;
  request.link_updates = link_updates;
  request.repeats = repeats;
  bench::host_update_times t;
  {
    const nb::gil_scoped_release release;
    t = bench::measure_host_updates(request);
  }
  nb::dict d;
  d["updates"] = t.updates;
  d["link_updates"] = t.link_updates;
  d["sent_s"] = t.sent_s;
  d["stores_s"] = t.stores_s;
  d["atomics_s"] = t.atomics_s;
  d["host_s"] = t.host_s;
  d["table_copy_s"] = t.table_copy_s;
  d["wrong"] = t.wrong;
  d["bins"] = t.bins;
  d["window_bytes"] = t.window_bytes;
  d["pool_bytes"] = t.pool_bytes;
  d["threads"] = t.threads;
  d["send_s"] = t.send_s;
  d["unpack_s"] = t.unpack_s;
  d["unpacked"] = t.unpacked;
  d["busiest_share"] = t.busiest_share;
  d["link_bytes_per_s"] = t.link_bytes_per_s;
  return d;
}

}  // namespace

void bind_updates(nb::module_& module) {
  module.def(
      "measure_updates", &measure_updates, nb::arg("table_bytes"), nb::arg("updates"),
      nb::arg("repeats"),
      "Runs HPCC's random updates of a table in GPU 0, by bins and by plain atomics. Returns "
      "the seconds of each repeat, the sizes of bins and buffers, and the seconds of each stage.");
  module.def(
      "measure_host_updates", &measure_host_updates, nb::arg("table_bytes"), nb::arg("updates"),
      nb::arg("link_updates"), nb::arg("repeats"),
      "Runs HPCC's random updates of a table in the host's memory: by bins of GPU 0, by stores and "
      "by atomics over the link, and by the host alone.");
}

}  // namespace interlace::python
