#include "machine/driver_report.hpp"

#include <algorithm>
#include <exception>

#include "base/driver_needs.hpp"

namespace interlace::machine {
namespace {

void report_gpus(gpu_driver& driver, int least, driver_report& made) {
  std::vector<installed_gpu> boards;
  made.installed = driver.installed_count();
  for (std::uint32_t index = 0; index < made.installed; ++index) {
    try {
      boards.push_back(driver.installed(index));
    } catch (const device_error& error) {
      made.lost.push_back("GPU " + std::to_string(index) + " does not answer: " + error.what());
    }
  }
  std::vector<std::uint32_t> numbers;  // CUDA's numbers of the GPUs that answer
  const std::uint32_t count = driver.usable_count();
  for (std::uint32_t index = 0; index < count; ++index) {
    try {
      const usable_gpu unit = driver.usable(index);
      const int capability = static_cast<int>(10 * unit.capability_major + unit.capability_minor);
      const auto board = std::find_if(boards.begin(), boards.end(), [&](const installed_gpu& one) {
        return one.bus_id == unit.bus_id;
      });
      made.gpus.push_back({.name = unit.name,
                           .bus_id = unit.bus_id,
                           .memory_bytes = unit.memory_bytes,
                           .capability = static_cast<std::uint32_t>(capability),
                           .mig = board != boards.end() && board->mig,
                           .kernels = why_gpu_too_old(static_cast<int>(index), capability, least)});
      numbers.push_back(index);
    } catch (const device_error& error) {
      made.lost.push_back("CUDA device " + std::to_string(index) +
                          " does not answer: " + error.what());
    }
  }
  made.peer_access.assign(numbers.size(), std::vector<bool>(numbers.size(), true));
  for (std::size_t one = 0; one < numbers.size(); ++one)
    for (std::size_t other = 0; other < numbers.size(); ++other)
      if (one != other)
        made.peer_access[one][other] = driver.peer_access(numbers[one], numbers[other]);
  if (!made.gpus.empty()) return;
  const auto visible = driver.visible_devices();
  made.problem = made.installed > 0 && visible && made.lost.empty()
                     ? why_gpus_are_hidden(*visible, "all GPUs")
                     : no_gpu();
}

}  // namespace

driver_report report_driver(gpu_driver& driver, int runtime, int least) {
  driver_report made;
  made.present = driver.present();
  try {
    const driver_versions versions = driver.versions();
    made.driver = versions.driver;
    made.cuda = versions.cuda;
    report_gpus(driver, least, made);
  } catch (const std::exception& error) {
    made.problem = error.what();
  }
  made.copies = made.kernels = made.reductions = made.problem;
  if (!made.problem.empty() || made.cuda.empty()) return made;
  const int has = cuda_version(made.cuda);
  made.copies = why_driver_too_old_for_copies(has);
  made.kernels = why_driver_too_old_for_kernels(has, runtime);
  made.reductions = why_driver_too_old_for_reductions(has, runtime);
  const auto old = std::find_if(made.gpus.begin(), made.gpus.end(),
                                [](const reported_gpu& one) { return !one.kernels.empty(); });
  if (old == made.gpus.end()) return made;
  for (std::string* reason : {&made.kernels, &made.reductions})
    if (reason->empty()) *reason = old->kernels;
  return made;
}

}  // namespace interlace::machine
