// Trace files of kernels that run on the GPUs of this computer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "interlace/cuda/node.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/trace.hpp"

namespace interlace::run {

// Records kernels one by one into a trace file for the simulator (docs/how-to/traces.md). Each
// kernel runs immediately and alone. The file has the accesses to views, in the order of each warp.
// It has no dependences, no barriers and no accesses to shared memory. In the trace, the kernels of
// a GPU run one after another.
class gpu_trace {
 public:
  // Starts a recording. Kernels may access only memory that the node allocated before this call.
  // The caller must have created the file at `path`. The file is complete after finish(). Throws
  // usage_error if the file cannot be written.
  gpu_trace(cuda::node& node, const std::string& path);
  ~gpu_trace();
  gpu_trace(const gpu_trace&) = delete;
  gpu_trace& operator=(const gpu_trace&) = delete;

  // Runs the kernel like cuda::node::record. Throws usage_error if the kernel accesses memory that
  // the node allocated after the start of the recording. Accesses to unified memory are not
  // recorded.
  template <class Kernel>
  void record(std::uint32_t device, const Kernel& kernel, grid shape, const std::string& name,
              bool stores_inline = false) {
    const kernel::access_taker take = [this](const kernel::warp_access& a) { add(a); };
    begin(device, shape, name);
    node_.record(device, kernel, shape, take, stores_inline);
    end();
  }

  void finish();

 private:
  struct parts;

  void begin(std::uint32_t device, grid shape, const std::string& name);
  void add(const kernel::warp_access& a);
  void end();

  cuda::node& node_;
  std::unique_ptr<parts> parts_;
};

}  // namespace interlace::run
