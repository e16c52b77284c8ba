// Reports about drivers and GPUs: some work, some are missing or too old, and some do not answer.
#include "machine/driver_report.hpp"

#include <gtest/gtest.h>

#include "machine/fake_driver.hpp"

namespace interlace::machine::driver_report_tests {
namespace {

TEST(driver_report, a_machine_on_which_everything_works) {
  fake_driver driver = hgx(2);
  driver.no_peer_access = {{1, 0}};
  const driver_report found = report_driver(driver, 13000, 90);
  EXPECT_TRUE(found.present);
  EXPECT_EQ(found.driver + " " + found.cuda, "580.159 13.0");
  EXPECT_EQ(found.problem + found.copies + found.kernels + found.reductions, "");
  EXPECT_EQ(found.installed, 2U);
  ASSERT_EQ(found.gpus.size(), 2U);
  EXPECT_EQ(found.gpus[1].name, "NVIDIA H200");
  EXPECT_EQ(found.gpus[1].capability, 90U);
  EXPECT_EQ(found.gpus[1].memory_bytes, 150'000'000'000U);
  EXPECT_TRUE(found.peer_access[0][1]);
  EXPECT_FALSE(found.peer_access[1][0]);
}

TEST(driver_report, an_old_driver_copies) {
  fake_driver driver = hgx(1);
  driver.version = {"535.1", "12.2"};
  const driver_report found = report_driver(driver, 13000, 90);
  EXPECT_EQ(found.problem + found.copies, "");
  EXPECT_NE(found.kernels.find("is for CUDA 12.2, and kernels need"), std::string::npos);
  EXPECT_NE(found.reductions.find("all-reduces need"), std::string::npos);
  driver.version = {"470.1", "11.4"};
  EXPECT_NE(report_driver(driver, 13000, 90).copies.find("CUDA 11.4, and copies need"),
            std::string::npos);
}

TEST(driver_report, an_old_gpu_copies) {
  fake_driver driver = hgx(2);
  driver.units[1].capability_major = 7;
  driver.units[1].capability_minor = 5;
  const driver_report found = report_driver(driver, 13000, 80);
  EXPECT_EQ(found.problem + found.copies + found.gpus[0].kernels, "");
  EXPECT_NE(found.kernels.find("GPU 1 has compute capability 7.5"), std::string::npos);
  EXPECT_EQ(found.kernels, found.gpus[1].kernels);
  // A build without CUDA reports the missing kernels in another message.
  EXPECT_EQ(report_driver(driver, 0, 0).kernels, "");
}

TEST(driver_report, gpus_that_are_lost_or_hidden_are_said) {
  fake_driver driver = hgx(3);
  driver.lost_boards = {2};
  driver.lost_units = {2};
  const driver_report found = report_driver(driver, 13000, 90);
  EXPECT_EQ(found.gpus.size(), 2U);
  ASSERT_EQ(found.lost.size(), 2U);
  EXPECT_EQ(found.lost[1], "CUDA device 2 does not answer: unspecified launch failure");
  fake_driver hidden = hgx(2);
  hidden.units.clear();
  hidden.visible = "";
  EXPECT_EQ(report_driver(hidden, 13000, 90).problem,
            "CUDA_VISIBLE_DEVICES is empty, which hides all GPUs; unset the variable, or give it "
            "numbers of GPUs");
  hidden.visible.reset();
  EXPECT_EQ(report_driver(hidden, 13000, 90).problem,
            "an NVIDIA driver is there, but it finds no GPU");
}

TEST(driver_report, without_a_driver_the_reason_is_everybodys) {
  fake_driver driver;
  driver.nvml = false;
  driver.failure = "no NVIDIA driver was found";
  const driver_report found = report_driver(driver, 13000, 90);
  EXPECT_FALSE(found.present);
  for (const std::string& reason : {found.problem, found.copies, found.kernels, found.reductions})
    EXPECT_EQ(reason, driver.failure);
  EXPECT_TRUE(found.gpus.empty());
}

}  // namespace
}  // namespace interlace::machine::driver_report_tests
