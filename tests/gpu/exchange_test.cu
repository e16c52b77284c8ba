// Exchanges between GPUs, with every mechanism and subscription. Each epoch has new random data on
// poisoned buffers. Random delays of devices make a missing wait visible.
#include <algorithm>
#include <cmath>
#include <limits>

#include "delay.cuh"
#include "gpu.hpp"

namespace interlace::exchange_tests {
namespace {

using gpu_test::delay;
using gpu_test::options_for;
using gpu_test::random_at;
using kernel::mechanism;

constexpr mechanism mechanisms[] = {mechanism::bulk_copy, mechanism::split,
                                    mechanism::inline_stores, mechanism::polling,
                                    mechanism::copy_engine};
constexpr std::uint32_t lanes = 128;
constexpr std::uint32_t epochs = 50;

// Returns the value of an element in an epoch. Every device can compute this value.
INTERLACE_HOST_DEVICE std::uint32_t value_of(std::uint64_t seed, std::uint64_t epoch,
                                             std::uint64_t element) {
  return static_cast<std::uint32_t>(random_at(seed + epoch, element));
}

// Compares the front with the values of the previous epoch, in all elements that this device owns
// or to which it subscribes. Writes the values of this epoch to the device's own part.
struct step {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint32_t> data;
  local<std::uint32_t> mismatches;
  local<const std::uint8_t> visible;  // the elements that this device must see
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t seed;
  std::uint64_t epoch;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.global_index(), data.size, lane.global_count())) {
        if (lane.load(visible, i) != 0 && lane.load(data, i) != value_of(seed, epoch, i)) {
          lane.atomic_add(mismatches, 0, 1);
        }
      }
      const std::uint64_t own = begin + lane.global_index();
      if (own < end) lane.store(data, own, value_of(seed, epoch + 1, own));
    });
  }
};

enum class subscription { everybody, halo, one_owner };

struct exchange_case {
  std::uint32_t devices;
  mechanism how;
  subscription who;
  bool graph;
};

std::string name_of(const testing::TestParamInfo<exchange_case>& info) {
  const exchange_case& c = info.param;
  std::string how = kernel::mechanism_name(c.how);
  how.erase(std::remove(how.begin(), how.end(), '-'), how.end());
  const char* subscriptions[] = {"everybody", "halo", "one_owner"};
  return how + "_" + subscriptions[static_cast<int>(c.who)] + "_" + std::to_string(c.devices) +
         "_" + (c.graph ? "graph" : "streams");
}

class exchange_test : public testing::TestWithParam<exchange_case> {};

struct harness {
  cuda::node node;
  std::uint64_t elements;
  kernel::region_options options;
  kernel::region<std::uint32_t> data;
  std::vector<local<std::uint32_t>> mismatches;
  std::vector<local<std::uint8_t>> visible;
  std::vector<std::vector<std::uint8_t>> visible_host;
  std::uint64_t seed;

  harness(std::uint32_t devices, mechanism how, subscription who, std::uint64_t n,
          std::uint64_t random_seed)
      : node(options_for(devices)), elements(n), seed(random_seed) {
    for (std::uint32_t d = 0; d <= devices; ++d) {
      // Parts are uneven, and do not begin at multiples of powers of two.
      options.boundaries.push_back(d == 0 ? 0 : d == devices ? n : n * d / devices + d * 7 - 3);
    }
    options.mechanism = how;
    options.split_ranges = 5;
    options.chunk_bytes = n < 100'000 ? 2048 : 262144;
    options.agent_threads = n < 100'000 ? 96 : 2048;
    const std::uint64_t halo = n / devices / 9;
    if (who != subscription::everybody) options.subscribers.resize(devices);
    for (std::uint32_t d = 0; d < devices; ++d) {
      const std::uint64_t begin = options.boundaries[d];
      const std::uint64_t end = options.boundaries[d + 1];
      if (who == subscription::halo) {
        if (d > 0) options.subscribers[d].push_back({begin, begin + halo, 1U << (d - 1)});
        if (d + 1 < devices) options.subscribers[d].push_back({end - halo, end, 1U << (d + 1)});
      } else if (who == subscription::one_owner && d != 0) {
        options.subscribers[d].push_back({begin, end, 1U});  // device 0 receives everything
      }
    }
    data = node.create_region<std::uint32_t>(options);
    std::vector<std::uint32_t> start(n);
    for (std::uint64_t i = 0; i < n; ++i) start[i] = value_of(seed, 0, i);
    node.set_front(data, start);
    for (std::uint32_t d = 0; d < devices; ++d) {
      std::vector<std::uint8_t> sees(n, who == subscription::everybody ? 1 : 0);
      std::fill(sees.begin() + static_cast<std::ptrdiff_t>(options.boundaries[d]),
                sees.begin() + static_cast<std::ptrdiff_t>(options.boundaries[d + 1]), 1);
      for (const auto& ranges : options.subscribers) {
        for (const subscriber_range& r : ranges) {
          if ((r.devices >> d & 1U) == 0) continue;
          std::fill(sees.begin() + static_cast<std::ptrdiff_t>(r.begin),
                    sees.begin() + static_cast<std::ptrdiff_t>(r.end), 1);
        }
      }
      visible.push_back(node.allocate<std::uint8_t>(d, n));
      node.upload(visible[d], sees);
      visible_host.push_back(std::move(sees));
      mismatches.push_back(node.allocate<std::uint32_t>(d, 1));
      node.upload(mismatches[d], {0});
    }
  }

  void enqueue(std::uint64_t epoch, bool delays) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const std::uint64_t begin = options.boundaries[d];
      const std::uint64_t end = options.boundaries[d + 1];
      const std::uint64_t blocks = (end - begin + lanes - 1) / lanes;
      if (delays && random_at(seed ^ 0xabcd, epoch * 16 + d) % 3 == 0) {
        node.launch(d, delay{random_at(seed, epoch * 16 + d) % 200'000}, {1, delay::threads, 0});
      }
      node.launch(d, step{node.view(data, d), mismatches[d], visible[d], begin, end, seed, epoch},
                  {blocks, lanes, 0}, data, kernel::block_mapping::contiguous(begin, lanes, end));
      // Another delay after the kernel makes some devices late, so the exchange of an early device
      // waits longest.
      if (delays && random_at(seed ^ 0x1234, epoch * 16 + d) % 4 == 0) {
        node.launch(d, delay{random_at(seed ^ 1, epoch * 16 + d) % 100'000},
                    {1, delay::threads, 0});
      }
    }
    node.exchange(data);
  }

  void expect_epoch(std::uint64_t epoch) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      ASSERT_EQ(node.download(mismatches[d])[0], 0U) << "on device " << d;
      const auto front = node.front(data, d);
      std::uint64_t wrong = 0;
      std::uint64_t first = 0;
      for (std::uint64_t i = 0; i < elements; ++i) {
        if (visible_host[d][i] == 0 || front[i] == value_of(seed, epoch, i)) continue;
        if (wrong++ == 0) first = i;
      }
      ASSERT_EQ(wrong, 0U) << "on device " << d << ", first at element " << first;
    }
  }
};

TEST_P(exchange_test, fifty_epochs_with_random_delays) {
  const exchange_case& c = GetParam();
  INTERLACE_NEED_GPUS(c.devices);
  for (const std::uint64_t n : {std::uint64_t{3001}, std::uint64_t{1} << 20U}) {
    harness h(c.devices, c.how, c.who, n, 7 + n);
    cuda::run_options o;
    o.graph = c.graph;
    const auto result = h.node.run(
        [&] {
          for (std::uint64_t e = 0; e < epochs; ++e) h.enqueue(e, true);
        },
        o);
    EXPECT_GT(result.time_s, 0);
    EXPECT_LT(result.time_s, 10);
    // A graph with many waits takes long to enqueue. The remarks of the node must say so.
    if (c.how != mechanism::copy_engine) {
      EXPECT_TRUE(h.node.remarks().empty()) << h.node.remarks().front();
    }
    h.expect_epoch(epochs);
  }
}

std::vector<exchange_case> all_cases() {
  std::vector<exchange_case> cases;
  for (const std::uint32_t devices : {1U, 2U, 3U, 4U}) {
    for (const mechanism how : mechanisms) {
      for (const subscription who :
           {subscription::everybody, subscription::halo, subscription::one_owner}) {
        for (const bool graph : {false, true}) cases.push_back({devices, how, who, graph});
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(all, exchange_test, testing::ValuesIn(all_cases()), name_of);

class runs_test : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(all, runs_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

// Outside of `run`, each call enqueues its work immediately, and the download waits for this work.
TEST_P(runs_test, works_outside_of_run) {
  INTERLACE_NEED_GPUS(GetParam());
  harness h(GetParam(), mechanism::split, subscription::everybody, 100'000, 3);
  for (std::uint64_t e = 0; e < 20; ++e) h.enqueue(e, true);
  h.expect_epoch(20);
}

// Launches a graph again from its initial state. Some graphs have an odd number of exchanges. After
// these graphs, the buffers are swapped.
TEST_P(runs_test, repeats_a_graph) {
  INTERLACE_NEED_GPUS(GetParam());
  for (const mechanism how : mechanisms) {
    harness h(GetParam(), how, subscription::everybody, 100'000, 5);
    cuda::run_options o;
    o.warm_ups = 2;
    o.repetitions = 5;
    std::uint64_t done = 0;
    for (const std::uint64_t count : {3U, 4U}) {
      h.node.run(
          [&] {
            for (std::uint64_t e = done; e < done + count; ++e) h.enqueue(e, false);
          },
          o);
      done += count;
      h.expect_epoch(done);
    }
  }
}

TEST_P(runs_test, details_add_up) {
  INTERLACE_NEED_GPUS(GetParam());
  harness h(GetParam(), mechanism::bulk_copy, subscription::everybody, 1U << 22U, 6);
  cuda::run_options o;
  o.detail = true;
  o.timeline_epochs = 2;
  const auto result = h.node.run(
      [&] {
        for (std::uint64_t e = 0; e < 6; ++e) h.enqueue(e, false);
      },
      o);
  h.expect_epoch(6);
  EXPECT_GE(result.copy_s, GetParam() == 1 ? 0 : 1e-6);
  EXPECT_LE(result.copy_s, result.time_s * 1.01);
  ASSERT_EQ(result.epoch_s.size(), 6U);
  double epochs_s = 0;
  for (const double epoch_s : result.epoch_s) {
    EXPECT_GT(epoch_s, 0);
    epochs_s += epoch_s;
  }
  EXPECT_GE(epochs_s, result.copy_s);
  EXPECT_LE(epochs_s, result.time_s * 1.01);
  // There are two epochs. In each epoch, each device has a kernel, a copy to each peer, and an
  // exchange.
  EXPECT_EQ(result.timeline.size(), GetParam() * 2U * (1U + (GetParam() - 1) + 1U));
  for (const auto& e : result.timeline) {
    EXPECT_LE(e.start_s, e.end_s) << e.name;
    EXPECT_LE(e.end_s, result.time_s * 1.01) << e.name;
    EXPECT_GE(e.start_s, 0) << e.name;
  }
  EXPECT_FALSE(result.wire_known);
}

TEST_P(runs_test, two_nodes_in_one_process) {
  INTERLACE_NEED_GPUS(GetParam());
  harness a(GetParam(), mechanism::inline_stores, subscription::everybody, 50'000, 8);
  harness b(GetParam(), mechanism::bulk_copy, subscription::halo, 60'000, 9);
  for (std::uint64_t round = 0; round < 4; ++round) {
    a.node.run([&] { a.enqueue(round, true); });
    b.node.run([&] { b.enqueue(round, true); });
  }
  a.expect_epoch(4);
  b.expect_epoch(4);
}

// --- reductions ----------------------------------------------------------------------------------

INTERLACE_HOST_DEVICE std::uint32_t small_integer(std::uint64_t seed, std::uint64_t place) {
  return static_cast<std::uint32_t>(random_at(seed, place) % 1000);
}

// Each lane contributes to one element. The contributions are integers, so the sum is exact for
// every order and type.
template <class T, combine Op>
struct contribute {
  static constexpr std::uint32_t threads = lanes;
  reduced<T, Op> target;
  local<T> seen;  // the values that the front had before this kernel
  std::uint64_t seed;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t k = lane.global_index();
      if (k < target.size) lane.store(seen, k, lane.load(target, k));
      lane.reduce(target, k % target.size,
                  static_cast<T>(small_integer(seed, k)) - T(Op == combine::min ? 500 : 0));
    });
  }
};

template <class T, combine Op>
void reductions(std::uint32_t devices, std::uint64_t n, std::uint32_t copies, bool graph) {
  SCOPED_TRACE("elements " + std::to_string(n) + ", copies " + std::to_string(copies));
  cuda::node node(options_for(devices));
  auto target = node.create_reduction<T, Op>(n, copies);
  const std::vector<T> start(n, T(77));
  node.set_front(target, start);
  std::vector<local<T>> seen;
  for (std::uint32_t d = 0; d < devices; ++d) seen.push_back(node.allocate<T>(d, n));
  const std::uint64_t blocks = std::max<std::uint64_t>(37, 2 * n / lanes);
  constexpr std::uint64_t rounds = 12;
  cuda::run_options o;
  o.graph = graph;
  node.run(
      [&] {
        for (std::uint64_t e = 0; e < rounds; ++e) {
          for (std::uint32_t d = 0; d < devices; ++d) {
            if (random_at(3, e * 16 + d) % 2 == 0) {
              node.launch(d, delay{random_at(5, e * 16 + d) % 100'000}, {1, delay::threads, 0});
            }
            node.launch(d, contribute<T, Op>{node.view(target, d), seen[d], e * 100 + d},
                        {blocks, lanes, 0});
          }
          node.exchange(target);
        }
      },
      o);
  const auto expected_after = [&](std::uint64_t e) {
    std::vector<T> expected(n, combine_identity<T, Op>());
    for (std::uint32_t d = 0; d < devices; ++d) {
      for (std::uint64_t k = 0; k < blocks * lanes; ++k) {
        T& own = expected[k % n];
        own = combine_values<T, Op>(own,
                                    static_cast<T>(static_cast<T>(small_integer(e * 100 + d, k)) -
                                                   T(Op == combine::min ? 500 : 0)));
      }
    }
    return expected;
  };
  const auto last = expected_after(rounds - 1);
  const auto before = expected_after(rounds - 2);
  for (std::uint32_t d = 0; d < devices; ++d) {
    ASSERT_EQ(node.front(target, d), last) << "on device " << d;
    ASSERT_EQ(node.download(seen[d]), before) << "what device " << d << " saw";
  }
}

TEST_P(runs_test, small_reductions) {
  INTERLACE_NEED_GPUS(GetParam());
  const std::uint32_t n = GetParam();
  reductions<float, combine::add>(n, 1, 1, true);
  reductions<float, combine::add>(n, 3, 64, true);
  reductions<double, combine::add>(n, 2, 64, false);
  reductions<double, combine::min>(n, 100, 5, true);
  reductions<float, combine::min>(n, 1024, 2, false);
  reductions<std::uint32_t, combine::add>(n, 1000, 33, true);
  reductions<std::uint32_t, combine::min>(n, 7, 1, true);
  reductions<std::int64_t, combine::min>(n, 7, 3, true);
  reductions<std::uint64_t, combine::add>(n, 7, 3, true);
}

TEST_P(runs_test, large_reductions) {
  INTERLACE_NEED_GPUS(GetParam());
  const std::uint32_t n = GetParam();
  reductions<float, combine::add>(n, 1025, 1, true);
  reductions<float, combine::add>(n, 100'003, 3, false);
  reductions<double, combine::min>(n, 50'001, 2, true);
  reductions<std::uint32_t, combine::add>(n, 500'000, 1, true);
}

// The value of a sum of fractions depends on the order of the additions. All devices must get the
// same bits, whatever the order is.
struct contribute_fractions {
  static constexpr std::uint32_t threads = lanes;
  reduced<float> target;
  std::uint64_t seed;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t k = lane.global_index();
      lane.reduce(target, k % target.size, 1.0F / static_cast<float>(1 + random_at(seed, k) % 997));
    });
  }
};

TEST_P(runs_test, fronts_of_a_float_reduction_have_the_same_bits) {
  INTERLACE_NEED_GPUS(GetParam());
  cuda::node node(options_for(GetParam()));
  for (const std::uint64_t n : {std::uint64_t{5}, std::uint64_t{4000}}) {
    auto target = node.create_reduction<float, combine::add>(n, 16);
    node.run([&] {
      for (std::uint32_t d = 0; d < node.devices(); ++d) {
        node.launch(d, contribute_fractions{node.view(target, d), d}, {1000, lanes, 0});
      }
      node.exchange(target);
    });
    const auto first = node.front(target, 0);
    EXPECT_GT(first[0], 0);
    for (std::uint32_t d = 1; d < node.devices(); ++d) EXPECT_EQ(node.front(target, d), first);
  }
}

// One exchange has two regions, a small reduction and a large reduction.
TEST_P(runs_test, one_exchange_of_several) {
  INTERLACE_NEED_GPUS(GetParam());
  harness h(GetParam(), mechanism::bulk_copy, subscription::everybody, 30'000, 12);
  auto& node = h.node;
  auto small = node.create_reduction<double, combine::add>(2, 8);
  auto large = node.create_reduction<float, combine::min>(5000, 2);
  std::vector<local<double>> seen_small;
  std::vector<local<float>> seen_large;
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    seen_small.push_back(node.allocate<double>(d, 2));
    seen_large.push_back(node.allocate<float>(d, 5000));
  }
  const std::uint64_t blocks = 80;
  node.run([&] {
    for (std::uint64_t e = 0; e < 10; ++e) {
      for (std::uint32_t d = 0; d < node.devices(); ++d) {
        node.launch(d, contribute<double, combine::add>{node.view(small, d), seen_small[d], e},
                    {blocks, lanes, 0});
        node.launch(d, contribute<float, combine::min>{node.view(large, d), seen_large[d], e + d},
                    {blocks, lanes, 0});
        const std::uint64_t begin = h.options.boundaries[d];
        const std::uint64_t end = h.options.boundaries[d + 1];
        node.launch(
            d, step{node.view(h.data, d), h.mismatches[d], h.visible[d], begin, end, h.seed, e},
            {(end - begin + lanes - 1) / lanes, lanes, 0}, h.data,
            kernel::block_mapping::contiguous(begin, lanes, end));
      }
      node.exchange(h.data, small, large);
    }
  });
  h.expect_epoch(10);
  double even = 0;
  for (std::uint64_t k = 0; k < blocks * lanes; k += 2) even += small_integer(9, k);
  float lowest = 1e9F;
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    for (std::uint64_t k = 0; k < blocks * lanes; k += 5000) {
      lowest = std::min(lowest, static_cast<float>(small_integer(9 + d, k)) - 500);
    }
  }
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    EXPECT_EQ(node.front(small, d)[0], even * node.devices());
    EXPECT_EQ(node.front(large, d)[0], lowest);
  }
}

// --- failures ------------------------------------------------------------------------------------

TEST(failure_test, a_device_that_does_not_come_is_named) {
  INTERLACE_NEED_GPUS(2);
  auto options = options_for(2);
  options.deadline_s = 0.2;
  for (const bool graph : {true, false}) {
    cuda::node node(options);
    auto total = node.create_reduction<float, combine::add>(4, 1);
    cuda::run_options o;
    o.graph = graph;
    std::string message;
    try {
      node.run(
          [&] {
            node.exchange(total);
            node.launch(1, delay{400'000'000}, {1, delay::threads, 0});
            for (int e = 0; e < 20; ++e) node.exchange(total);
          },
          o);
    } catch (const device_error& e) {
      message = e.what();
    }
    EXPECT_NE(message.find("GPU 0 waited 0.2 s at exchange 1 (reduction 0) for GPU 1"),
              std::string::npos)
        << message;
    // After the failure, the node stays unusable and says why in one sentence.
    EXPECT_THROW(node.run([] {}), device_error);
    EXPECT_THROW((void)node.front(total, 0), device_error);
  }
  // Another node on the same GPUs still works.
  cuda::node healthy(options_for(2));
  auto total = healthy.create_reduction<float, combine::add>(4, 1);
  healthy.run([&] { healthy.exchange(total); });
  EXPECT_EQ(healthy.front(total, 1), std::vector<float>(4, 0.0F));
}

TEST(failure_test, wrong_use_is_refused) {
  INTERLACE_NEED_GPUS(1);
  EXPECT_THROW(cuda::node({.devices = 0, .ordinals = {}}), usage_error);
  EXPECT_THROW(cuda::node({.devices = 16, .ordinals = {}}), usage_error);
  EXPECT_THROW(cuda::node({.devices = 1, .ordinals = {99}}), usage_error);
  cuda::node node(options_for(1));
  kernel::region_options o;
  o.boundaries = {0, 10};
  o.mechanism = mechanism::infinite_bandwidth;
  EXPECT_THROW((void)node.create_region<float>(o), usage_error);
  EXPECT_THROW(node.launch(0, delay{1}, {1, 33, 0}), model_error);
  EXPECT_THROW(node.launch(0, delay{1}, {1, 64, 0}), model_error);
  EXPECT_THROW(node.launch(1, delay{1}, {1, 32, 0}), model_error);
  auto array = node.allocate<float>(0, 3);
  EXPECT_THROW(node.run([&] { (void)node.download(array); }), model_error);
  EXPECT_THROW(node.run([&] { throw usage_error("from within"); }), usage_error);
  EXPECT_THROW((void)node.allocate<float>(0, std::uint64_t{1} << 50U), device_error);
  // None of these errors may make the node unusable.
  node.run([&] { node.launch(0, delay{1}, {1, 32, 0}); });
  // No kernel has written, so the memory is still poisoned.
  for (const float x : node.download(array)) EXPECT_TRUE(std::isnan(x));
}

// Writes the value of the front plus one to the back.
struct count_up {
  static constexpr std::uint32_t threads = 32;
  replicated<std::uint32_t> data;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() == 0) lane.store(data, 0, lane.load(data, 0) + 1);
    });
  }
};

TEST(failure_test, a_run_that_is_not_launched_leaves_regions_as_they_were) {
  INTERLACE_NEED_GPUS(1);
  cuda::node node(options_for(1));
  kernel::region_options o;
  o.boundaries = {0, 1};
  auto data = node.create_region<std::uint32_t>(o);
  node.set_front(data, std::vector<std::uint32_t>{5});
  const auto epoch = [&] {
    node.launch(0, count_up{node.view(data, 0)}, {1, count_up::threads, 0});
    node.exchange(data);
  };
  node.run(epoch);
  EXPECT_EQ(node.front(data, 0)[0], 6U);
  const auto refused = [&] {
    epoch();
    // This launch asks for more shared memory than any GPU has.
    node.launch(0, delay{1}, {1, delay::threads, 1 << 20});
  };
  EXPECT_THROW(node.run(refused), device_error);
  EXPECT_EQ(node.front(data, 0)[0], 6U);
  node.run(epoch);
  EXPECT_EQ(node.front(data, 0)[0], 7U);
}

}  // namespace
}  // namespace interlace::exchange_tests
