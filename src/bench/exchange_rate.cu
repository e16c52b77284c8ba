#include "bench/exchange_rate.hpp"

#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/run/on_gpus.hpp"
#include "workload/benchmark/overlap.hpp"

namespace interlace::bench {

namespace {

using workload::quad;

// Stores elements [begin, end). Each lane stores 16 bytes at a time.
struct fill_part {
  static constexpr std::uint32_t threads = 256;
  replicated<quad> data;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = begin + lane.global_index();
      const auto low = static_cast<std::uint32_t>(i);
      if (i < end) lane.store(data, i, quad{{low, low, low, low}});
    });
  }
};

constexpr std::uint32_t epochs = 5;

// Measures the time of an epoch in seconds.
double epoch_s(std::uint32_t gpus, std::uint64_t elements, kernel::mechanism how,
               std::uint32_t repeats) {
  cuda::node_options options;
  options.devices = gpus;
  cuda::node node(options);
  kernel::region_options region;
  region.mechanism = how;
  for (std::uint64_t d = 0; d <= gpus; ++d) region.boundaries.push_back(d * elements);
  const auto data = node.create_region<quad>(region);
  cuda::run_options asked;
  asked.warm_ups = 1;
  asked.repetitions = repeats;
  const auto result = node.run(
      [&] {
        for (std::uint32_t e = 0; e < epochs; ++e) {
          for (std::uint32_t d = 0; d < gpus; ++d) {
            const std::uint64_t begin = d * elements;
            node.launch(
                d, fill_part{node.view(data, d), begin, begin + elements},
                {(elements + fill_part::threads - 1) / fill_part::threads, fill_part::threads, 0},
                data,
                kernel::block_mapping::contiguous(begin, fill_part::threads, begin + elements));
          }
          node.exchange(data);
        }
      },
      asked);
  return result.time_s / epochs;
}

}  // namespace

exchange_rate measure_exchange_rate(std::uint32_t gpus, std::uint64_t bytes,
                                    std::uint32_t repeats) {
  const std::uint64_t elements = bytes / sizeof(quad);
  if (gpus < 2 || elements == 0 || repeats == 0) {
    throw usage_error("the rate of an exchange needs 2 GPUs, bytes and repeats");
  }
  const auto sent = static_cast<double>(elements * sizeof(quad) * (gpus - 1));
  const double alone_s = epoch_s(1, elements, kernel::mechanism::bulk_copy, repeats);
  const double copied_s = epoch_s(gpus, elements, kernel::mechanism::bulk_copy, repeats);
  const double stored_s = epoch_s(gpus, elements, kernel::mechanism::inline_stores, repeats);
  if (copied_s <= alone_s) throw device_error("copies between GPUs took no time");
  return {.copies = sent / (copied_s - alone_s), .stores = sent / stored_s};
}

}  // namespace interlace::bench
