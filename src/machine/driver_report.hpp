// A report about the driver and the GPUs of this machine. It tells people why a feature does not
// work. Unlike discovery, the report never fails, because it also describes missing and broken
// parts.
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
  std::uint32_t capability = 0;  // compute capability, such as 90 for 9.0
  bool mig = false;              // whether the GPU is a MIG instance
  std::string kernels;           // reason why kernels do not run on the GPU; empty if they do
};

struct driver_report {
  bool present = false;       // whether a driver library is installed
  std::string driver;         // such as "580.159.03"; empty if unknown
  std::string cuda;           // such as "13.0"; empty if unknown
  std::string problem;        // reason why no GPU can be used; empty if one can be used
  std::size_t installed = 0;  // number of GPUs that the driver manages; 0 if unknown
  std::vector<reported_gpu> gpus;
  std::vector<std::string> lost;               // one sentence for each GPU that does not answer
  std::vector<std::vector<bool>> peer_access;  // [from][to]
  // For each of the following features, the reason why it does not work with this driver. The text
  // is empty if the feature works.
  std::string copies;
  std::string kernels;
  std::string reductions;
};

// Makes the report. `runtime` is the version of the CUDA runtime to which kernels are linked.
// `least` is the compute capability that kernels need. Both are 0 in a build without CUDA.
driver_report report_driver(gpu_driver& driver, int runtime, int least);

}  // namespace interlace::machine
