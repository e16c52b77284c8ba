// Transfers between files and memories, as the Python modules offer them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/transfer.hpp"
#include "interlace/base/errors.hpp"
#include "python/signals.hpp"

namespace interlace::python {

// For each file, a pair of its descriptor and its name.
using file_list = std::vector<std::pair<int, std::string>>;
// For each segment, a tuple of file, offset in the file, bytes, address, GPU (or -1), and tensor.
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

// Returns the options of a transfer. `progress` is None, or a function of the number of bytes moved
// so far. `progress` must outlive the options. The transfer handles signals from time to time.
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

// A reader, with the Python function to which the reader reports progress. `Ring` must have a
// function slots() that returns the carrier. The ring is made before the reader.
template <class Ring>
class bound_reader {
 public:
  template <class... Arguments>
  bound_reader(const file_list& files, std::uint32_t threads, bool checksums,
               nanobind::object progress, std::uint64_t slot_bytes, bool direct, Arguments... ring)
      : progress_(std::move(progress)) {
    auto options = transfer_options_of(threads, checksums, progress_);
    options.chunk_bytes = slot_bytes;
    options.direct = direct;
    const nanobind::gil_scoped_release release;
    ring_ = std::make_unique<Ring>(ring...);
    reader_ =
        std::make_unique<checkpoint::reader>(files_of(files), ring_->slots(), std::move(options));
  }
  ~bound_reader() { close(); }
  bound_reader(const bound_reader&) = delete;
  bound_reader& operator=(const bound_reader&) = delete;

  std::size_t add(const segment_list& segments) {
    auto added = segments_of(segments);
    const nanobind::gil_scoped_release release;
    const std::shared_lock lock(used_);
    return open().add(std::move(added));
  }
  std::vector<std::uint32_t> wait(std::size_t batch) {
    const nanobind::gil_scoped_release release;
    const std::shared_lock lock(used_);
    return open().wait(batch);
  }
  bool done(std::size_t batch) {
    const nanobind::gil_scoped_release release;
    const std::shared_lock lock(used_);
    return open().done(batch);
  }
  std::string direct_problem() const { return reader_->direct_problem(); }
  void close() {
    if (closed_.exchange(true)) return;
    const nanobind::gil_scoped_release release;
    if (reader_) reader_->close();  // closing the reader ends the calls of other threads
    const std::lock_guard lock(used_);
    ring_.reset();
  }

 private:
  checkpoint::reader& open() {
    if (closed_) throw usage_error("the reader is closed");
    return *reader_;
  }

  nanobind::object progress_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<checkpoint::reader> reader_;
  std::atomic<bool> closed_{false};
  std::shared_mutex used_;  // calls hold it shared; close() holds it alone and destroys the ring
};

// Binds the functions that all readers have. Constructors differ, so each module binds its own.
template <class Reader>
void bind_reader(nanobind::class_<Reader>& bound) {
  namespace nb = nanobind;
  bound
      .def("add", &Reader::add, nb::arg("segments"),
           "Starts to read a batch of segments (file, offset, bytes, address, GPU or -1, tensor) "
           "after all earlier batches. Returns the number of the batch, from 0.")
      .def("wait", &Reader::wait, nb::arg("batch"),
           "Waits until all bytes of a batch have arrived. Returns the CRC-32C of each of its "
           "tensors if checksums were requested.")
      .def("done", &Reader::done, nb::arg("batch"),
           "Returns whether all bytes of a batch have arrived. Does not wait.")
      .def("close", &Reader::close,
           "Drops the segments that have not been read, and waits until no copy is in flight.");
}

}  // namespace interlace::python
