// Library calls between kernels on GPUs. The calls are CUB's sort and scan, in graphs and on plain
// streams.
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "../probes/sorted_sums.hpp"
#include "gpu.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::library_call_tests {
namespace {

using gpu_test::options_for;

// Allocates the scratch memory before the library call, because the call itself must not allocate.
probe::sorted_sums put_sorted_sums(cuda::node& node, std::uint32_t device, std::uint64_t n) {
  probe::sorted_sums s = probe::make_sorted_sums(node, device, n);
  const auto count = static_cast<std::uint32_t>(n);
  std::size_t sort_bytes = 0;
  std::size_t scan_bytes = 0;
  const cuda::current_device on(node.ordinal(device));
  INTERLACE_CUDA_CHECK(
      cub::DeviceRadixSort::SortKeys(nullptr, sort_bytes, s.keys.data, s.sorted.data, count));
  INTERLACE_CUDA_CHECK(
      cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, s.sorted.data, s.sums.data, count));
  const auto scratch = node.allocate<std::uint8_t>(device, std::max(sort_bytes, scan_bytes));
  s.sort.on_gpu = [keys = s.keys, sorted = s.sorted, scratch, sort_bytes, count](void* stream) {
    std::size_t bytes = sort_bytes;
    INTERLACE_CUDA_CHECK(cub::DeviceRadixSort::SortKeys(scratch.data, bytes, keys.data, sorted.data,
                                                        count, 0, 32,
                                                        static_cast<cudaStream_t>(stream)));
  };
  s.scan.on_gpu = [sorted = s.sorted, sums = s.sums, scratch, scan_bytes, count](void* stream) {
    std::size_t bytes = scan_bytes;
    INTERLACE_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(scratch.data, bytes, sorted.data, sums.data,
                                                       count, static_cast<cudaStream_t>(stream)));
  };
  return s;
}

class library_call_test : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override { INTERLACE_NEED_GPUS(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(all, library_call_test, testing::Values(1U, 2U, 4U),
                         testing::PrintToStringParamName());

TEST_P(library_call_test, stands_in_the_stream) {
  constexpr std::uint32_t rounds = 5;
  // The library chooses different kinds of kernels for these two sizes.
  for (const std::uint64_t n : {std::uint64_t{1000}, std::uint64_t{3'000'001}}) {
    // The expected results are the same for every number of devices. The host computes them while
    // the first GPUs work.
    static std::map<std::uint64_t, std::shared_future<std::vector<std::uint32_t>>> references;
    if (!references.contains(n)) {
      references[n] =
          std::async(std::launch::async, [n] { return probe::sorted_sums_reference(n, rounds); });
    }
    for (const char* way : {"graph", "streams", "detail", "no run"}) {
      SCOPED_TRACE(way);
      cuda::node node(options_for(GetParam()));
      std::vector<probe::sorted_sums> all;
      for (std::uint32_t d = 0; d < node.devices(); ++d) {
        all.push_back(put_sorted_sums(node, d, n));
      }
      const auto enqueue = [&] {
        for (std::uint32_t d = 0; d < node.devices(); ++d) {
          probe::enqueue_sorted_sums(node, d, all[d], rounds);
        }
        node.exchange();
      };
      cuda::run_options o;
      o.graph = std::string(way) == "graph";
      o.detail = std::string(way) == "detail";
      o.warm_ups = 1;
      o.repetitions = 2;
      if (std::string(way) == "no run") {
        enqueue();
      } else {
        const auto result = node.run(enqueue, o);
        EXPECT_GT(result.time_s, 0);
        EXPECT_LT(result.time_s, 1);
        const auto sorts = std::count_if(result.timeline.begin(), result.timeline.end(),
                                         [](const auto& e) { return e.name == "sort"; });
        EXPECT_EQ(static_cast<std::uint32_t>(sorts), o.detail ? rounds * node.devices() : 0);
      }
      for (std::uint32_t d = 0; d < node.devices(); ++d) {
        EXPECT_EQ(node.download(all[d].out), references[n].get()) << "on device " << d;
      }
      EXPECT_TRUE(node.remarks().empty()) << node.remarks().front();
    }
  }
}

TEST_P(library_call_test, run_rethrows_its_exceptions) {
  cuda::node node(options_for(GetParam()));
  kernel::library_call c;
  c.name = "nothing";
  EXPECT_THROW(node.call(0, c), model_error);
  c.on_gpu = [](void*) { throw device_error("no scratch"); };
  EXPECT_THROW(node.call(node.devices(), c), model_error);
  for (const bool graph : {true, false}) {
    cuda::run_options o;
    o.graph = graph;
    EXPECT_THROW(node.run([&] { node.call(0, c); }, o), device_error);
  }
  // The node still works after the errors.
  const auto s = put_sorted_sums(node, 0, 1000);
  node.run([&] { probe::enqueue_sorted_sums(node, 0, s, 1); });
  EXPECT_EQ(node.download(s.out), probe::sorted_sums_reference(1000, 1));
}

}  // namespace
}  // namespace interlace::library_call_tests
