// Tests of tracked chunks. Kernels publish while they run, blocks are mapped to chunks in many
// ways, and wrong or late announcements must be reported.
#include <algorithm>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "launching.hpp"
#include "publishers.cuh"
#include "way.hpp"

namespace interlace::tracking_tests {
namespace {

using gpu_test::column_writer;
using gpu_test::fault;
using gpu_test::lanes;
using gpu_test::options_for;
using gpu_test::publisher;
using gpu_test::random_at;
using gpu_test::value_of;
using gpu_test::way;
using kernel::mechanism;

struct harness {
  cuda::node node;
  kernel::region_options options;
  kernel::region<std::uint32_t> data;
  std::uint64_t elements;
  static constexpr std::uint64_t tile = 300;
  static constexpr std::uint64_t blocks = 7;
  std::vector<kernel::block_mapping> mappings;

  harness(cuda::node_options o, way how, std::uint64_t n, std::uint64_t chunk_bytes,
          std::uint32_t threads)
      : node(std::move(o)), elements(n) {
    for (std::uint32_t d = 0; d <= node.devices(); ++d) {
      options.boundaries.push_back(d == node.devices() ? n : n * d / node.devices());
    }
    options.mechanism = how.mechanism;
    options.agent_copy = how.copy;
    options.chunk_bytes = chunk_bytes;
    options.agent_threads = threads;
    data = node.create_region<std::uint32_t>(options);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = options.boundaries[d];
      const std::uint64_t end = options.boundaries[d + 1];
      mappings.push_back(kernel::block_mapping::custom([=](std::uint64_t block) {
        std::vector<kernel::element_range> ranges;
        for (std::uint64_t at = begin + block * tile; at < end; at += blocks * tile) {
          ranges.push_back({at, std::min(at + tile, end)});
        }
        return ranges;
      }));
    }
  }
  void enqueue(std::uint64_t epoch, fault wrong = fault::none) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      node.launch(d,
                  publisher{node.view(data, d), options.boundaries[d], options.boundaries[d + 1],
                            tile, epoch, d == 0 ? wrong : fault::none},
                  {blocks, lanes, 0}, data, mappings[d]);
    }
    node.exchange(data);
  }
  void expect_epoch(std::uint64_t epoch) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const auto front = node.front(data, d);
      for (std::uint64_t i = 0; i < elements; ++i) {
        ASSERT_EQ(front[i], value_of(epoch, i)) << "element " << i << " on device " << d;
      }
    }
  }
};

class tracking_test : public testing::TestWithParam<way> {
 protected:
  void SetUp() override {
    INTERLACE_NEED_COPIES(GetParam().copy);
    gpu_test::add_launching_publishers();
  }
};
INSTANTIATE_TEST_SUITE_P(all, tracking_test, testing::ValuesIn(gpu_test::every_way()),
                         gpu_test::way_name);

class announced_test : public tracking_test {};
INSTANTIATE_TEST_SUITE_P(all, announced_test, testing::ValuesIn(gpu_test::tracked_ways()),
                         gpu_test::way_name);

TEST_P(tracking_test, kernels_publish_in_their_midst) {
  for (const std::uint32_t devices : {1U, 2U, 4U}) {
    if (!gpu_test::why_not(devices).empty()) continue;
    for (const bool graph : {true, false}) {
      for (const std::uint32_t threads : {32U, 96U, 4096U}) {
        harness h(options_for(devices), GetParam(), 50'021, 4096, gpu_test::agent_threads(threads));
        cuda::run_options o;
        o.graph = graph;
        o.repetitions = 3;
        for (std::uint64_t round = 0; round < 3; ++round) {
          h.node.run(
              [&] {
                for (std::uint64_t e = 0; e < 5; ++e) h.enqueue(round * 5 + e);
              },
              o);
          h.expect_epoch(round * 5 + 4);
        }
      }
    }
  }
}

TEST_P(tracking_test, two_hundred_runs_with_random_delays) {
  INTERLACE_NEED_GPUS(2);
  harness h(options_for(gpu_test::why_not(4).empty() ? 4 : 2), GetParam(), 20'000, 2048, 512);
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    h.node.run([&] { h.enqueue(epoch); });
    h.expect_epoch(epoch);
  }
}

std::string failure_of(harness& h, fault wrong) {
  try {
    h.node.run([&] {
      h.enqueue(0);
      h.enqueue(1, wrong);
    });
  } catch (const device_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST_P(announced_test, wrong_announcements_are_reported) {
  INTERLACE_NEED_GPUS(2);
  {
    harness h(options_for(2), GetParam(), 20'000, 2048, 512);
    const std::string message = failure_of(h, fault::skips);
    EXPECT_NE(message.find("GPU 0: a kernel announced too little of chunk"), std::string::npos)
        << message;
  }
  {
    harness h(options_for(2), GetParam(), 20'000, 2048, 512);
    const std::string message = failure_of(h, fault::repeats);
    EXPECT_NE(message.find("GPU 0: a kernel announced too much of chunk"), std::string::npos)
        << message;
    EXPECT_THROW(h.node.run([] {}), device_error);
  }
}

TEST(deadline_test, a_kernel_slower_than_the_deadline_is_reported) {
  INTERLACE_NEED_GPUS(2);
  auto options = options_for(2);
  options.deadline_s = 0.1;
  for (const way how : {way{mechanism::polling}, way{mechanism::polling, kernel::agent_copy::bulk},
                        way{mechanism::copy_engine}}) {
    if (!gpu_test::why_not_copied(how.copy).empty()) continue;
    harness h(options, how, 20'000, 2048, 512);
    const std::string message = failure_of(h, fault::stalls);
    EXPECT_NE(message.find("GPU 0 waited 0.1 s for chunk"), std::string::npos) << message;
  }
}

// More chunks become ready at the same time than the GPU can accept as launches.
TEST(device_launch_test, blocks_copy_what_is_not_launched) {
  INTERLACE_NEED_GPUS(2);
  gpu_test::add_launching_publishers();
  for (int d = 0; d < 2; ++d) {
    ASSERT_EQ(cudaSetDevice(options_for(2).ordinals[d]), cudaSuccess);
    ASSERT_EQ(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 32), cudaSuccess);
  }
  {
    harness h(options_for(2), {mechanism::device_launch}, 1'000'000, 512, 32);
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      h.node.run([&] { h.enqueue(epoch); });
      h.expect_epoch(epoch);
    }
  }
  for (int d = 0; d < 2; ++d) {
    ASSERT_EQ(cudaSetDevice(options_for(2).ordinals[d]), cudaSuccess);
    ASSERT_EQ(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 2048), cudaSuccess);
  }
}

// Two or three blocks of an agent share the shared memory of a multiprocessor. The kernel needs no
// shared memory.
TEST(polling_test, large_agents_that_copy_in_bulk_run_as_a_whole) {
  INTERLACE_NEED_GPUS(2);
  INTERLACE_NEED_COPIES(kernel::agent_copy::bulk);
  int processors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  for (const std::uint32_t blocks : {2U, 3U}) {
    harness h(options_for(2), {mechanism::polling, kernel::agent_copy::bulk}, 50'021, 4096,
              32 * blocks * static_cast<std::uint32_t>(processors));
    if (gpu_test::gpus_here() < 2) {  // two agents of this size do not fit on one GPU
      std::string refusal = "nothing";
      try {
        h.node.run([&] { h.enqueue(0); });
      } catch (const usage_error& e) {
        refusal = e.what();
      }
      EXPECT_NE(refusal.find("GPU 0 cannot run 2 agents, each of "), std::string::npos) << refusal;
      EXPECT_NE(refusal.find("at the same time: not enough shared memory; "), std::string::npos)
          << refusal;
      continue;
    }
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      h.node.run([&] { h.enqueue(epoch); });
      h.expect_epoch(epoch);
    }
  }
}

TEST(polling_test, an_agent_that_leaves_no_place_is_refused) {
  INTERLACE_NEED_GPUS(2);
  harness h(options_for(2), {mechanism::polling, kernel::agent_copy::bulk}, 20'000, 2048, 65536);
  EXPECT_THROW(h.node.run([&] { h.enqueue(0); }), usage_error);
  EXPECT_TRUE(h.node.remarks().empty());
}

TEST_P(tracking_test, strided_mappings) {
  INTERLACE_NEED_GPUS(2);
  const std::uint32_t devices = gpu_test::why_not(4).empty() ? 4 : 2;
  const std::uint64_t pitch = 37;
  const std::uint64_t rows = 400;
  cuda::node node(options_for(devices));
  kernel::region_options o;
  for (std::uint32_t d = 0; d <= devices; ++d) o.boundaries.push_back(d * pitch * rows);
  o.mechanism = GetParam().mechanism;
  o.agent_copy = GetParam().copy;
  o.chunk_bytes = 1024;
  o.agent_threads = 256;
  auto data = node.create_region<std::uint64_t>(o);
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
    node.run([&] {
      for (std::uint32_t d = 0; d < devices; ++d) {
        node.launch(d, column_writer{node.view(data, d), d * pitch * rows, pitch, rows, epoch},
                    {pitch, lanes, 0}, data,
                    kernel::block_mapping::strided(d * pitch * rows, 1, pitch, rows));
      }
      node.exchange(data);
    });
    for (std::uint32_t d = 0; d < devices; ++d) {
      const auto front = node.front(data, d);
      for (std::uint64_t i = 0; i < front.size(); ++i) ASSERT_EQ(front[i], random_at(epoch, i));
    }
  }
}

TEST_P(announced_test, wrong_use_is_refused) {
  INTERLACE_NEED_GPUS(2);
  {
    harness h(options_for(2), GetParam(), 20'000, 2048, 512);
    EXPECT_THROW(h.node.run([&] { h.node.exchange(h.data); }), model_error);
    EXPECT_THROW(h.node.run([&] {
      for (int twice = 0; twice < 2; ++twice) {
        h.node.launch(
            0, publisher{h.node.view(h.data, 0), 0, h.options.boundaries[1], harness::tile, 0},
            {harness::blocks, lanes, 0}, h.data, h.mappings[0]);
      }
    }),
                 model_error);
    // No block is mapped to half of the part.
    EXPECT_THROW(h.node.run([&] {
      h.node.launch(0, publisher{h.node.view(h.data, 0), 0, 5000, harness::tile, 0},
                    {harness::blocks, lanes, 0}, h.data,
                    kernel::block_mapping::contiguous(0, 5000 / harness::blocks, 5000));
    }),
                 model_error);
    h.node.run([&] { h.enqueue(3); });  // none of these errors may make the node unusable
    h.expect_epoch(3);
  }
  harness small(options_for(2), GetParam(), 20'000, 64, 512);
  EXPECT_THROW(small.node.run([&] { small.enqueue(0); }), usage_error);
  EXPECT_THROW(harness(options_for(2), GetParam(), 20'000, 4096, 33), usage_error);
}

}  // namespace
}  // namespace interlace::tracking_tests
