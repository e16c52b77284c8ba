// The names of the mechanisms for remote loads.
#include "interlace/kernel/remote_loads.hpp"

#include <gtest/gtest.h>

#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::kernel::remote_loads_tests {
namespace {

TEST(remote_loads, names) {
  EXPECT_FALSE(parse_remote_loads("direct").any());
  EXPECT_EQ(parse_remote_loads("bypass").steps, (remote_load_steps{true, false, false, false}));
  EXPECT_EQ(parse_remote_loads("fine-grained").steps,
            (remote_load_steps{true, true, false, false}));
  EXPECT_EQ(parse_remote_loads("coalesced").steps, (remote_load_steps{true, true, true, false}));
  EXPECT_EQ(parse_remote_loads("rdma-cache").steps, (remote_load_steps{false, false, false, true}));
  EXPECT_TRUE(parse_remote_loads("dualopt").decide);
  EXPECT_EQ(parse_remote_loads("dualopt").steps, remote_load_steps{});
  EXPECT_FALSE(parse_remote_loads("dualopt").watch);
  EXPECT_TRUE(parse_remote_loads("dualopt-adaptive").decide);
  EXPECT_TRUE(parse_remote_loads("dualopt-adaptive").watch);
  EXPECT_TRUE(parse_remote_loads("dualopt-pages").each_page);
  EXPECT_FALSE(parse_remote_loads("finepack").treats_loads());
  EXPECT_TRUE(parse_remote_loads("dualopt-finepack").decide);
  for (const char* name : {"finepack", "dualopt-finepack"}) {
    EXPECT_TRUE(parse_remote_loads(name).pack) << name;
    EXPECT_TRUE(parse_remote_loads(name).any()) << name;
  }
  EXPECT_EQ(parse_remote_loads("page-migration").pages, page_moves::first_touch);
  EXPECT_EQ(parse_remote_loads("griffin").pages, page_moves::griffin);
  EXPECT_TRUE(parse_remote_loads("griffin").any());
  EXPECT_TRUE(parse_remote_loads("page-migration").any());
  EXPECT_FALSE(parse_remote_loads("direct").any());
  try {
    parse_remote_loads("polling");
    ADD_FAILURE();
  } catch (const usage_error& e) {
    EXPECT_EQ(std::string(e.what()),
              "unknown mechanism 'polling' for remote loads; give one of direct, "
              "page-migration, griffin, bypass, fine-grained, coalesced, rdma-cache, dualopt, "
              "dualopt-adaptive, dualopt-pages, finepack and dualopt-finepack");
  }
}

}  // namespace
}  // namespace interlace::kernel::remote_loads_tests
