// Texts that people write.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace
}  // namespace interlace::text_tests
