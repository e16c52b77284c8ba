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

// A workload's problem, as the package calls it in a library for GPUs. Only
// INTERLACE_MODULE_ON_GPUS names it.
template <class Problem>
class problem_on_gpus final : public module_problem {
 public:
  // Takes over a problem that `Problem::make` returned.
  explicit problem_on_gpus(Problem problem) : problem_(std::move(problem)) {}

  // Elements of the region that the boundaries of a request cut.
  std::uint64_t elements() const override { return problem_.elements(); }

  // Fails with a message, because this library has no code for the other nodes.
  outcome run(const request& /*asked*/, const machine::machine* /*described*/,
              const interrupted_function& /*interrupted*/,
              result& /*found*/) const noexcept override {
    return {outcome::kind::model, "a library for GPUs has no host and no simulated node"};
  }

  // Measures `repeats` runs on the GPUs of this computer, after `warmup` runs that do not count. An
  // error comes back as an outcome; nothing is thrown.
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

// Makes the source file that names it the library of a workload, for real GPUs. `problem` is the
// struct that interlace/workload/problem.hpp describes, with its namespace. Use it once in a
// library, outside of all namespaces.
#define INTERLACE_MODULE_ON_GPUS(problem) INTERLACE_MODULE(problem, interlace::run::problem_on_gpus)
