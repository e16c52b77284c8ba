// One executable graph for each device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
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

  // Throws device_error if anything of it is refused; no stream is left capturing.
  void capture(const node_gpus& gpus, issuer& issues, const std::vector<operation>& operations);
  void launch(std::uint32_t device, cudaStream_t stream) const;

 private:
  std::vector<cudaGraph_t> graphs_;
  std::vector<cudaGraphExec_t> executables_;
};

}  // namespace interlace::cuda
