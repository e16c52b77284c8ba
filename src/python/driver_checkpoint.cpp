#include "python/driver_checkpoint.hpp"

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/gpu_ring.hpp"
#include "python/segments.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

// The ring of slots that a reader uses.
class ring_of_reader {
 public:
  ring_of_reader(std::uint32_t slots, std::uint64_t slot_bytes,
                 std::optional<std::uint64_t> most_staging)
      : ring_(slots, slot_bytes, most_staging) {}
  checkpoint::carrier* slots() const { return &ring_.slots(); }

 private:
  checkpoint::gpu_ring ring_;
};

using gpu_reader = bound_reader<ring_of_reader>;

}  // namespace

void bind_checkpoints(nb::module_& module) {
  module.def("visible_gpus", &checkpoint::visible_gpus,
             "Returns the number of GPUs that this process sees.");
  nb::class_<gpu_reader> reader(
      module, "Reader",
      "Like Reader of _core, but segments may be on GPUs. `slots` is the number of page-locked "
      "slots.");
  reader.def(
      "__init__",
      [](gpu_reader* self, const file_list& files, std::uint32_t threads, bool checksums,
         nb::object progress, std::uint32_t slots, std::uint64_t slot_bytes, bool direct,
         std::optional<std::uint64_t> most_staging) {
        new (self) gpu_reader(files, threads, checksums, std::move(progress), slot_bytes, direct,
                              slots, slot_bytes, most_staging);
      },
      nb::arg("files"), nb::arg("threads"), nb::arg("checksums"), nb::arg("progress").none(),
      nb::arg("slots"), nb::arg("slot_bytes"), nb::arg("direct") = false,
      nb::arg("most_staging") = nb::none());
  bind_reader(reader);
  reader.def("direct_problem", &gpu_reader::direct_problem,
             "Returns why a file could not be read around the page cache although `direct` is set. "
             "The text is empty if there is no such reason.");
  module.def(
      "read_segments",
      [](const file_list& files, const segment_list& segments, std::uint32_t threads,
         bool checksums, const nb::object& progress, std::uint32_t slots,
         std::uint64_t slot_bytes) {
        auto options = transfer_options_of(threads, checksums, progress);
        options.chunk_bytes = slot_bytes;
        const nb::gil_scoped_release release;
        const checkpoint::gpu_ring ring(slots, slot_bytes);
        return checkpoint::read_segments(files_of(files), segments_of(segments), &ring.slots(),
                                         options);
      },
      nb::arg("files"), nb::arg("segments"), nb::arg("threads"), nb::arg("checksums"),
      nb::arg("progress").none(), nb::arg("slots"), nb::arg("slot_bytes"),
      "Like read_segments of _core, but segments may be on GPUs. `slots` is the number of "
      "page-locked slots.");
  module.def(
      "write_segments",
      [](const file_list& files, const segment_list& segments, std::uint32_t threads,
         bool checksums, const nb::object& progress, std::uint32_t slots,
         std::uint64_t slot_bytes) {
        auto options = transfer_options_of(threads, checksums, progress);
        options.chunk_bytes = slot_bytes;
        const nb::gil_scoped_release release;
        const checkpoint::gpu_ring ring(slots, slot_bytes);
        return checkpoint::write_segments(files_of(files), segments_of(segments), &ring.slots(),
                                          options);
      },
      nb::arg("files"), nb::arg("segments"), nb::arg("threads"), nb::arg("checksums"),
      nb::arg("progress").none(), nb::arg("slots"), nb::arg("slot_bytes"),
      "Writes segments to files, with the arguments of read_segments.");
}

}  // namespace interlace::python
