#include "python/bind_checkpoint.hpp"

#include <cstdint>
#include <vector>

#include "checkpoint/crc32c.hpp"
#include "python/segments.hpp"

namespace nb = nanobind;

namespace interlace::python {

void bind_checkpoint(nb::module_& module) {
  module.def(
      "read_segments",
      [](const file_list& files, const segment_list& segments, std::uint32_t threads,
         bool checksums, const nb::object& progress) {
        const auto options = transfer_options_of(threads, checksums, progress);
        const nb::gil_scoped_release release;
        return checkpoint::read_segments(files_of(files), segments_of(segments), nullptr, options);
      },
      nb::arg("files"), nb::arg("segments"), nb::arg("threads"), nb::arg("checksums"),
      nb::arg("progress").none(),
      "Reads segments (file, offset, bytes, address, -1, tensor) of files (descriptor, name) with "
      "several threads. Returns the CRC-32C of each tensor if asked for.");
  module.def(
      "write_segments",
      [](const file_list& files, const segment_list& segments, std::uint32_t threads,
         bool checksums, const nb::object& progress) {
        const auto options = transfer_options_of(threads, checksums, progress);
        const nb::gil_scoped_release release;
        return checkpoint::write_segments(files_of(files), segments_of(segments), nullptr, options);
      },
      nb::arg("files"), nb::arg("segments"), nb::arg("threads"), nb::arg("checksums"),
      nb::arg("progress").none(), "Writes segments to files, with the arguments of read_segments.");
  module.def(
      "crc32c",
      [](const nb::bytes& data) {
        return checkpoint::crc32c({data.c_str(), data.size()});
      },
      nb::arg("data"));
}

}  // namespace interlace::python
