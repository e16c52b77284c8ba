// The choice between several paths and a plain copy, and the calls of the driver that this choice
// needs.
#include "cuda/transfer/copy_classifier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "cuda/copy_world.hpp"

namespace interlace::copy_engine_tests {
namespace {

TEST(copy_classifier, known_plain_copies_ask_the_driver_little) {
  machine::machine on = mesh(2);
  on.links.erase(std::remove_if(on.links.begin(), on.links.end(),
                                [](const machine::link& edge) {
                                  return edge.b == machine::host_end() ||
                                         edge.a == machine::host_end();
                                }),
                 on.links.end());
  on.gpu.copy_bytes_per_s = on.gpu.dram.bytes_per_s = on.host.memory_bytes_per_s = 1e12;
  for (machine::link& edge : on.links) edge.bytes_per_s = edge.copy_bytes_per_s = 50e9;
  on.links.push_back(machine::pcie_link(machine::gpu_end(0), machine::host_end(), 1e9));
  on.links.push_back(machine::pcie_link(machine::gpu_end(1), machine::host_end(), 1e9));
  world in(on, options_of(copy_executor::automatic), 1);
  std::mt19937_64 random(2);
  buffer from = make_buffer(in, kind::gpu, 0, 60'000, random);
  buffer to = make_buffer(in, kind::gpu, 1, 60'000, random);
  CUstream_st* const stream = in.driver.stream(0, false);
  in.copy(to.memory, from.memory, 60'000, stream);
  const std::uint64_t before = in.driver.all_calls();
  in.copy(to.memory, from.memory, 60'000, stream);
  in.copy(to.memory, from.memory, 60'001 - 8, stream);  // this size is in the same size class
  EXPECT_EQ(in.driver.all_calls(),
            before + 6);  // each of two copies makes two queries and one copy
  EXPECT_EQ(in.engine->statistics().direct, 3U);
  in.expect_no_errors();
}

TEST(copy_classifier, copies_that_several_paths_might_change_are_one_plain_copy) {
  four_gpus in(options_of(copy_executor::graphs));
  CUstream_st* const stream = in.driver.stream(0, false);
  buffer pageable = make_buffer(in, kind::pageable, 0, four_gpus::bytes, in.random);
  buffer managed = make_buffer(in, kind::managed, 0, four_gpus::bytes, in.random);
  buffer same = make_buffer(in, kind::gpu, 0, four_gpus::bytes, in.random);
  buffer secluded = make_buffer(in, kind::virtual_gpu, 1, four_gpus::bytes, in.random);
  buffer pooled = make_buffer(in, kind::pool_gpu, 2, four_gpus::bytes, in.random);
  buffer pinned = make_buffer(in, kind::pinned, 0, four_gpus::bytes, in.random);
  in.move(in.gpu[0], pageable, stream);
  in.move(managed, in.gpu[0], stream);
  in.move(same, managed, stream);
  in.move(in.gpu[0], same, stream);
  in.move(secluded, in.gpu[0], stream);
  in.move(in.host, secluded, stream);
  in.move(pinned, in.host, stream);
  in.expect_right(pinned);
  EXPECT_EQ(in.engine->statistics().direct, 6U);
  EXPECT_EQ(in.driver.calls("copy"), 6U);
  // Only the copy from `secluded` to the host takes several paths. The GPU that owns this memory
  // sends every part of the message, so no other GPU needs access to the memory.
  EXPECT_EQ(in.engine->statistics().graphs, 1U);
  ASSERT_EQ(in.reports.size(), 1U);
  EXPECT_NE(in.reports[0].find("no access"), std::string::npos) << in.reports[0];
  for (int gpu = 0; gpu < 4; ++gpu) in.driver.give_access(secluded.memory, gpu);
  in.move(secluded, in.gpu[0], stream);
  in.expect_right(secluded);
  EXPECT_EQ(in.engine->statistics().graphs, 2U);
  in.move(pooled, in.gpu[0], stream);
  in.expect_right(pooled);
  EXPECT_EQ(in.engine->statistics().direct, 7U);
  for (int gpu = 0; gpu < 4; ++gpu) in.driver.give_access(pooled.memory, gpu);
  in.move(pooled, in.gpu[1], stream);
  in.expect_right(pooled);
  EXPECT_EQ(in.engine->statistics().graphs, 3U);
  in.expect_no_errors();
}

TEST(copy_classifier, below_the_threshold_a_message_is_one_call_of_the_driver) {
  copy_options options = options_of(copy_executor::automatic);
  options.threshold_bytes = 1000;
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  const std::uint64_t before = in.driver.all_calls();
  in.move(in.gpu[1], in.gpu[0], stream, 999);
  EXPECT_EQ(in.driver.calls("copy"), 1U);
  EXPECT_EQ(in.driver.all_calls(), before + 1);
  in.move(in.gpu[1], in.gpu[0], stream, 50'000);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  in.expect_right(in.gpu[1]);
}

}  // namespace
}  // namespace interlace::copy_engine_tests
