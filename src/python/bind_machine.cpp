#include "python/bind_machine.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "machine/discover.hpp"
#include "machine/machine.hpp"
#include "machine/route.hpp"
#include "machine/validate.hpp"

namespace nb = nanobind;

namespace interlace::python {
namespace {

using machine::endpoint_kind;
using machine::protocol_kind;

// (link, forward) pairs; tuples are what Python wants to unpack.
std::optional<std::vector<std::pair<std::size_t, bool>>> route_pairs(
    const machine::machine& described, machine::endpoint from, machine::endpoint to) {
  const auto way = machine::route(described, from, to);
  if (!way) return std::nullopt;
  std::vector<std::pair<std::size_t, bool>> pairs;
  for (const machine::hop& step : *way) pairs.emplace_back(step.link, step.forward);
  return pairs;
}

void bind_gpu(nb::module_& module) {
  using machine::cache;
  nb::class_<cache>(module, "Cache")
      .def(nb::init<>())
      .def_rw("bytes", &cache::bytes)
      .def_rw("ways", &cache::ways)
      .def_rw("line_bytes", &cache::line_bytes)
      .def_rw("sector_bytes", &cache::sector_bytes)
      .def_rw("banks", &cache::banks)
      .def_rw("hit_latency_ps", &cache::hit_latency_ps)
      .def_rw("mshrs", &cache::mshrs)
      .def_rw("bytes_per_s", &cache::bytes_per_s)
      .def_rw("write_back", &cache::write_back)
      .def_rw("modulo_sets", &cache::modulo_sets)
      .def_rw("stalls_on_full_set", &cache::stalls_on_full_set);

  using machine::scalar_cache;
  nb::class_<scalar_cache>(module, "ScalarCache")
      .def(nb::init<>())
      .def_rw("bytes", &scalar_cache::bytes)
      .def_rw("ways", &scalar_cache::ways)
      .def_rw("compute_units", &scalar_cache::compute_units)
      .def_rw("hit_latency_ps", &scalar_cache::hit_latency_ps);

  using machine::dram;
  nb::class_<dram>(module, "Dram")
      .def(nb::init<>())
      .def_rw("bytes", &dram::bytes)
      .def_rw("bytes_per_s", &dram::bytes_per_s)
      .def_rw("channels", &dram::channels)
      .def_rw("latency_ps", &dram::latency_ps);

  using machine::remote_write_queue;
  nb::class_<remote_write_queue>(module, "RemoteWriteQueue")
      .def(nb::init<>())
      .def_rw("entries", &remote_write_queue::entries)
      .def_rw("windows", &remote_write_queue::windows)
      .def_rw("grows_window", &remote_write_queue::grows_window)
      .def_rw("subheader_bytes", &remote_write_queue::subheader_bytes)
      .def_rw("payload_bytes", &remote_write_queue::payload_bytes)
      .def_rw("idle_flush_ps", &remote_write_queue::idle_flush_ps)
      .def_rw("unpacked_lines", &remote_write_queue::unpacked_lines);

  using machine::subscriptions;
  nb::class_<subscriptions>(module, "Subscriptions")
      .def(nb::init<>())
      .def_rw("queue_lines", &subscriptions::queue_lines)
      .def_rw("page_bytes", &subscriptions::page_bytes);

  using machine::dualopt;
  nb::class_<dualopt>(module, "DualOpt")
      .def(nb::init<>())
      .def_rw("piece_bytes", &dualopt::piece_bytes)
      .def_rw("buffer_pieces", &dualopt::buffer_pieces)
      .def_rw("timeout_clocks", &dualopt::timeout_clocks)
      .def_rw("packet_bytes", &dualopt::packet_bytes)
      .def_rw("rdma_cache_bytes", &dualopt::rdma_cache_bytes)
      .def_rw("rdma_cache_ways", &dualopt::rdma_cache_ways)
      .def_rw("remote_threshold", &dualopt::remote_threshold)
      .def_rw("block_threshold", &dualopt::block_threshold)
      .def_rw("hit_threshold", &dualopt::hit_threshold)
      .def_rw("monitored", &dualopt::monitored)
      .def_rw("warm_up", &dualopt::warm_up)
      .def_rw("agreeing_windows", &dualopt::agreeing_windows)
      .def_rw("looking_units", &dualopt::looking_units)
      .def_rw("page_loads", &dualopt::page_loads);

  using machine::griffin;
  nb::class_<griffin>(module, "Griffin")
      .def(nb::init<>())
      .def_rw("batch_pages", &griffin::batch_pages)
      .def_rw("counting_clocks", &griffin::counting_clocks)
      .def_rw("counted_pages", &griffin::counted_pages)
      .def_rw("look_periods", &griffin::look_periods)
      .def_rw("newest_weight", &griffin::newest_weight)
      .def_rw("least_rate", &griffin::least_rate)
      .def_rw("dedicated_factor", &griffin::dedicated_factor)
      .def_rw("shared_factor", &griffin::shared_factor);

  using machine::tlb;
  nb::class_<tlb>(module, "Tlb")
      .def(nb::init<>())
      .def_rw("page_bytes", &tlb::page_bytes)
      .def_rw("l1_entries", &tlb::l1_entries)
      .def_rw("l1_ways", &tlb::l1_ways)
      .def_rw("l1_latency_ps", &tlb::l1_latency_ps)
      .def_rw("l1_mshrs", &tlb::l1_mshrs)
      .def_rw("l2_entries", &tlb::l2_entries)
      .def_rw("l2_ways", &tlb::l2_ways)
      .def_rw("l2_latency_ps", &tlb::l2_latency_ps)
      .def_rw("l2_mshrs", &tlb::l2_mshrs)
      .def_rw("walks", &tlb::walks)
      .def_rw("walk_ps", &tlb::walk_ps);

  using machine::graph_costs;
  nb::class_<graph_costs>(module, "GraphCosts")
      .def(nb::init<>())
      .def_rw("creation_ps", &graph_costs::creation_ps)
      .def_rw("node_ps", &graph_costs::node_ps)
      .def_rw("instantiation_ps", &graph_costs::instantiation_ps)
      .def_rw("instantiation_node_ps", &graph_costs::instantiation_node_ps)
      .def_rw("update_node_ps", &graph_costs::update_node_ps)
      .def_rw("launch_ps", &graph_costs::launch_ps)
      .def_rw("launch_node_ps", &graph_costs::launch_node_ps);

  using machine::issue_rates;
  nb::class_<issue_rates>(module, "IssueRates")
      .def(nb::init<>())
      .def_rw("instructions", &issue_rates::instructions)
      .def_rw("fp32", &issue_rates::fp32)
      .def_rw("fp64", &issue_rates::fp64)
      .def_rw("integer", &issue_rates::integer)
      .def_rw("special", &issue_rates::special)
      .def_rw("memory_lines", &issue_rates::memory_lines);

  nb::enum_<machine::block_dispatch>(module, "BlockDispatch")
      .value("round_robin", machine::block_dispatch::round_robin)
      .value("greedy", machine::block_dispatch::greedy)
      .value("partition", machine::block_dispatch::partition);

  using machine::gpu;
  nb::class_<gpu>(module, "Gpu")
      .def(nb::init<>())
      .def_rw("model", &gpu::model)
      .def_rw("compute_units", &gpu::compute_units)
      .def_rw("clock_hz", &gpu::clock_hz)
      .def_rw("warp_width", &gpu::warp_width)
      .def_rw("max_warps", &gpu::max_warps)
      .def_rw("max_blocks", &gpu::max_blocks)
      .def_rw("shared_bytes", &gpu::shared_bytes)
      .def_rw("issue", &gpu::issue)
      .def_rw("l1", &gpu::l1)
      .def_rw("scalar_l1", &gpu::scalar_l1)
      .def_rw("l2", &gpu::l2)
      .def_rw("tlb", &gpu::tlb)
      .def_rw("port_l2_latency_ps", &gpu::port_l2_latency_ps)
      .def_rw("dram", &gpu::dram)
      .def_rw("atomic_ops_per_clock_per_bank", &gpu::atomic_ops_per_clock_per_bank)
      .def_rw("copy_engines", &gpu::copy_engines)
      .def_rw("copy_peer_engines", &gpu::copy_peer_engines)
      .def_rw("copy_setup_ps", &gpu::copy_setup_ps)
      .def_rw("copy_bytes_per_s", &gpu::copy_bytes_per_s)
      .def_rw("copy_wait_ps", &gpu::copy_wait_ps)
      .def_rw("copy_host_ps", &gpu::copy_host_ps)
      .def_rw("copy_launch_ps", &gpu::copy_launch_ps)
      .def_rw("copy_event_ps", &gpu::copy_event_ps)
      .def_rw("copy_event_latency_ps", &gpu::copy_event_latency_ps)
      .def_rw("graph", &gpu::graph)
      .def_rw("kernel_launch_ps", &gpu::kernel_launch_ps)
      .def_rw("block_launch_ps", &gpu::block_launch_ps)
      .def_rw("dispatch", &gpu::dispatch)
      .def_rw("fence_ps", &gpu::fence_ps)
      .def_rw("device_launch_ps", &gpu::device_launch_ps)
      .def_rw("device_launch_interval_ps", &gpu::device_launch_interval_ps)
      .def_rw("device_launches_pending", &gpu::device_launches_pending)
      .def_rw("poll_ps", &gpu::poll_ps)
      .def_rw("store_queue_lines", &gpu::store_queue_lines)
      .def_rw("remote_store_bytes", &gpu::remote_store_bytes)
      .def_rw("store_bytes_per_s", &gpu::store_bytes_per_s)
      .def_rw("write_queue", &gpu::write_queue)
      .def_rw("gps", &gpu::gps)
      .def_rw("dualopt", &gpu::dualopt)
      .def_rw("griffin", &gpu::griffin);
}

void bind_fabric(nb::module_& module) {
  nb::enum_<endpoint_kind>(module, "EndpointKind")
      .value("gpu", endpoint_kind::gpu)
      .value("network_switch", endpoint_kind::network_switch)
      .value("host", endpoint_kind::host);

  nb::enum_<protocol_kind>(module, "ProtocolKind")
      .value("pcie3", protocol_kind::pcie3)
      .value("pcie4", protocol_kind::pcie4)
      .value("pcie5", protocol_kind::pcie5)
      .value("pcie6", protocol_kind::pcie6)
      .value("nvlink1", protocol_kind::nvlink1)
      .value("nvlink2", protocol_kind::nvlink2)
      .value("nvlink3", protocol_kind::nvlink3)
      .value("nvlink4", protocol_kind::nvlink4);

  using machine::endpoint;
  nb::class_<endpoint>(module, "Endpoint")
      .def(nb::init<>())
      .def("__init__",
           [](endpoint* made, endpoint_kind kind, std::uint32_t index) {
             new (made) endpoint{kind, index};
           })
      // NOLINTNEXTLINE(misc-redundant-expression): nanobind's way to bind ==
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def_rw("kind", &endpoint::kind)
      .def_rw("index", &endpoint::index);

  using machine::protocol;
  nb::class_<protocol>(module, "Protocol")
      .def(nb::init<>())
      .def_rw("kind", &protocol::kind)
      .def_rw("max_payload_bytes", &protocol::max_payload_bytes)
      .def_rw("packet_overhead_bytes", &protocol::packet_overhead_bytes)
      .def_rw("read_request_bytes", &protocol::read_request_bytes)
      .def_rw("link_flit_bytes", &protocol::link_flit_bytes)
      .def_rw("word_write_bytes", &protocol::word_write_bytes)
      .def_rw("completion_overhead_bytes", &protocol::completion_overhead_bytes);

  using machine::link;
  nb::class_<link>(module, "Link")
      .def(nb::init<>())
      .def_rw("a", &link::a)
      .def_rw("b", &link::b)
      .def_rw("protocol_name", &link::protocol_name)
      .def_rw("protocol", &link::protocol)
      .def_rw("width", &link::width)
      .def_rw("bytes_per_s", &link::bytes_per_s)
      .def_rw("latency_ps", &link::latency_ps)
      .def_rw("queue_bytes", &link::queue_bytes)
      .def_rw("copy_bytes_per_s", &link::copy_bytes_per_s)
      .def_rw("copy_both_bytes_per_s", &link::copy_both_bytes_per_s);

  using machine::network_switch;
  nb::class_<network_switch>(module, "Switch")
      .def(nb::init<>())
      .def_rw("name", &network_switch::name)
      .def_rw("latency_ps", &network_switch::latency_ps);

  using machine::host;
  nb::class_<host>(module, "Host")
      .def(nb::init<>())
      .def_rw("model", &host::model)
      .def_rw("memory_bytes_per_s", &host::memory_bytes_per_s)
      .def_rw("copy_write_bytes_per_s", &host::copy_write_bytes_per_s);
}

void bind_discovery(nb::module_& module) {
  using machine::discovery;
  nb::class_<discovery>(module, "Discovery")
      .def_ro("found", &discovery::found)
      .def_ro("template_name", &discovery::template_name)
      .def_ro("same_model", &discovery::same_model)
      .def_ro("queried", &discovery::queried)
      .def_ro("link_rates", &discovery::link_rates)
      .def_ro("devices", &discovery::devices)
      .def_ro("relations", &discovery::relations)
      .def_ro("remarks", &discovery::remarks)
      .def_ro("driver_version", &discovery::driver_version)
      .def_ro("cuda_version", &discovery::cuda_version);

  using machine::found_device;
  nb::class_<found_device>(module, "FoundDevice")
      .def_ro("name", &found_device::name)
      .def_ro("bus_id", &found_device::bus_id)
      .def_ro("memory_bytes", &found_device::memory_bytes)
      .def_ro("pcie_generation", &found_device::pcie_generation)
      .def_ro("pcie_width", &found_device::pcie_width)
      .def_ro("numa_node", &found_device::numa_node)
      .def_ro("nvlinks", &found_device::nvlinks);

  module.def(
      "discover_machine",
      [](const std::vector<machine::machine>& known) {
        const auto driver = machine::open_driver();
        return machine::discover(*driver, known);
      },
      nb::arg("known"), nb::call_guard<nb::gil_scoped_release>(),
      "The GPUs of this node; `known` are described machines that supply what no driver tells.");
}

}  // namespace

void bind_machine(nb::module_& module) {
  bind_gpu(module);
  bind_fabric(module);

  using machine::machine;
  nb::class_<machine>(module, "Machine")
      .def(nb::init<>())
      .def_rw("name", &machine::name)
      .def_rw("title", &machine::title)
      .def_rw("gpu_count", &machine::gpu_count)
      .def_rw("gpu", &machine::gpu)
      .def_rw("host", &machine::host)
      .def_rw("switches", &machine::switches)
      .def_rw("links", &machine::links);

  module.def("validate_machine", &interlace::machine::validate, nb::arg("machine"),
             "One sentence for each thing that is wrong.");
  module.def("route", &route_pairs, nb::arg("machine"), nb::arg("start"), nb::arg("end"),
             "The links of the best way as (index, forward), or None if there is no way.");
  bind_discovery(module);
}

}  // namespace interlace::python
