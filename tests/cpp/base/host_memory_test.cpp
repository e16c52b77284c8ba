#include "base/host_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace interlace {
namespace {

constexpr std::uint64_t kilobytes = 4'000;

class host_memory : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "host_memory_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    4000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::FILE* const file = std::fopen(path.c_str(), "we");
    ASSERT_NE(file, nullptr);
    (void)std::fputs(text.c_str(), file);
    (void)std::fclose(file);
  }
  std::optional<std::uint64_t> found() const {
    return available_host_bytes(root_ / "proc", root_ / "groups");
  }

  std::filesystem::path root_;
};

TEST_F(host_memory, of_the_machine_without_limits) {
  EXPECT_EQ(found(), kilobytes * 1024);
  write("proc/self/cgroup", "0::/a/b\n");
  write("groups/a/b/memory.max", "max\n");
  write("groups/a/b/memory.current", "5\n");
  EXPECT_EQ(found(), kilobytes * 1024);
}

TEST_F(host_memory, of_the_tightest_group_and_its_page_cache_counts_as_free) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("groups/a/memory.max", "1000000\n");
  write("groups/a/memory.current", "900000\n");
  EXPECT_EQ(found(), 100'000U);
  write("groups/a/memory.stat", "anon 7\ninactive_file 200000\nactive_file 300000\n");
  EXPECT_EQ(found(), 600'000U);
  write("groups/a/b/memory.max", "1000\n");
  write("groups/a/b/memory.current", "2000\n");
  EXPECT_EQ(found(), 0U);
}

TEST_F(host_memory, of_a_group_of_version_1) {
  write("proc/self/cgroup", "12:cpu:/a\n3:memory:/a\n");
  write("groups/memory/a/memory.limit_in_bytes", "5000\n");
  write("groups/memory/a/memory.usage_in_bytes", "4000\n");
  write("groups/memory/a/memory.stat", "total_inactive_file 1000\n");
  EXPECT_EQ(found(), 2'000U);
}

TEST_F(host_memory, of_a_container_that_sees_its_group_as_the_root) {
  write("proc/self/cgroup", "0::/away\n");
  write("groups/memory.max", "3000\n");
  write("groups/memory.current", "1000\n");
  EXPECT_EQ(found(), 2'000U);
}

TEST_F(host_memory, is_unknown_where_the_kernel_says_nothing) {
  write("proc/meminfo", "MemTotal: 9000 kB\n");
  EXPECT_EQ(found(), std::nullopt);
  EXPECT_EQ(available_host_bytes("/nowhere"), std::nullopt);
}

TEST_F(host_memory, is_known_here) { EXPECT_GT(available_host_bytes().value_or(1), 0U); }

}  // namespace
}  // namespace interlace
