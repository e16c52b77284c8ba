#include "plan/resources.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "machine/sample.hpp"

namespace interlace::plan::resources_tests {
namespace {

using machine::gpu_end;
using machine::host_end;

std::vector<std::string> names(const resources& shared, const leg& part) {
  std::vector<std::string> found;
  for (const std::size_t used : part.uses) found.push_back(shared.at(used).name);
  return found;
}

const resource& named(const resources& shared, const std::string& name) {
  return *std::find_if(shared.all().begin(), shared.all().end(),
                       [&](const resource& one) { return one.name == name; });
}

TEST(resources, a_copy_takes_links_memory_and_an_engine) {
  machine::machine mesh = machine::make_mesh(2);
  mesh.host.copy_write_bytes_per_s = 70e9;
  const resources shared(mesh);
  const auto peer = shared.copy(gpu_end(0), gpu_end(1));
  ASSERT_TRUE(peer);
  EXPECT_EQ(names(shared, *peer),
            (std::vector<std::string>{"gpu0 -> gpu1", "the memory of gpu0", "the memory of gpu1"}));
  EXPECT_EQ(peer->gpu, 0U);
  EXPECT_EQ(shared.at(peer->engines).name, "the copy engines of gpu0");
  EXPECT_EQ(peer->latency_ps, 300'000U);
  // A packet of 256 bytes of payload has a header of one flit (16 bytes).
  EXPECT_DOUBLE_EQ(peer->bytes_per_s, 50e9 * 256 / 272);

  const auto up = shared.copy(gpu_end(1), host_end());
  ASSERT_TRUE(up);
  EXPECT_EQ(names(shared, *up),
            (std::vector<std::string>{"gpu1 -> host", "the memory of gpu1",
                                      "the memory of the host", "writes to the host's memory"}));
  const auto down = shared.copy(host_end(), gpu_end(1));
  ASSERT_TRUE(down);
  EXPECT_EQ(down->gpu, 1U);
  EXPECT_EQ(shared.at(down->port).name, "host -> gpu1");
  EXPECT_FALSE(shared.copy(host_end(), host_end()));
}

TEST(resources, measured_rates_count_before_packets) {
  machine::machine mesh = machine::make_mesh(2);
  mesh.links[0].copy_bytes_per_s = 48e9;
  mesh.links[0].copy_both_bytes_per_s = 90e9;
  const resources shared(mesh);
  const auto peer = shared.copy(gpu_end(1), gpu_end(0));
  ASSERT_TRUE(peer);
  EXPECT_DOUBLE_EQ(peer->bytes_per_s, 48e9);
  EXPECT_EQ(names(shared, *peer)[1], "both directions of gpu0 - gpu1");
}

TEST(resources, a_copy_crosses_switches) {
  machine::machine two = machine::make_machine(2);
  two.switches = {{"nvswitch", 100'000}};
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu)
    two.links.push_back(machine::make_link(gpu_end(gpu), machine::switch_end(0), 150e9));
  const resources shared(two);
  const auto peer = shared.copy(gpu_end(0), gpu_end(1));
  ASSERT_TRUE(peer);
  EXPECT_EQ(shared.at(peer->port).name, "gpu0 -> nvswitch");
  EXPECT_EQ(peer->latency_ps, 700'000U);
  EXPECT_FALSE(shared.copy(gpu_end(0), host_end()));
}

TEST(resources, traffic_leaves_a_rest_and_a_fair_part) {
  const machine::machine mesh = machine::make_mesh(3);
  resources shared(mesh);
  ASSERT_TRUE(shared.add({{gpu_end(0), gpu_end(1)}, 0}));
  ASSERT_TRUE(shared.add({{gpu_end(1), host_end(), gpu_end(2)}, 4e9}));
  const resource& link = named(shared, "gpu0 -> gpu1");
  EXPECT_DOUBLE_EQ(link.rest(), 0);
  EXPECT_DOUBLE_EQ(link.fair(), link.capacity / 2);
  EXPECT_DOUBLE_EQ(named(shared, "gpu1 -> gpu0").rest(), link.capacity);
  const resource& up = named(shared, "gpu1 -> host");
  EXPECT_DOUBLE_EQ(up.rest(), up.capacity - 4e9);
  EXPECT_DOUBLE_EQ(up.fair(), up.capacity - 4e9);
  EXPECT_DOUBLE_EQ(named(shared, "the memory of the host").rest(), 100e9 - 8e9);
  EXPECT_FALSE(shared.add({{host_end(), host_end()}, 0}));
  EXPECT_FALSE(shared.add({{gpu_end(0)}, 0}));
}

}  // namespace
}  // namespace interlace::plan::resources_tests
