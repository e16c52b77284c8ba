// The module interlace._cuda: workloads, measurements and regions on this machine's GPUs.
#include <cuda_runtime.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/exchange_rate.hpp"
#include "bench/overlap_cuda.hpp"
#include "interlace/base/errors.hpp"
#include "python/bind_workloads.hpp"
#include "python/cuda_copy.hpp"
#include "python/cuda_microbenchmark.hpp"
#include "python/cuda_multiprocessor.hpp"
#include "python/cuda_region.hpp"
#include "python/cuda_updates.hpp"
#include "python/cuda_workload_library.hpp"
#include "python/signals.hpp"
#include "python/workloads.hpp"
#include "run/gpu.hpp"
#include "run/variant.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

template <class T>
nb::object take_array(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  T* data = kept->data();
  const std::size_t size = kept->size();
  nb::capsule owner(kept.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner));
}

nb::dict device_info() {
  const run::gpu_info info = run::describe_gpus();
  nb::dict d;
  d["gpus"] = info.gpus;
  d["name"] = info.name;
  d["driver"] = info.driver;
  d["cuda"] = info.cuda;
  return d;
}

nb::tuple rmat(std::uint32_t scale, std::uint32_t edge_factor, std::uint64_t seed) {
  run::host_graph graph;
  {
    const nb::gil_scoped_release release;
    graph = run::make_rmat(scale, edge_factor, seed);
  }
  return nb::make_tuple(take_array(std::move(graph.offsets)), take_array(std::move(graph.columns)),
                        take_array(std::move(graph.out_degree)));
}

nb::dict measure_overlap(std::uint32_t peers, std::uint64_t bytes, const std::string& mechanism,
                         std::uint64_t chunk_bytes, std::uint32_t agent_threads,
                         std::uint32_t split_ranges, const std::string& variant,
                         std::uint32_t rounds, std::uint32_t epochs, std::uint32_t warmup,
                         std::uint32_t repeats, bool deliver) {
  bench::overlap_request request;
  request.peers = peers;
  request.bytes = bytes;
  run::set_mechanism(request.how, mechanism);
  request.how.chunk_bytes = chunk_bytes;
  request.how.agent_threads = agent_threads;
  request.how.split_ranges = split_ranges;
  run::set_variant(request.how, variant);
  request.rounds = rounds;
  request.epochs = epochs;
  request.warmup = warmup;
  request.repeats = repeats;
  request.deliver = deliver;
  bench::overlap_measurement measured;
  {
    const nb::gil_scoped_release release;
    measured = bench::overlap_on_cuda(request);
  }
  nb::dict d;
  d["epoch_s"] = measured.epoch_s;
  d["remarks"] = measured.remarks;
  return d;
}

nb::dict measure_exchange_rate(std::uint32_t gpus, std::uint64_t bytes, std::uint32_t repeats) {
  bench::exchange_rate rate;
  {
    const nb::gil_scoped_release release;
    rate = bench::measure_exchange_rate(gpus, bytes, repeats);
  }
  nb::dict d;
  d["copies_bytes_per_s"] = rate.copies;
  d["stores_bytes_per_s"] = rate.stores;
  return d;
}

nb::dict measure_device_rates(std::uint32_t repeats) {
  run::device_rates r;
  {
    const nb::gil_scoped_release release;
    r = run::measure_device_rates(repeats);
  }
  nb::dict d;
  d["read_bytes_per_s"] = r.read_bytes_per_s;
  d["write_bytes_per_s"] = r.write_bytes_per_s;
  d["fp32_per_s"] = r.fp32_per_s;
  d["fp64_per_s"] = r.fp64_per_s;
  d["integer_per_s"] = r.integer_per_s;
  d["together_per_s"] = r.together_per_s;
  d["cache_bytes"] = r.cache_bytes;
  return d;
}

nb::list measure_links(const std::vector<std::uint64_t>& sizes, std::uint32_t repetitions) {
  std::vector<run::measured_link> links;
  {
    const nb::gil_scoped_release release;
    links = run::measure_links(sizes, repetitions, check_signals);
  }
  nb::list result;
  for (const run::measured_link& l : links) {
    nb::dict d;
    d["from"] = l.from;
    d["to"] = l.to;
    d["bytes"] = l.bytes;
    d["gb_per_s"] = l.bytes_per_s * 1e-9;
    d["both_gb_per_s"] =
        l.both_bytes_per_s > 0 ? nb::cast(l.both_bytes_per_s * 1e-9) : nb::object(nb::none());
    result.append(d);
  }
  return result;
}

}  // namespace

}  // namespace interlace::python

NB_MODULE(_cuda, module) {
  // NOLINTNEXTLINE(google-build-using-namespace): this body is outside of the namespace
  using namespace interlace::python;
  module.doc() = "Workloads, measurements and regions on this machine's GPUs.";
  // The module _core translates the errors of _core and _cuda.
  (void)nanobind::module_::import_("interlace._core");
  module.def("device_info", &device_info,
             "Returns the GPUs, their name, and the versions of the driver and of CUDA.");
  module.def(
      "nccl_version", &interlace::run::nccl_version, nb::arg("candidates"),
      "Loads NCCL from one of these files, unless NCCL is already loaded. Returns its version.");
  module.def(
      "make_nvshmem_id",
      [](const std::vector<std::string>& candidates) {
        const std::string id = interlace::run::make_nvshmem_id(candidates);
        return nanobind::bytes(id.data(), id.size());
      },
      nb::arg("candidates"), "Makes the id that all processes of a run with NVSHMEM share.");
  module.def(
      "join_nvshmem",
      [](const std::vector<std::string>& candidates, std::uint32_t rank, std::uint32_t ranks,
         const nanobind::bytes& id) {
        const std::string common(id.c_str(), id.size());
        const nb::gil_scoped_release release;
        return interlace::run::join_nvshmem(candidates, rank, ranks, common);
      },
      nb::arg("candidates"), nb::arg("rank"), nb::arg("ranks"), nb::arg("id"),
      "Makes this process one of several processes with one GPU each. Returns NVSHMEM's version "
      "after all of these processes have joined.");
  module.def("leave_nvshmem", &interlace::run::leave_nvshmem,
             nb::call_guard<nb::gil_scoped_release>(),
             "Ends NVSHMEM. All processes must call this.");
  bind_regions(module);
  bind_copies(module);
  bind_microbenchmarks(module);
  bind_cuda_multiprocessor(module);
  bind_updates(module);
  bind_workloads(module);
  bind_workload_library(module);
  module.def(
      "rmat", &rmat, nb::arg("scale"), nb::arg("edge_factor"), nb::arg("seed"),
      "Makes the graph of interlace.data.graphs.rmat on a GPU. Returns its offsets, columns and "
      "out-degrees.");
  module.def("measure_overlap", &measure_overlap, nb::arg("peers"), nb::arg("bytes"),
             nb::arg("mechanism"), nb::arg("chunk_bytes"), nb::arg("agent_threads"),
             nb::arg("split_ranges"), nb::arg("variant"), nb::arg("rounds"), nb::arg("epochs"),
             nb::arg("warmup"), nb::arg("repeats"), nb::arg("deliver"),
             "Runs the overlap microbenchmark. Returns the seconds of an epoch in each repeat.");
  module.def("measure_exchange_rate", &measure_exchange_rate, nb::arg("gpus"), nb::arg("bytes"),
             nb::arg("repeats"),
             "Returns the bytes per second that each GPU sends while all GPUs send to all others, "
             "by copies and by stores.");
  module.def(
      "measure_device_rates", &measure_device_rates, nb::arg("repeats"),
      "Measures the bytes per second that a GPU moves, and the operations per second that it "
      "computes. Also returns the size of its L2.");
  module.def(
      "measure_links", &measure_links,
      nb::arg("sizes") = std::vector<std::uint64_t>{std::uint64_t{256} << 20U},
      nb::arg("repetitions") = 5,
      "Measures the rates of copy engines between all GPUs, and between each GPU and the host.");
}
