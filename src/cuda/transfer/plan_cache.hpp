// Programs of messages, and of several that are planned together, made once for each size, pair of
// memories and set of relays.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/transfer/copy_program.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace interlace::cuda {

struct planned_copy {
  copy_program program;  // of one message that is direct: no copies, the caller's stream has it
  std::atomic<std::uint64_t> uses{0};
};

// What else a plan has to keep to.
struct plan_limits {
  std::uint32_t chunks = 0;  // of a part that is staged; 0: what is fastest
  bool measured = false;     // several paths were measured to be faster: no matter by how much
};

class plan_cache {
 public:
  // `gpus` are CUDA's numbers of the machine's GPUs; `staging_bytes` is what each place has, of
  // which one message gets a part.
  plan_cache(machine::machine described, std::vector<int> gpus, std::uint64_t staging_bytes);

  // `relays` are the places that may be used. What is planned for a size serves those up to an
  // eighth longer: they have the same paths, shares and numbers of chunks. The copies of `local`
  // run beside several messages.
  std::shared_ptr<planned_copy> find(std::span<const plan::message> wanted,
                                     const std::vector<machine::endpoint>& relays,
                                     const plan_limits& limits = {},
                                     std::span<const local_copy> local = {});

 private:
  struct least_recently_used {
    std::list<std::pair<std::string, std::shared_ptr<planned_copy>>> entries;  // latest first
    std::unordered_map<std::string, decltype(entries)::iterator> at;
  };

  std::uint64_t staging_of(std::size_t messages) const;
  plan::plan planned(std::span<const plan::message> wanted,
                     const std::vector<machine::endpoint>& relays, const plan_limits& limits,
                     bool alone) const;

  machine::machine machine_;
  std::vector<int> gpus_;
  std::uint64_t staging_bytes_;
  std::mutex mutex_;
  least_recently_used programs_;
  std::unordered_map<std::string, std::shared_ptr<const plan::plan>> plans_;  // by class of sizes
};

}  // namespace interlace::cuda
