// The traffic of a GPU's NVLinks, as the driver counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace interlace::cuda {

// The bytes over all NVLinks of a GPU since the driver was loaded. The driver counts in KiB. `data`
// counts payload in whole 32-byte sectors, and `raw` counts all bytes on the wire.
struct nvlink_bytes {
  std::uint64_t data_sent = 0;
  std::uint64_t data_received = 0;
  std::uint64_t raw_sent = 0;
  std::uint64_t raw_received = 0;

  friend nvlink_bytes operator-(const nvlink_bytes& a, const nvlink_bytes& b) {
    return {.data_sent = a.data_sent - b.data_sent,
            .data_received = a.data_received - b.data_received,
            .raw_sent = a.raw_sent - b.raw_sent,
            .raw_received = a.raw_received - b.raw_received};
  }
};

// Reads the counters of a GPU. Returns no value if there is no NVML, no NVLink or no such counter.
std::optional<nvlink_bytes> read_nvlink_counters(int ordinal) noexcept;

}  // namespace interlace::cuda
