// Partitioned arrays in programs that launch kernels on their own streams.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../probes/scattered_updates.hpp"
#include "delay.cuh"
#include "gpu.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/partition_device.cuh"

namespace interlace::gpu_test {
namespace {

// A program whose kernels make the same updates in each epoch.
template <class T, combine Op>
struct updating_program {
  using made_updates = probes::scattered_updates<T, Op>;
  using kernel_type = probes::scattered_updates_kernel<T, Op>;

  const made_updates& made;
  group devices;
  cuda::device_memory memory;
  std::vector<cudaStream_t> streams;
  std::vector<local<const std::uint64_t>> elements;
  std::vector<local<const T>> values;
  std::unique_ptr<partitioned_array<T, Op>> table;

  updating_program(const made_updates& updates, partition_spec spec, double deadline_s = 10)
      : made(updates),
        devices(
            group::local(options_for(static_cast<std::uint32_t>(updates.elements.size())).ordinals,
                         {deadline_s})) {
    spec.boundaries = made.boundaries;
    spec.elements = made.boundaries.back();
    table = std::make_unique<partitioned_array<T, Op>>(devices, spec);
    table->template load<kernel_type>();
    for (std::uint32_t d = 0; d < devices.devices(); ++d) {
      const cuda::current_device on(devices.ordinal(d));
      cudaFuncAttributes loaded{};
      INTERLACE_CUDA_CHECK(
          cudaFuncGetAttributes(&loaded, device::run_grid<device::untracked, delay>));
      INTERLACE_CUDA_CHECK(
          cudaStreamCreateWithFlags(&streams.emplace_back(), cudaStreamNonBlocking));
      elements.push_back(put(d, made.elements[d]));
      values.push_back(put(d, made.values[d]));
      const kernel::element_range part = table->part(d);
      const std::vector<T> fives(part.end - part.begin, T{5});
      copy(table->data(d), fives.data(), fives.size() * sizeof(T));
    }
  }
  ~updating_program() {
    table.reset();
    for (std::uint32_t d = 0; d < streams.size(); ++d) {
      const cuda::current_device on(devices.ordinal(d));
      EXPECT_EQ(cudaStreamDestroy(streams[d]), cudaSuccess);
    }
  }
  updating_program(const updating_program&) = delete;
  updating_program& operator=(const updating_program&) = delete;

  static void copy(void* to, const void* from, std::uint64_t bytes) {
    INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }
  template <class U>
  local<const U> put(std::uint32_t d, const std::vector<U>& data) {
    void* at = memory.take(devices.ordinal(d), data.size() * sizeof(U));
    copy(at, data.data(), data.size() * sizeof(U));
    return {static_cast<const U*>(at), data.size()};
  }
  void enqueue(std::uint32_t d, std::uint32_t wait_ns = 0) {
    const cuda::current_device on(devices.ordinal(d));
    table->begin(d, streams[d]);
    if (wait_ns != 0) device::stream_launcher{streams[d]}.launch(d, delay{wait_ns}, {1, 32});
    const std::uint64_t lanes = (elements[d].size + made.each - 1) / made.each;
    const kernel_type k{table->view(d), elements[d], values[d], made.each};
    table->launch(d, k, {(lanes + k.threads - 1) / k.threads, k.threads}, streams[d]);
    table->exchange(d, streams[d]);
  }
  void finish() {
    for (std::uint32_t d = 0; d < devices.devices(); ++d) devices.synchronize(d, streams[d]);
  }
  std::vector<T> found() {
    finish();
    std::vector<T> all;
    for (std::uint32_t d = 0; d < devices.devices(); ++d) {
      const kernel::element_range part = table->part(d);
      std::vector<T> own(part.end - part.begin);
      copy(own.data(), table->data(d), own.size() * sizeof(T));
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
};

partition_spec spec_of(const char* mechanism) {
  partition_spec spec;
  spec.name = "table";
  spec.mechanism = mechanism;
  return spec;
}

// Queues with room for two packets.
partition_spec small_queues(const char* mechanism, std::uint32_t value_bytes) {
  partition_spec spec = spec_of(mechanism);
  update_queues queues;
  queues.packet_bytes = spec.packet_bytes;
  spec.queued_updates = std::uint64_t{2} * queues.capacity(value_bytes);
  return spec;
}

class partition_api : public testing::TestWithParam<const char*> {
 protected:
  template <class T, combine Op>
  void check(std::uint32_t devices, std::uint64_t size, std::uint64_t count, partition_spec spec) {
    const probes::scattered_updates<T, Op> made(devices, size, count, 3);
    updating_program<T, Op> p(made, std::move(spec));
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      for (std::uint32_t d = 0; d < devices; ++d) p.enqueue(d);
    }
    EXPECT_EQ(p.found(), made.expected(3));
  }
};
INSTANTIATE_TEST_SUITE_P(all, partition_api, testing::Values("inline", "packed"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(partition_api, updates_of_each_operation_reach_their_owner_once) {
  INTERLACE_NEED_GPUS(3);
  const partition_spec spec = spec_of(GetParam());
  check<std::uint64_t, combine::bit_xor>(3, 100'000, 300'000, spec);
  check<std::uint32_t, combine::add>(2, 777, 20'000, spec);
  check<std::int32_t, combine::min>(3, 500, 20'000, spec);
  check<std::int64_t, combine::max>(3, 500, 20'000, spec);
  check<std::uint32_t, combine::bit_or>(3, 500, 20'000, spec);
  check<std::uint64_t, combine::store>(3, 5000, 20'000, spec);
  check<float, combine::add>(3, 300, 3000, spec);
  check<double, combine::max>(3, 300, 3000, spec);
}

TEST_P(partition_api, one_device_and_devices_without_elements) {
  INTERLACE_NEED_GPUS(4);
  check<std::uint64_t, combine::bit_xor>(1, 100, 500, spec_of(GetParam()));
  check<std::uint64_t, combine::bit_xor>(4, 3, 5000, spec_of(GetParam()));
}

TEST_P(partition_api, packets_queues_and_windows_of_other_sizes) {
  INTERLACE_NEED_GPUS(3);
  partition_spec spec = small_queues(GetParam(), 8);
  check<std::uint64_t, combine::add>(3, 1000, 20'000, spec);
  spec.combine_in_packets = false;
  spec.packet_bytes = 4096;
  check<std::uint32_t, combine::store>(3, 1000, 20'000, spec);
  spec = spec_of(GetParam());
  spec.update_windows = 4;
  check<std::uint64_t, combine::bit_xor>(3, 100'000, 300'000, spec);
}

TEST_P(partition_api, devices_are_late_at_random_200_times) {
  INTERLACE_NEED_GPUS(4);
  constexpr std::uint32_t devices = 4;
  constexpr std::uint32_t epochs = 200;
  const probes::scattered_updates<std::uint64_t, combine::add> made(devices, 3000, 3000, 3);
  updating_program<std::uint64_t, combine::add> p(made, small_queues(GetParam(), 8));
  std::mt19937 random(1);
  for (std::uint32_t e = 0; e < epochs; ++e) {
    for (std::uint32_t d = 0; d < devices; ++d) p.enqueue(d, 1 + random() % 30'000);
  }
  EXPECT_EQ(p.found(), made.expected(epochs));
}

TEST_P(partition_api, one_receiver_is_slow) {
  INTERLACE_NEED_GPUS(3);
  const probes::scattered_updates<std::uint64_t, combine::add> made(3, 900, 20'000, 3);
  updating_program<std::uint64_t, combine::add> p(made, small_queues(GetParam(), 8));
  for (std::uint32_t e = 0; e < 20; ++e) {
    for (std::uint32_t d = 0; d < 3; ++d) p.enqueue(d, d == 1 ? 1'000'000 : 0);
  }
  EXPECT_EQ(p.found(), made.expected(20));
}

TEST_P(partition_api, a_receiver_that_never_comes_is_named) {
  INTERLACE_NEED_GPUS(2);
  const probes::scattered_updates<std::uint64_t, combine::add> made(2, 900, 3000, 3);
  std::string message = "nothing";
  {
    updating_program<std::uint64_t, combine::add> p(made, small_queues(GetParam(), 8), 0.2);
    p.enqueue(0);
    try {
      p.devices.synchronize(0, p.streams[0]);
      p.devices.check();
    } catch (const device_error& e) {
      message = e.what();
    }
    EXPECT_THROW(p.enqueue(0), device_error);  // the group can only be destroyed
  }
  EXPECT_NE(message.find("for GPU 1, whose counter"), std::string::npos) << message;
  EXPECT_NE(message.find("region 'table'"), std::string::npos) << message;
  // A new group on the same GPUs works.
  check<std::uint64_t, combine::add>(2, 900, 3000, small_queues(GetParam(), 8));
}

TEST_P(partition_api, a_graph_of_two_epochs_is_launched_three_times) {
  INTERLACE_NEED_GPUS(2);
  const probes::scattered_updates<std::uint64_t, combine::add> made(2, 5000, 20'000, 3);
  updating_program<std::uint64_t, combine::add> p(made, spec_of(GetParam()));
  for (std::uint32_t d = 0; d < 2; ++d) p.enqueue(d);
  p.finish();
  std::vector<cudaGraphExec_t> graphs(2);
  for (std::uint32_t d = 0; d < 2; ++d) {
    const cuda::current_device on(p.devices.ordinal(d));
    cudaGraph_t graph = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(p.streams[d], cudaStreamCaptureModeThreadLocal));
    p.enqueue(d);
    p.enqueue(d);
    INTERLACE_CUDA_CHECK(cudaStreamEndCapture(p.streams[d], &graph));
    INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&graphs[d], graph, 0));
    INTERLACE_CUDA_CHECK(cudaGraphDestroy(graph));
  }
  for (int launch = 0; launch < 3; ++launch) {
    for (std::uint32_t d = 0; d < 2; ++d) {
      const cuda::current_device on(p.devices.ordinal(d));
      INTERLACE_CUDA_CHECK(cudaGraphLaunch(graphs[d], p.streams[d]));
    }
  }
  EXPECT_EQ(p.found(), made.expected(7));
  for (cudaGraphExec_t graph : graphs) INTERLACE_CUDA_CHECK(cudaGraphExecDestroy(graph));
}

TEST_P(partition_api, an_update_beyond_the_array_is_named_in_the_debug_mode) {
  INTERLACE_NEED_GPUS(2);
  for (const bool checks : {false, true}) {
    const group devices = group::local(options_for(2).ordinals);
    partition_spec spec = spec_of(GetParam());
    spec.elements = 200;
    spec.checks = checks;
    partitioned_array<std::uint64_t, combine::add> table(devices, spec);
    table.load<probes::update_beyond>();
    std::vector<cudaStream_t> streams(2);
    for (std::uint32_t d = 0; d < 2; ++d) {
      const cuda::current_device on(devices.ordinal(d));
      INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
      table.begin(d, streams[d]);
      if (d == 1) table.launch(1, probes::update_beyond{table.view(1)}, {3, 64}, streams[1]);
      table.exchange(d, streams[d]);
    }
    std::string message = "nothing";
    try {
      for (const std::uint32_t d : {0U, 1U}) table.check(d, streams[d]);
    } catch (const model_error& e) {
      message = e.what();
    }
    EXPECT_EQ(message, checks ? "lane 63 of block 2 of device 1 updates element 206 of a "
                                "partitioned array of 200"
                              : "nothing");
    EXPECT_NO_THROW(table.check(1, streams[1]));  // a mistake is reported once
    std::vector<std::uint64_t> sum(200);
    for (std::uint32_t d = 0; d < 2; ++d) {
      INTERLACE_CUDA_CHECK(cudaMemcpy(sum.data() + 100 * d, table.data(d),
                                      100 * sizeof(std::uint64_t), cudaMemcpyDefault));
      INTERLACE_CUDA_CHECK(cudaStreamDestroy(streams[d]));
    }
    std::vector<std::uint64_t> wanted(200);
    std::fill_n(wanted.begin(), 191, 1);
    EXPECT_EQ(sum, wanted);
  }
}

template <class Error>
std::string error_of(const group& devices, const partition_spec& spec) {
  try {
    const partitioned_array<std::uint64_t, combine::add> table(devices, spec);
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(partition_specs, that_are_wrong_are_one_error) {
  INTERLACE_NEED_GPUS(2);
  const group devices = group::local(options_for(2).ordinals);
  partition_spec good = spec_of("packed");
  good.elements = 1000;
  EXPECT_EQ(error_of<usage_error>(devices, good), "nothing");
  partition_spec spec = good;
  spec.mechanism = "polling";
  EXPECT_EQ(error_of<usage_error>(devices, spec),
            "the partitioned array 'table' cannot have the mechanism 'polling'; use inline or "
            "packed");
  spec = good;
  spec.elements = 0;
  EXPECT_EQ(error_of<usage_error>(devices, spec),
            "the partitioned array 'table' has no elements; give 1 or more");
  spec = good;
  spec.boundaries = {0, 600, 900};
  EXPECT_EQ(error_of<usage_error>(devices, spec),
            "the partitioned array 'table' has 1000 elements, and its boundaries end at 900");
  spec.boundaries = {0, 1200, 1000};
  EXPECT_NE(error_of<usage_error>(devices, spec).find("ascending boundaries"), std::string::npos);
  spec = good;
  spec.packet_bytes = 100;
  EXPECT_NE(error_of<usage_error>(devices, spec).find("packets of 100 bytes are not possible"),
            std::string::npos);
  // A queue that is larger than the GPU's memory is refused, and the group stays usable.
  spec = good;
  spec.queued_updates = std::uint64_t{1} << 40U;
  EXPECT_NE(error_of<std::runtime_error>(devices, spec), "nothing");
  EXPECT_EQ(error_of<usage_error>(devices, good), "nothing");
}

TEST(partition_specs, calls_out_of_order_are_one_error) {
  INTERLACE_NEED_GPUS(1);
  const group devices = group::local(options_for(1).ordinals);
  partition_spec spec = spec_of("packed");
  spec.elements = 1000;
  partitioned_array<std::uint64_t, combine::add> table(devices, spec);
  std::string message = "nothing";
  try {
    table.launch(0, probes::update_beyond{table.view(0)}, {3, 64}, nullptr);
  } catch (const model_error& e) {
    message = e.what();
  }
  EXPECT_EQ(message,
            "the partitioned array 'table' is updated on device 0, where no epoch has begun; call "
            "begin first");
  EXPECT_THROW(table.exchange(0, nullptr), model_error);
}

}  // namespace
}  // namespace interlace::gpu_test
