#include "machine/validate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "machine/route.hpp"
#include "machine/sample.hpp"

namespace interlace::machine::validate_tests {
namespace {

TEST(validate, accepts_meshes) {
  for (const std::uint32_t gpus : {1U, 2U, 4U, 16U}) EXPECT_TRUE(validate(make_mesh(gpus)).empty());
}

struct fault {
  const char* sentence;
  std::function<void(machine&)> make;
};

TEST(validate, names_each_fault) {
  const std::vector<fault> faults{
      {"gpu.count is 0; it must be at least 1",
       [](machine& m) { m.gpu_count = 0, m.links.clear(); }},
      {"gpu.count is 17; it must be at most 16", [](machine& m) { m = make_mesh(17); }},
      {"gpu.compute_units is 0; it must be at least 1",
       [](machine& m) { m.gpu.compute_units = 0; }},
      {"gpu.clock_MHz is 0; it must be at least 1", [](machine& m) { m.gpu.clock_hz = 0; }},
      {"gpu.clock_MHz is nan; it must be at least 1",
       [](machine& m) { m.gpu.clock_hz = std::nan(""); }},
      {"gpu.warp_width_lanes is 48; it must be a power of two",
       [](machine& m) { m.gpu.warp_width = 48; }},
      {"gpu.warp_width_lanes is 128; it must be at most 64",
       [](machine& m) { m.gpu.warp_width = 128; }},
      {"gpu.issue.fp64_lanes_per_clock is 0; it must be at least 1",
       [](machine& m) { m.gpu.issue.fp64 = 0; }},
      {"gpu.l1.sector_bytes is 256; it must divide gpu.l1.line_bytes, which is 128",
       [](machine& m) { m.gpu.l1.sector_bytes = 256; }},
      {"gpu.l1.line_bytes is 128; it must be at most 96, because gpu.l1.sector_bytes is 16",
       [](machine& m) { m.gpu.l1.sector_bytes = 16; }},
      {"gpu.l1.line_bytes is 32; it must be 64 or 128",
       [](machine& m) { m.gpu.l1.line_bytes = 32; }},
      {"gpu.l2.size_KiB is 6144.0625; it must be a whole number",
       [](machine& m) { m.gpu.l2.bytes += 64; }},
      {"gpu.l2.size_KiB is 6145; it must be a multiple of gpu.l2.banks x gpu.l2.ways x "
       "gpu.l2.line_bytes, which is 128",
       [](machine& m) { m.gpu.l2.bytes += 1024; }},
      {"gpu.l2.line_bytes is 64; it must be gpu.l1.line_bytes, which is 128",
       [](machine& m) { m.gpu.l2.line_bytes = 64; }},
      {"gpu.l2.sector_bytes is 32; it must be gpu.l1.sector_bytes, which is 64",
       [](machine& m) { m.gpu.l1.sector_bytes = 64; }},
      {"gpu.l2.banks is 0; it must be at least 1", [](machine& m) { m.gpu.l2.banks = 0; }},
      {"gpu.dram.bandwidth_GB_per_s is inf; it must be at most 1000000000",
       [](machine& m) { m.gpu.dram.bytes_per_s = std::numeric_limits<double>::infinity(); }},
      {"gpu.remote_store_bytes is 12; it must be a power of two",
       [](machine& m) { m.gpu.remote_store_bytes = 12; }},
      {"gpu.store_GB_per_s_per_compute_unit is -1e-09; it must be at least 0.1",
       [](machine& m) { m.gpu.store_bytes_per_s = -1; }},
      {"gpu.copy.engines is 0; it must be at least 1", [](machine& m) { m.gpu.copy_engines = 0; }},
      {"gpu.copy.peer_engines is 4; it must be at most gpu.copy.engines, which is 3",
       [](machine& m) { m.gpu.copy_peer_engines = m.gpu.copy_engines + 1; }},
      {"gpu.tlb.page_KiB is 4.883; it must be a whole number",
       [](machine& m) { m.gpu.tlb = {5000, 64, 64, 0, 4, 4096, 64, 0, 64, 16, 0}; }},
      {"gpu.tlb.page_KiB is 5; it must be a power of two",
       [](machine& m) { m.gpu.tlb = {5120, 64, 64, 0, 4, 4096, 64, 0, 64, 16, 0}; }},
      {"gpu.tlb.l1_ways is 0; it must be at least 1",
       [](machine& m) { m.gpu.tlb = {4096, 64, 0, 0, 4, 4096, 64, 0, 64, 16, 0}; }},
      {"gpu.tlb.l2_entries is 192; it must be a power of two times gpu.tlb.l2_ways, which is 64",
       [](machine& m) { m.gpu.tlb = {4096, 64, 64, 0, 4, 192, 64, 0, 64, 16, 0}; }},
      {"gpu.tlb.walks is 0; it must be at least 1",
       [](machine& m) { m.gpu.tlb = {4096, 64, 64, 0, 4, 4096, 64, 0, 64, 0, 0}; }},
      {"gpu.tlb is missing; gpu.griffin needs it",
       [](machine& m) { m.gpu.griffin = {1, 1000, 1, 1, 0.5, 1, 2, 2}; }},
      {"gpu.griffin.look_periods is 0; it must be at least 1",
       [](machine& m) { m.gpu.griffin = {1, 1000, 1, 0, 0.5, 1, 2, 2}; }},
      {"gpu.griffin.counting_clocks is 0; it must be at least 1",
       [](machine& m) { m.gpu.griffin = {1, 0, 1, 1, 0.5, 1, 2, 2}; }},
      {"gpu.clock_MHz is 2000000; it must be at most 1000000, because gpu.griffin.counting_clocks "
       "is 1",
       [](machine& m) {
         m.gpu.tlb = {4096, 64, 64, 0, 4, 4096, 64, 0, 64, 16, 0};
         m.gpu.griffin = {1, 1, 1, 1, 0.5, 1, 2, 2};
         m.gpu.clock_hz = 2e12;
       }},
      {"gpu.dualopt.rdma_cache_KiB is 6144; it must be less than gpu.l2.size_KiB, which is 6144",
       [](machine& m) { m.gpu.dualopt.rdma_cache_bytes = m.gpu.l2.bytes; }},
      {"gpu.launch.device_pending_launches is 0; it must be at least 1",
       [](machine& m) { m.gpu.device_launches_pending = 0; }},
      {"host.memory_GB_per_s is -1e-09; it must be at least 0.1",
       [](machine& m) { m.host.memory_bytes_per_s = -1; }},
      {"link 0: an end does not exist", [](machine& m) { m.links[0].b = gpu_end(9); }},
      {"link 0: an end does not exist", [](machine& m) { m.links[0].b = switch_end(0); }},
      {"link 0: the same device is at both ends", [](machine& m) { m.links[0].b = m.links[0].a; }},
      {"link 1: bandwidth_GB_per_s is 0; it must be at least 0.1",
       [](machine& m) { m.links[1].bytes_per_s = 0; }},
      {"link 1: copy_GB_per_s is 51; it must be at most bandwidth_GB_per_s, which is 50",
       [](machine& m) { m.links[1].copy_bytes_per_s = 51e9; }},
      {"link 1: copy_both_GB_per_s is 101; it must be at most 100, because bandwidth_GB_per_s is "
       "50",
       [](machine& m) { m.links[1].copy_both_bytes_per_s = 101e9; }},
      {"host.copy_write_GB_per_s is 101; it must be at most host.memory_GB_per_s, which is 100",
       [](machine& m) { m.host.copy_write_bytes_per_s = 101e9; }},
      {"link 1: queue_KiB is 0; it must be more than 0",
       [](machine& m) { m.links[1].queue_bytes = 0; }},
      {"link 1: queue_KiB is 1048577; it must be at most 1048576",
       [](machine& m) { m.links[1].queue_bytes = (std::uint64_t{1} << 30U) + 1024; }},
      // These links are so slow that their times need more than 63 bits.
      {"link 1: bandwidth_GB_per_s is 1e-09; it must be at least 0.1",
       [](machine& m) { m.links[1].bytes_per_s = 1; }},
      {"link 1: copy_GB_per_s is 1e-09; it must be at least 0.1",
       [](machine& m) { m.links[1].copy_bytes_per_s = 1; }},
      {"gpu.l2.bandwidth_GB_per_s is 0.09; it must be at least 0.1",
       [](machine& m) { m.gpu.l2.bytes_per_s = 9e7; }},
      {"gpu.clock_MHz is 1e-12; it must be at least 1", [](machine& m) { m.gpu.clock_hz = 1e-6; }},
      {"gpu.remote_write_queue.lines_per_destination is 0; it must be at least 1",
       [](machine& m) { m.gpu.write_queue.entries = 0; }},
      {"gpu.remote_write_queue.subheader_bytes is 7; it must be at most 6",
       [](machine& m) { m.gpu.write_queue.subheader_bytes = 7; }},
      {"gpu.remote_write_queue.payload_bytes is 132; it must be at least 133, because "
       "gpu.l2.line_bytes is 128 and gpu.remote_write_queue.subheader_bytes is 5",
       [](machine& m) { m.gpu.write_queue.payload_bytes = 132; }},
      {"gpu.remote_write_queue.payload_bytes is 4097; it must be at most 4096",
       [](machine& m) { m.gpu.write_queue.payload_bytes = 4097; }},
      {"gpu.gps.page_KiB is 0; it must be at least 1",
       [](machine& m) { m.gpu.gps.page_bytes = 0; }},
      {"link 0: NVLink packets carry 16 to 256 B in steps of 16",
       [](machine& m) { m.links[0].protocol.max_payload_bytes = 512; }},
      {"link 6: PCIe payload sizes are powers of two",
       [](machine& m) { m.links[6].protocol.max_payload_bytes = 300; }},
      {"link 10: a second nvlink2 link between the same devices",
       [](machine& m) {
         m.links.push_back(m.links[0]);
         std::swap(m.links.back().a, m.links.back().b);
       }},
      {"no path from gpu0 to gpu3",
       [](machine& m) {
         std::erase_if(m.links, [](const link& edge) {
           return edge.a == gpu_end(3) || edge.b == gpu_end(3);
         });
       }},
  };
  for (const fault& one : faults) {
    machine made = make_mesh(4);
    one.make(made);
    const std::vector<std::string> found = validate(made);
    ASSERT_FALSE(found.empty()) << one.sentence;
    EXPECT_EQ(found.front(), one.sentence);
  }
}

TEST(validate, a_valid_random_machine_has_all_routes) {
  std::mt19937 random(7);
  int valid = 0;
  for (int round = 0; round < 300; ++round) {
    machine made = make_machine(1 + static_cast<std::uint32_t>(random() % 6));
    made.switches = {{"one", 0}, {"two", 0}};
    const auto any_end = [&]() -> endpoint {
      const auto pick = static_cast<std::uint32_t>(random() % (made.gpu_count + 3));
      if (pick < made.gpu_count) return gpu_end(pick);
      return pick == made.gpu_count + 2 ? host_end() : switch_end(pick - made.gpu_count);
    };
    for (int count = 0; count < 14; ++count)
      made.links.push_back(make_link(any_end(), any_end(), 1e9, protocol_kind::nvlink2,
                                     "kind" + std::to_string(count)));
    std::erase_if(made.links, [](const link& edge) { return edge.a == edge.b; });
    if (!validate(made).empty()) continue;
    ++valid;
    for (std::uint32_t one = 0; one < made.gpu_count; ++one)
      for (std::uint32_t other = 0; other < made.gpu_count; ++other)
        EXPECT_TRUE(route(made, gpu_end(one), gpu_end(other)).has_value())
            << "round " << round << ": gpu" << one << " to gpu" << other;
  }
  EXPECT_GT(valid, 30);
}

}  // namespace
}  // namespace interlace::machine::validate_tests
