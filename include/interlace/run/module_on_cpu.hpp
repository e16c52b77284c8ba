// The source of a library that runs a workload on the nodes that need no GPU
// (interlace/run/module.hpp).
#pragma once

#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/run/module.hpp"
#include "interlace/run/on_cpu.hpp"

namespace interlace::run {

template <class Problem>
class problem_on_cpu final : public module_problem {
 public:
  explicit problem_on_cpu(Problem problem) : problem_(std::move(problem)) {}

  std::uint64_t elements() const override { return problem_.elements(); }

  outcome run(const request& asked, const machine::machine* described,
              const interrupted_function& interrupted, result& found) const noexcept override {
    return module_detail::guarded([&] {
      const request watched = module_detail::with_interrupts(asked, interrupted);
      found =
          described == nullptr ? on_host(problem_, watched) : on_sim(problem_, watched, *described);
    });
  }

  outcome measure(const request& /*asked*/, std::uint32_t /*warmup*/, std::uint32_t /*repeats*/,
                  const interrupted_function& /*interrupted*/,
                  measurement& /*found*/) const noexcept override {
    return {outcome::kind::model, "a library for the host and the simulated node has no GPUs"};
  }

 private:
  Problem problem_;
};

}  // namespace interlace::run

#define INTERLACE_MODULE_ON_CPU(problem) INTERLACE_MODULE(problem, interlace::run::problem_on_cpu)
