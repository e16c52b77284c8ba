// Tests of the readers of sizes and words that users write, and of the reader of system files.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/cut_text.hpp"
#include "base/read_file.hpp"
#include "base/size_text.hpp"

namespace interlace::text_tests {
namespace {

TEST(text, sizes) {
  EXPECT_EQ(size_of_text("0"), 0U);
  EXPECT_EQ(size_of_text("65536"), 65536U);
  EXPECT_EQ(size_of_text("64K"), 65536U);
  EXPECT_EQ(size_of_text("3M"), 3U << 20U);
  EXPECT_EQ(size_of_text("17179869183G"), std::uint64_t{17179869183} << 30U);
  for (const std::string_view wrong : {"", "K", "-1", "+1", " 1", "1 ", "1.5M", "1MB", "1k", "0x10",
                                       "17179869184G", "18446744073709551616"})
    EXPECT_EQ(size_of_text(wrong), std::nullopt) << wrong;
}

TEST(text, words) {
  using words = std::vector<std::string_view>;
  EXPECT_EQ(words_of(""), words{});
  EXPECT_EQ(words_of(" \n\t"), words{});
  EXPECT_EQ(words_of("one"), words{"one"});
  EXPECT_EQ(words_of("  A=1 B=2\n C\tD  "), (words{"A=1", "B=2", "C", "D"}));
}

TEST(text, files) {
  EXPECT_EQ(read_file("/no/such/file"), std::nullopt);
  EXPECT_EQ(read_file("/"), std::nullopt);  // a folder can be opened, but not read
  EXPECT_EQ(read_file("/dev/null"), "");
  const auto status = read_file("/proc/self/status");
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->rfind("Name:", 0), 0U);
}

}  // namespace
}  // namespace interlace::text_tests
