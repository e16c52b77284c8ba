// Machines of many shapes for the planner's tests.
#pragma once

#include <cstdint>
#include <random>

#include "machine/sample.hpp"

namespace interlace::plan {

inline double between(std::mt19937_64& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}

inline std::uint32_t up_to(std::mt19937_64& random, std::uint32_t most) {
  return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
}

// Makes a random machine with two to six GPUs. Each GPU has a route to the host. The machine is a
// mesh, a partial mesh, a machine with switches, or a PCIe tree.
inline machine::machine random_machine(std::mt19937_64& random) {
  using machine::gpu_end;
  const std::uint32_t gpus = 2 + up_to(random, 4);
  machine::machine made = machine::make_machine(gpus);
  made.gpu.copy_engines = 1 + up_to(random, 4);
  made.gpu.copy_setup_ps = up_to(random, 3) * 1000;
  made.gpu.copy_launch_ps = up_to(random, 2) * 1000;
  made.gpu.copy_event_ps = up_to(random, 2) * 1000;
  made.gpu.copy_bytes_per_s = between(random, 20e9, 300e9);
  made.host.memory_bytes_per_s = between(random, 20e9, 200e9);
  if (up_to(random, 1) == 0)
    made.host.copy_write_bytes_per_s = made.host.memory_bytes_per_s * between(random, 0.3, 1);
  const std::uint32_t shape = up_to(random, 3);
  if (shape == 3) {
    made.switches.push_back({"nvswitch", 100'000});
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu)
      made.links.push_back(
          machine::make_link(gpu_end(gpu), machine::switch_end(0), between(random, 50e9, 400e9)));
  } else {
    for (std::uint32_t one = 0; one < gpus; ++one)
      for (std::uint32_t other = one + 1; other < gpus; ++other)
        if (shape == 0 || up_to(random, 2) != 0)
          made.links.push_back(
              machine::make_link(gpu_end(one), gpu_end(other), between(random, 20e9, 100e9)));
  }
  const bool tree = up_to(random, 1) == 0;
  const auto first = static_cast<std::uint32_t>(made.switches.size());
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    if (tree && gpu % 2 == 0) {
      made.switches.push_back({"plx" + std::to_string(gpu / 2), 150'000});
      made.links.push_back(
          machine::pcie_link(machine::switch_end(first + gpu / 2), machine::host_end()));
    }
    made.links.push_back(machine::pcie_link(
        gpu_end(gpu), tree ? machine::switch_end(first + gpu / 2) : machine::host_end(),
        between(random, 10e9, 60e9)));
  }
  for (machine::link& edge : made.links) {
    edge.latency_ps = up_to(random, 500);
    if (up_to(random, 3) == 0)
      edge.copy_bytes_per_s = edge.bytes_per_s * between(random, 0.7, 0.95);
    if (up_to(random, 3) == 0)
      edge.copy_both_bytes_per_s = edge.bytes_per_s * between(random, 0.95, 1.8);
  }
  return made;
}

}  // namespace interlace::plan
