// A million messages pass between blocks through counters, agents and exchanges, with random
// delays. The kernel that reads a value detects if the value is late or torn.
#include <vector>

#include "gpu.hpp"
#include "launching.hpp"
#include "publishers.cuh"
#include "way.hpp"

namespace interlace::litmus_tests {
namespace {

using gpu_test::count_run;
using gpu_test::lanes;
using gpu_test::relay;
using gpu_test::way;

class litmus_test : public testing::TestWithParam<way> {};
INSTANTIATE_TEST_SUITE_P(all, litmus_test, testing::ValuesIn(gpu_test::every_way()),
                         gpu_test::way_name);

TEST_P(litmus_test, a_million_messages_arrive_whole_and_in_time) {
  INTERLACE_NEED_GPUS(2);
  INTERLACE_NEED_COPIES(GetParam().copy);
  gpu_test::add_launching_publishers();
  const std::uint32_t devices = gpu_test::why_not(4).empty() ? 4 : 2;
  constexpr std::uint64_t part = 2048;
  constexpr std::uint64_t tile = 96;
  constexpr std::uint64_t blocks = 5;
  constexpr std::uint64_t epochs_a_graph = 250;
  constexpr std::uint64_t messages = 1'000'000;
  // Each graph runs seven times, because the host takes long to build a graph. The node restores
  // the region before each run except the first.
  cuda::run_options seven_times;
  seven_times.repetitions = 7;
  cuda::node node(gpu_test::options_for(devices));
  kernel::region_options options;
  for (std::uint32_t d = 0; d <= devices; ++d) options.boundaries.push_back(d * part);
  options.mechanism = GetParam().mechanism;
  options.agent_copy = GetParam().copy;
  options.chunk_bytes = 512;
  options.agent_threads = 256;
  const auto data = node.create_region<std::uint32_t>(options);
  node.set_front(data, std::vector<std::uint32_t>(devices * part, 7));
  std::vector<local<unsigned long long>> wrong;
  std::vector<local<std::uint32_t>> runs;
  std::vector<kernel::block_mapping> mappings;
  for (std::uint32_t d = 0; d < devices; ++d) {
    wrong.push_back(node.allocate<unsigned long long>(d, 1));
    node.upload(wrong.back(), {0});
    runs.push_back(node.allocate<std::uint32_t>(d, 1));
    node.upload(runs.back(), {0});
    const std::uint64_t begin = d * part;
    mappings.push_back(kernel::block_mapping::custom([=](std::uint64_t block) {
      std::vector<kernel::element_range> ranges;
      for (std::uint64_t at = block * tile; at < part; at += blocks * tile) {
        ranges.push_back({begin + at, begin + std::min(at + tile, part)});
      }
      return ranges;
    }));
  }
  // Each chunk that goes to one device is a message.
  const std::uint64_t an_epoch =
      part * sizeof(std::uint32_t) / options.chunk_bytes * devices * (devices - 1);
  std::uint64_t epochs = 0;
  std::uint32_t value = 7;
  while (epochs * an_epoch < messages) {
    node.run(
        [&] {
          for (std::uint32_t d = 0; d < devices; ++d) {
            node.launch(d, count_run{runs[d]}, {1, count_run::threads, 0});
          }
          for (std::uint64_t e = 0; e < epochs_a_graph; ++e) {
            for (std::uint32_t d = 0; d < devices; ++d) {
              node.launch(
                  d, relay{node.view(data, d), wrong[d], runs[d], d * part, (d + 1) * part, tile},
                  {blocks, lanes, 0}, data, mappings[d]);
            }
            node.exchange(data);
          }
        },
        seven_times);
    epochs += epochs_a_graph * seven_times.repetitions;
    value += epochs_a_graph;
    for (std::uint32_t d = 0; d < devices; ++d) {
      ASSERT_EQ(node.download(wrong[d])[0], 0U) << "device " << d << " after " << epochs;
      ASSERT_EQ(node.download(runs[d])[0], epochs / epochs_a_graph) << "device " << d;
      ASSERT_EQ(node.front(data, d), std::vector<std::uint32_t>(devices * part, value));
    }
  }
}

}  // namespace
}  // namespace interlace::litmus_tests
