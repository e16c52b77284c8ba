#include "cuda/epoch/kernels.hpp"

#include <algorithm>
#include <string>

#include "cuda/early_launch.hpp"
#include "cuda/load_kernel.hpp"
#include "cuda/mechanism/tracked.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/occupancy.hpp"
#include "interlace/kernel/type_name.hpp"

namespace interlace::cuda {

namespace {

// A multiprocessor holds as many blocks of the kernel as fit. The result is the percentage of the
// multiprocessor's shared memory that these blocks use.
unsigned int shared_percent(const kernel_operation& k, const cudaFuncAttributes& attributes,
                            int ordinal) {
  int blocks = 0;
  INTERLACE_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, k.entry, static_cast<int>(k.shape.threads), k.shape.shared_bytes));
  const std::uint64_t block = attributes.sharedSizeBytes + k.shape.shared_bytes +
                              gpu_attribute(cudaDevAttrReservedSharedMemoryPerBlock, ordinal);
  const std::uint64_t all = static_cast<std::uint64_t>(blocks) * block;
  const std::uint64_t whole = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal);
  return static_cast<unsigned int>(std::min<std::uint64_t>(100, (100 * all + whole - 1) / whole));
}

}  // namespace

void loaded_kernels::load(const kernel_operation& k) {
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    const auto known = loaded_.find({gpus_.ordinal(d), k.entry});
    if (known != loaded_.end() && known->second.shared_bytes >= k.shape.shared_bytes) continue;
    gpus_.synchronize();
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
    if (k.launches != nullptr) load_kernel(k.launches);
    const cudaFuncAttributes attributes = load_kernel(k.entry);
    if (k.shape.shared_bytes > 48 * 1024) {
      INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(k.entry,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(k.shape.shared_bytes)));
    }
    loaded_[{gpus_.ordinal(d), k.entry}] = {
        .most_threads = attributes.maxThreadsPerBlock,
        .shared_bytes = k.shape.shared_bytes,
        .shared_percent = shared_percent(k, attributes, gpus_.ordinal(d)),
        .awaits = k.tracked == nullptr && awaits_prerequisites(attributes),
        .registers = static_cast<std::uint32_t>(attributes.numRegs),
        .fixed_shared_bytes = static_cast<std::uint32_t>(attributes.sharedSizeBytes)};
  }
  const int most = loaded_.at({gpus_.ordinal(0), k.entry}).most_threads;
  if (static_cast<int>(k.shape.threads) > most) {
    throw model_error("kernel " + kernel::readable_type_name(k.type_name) +
                      " takes blocks of at most " + std::to_string(most) + " threads here, not " +
                      std::to_string(k.shape.threads));
  }
  if (gpus_.shares_gpu() && k.tracked != nullptr) k.tracked->by->require_places(*this, k);
}

}  // namespace interlace::cuda
