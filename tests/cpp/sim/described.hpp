// A small machine for tests of the simulator. It has two or more GPUs, and a link between each pair
// of GPUs.
#pragma once

#include <cstdint>

#include "interlace/machine/machine.hpp"

namespace interlace::test {

inline machine::machine meshed(std::uint32_t gpus, machine::protocol_kind protocol) {
  machine::machine m;
  m.name = "meshed";
  m.gpu_count = gpus;
  machine::gpu& g = m.gpu;
  g.model = "test";
  g.compute_units = 4;
  g.clock_hz = 1e9;
  g.max_warps = 32;
  g.max_blocks = 8;
  g.shared_bytes = 64 << 10;
  g.l1 = {16 << 10, 4, 128, 32, 1, 20'000, 32, 100e9, false};
  g.l2 = {256 << 10, 16, 128, 32, 8, 120'000, 16, 400e9, true};
  g.dram = {std::uint64_t{1} << 30, 200e9, 8, 100'000};
  g.copy_engines = 2;
  g.copy_setup_ps = 1'000'000;
  g.copy_bytes_per_s = 100e9;
  g.kernel_launch_ps = 1'000'000;
  g.block_launch_ps = 10'000;
  g.fence_ps = 100'000;
  g.copy_wait_ps = 500'000;
  g.copy_host_ps = 2'000'000;
  g.device_launch_ps = 2'000'000;
  g.device_launch_interval_ps = 500'000;
  g.device_launches_pending = 64;
  g.poll_ps = 180'000;
  g.store_queue_lines = 16;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    for (std::uint32_t j = i + 1; j < gpus; ++j) {
      machine::link l;
      l.a = {machine::endpoint_kind::gpu, i};
      l.b = {machine::endpoint_kind::gpu, j};
      l.protocol.kind = protocol;
      l.protocol.max_payload_bytes = 256;
      l.bytes_per_s = 25e9;
      l.latency_ps = 300'000;
      l.queue_bytes = 4096;
      m.links.push_back(l);
    }
  }
  return m;
}

}  // namespace interlace::test
