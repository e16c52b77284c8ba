#include "cuda/transfer/block_profile_file.hpp"

#include <array>
#include <optional>

#include "base/read_file.hpp"
#include "interlace/base/errors.hpp"
#include "plan/block_profile.hpp"
#include "plan/copy_settings.hpp"
#include "plan/profile_path.hpp"

namespace interlace::cuda {

plan::block_costs block_costs_here(const driver_table& driver,
                                   const std::function<void(const std::string&)>& report) {
  const plan::block_costs& rest = plan::costs_of_h200();
  int gpu = 0;
  std::array<char, 128> model{};
  if (driver.current_gpu(&gpu) != driver_result::success ||
      driver.device_name(model.data(), static_cast<int>(model.size() - 1), gpu) !=
          driver_result::success)
    return rest;
  const auto path = plan::profile_path("blocks", model.data(), plan::value_of_environment);
  const std::optional<std::string> text = path ? read_file(*path) : std::nullopt;
  if (!text) return rest;
  try {
    return plan::read_block_profile(*text, *path, rest);
  } catch (const usage_error& error) {
    if (report) report(error.what());
  }
  return rest;
}

}  // namespace interlace::cuda
