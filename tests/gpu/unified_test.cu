// Unified arrays. Their pages are distributed over the GPUs, and all GPUs load and store all pages.
#include <algorithm>
#include <vector>

#include "gpu.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::unified_tests {
namespace {

using gpu_test::options_for;
using gpu_test::random_at;

constexpr std::uint64_t page_elements = cuda::unified_memory::page_bytes / sizeof(std::uint32_t);

class unified_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, unified_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

// Mixes the epoch into each element of the pages on device `home`.
struct mix_pages {
  unified<std::uint32_t> data;
  std::uint32_t devices;
  std::uint32_t home;
  std::uint32_t epoch;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.global_index(), data.size, lane.global_count())) {
        if (i / page_elements % devices != home) continue;
        const std::uint32_t old = lane.load(data, i);
        lane.store(data, i, 31 * old + static_cast<std::uint32_t>(random_at(epoch, i)));
      }
    });
  }
};

TEST_P(unified_test, every_device_reads_and_writes_every_page) {
  const std::uint32_t devices = GetParam();
  cuda::node node(options_for(devices));
  // There are two arrays. The last page of each array is incomplete. The first page of each array
  // is on device 0.
  const std::uint64_t n = 9 * page_elements + 4321;
  const unified<std::uint32_t> arrays[] = {node.allocate_unified<std::uint32_t>(n),
                                           node.allocate_unified<std::uint32_t>(n)};
  std::vector<std::uint32_t> expected(n);
  for (std::uint64_t i = 0; i < n; ++i) expected[i] = static_cast<std::uint32_t>(random_at(77, i));
  for (const auto& array : arrays) {
    for (const std::uint32_t v : node.download(array)) ASSERT_EQ(v, 0xffffffffU);
    node.upload(array, expected);
  }

  // In epoch e, device d handles the pages on device (d + e + 1) % devices. Each device therefore
  // handles its own pages after the pages of all other devices.
  const std::uint32_t epochs = 2 * devices;
  node.run([&] {
    for (std::uint32_t e = 0; e < epochs; ++e) {
      for (std::uint32_t d = 0; d < devices; ++d) {
        for (const auto& array : arrays) {
          node.launch(d, mix_pages{array, devices, (d + e + 1) % devices, e}, {264, 256, 0});
        }
      }
      node.exchange();
    }
  });
  for (std::uint32_t e = 0; e < epochs; ++e) {
    for (std::uint64_t i = 0; i < n; ++i) {
      expected[i] = 31 * expected[i] + static_cast<std::uint32_t>(random_at(e, i));
    }
  }
  for (const auto& array : arrays) {
    const auto seen = node.download(array);
    const auto wrong = std::mismatch(seen.begin(), seen.end(), expected.begin());
    EXPECT_EQ(wrong.first, seen.end()) << "first at element " << wrong.first - seen.begin();
  }
}

TEST_P(unified_test, pages_lie_on_the_devices_in_turn) {
  cuda::node node(options_for(GetParam()));
  const auto array = node.allocate_unified<std::uint32_t>(7 * page_elements);
  for (std::uint32_t page = 0; page < 7; ++page) {
    cudaPointerAttributes attributes{};
    INTERLACE_CUDA_CHECK(cudaPointerGetAttributes(&attributes, array.data + page * page_elements));
    EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
    EXPECT_EQ(attributes.device, node.ordinal(page % node.devices())) << "page " << page;
  }
}

TEST_P(unified_test, goes_with_its_node) {
  const auto free_on = [](int ordinal) {
    const cuda::current_device on(ordinal);
    std::size_t free = 0;
    std::size_t total = 0;
    INTERLACE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return static_cast<double>(free);
  };
  const auto ordinals = options_for(GetParam()).ordinals;
  const std::uint64_t pages = 100 * GetParam();
  const double share = static_cast<double>(pages * cuda::unified_memory::page_bytes) / GetParam();
  {
    const cuda::node first(options_for(GetParam()));
  }  // this run makes the allocations that a process makes only once
  std::vector<double> before;
  for (const int gpu : ordinals) before.push_back(free_on(gpu));
  {
    cuda::node node(options_for(GetParam()));
    EXPECT_EQ(node.allocate_unified<std::uint32_t>(pages * page_elements).size,
              pages * page_elements);
    for (std::size_t d = 0; d < ordinals.size(); ++d) {
      EXPECT_GT(before[d] - free_on(ordinals[d]), 0.9 * share) << "device " << d;
    }
  }
  for (std::size_t d = 0; d < ordinals.size(); ++d) {
    EXPECT_LT(before[d] - free_on(ordinals[d]), 0.1 * share) << "device " << d;
  }
}

TEST_P(unified_test, small_and_wrong_sizes) {
  cuda::node node(options_for(GetParam()));
  EXPECT_EQ(node.download(node.allocate_unified<float>(0)).size(), 0U);
  const auto three = node.allocate_unified<float>(3);
  node.upload(three, {1, 2, 3});
  EXPECT_EQ(node.download(three), (std::vector<float>{1, 2, 3}));
  EXPECT_THROW(node.upload(three, {1, 2, 3, 4}), model_error);
}

}  // namespace
}  // namespace interlace::unified_tests
