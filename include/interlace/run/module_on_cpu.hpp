// For the source file of a library that runs a workload on the nodes that need no GPU
// (interlace/run/module.hpp).
#pragma once

#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/run/module.hpp"
#include "interlace/run/on_cpu.hpp"

namespace interlace::run {

// A workload's problem in a library without GPUs, with the interface that the package calls. Only
// INTERLACE_MODULE_ON_CPU names this class.
template <class Problem>
class problem_on_cpu final : public module_problem {
 public:
  // Takes ownership of a problem that `Problem::make` returned.
  explicit problem_on_cpu(Problem problem) : problem_(std::move(problem)) {}

  // The number of elements of the region that the boundaries of a request divide into parts.
  std::uint64_t elements() const override { return problem_.elements(); }

  // Runs the workload on the described machine, or on the reference node if `described` is null.
  // The function returns an error as an outcome and throws nothing.
  outcome run(const request& asked, const machine::machine* described,
              const interrupted_function& interrupted, result& found) const noexcept override {
    return module_detail::guarded([&] {
      const request watched = module_detail::with_interrupts(asked, interrupted);
      found =
          described == nullptr ? on_host(problem_, watched) : on_sim(problem_, watched, *described);
    });
  }

  // Returns an error, because this library has no code for GPUs.
  outcome measure(const request& /*asked*/, std::uint32_t /*warmup*/, std::uint32_t /*repeats*/,
                  const interrupted_function& /*interrupted*/,
                  measurement& /*found*/) const noexcept override {
    return {outcome::kind::model, "a library for the host and the simulated node has no GPUs"};
  }

 private:
  Problem problem_;
};

}  // namespace interlace::run

// Makes the source file that calls this macro the library of a workload, for the reference node and
// the simulated node. `problem` is the full name, including the namespace, of the struct that
// interlace/workload/problem.hpp describes. Use the macro once in a library, outside of all
// namespaces.
#define INTERLACE_MODULE_ON_CPU(problem) INTERLACE_MODULE(problem, interlace::run::problem_on_cpu)
