#include <cuda_runtime.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/transfer/nvshmem_library.hpp"
#include "interlace/cuda/visible_gpus.hpp"
#include "interlace/run/on_gpus.hpp"
#include "run/gpu.hpp"

namespace interlace::run {

namespace {

std::unique_ptr<const cuda::nvshmem_rank>& joined() {
  static std::unique_ptr<const cuda::nvshmem_rank> rank;
  return rank;
}

}  // namespace

const cuda::nvshmem_rank& nvshmem_of_process() {
  if (joined() == nullptr) throw usage_error("this process has not joined a group of NVSHMEM");
  return *joined();
}

std::string make_nvshmem_id(const std::vector<std::string>& candidates) {
  const cuda::nvshmem_id id = cuda::nvshmem_library(candidates).make_id();
  std::string bytes(sizeof(id), '\0');
  std::memcpy(bytes.data(), &id, sizeof(id));
  return bytes;
}

std::string join_nvshmem(const std::vector<std::string>& candidates, std::uint32_t rank,
                         std::uint32_t ranks, const std::string& id) {
  cuda::nvshmem_id common;
  if (id.size() != sizeof(common)) throw usage_error("the id was not made by NVSHMEM");
  std::memcpy(&common, id.data(), sizeof(common));
  if (rank >= ranks || ranks > cuda::device_count()) {
    throw usage_error("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " with " +
                      std::to_string(cuda::device_count()) + " GPUs");
  }
  cuda::require_gpu(static_cast<int>(rank));
  INTERLACE_CUDA_CHECK(cudaSetDevice(static_cast<int>(rank)));
  INTERLACE_CUDA_CHECK(cudaFree(nullptr));  // creates the context that NVSHMEM needs
  joined() = std::make_unique<const cuda::nvshmem_rank>(
      std::make_unique<const cuda::nvshmem_library>(candidates), rank, ranks, common);
  cudaStream_t stream = nullptr;
  INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  joined()->barrier(stream);
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream));
  INTERLACE_CUDA_CHECK(cudaStreamDestroy(stream));
  return joined()->version();
}

void leave_nvshmem() {
  nvshmem_of_process().leave();
  joined().reset();
}

}  // namespace interlace::run
