// Kernels that are launched before the previous kernels have ended. The tests have chains of short
// kernels. Each kernel reads what other blocks of the previous kernel wrote, and one block is slow.
#include "cuda/early_launch.hpp"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "delay.cuh"
#include "gpu.hpp"

namespace interlace::early_launch_tests {
namespace {

using gpu_test::options_for;
using gpu_test::random_at;
using gpu_test::wait_ns;

constexpr std::uint64_t elements = 40 * 256 + 17;
constexpr std::uint64_t steps = 120;

// Sets to[i] = from[i + shift] + 1. One block is late.
struct turned {
  static constexpr std::uint32_t threads = 256;
  local<const std::uint32_t> from;
  local<std::uint32_t> to;
  std::uint64_t shift = 0;
  std::uint64_t slow_block = 0;
  std::uint64_t delay_ns = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = lane.global_index();
      if (block.index() == slow_block && lane.index() == 0) wait_ns(delay_ns);
      if (i >= to.size) return;
      lane.store(to, i, lane.load(from, (i + shift) % to.size) + 1);
    });
  }
};

// Sets each element to value(element, step + 1). To compute this value, a step needs the value from
// the step before of an element of another device.
struct filled {
  static constexpr std::uint32_t threads = 256;
  replicated<std::uint32_t> data;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint32_t step = 0;

  static INTERLACE_HOST_DEVICE std::uint32_t value(std::uint64_t element, std::uint32_t steps) {
    return static_cast<std::uint32_t>(element * 7919) + steps;
  }
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = lane.global_index();
      if (i >= count) return;
      const std::uint64_t far = (first + i + count) % data.size;
      const std::uint32_t seen = step == 0 ? value(far, 0) : lane.load(data, far);
      const std::uint32_t apart = value(first + i, 0) - value(far, 0);
      lane.store(data, first + i, seen + apart + 1);
    });
  }
};

__global__ void any_kernel() {}

// Whether this program's kernels are launched early on these devices. Code for a compute capability
// below 9.0 is not launched early, not even if a newer GPU compiles its PTX.
bool launches_early(std::uint32_t devices) {
  cudaFuncAttributes loaded{};
  if (cudaFuncGetAttributes(&loaded, any_kernel) != cudaSuccess) return false;
  return cuda::awaits_prerequisites(loaded) && gpu_test::gpus_here() >= devices;
}

// The parameters are the number of devices and the number of elements. With few elements, all
// blocks run at the same time. With many elements, there are far more blocks than can run at the
// same time.
class early_launch_test : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint64_t>> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(all, early_launch_test,
                         testing::Combine(testing::Values(1U, 2U, 4U),
                                          testing::Values(40 * 256 + 17, 9000 * 256 + 17)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_devices_" +
                                  std::to_string(std::get<1>(info.param)) + "_elements";
                         });

TEST_P(early_launch_test, kernels_see_all_of_those_before_them) {
  const auto [devices, n] = GetParam();
  const auto shift_of = [&](std::uint64_t step) { return random_at(1, step) % n; };
  cuda::node node(options_for(devices));
  std::vector<local<std::uint32_t>> a;
  std::vector<local<std::uint32_t>> b;
  std::vector<std::uint32_t> start(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    start[i] = static_cast<std::uint32_t>(random_at(2, i));
  }
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    a.push_back(node.allocate<std::uint32_t>(d, n));
    b.push_back(node.allocate<std::uint32_t>(d, n));
  }
  const std::uint64_t blocks = (n + turned::threads - 1) / turned::threads;
  static_assert(steps % 2 == 0, "the last one writes `a`");
  for (const bool graph : {true, false}) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      node.upload(a[d], start);
      node.upload(b[d], std::vector<std::uint32_t>(n, 0xdeadbeef));
    }
    cuda::run_options o;
    o.graph = graph;
    std::uint64_t turn = 0;
    node.run(
        [&] {
          for (std::uint64_t s = 0; s < steps; ++s) {
            turn = (turn + shift_of(s)) % n;
            for (std::uint32_t d = 0; d < node.devices(); ++d) {
              const bool forth = s % 2 == 0;
              node.launch(d,
                          turned{forth ? a[d] : b[d], forth ? b[d] : a[d], shift_of(s),
                                 random_at(3 + d, s) % blocks, random_at(7 + d, s) % 20'000},
                          {blocks, turned::threads, 0});
            }
            if (s % 5 == 4) node.exchange();
          }
        },
        o);
    EXPECT_TRUE(node.remarks().empty()) << node.remarks().front();
    // Every kernel and every exchange is early, except the first one of each device.
    const std::uint64_t early = node.devices() * (steps + steps / 5 - 1);
    EXPECT_EQ(node.early_launches(), graph && launches_early(node.devices()) ? early : 0);
    for (std::uint32_t d = 0; d < node.devices(); ++d) {
      const auto found = node.download(a[d]);
      for (std::uint64_t i = 0; i < n; ++i) {
        ASSERT_EQ(found[i], start[(i + turn) % n] + steps)
            << "element " << i << " on device " << d << (graph ? ", graph" : ", streams");
      }
    }
  }
}

// A launch that does not directly follow a kernel of the node is not early. `filled` reads what a
// peer wrote before the exchange, and may start early after the exchange. Another kernel alternates
// with `filled`.
TEST(early_launch, does_not_follow_copies_or_tracked_chunks) {
  INTERLACE_NEED_GPUS(2);
  using kernel::mechanism;
  constexpr std::uint64_t between = steps / 2;  // number of other kernels, for each device
  const std::vector<std::pair<mechanism, std::uint64_t>> early_of{
      {mechanism::inline_stores, 2 * steps + between - 1},  // exchanges are early, too
      {mechanism::bulk_copy, steps + between - 1},  // all kernels except the first are early
      {mechanism::split, 2 * steps + between - 1},  // each of two ranges has a kernel
      {mechanism::polling, between}};               // only kernels that announce nothing are early
  for (const auto& [how, early] : early_of) {
    cuda::node node(options_for(2));
    kernel::region_options o;
    o.boundaries = {0, elements, 2 * elements};
    o.mechanism = how;
    o.split_ranges = 2;
    const auto data = node.create_region<std::uint32_t>(o);
    constexpr std::uint64_t blocks = (elements + filled::threads - 1) / filled::threads;
    node.run([&] {
      for (std::uint32_t s = 0; s < steps; ++s) {
        for (std::uint32_t d = 0; d < 2; ++d) {
          node.launch(
              d, filled{node.view(data, d), d * elements, elements, s},
              {blocks, filled::threads, 0}, data,
              kernel::block_mapping::contiguous(d * elements, filled::threads, (d + 1) * elements));
        }
        node.exchange(data);
        for (std::uint32_t d = 0; d < 2 && s % 2 == 0; ++d) {
          node.launch(d, gpu_test::delay{1}, {1, gpu_test::delay::threads, 0});
        }
      }
    });
    EXPECT_EQ(node.early_launches(), launches_early(2) ? 2 * early : 0)
        << kernel::mechanism_name(how);
    for (std::uint32_t d = 0; d < 2; ++d) {
      const auto front = node.front(data, d);
      for (std::uint64_t i = 0; i < front.size(); ++i) {
        ASSERT_EQ(front[i], filled::value(i, steps)) << kernel::mechanism_name(how);
      }
    }
  }
}

// On a GPU with several devices, blocks that wait in the exchange of one device must not keep away
// the blocks of another device.
TEST(early_launch, does_not_happen_if_a_gpu_has_several_devices_or_nodes) {
  INTERLACE_NEED_GPUS(1);
  EXPECT_EQ(cuda::early_devices({0}), 1U);
  EXPECT_EQ(cuda::early_devices({2, 0, 1}), 7U);
  EXPECT_EQ(cuda::early_devices({0, 1, 0}), 0U);
  cuda::node node(options_for(1));
  const auto twice = [&] {
    node.run([&] {
      for (int k = 0; k < 2; ++k)
        node.launch(0, gpu_test::delay{1}, {1, gpu_test::delay::threads, 0});
    });
    return node.early_launches();
  };
  const std::uint64_t alone = launches_early(1) ? 1 : 0;
  EXPECT_EQ(twice(), alone);
  {
    const cuda::node other(options_for(1));
    EXPECT_EQ(twice(), 0U);
  }
  EXPECT_EQ(twice(), alone);
}

}  // namespace
}  // namespace interlace::early_launch_tests
