// A driver for tests of discovery and reports, with a machine of H200 GPUs.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "machine/discover.hpp"

namespace interlace::machine {

// A driver that gives the answers that a test has set.
class fake_driver final : public gpu_driver {
 public:
  std::vector<installed_gpu> boards;
  std::vector<usable_gpu> units;
  std::set<std::uint32_t> lost_boards;
  std::set<std::uint32_t> lost_units;
  std::set<std::pair<std::uint32_t, std::uint32_t>> no_peer_access;
  std::function<pcie_relation(const std::string&, const std::string&)> distance =
      [](const std::string&, const std::string&) { return pcie_relation::sys; };
  std::optional<std::string> visible;
  std::string failure;
  driver_versions version{"580.159", "13.0"};
  bool nvml = true;

  bool present() override { return nvml; }
  driver_versions versions() override {
    if (!failure.empty()) throw usage_error(failure);
    return version;
  }
  std::uint32_t installed_count() override {
    return nvml ? static_cast<std::uint32_t>(boards.size()) : 0;
  }
  installed_gpu installed(std::uint32_t index) override {
    if (lost_boards.contains(index)) throw gpu_lost("GPU is lost");
    return boards.at(index);
  }
  pcie_relation relation(const std::string& bus_id, const std::string& other) override {
    return distance(bus_id, other);
  }
  std::uint32_t usable_count() override { return static_cast<std::uint32_t>(units.size()); }
  usable_gpu usable(std::uint32_t index) override {
    if (lost_units.contains(index)) throw gpu_lost("unspecified launch failure");
    return units.at(index);
  }
  bool peer_access(std::uint32_t from, std::uint32_t to) override {
    return !no_peer_access.contains({from, to});
  }
  std::optional<std::string> visible_devices() override { return visible; }
  std::string host_model() override { return "Test CPU"; }
};

inline std::string bus(std::uint32_t index) {
  return "0000:" + std::string(1, static_cast<char>('1' + index)) + "b:00.0";
}

inline usable_gpu h200(std::uint32_t index) {
  usable_gpu unit;
  unit.bus_id = bus(index);
  unit.name = "NVIDIA H200";
  unit.memory_bytes = 150'000'000'000;
  unit.compute_units = 132;
  unit.clock_hz = 1.98e9;
  unit.l2_bytes = 62914560;
  unit.shared_bytes = 233472;
  unit.copy_engines = 3;
  unit.max_threads = 2048;
  unit.max_blocks = 32;
  unit.capability_major = 9;
  unit.memory_peak_bytes_per_s = 4.8e12;
  return unit;
}

inline installed_gpu board(std::uint32_t index, const std::string& name = "NVIDIA H200") {
  installed_gpu made;
  made.bus_id = "0000:" + std::string(1, static_cast<char>('1' + index)) + "B:00.0";  // upper case
  made.name = name;
  made.pcie_generation = 5;
  made.pcie_width = 16;
  made.numa_node = 0;
  return made;
}

inline fake_driver hgx(std::uint32_t gpus) {
  fake_driver driver;
  for (std::uint32_t index = 0; index < gpus; ++index) {
    driver.units.push_back(h200(index));
    installed_gpu made = board(index);
    made.nvlinks.assign(18, {nvlink_remote::network_switch, "", 4, 26.562e9});
    driver.boards.push_back(made);
  }
  return driver;
}

}  // namespace interlace::machine
