// Microbenchmarks of one GPU's multiprocessors, caches and kernel starts. Each of them measures one
// property that a machine file states. bench/multiprocessor_sim.hpp simulates the same
// microbenchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/multiprocessor.hpp"

namespace interlace::bench::multiprocessor {

// All functions below run on GPU 0 and return one value for each repeat, after a repeat that warms
// up. They throw usage_error if there is no kernel for the request. They throw device_error if the
// GPU fails, or if the GPU does not run the kernel in the way that the measurement needs.

// The number of clocks from one operation to the next in a chain of dependent operations. Each of
// `warps` warps of a sub-core has such a chain. `kind` is the name of an operation (see
// chain_kinds()). The clocks are those of the multiprocessor, so the result does not depend on its
// frequency.
std::vector<double> chain_clocks(const std::string& kind, std::uint32_t warps,
                                 std::uint32_t repeats);
std::vector<std::string> chain_kinds();

// The frequency in MHz of multiprocessors while all of them compute.
std::vector<double> busy_clock_mhz(std::uint32_t repeats);

// The number of clocks of an iteration of `sum += data[i]`. Each of `warps` warps of a sub-core
// runs this loop. The loop is unrolled `unroll` times (1, 2 or 4). All lanes of a warp load
// neighbouring words.
std::vector<double> loop_clocks(loaded_from from, std::uint32_t unroll, std::uint32_t warps,
                                std::uint32_t repeats);

// The number of clocks of a load whose address is the result of the previous load. The loads go to
// each line of `bytes` bytes in the memory of `gpu`. `bytes` is a power of two. Data larger than
// the L2 comes from the memory. With `just_written`, the previous kernel has stored each line, and
// no load has brought a line into a closer cache.
std::vector<double> chase_clocks(loaded_from from, std::uint64_t bytes, std::uint32_t repeats,
                                 std::uint32_t gpu = 0, bool just_written = false);

// The number of clocks of a multiprocessor from one load of a warp to the next, while all of the
// multiprocessor's warps load from the L1. The lanes of a load form `lines` groups (1, 2, 4, ...
// 32), and each group reads another line. With one group and an `offset` (in words), the words of
// the warp are in two lines.
std::vector<double> line_load_clocks(std::uint32_t lines, std::uint32_t offset,
                                     std::uint32_t repeats);

// The time in seconds from one kernel of a graph to the next. Each kernel has a block of 256
// threads on every multiprocessor, and each thread executes `instructions` dependent instructions.
// The graph runs `kernels` different kernels in turn (1 or 8).
std::vector<double> small_kernel_s(std::uint32_t instructions, std::uint32_t kernels,
                                   std::uint32_t repeats);

// The time in seconds from one block of an empty kernel to the next. The blocks have 256 threads.
std::vector<double> block_s(std::uint32_t repeats);

// The number of 4-byte elements that kernels of `registers` registers (32, 64 or 128) gather per
// second from `bytes` bytes, through an index. Each lane has one load in flight.
std::vector<double> gathers_per_s(std::uint32_t registers, std::uint64_t bytes,
                                  std::uint32_t repeats);

// The number of 32-byte sectors that all multiprocessors together load per second from scattered
// places of `bytes` bytes. The loads bypass the L1.
std::vector<double> sectors_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that all multiprocessors together read per second. They read the same `bytes`
// bytes repeatedly. The reads bypass the L1.
std::vector<double> reads_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that all multiprocessors together copy per second. They copy the same `bytes`
// bytes repeatedly to the same place in the memory of their GPU. The reads bypass the L1.
std::vector<double> copies_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that all multiprocessors together write per second. They write the same
// `bytes` bytes repeatedly.
std::vector<double> writes_per_s(std::uint64_t bytes, std::uint32_t repeats);

// The number of bytes that a kernel reads per second if the previous kernel has written these
// bytes. The time of the read is the time of both kernels minus the time of the first kernel.
// writes_per_s measures the first kernel in the same way.
std::vector<double> fresh_reads_per_s(std::uint64_t bytes, std::uint32_t repeats);

// A call of cuFFT: the kernels that it launches, and its time in seconds.
struct library_times {
  std::uint32_t kernels = 0;
  std::vector<double> time_s;
};
// If `planes` is set, the call transforms `length` real planes of length x length points. Otherwise
// it transforms the columns of the planes' spectra, in place.
library_times fft_times(bool planes, std::uint32_t length, std::uint32_t repeats);

}  // namespace interlace::bench::multiprocessor
