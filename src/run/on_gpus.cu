#include "interlace/run/on_gpus.hpp"

#include "interlace/cuda/shared_gpu.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::run {

std::vector<int> shared_ordinals(std::uint32_t devices) {
  const std::uint32_t present = cuda::device_count();
  if (present == 0) throw usage_error("there is no GPU here");
  std::vector<int> ordinals;
  for (std::uint32_t d = 0; d < devices; ++d) ordinals.push_back(static_cast<int>(d % present));
  return ordinals;
}

std::optional<cuda::nvlink_bytes> total_counters(const cuda::node& node) {
  cuda::nvlink_bytes sum;
  std::vector<int> ordinals;
  for (std::uint32_t d = 0; d < node.devices(); ++d) ordinals.push_back(node.ordinal(d));
  if (cuda::shares_gpu(ordinals))
    return std::nullopt;  // messages between these devices stay on the GPU
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const auto one = cuda::read_nvlink_counters(node.ordinal(d));
    if (!one) return std::nullopt;
    sum.data_sent += one->data_sent;
    sum.raw_sent += one->raw_sent;
  }
  return sum;
}

}  // namespace interlace::run
