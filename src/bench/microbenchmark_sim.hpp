// Microbenchmarks on a simulated machine. A calibration compares them with measurements on GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "workload/benchmark/store_request.hpp"

namespace interlace::bench {

struct timed_bytes {
  double time_s = 0;
  std::uint64_t payload = 0;  // number of bytes that all senders store
  // The number of bytes on the wire for these stores, with protocol; 0 for loads and copies.
  std::uint64_t wire = 0;
  std::uint64_t packets = 0;  // number of packets of stores
};

// The senders among `gpus` GPUs store elements of 4, 8 or 16 bytes to all other GPUs. The lanes of
// a group store to adjacent places, and each group stores to a place of its own.
timed_bytes stores_on_sim(const machine::machine& described, std::uint32_t gpus,
                          std::uint32_t element_bytes, const workload::store_request& asked,
                          const std::function<void()>& check_interrupt);
// Blocks of 512 threads on the first GPU copy `bytes` bytes to the second GPU. Each lane copies 16
// bytes at a time. If `bytes` is above 4 MiB, it must be a multiple of 4 MiB, because in this case
// the blocks copy the same 4 MiB several times.
timed_bytes copy_kernel_on_sim(const machine::machine& described, std::uint64_t bytes,
                               std::uint32_t blocks, const std::function<void()>& check_interrupt);
// The first GPU loads `elements` elements of 4 or 16 bytes from the second GPU's memory, each
// element once. Successive elements are not adjacent.
timed_bytes loads_on_sim(const machine::machine& described, std::uint32_t element_bytes,
                         std::uint64_t elements, const std::function<void()>& check_interrupt);

struct simulated_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
  // The number of the copy's stream; copies of one stream run one after another.
  std::uint32_t stream = 0;
};
// The time in seconds in which the copy engines make the copies. With `by_host`, the host starts
// each copy.
double copies_on_sim(const machine::machine& described, const std::vector<simulated_copy>& copies,
                     bool by_host, const std::function<void()>& check_interrupt);

}  // namespace interlace::bench
