// The amount of memory that the host still has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace interlace {

// The number of bytes that this process can allocate without taking memory from another program.
// The limits of the process's control group (version 2 or 1) count, too. There is no value if the
// kernel does not report the numbers. The parameters are for tests.
std::optional<std::uint64_t> available_host_bytes(const std::string& proc = "/proc",
                                                  const std::string& groups = "/sys/fs/cgroup");

}  // namespace interlace
