#include "cuda/epoch/graphs.hpp"

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

graphs::~graphs() {
  for (cudaGraphExec_t e : executables_) {
    if (e != nullptr) INTERLACE_CUDA_LOG(cudaGraphExecDestroy(e));
  }
  for (cudaGraph_t g : graphs_) {
    if (g != nullptr) INTERLACE_CUDA_LOG(cudaGraphDestroy(g));
  }
}

void graphs::capture(const node_gpus& gpus, issuer& issues, std::span<const operation> operations) {
  operations_ = operations;
  std::uint32_t begun = 0;
  try {
    for (; begun < gpus.count(); ++begun) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus.ordinal(begun)));
      INTERLACE_CUDA_CHECK(
          cudaStreamBeginCapture(gpus.streams()[begun], cudaStreamCaptureModeRelaxed));
    }
    issues.begin_graphs();
    for (const operation& o : operations) {
      if (gpus.shares_gpu() && o.what == operation::kind::exchange) {
        for (std::uint32_t d = 0; d < gpus.count(); ++d) {
          issues.issue_transfers(d, o.exchange, nullptr, nullptr);
        }
      } else {
        issues.issue(o, nullptr);
      }
    }
    issues.end_graphs();
    for (std::uint32_t d = 0; d < gpus.count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaStreamEndCapture(gpus.streams()[d], &graphs_[d]));
    }
  } catch (...) {
    issues.end_graphs();
    for (std::uint32_t d = 0; d < begun; ++d) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      (void)cudaStreamIsCapturing(gpus.streams()[d], &status);
      if (status == cudaStreamCaptureStatusNone) continue;
      cudaGraph_t rest = nullptr;
      (void)cudaStreamEndCapture(gpus.streams()[d], &rest);
      if (rest != nullptr) (void)cudaGraphDestroy(rest);
    }
    (void)cudaGetLastError();
    throw;
  }
  for (std::uint32_t d = 0; d < gpus.count(); ++d) {
    std::size_t nodes = 0;
    INTERLACE_CUDA_CHECK(cudaGraphGetNodes(graphs_[d], nullptr, &nodes));
    if (nodes == 0) continue;
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus.ordinal(d)));
    INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&executables_[d], graphs_[d], 0));
    INTERLACE_CUDA_CHECK(cudaGraphUpload(executables_[d], gpus.streams()[d]));
  }
  gpus.synchronize();
}

void graphs::launch(std::uint32_t device, cudaStream_t stream) const {
  if (executables_[device] == nullptr) return;
  INTERLACE_CUDA_CHECK(cudaGraphLaunch(executables_[device], stream));
}

}  // namespace interlace::cuda
