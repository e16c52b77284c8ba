// Between the size classes there are no gaps, and no class is too wide.
#include "cuda/transfer/size_classes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace interlace::size_classes_tests {
namespace {

TEST(size_classes, follow_each_other) {
  std::size_t number = 0;
  for (std::uint64_t least = 0;; ++number) {
    const std::uint64_t most = cuda::class_most(least);
    ASSERT_LT(number, cuda::size_classes);
    for (const std::uint64_t bytes : {least, least + (most - least) / 2, most}) {
      ASSERT_EQ(cuda::size_class(bytes), number) << bytes;
      ASSERT_EQ(cuda::class_least(bytes), least) << bytes;
      ASSERT_EQ(cuda::class_most(bytes), most) << bytes;
    }
    ASSERT_LE(most - least, least / 8);
    if (most == std::numeric_limits<std::uint64_t>::max()) break;
    least = most + 1;
  }
}

}  // namespace
}  // namespace interlace::size_classes_tests
