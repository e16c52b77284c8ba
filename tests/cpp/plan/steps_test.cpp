#include "plan/steps.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "plan/check_plan.hpp"
#include "plan/random_machine.hpp"

namespace interlace::plan::steps_tests {
namespace {

using machine::gpu_end;

// One message on a mesh of four GPUs, over the direct path and through three staging places.
plan uncut(const resources& shared, std::uint64_t bytes) {
  plan made;
  made.messages = {{gpu_end(0), gpu_end(1), bytes}};
  made.rounds = {0};
  for (const std::vector<machine::endpoint>& stops :
       {std::vector{gpu_end(0), gpu_end(1)}, std::vector{gpu_end(0), gpu_end(2), gpu_end(1)},
        std::vector{gpu_end(0), gpu_end(3), gpu_end(1)},
        std::vector{gpu_end(0), machine::host_end(), gpu_end(1)}}) {
    path way;
    way.stops = stops;
    way.reason = "for a test";
    for (std::size_t stop = 0; stop + 1 < stops.size(); ++stop)
      way.legs.push_back(*shared.copy(stops[stop], stops[stop + 1]));
    made.paths.push_back(std::move(way));
  }
  return made;
}

TEST(steps, a_part_for_each_share) {
  const machine::machine mesh = machine::make_mesh(4);
  const resources shared(mesh);
  plan made = uncut(shared, 1 << 20);
  cut(made, {{4, 2, 2, 0}, {1, 4, 8, 4}}, dealing::by_share, 1 << 20);
  EXPECT_EQ(made.paths[0].bytes, 1U << 19);
  EXPECT_EQ(made.paths[0].chunks, 1U);
  EXPECT_EQ(made.paths[1].bytes, 1U << 18);
  EXPECT_EQ(made.paths[1].chunks, 4U);
  EXPECT_EQ(made.paths[2].chunks, 8U);
  EXPECT_EQ(made.paths[3].bytes, 0U);
  EXPECT_EQ(made.steps.size(), 1U + 8 + 16);
  ASSERT_EQ(made.buffers.size(), 2U);
  EXPECT_EQ(made.buffers[0].bytes, 1U << 18);  // room for all four chunks of 2^16 bytes
  EXPECT_EQ(made.buffers[1].bytes, 1U << 17);  // room for four of the eight chunks of 2^15 bytes
  // The fifth chunk must wait until the first chunk has left.
  for (const step& copy : made.steps) {
    if (copy.path != 2 || copy.leg != 0) continue;
    if (copy.chunk < 4) {
      EXPECT_TRUE(copy.after.empty());
    } else {
      ASSERT_EQ(copy.after.size(), 1U);
      const step& left = made.steps[copy.after[0]];
      EXPECT_EQ(left.leg, 1U);
      EXPECT_EQ(left.chunk, copy.chunk - 4);
    }
  }
}

TEST(steps, round_robin_deals_in_turn) {
  const machine::machine mesh = machine::make_mesh(4);
  const resources shared(mesh);
  plan made = uncut(shared, 12 * 256);
  cut(made, {{1, 1, 1, 0}, {4, 4, 4, 4}}, dealing::round_robin, 1 << 20);
  std::vector<std::uint32_t> order(12);
  for (const step& copy : made.steps)
    if (copy.from.memory == memory::source) order.at(copy.from.offset / 256) = copy.path;
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(steps, a_bound_on_staging_makes_chunks_smaller) {
  const machine::machine mesh = machine::make_mesh(4);
  const resources shared(mesh);
  plan made = uncut(shared, 1 << 20);
  cut(made, {{2, 1, 1, 0}, {1, 1, 1, 1}}, dealing::by_share, 1 << 17);
  for (const staging_buffer& buffer : made.buffers) EXPECT_LE(buffer.bytes, 1U << 16);
  EXPECT_EQ(made.paths[1].chunks, 16U);
}

TEST(steps, no_more_copies_are_made_than_allowed) {
  const machine::machine mesh = machine::make_mesh(4);
  const resources shared(mesh);
  const shares wanted{{0, 1, 0, 0}, {1, 1, 1, 1}};
  for (const dealing order : {dealing::by_share, dealing::round_robin}) {
    plan made = uncut(shared, 1 << 20);  // 64 chunks of two copies each
    EXPECT_FALSE(cut(made, wanted, order, 1 << 16, 127));
    EXPECT_TRUE(cut(made, wanted, order, 1 << 16, 128));
    EXPECT_EQ(made.steps.size(), 128U);
    // If each chunk had 256 bytes, the number of chunks would overflow its type.
    made = uncut(shared, std::uint64_t{1} << 50U);
    EXPECT_FALSE(cut(made, wanted, order, 1 << 10, 4096));
  }
}

TEST(steps, every_byte_arrives_once_in_any_order_that_is_allowed) {
  const machine::machine mesh = machine::make_mesh(4);
  const resources shared(mesh);
  std::mt19937_64 random(11);
  for (int turn = 0; turn < 200; ++turn) {
    plan made = uncut(shared, 1 + random() % 40'000);
    shares wanted;
    for (int at = 0; at < 4; ++at) {
      wanted.bytes.push_back(up_to(random, 3) == 0 ? 0 : between(random, 0, 1));
      wanted.chunks.push_back(1 + up_to(random, 12));
    }
    if (wanted.bytes == std::vector<double>(4, 0)) wanted.bytes[0] = 1;
    const std::uint64_t staging = 1024 * (1 + up_to(random, 40));
    cut(made, wanted, up_to(random, 1) == 0 ? dealing::by_share : dealing::round_robin, staging);
    SCOPED_TRACE(turn);
    check_bytes(made, random);
    check_places(mesh, made, staging);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace interlace::plan::steps_tests
