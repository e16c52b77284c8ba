// The promises of the kernel model, tested inside a kernel on a GPU.
#include <cmath>
#include <limits>
#include <numeric>

#include "delay.cuh"
#include "gpu.hpp"

namespace interlace::model_tests {
namespace {

using gpu_test::options_for;
using gpu_test::random_at;

template <class T>
local<T> put(cuda::node& node, const std::vector<T>& values) {
  auto array = node.allocate<T>(0, values.size());
  node.upload(array, values);
  return array;
}

class model_test : public testing::Test {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(1); }
};

// --- indices, including those of launches by ranges of blocks ---

struct note_indices {
  // The array has one element for each lane of the grid. The element packs the indices of block,
  // lane and grid that the lane saw.
  replicated<std::uint64_t> at;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      std::uint64_t packed = block.index();
      packed = packed * 1000 + block.count();
      packed = packed * 1000 + block.threads();
      packed = packed * 1000 + lane.index();
      packed = packed * 100 + lane.in_warp();
      packed = packed * 100 + block.warp_width();
      if (lane.global_count() != block.count() * block.threads()) packed = 0;
      lane.store(at, lane.global_index(), packed);
    });
  }
};

TEST_F(model_test, indices) {
  const std::uint64_t blocks = 11;
  const std::uint32_t threads = 96;
  for (const std::uint32_t devices : {1U, 2U}) {
    if (!gpu_test::why_not(devices).empty()) continue;
    for (const auto how : {kernel::mechanism::bulk_copy, kernel::mechanism::split,
                           kernel::mechanism::inline_stores}) {
      cuda::node node(options_for(devices));
      kernel::region_options o;
      o.boundaries = {0, blocks * threads};
      if (devices == 2) o.boundaries.push_back(blocks * threads);  // device 1 owns no elements
      o.mechanism = how;
      o.split_ranges = 3;
      auto at = node.create_region<std::uint64_t>(o);
      node.run([&] {
        node.launch(0, note_indices{node.view(at, 0)}, {blocks, threads, 0}, at,
                    kernel::block_mapping::contiguous(0, threads, blocks * threads));
        node.exchange(at);
      });
      for (std::uint32_t d = 0; d < devices; ++d) {
        const auto seen = node.front(at, d);
        for (std::uint64_t i = 0; i < seen.size(); ++i) {
          std::uint64_t expected = i / threads;
          expected = expected * 1000 + blocks;
          expected = expected * 1000 + threads;
          expected = expected * 1000 + i % threads;
          expected = expected * 100 + i % threads % 32;
          expected = expected * 100 + 32;
          ASSERT_EQ(seen[i], expected) << "lane " << i << " on device " << d;
        }
      }
    }
  }
}

// --- loops, conversions, loads of every width ----------------------------------------------------

struct triple {
  float x, y, z;
};
struct alignas(8) pair_of {
  float x;
  std::uint32_t y;
};

struct loads_of_types {
  local<const std::uint8_t> bytes;
  local<const std::uint16_t> halves;
  local<const float> words;
  local<const double> doubles;
  local<const pair_of> pairs;
  local<const float4> quads;
  local<const triple> triples;
  local<double> sums;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i >= sums.size) return;
      double sum = lane.load(bytes, i);
      sum += lane.load(halves, i);
      sum += lane.load(words, i) + lane.load(doubles, i);
      const pair_of p = lane.load(pairs, i);
      const float4 q = lane.load(quads, i);
      const triple t = lane.load(triples, i);
      lane.store(sums, i, sum + p.x + p.y + q.x + q.y + q.z + q.w + t.x + t.y + t.z);
    });
  }
};

TEST_F(model_test, loads_of_every_width) {
  cuda::node node(options_for(1));
  const std::size_t n = 300;
  std::vector<std::uint8_t> bytes(n);
  std::vector<std::uint16_t> halves(n);
  std::vector<float> words(n);
  std::vector<double> doubles(n), expected(n);
  std::vector<pair_of> pairs(n);
  std::vector<float4> quads(n);
  std::vector<triple> triples(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto v = static_cast<float>(random_at(1, i) % 200);
    bytes[i] = static_cast<std::uint8_t>(v);
    halves[i] = static_cast<std::uint16_t>(v + 1);
    words[i] = v + 2;
    doubles[i] = v + 3;
    pairs[i] = {v + 4, static_cast<std::uint32_t>(v + 5)};
    quads[i] = {v + 6, v + 7, v + 8, v + 9};
    triples[i] = {v + 10, v + 11, v + 12};
    expected[i] = 13.0 * v + 78;
  }
  auto sums = node.allocate<double>(0, n);
  node.launch(
      0,
      loads_of_types{put(node, bytes), put(node, halves), put(node, words), put(node, doubles),
                     put(node, pairs), put(node, quads), put(node, triples), sums},
      {3, 128, 0});
  EXPECT_EQ(node.download(sums), expected);
}

struct strided_sums {
  local<const std::uint32_t> values;
  local<std::uint64_t> sums;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      std::uint64_t sum = 0;
      for (auto i : lane.range(lane.index(), values.size, block.threads())) {
        sum += lane.load_index(values, i);
      }
      for (auto i : lane.range(5, 5)) sum += 1000 + static_cast<std::uint64_t>(i);  // no iterations
      for (auto i : lane.range(7U, 3U)) sum += 1000 + i;                            // no iterations
      lane.store(sums, lane.index(), sum);
    });
  }
};

TEST_F(model_test, ranges) {
  cuda::node node(options_for(1));
  std::vector<std::uint32_t> values(1001);
  std::iota(values.begin(), values.end(), 0U);
  std::vector<std::uint64_t> expected(64);
  for (std::uint32_t v : values) expected[v % 64] += v;
  auto sums = node.allocate<std::uint64_t>(0, 64);
  node.launch(0, strided_sums{put(node, values), sums}, {1, 64, 0});
  EXPECT_EQ(node.download(sums), expected);
}

// --- barriers, shared memory, lane states --------------------------------------------------------

// Rotates values through shared memory many times. A missing barrier gives wrong values.
struct rotate_values {
  local<std::uint32_t> values;
  std::uint32_t rounds;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto bytes = shared<std::uint8_t>(block, 5);  // the next array must still be aligned
    auto staged = shared<std::uint32_t>(block, block.threads());
    auto doubles = shared<double>(block, 2);
    auto own = lane_state<std::uint32_t>(block);
    block.each([&](auto lane) {
      own[lane] = lane.load(values, lane.global_index());
      if (lane.index() < 5) lane.store(bytes, lane.index(), static_cast<std::uint8_t>(1));
      if (lane.index() < 2) lane.store(doubles, lane.index(), 0.5);
    });
    for (std::uint32_t r = 0; r < rounds; ++r) {
      block.each([&](auto lane) { lane.store(staged, lane.index(), own[lane]); });
      block.each([&](auto lane) {
        own[lane] = lane.load(staged, (lane.index() + 33) % block.threads()) +
                    lane.load(bytes, lane.index() % 5) *
                        static_cast<std::uint32_t>(lane.load(doubles, 0) + lane.load(doubles, 1));
      });
    }
    // The whole block reads what one lane wrote.
    block.each([&](auto lane) {
      if (lane.index() == 17) lane.store(staged, 3, 4242U);
    });
    const std::uint32_t seen = block.load(staged, 3);
    block.each([&](auto lane) {
      lane.store(staged, 3, 0U);
      lane.store(values, lane.global_index(), own[lane] + (seen == 4242U ? 0 : 1));
    });
  }
};

TEST_F(model_test, barriers_and_shared_memory) {
  cuda::node node(options_for(1));
  const std::uint32_t threads = 1024;
  const std::uint32_t blocks = 300;
  const std::uint32_t rounds = 60;
  std::vector<std::uint32_t> values(std::size_t{threads} * blocks);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint32_t>(random_at(2, i));
  }
  auto array = put(node, values);
  node.launch(0, rotate_values{array, rounds}, {blocks, threads, 8 + threads * 4 + 16});
  const auto result = node.download(array);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t first = i / threads * threads;
    const std::size_t from = first + (i - first + std::size_t{33} * rounds) % threads;
    ASSERT_EQ(result[i], values[from] + rounds) << "lane " << i;
  }
}

struct large_shared {
  static constexpr std::uint32_t threads = 128;
  local<std::uint32_t> result;
  std::uint32_t words;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto staged = shared<std::uint32_t>(block, words);
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.index(), words, threads)) lane.store(staged, i, 3 * i);
    });
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.index(), words, threads)) {
        lane.store(result, i, lane.load(staged, words - 1 - i));
      }
    });
  }
};

TEST_F(model_test, shared_memory_beyond_48_kib) {
  cuda::node node(options_for(1));
  const std::uint32_t words = 40'000;
  auto result = node.allocate<std::uint32_t>(0, words);
  node.launch(0, large_shared{result, words}, {1, 128, words * 4});
  const auto seen = node.download(result);
  for (std::uint32_t i = 0; i < words; ++i) ASSERT_EQ(seen[i], 3 * (words - 1 - i));
}

// --- warps ---------------------------------------------------------------------------------------

template <class T>
struct warp_results {
  local<const T> values;
  local<T> sums, minima, swapped, third;
  local<std::uint64_t> ballots;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto value = lane_state<T>(block);
    auto odd = lane_state<bool>(block);
    auto staged = shared<T>(block, block.threads());
    block.each_warp([&](auto warp) {
      warp.each([&](auto lane) {
        value[lane] = lane.load(values, lane.global_index());
        odd[lane] = lane.index() % 3 == 1;
        lane.store(staged, lane.index(), value[lane]);
      });
      const T sum = warp.sum(value);
      const T least = warp.min(value);
      const std::uint64_t which = warp.ballot(odd);
      const auto partner = warp.shuffle_xor(value, 5);
      const auto one = warp.shuffle(value, 3);
      // The barrier of the warp makes the neighbour's store visible. The whole warp makes this load
      // together.
      const T first = warp.load(staged, warp.index() * 32);
      warp.each([&](auto lane) {
        const auto i = lane.global_index();
        lane.store(sums, i, sum);
        lane.store(minima, i, least);
        lane.store(swapped, i, partner[lane]);
        lane.store(third, i, one[lane]);
        const T neighbour = lane.load(staged, warp.index() * 32 + (lane.in_warp() + 1) % 32);
        const T expected = lane.load(values, i - lane.in_warp() + (lane.in_warp() + 1) % 32);
        const T expected_first = lane.load(values, i - lane.in_warp());
        const bool right = neighbour == expected && first == expected_first &&
                           warp.count() == block.threads() / 32;
        lane.store(ballots, i, right ? which : 0);
      });
    });
  }
};

template <class T>
void check_warps() {
  cuda::node node(options_for(1));
  const std::uint32_t threads = 160;
  const std::uint32_t blocks = 20;
  const std::size_t n = std::size_t{threads} * blocks;
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      // The values have different magnitudes, so the order of additions changes the sum.
      values[i] = static_cast<T>(std::ldexp(1.0 + static_cast<double>(random_at(3, i) % 1000) / 999,
                                            static_cast<int>(random_at(4, i) % 40) - 20));
      if (random_at(5, i) % 2 == 0) values[i] = -values[i];
    } else {
      values[i] = static_cast<T>(random_at(3, i));
    }
  }
  std::vector<local<T>> out;
  for (int k = 0; k < 4; ++k) out.push_back(node.allocate<T>(0, n));
  auto ballots = node.allocate<std::uint64_t>(0, n);
  node.launch(0, warp_results<T>{put(node, values), out[0], out[1], out[2], out[3], ballots},
              {blocks, threads, threads * static_cast<std::uint32_t>(sizeof(T))});
  std::vector<std::vector<T>> seen;
  for (int k = 0; k < 4; ++k) seen.push_back(node.download(out[static_cast<std::size_t>(k)]));
  const auto seen_ballots = node.download(ballots);
  for (std::size_t w = 0; w < n; w += 32) {
    // Computes the sum with the tree of additions that the other nodes use.
    std::vector<T> sum(values.begin() + static_cast<std::ptrdiff_t>(w),
                       values.begin() + static_cast<std::ptrdiff_t>(w) + 32);
    std::vector<T> least = sum;
    for (std::size_t mask = 16; mask != 0; mask /= 2) {
      for (std::size_t k = 0; k < mask; ++k) {
        sum[k] = sum[k] + sum[k + mask];
        least[k] = least[k + mask] < least[k] ? least[k + mask] : least[k];
      }
    }
    std::uint64_t which = 0;
    for (std::size_t k = 0; k < 32; ++k) {
      if ((w + k) % threads % 3 == 1) which |= std::uint64_t{1} << k;
    }
    for (std::size_t k = 0; k < 32; ++k) {
      ASSERT_EQ(seen[0][w + k], sum[0])
          << "sum of lane " << w + k;  // the sums must be equal bit for bit
      ASSERT_EQ(seen[1][w + k], least[0]) << "minimum of lane " << w + k;
      ASSERT_EQ(seen[2][w + k], values[w + (k ^ 5)]);
      ASSERT_EQ(seen[3][w + k], values[w + 3]);
      ASSERT_EQ(seen_ballots[w + k], which);
    }
  }
}

TEST_F(model_test, warps) {
  check_warps<float>();
  check_warps<double>();
  check_warps<std::uint32_t>();
  check_warps<std::int32_t>();
  check_warps<std::uint64_t>();
  check_warps<std::int64_t>();
}

// --- atomics -------------------------------------------------------------------------------------

template <class T>
struct atomics {
  local<T> sum, least;
  local<T> block_sums, block_least;
  local<std::uint32_t> order;  // the old values of a counter; each must occur once
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto both = shared<T>(block, 2);
    auto counter = shared<std::uint32_t>(block, 1);
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      lane.store(both, 0, T{0});
      lane.store(both, 1, T{100});
      lane.store(counter, 0, 0U);
    });
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      const T value = static_cast<T>(random_at(9, i) % 101) - static_cast<T>(50);
      lane.atomic_add(sum, 0, value);
      lane.atomic_min(least, i % least.size, value);
      lane.atomic_add(both, 0, value);
      lane.atomic_min(both, 1, value);
      const std::uint32_t turn = lane.atomic_add(counter, 0, 1);
      lane.atomic_add(order, block.index() * block.threads() + turn, 1);
    });
    block.each([&](auto lane) {
      if (lane.index() != 0) return;
      lane.store(block_sums, block.index(), lane.load(both, 0));
      lane.store(block_least, block.index(), lane.load(both, 1));
    });
  }
};

template <class T>
void check_atomics() {
  cuda::node node(options_for(1));
  const std::uint32_t threads = 256;
  const std::uint32_t blocks = 60;
  const std::size_t n = std::size_t{threads} * blocks;
  std::vector<T> sum(1, T{0});
  std::vector<T> least(37, T{30});
  std::vector<T> block_sums(blocks, T{0});
  std::vector<T> block_least(blocks, T{100});
  auto d_sum = put(node, sum);
  auto d_least = put(node, least);
  auto d_block_sums = node.allocate<T>(0, blocks);
  auto d_block_least = node.allocate<T>(0, blocks);
  auto order = put(node, std::vector<std::uint32_t>(n, 0));
  node.launch(0, atomics<T>{d_sum, d_least, d_block_sums, d_block_least, order},
              {blocks, threads, 2 * sizeof(T) + 4});
  for (std::size_t i = 0; i < n; ++i) {
    const T value = static_cast<T>(random_at(9, i) % 101) - static_cast<T>(50);
    sum[0] += value;
    least[i % 37] = std::min(least[i % 37], value);
    block_sums[i / threads] += value;
    block_least[i / threads] = std::min(block_least[i / threads], value);
  }
  EXPECT_EQ(node.download(d_sum), sum);
  EXPECT_EQ(node.download(d_least), least);
  EXPECT_EQ(node.download(d_block_sums), block_sums);
  EXPECT_EQ(node.download(d_block_least), block_least);
  EXPECT_EQ(node.download(order), std::vector<std::uint32_t>(n, 1));
}

TEST_F(model_test, atomics) {
  check_atomics<float>();
  check_atomics<double>();
  check_atomics<std::int32_t>();
  check_atomics<std::int64_t>();
  check_atomics<std::uint32_t>();
  check_atomics<std::uint64_t>();
}

// Blocks form groups of n. Each block of a group stores numbers, at a random time. The last block
// to arrive adds up the numbers of the whole group. Every block has already read the first block's
// numbers, perhaps while they changed, so the second read must not come from a cache.
struct add_up_behind {
  static constexpr std::uint32_t threads = 128;
  local<std::uint32_t> numbers;  // [blocks][threads]
  local<std::uint32_t> arrived;
  local<std::uint32_t> sums;  // [blocks / n][threads]
  std::uint32_t n;
  std::uint32_t round;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto index = static_cast<std::uint32_t>(block.index());
    const std::uint32_t first = index / n * n * threads;
    auto before = lane_state<std::uint32_t>(block);
    block.each([&](auto lane) {
      before[lane] = lane.load(numbers, first + lane.index());
      const std::uint64_t late = random_at(round, index * 4 + lane.index() / 32);
      if (late % 4 == 0) gpu_test::wait_ns(late / 4 % 2000);
      lane.store(numbers, index * threads + lane.index(), round + index * threads + lane.index());
    });
    if (!block.last_to_arrive(arrived, index / n, n)) return;
    block.each([&](auto lane) {
      std::uint32_t sum = 0;
      for (auto k : lane.range(0U, n))
        sum += lane.load(numbers, first + k * threads + lane.index());
      // This statement uses the value that was read first. It must not change the sum, but the
      // compiler must not drop the load.
      if (before[lane] == 0xfffffffeU) sum = 0;
      lane.store(sums, index / n * threads + lane.index(), sum);
    });
  }
};

TEST_F(model_test, the_last_to_arrive_sees_what_the_others_stored) {
  constexpr std::uint32_t threads = add_up_behind::threads;
  const std::uint32_t places = 500;
  const std::uint32_t n = 6;
  cuda::node node(options_for(1));
  auto numbers = put(node, std::vector<std::uint32_t>(std::size_t{places} * n * threads, 0));
  auto arrived = put(node, std::vector<std::uint32_t>(places, 0));
  auto sums = node.allocate<std::uint32_t>(0, std::uint64_t{places} * threads);
  for (std::uint32_t round = 1; round <= 200; ++round) {
    node.launch(0, add_up_behind{numbers, arrived, sums, n, round * 7919},
                {places * n, threads, 0});
    std::vector<std::uint32_t> expected(std::size_t{places} * threads, 0);
    for (std::uint32_t i = 0; i < places * n * threads; ++i) {
      expected[i / threads / n * threads + i % threads] += round * 7919 + i;
    }
    ASSERT_EQ(node.download(sums), expected) << "round " << round;
  }
  EXPECT_EQ(node.download(arrived), std::vector<std::uint32_t>(places, 0));
}

template <class T>
struct minima_of_signs {
  local<T> slots;
  local<const T> values;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i < values.size) lane.atomic_min(slots, i, lane.load(values, i));
    });
  }
};

template <class T>
void check_minima() {
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> numbers{-inf, T(-3.5), T(-1e-30), T(0), T(1e-30), T(2.25), inf};
  std::vector<T> slots, values, expected;
  for (const T a : numbers) {
    for (const T b : numbers) {
      slots.push_back(a);
      values.push_back(b);
      expected.push_back(std::min(a, b));
    }
    slots.push_back(a);
    values.push_back(nan);  // a NaN is never smaller
    expected.push_back(a);
  }
  cuda::node node(options_for(1));
  auto d_slots = put(node, slots);
  node.launch(0, minima_of_signs<T>{d_slots, put(node, values)}, {1, 64, 0});
  EXPECT_EQ(node.download(d_slots), expected);
}

TEST_F(model_test, minimum_of_floating_point) {
  check_minima<float>();
  check_minima<double>();
}

// --- memory --------------------------------------------------------------------------------------

TEST_F(model_test, memory_is_poisoned) {
  cuda::node node(options_for(1));
  for (const std::uint32_t v : node.download(node.allocate<std::uint32_t>(0, 100'000))) {
    ASSERT_EQ(v, 0xffffffffU);
  }
  EXPECT_EQ(node.download(node.allocate<float>(0, 0)).size(), 0U);
  kernel::region_options o;
  o.boundaries = {0, 77};
  auto region = node.create_region<std::uint8_t>(o);
  for (const std::uint8_t v : node.front(region, 0)) ASSERT_EQ(v, 0xffU);
  auto small = node.allocate<float>(0, 2);
  EXPECT_THROW(node.upload(small, {1, 2, 3}), model_error);
}

}  // namespace
}  // namespace interlace::model_tests
