// How much memory the host still has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace interlace {

// The bytes that this process can allocate without taking memory from another program, within the
// limits of its control group (version 2 or 1). No value if the kernel does not report them. The
// parameters are for tests.
std::optional<std::uint64_t> available_host_bytes(const std::string& proc = "/proc",
                                                  const std::string& groups = "/sys/fs/cgroup");

}  // namespace interlace
