// Scattered updates on a GPU must give the same results as on the host, for every combination,
// record and distribution.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/host_updates_device.cuh"
#include "interlace/updates_device.cuh"

namespace interlace::updates_tests {
namespace {

bool there_is_a_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

template <class T>
T* to_gpu(cuda::device_memory& memory, const std::vector<T>& from) {
  auto* const to = static_cast<T*>(memory.take(0, from.size() * sizeof(T)));
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyDefault));
  return to;
}

enum class spread { even, skewed, one_element };

struct sample {
  std::vector<std::uint32_t> indices;
  std::vector<std::uint8_t> values;  // small whole numbers, whose floating-point sums are exact
};

// The samples are drawn only once, because every type and combination uses the same samples.
const sample& sample_of(std::uint64_t elements, std::uint64_t count, spread how,
                        std::uint32_t seed) {
  static std::map<std::tuple<std::uint64_t, std::uint64_t, spread, std::uint32_t>, sample> drawn;
  const auto [place, is_new] = drawn.try_emplace({elements, count, how, seed});
  sample& s = place->second;
  if (!is_new) return s;
  std::mt19937_64 random(seed);
  s.indices.reserve(count);
  s.values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t r = random();
    std::uint64_t at = r % elements;
    if (how == spread::skewed)
      at = static_cast<std::uint64_t>(
               std::pow(static_cast<double>(elements), static_cast<double>(r >> 11U) * 0x1p-53)) %
           elements;
    if (how == spread::one_element) at = 7;
    s.indices.push_back(static_cast<std::uint32_t>(at));
    s.values.push_back(static_cast<std::uint8_t>(random() % 64 + 1));
  }
  return s;
}

constexpr std::uint64_t elements = (std::uint64_t{1} << 22U) - 77;

// A producer of updates that claims to read no memory, so that `run` may produce the updates in
// many passes.
template <class Update>
struct computed {
  static constexpr std::uint32_t bytes = 0;
  const std::uint32_t* indices;
  const typename Update::value_type* values;
  __device__ Update operator()(std::uint64_t i) const { return Update(indices[i], values[i]); }
};

enum class producers { arrays, function };

// Returns the table that the host computes. With the combination `store`, any of the stored values
// may remain, so each element has a bit for each value that was stored to it.
template <class T, combine Op>
auto table_of_host(const sample& s) {
  if constexpr (Op == combine::store) {
    std::vector<std::uint64_t> seen(elements);
    for (std::size_t i = 0; i < s.indices.size(); ++i)
      seen[s.indices[i]] |= std::uint64_t{1} << (s.values[i] % 64U);
    return seen;
  } else {
    std::vector<T> wanted(elements, T{9});
    for (std::size_t i = 0; i < s.indices.size(); ++i)
      wanted[s.indices[i]] =
          combine_values<T, Op>(wanted[s.indices[i]], static_cast<T>(s.values[i]));
    return wanted;
  }
}

struct update_case {
  spread how;
  update_options options;
  std::uint32_t seed;
  producers by = producers::arrays;

  // Sums of floating-point numbers stay below 2^24, so these sums are exact.
  std::uint64_t count() const { return how == spread::one_element ? 100'001 : 1'000'001; }
  const sample& drawn() const { return sample_of(elements, count(), how, seed); }
};

// Downloads to the memory of `table`, so that all cases of a type allocate this memory only once.
template <class T, combine Op, class Wanted>
void same_as_host(const update_case& c, std::vector<T>& table, const Wanted& wanted) {
  using update = indexed_update<T>;
  const std::uint64_t count = c.count();
  const sample& s = c.drawn();
  const std::vector<T> drawn(s.values.begin(), s.values.end());
  table.assign(elements, T{9});
  cuda::device_memory memory;
  T* const on_gpu = to_gpu(memory, table);
  const std::uint32_t* const indices = to_gpu(memory, s.indices);
  const T* const values = to_gpu(memory, drawn);
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  scattered_updates<update, Op> updates(on_gpu, elements, c.options);
  if (c.by == producers::arrays)
    updates.run(update_arrays<update, std::uint32_t>{indices, values}, count, nullptr);
  else
    updates.run(each_update{computed<update>{indices, values}}, count, nullptr);
  updates.check(nullptr);
  INTERLACE_CUDA_CHECK(cudaMemcpy(table.data(), on_gpu, elements * sizeof(T), cudaMemcpyDefault));
  if constexpr (Op == combine::store) {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < elements; ++i) {
      const auto bit = std::uint64_t{1} << (static_cast<std::uint64_t>(table[i]) % 64);
      wrong += wanted[i] == 0 ? table[i] != T{9} : (wanted[i] & bit) == 0;
    }
    EXPECT_EQ(wrong, 0U);
  } else {
    EXPECT_EQ(table, wanted);
  }
}

template <class T, combine Op>
void in_every_way() {
  update_options bins;
  bins.window_bytes = 32 << 10U;
  std::vector<update_case> cases;
  for (const spread how : {spread::even, spread::skewed, spread::one_element})
    cases.push_back({how, bins, 1});
  cases.push_back({spread::even, {}, 2});  // uses plain atomics
  bins.window_bytes = 2 << 10U;            // uses two levels of bins
  bins.buffer_bytes = 3 << 20U;
  for (const spread how : {spread::even, spread::skewed}) {
    cases.push_back({how, bins, 3});
    cases.push_back({how, bins, 4, producers::function});  // uses more passes
  }
  // The host computes the tables of all cases at the same time, while the GPU works.
  using wanted = decltype(table_of_host<T, Op>(cases.front().drawn()));
  std::vector<std::future<wanted>> tables;
  for (const update_case& c : cases)
    tables.push_back(std::async(std::launch::async, table_of_host<T, Op>, std::cref(c.drawn())));
  std::vector<T> table;
  for (std::size_t k = 0; k < cases.size(); ++k)
    same_as_host<T, Op>(cases[k], table, tables[k].get());
}

TEST(scattered_updates, of_integers_are_those_of_the_host) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  in_every_way<std::uint64_t, combine::add>();
  in_every_way<std::uint64_t, combine::bit_xor>();
  in_every_way<std::int64_t, combine::min>();
  in_every_way<std::uint64_t, combine::max>();
  in_every_way<std::uint32_t, combine::bit_or>();
  in_every_way<std::uint32_t, combine::add>();
  in_every_way<std::int32_t, combine::max>();
  in_every_way<std::uint64_t, combine::store>();
}

TEST(scattered_updates, of_floating_point_numbers_are_those_of_the_host) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  in_every_way<float, combine::add>();
  in_every_way<double, combine::add>();
  in_every_way<float, combine::max>();
  in_every_way<double, combine::min>();
}

TEST(scattered_updates, of_elements_that_do_not_exist_are_reported) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  using update = indexed_update<std::uint32_t>;
  cuda::device_memory memory;
  const std::vector<std::uint32_t> table(elements);
  std::vector<std::uint32_t> indices(1000, 3);
  indices[700] = static_cast<std::uint32_t>(elements);
  const std::vector<std::uint32_t> ones(1000, 1);
  std::uint32_t* const on_gpu = to_gpu(memory, table);
  const update_arrays<update, std::uint32_t> producer{to_gpu(memory, indices),
                                                      to_gpu(memory, ones)};
  for (const std::uint64_t window : {0U, 32U << 10U}) {
    update_options options;
    options.window_bytes = window;
    scattered_updates<update, combine::add> updates(on_gpu, elements, options);
    updates.run(producer, 1000, nullptr);
    try {
      updates.check(nullptr);
      ADD_FAILURE() << "nothing was reported";
    } catch (const usage_error& error) {
      EXPECT_NE(std::string(error.what()).find("element " + std::to_string(elements) + " "),
                std::string::npos)
          << error.what();
    }
    updates.check(nullptr);
  }
}

template <class T, combine Op>
void host_table(spread how, std::uint32_t slots) {
  using update = indexed_update<T>;
  constexpr std::uint64_t count = 700'003;
  const sample& s = sample_of(elements, count, how, 5);
  const std::vector<T> drawn(s.values.begin(), s.values.end());
  std::vector<T> table(elements, T{3});
  std::vector<T> wanted = table;
  for (std::uint64_t i = 0; i < count; ++i)
    wanted[s.indices[i]] = combine_values<T, Op>(wanted[s.indices[i]], drawn[i]);
  cuda::device_memory memory;
  const update_arrays<update, std::uint32_t> producer{to_gpu(memory, s.indices),
                                                      to_gpu(memory, drawn)};
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  host_update_options options;
  options.slots = slots;
  options.threads = 3;
  options.window_bytes = 64 << 10U;
  options.pool_bytes = 32 << 20U;
  host_table_updates<update, Op> updates(table.data(), elements, options);
  updates.run(producer, count, nullptr);
  EXPECT_EQ(table, wanted);
}

TEST(scattered_updates, of_a_table_of_the_host_are_those_of_the_host) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  for (const std::uint32_t slots : {1U, 2U, 64U}) {
    host_table<std::uint64_t, combine::add>(spread::even, slots);
    host_table<float, combine::add>(spread::skewed, slots);
    host_table<std::uint32_t, combine::max>(spread::one_element, slots);
  }
}

}  // namespace
}  // namespace interlace::updates_tests
