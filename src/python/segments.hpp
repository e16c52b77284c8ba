// Arguments of transfers between files and memories, as the extension modules take them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/transfer.hpp"
#include "python/signals.hpp"

namespace interlace::python {

// For each file, its descriptor and its name.
using file_list = std::vector<std::pair<int, std::string>>;
// For each segment: file, offset in the file, bytes, address, GPU or -1, and tensor.
using segment_list = std::vector<
    std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uintptr_t, int, std::uint32_t>>;

inline std::vector<checkpoint::file> files_of(const file_list& list) {
  std::vector<checkpoint::file> files;
  files.reserve(list.size());
  for (const auto& [descriptor, name] : list) files.push_back({descriptor, name});
  return files;
}

inline std::vector<checkpoint::segment> segments_of(const segment_list& list) {
  std::vector<checkpoint::segment> segments;
  segments.reserve(list.size());
  for (const auto& [file, offset, bytes, address, gpu, tensor] : list) {
    segments.push_back({.file = file,
                        .offset = offset,
                        .bytes = bytes,
                        .address = address,
                        .gpu = gpu,
                        .tensor = tensor});
  }
  return segments;
}

// `progress` is None or a function that takes the number of bytes so far. Signals are handled
// during the transfer.
inline checkpoint::transfer_options transfer_options_of(std::uint32_t threads, bool checksums,
                                                        const nanobind::object& progress) {
  checkpoint::transfer_options options;
  options.threads = threads;
  options.checksums = checksums;
  options.progress = [&progress](std::uint64_t bytes) {
    const nanobind::gil_scoped_acquire lock;
    check_signals();
    if (!progress.is_none()) progress(bytes);
  };
  return options;
}

}  // namespace interlace::python
