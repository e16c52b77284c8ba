// Updates of partitioned arrays on GPUs, with every mechanism that partitions can have there. The
// tests compare the results with a plain loop that makes the same updates.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../probes/scattered_updates.hpp"
#include "delay.cuh"
#include "gpu.hpp"
#include "interlace/kernel/partition.hpp"

namespace interlace::gpu_test {
namespace {

using kernel::mechanism;

std::vector<mechanism> mechanisms_of_updates() {
  std::vector<mechanism> found;
  for (const kernel::mechanism_row& row : kernel::mechanism_rows) {
    if (kernel::takes_updates(row.value) && row.not_on_cuda == nullptr) found.push_back(row.value);
  }
  return found;
}

// Says why n devices cannot use the mechanism here. The text is empty if they can use it.
std::string why_not_by(mechanism how, std::uint32_t n) {
  return how == mechanism::nccl ? without_nccl(n) : std::string();
}

class updates : public testing::TestWithParam<mechanism> {
 protected:
  template <class T, combine Op>
  void check(std::uint32_t devices, std::uint64_t size, std::uint64_t count,
             kernel::region_options options = {}) {
    if (Op == combine::store && kernel::row_of(GetParam()).updates_partials) return;
    options.mechanism = GetParam();
    const probes::scattered_updates<T, Op> made(devices, size, count, 3);
    for (const bool by_warps : {false, true}) {
      cuda::node node(options_for(devices));
      EXPECT_EQ(made.run(node, options, 3, by_warps), made.expected(3)) << "by warps: " << by_warps;
    }
  }
};

TEST_P(updates, of_each_operation_reach_their_owner_once) {
  INTERLACE_NEED_GPUS(3);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 3));
  check<std::uint64_t, combine::bit_xor>(3, 100'000, 300'000);
  check<std::uint64_t, combine::add>(3, 1000, 20'000);
  check<std::uint32_t, combine::add>(2, 777, 20'000);
  check<std::int32_t, combine::min>(3, 500, 20'000);
  check<std::int64_t, combine::max>(3, 500, 20'000);
  check<std::uint32_t, combine::bit_or>(3, 500, 20'000);
  check<std::uint64_t, combine::store>(3, 5000, 20'000);
  // The numbers are whole, so their sums are exact in any order.
  check<float, combine::add>(3, 300, 3000);
  check<double, combine::add>(2, 300, 3000);
  check<float, combine::min>(3, 300, 3000);
  check<double, combine::max>(3, 300, 3000);
}

TEST_P(updates, of_two_devices_reach_their_owner_once) {
  INTERLACE_NEED_GPUS(2);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 2));
  check<std::uint64_t, combine::bit_xor>(2, 100'000, 300'000);
  check<float, combine::add>(2, 300, 3000);
  check<std::uint32_t, combine::store>(2, 5000, 20'000);
}

TEST_P(updates, fit_one_device_and_devices_without_elements) {
  INTERLACE_NEED_GPUS(4);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 4));
  check<std::uint64_t, combine::bit_xor>(1, 100, 500);
  check<std::uint64_t, combine::bit_xor>(4, 3, 5000);
}

TEST_P(updates, are_not_lost_in_small_queues_and_packets) {
  INTERLACE_NEED_GPUS(3);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 3));
  kernel::region_options options;
  options.queued_updates = 50;
  for (const std::uint32_t packet_bytes : {128U, 512U, 4096U}) {
    for (const bool combines : {false, true}) {
      options.packet_bytes = packet_bytes;
      options.combine_in_packets = combines;
      check<std::uint64_t, combine::add>(3, 1000, 20'000, options);
      check<std::uint32_t, combine::store>(3, 1000, 20'000, options);
    }
  }
}

TEST_P(updates, are_not_lost_with_windows) {
  INTERLACE_NEED_GPUS(3);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 3));
  kernel::region_options options;
  for (const std::uint32_t windows : {2U, 7U}) {
    options.update_windows = windows;
    check<std::uint64_t, combine::bit_xor>(3, 100'000, 300'000, options);
    check<std::uint32_t, combine::add>(2, 777, 20'000, options);
    check<float, combine::add>(3, 300, 3000, options);
    check<std::uint32_t, combine::store>(3, 1000, 20'000, options);
  }
}

TEST_P(updates, beyond_the_array_are_named_if_updates_are_checked) {
  INTERLACE_NEED_GPUS(2);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 2));
  for (const bool checks : {false, true}) {
    cuda::node node(options_for(2));
    kernel::region_options options;
    options.mechanism = GetParam();
    options.boundaries = {0, 100, 200};
    options.check_updates = checks;
    const auto table = node.create_partition<std::uint64_t, combine::add>(options);
    for (std::uint32_t d = 0; d < 2; ++d) node.set_part(table, d, std::vector<std::uint64_t>(100));
    const auto run = [&] {
      node.run([&] {
        node.launch(1, probes::update_beyond{node.view(table, 1)}, {3, 64}, table);
        node.exchange(table);
      });
    };
    if (checks) {
      try {
        run();
        ADD_FAILURE() << "nothing was reported";
      } catch (const model_error& error) {
        EXPECT_STREQ(error.what(),
                     "lane 63 of block 2 of device 1 updates element 206 of a partitioned array of "
                     "200");
      }
    } else {
      run();
    }
    std::vector<std::uint64_t> all = node.part(table, 0);
    const std::vector<std::uint64_t> rest = node.part(table, 1);
    all.insert(all.end(), rest.begin(), rest.end());
    std::vector<std::uint64_t> wanted(200);
    std::fill_n(wanted.begin(), 191, 1);
    EXPECT_EQ(all, wanted);
  }
}

// Devices are late at random before the updates of an epoch.
TEST_P(updates, are_right_when_devices_are_late) {
  INTERLACE_NEED_GPUS(4);
  INTERLACE_SKIP_WITH_REASON(why_not_by(GetParam(), 4));
  constexpr std::uint32_t devices = 4;
  constexpr std::uint32_t epochs = 200;
  using made_updates = probes::scattered_updates<std::uint64_t, combine::add>;
  const made_updates made(devices, 3000, 3000, 3);
  cuda::node node(options_for(devices));
  kernel::region_options options;
  options.mechanism = GetParam();
  options.boundaries = made.boundaries;
  options.queued_updates = 400;
  const auto table = node.create_partition<std::uint64_t, combine::add>(options);
  std::vector<local<std::uint64_t>> places;
  std::vector<local<std::uint64_t>> numbers;
  for (std::uint32_t d = 0; d < devices; ++d) {
    node.set_part(table, d, std::vector<std::uint64_t>(750, 5));
    places.push_back(node.allocate<std::uint64_t>(d, made.elements[d].size()));
    numbers.push_back(node.allocate<std::uint64_t>(d, made.values[d].size()));
    node.upload(places.back(), made.elements[d]);
    node.upload(numbers.back(), made.values[d]);
  }
  std::mt19937 random(1);
  node.run([&] {
    for (std::uint32_t e = 0; e < epochs; ++e) {
      for (std::uint32_t d = 0; d < devices; ++d) {
        node.launch(d, delay{random() % 30'000}, {1, 32});
        const probes::scattered_updates_kernel<std::uint64_t, combine::add> k{
            node.view(table, d), places[d], numbers[d], made_updates::each};
        node.launch(d, k, {5, 128}, table);
      }
      node.exchange(table);
    }
  });
  const std::vector<std::uint64_t> expected = made.expected(epochs);
  for (std::uint32_t d = 0; d < devices; ++d) {
    const auto part = node.part(table, d);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 750 * d)) << "device " << d;
  }
}

INSTANTIATE_TEST_SUITE_P(every, updates, testing::ValuesIn(mechanisms_of_updates()),
                         [](const testing::TestParamInfo<mechanism>& info) {
                           std::string name = kernel::mechanism_name(info.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace interlace::gpu_test
