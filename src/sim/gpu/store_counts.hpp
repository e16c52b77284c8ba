// Counts of the stores that kernels of a device make to other devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interlace/kernel/region.hpp"

namespace interlace::sim {

// The reason why a queue sent its stores. The values have the same order as
// remote_store_counts::reasons.
enum class flush_reason : std::uint8_t {
  window,   // a store is outside of the open windows
  payload,  // a store would exceed the largest payload
  entries,  // a store needs a line, and none is free
  release,  // a system-scope release, or the end of a kernel
  load,     // a remote load of a line
  atomic,   // a remote atomic to a line
  timeout,  // no store came for some time
};

// Stores are counted when they leave the compute units, in the form in which `inline` would send
// them. Packets are counted when they leave the device.
struct store_counts : kernel::remote_store_counts {
  std::uint64_t payload = 0;    // data in packets, including the unwritten bytes of whole lines
  std::uint64_t enabled = 0;    // bytes of the payload that stores wrote
  std::uint64_t delivered = 0;  // enabled bytes that have arrived from other GPUs

  void count(std::uint32_t written) {
    ++stores;
    bytes += written;
    ++sizes[31U - static_cast<std::uint32_t>(__builtin_clz(written))];
  }
  void count_flush(flush_reason why) {
    ++flushes;
    ++reasons[static_cast<std::size_t>(why)];
  }
};

}  // namespace interlace::sim
