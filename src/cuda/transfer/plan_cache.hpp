// The programs of messages and batches. Each program is made once for each size, pair of places and
// set of relays.
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
#include "interlace/machine/machine.hpp"
#include "plan/plan.hpp"

namespace interlace::cuda {

struct planned_copy {
  // The program has no copies if a single message goes directly, because in this case the caller
  // makes the plain copy.
  copy_program program;
  std::atomic<std::uint64_t> uses{0};
};

// Additional conditions on a plan.
struct plan_limits {
  // The number of chunks of a staged part; 0 means the number that is fastest.
  std::uint32_t chunks = 0;
  // Whether measurements showed that several paths are faster. Without such measurements, a plan
  // takes several paths only if the predicted gain is larger than the error of predictions.
  bool measured = false;
};

class plan_cache {
 public:
  // `gpus` are CUDA's numbers of the machine's GPUs. Each GPU and the host have `staging_bytes` of
  // staging memory. The messages of one call get equal shares of this memory, at most 64 MiB each.
  plan_cache(machine::machine described, std::vector<int> gpus, std::uint64_t staging_bytes);

  // Finds or makes the plan of a call. The plan may use only the places in `relays` as relays. A
  // plan for a size also serves messages that are up to an eighth longer. All these messages have
  // the same paths, shares and numbers of chunks. The copies in `local` are part of a batch.
  std::shared_ptr<planned_copy> find(std::span<const plan::message> wanted,
                                     const std::vector<machine::endpoint>& relays,
                                     const plan_limits& limits = {},
                                     std::span<const local_copy> local = {});

 private:
  struct least_recently_used {
    std::list<std::pair<std::string, std::shared_ptr<planned_copy>>> entries;  // latest entry first
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
  // the key contains a class of sizes
  std::unordered_map<std::string, std::shared_ptr<const plan::plan>> plans_;
};

}  // namespace interlace::cuda
