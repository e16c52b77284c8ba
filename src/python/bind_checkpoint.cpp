#include "python/bind_checkpoint.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/crc32c.hpp"
#include "checkpoint/header.hpp"
#include "python/bytes_text.hpp"
#include "python/segments.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

using converted_header = nb::typed<nb::tuple, nb::any, nb::any, std::uint64_t>;

// Returns the tensors as objects that `entry` made, the metadata, and the place where the data
// begins. Frees each part of `found` after its conversion, because a header can have millions of
// tensors.
converted_header converted(checkpoint::header found,
                           const std::vector<checkpoint::dtype_bits>& dtypes,
                           const nb::object& entry) {
  std::vector<nb::str> names;
  names.reserve(dtypes.size());
  for (const auto& [name, bits] : dtypes) names.emplace_back(name.c_str(), name.size());
  nb::list tensors;
  for (checkpoint::header_tensor& from : found.tensors) {
    const checkpoint::header_tensor one = std::move(from);
    nb::list shape;
    for (const std::uint64_t extent : one.shape) shape.append(extent);
    tensors.append(entry(nb::str(one.name.c_str(), one.name.size()), names[one.dtype],
                         nb::tuple(shape), one.begin, one.end));
  }
  nb::dict metadata;
  for (const auto& [key, text] : found.metadata) {
    metadata[nb::str(key.c_str(), key.size())] = nb::str(text.c_str(), text.size());
  }
  // NOLINTNEXTLINE(modernize-return-braced-init-list)
  return converted_header(nb::make_tuple(tensors, metadata, found.data_begin));
}

// Stands in for a ring of slots in a module that does not copy to GPUs.
struct no_ring {
  static checkpoint::carrier* slots() { return nullptr; }
};

using host_reader = bound_reader<no_ring>;

}  // namespace

void bind_checkpoint(nb::module_& module) {
  nb::class_<host_reader> reader(module, "Reader",
                                 "Reads files (descriptor, name) into memory with several threads. "
                                 "The descriptors must stay open until close().");
  reader.def(
      "__init__",
      [](host_reader* self, const file_list& files, std::uint32_t threads, bool checksums,
         nb::object progress) {
        new (self) host_reader(files, threads, checksums, std::move(progress),
                               checkpoint::transfer_options{}.chunk_bytes, false);
      },
      nb::arg("files"), nb::arg("threads"), nb::arg("checksums"), nb::arg("progress").none());
  bind_reader(reader);
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
      "several threads. Returns the CRC-32C of each tensor if `checksums` is true.");
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
  module.def(
      "parse_header",
      [](const std::string& file, const nb::bytes& text, std::uint64_t file_bytes,
         const std::vector<checkpoint::dtype_bits>& dtypes, const nb::object& entry) {
        checkpoint::header found;
        {
          const nb::gil_scoped_release release;
          found = checkpoint::parse_header(file, text_of(text), file_bytes, dtypes);
        }
        return converted(std::move(found), dtypes, entry);
      },
      nb::arg("file"), nb::arg("text"), nb::arg("file_bytes"), nb::arg("dtypes"), nb::arg("entry"),
      "Parses a header. Calls `entry` for each tensor (name, dtype, shape, begin, end). Returns "
      "the "
      "results of these calls, the metadata, and where the data begins.");
  module.def(
      "tensor_bytes",
      [](const std::vector<std::uint64_t>& shape, const checkpoint::dtype_bits& dtype) {
        return checkpoint::tensor_bytes(shape, dtype);
      },
      nb::arg("shape"), nb::arg("dtype"),
      "Returns the bytes of a tensor of this shape and dtype (name, bits).");
  module.def(
      "parse_index", [](const nb::bytes& text) { return checkpoint::parse_index(text_of(text)); },
      nb::arg("text"), "Parses an index. Returns pairs (tensor, name of its file).");
}

}  // namespace interlace::python
