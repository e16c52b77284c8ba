// A report about the driver and the GPUs of this machine. It tells people why something does not
// run. Unlike discovery, it never fails: it also describes missing and broken parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/discover.hpp"

namespace interlace::machine {

struct reported_gpu {
  std::string name;
  std::string bus_id;
  std::uint64_t memory_bytes = 0;
  std::uint32_t capability = 0;  // 90 for 9.0
  bool mig = false;              // a MIG instance
  std::string kernels;           // why kernels do not run on it; empty if they do
};

struct driver_report {
  bool present = false;       // a library of a driver is there
  std::string driver;         // "580.159.03", empty if not known
  std::string cuda;           // "13.0", empty if not known
  std::string problem;        // why no GPU can be used; empty if one can
  std::size_t installed = 0;  // GPUs that the driver manages, 0: not known
  std::vector<reported_gpu> gpus;
  std::vector<std::string> lost;               // a sentence for each GPU that does not answer
  std::vector<std::vector<bool>> peer_access;  // [from][to]
  // Why each of these does not work with this driver; empty if it does.
  std::string copies;
  std::string kernels;
  std::string reductions;
};

// `runtime` is the version of the CUDA runtime that kernels are linked to, and `least` the
// capability that they need; 0 in a build without CUDA.
driver_report report_driver(gpu_driver& driver, int runtime, int least);

}  // namespace interlace::machine
