// Programs of messages, planned once for each size, pair of memories and set of relays.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/transfer/copy_program.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace interlace::cuda {

struct planned_copy {
  copy_program program;  // direct: one copy, on the caller's stream
  std::atomic<std::uint64_t> uses{0};
};

// What else a plan has to keep to.
struct plan_limits {
  std::uint32_t chunks = 0;  // of a part that is staged; 0: what is fastest
  bool measured = false;     // several paths were measured to be faster: no matter by how much
};

class plan_cache {
 public:
  // `gpus` are CUDA's numbers of the machine's GPUs; `staging_bytes` of one message.
  plan_cache(machine::machine described, std::vector<int> gpus, std::uint64_t staging_bytes);

  // `relays` are the places that may be used. What is planned for a size serves those up to an
  // eighth longer: they have the same paths, shares and numbers of chunks.
  std::shared_ptr<planned_copy> find(const plan::message& wanted,
                                     const std::vector<machine::endpoint>& relays,
                                     const plan_limits& limits = {});

 private:
  struct least_recently_used {
    std::list<std::pair<std::string, std::shared_ptr<planned_copy>>> entries;  // latest first
    std::unordered_map<std::string, decltype(entries)::iterator> at;
  };

  plan::plan planned(const plan::message& wanted, const std::vector<machine::endpoint>& relays,
                     std::uint32_t chunks) const;

  machine::machine machine_;
  std::vector<int> gpus_;
  std::uint64_t staging_bytes_;
  std::mutex mutex_;
  least_recently_used programs_;
  std::unordered_map<std::string, std::shared_ptr<const plan::plan>> plans_;  // by class of sizes
};

}  // namespace interlace::cuda
