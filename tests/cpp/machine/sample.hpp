// Machines for the tests of this folder.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/machine/machine.hpp"

namespace interlace::machine {

inline endpoint gpu_end(std::uint32_t index) { return {endpoint_kind::gpu, index}; }
inline endpoint switch_end(std::uint32_t index) { return {endpoint_kind::network_switch, index}; }
inline endpoint host_end() { return {endpoint_kind::host, 0}; }

inline link make_link(endpoint a, endpoint b, double bytes_per_s,
                      protocol_kind kind = protocol_kind::nvlink2, std::string name = "nvlink2") {
  link made;
  made.a = a;
  made.b = b;
  made.protocol.kind = kind;
  made.protocol_name = std::move(name);
  made.bytes_per_s = bytes_per_s;
  made.latency_ps = 300'000;
  made.queue_bytes = 16384;
  return made;
}

inline link pcie_link(endpoint a, endpoint b, double bytes_per_s = 15.75e9) {
  return make_link(a, b, bytes_per_s, protocol_kind::pcie3, "pcie3");
}

// A valid machine without links.
inline machine make_machine(std::uint32_t gpus) {
  machine made;
  made.name = "sample";
  made.title = "A sample";
  made.gpu_count = gpus;
  made.gpu.model = "Tesla V100-SXM2-16GB";
  made.gpu.compute_units = 80;
  made.gpu.clock_hz = 1.53e9;
  made.gpu.shared_bytes = 96 << 10;
  made.gpu.l1 = {128 << 10, 4, 128, 32, 1, 18'300, 256, 195.8e9, false};
  made.gpu.l2 = {6144 << 10, 16, 128, 32, 64, 126'100, 64, 2155e9, true};
  made.gpu.dram = {std::uint64_t{16} << 30, 809e9, 32, 132'000};
  made.gpu.copy_engines = 3;
  made.gpu.copy_bytes_per_s = 150e9;
  made.gpu.store_queue_lines = 64;
  made.host.model = "x86";
  made.host.memory_bytes_per_s = 100e9;
  return made;
}

// A machine with an NVLink between each pair of GPUs, and with a PCIe link from each GPU to the
// host.
inline machine make_mesh(std::uint32_t gpus) {
  machine made = make_machine(gpus);
  for (std::uint32_t one = 0; one < gpus; ++one)
    for (std::uint32_t other = one + 1; other < gpus; ++other)
      made.links.push_back(make_link(gpu_end(one), gpu_end(other), 50e9));
  for (std::uint32_t one = 0; one < gpus; ++one)
    made.links.push_back(pcie_link(gpu_end(one), host_end()));
  return made;
}

}  // namespace interlace::machine
