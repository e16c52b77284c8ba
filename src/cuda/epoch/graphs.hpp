// One executable graph for each device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/issuer.hpp"
#include "cuda/epoch/operation.hpp"

namespace interlace::cuda {

class graphs {
 public:
  explicit graphs(std::uint32_t devices) : graphs_(devices), executables_(devices) {}
  ~graphs();
  graphs(const graphs&) = delete;
  graphs& operator=(const graphs&) = delete;
  graphs(graphs&&) = delete;
  graphs& operator=(graphs&&) = delete;

  // Throws device_error if the capture fails; no stream is left capturing. Where devices share a
  // GPU, exchanges are captured without their meetings.
  void capture(const node_gpus& gpus, issuer& issues, std::span<const operation> operations);
  void launch(std::uint32_t device, cudaStream_t stream) const;
  std::span<const operation> operations() const { return operations_; }

 private:
  std::span<const operation> operations_;
  std::vector<cudaGraph_t> graphs_;
  std::vector<cudaGraphExec_t> executables_;
};

}  // namespace interlace::cuda
