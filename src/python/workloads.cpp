#include "python/workloads.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/base/limits.hpp"
#include "python/signals.hpp"
#include "run/variant.hpp"

namespace nb = nanobind;

namespace interlace::python {

run::request make_request(const std::string& mechanism, const boundaries_in& boundaries,
                          std::uint64_t elements, std::uint32_t iterations, double tolerance,
                          std::uint32_t split_ranges, std::uint64_t chunk_bytes,
                          std::uint32_t agent_threads, const std::string& variant) {
  const std::size_t cuts = boundaries.shape(0);
  if (cuts < 2 || cuts - 1 > max_devices) {
    throw usage_error(std::to_string(cuts == 0 ? 0 : cuts - 1) +
                      " GPUs cannot be used; give 1 to " + std::to_string(max_devices));
  }
  const std::uint64_t* last = boundaries.data() + cuts - 1;
  if (boundaries.data()[0] != 0 || *last != elements ||
      !std::is_sorted(boundaries.data(), last + 1)) {
    throw usage_error("the boundaries do not cut the elements into a part for each GPU");
  }
  run::request asked;
  asked.boundaries.assign(boundaries.data(), last + 1);
  run::set_mechanism(asked, mechanism);
  asked.split_ranges = split_ranges;
  asked.chunk_bytes = chunk_bytes;
  asked.agent_threads = agent_threads;
  run::set_variant(asked, variant);
  asked.iterations = iterations;
  asked.tolerance = tolerance;
  asked.check_interrupt = check_signals;
  return asked;
}

namespace {

nb::dict store_counts(const kernel::remote_store_counts& s) {
  nb::dict d;
  d["stores"] = s.stores;
  d["bytes"] = s.bytes;
  d["sizes"] = nb::cast(std::vector<std::uint64_t>(s.sizes.begin(), s.sizes.end()));
  d["packets"] = s.packets;
  d["wire_bytes"] = s.wire;
  d["overwritten_bytes"] = s.overwritten;
  d["flushes"] = s.flushes;
  d["subpackets"] = s.subpackets;
  d["subheader_bytes"] = s.subheader_bytes;
  nb::dict reasons;
  static constexpr const char* names[] = {"window", "payload", "entries", "release",
                                          "load",   "atomic",  "timeout"};
  for (std::size_t k = 0; k < s.reasons.size(); ++k) reasons[names[k]] = s.reasons[k];
  d["reasons"] = reasons;
  return d;
}

nb::dict observation_dict(const kernel::observation& o) {
  nb::list pairs;
  for (const kernel::pair_traffic& p : o.pairs) {
    nb::dict pair;
    pair["from"] = p.from;
    pair["to"] = p.to;
    pair["messages"] = p.messages;
    pair["packets"] = p.packets;
    pair["payload_bytes"] = p.payload_bytes;
    pair["protocol_bytes"] = p.protocol_bytes;
    pair["mean_latency_s"] = p.mean_latency_s;
    pair["max_latency_s"] = p.max_latency_s;
    pairs.append(pair);
  }
  nb::list links;
  for (const kernel::link_traffic& l : o.links) {
    nb::dict link;
    link["from"] = l.from;
    link["to"] = l.to;
    link["protocol"] = l.protocol;
    link["wire_bytes"] = l.wire_bytes;
    link["busy"] = l.busy;
    link["by_bin"] = l.by_bin;
    links.append(link);
  }
  nb::list devices;
  for (const kernel::device_activity& a : o.devices) {
    nb::dict device;
    device["kernel"] = a.kernel;
    device["copy"] = a.copy;
    device["idle"] = a.idle;
    device["idle_while_others_compute"] = a.idle_while_others_compute;
    device["issue"] = a.issue;
    device["memory"] = a.memory;
    devices.append(device);
  }
  nb::dict d;
  d["time_s"] = o.time_s;
  d["bin_s"] = o.bin_s;
  d["pairs"] = pairs;
  d["links"] = links;
  d["gpus"] = devices;
  return d;
}

nb::list work_list(const std::vector<kernel::launch_work>& launches) {
  nb::list all;
  for (const kernel::launch_work& w : launches) {
    nb::dict d;
    d["device"] = w.device;
    d["name"] = w.name;
    d["loaded_bytes"] = w.loaded_bytes;
    d["stored_bytes"] = w.stored_bytes;
    d["touched_bytes"] = w.touched_bytes;
    d["fp32"] = w.operations.fp32;
    d["fp64"] = w.operations.fp64;
    d["integer"] = w.operations.integer;
    d["special"] = w.operations.special;
    all.append(d);
  }
  return all;
}

}  // namespace

nb::dict make_result(run::result result) {
  nb::dict d;
  d["time_s"] = result.run.time_s;
  d["copy_s"] = result.run.copy_s;
  d["iterations"] = result.iterations;
  d["timed_iterations"] = result.timed;
  d["warm_iteration_s"] = result.warm_iteration_s;
  d["residual"] = result.residual;
  d["accesses"] = result.run.accesses;
  d["remote_transactions"] = result.run.remote_transactions;
  d["stores"] = store_counts(result.run.stores);
  if (result.run.wire_known) {
    nb::dict wire;
    wire["useful"] = result.run.wire.useful;
    wire["protocol"] = result.run.wire.protocol;
    wire["wasted"] = result.run.wire.wasted;
    d["wire"] = wire;
  } else {
    d["wire"] = nb::none();
  }
  nb::list timeline;
  for (const kernel::timeline_event& e : result.run.timeline) {
    nb::dict event;
    event["device"] = e.device;
    event["track"] = e.track;
    event["name"] = e.name;
    event["start_s"] = e.start_s;
    event["end_s"] = e.end_s;
    timeline.append(event);
  }
  d["timeline"] = timeline;
  d["sent_bytes"] = result.run.sent_bytes;
  d["epoch_s"] = result.run.epoch_s;
  d["work"] = work_list(result.run.work);
  d["observed"] = nb::none();
  if (result.run.observed) d["observed"] = observation_dict(*result.run.observed);

  const std::size_t devices = result.values.size();
  const std::size_t elements = devices == 0 ? 0 : result.values.front().size();
  auto values = std::make_unique<std::vector<float>>();
  values->reserve(devices * elements);
  for (const auto& replica : result.values) {
    values->insert(values->end(), replica.begin(), replica.end());
  }
  float* data = values->data();
  nb::capsule owner(values.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  d["values"] = nb::ndarray<nb::numpy, float, nb::ndim<2>>(data, {devices, elements}, owner);
  return d;
}

nb::dict make_measurement(run::measurement measured) {
  nb::dict d = make_result(std::move(measured.result));
  d["cpu_s"] = nb::none();
  d["times_s"] = measured.times_s;
  d["remarks"] = measured.remarks;
  d["data_tx_bytes"] =
      measured.data_tx_bytes ? nb::cast(*measured.data_tx_bytes) : nb::object(nb::none());
  d["raw_tx_bytes"] =
      measured.raw_tx_bytes ? nb::cast(*measured.raw_tx_bytes) : nb::object(nb::none());
  return d;
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    const auto raise = [](const char* name, const std::exception& e) {
      PyErr_SetString(nb::module_::import_("interlace.base.errors").attr(name).ptr(), e.what());
    };
    try {
      std::rethrow_exception(thrown);
    } catch (const usage_error& e) {
      raise("UserError", e);
    } catch (const model_error& e) {
      raise("ModelError", e);
    } catch (const device_error& e) {
      raise("DeviceError", e);
    }
  });
}

}  // namespace interlace::python
