#include "machine/discover.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "machine/fake_driver.hpp"
#include "machine/route.hpp"
#include "machine/sample.hpp"
#include "machine/validate.hpp"

namespace interlace::machine::discover_tests {
namespace {

// Returns a description. Some of its properties cannot come from the driver, but only from a
// description of the same model.
machine known_h200() {
  machine made = make_machine(4);
  made.name = "hgx-h200-4";
  made.gpu.model = "NVIDIA H200";
  made.gpu.l2 = {61440 << 10, 20, 128, 32, 96, 141'600, 128, 9.7e12, true};
  made.gpu.dram.bytes_per_s = 3.888e12;
  made.switches = {{"nvswitch", 90'000}};
  for (std::uint32_t index = 0; index < 4; ++index) {
    link edge = make_link(gpu_end(index), switch_end(0), 419e9, protocol_kind::nvlink4, "nvlink4");
    edge.width = 18;
    edge.latency_ps = 180'000;
    edge.copy_bytes_per_s = 393e9;
    edge.copy_both_bytes_per_s = 778e9;
    made.links.push_back(edge);
  }
  return made;
}

machine known_v100() {
  machine made = make_mesh(4);
  made.name = "4x-volta-nvlink2";
  for (link& edge : made.links) edge.width = edge.protocol.kind == protocol_kind::nvlink2 ? 2 : 16;
  return made;
}

bool said(const discovery& result, const std::string& part) {
  return std::any_of(result.remarks.begin(), result.remarks.end(), [&](const std::string& remark) {
    return remark.find(part) != std::string::npos;
  });
}

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string refusal(fake_driver& driver) {
  try {
    discover(driver, {known_h200()});
  } catch (const usage_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(discover, four_h200_on_nvswitch) {
  fake_driver driver = hgx(4);
  const discovery result = discover(driver, {known_v100(), known_h200()});
  const machine& found = result.found;
  EXPECT_TRUE(validate(found).empty());
  EXPECT_TRUE(result.remarks.empty());
  EXPECT_EQ(found.gpu_count, 4U);
  EXPECT_EQ(found.title, "4 x NVIDIA H200, discovered, driver 580.159");
  EXPECT_EQ(result.template_name, "hgx-h200-4");
  EXPECT_TRUE(result.same_model);
  // This value comes from the driver.
  EXPECT_EQ(found.gpu.compute_units, 132U);
  EXPECT_EQ(found.gpu.max_warps, 64U);
  EXPECT_EQ(found.gpu.dram.bytes, 150'000'000'000U);
  EXPECT_EQ(found.host.model, "Test CPU");
  // This value comes from the description.
  EXPECT_EQ(found.gpu.l2.hit_latency_ps, 141'600U);
  EXPECT_EQ(found.gpu.l2.banks, 96U);
  EXPECT_DOUBLE_EQ(found.gpu.dram.bytes_per_s, 3.888e12);
  EXPECT_TRUE(has(result.queried, "gpu.dram.capacity_GiB"));
  EXPECT_FALSE(has(result.queried, "gpu.dram.bandwidth_GB_per_s"));
  // The links and the switch.
  ASSERT_EQ(found.switches.size(), 1U);
  EXPECT_EQ(found.switches[0].latency_ps, 90'000U);
  ASSERT_EQ(found.links.size(), 8U);
  EXPECT_EQ(found.links[0].width, 18U);
  EXPECT_DOUBLE_EQ(found.links[0].bytes_per_s, 419e9);
  EXPECT_EQ(found.links[0].protocol.kind, protocol_kind::nvlink4);
  EXPECT_EQ(found.links[0].latency_ps, 180'000U);
  EXPECT_DOUBLE_EQ(found.links[0].copy_bytes_per_s, 393e9);
  EXPECT_DOUBLE_EQ(found.links[0].copy_both_bytes_per_s, 778e9);
  EXPECT_DOUBLE_EQ(found.links[4].copy_bytes_per_s, 0);
  EXPECT_NEAR(found.links[4].bytes_per_s, 63.015e9, 1e7);
  EXPECT_EQ(found.links[4].protocol.kind, protocol_kind::pcie5);
  EXPECT_NE(result.link_rates[0].find("478 GB/s raw"), std::string::npos);
  EXPECT_EQ(result.relations[0], (std::vector<std::string>{"X", "NV18", "NV18", "NV18"}));
  EXPECT_EQ(text(found, gpu_end(0), *route(found, gpu_end(0), gpu_end(3))),
            "gpu0 -nvlink4-> nvswitch -nvlink4-> gpu3");
}

TEST(discover, a_later_nvlink_version_than_the_gpu_has_is_not_believed) {
  fake_driver driver = hgx(2);
  for (installed_gpu& made : driver.boards)
    for (nvlink_port& port : made.nvlinks) port.version = 5;
  const discovery result = discover(driver, {known_h200()});
  EXPECT_EQ(result.found.links[0].protocol.kind, protocol_kind::nvlink4);
  EXPECT_DOUBLE_EQ(result.found.links[0].bytes_per_s, 419e9);
}

TEST(discover, links_without_a_known_end_go_to_a_switch) {
  fake_driver driver = hgx(2);
  for (installed_gpu& made : driver.boards)
    for (nvlink_port& port : made.nvlinks) port.remote = nvlink_remote::unknown;
  const discovery result = discover(driver, {known_h200()});
  EXPECT_EQ(result.relations[0][1], "NV18");
  EXPECT_TRUE(said(result, "NVML does not say where 36 NVLinks end"));
}

TEST(discover, two_gpus_on_pcie_without_peer_access) {
  fake_driver driver;
  driver.units = {h200(0), h200(1)};
  driver.boards = {board(0), board(1)};
  driver.boards[0].pcie_generation = driver.boards[1].pcie_generation = 4;
  driver.boards[1].pcie_width = 8;
  driver.no_peer_access = {{0, 1}, {1, 0}};
  const discovery result = discover(driver, {known_h200()});
  EXPECT_TRUE(validate(result.found).empty());
  EXPECT_TRUE(said(result, "No peer access between gpu0-gpu1: data between them go through"));
  ASSERT_EQ(result.found.links.size(), 2U);
  EXPECT_NEAR(result.found.links[0].bytes_per_s, 31.508e9, 1e7);
  EXPECT_NEAR(result.found.links[1].bytes_per_s, 15.754e9, 1e7);
  EXPECT_EQ(result.relations[0][1], "SYS");
  EXPECT_EQ(text(result.found, gpu_end(0), *route(result.found, gpu_end(0), gpu_end(1))),
            "gpu0 -pcie4-> host -pcie4-> gpu1");
}

TEST(discover, gpus_below_one_pcie_switch_share_its_port) {
  fake_driver driver;
  for (std::uint32_t index = 0; index < 4; ++index) {
    driver.units.push_back(h200(index));
    driver.boards.push_back(board(index));
  }
  driver.distance = [](const std::string& one, const std::string& other) {
    const bool same = (one[5] <= '2') == (other[5] <= '2');
    return same ? pcie_relation::pix : pcie_relation::node;
  };
  const discovery result = discover(driver, {known_h200()});
  EXPECT_TRUE(validate(result.found).empty());
  ASSERT_EQ(result.found.switches.size(), 2U);
  EXPECT_EQ(result.found.links.size(), 6U);
  EXPECT_EQ(result.relations[0][1], "PIX");
  EXPECT_EQ(result.relations[0][2], "NODE");
  EXPECT_EQ(text(result.found, gpu_end(0), *route(result.found, gpu_end(0), gpu_end(1))),
            "gpu0 -pcie5-> pcie0 -pcie5-> gpu1");
  EXPECT_EQ(text(result.found, gpu_end(1), *route(result.found, gpu_end(1), gpu_end(3))),
            "gpu1 -pcie5-> pcie0 -pcie5-> host -pcie5-> pcie1 -pcie5-> gpu3");
}

TEST(discover, v100_mesh_with_two_links_a_pair) {
  fake_driver driver;
  for (std::uint32_t index = 0; index < 4; ++index) {
    usable_gpu unit = h200(index);
    unit.name = "Tesla V100-SXM2-16GB";
    unit.capability_major = 7;
    unit.l2_bytes = 6291456;
    driver.units.push_back(unit);
    installed_gpu made = board(index, unit.name);
    made.pcie_generation = 3;
    for (std::uint32_t other = 0; other < 4; ++other)
      if (other != index)
        made.nvlinks.insert(made.nvlinks.end(), 2, {nvlink_remote::gpu, bus(other), 2, 25.781e9});
    driver.boards.push_back(made);
  }
  const discovery result = discover(driver, {known_h200(), known_v100()});
  EXPECT_TRUE(validate(result.found).empty());
  EXPECT_TRUE(result.remarks.empty());
  EXPECT_EQ(result.template_name, "4x-volta-nvlink2");
  EXPECT_EQ(result.found.links.size(), 10U);
  EXPECT_EQ(result.found.links[0].width, 2U);
  EXPECT_DOUBLE_EQ(result.found.links[0].bytes_per_s, 50e9);
  EXPECT_EQ(result.relations[2][3], "NV2");
  EXPECT_EQ(route(result.found, gpu_end(1), gpu_end(2))->size(), 1U);
  EXPECT_EQ(result.devices[0].nvlinks, 6U);
}

TEST(discover, a_gpu_that_vanished_is_left_out) {
  fake_driver driver = hgx(4);
  driver.lost_boards = {2};
  driver.lost_units = {2};
  const discovery result = discover(driver, {known_h200()});
  EXPECT_EQ(result.found.gpu_count, 3U);
  EXPECT_TRUE(said(result, "GPU 2 is left out: GPU is lost."));
  EXPECT_TRUE(said(result, "CUDA device 2 is left out: unspecified launch failure."));
  EXPECT_TRUE(validate(result.found).empty());
  EXPECT_EQ(result.devices[2].bus_id, bus(3));
}

TEST(discover, peer_access_is_asked_of_the_right_devices_when_one_is_lost) {
  fake_driver driver = hgx(3);
  driver.lost_units = {0};
  driver.no_peer_access = {{2, 1}};
  EXPECT_TRUE(said(discover(driver, {known_h200()}), "No peer access between gpu0-gpu1"));
}

TEST(discover, all_gpus_lost) {
  fake_driver driver = hgx(1);
  driver.lost_units = {0};
  EXPECT_EQ(refusal(driver),
            "no GPU answers; CUDA device 0 is left out: unspecified launch failure.");
}

TEST(discover, no_driver) {
  fake_driver driver;
  driver.failure = "no NVIDIA driver was found (no libcuda.so.1)";
  EXPECT_EQ(refusal(driver), driver.failure);
}

TEST(discover, driver_without_gpu) {
  fake_driver driver;
  EXPECT_EQ(refusal(driver), "an NVIDIA driver is there, but it finds no GPU");
}

TEST(discover, cuda_visible_devices_hides_some_or_all) {
  fake_driver driver = hgx(4);
  driver.visible = "3,1";
  driver.units = {h200(3), h200(1)};
  const discovery result = discover(driver, {known_h200()});
  EXPECT_EQ(result.found.gpu_count, 2U);
  EXPECT_TRUE(said(result, "CUDA_VISIBLE_DEVICES=3,1 shows 2 of 4 GPUs."));
  EXPECT_EQ(result.devices[0].bus_id, bus(3));
  EXPECT_EQ(result.devices[1].bus_id, bus(1));
  EXPECT_EQ(result.relations[0][1], "NV18");

  driver.units.clear();
  driver.visible = "";
  EXPECT_EQ(refusal(driver),
            "CUDA_VISIBLE_DEVICES is empty, which hides all 4 GPUs; unset the variable, or give it "
            "numbers of GPUs");
  driver.visible = "7";
  EXPECT_EQ(refusal(driver), "CUDA_VISIBLE_DEVICES=7 hides all 4 GPUs; give it numbers of GPUs");
}

TEST(discover, an_instance_of_a_split_gpu_has_no_links) {
  fake_driver driver = hgx(1);
  driver.boards[0].mig = true;
  driver.units[0].name = "NVIDIA H200 MIG 1g.18gb";
  driver.units[0].compute_units = 16;
  driver.units[0].l2_bytes = 7864320;
  const discovery result = discover(driver, {known_h200()});
  EXPECT_TRUE(said(result, "gpu0 is an instance of a split GPU (MIG)"));
  EXPECT_TRUE(said(result, "No machine description is for the GPU model NVIDIA H200 MIG 1g.18gb"));
  EXPECT_EQ(result.found.gpu.compute_units, 16U);
  EXPECT_EQ(result.devices[0].nvlinks, 0U);
  EXPECT_TRUE(result.found.switches.empty());
  EXPECT_TRUE(validate(result.found).empty());
}

TEST(discover, without_nvml) {
  fake_driver driver = hgx(2);
  driver.nvml = false;
  const discovery result = discover(driver, {known_h200()});
  EXPECT_TRUE(said(result, "NVML is not available"));
  EXPECT_EQ(result.relations[0][1], "PCIE");
  EXPECT_TRUE(validate(result.found).empty());
}

TEST(discover, another_model_takes_the_nearest_generation) {
  fake_driver driver = hgx(1);
  driver.units[0].name = "NVIDIA H100 80GB HBM3";
  // This size is not a multiple of the description's banks x ways x line size.
  driver.units[0].l2_bytes = 52428800;
  driver.units[0].memory_peak_bytes_per_s = 3.35e12;
  const discovery result = discover(driver, {known_v100(), known_h200()});
  EXPECT_EQ(result.template_name, "hgx-h200-4");
  EXPECT_FALSE(result.same_model);
  EXPECT_TRUE(said(result, "No machine description is for the GPU model NVIDIA H100 80GB HBM3"));
  EXPECT_EQ(result.found.gpu.l2.bytes, 52428800U);
  EXPECT_NEAR(result.found.gpu.dram.bytes_per_s, 0.85 * 3.35e12, 1);
  EXPECT_TRUE(validate(result.found).empty());
}

TEST(discover, different_gpus_and_too_many) {
  fake_driver driver = hgx(2);
  driver.units[1].name = "NVIDIA H100 80GB HBM3";
  EXPECT_TRUE(said(discover(driver, {known_h200()}), "The GPUs differ"));

  fake_driver many = hgx(1);
  many.units.assign(20, h200(0));
  const discovery result = discover(many, {known_h200()});
  EXPECT_EQ(result.found.gpu_count, 16U);
  EXPECT_TRUE(said(result, "Only the first 16 of 20 GPUs are used."));
}

TEST(discover, nothing_described) {
  fake_driver driver = hgx(2);
  const discovery result = discover(driver, {});
  EXPECT_TRUE(said(result, "The description is incomplete"));
  EXPECT_EQ(result.relations[0][1], "NV18");
}

TEST(discover, the_real_driver_answers_or_says_why_not) {
  const auto driver = open_driver();
  try {
    const discovery result = discover(*driver, {known_h200()});
    EXPECT_GE(result.found.gpu_count, 1U);
  } catch (const usage_error& error) {
    EXPECT_NE(std::string(error.what()), "");
  }
}

}  // namespace
}  // namespace interlace::machine::discover_tests
