// Chunks that are tracked: kernels that publish in their midst, mappings of every kind, and what is
// reported where announcements are wrong or late.
#include <algorithm>
#include <string>
#include <vector>

#include "gpu.hpp"

namespace interlace {
namespace {

using gpu_test::options_for;
using gpu_test::random_at;
using kernel::mechanism;

constexpr std::uint32_t lanes = 64;

INTERLACE_HOST_DEVICE std::uint32_t value_of(std::uint64_t epoch, std::uint64_t element) {
  return static_cast<std::uint32_t>(random_at(epoch, element));
}

__device__ void wait_ns(std::uint64_t nanoseconds) {
  std::uint64_t begin;
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

enum class fault { none, skips, repeats, stalls };

// Few blocks that live long: each writes and publishes tile after tile of its device's part.
struct publisher {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint32_t> data;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t tile = 0;
  std::uint64_t epoch = 0;
  fault wrong = fault::none;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    for (std::uint64_t at = begin + block.index() * tile; at < end; at += block.count() * tile) {
      const std::uint64_t last = at + tile < end ? at + tile : end;
      block.each([&](auto lane) {
        if (wrong == fault::stalls) wait_ns(300'000'000);
        if (random_at(epoch, at) % 8 == 0) wait_ns(random_at(epoch, at + 1) % 20'000);
        for (auto i : lane.range(at + lane.index(), last, std::uint64_t{lanes})) {
          lane.store(data, i, value_of(epoch, i));
        }
      });
      const bool chosen = at == begin + tile;
      if (chosen && wrong == fault::skips) continue;
      block.publish(data, at, last);
      if (chosen && wrong == fault::repeats) block.publish(data, at, last);
    }
  }
};

struct harness {
  cuda::node node;
  kernel::region_options options;
  kernel::region<std::uint32_t> data;
  std::uint64_t elements;
  static constexpr std::uint64_t tile = 300;
  static constexpr std::uint64_t blocks = 7;
  std::vector<kernel::block_mapping> mappings;

  harness(cuda::node_options o, mechanism how, std::uint64_t n, std::uint64_t chunk_bytes,
          std::uint32_t threads)
      : node(std::move(o)), elements(n) {
    for (std::uint32_t d = 0; d <= node.devices(); ++d) {
      options.boundaries.push_back(d == node.devices() ? n : n * d / node.devices());
    }
    options.mechanism = how;
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

class tracking_test : public testing::TestWithParam<mechanism> {};
INSTANTIATE_TEST_SUITE_P(all, tracking_test,
                         testing::Values(mechanism::polling, mechanism::copy_engine,
                                         mechanism::bulk_copy),
                         [](const auto& info) {
                           std::string name = kernel::mechanism_name(info.param);
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(tracking_test, kernels_publish_in_their_midst) {
  for (const std::uint32_t devices : {1U, 2U, 4U}) {
    if (!gpu_test::why_not(devices).empty()) continue;
    for (const bool graph : {true, false}) {
      for (const std::uint32_t threads : {32U, 96U, 4096U}) {
        harness h(options_for(devices), GetParam(), 50'021, 4096, threads);
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

TEST_P(tracking_test, wrong_announcements_are_reported) {
  INTERLACE_NEED_GPUS(2);
  if (GetParam() == mechanism::bulk_copy) GTEST_SKIP() << "nothing is announced";
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

TEST(polling_test, a_kernel_slower_than_the_deadline_is_reported) {
  INTERLACE_NEED_GPUS(2);
  auto options = options_for(2);
  options.deadline_s = 0.2;
  harness h(options, mechanism::polling, 20'000, 2048, 512);
  const std::string message = failure_of(h, fault::stalls);
  EXPECT_NE(message.find("GPU 0 waited 0.2 s for chunk"), std::string::npos) << message;
}

// Each block writes a column of a matrix; every chunk has all blocks as writers.
struct column_writer {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint64_t> data;
  std::uint64_t first;
  std::uint64_t pitch;
  std::uint64_t rows;
  std::uint64_t epoch;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto r : lane.range(std::uint64_t{lane.index()}, rows, std::uint64_t{lanes})) {
        const std::uint64_t i = first + r * pitch + block.index();
        lane.store(data, i, random_at(epoch, i));
      }
    });
  }
};

TEST_P(tracking_test, strided_mappings) {
  INTERLACE_NEED_GPUS(2);
  const std::uint32_t devices = gpu_test::why_not(4).empty() ? 4 : 2;
  const std::uint64_t pitch = 37;
  const std::uint64_t rows = 400;
  cuda::node node(options_for(devices));
  kernel::region_options o;
  for (std::uint32_t d = 0; d <= devices; ++d) o.boundaries.push_back(d * pitch * rows);
  o.mechanism = GetParam();
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

TEST_P(tracking_test, wrong_use_is_refused) {
  INTERLACE_NEED_GPUS(2);
  if (GetParam() == mechanism::bulk_copy) GTEST_SKIP() << "nothing is tracked";
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
    // Half of the part has no block.
    EXPECT_THROW(h.node.run([&] {
      h.node.launch(0, publisher{h.node.view(h.data, 0), 0, 5000, harness::tile, 0},
                    {harness::blocks, lanes, 0}, h.data,
                    kernel::block_mapping::contiguous(0, 5000 / harness::blocks, 5000));
    }),
                 model_error);
    h.node.run([&] { h.enqueue(3); });  // none of this did harm
    h.expect_epoch(3);
  }
  harness small(options_for(2), GetParam(), 20'000, 64, 512);
  EXPECT_THROW(small.node.run([&] { small.enqueue(0); }), usage_error);
  EXPECT_THROW(harness(options_for(2), GetParam(), 20'000, 4096, 33), usage_error);
}

}  // namespace
}  // namespace interlace
