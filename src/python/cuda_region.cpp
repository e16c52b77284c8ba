#include "python/cuda_region.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/partition.hpp"
#include "interlace/region.hpp"
#include "python/signals.hpp"
#include "python/workloads.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

CUstream_st* stream_at(std::uintptr_t pointer) { return reinterpret_cast<CUstream_st*>(pointer); }

std::uintptr_t number_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Makes a gather function from a Python callable that takes bytes and returns a list of bytes. The
// gather function holds the interpreter's lock while it calls or releases the callable.
all_gather gather_from(nb::callable function) {
  const std::shared_ptr<nb::callable> kept(new nb::callable(std::move(function)),
                                           [](nb::callable* f) {
                                             const nb::gil_scoped_acquire lock;
                                             delete f;
                                           });
  return [kept](const std::string& own) {
    const nb::gil_scoped_acquire lock;
    std::vector<std::string> all;
    for (nb::handle entry : (*kept)(nb::bytes(own.data(), own.size()))) {
      const auto bytes = nb::cast<nb::bytes>(entry);
      all.emplace_back(bytes.c_str(), bytes.size());
    }
    return all;
  };
}

group local_group(const std::optional<std::vector<int>>& ordinals, double deadline_s) {
  const nb::gil_scoped_release release;
  // `shown` is false, because the Python package shows its groups itself.
  const group_options options{.deadline_s = deadline_s, .shown = false};
  return ordinals ? group::local(*ordinals, options) : group::all(options);
}

group joined_group(std::uint32_t rank, std::uint32_t size, int ordinal, nb::callable gather,
                   double deadline_s) {
  all_gather all = gather_from(std::move(gather));
  const nb::gil_scoped_release release;
  return group::join(rank, size, ordinal, std::move(all),
                     {.deadline_s = deadline_s, .shown = false});
}

// A region that can be closed while Python still holds a reference to it.
class open_region {
 public:
  open_region(const group& g, const region_spec& spec, const std::vector<region_memory>& memory) {
    const nb::gil_scoped_release release;
    region_.emplace(g, spec, memory);
  }
  ~open_region() { close(); }
  open_region(const open_region&) = delete;
  open_region& operator=(const open_region&) = delete;
  open_region(open_region&&) = delete;
  open_region& operator=(open_region&&) = delete;

  region& get() {
    if (!region_) throw usage_error("this region is closed");
    return *region_;
  }
  void close() {
    if (!region_) return;
    const nb::gil_scoped_release release;
    region_.reset();
  }

 private:
  std::optional<region> region_;
};

using subscriber_list =
    std::vector<std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>>>;

void make_region(open_region* self, const group& g, const std::string& name, std::uint64_t elements,
                 std::uint32_t element_bytes, const std::vector<std::uint64_t>& boundaries,
                 const subscriber_list& subscribers, const std::string& mechanism,
                 std::uint64_t chunk_bytes, std::uint32_t agent_threads,
                 const std::string& agent_copy, bool checks,
                 const std::vector<std::pair<std::uintptr_t, std::uintptr_t>>& memory) {
  region_spec spec;
  spec.name = name;
  spec.elements = elements;
  spec.element_bytes = element_bytes;
  spec.boundaries = boundaries;
  for (const auto& owner : subscribers) {
    auto& ranges = spec.subscribers.emplace_back();
    for (const auto& [begin, end, devices] : owner) ranges.push_back({begin, end, devices});
  }
  spec.mechanism = mechanism;
  spec.chunk_bytes = chunk_bytes;
  spec.agent_threads = agent_threads;
  spec.agent_copy = agent_copy;
  spec.checks = checks;
  std::vector<region_memory> brought;
  brought.reserve(memory.size());
  for (const auto& [front, back] : memory) {
    brought.push_back({reinterpret_cast<void*>(front), reinterpret_cast<void*>(back)});
  }
  new (self) open_region(g, spec, brought);
}

// A partitioned array that can be closed while Python still holds a reference to it.
class open_partition {
 public:
  open_partition(const group& g, const partition_spec& spec, const std::string& type,
                 const std::string& operation) {
    const nb::gil_scoped_release release;
    array_ = detail::make_any_partition(g, spec, type, operation);
  }
  ~open_partition() { close(); }
  open_partition(const open_partition&) = delete;
  open_partition& operator=(const open_partition&) = delete;
  open_partition(open_partition&&) = delete;
  open_partition& operator=(open_partition&&) = delete;

  detail::any_partition& get() {
    if (!array_) throw usage_error("this partitioned array is closed");
    return *array_;
  }
  void close() {
    if (!array_) return;
    const nb::gil_scoped_release release;
    array_.reset();
  }

 private:
  std::unique_ptr<detail::any_partition> array_;
};

void make_partition(open_partition* self, const group& g, const std::string& name,
                    std::uint64_t elements, const std::string& type, const std::string& operation,
                    const std::vector<std::uint64_t>& boundaries, const std::string& mechanism,
                    std::uint32_t packet_bytes, std::uint64_t queued_updates,
                    bool combine_in_packets, bool checks) {
  partition_spec spec;
  spec.name = name;
  spec.elements = elements;
  spec.boundaries = boundaries;
  spec.mechanism = mechanism;
  spec.packet_bytes = packet_bytes;
  spec.queued_updates = queued_updates;
  spec.combine_in_packets = combine_in_packets;
  spec.checks = checks;
  new (self) open_partition(g, spec, type, operation);
}

void bind_partitions(nb::module_& module) {
  nb::class_<open_partition>(module, "PartitionedArray")
      .def("__init__", &make_partition, nb::arg("group"), nb::arg("name"), nb::arg("elements"),
           nb::arg("dtype"), nb::arg("operation"), nb::arg("boundaries"), nb::arg("mechanism"),
           nb::arg("packet_bytes"), nb::arg("queued_updates"), nb::arg("combine_in_packets"),
           nb::arg("checks"))
      .def("close", &open_partition::close)
      .def(
          "part",
          [](open_partition& p, std::uint32_t device) {
            const kernel::element_range part = p.get().base().part(device);
            return std::pair(part.begin, part.end);
          },
          nb::arg("device"))
      .def(
          "parts",
          [](open_partition& p, std::uint32_t device) {
            std::vector<std::uintptr_t> parts;
            for (const void* part : p.get().base().parts(device)) parts.push_back(number_of(part));
            return parts;
          },
          nb::arg("device"))
      .def(
          "begin",
          [](open_partition& p, std::uint32_t device, std::uintptr_t stream) {
            p.get().base().begin(device, stream_at(stream));
          },
          nb::arg("device"), nb::arg("stream"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "update",
          [](open_partition& p, std::uint32_t device, std::uintptr_t elements,
             std::uintptr_t values, std::uint64_t count, std::uintptr_t stream) {
            p.get().update(device, reinterpret_cast<const std::int64_t*>(elements),
                           reinterpret_cast<const void*>(values), count, stream_at(stream));
          },
          nb::arg("device"), nb::arg("elements"), nb::arg("values"), nb::arg("count"),
          nb::arg("stream"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "exchange",
          [](open_partition& p, std::uint32_t device, std::uintptr_t stream) {
            p.get().exchange(device, stream_at(stream));
          },
          nb::arg("device"), nb::arg("stream"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "check",
          [](open_partition& p, std::uint32_t device, std::uintptr_t stream) {
            p.get().base().check(device, stream_at(stream));
          },
          nb::arg("device"), nb::arg("stream"), nb::call_guard<nb::gil_scoped_release>());
}

nb::object device_array(std::uintptr_t pointer, const std::vector<std::size_t>& shape,
                        std::uint8_t code, std::uint8_t bits, int ordinal, nb::handle owner) {
  const nb::dlpack::dtype type{code, bits, 1};
  return nb::cast(nb::ndarray<nb::array_api>(reinterpret_cast<void*>(pointer), shape.size(),
                                             shape.data(), owner, nullptr, type,
                                             nb::device::cuda::value, ordinal));
}

}  // namespace

void bind_regions(nb::module_& module) {
  nb::class_<group>(module, "Group")
      .def_static("local", &local_group, nb::arg("ordinals").none(), nb::arg("deadline_s"))
      .def_static("join", &joined_group, nb::arg("rank"), nb::arg("size"), nb::arg("ordinal"),
                  nb::arg("all_gather"), nb::arg("deadline_s"))
      .def_prop_ro("devices", &group::devices)
      .def_prop_ro("local_devices", &group::local_devices)
      .def("ordinal", &group::ordinal, nb::arg("device"))
      .def("check", &group::check, nb::call_guard<nb::gil_scoped_release>())
      .def("waits", &group::waits, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "synchronize",
          [](const group& g, std::uint32_t device, std::uintptr_t stream) {
            const nb::gil_scoped_release release;
            g.synchronize(device, stream_at(stream), check_signals);
          },
          nb::arg("device"), nb::arg("stream"));

  nb::class_<open_region>(module, "Region")
      .def("__init__", &make_region, nb::arg("group"), nb::arg("name"), nb::arg("elements"),
           nb::arg("element_bytes"), nb::arg("boundaries"), nb::arg("subscribers"),
           nb::arg("mechanism"), nb::arg("chunk_bytes"), nb::arg("agent_threads"),
           nb::arg("agent_copy"), nb::arg("checks"), nb::arg("memory"))
      .def_static(
          "refuse",
          [](const group& g, const std::string& why) {
            const nb::gil_scoped_release release;
            region::refuse(g, why);
          },
          nb::arg("group"), nb::arg("why"))
      .def("close", &open_region::close)
      .def(
          "part",
          [](open_region& r, std::uint32_t device) {
            const kernel::element_range part = r.get().part(device);
            return std::pair(part.begin, part.end);
          },
          nb::arg("device"))
      .def(
          "front", [](open_region& r, std::uint32_t d) { return number_of(r.get().front(d)); },
          nb::arg("device"))
      .def(
          "back", [](open_region& r, std::uint32_t d) { return number_of(r.get().back(d)); },
          nb::arg("device"))
      .def(
          "backs",
          [](open_region& r, std::uint32_t device) {
            std::vector<std::uintptr_t> backs;
            for (const void* back : r.get().backs(device)) backs.push_back(number_of(back));
            return backs;
          },
          nb::arg("device"))
      .def(
          "notes",
          [](open_region& r, std::uint32_t device) {
            const region_audit audit = r.get().audit(device);
            return std::pair(number_of(audit.stored), number_of(audit.published));
          },
          nb::arg("device"))
      .def(
          "begin",
          [](open_region& r, std::uint32_t device, std::uintptr_t stream) {
            r.get().begin(device, stream_at(stream));
          },
          nb::arg("device"), nb::arg("stream"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "exchange",
          [](open_region& r, std::uint32_t device, std::uintptr_t stream) {
            r.get().exchange(device, stream_at(stream));
          },
          nb::arg("device"), nb::arg("stream"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "chunks",
          [](open_region& r, std::uint32_t device) {
            std::vector<std::pair<std::uint64_t, std::uint64_t>> chunks;
            for (const kernel::chunk& c : r.get().chunks(device))
              chunks.emplace_back(c.begin, c.end);
            return chunks;
          },
          nb::arg("device"))
      .def(
          "table",
          [](open_region& r, std::uint32_t device) {
            const kernel::chunk_table& t = r.get().table(device);
            nb::dict d;
            d["chunks"] = number_of(t.chunks);
            d["counters"] = number_of(t.counters);
            d["targets"] = number_of(t.targets);
            d["launches"] = number_of(t.launches);
            d["flags"] = number_of(t.flags);
            return d;
          },
          nb::arg("device"));

  bind_partitions(module);

  module.def("device_array", &device_array, nb::arg("pointer"), nb::arg("shape"), nb::arg("code"),
             nb::arg("bits"), nb::arg("ordinal"), nb::arg("owner"),
             "Returns memory of a GPU as an object with __dlpack__. It keeps `owner` alive.");
}

}  // namespace interlace::python
