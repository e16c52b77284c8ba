// Microbenchmarks on a simulated machine, as a calibration compares them with measured ones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "machine/machine.hpp"

namespace interlace::bench {

struct timed_bytes {
  double time_s = 0;
  std::uint64_t payload = 0;  // of all senders
  std::uint64_t wire = 0;     // with protocol, as stores leave a GPU; 0 of loads, copies
  std::uint64_t packets = 0;  // of stores
};

// Each of the first `senders` of `gpus` GPUs stores so many elements of 4, 8 or 16 bytes to all
// others: `together` lanes side by side, each such group at another place; all side by side if 0.
// A power of two of elements.
timed_bytes stores_on_sim(const machine::machine& described, std::uint32_t gpus,
                          std::uint32_t senders, std::uint32_t element_bytes,
                          std::uint64_t elements, std::uint32_t together,
                          const std::function<void()>& check_interrupt);
// Blocks of 512 threads on the first GPU copy 16 bytes a lane to the second; more than 4 MiB are a
// multiple of them, which is copied again and again.
timed_bytes copy_kernel_on_sim(const machine::machine& described, std::uint64_t bytes,
                               std::uint32_t blocks, const std::function<void()>& check_interrupt);
// The first GPU loads so many elements of 4 or 16 bytes of the second's memory, each once and none
// beside the one before.
timed_bytes loads_on_sim(const machine::machine& described, std::uint32_t element_bytes,
                         std::uint64_t elements, const std::function<void()>& check_interrupt);

struct simulated_copy {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t bytes = 0;
  std::uint32_t stream = 0;  // copies of one run one after another
};
// Seconds of copies by the copy engines; `by_host`: the host starts each.
double copies_on_sim(const machine::machine& described, const std::vector<simulated_copy>& copies,
                     bool by_host, const std::function<void()>& check_interrupt);

}  // namespace interlace::bench
