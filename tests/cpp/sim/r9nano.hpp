// Four R9 Nano GPUs on a tree of switches, as in machines/4x-r9nano.toml. Tests of unified programs
// use this machine.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/machine/machine.hpp"

namespace interlace::test {

inline machine::machine r9nano() {
  machine::machine m;
  m.name = "r9nano";
  m.gpu_count = 4;
  machine::gpu& g = m.gpu;
  g.model = "Radeon R9 Nano";
  g.compute_units = 64;
  g.clock_hz = 1e9;
  g.warp_width = 64;
  g.max_warps = 40;
  g.max_blocks = 40;
  g.shared_bytes = 64 << 10;
  g.issue = {1, 64, 4, 64, 16, 1};
  g.l1 = {16 << 10, 4, 64, 64, 1, 60'000, 32, 64e9, false, true, true};
  g.scalar_l1 = {16 << 10, 4, 4, 60'000};
  g.l2 = {2048 << 10, 16, 64, 64, 16, 90'000, 32, 1024e9, true};
  g.tlb = {4096, 64, 64, 2'000, 4, 4096, 64, 3'000, 64, 16, 100'000};
  g.port_l2_latency_ps = 30'000;
  g.dram = {std::uint64_t{4} << 30U, 512e9, 16, 40'000};
  g.copy_engines = 2;
  g.copy_bytes_per_s = 64e9;
  g.kernel_launch_ps = 1'600'000;
  g.block_launch_ps = 1'000;
  g.fence_ps = 160'000;
  g.store_queue_lines = 32;
  g.dualopt.rdma_cache_bytes = 1536 << 10;
  g.griffin = {8, 1000, 100, 10, 0.03, 0.03, 2, 1.3};
  machine::protocol p;
  p.kind = machine::protocol_kind::pcie4;
  p.max_payload_bytes = 64;
  p.packet_overhead_bytes = 12;
  p.read_request_bytes = 12;
  p.completion_overhead_bytes = 4;
  p.link_flit_bytes = 16;
  for (std::uint32_t s = 0; s < 2; ++s) {
    m.switches.push_back({"switch" + std::to_string(s), 140'000});
    const machine::endpoint hub{machine::endpoint_kind::network_switch, s};
    const auto link = [&](machine::endpoint end, std::uint64_t latency_ps) {
      machine::link l;
      l.a = end;
      l.b = hub;
      l.protocol = p;
      l.bytes_per_s = 64e9;
      l.latency_ps = latency_ps;
      l.queue_bytes = 256;
      m.links.push_back(l);
    };
    for (std::uint32_t k = 0; k < 2; ++k) link({machine::endpoint_kind::gpu, 2 * s + k}, 20'000);
    link({machine::endpoint_kind::host, 0}, 90'000);
  }
  return m;
}

}  // namespace interlace::test
