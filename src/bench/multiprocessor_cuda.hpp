// Microbenchmarks of one GPU's multiprocessors, caches and kernel starts. Each measures one
// property that a machine file states. bench/multiprocessor_sim.hpp simulates the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/multiprocessor.hpp"

namespace interlace::bench::multiprocessor {

// All functions below run on GPU 0 and return one value for each repeat, after a repeat that warms
// up. They throw usage_error if there is no kernel for the request. They throw device_error if the
// GPU fails, or if it does not run the kernel in the way that the measurement needs.

// Clocks from one operation to the next in a chain of dependent operations, in each of `warps`
// warps of a sub-core. `kind` is the name of an operation: see chain_kinds(). Clocks are clocks of
// the multiprocessor, so they do not depend on its frequency.
std::vector<double> chain_clocks(const std::string& kind, std::uint32_t warps,
                                 std::uint32_t repeats);
std::vector<std::string> chain_kinds();

// The frequency of multiprocessors that all compute, in MHz.
std::vector<double> busy_clock_mhz(std::uint32_t repeats);

// Clocks of an iteration of `sum += data[i]` in each of `warps` warps of a sub-core. The loop is
// unrolled `unroll` times (1, 2 or 4). All lanes of a warp load neighbouring words.
std::vector<double> loop_clocks(loaded_from from, std::uint32_t unroll, std::uint32_t warps,
                                std::uint32_t repeats);

// Clocks of a load whose address is the result of the previous load. The loads go to each line of
// `bytes` bytes, a power of two, in the memory of `gpu`. Data larger than the L2 comes from the
// memory. If the data are `just_written`, the kernel before has stored each line, and no load has
// brought a line nearer.
std::vector<double> chase_clocks(loaded_from from, std::uint64_t bytes, std::uint32_t repeats,
                                 std::uint32_t gpu = 0, bool just_written = false);

// Clocks of a multiprocessor from one load of a warp to the next, if all of its warps load from the
// L1. The lanes of a load are in `lines` groups (1, 2, 4, ... 32), each at a line of its own. With
// an `offset` of words, the words of a whole warp are in two lines.
std::vector<double> line_load_clocks(std::uint32_t lines, std::uint32_t offset,
                                     std::uint32_t repeats);

// Seconds from one kernel of a graph to the next. Each has a block of 256 threads on every
// multiprocessor, and each thread executes `instructions` dependent instructions. The graph has
// `kernels` different kernels in turn (1 or 8).
std::vector<double> small_kernel_s(std::uint32_t instructions, std::uint32_t kernels,
                                   std::uint32_t repeats);

// Seconds from one block of an empty kernel to the next, if the blocks have 256 threads.
std::vector<double> block_s(std::uint32_t repeats);

// Elements of 4 bytes that kernels of `registers` registers (32, 64 or 128) gather in a second from
// `bytes` bytes, through an index. Each lane has one load in flight.
std::vector<double> gathers_per_s(std::uint32_t registers, std::uint64_t bytes,
                                  std::uint32_t repeats);

// Sectors of 32 bytes that all multiprocessors together load in a second from scattered places of
// `bytes` bytes, past the L1.
std::vector<double> sectors_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that all multiprocessors together read in a second. They read the same
// `bytes` bytes repeatedly, without the L1.
std::vector<double> reads_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that all multiprocessors together write in a second. They write the same
// `bytes` bytes again and again.
std::vector<double> writes_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that a kernel reads in a second if the previous kernel has written them. The
// measured time is the time of both kernels minus the time of the first, which is measured as in
// writes_per_s.
std::vector<double> fresh_reads_per_s(std::uint64_t bytes, std::uint32_t repeats);

// A call of cuFFT: the kernels that it launches, and its seconds.
struct library_times {
  std::uint32_t kernels = 0;
  std::vector<double> time_s;
};
// If `planes` is set, the call transforms `length` real planes of length x length points. Otherwise
// it transforms the columns of their spectra, in place.
library_times fft_times(bool planes, std::uint32_t length, std::uint32_t repeats);

}  // namespace interlace::bench::multiprocessor
