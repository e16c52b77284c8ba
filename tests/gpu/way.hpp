// The ways in which a region's chunks reach the other GPUs in a test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "interlace/kernel/region.hpp"

namespace interlace::gpu_test {

struct way {
  kernel::mechanism mechanism = kernel::mechanism::polling;
  kernel::agent_copy copy = kernel::agent_copy::vectors;
};

inline std::vector<way> every_way() {
  using kernel::mechanism;
  return {{mechanism::polling},       {mechanism::polling, kernel::agent_copy::bulk},
          {mechanism::device_launch}, {mechanism::copy_engine},
          {mechanism::inline_stores}, {mechanism::bulk_copy}};
}

// The ways with chunks that kernels announce while they run, and for which an agent waits.
inline std::vector<way> tracked_ways() {
  std::vector<way> ways = every_way();
  std::erase_if(ways, [](const way& w) { return !kernel::tracks_chunks(w.mechanism); });
  return ways;
}

inline std::string way_name(const testing::TestParamInfo<way>& info) {
  std::string name = kernel::mechanism_name(info.param.mechanism);
  if (info.param.copy == kernel::agent_copy::bulk) name += "inbulk";
  std::erase(name, '-');
  return name;
}

}  // namespace interlace::gpu_test
