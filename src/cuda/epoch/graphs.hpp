// Executable graphs, one for each device.
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

  // Captures the operations into the graphs. Throws device_error if the capture fails; no stream is
  // capturing afterwards. If devices share a GPU, an exchange is captured without the kernel in
  // which devices wait for each other.
  void capture(const node_gpus& gpus, issuer& issues, std::span<const operation> operations);
  void launch(std::uint32_t device, cudaStream_t stream) const;
  std::span<const operation> operations() const { return operations_; }

 private:
  std::span<const operation> operations_;
  std::vector<cudaGraph_t> graphs_;
  std::vector<cudaGraphExec_t> executables_;
};

}  // namespace interlace::cuda
