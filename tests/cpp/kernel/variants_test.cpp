// The names of the variants of the baselines. A node must run each variant, or say why it cannot.
#include "interlace/kernel/variants.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/host/node.hpp"
#include "interlace/sim/node.hpp"
#include "run/variant.hpp"
#include "sim/described.hpp"

namespace interlace::variants_tests {
namespace {

using kernel::mechanism;

template <class Function>
std::string refusal(const Function& f) {
  try {
    f();
  } catch (const usage_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(variants, names_are_read_back) {
  using kernel::collective;
  using kernel::memory_hint;
  for (const auto c : {collective::best_fitting, collective::all_gather, collective::broadcast,
                       collective::send_receive}) {
    EXPECT_EQ(kernel::parse_collective(kernel::collective_name(c)), c);
  }
  for (const auto h : {memory_hint::none, memory_hint::read_mostly, memory_hint::preferred_location,
                       memory_hint::accessed_by}) {
    EXPECT_EQ(kernel::parse_memory_hint(kernel::memory_hint_name(h)), h);
  }
  EXPECT_EQ(refusal([] { kernel::parse_collective("gather"); }),
            "unknown collective of nccl 'gather'; give one of best-fitting, all-gather, broadcast, "
            "send-receive");
  EXPECT_EQ(refusal([] { kernel::parse_memory_hint("prefetch"); }),
            "unknown hint of unified-memory 'prefetch'; give one of none, read-mostly, "
            "preferred-location, accessed-by");
}

TEST(variants, a_variant_belongs_to_its_mechanism) {
  kernel::region_options o;
  o.mechanism = mechanism::nccl;
  run::set_variant(o, "");
  EXPECT_EQ(o.collective, kernel::collective::best_fitting);
  run::set_variant(o, "broadcast");
  EXPECT_EQ(o.collective, kernel::collective::broadcast);
  o.mechanism = mechanism::unified_memory;
  run::set_variant(o, "accessed-by");
  EXPECT_EQ(o.hint, kernel::memory_hint::accessed_by);
  o.mechanism = mechanism::split;
  EXPECT_EQ(refusal([&] { run::set_variant(o, "broadcast"); }),
            "split has no variants, and 'broadcast' is given");
}

struct fill {
  replicated<float> out;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = begin + lane.global_index();
      if (i < end) lane.store(out, i, static_cast<float>(i));
    });
  }
};

kernel::region_options thirds(mechanism how) {
  kernel::region_options o;
  o.boundaries = {0, 10, 25, 30};
  o.mechanism = how;
  return o;
}

TEST(variants, on_host_they_copy_at_the_exchange) {
  for (const mechanism how : {mechanism::nccl, mechanism::unified_memory}) {
    host::node node({.devices = 3, .warp_width = 32, .checks = true});
    const auto r = node.create_region<float>(thirds(how));
    node.set_front(r, std::vector<float>(30, -1));
    const std::vector<std::uint64_t> cut = {0, 10, 25, 30};
    for (std::uint32_t d = 0; d < 3; ++d) {
      node.launch(d, fill{node.view(r, d), cut[d], cut[d + 1]}, {1, 32, 0}, r,
                  kernel::block_mapping::contiguous(cut[d], 32, cut[d + 1]));
    }
    node.exchange(r);
    std::vector<float> expected(30);
    std::iota(expected.begin(), expected.end(), 0.0F);
    for (std::uint32_t d = 0; d < 3; ++d) EXPECT_EQ(node.front(r, d), expected);
  }
}

TEST(variants, simulated_machines_refuse_agents_that_copy_in_bulk) {
  sim::node node(test::meshed(3, machine::protocol_kind::nvlink2), 3, [] {});
  kernel::region_options o = thirds(mechanism::polling);
  EXPECT_EQ(refusal([&] { node.create_region<float>(o); }), "nothing");
  o.agent_copy = kernel::agent_copy::bulk;
  EXPECT_EQ(refusal([&] { node.create_region<float>(o); }),
            "an agent that copies in bulk is measured on real GPUs and not simulated; say with "
            "--chunks and --threads what agents to simulate");
}

TEST(variants, simulated_machines_refuse_them) {
  for (const mechanism how : {mechanism::nccl, mechanism::unified_memory}) {
    sim::node node(test::meshed(3, machine::protocol_kind::nvlink2), 3, [] {});
    EXPECT_EQ(refusal([&] { node.create_region<float>(thirds(how)); }),
              std::string(kernel::mechanism_name(how)) +
                  " is measured on real GPUs and not simulated; leave it out, or take bulk-copy, "
                  "which also moves everything at the exchange");
  }
}

}  // namespace
}  // namespace interlace::variants_tests
