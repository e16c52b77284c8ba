// The microbenchmarks of multiprocessor_cuda.hpp on a simulated GPU. Each function simulates two
// runs that differ only in the amount of the measured work, and returns the difference of their
// times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/multiprocessor.hpp"
#include "interlace/machine/machine.hpp"

namespace interlace::bench {

class multiprocessor_on_sim {
 public:
  multiprocessor_on_sim(machine::machine described, std::function<void()> check_interrupt);

  // These functions have the same names as in multiprocessor_cuda.hpp, which describes the
  // arguments and the returned values.
  double chain_clocks(const std::string& kind, std::uint32_t warps) const;
  double loop_clocks(loaded_from from, std::uint32_t unroll, std::uint32_t warps) const;
  double chase_clocks(loaded_from from, std::uint64_t bytes, bool just_written = false) const;
  double line_load_clocks(std::uint32_t lines, std::uint32_t offset) const;
  double peer_chase_clocks(std::uint64_t bytes) const;
  double small_kernel_s(std::uint32_t instructions, std::uint32_t kernels) const;
  double block_s() const;
  double exchange_s(std::uint32_t sums) const;
  double gathers_per_s(std::uint32_t registers, std::uint64_t bytes) const;
  double sectors_per_s(std::uint64_t bytes) const;
  double reads_per_s(std::uint64_t bytes) const;
  double copies_per_s(std::uint64_t bytes) const;
  double writes_per_s(std::uint64_t bytes) const;
  double fresh_reads_per_s(std::uint64_t bytes) const;
  double fft_s(bool planes, std::uint32_t length) const;

 private:
  // Returns the time of the amount `many` of work minus the time of the amount `few`. `prepare`
  // makes the data on a node of `gpus` GPUs, and returns a function that enqueues a given amount of
  // work.
  template <class Prepare>
  double difference_s(const Prepare& prepare, std::uint32_t few, std::uint32_t many,
                      std::uint32_t gpus = 1) const;
  double clocks(double time_s) const { return time_s * described_.gpu.clock_hz; }

  machine::machine described_;
  std::function<void()> check_interrupt_;
};

}  // namespace interlace::bench
