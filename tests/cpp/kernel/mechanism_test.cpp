// The table of mechanisms in C++.
#include "interlace/kernel/mechanism.hpp"

#include <gtest/gtest.h>

#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::mechanism_tests {

namespace {

using namespace kernel;  // NOLINT(google-build-using-namespace)

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const usage_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(mechanism, has_a_name_that_is_read_back) {
  for (const mechanism_row& row : mechanism_rows) {
    EXPECT_EQ(parse_mechanism(row.name), row.value);
    EXPECT_EQ(std::string(mechanism_name(row.value)), row.name);
  }
  const std::string unknown = refusal([] { parse_mechanism("telepathy"); });
  EXPECT_EQ(unknown.rfind("unknown mechanism 'telepathy'; give one of bulk-copy, multi-path, ", 0),
            0U);
}

TEST(mechanism, is_refused_with_the_reason_of_its_row) {
  for (const mechanism_row& row : mechanism_rows) {
    const auto on = [&](node_kind node) { return refusal([&] { check_has(node, row.value); }); };
    const auto expected = [&](const char* reason) {
      return reason == nullptr ? "nothing" : std::string(row.name) + " " + reason;
    };
    if (row.needs_processes) {
      for (const node_kind node : {node_kind::host, node_kind::cuda}) {
        EXPECT_EQ(on(node),
                  expected("needs a process for each GPU, but a single process runs this node"));
      }
      continue;
    }
    EXPECT_EQ(on(node_kind::host), "nothing");
    EXPECT_EQ(on(node_kind::sim), expected(row.not_on_sim));
    EXPECT_EQ(on(node_kind::cuda), expected(row.not_on_cuda));
  }
  EXPECT_EQ(refusal([] { check_has(node_kind::cuda, mechanism::finepack); }),
            "finepack is hardware that no GPU has; name a machine to simulate it on");
}

TEST(mechanism, is_listed_by_trait) {
  EXPECT_EQ(mechanisms_with(&mechanism_row::bound), "infinite-bandwidth");
  EXPECT_EQ(mechanisms_with(&mechanism_row::control), "bulk-copy or split");
  EXPECT_EQ(mechanisms_with(&mechanism_row::of_regions),
            "bulk-copy, inline, polling or copy-engine");
}

// The traits of a mechanism agree with each other and with the parameters of that mechanism.
TEST(mechanism, traits_go_together) {
  for (const mechanism_row& row : mechanism_rows) {
    SCOPED_TRACE(row.name);
    bool chunks = false;
    for (const parameter_list& family : row.families) {
      for (const mechanism_parameter p : family) {
        chunks = chunks || p == mechanism_parameter::chunk_bytes;
      }
    }
    EXPECT_EQ(row.tracks_chunks, chunks);
    EXPECT_TRUE(!row.queues_stores || row.stores_inline);
    EXPECT_TRUE(!row.stores_to_readers || row.stores_inline);
    EXPECT_TRUE(!row.waits_for_each_chunk || row.tracks_chunks);
    EXPECT_TRUE(!row.control || row.tuned);
  }
}

TEST(mechanism, parameters_bound_the_options_of_a_region) {
  const auto refused = [](auto change) {
    region_options o;
    o.boundaries = {0, 64, 128};
    change(o);
    return refusal([&] { make_region_state(std::move(o), 4, 2); });
  };
  EXPECT_EQ(refused([](region_options&) {}), "nothing");
  EXPECT_EQ(refused([](region_options& o) { o.agent_threads = 65568; }),
            "an agent cannot have 65568 threads; give a multiple of 32 from 32 to 65536");
  EXPECT_EQ(refused([](region_options& o) { o.chunk_bytes = (1U << 30U) + 1; }),
            "chunks cannot have 1073741825 bytes; at most 1073741824 (1 GiB) are possible");
}

}  // namespace
}  // namespace interlace::mechanism_tests
