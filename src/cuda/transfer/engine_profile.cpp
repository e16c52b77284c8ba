#include "cuda/transfer/engine_profile.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "base/read_file.hpp"
#include "interlace/base/errors.hpp"
#include "plan/copy_settings.hpp"

namespace interlace::cuda {

std::optional<engine_profile> find_profile(const copy_machine& here, const copy_options& options,
                                           copy_accounts& accounts) {
  if (options.profile == "none") return std::nullopt;
  std::optional<std::string> path = options.profile;
  if (options.profile == "auto") {
    path = plan::copy_profile_path(here.model, plan::value_of_environment);
    if (!path) return std::nullopt;
  }
  const std::optional<std::string> text = read_file(*path);
  if (!text && options.profile == "auto") return std::nullopt;
  try {
    if (!text) throw usage_error("the copy profile " + *path + " cannot be read");
    plan::copy_profile found = plan::read_copy_profile(*text, *path);
    std::string differences;
    for (const std::string& one :
         found.differences(here.model, static_cast<std::uint32_t>(here.gpus.size()), here.driver))
      differences += (differences.empty() ? "" : "; ") + one;
    if (!differences.empty())
      accounts.report(
          "the copy profile " + *path + " was made on another machine: " + differences +
          ". This profile is used nevertheless; make it anew with interlace tune copy, or leave "
          "it out with INTERLACE_COPY_PROFILE=none");
    const bool measured_here = differences.empty() && !options.relays;
    return engine_profile{std::move(found), measured_here};
  } catch (const usage_error& error) {
    accounts.report(error.what());
  } catch (const std::exception& error) {
    accounts.report("the copy profile " + *path + " cannot be read: " + error.what());
  }
  return std::nullopt;
}

}  // namespace interlace::cuda
