// For the source file of a library that runs a workload on the GPUs of this computer
// (interlace/run/module.hpp). nvcc compiles this source. Link it with the source that includes
// interlace/run/launching.cuh for the same problem.
#pragma once

#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/run/module.hpp"
#include "interlace/run/on_gpus.hpp"

namespace interlace::run {

// A workload's problem in a library for GPUs, with the interface that the package calls. Only
// INTERLACE_MODULE_ON_GPUS names this class.
template <class Problem>
class problem_on_gpus final : public module_problem {
 public:
  // Takes ownership of a problem that `Problem::make` returned.
  explicit problem_on_gpus(Problem problem) : problem_(std::move(problem)) {}

  // The number of elements of the region that the boundaries of a request divide into parts.
  std::uint64_t elements() const override { return problem_.elements(); }

  // Returns an error, because this library has no code for the other nodes.
  outcome run(const request& /*asked*/, const machine::machine* /*described*/,
              const interrupted_function& /*interrupted*/,
              result& /*found*/) const noexcept override {
    return {outcome::kind::model, "a library for GPUs has no host and no simulated node"};
  }

  // Measures `repeats` runs on the GPUs of this computer, after `warmup` runs that are not
  // measured. The function returns an error as an outcome and throws nothing.
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

// Makes the source file that calls this macro the library of a workload, for real GPUs. `problem`
// is the full name, including the namespace, of the struct that interlace/workload/problem.hpp
// describes. Use the macro once in a library, outside of all namespaces.
#define INTERLACE_MODULE_ON_GPUS(problem) INTERLACE_MODULE(problem, interlace::run::problem_on_gpus)
