// What is counted of the stores that kernels of a device make to other devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace interlace::sim {

// Why a queue sent what it held.
enum class flush_reason : std::uint8_t {
  window,   // a store lies outside of the open windows
  payload,  // a store would exceed the largest payload
  entries,  // a store needs a line, and none is free
  release,  // a system-scope release, or the end of a kernel
  load,     // a remote load of a line
  atomic,   // a remote atomic to a line
  timeout,  // no store for a while
};
inline constexpr std::size_t flush_reasons = 7;

struct store_counts {
  // As they leave the compute units, which is as `inline` puts them on the wire: on PCIe a store is
  // a run of bytes of a line, on NVLink one of sectors.
  std::uint64_t stores = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, 8> sizes{};  // stores of 2^k to 2^(k + 1) - 1 bytes

  // As they leave the device.
  std::uint64_t packets = 0;
  std::uint64_t payload = 0;      // data, with what a whole line has besides
  std::uint64_t wire = 0;         // every byte
  std::uint64_t overwritten = 0;  // bytes that a queue had not sent when they were stored again

  // Of queues that pack.
  std::uint64_t flushed = 0;     // windows, or lines where a line is a packet
  std::uint64_t subpackets = 0;  // runs of bytes with a sub-header each
  std::uint64_t subheader_bytes = 0;
  std::array<std::uint64_t, flush_reasons> reasons{};  // of `flushed`

  std::uint64_t enabled = 0;    // bytes that stores wrote, of the payload
  std::uint64_t delivered = 0;  // of them, that have come in at their devices

  void count(std::uint32_t written) {
    ++stores;
    bytes += written;
    ++sizes[31U - static_cast<std::uint32_t>(__builtin_clz(written))];
  }
  store_counts& operator+=(const store_counts& o) {
    stores += o.stores;
    bytes += o.bytes;
    packets += o.packets;
    payload += o.payload;
    wire += o.wire;
    overwritten += o.overwritten;
    flushed += o.flushed;
    subpackets += o.subpackets;
    subheader_bytes += o.subheader_bytes;
    enabled += o.enabled;
    delivered += o.delivered;
    for (std::size_t k = 0; k < sizes.size(); ++k) sizes[k] += o.sizes[k];
    for (std::size_t k = 0; k < reasons.size(); ++k) reasons[k] += o.reasons[k];
    return *this;
  }
};

}  // namespace interlace::sim
