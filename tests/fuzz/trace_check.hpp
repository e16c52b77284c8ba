// Checks that an accepted input gives a valid trace: writes the trace to a file and reads the file.
#pragma once

#include <sys/mman.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "interlace/base/errors.hpp"
#include "sim/trace/reader.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::fuzz {

class nothing final : public sim::trace::sink {
 public:
  void program(const sim::trace::step&) override {}
  void begin_kernel(std::uint32_t, std::uint32_t) override {}
  void begin_block(std::uint32_t, std::uint64_t) override {}
  void add(std::uint32_t, std::uint32_t, const sim::trace::instruction&) override {}
};

// `convert` passes a trace to the sink, or throws usage_error.
inline void check_conversion(const sim::trace::header& h,
                             const std::function<void(sim::trace::sink&)>& convert) {
  const descriptor file(memfd_create("trace", MFD_CLOEXEC));
  if (!file) throw std::runtime_error("no memory for a file");
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  sim::trace::writer to(path, h);
  convert(to);
  to.finish();
  try {
    const sim::trace::reader from(path);
    nothing sink;
    from.read_all(sink, {});
  } catch (const usage_error& error) {
    throw std::runtime_error(std::string("an accepted input does not give a valid trace: ") +
                             error.what());
  }
}

}  // namespace interlace::fuzz
