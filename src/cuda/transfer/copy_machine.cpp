#include "cuda/transfer/copy_machine.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "interlace/base/errors.hpp"
#include "machine/copy_assumptions.hpp"
#include "machine/discover.hpp"

namespace interlace::cuda {

copy_machine this_machine(const driver_table& driver) {
  const auto asked = machine::open_driver();
  const machine::discovery seen = machine::discover(*asked, {});
  copy_machine made;
  made.described = seen.found;
  made.driver = seen.driver_version;
  for (const std::string& remark : seen.remarks)
    if (remark.rfind("CUDA_VISIBLE_DEVICES=", 0) == 0)
      made.remarks.push_back("copies are not relayed by GPUs that are hidden: " + remark);
  if (!seen.devices.empty()) made.model = seen.devices.front().name;
  machine::assume_copies(made.described);
  int count = 0;
  check(driver, driver.device_count(&count), "cuDeviceGetCount");
  std::vector<bool> taken(static_cast<std::size_t>(count), false);
  for (const machine::found_device& device : seen.devices) {
    for (int gpu = 0; gpu < count; ++gpu) {
      std::array<char, 32> text{};
      check(driver, driver.device_bus_id(text.data(), static_cast<int>(text.size()), gpu),
            "cuDeviceGetPCIBusId");
      std::string id(text.data());
      std::transform(id.begin(), id.end(), id.begin(),
                     [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      if (taken[static_cast<std::size_t>(gpu)] || id != device.bus_id) continue;
      taken[static_cast<std::size_t>(gpu)] = true;
      made.gpus.push_back(gpu);
      made.names.push_back(id);
      break;
    }
  }
  made.hides_gpus = seen.installed > seen.devices.size();
  if (made.gpus.size() != seen.devices.size())
    throw device_error("NVML and CUDA name different GPUs");
  return made;
}

}  // namespace interlace::cuda
