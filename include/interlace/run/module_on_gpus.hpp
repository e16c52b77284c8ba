// The source of a library that runs a workload on the GPUs of this computer
// (interlace/run/module.hpp). It is compiled by nvcc and linked with interlace/run/launching.cuh's
// source for the same problem.
#pragma once

#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/run/module.hpp"
#include "interlace/run/on_gpus.hpp"

namespace interlace::run {

template <class Problem>
class problem_on_gpus final : public module_problem {
 public:
  explicit problem_on_gpus(Problem problem) : problem_(std::move(problem)) {}

  std::uint64_t elements() const override { return problem_.elements(); }

  outcome run(const request& /*asked*/, const machine::machine* /*described*/,
              const interrupted_function& /*interrupted*/,
              result& /*found*/) const noexcept override {
    return {outcome::kind::model, "a library for GPUs has no host and no simulated node"};
  }

  outcome measure(const request& asked, std::uint32_t warmup, std::uint32_t repeats,
                  const interrupted_function& interrupted,
                  measurement& found) const noexcept override {
    return module_detail::guarded([&] {
      if (kernel::row_of(asked.mechanism).needs_processes) {
        throw usage_error(std::string(kernel::mechanism_name(asked.mechanism)) +
                          " runs workloads that Interlace ships, and not those of other packages");
      }
      found =
          on_cuda(problem_, module_detail::with_interrupts(asked, interrupted), warmup, repeats);
    });
  }

 private:
  Problem problem_;
};

}  // namespace interlace::run

#define INTERLACE_MODULE_ON_GPUS(problem) INTERLACE_MODULE(problem, interlace::run::problem_on_gpus)
