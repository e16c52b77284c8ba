// Compares the baselines on real GPUs with the host node. The baselines are NCCL with every
// collective, and unified memory with every hint. The tests run several epochs on poisoned
// replicas, in graphs and on streams. Devices are delayed at random.
//
// The tests of NCCL need one GPU for each device. They also need libnccl.so.2. The variable
// INTERLACE_NCCL may state the path of this library.
#include <algorithm>
#include <string>
#include <vector>

#include "cuda/memory/managed.hpp"
#include "cuda/transfer/nccl_library.hpp"
#include "delay.cuh"
#include "gpu.hpp"

namespace interlace::baselines_tests {
namespace {

using gpu_test::delay;
using gpu_test::options_for;
using gpu_test::random_at;
using kernel::collective;
using kernel::mechanism;
using kernel::memory_hint;

constexpr std::uint32_t lanes = 128;

// Each element becomes a mix of two old values that the element's device sees: the value of the
// element itself, and the value of a distant element.
struct mixer {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint32_t> data;
  // For each element of this device, the index of its distant element. The device subscribes to
  // all these distant elements.
  local<const std::uint32_t> source;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = begin + lane.global_index();
      if (i >= end) return;
      const auto other = lane.load_index(source, i - begin);
      lane.store(data, i,
                 lane.load(data, i) * 1664525U + lane.load(data, other) * 22695477U + 1013904223U);
    });
  }
};

enum class parts { equal, unequal, one_owner, halo };

struct problem {
  kernel::region_options options;
  std::vector<std::vector<std::uint8_t>> visible;  // [device][element]
  std::vector<std::vector<std::uint32_t>> source;  // [device][own element]
  std::vector<std::uint32_t> start;
  std::uint64_t elements = 0;

  problem(std::uint32_t devices, parts how, std::uint64_t per_device, std::uint64_t seed) {
    elements = per_device * devices;
    options.boundaries.push_back(0);
    for (std::uint32_t d = 1; d <= devices; ++d) {
      std::uint64_t cut = per_device * d;
      if (how == parts::unequal && d < devices) cut += 13 * d - 7;
      if (how == parts::one_owner) cut = elements;
      options.boundaries.push_back(cut);
    }
    const std::uint64_t halo = per_device / 5;
    if (how == parts::halo) {
      options.subscribers.resize(devices);
      for (std::uint32_t d = 0; d < devices; ++d) {
        const std::uint64_t begin = options.boundaries[d];
        const std::uint64_t end = options.boundaries[d + 1];
        if (d > 0) options.subscribers[d].push_back({begin, begin + halo, 1U << (d - 1)});
        if (d + 1 < devices) options.subscribers[d].push_back({end - halo, end, 1U << (d + 1)});
      }
    }
    for (std::uint64_t i = 0; i < elements; ++i) {
      start.push_back(static_cast<std::uint32_t>(random_at(seed, i)));
    }
    for (std::uint32_t d = 0; d < devices; ++d) {
      std::vector<std::uint8_t> sees(elements, how == parts::halo ? 0 : 1);
      const auto show = [&](std::uint64_t begin, std::uint64_t end) {
        std::fill(sees.begin() + static_cast<std::ptrdiff_t>(begin),
                  sees.begin() + static_cast<std::ptrdiff_t>(end), std::uint8_t{1});
      };
      show(options.boundaries[d], options.boundaries[d + 1]);
      for (const auto& ranges : options.subscribers) {
        for (const subscriber_range& r : ranges) {
          if ((r.devices >> d & 1U) != 0) show(r.begin, r.end);
        }
      }
      std::vector<std::uint32_t> seen;
      for (std::uint32_t i = 0; i < elements; ++i) {
        if (sees[i] != 0) seen.push_back(i);
      }
      std::vector<std::uint32_t> from;
      for (std::uint64_t i = options.boundaries[d]; i < options.boundaries[d + 1]; ++i) {
        from.push_back(seen[random_at(seed + 1, i) % seen.size()]);
      }
      visible.push_back(std::move(sees));
      source.push_back(std::move(from));
    }
  }
};

// The arrays and kernels of a problem on a node.
template <class Node>
struct iteration {
  Node& node;
  const problem& p;
  kernel::region<std::uint32_t> data;
  std::vector<local<std::uint32_t>> source;

  iteration(Node& on, const problem& of, const kernel::region_options& options)
      : node(on), p(of), data(on.template create_region<std::uint32_t>(options)) {
    node.set_front(data, p.start);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      source.push_back(node.template allocate<std::uint32_t>(d, p.source[d].size()));
      node.upload(source[d], p.source[d]);
    }
  }
  template <class Delay>
  void enqueue(const Delay& maybe_delay) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = p.options.boundaries[d];
      const std::uint64_t end = p.options.boundaries[d + 1];
      maybe_delay(d);
      node.launch(d, mixer{node.view(data, d), {source[d].data, source[d].size}, begin, end},
                  {(end - begin + lanes - 1) / lanes, lanes, 0}, data,
                  kernel::block_mapping::contiguous(begin, lanes, end));
    }
    node.exchange(data);
  }
};

// Returns the elements after `epochs` epochs, with the arithmetic of `mixer`. (Kernels of this file
// cannot run on the CPU.)
std::vector<std::uint32_t> reference(const problem& p, std::uint32_t devices,
                                     std::uint32_t epochs) {
  std::vector<std::uint32_t> values = p.start;
  for (std::uint32_t e = 0; e < epochs; ++e) {
    const std::vector<std::uint32_t> before = values;
    for (std::uint32_t d = 0; d < devices; ++d) {
      const std::uint64_t begin = p.options.boundaries[d];
      for (std::uint64_t i = begin; i < p.options.boundaries[d + 1]; ++i) {
        values[i] = before[i] * 1664525U + before[p.source[d][i - begin]] * 22695477U + 1013904223U;
      }
    }
  }
  return values;
}

void expect_equal(const cuda::node& node, const iteration<cuda::node>& work, const problem& p,
                  const std::vector<std::uint32_t>& expected) {
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const auto front = node.front(work.data, d);
    for (std::uint64_t i = 0; i < p.elements; ++i) {
      if (p.visible[d][i] == 0) continue;
      ASSERT_EQ(front[i], expected[i]) << "element " << i << " on device " << d;
    }
  }
}

constexpr std::uint32_t epochs = 5;  // after an odd number of epochs, the buffers are swapped
constexpr std::uint32_t runs = 3;

void run_and_compare(std::uint32_t devices, const problem& p, const kernel::region_options& options,
                     bool graph) {
  cuda::node node(options_for(devices));
  iteration<cuda::node> work(node, p, options);
  cuda::run_options how;
  how.graph = graph;
  how.repetitions = 3;  // launches the graph three times from the same state
  for (std::uint32_t r = 0; r < runs; ++r) {
    std::uint32_t epoch = r * epochs;
    const auto result = node.run(
        [&] {
          for (std::uint32_t e = 0; e < epochs; ++e, ++epoch) {
            work.enqueue([&](std::uint32_t d) {
              if (random_at(epoch, d) % 3 != 0) return;
              node.launch(d, delay{random_at(epoch, d + 16) % 100'000}, {1, delay::threads, 0});
            });
          }
        },
        how);
    EXPECT_GT(result.time_s, 0);
    expect_equal(node, work, p, reference(p, devices, (r + 1) * epochs));
  }
  const bool captured =
      std::none_of(node.remarks().begin(), node.remarks().end(), [](const std::string& remark) {
        return remark.find("was not captured") != std::string::npos;
      });
  // Everything except a prefetch of managed memory can be captured in a graph.
  if (graph && options.hint != memory_hint::read_mostly) {
    EXPECT_TRUE(captured) << node.remarks().back();
  }
}

using gpu_test::without_nccl;

struct nccl_case {
  std::uint32_t devices;
  parts how;
  collective by;
  bool graph;
};

std::string nccl_name(const testing::TestParamInfo<nccl_case>& info) {
  const char* patterns[] = {"equal", "unequal", "one_owner", "halo"};
  std::string by = kernel::collective_name(info.param.by);
  std::replace(by.begin(), by.end(), '-', '_');
  return by + "_" + patterns[static_cast<int>(info.param.how)] + "_" +
         std::to_string(info.param.devices) + (info.param.graph ? "_graph" : "_streams");
}

std::vector<nccl_case> nccl_cases() {
  std::vector<nccl_case> cases;
  for (const std::uint32_t devices : {1U, 2U, 3U, 4U}) {
    for (const parts how : {parts::equal, parts::unequal, parts::one_owner, parts::halo}) {
      for (const collective by : {collective::best_fitting, collective::all_gather,
                                  collective::broadcast, collective::send_receive}) {
        const bool everything = by == collective::all_gather || by == collective::broadcast;
        if (how == parts::halo && everything && devices > 1) continue;
        for (const bool graph : {true, false}) cases.push_back({devices, how, by, graph});
      }
    }
  }
  return cases;
}

class nccl_test : public testing::TestWithParam<nccl_case> {};
INSTANTIATE_TEST_SUITE_P(all, nccl_test, testing::ValuesIn(nccl_cases()), nccl_name);

TEST_P(nccl_test, equals_the_host_node) {
  const nccl_case& c = GetParam();
  if (const std::string reason = without_nccl(c.devices); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  for (const std::uint64_t per_device : {std::uint64_t{601}, std::uint64_t{1} << 17U}) {
    problem p(c.devices, c.how, per_device, 3 + per_device);
    p.options.mechanism = mechanism::nccl;
    p.options.collective = c.by;
    run_and_compare(c.devices, p, p.options, c.graph);
  }
}

TEST(nccl, says_its_version_and_that_multicast_is_off) {
  if (const std::string reason = without_nccl(2); !reason.empty()) GTEST_SKIP() << reason;
  cuda::node node(options_for(2));
  problem p(2, parts::equal, 100, 1);
  p.options.mechanism = mechanism::nccl;
  const iteration<cuda::node> work(node, p, p.options);
  ASSERT_FALSE(node.remarks().empty());
  EXPECT_EQ(node.remarks().front(), "NCCL " + cuda::nccl_library::of_process().version() +
                                        ", without multicast in the switches "
                                        "(NCCL_NVLS_ENABLE=0)");
}

// In a run with an event after each part of an epoch, the timeline of each device shows the NCCL
// call as a bar between the device's kernel and the next kernel.
TEST(nccl, stands_in_the_timeline) {
  if (const std::string reason = without_nccl(2); !reason.empty()) GTEST_SKIP() << reason;
  cuda::node node(options_for(2));
  problem p(2, parts::equal, 1U << 16U, 1);
  p.options.mechanism = mechanism::nccl;
  iteration<cuda::node> work(node, p, p.options);
  cuda::run_options how;
  how.detail = true;
  how.timeline_epochs = 2;
  const auto result = node.run(
      [&] {
        for (std::uint32_t e = 0; e < epochs; ++e) work.enqueue([](std::uint32_t) {});
      },
      how);
  expect_equal(node, work, p, reference(p, 2, epochs));
  std::uint32_t bars = 0;
  for (const kernel::timeline_event& e : result.timeline) {
    if (e.name != "nccl all-gather") continue;
    ++bars;
    EXPECT_STREQ(e.track, "copy");
    EXPECT_LT(e.start_s, e.end_s);
    EXPECT_LE(e.end_s, result.time_s * 1.01);
  }
  EXPECT_EQ(bars, 4U);
}

// One exchange has a reduction, and regions with several mechanisms.
TEST(nccl, stands_beside_other_mechanisms) {
  if (const std::string reason = without_nccl(2); !reason.empty()) GTEST_SKIP() << reason;
  const std::uint32_t devices = without_nccl(4).empty() ? 4 : 2;
  problem p(devices, parts::unequal, 5000, 8);
  cuda::node node(options_for(devices));
  p.options.mechanism = mechanism::nccl;
  iteration<cuda::node> first(node, p, p.options);
  auto other = p.options;
  other.mechanism = mechanism::bulk_copy;
  iteration<cuda::node> second(node, p, other);
  const auto sum = node.create_reduction<std::uint32_t, combine::add>(4, 1);
  node.run([&] {
    for (std::uint32_t e = 0; e < epochs; ++e) {
      for (auto* work : {&first, &second}) {
        for (std::uint32_t d = 0; d < devices; ++d) {
          const std::uint64_t begin = p.options.boundaries[d];
          const std::uint64_t end = p.options.boundaries[d + 1];
          node.launch(d,
                      mixer{node.view(work->data, d),
                            {work->source[d].data, work->source[d].size},
                            begin,
                            end},
                      {(end - begin + lanes - 1) / lanes, lanes, 0}, work->data,
                      kernel::block_mapping::contiguous(begin, lanes, end));
        }
      }
      node.exchange(first.data, second.data, sum);
    }
  });
  const auto expected = reference(p, devices, epochs);
  expect_equal(node, first, p, expected);
  expect_equal(node, second, p, expected);
}

TEST(nccl, refuses_a_gpu_for_several_devices) {
  if (const std::string reason = without_nccl(1); !reason.empty()) GTEST_SKIP() << reason;
  cuda::node_options o;
  o.devices = 2;
  o.ordinals = {0, 0};
  cuda::node node(o);
  kernel::region_options r;
  r.boundaries = {0, 4, 8};
  r.mechanism = mechanism::nccl;
  EXPECT_THROW(node.create_region<float>(r), usage_error);
}

struct managed_case {
  std::uint32_t devices;
  parts how;
  memory_hint hint;
  bool graph;
};

std::string managed_name(const testing::TestParamInfo<managed_case>& info) {
  const char* patterns[] = {"equal", "unequal", "one_owner", "halo"};
  std::string hint = kernel::memory_hint_name(info.param.hint);
  std::replace(hint.begin(), hint.end(), '-', '_');
  return hint + "_" + patterns[static_cast<int>(info.param.how)] + "_" +
         std::to_string(info.param.devices) + (info.param.graph ? "_graph" : "_streams");
}

std::vector<managed_case> managed_cases() {
  std::vector<managed_case> cases;
  for (const std::uint32_t devices : {1U, 2U, 4U}) {
    for (const parts how : {parts::unequal, parts::halo}) {
      for (const memory_hint hint : {memory_hint::none, memory_hint::read_mostly,
                                     memory_hint::preferred_location, memory_hint::accessed_by}) {
        for (const bool graph : {true, false}) cases.push_back({devices, how, hint, graph});
      }
    }
  }
  return cases;
}

class managed_test : public testing::TestWithParam<managed_case> {};
INSTANTIATE_TEST_SUITE_P(all, managed_test, testing::ValuesIn(managed_cases()), managed_name);

TEST_P(managed_test, equals_the_host_node) {
  const managed_case& c = GetParam();
  INTERLACE_NEED_GPUS(c.devices);
  problem p(c.devices, c.how, 20'011, 5);
  p.options.mechanism = mechanism::unified_memory;
  p.options.hint = c.hint;
  run_and_compare(c.devices, p, p.options, c.graph);
}

TEST(managed, is_refused_above_a_small_size) {
  INTERLACE_NEED_GPUS(1);
  cuda::node node(options_for(1));
  kernel::region_options r;
  r.boundaries = {0, cuda::managed_memory::most_bytes / 2 / sizeof(float) + 1};
  r.mechanism = mechanism::unified_memory;
  try {
    node.create_region<float>(r);
    FAIL() << "taken";
  } catch (const usage_error& e) {
    EXPECT_NE(std::string(e.what()).find("at most 268435456 (256 MiB) are allowed"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace interlace::baselines_tests
