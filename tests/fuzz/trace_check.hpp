// An accepted input must be a trace. It is written to a file, and the file is read.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
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
  const char* folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/interlace-fuzz-" +
                           std::to_string(getpid());
  std::ofstream(path).close();
  sim::trace::writer to(path, h);
  convert(to);
  to.finish();
  try {
    const sim::trace::reader from(path);
    std::remove(path.c_str());  // the file stays open
    nothing sink;
    from.read_all(sink, {});
  } catch (const usage_error& error) {
    throw std::runtime_error(std::string("what was taken is not a trace: ") + error.what());
  }
}

}  // namespace interlace::fuzz
