#include "run/on_gpus.hpp"

namespace interlace::run {

std::optional<cuda::nvlink_bytes> total_counters(const cuda::node& node) {
  cuda::nvlink_bytes sum;
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const auto one = cuda::read_nvlink_counters(node.ordinal(d));
    if (!one) return std::nullopt;
    sum.data_sent += one->data_sent;
    sum.raw_sent += one->raw_sent;
  }
  return sum;
}

}  // namespace interlace::run
