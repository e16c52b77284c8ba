// Batches of blocks that several GPUs copy together, on a driver that runs on host memory.
#include "cuda/transfer/lent_gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "cuda/copy_world.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::copy_engine_tests {
namespace {

// The blocks are small, and the links are so slow that few bytes take long.
constexpr std::uint64_t slot = 64;
constexpr std::uint64_t most_bytes = 6'000 * slot;

// A batch between page-locked memory and a GPU. The batch is so large that help from other GPUs
// pays off.
struct batch {
  std::vector<std::uint64_t> to, from, sizes;

  batch(buffer& target, const buffer& source, bool even, std::mt19937_64& random) {
    std::vector<std::uint64_t> slots(target.expected.size() / slot);
    std::iota(slots.begin(), slots.end(), std::uint64_t{0});
    std::vector<std::uint64_t> places = slots;
    std::shuffle(slots.begin(), slots.end(), random);
    for (std::size_t at = 0; at < slots.size(); ++at) {
      const std::uint64_t bytes = even ? slot : 1 + below(random, slot);
      const std::uint64_t to_at = slots[at] * slot;
      const std::uint64_t from_at = places[at] * slot;
      to.push_back(address(target.memory) + to_at);
      from.push_back(address(source.memory) + from_at);
      sizes.push_back(bytes);
      std::memcpy(target.expected.data() + to_at, source.expected.data() + from_at, bytes);
    }
  }
  block_batch blocks() const {
    block_batch made;
    made.dst.numbers = to.data();
    made.src.numbers = from.data();
    made.sizes = sizes.data();
    made.count = to.size();
    return made;
  }
};

// A world in which GPU 0 gets a batch from the host, or gives one to the host.
struct batches : world {
  std::mt19937_64 random;
  buffer host;
  buffer on_gpu;

  explicit batches(std::uint64_t seed, kind memory = kind::gpu, std::uint32_t gpus = 3,
                   copy_executor executor = copy_executor::automatic)
      : world(mesh(gpus), options_of(executor), seed),
        random(seed),
        host(make_buffer(*this, kind::pinned, 0, most_bytes, random)),
        on_gpu(make_buffer(*this, memory, 0, most_bytes, random)) {}

  void expect_right() {
    driver.synchronize();
    for (const buffer* one : {&host, &on_gpu})
      EXPECT_EQ(std::memcmp(one->memory, one->expected.data(), one->expected.size()), 0);
    expect_no_errors();
  }
  int helpers() {
    int found = 0;
    for (int gpu = 1; gpu < static_cast<int>(described.gpu_count); ++gpu)
      found += driver.block_kernels(gpu);
    return found;
  }
};

TEST(lent_gpus, parts_of_a_batch_arrive_in_stream_order) {
  for (std::uint64_t seed = 0; seed < 6 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    batches in(seed);
    CUstream_st* const stream = seed % 3 == 0 ? nullptr : in.driver.stream(0, seed % 3 == 1);
    buffer later = make_buffer(in, kind::gpu, 0, most_bytes, in.random);
    for (int turn = 0; turn < 2; ++turn) {
      const bool even = below(in.random, 2) == 0;
      const batch up(in.on_gpu, in.host, even, in.random);
      EXPECT_EQ(in.engine->copy_blocks(up.blocks(), stream), blocks_way::kernel);
      // The later copies of the stream must see the whole batch, and the batch must see the earlier
      // copies.
      ASSERT_EQ(in.driver.table().copy(address(later.memory), address(in.on_gpu.memory), most_bytes,
                                       stream),
                0);
      later.expected = in.on_gpu.expected;
      const batch down(in.host, later, even, in.random);
      EXPECT_EQ(in.engine->copy_blocks(down.blocks(), stream), blocks_way::kernel);
    }
    EXPECT_EQ(in.driver.block_kernels(0), 4);
    EXPECT_EQ(in.driver.block_kernels(1), 4);
    EXPECT_EQ(in.driver.block_kernels(2), 4);
    in.driver.synchronize();
    EXPECT_EQ(std::memcmp(later.memory, later.expected.data(), most_bytes), 0);
    in.expect_right();
    in.engine.reset();
    in.expect_no_errors();
  }
}

TEST(lent_gpus, small_batches_captures_and_stated_ways_get_no_help) {
  batches in(1);
  const batch all(in.on_gpu, in.host, true, in.random);
  block_batch small = all.blocks();
  small.count = 100;
  EXPECT_EQ(in.engine->copy_blocks(small, in.driver.stream(0, false)), blocks_way::kernel);
  block_batch stated = all.blocks();
  stated.only = blocks_way::kernel;
  EXPECT_EQ(in.engine->copy_blocks(stated, in.driver.stream(0, false)), blocks_way::kernel);
  CUstream_st* const captured = in.driver.stream(0, false);
  in.driver.begin_capture(captured);
  EXPECT_EQ(in.engine->copy_blocks(all.blocks(), captured), blocks_way::kernel);
  EXPECT_EQ(in.driver.table().graph_destroy(in.driver.end_capture(captured)), 0);
  EXPECT_EQ(in.helpers(), 0);
  in.expect_right();
}

TEST(lent_gpus, one_gpu_and_direct_copies_get_no_help) {
  for (const std::uint32_t gpus : {1U, 3U}) {
    batches in(gpus, kind::gpu, gpus, gpus == 1 ? copy_executor::automatic : copy_executor::direct);
    const batch all(in.on_gpu, in.host, true, in.random);
    EXPECT_EQ(in.engine->copy_blocks(all.blocks(), nullptr), blocks_way::kernel);
    EXPECT_EQ(in.helpers(), 0);
    in.expect_right();
  }
}

TEST(lent_gpus, gpus_without_access_to_the_memory_do_not_help) {
  for (const kind memory : {kind::virtual_gpu, kind::pool_gpu}) {
    batches in(4, memory);
    const batch all(in.on_gpu, in.host, true, in.random);
    EXPECT_EQ(in.engine->copy_blocks(all.blocks(), nullptr), blocks_way::kernel);
    EXPECT_EQ(in.helpers(), 0);
    in.expect_right();
  }
  batches in(5, kind::virtual_gpu);
  in.driver.give_access(in.on_gpu.memory, 2);
  const batch all(in.on_gpu, in.host, true, in.random);
  EXPECT_EQ(in.engine->copy_blocks(all.blocks(), nullptr), blocks_way::kernel);
  EXPECT_EQ(in.driver.block_kernels(1), 0);
  EXPECT_EQ(in.driver.block_kernels(2), 1);
  in.expect_right();
}

TEST(lent_gpus, a_kernel_moves_blocks_between_gpus_with_access) {
  for (const int on : {0, 1}) {
    batches in(6);
    buffer other = make_buffer(in, kind::gpu, 1, most_bytes, in.random);
    CUstream_st* const stream = in.driver.stream(on, false);
    for (int turn = 0; turn < 2; ++turn) {  // the copier knows the memory at the second batch
      const batch all(in.on_gpu, other, true, in.random);
      EXPECT_EQ(in.engine->copy_blocks(all.blocks(), stream), blocks_way::kernel);
    }
    EXPECT_EQ(in.driver.block_kernels(on), 2);
    in.expect_right();
  }
  // In the mode `direct`, the driver copies the blocks.
  batches in(7, kind::gpu, 3, copy_executor::direct);
  buffer other = make_buffer(in, kind::gpu, 1, most_bytes, in.random);
  const batch all(in.on_gpu, other, true, in.random);
  EXPECT_NE(in.engine->copy_blocks(all.blocks(), in.driver.stream(0, false)), blocks_way::kernel);
}

TEST(lent_gpus, a_driver_that_fails_leaves_every_byte_or_an_error) {
  int whole = 0;
  for (const char* const function : {"launch", "event_record", "stream_wait", "module_load",
                                     "pointer_attributes", "stream_create", "event_create"})
    for (int from = 1; from < 4; ++from) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(from));
      batches in(static_cast<std::uint64_t>(from));
      in.engine->prepare();
      const batch all(in.on_gpu, in.host, true, in.random);
      in.driver.fail(function, from, 1);
      bool failed = false;
      try {
        (void)in.engine->copy_blocks(all.blocks(), in.driver.stream(0, false));
      } catch (const device_error&) {
        failed = true;
      }
      in.driver.fail(function, 1'000'000, 1);
      if (failed) {
        in.driver.synchronize();
        in.expect_no_errors();
        (void)in.engine->copy_blocks(all.blocks(), in.driver.stream(0, false));
      } else {
        ++whole;
      }
      in.expect_right();
      in.engine.reset();
      in.expect_no_errors();
    }
  EXPECT_GT(whole, 8);
}

}  // namespace
}  // namespace interlace::copy_engine_tests
