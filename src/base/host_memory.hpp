// How much memory the host still has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace interlace {

// Memory that the kernel can give without taking any from another program, within the limits of
// this process's control group (version 2 or 1). Nothing if the kernel does not say. The folders
// are for tests.
std::optional<std::uint64_t> available_host_bytes(const std::string& proc = "/proc",
                                                  const std::string& groups = "/sys/fs/cgroup");

}  // namespace interlace
