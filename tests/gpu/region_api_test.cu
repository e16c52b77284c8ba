// Regions in programs that have their own kernels: plain __global__ functions and streams.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "gpu.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/region_device.cuh"

namespace interlace::region_api_tests {
namespace {

using gpu_test::random_at;

constexpr std::uint32_t lanes = 64;
constexpr std::uint64_t tile = 300;
constexpr std::uint32_t blocks = 7;

INTERLACE_HOST_DEVICE std::uint32_t value_of(std::uint64_t epoch, std::uint64_t element) {
  return static_cast<std::uint32_t>(random_at(epoch, element));
}

__device__ void wait_ns(std::uint64_t nanoseconds) {
  std::uint64_t begin;
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

enum class fault { none, skips, repeats, stalls, all_stall, all_begin_late, unwritten, outside };

// Each block writes and publishes one tile after another, in the part that its device owns. The
// kernel reads the epoch from memory, so a second launch of a graph can write different values.
// `repetition` selects the epoch.
__global__ void publish_tiles(region_writer<std::uint32_t> w, std::uint64_t begin,
                              std::uint64_t end, const std::uint64_t* first_epoch,
                              std::uint64_t offset, fault wrong) {
  const std::uint64_t epoch = *first_epoch + offset;
  if (wrong == fault::all_begin_late) wait_ns(60'000'000);
  for (std::uint64_t at = begin + blockIdx.x * tile; at < end; at += gridDim.x * tile) {
    const std::uint64_t last = at + tile < end ? at + tile : end;
    const bool chosen = at == begin + tile;
    // A block stalls once, because its first tile already comes after the deadline.
    const bool first = at == begin + blockIdx.x * tile;
    if (first && wrong == fault::stalls) wait_ns(150'000'000);
    if (first && wrong == fault::all_stall) wait_ns(500'000'000);
    if (random_at(epoch, at) % 8 == 0) wait_ns(random_at(epoch, at + 1) % 20'000);
    for (std::uint64_t i = at + threadIdx.x; i < last; i += blockDim.x) {
      if (chosen && wrong == fault::unwritten && i == at + 5) continue;
      store(w, i, value_of(epoch, i));
    }
    if (chosen && wrong == fault::outside && threadIdx.x == 0) store(w, end, 7U);
    if (chosen && wrong == fault::skips) continue;
    publish(w, at, last);
    if (chosen && wrong == fault::repeats) publish(w, at, last);
  }
}

__global__ void wait_long(std::uint64_t nanoseconds) { wait_ns(nanoseconds); }

// Each thread writes one element. At the end of a block, the block announces its elements.
__global__ void announce_at_the_end(region_writer<std::uint32_t> w, std::uint64_t begin,
                                    std::uint64_t end, const std::uint64_t* first_epoch,
                                    std::uint64_t offset) {
  const std::uint64_t i = begin + std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < end) store(w, i, value_of(*first_epoch + offset, i));
  announce(w);
}

__global__ void sum_front(const std::uint32_t* front, std::uint64_t n, unsigned long long* sum) {
  unsigned long long own = 0;
  for (std::uint64_t i = threadIdx.x; i < n; i += blockDim.x) own += front[i];
  atomicAdd(sum, own);
}

constexpr const char* in_bulk = "polling in bulk";

struct program {
  group devices;
  region_spec spec;
  cuda::device_memory memory;  // declared before the region, because the region may use it
  std::vector<cudaStream_t> streams;
  std::vector<std::uint64_t*> first_epoch;
  std::unique_ptr<region> data;
  bool at_the_end = false;

  static region_spec make_spec(const std::string& mechanism, std::uint64_t n,
                               std::uint64_t chunk_bytes) {
    region_spec s;
    s.elements = n;
    s.element_bytes = sizeof(std::uint32_t);
    s.mechanism = mechanism == in_bulk ? "polling" : mechanism;
    if (mechanism == in_bulk) s.agent_copy = "bulk";
    s.chunk_bytes = chunk_bytes;
    s.agent_threads = 512;
    return s;
  }

  program(std::uint32_t n, region_spec asked, double deadline_s = 10, bool brings_memory = false)
      : devices(group::local(gpu_test::options_for(n).ordinals, {deadline_s})),
        spec(std::move(asked)) {
    std::vector<region_memory> brought;
    for (std::uint32_t d = 0; d < n; ++d) {
      const cuda::current_device on(devices.ordinal(d));
      INTERLACE_CUDA_CHECK(
          cudaStreamCreateWithFlags(&streams.emplace_back(), cudaStreamNonBlocking));
      first_epoch.push_back(
          static_cast<std::uint64_t*>(memory.take(devices.ordinal(d), sizeof(std::uint64_t))));
      set_epoch(d, 0);
      cudaFuncAttributes loaded{};  // loads the kernel before anything waits
      INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, publish_tiles));
      INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, announce_at_the_end));
      INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, sum_front));
      INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, wait_long));
      const std::uint64_t bytes = spec.elements * sizeof(std::uint32_t);
      if (brings_memory) {
        brought.push_back(
            {memory.take(devices.ordinal(d), bytes), memory.take(devices.ordinal(d), bytes + 64)});
      }
    }
    data = std::make_unique<region>(devices, spec, brought);
  }
  ~program() {
    data.reset();
    for (std::uint32_t d = 0; d < streams.size(); ++d) {
      const cuda::current_device on(devices.ordinal(d));
      EXPECT_EQ(cudaStreamDestroy(streams[d]), cudaSuccess);
    }
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  void set_epoch(std::uint32_t d, std::uint64_t epoch) {
    const cuda::current_device on(devices.ordinal(d));
    INTERLACE_CUDA_CHECK(cudaMemcpy(first_epoch[d], &epoch, sizeof(epoch), cudaMemcpyHostToDevice));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }
  void enqueue(std::uint32_t d, std::uint64_t offset, fault wrong = fault::none) {
    const cuda::current_device on(devices.ordinal(d));
    const kernel::element_range part = data->part(d);
    data->begin(d, streams[d]);
    if (at_the_end) {
      const auto grid = static_cast<unsigned int>((part.end - part.begin + lanes - 1) / lanes);
      announce_at_the_end<<<grid, lanes, 0, streams[d]>>>(
          data->writer<std::uint32_t>(d), part.begin, part.end, first_epoch[d], offset);
    } else {
      publish_tiles<<<blocks, lanes, 0, streams[d]>>>(
          data->writer<std::uint32_t>(d), part.begin, part.end, first_epoch[d], offset,
          d == 0 || wrong == fault::all_stall || wrong == fault::all_begin_late ? wrong
                                                                                : fault::none);
    }
    INTERLACE_CUDA_CHECK(cudaGetLastError());
    data->exchange(d, streams[d]);
  }
  void enqueue_all(std::uint64_t offset, fault wrong = fault::none) {
    for (std::uint32_t d = 0; d < devices.devices(); ++d) enqueue(d, offset, wrong);
  }
  void finish() {
    for (std::uint32_t d = 0; d < devices.devices(); ++d) devices.synchronize(d, streams[d]);
  }
  void expect_epoch(std::uint64_t epoch) {
    finish();
    for (std::uint32_t d = 0; d < devices.devices(); ++d) {
      const cuda::current_device on(devices.ordinal(d));
      std::vector<std::uint32_t> front(spec.elements);
      INTERLACE_CUDA_CHECK(cudaMemcpy(front.data(), data->front(d),
                                      spec.elements * sizeof(std::uint32_t),
                                      cudaMemcpyDeviceToHost));
      for (std::uint64_t i = 0; i < spec.elements; ++i) {
        ASSERT_EQ(front[i], value_of(epoch, i)) << "element " << i << " on device " << d;
      }
    }
  }
  std::string failure_of(fault wrong) {
    try {
      enqueue_all(0);
      enqueue_all(1, wrong);
      finish();
    } catch (const device_error& e) {
      return e.what();
    }
    return "nothing";
  }
};

std::uint32_t most_devices() { return gpu_test::why_not(4).empty() ? 4 : 2; }

class region_api : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string(in_bulk)) INTERLACE_NEED_COPIES(kernel::agent_copy::bulk);
  }
};

std::string way_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return c == '-' || c == ' '; });
  return name;
}
INSTANTIATE_TEST_SUITE_P(all, region_api,
                         testing::Values("bulk-copy", "inline", "polling", in_bulk, "copy-engine"),
                         way_name);

// Tests of regions with agents that wait for the announcements of kernels.
class announced_region_api : public region_api {};
INSTANTIATE_TEST_SUITE_P(all, announced_region_api,
                         testing::Values("polling", in_bulk, "copy-engine"), way_name);

TEST_P(region_api, kernels_publish_in_their_midst) {
  INTERLACE_NEED_GPUS(1);
  for (const std::uint32_t n : {1U, 2U, 4U}) {
    if (!gpu_test::why_not(n).empty()) continue;
    program p(n, program::make_spec(GetParam(), 50'021, 4096));
    for (std::uint64_t epoch = 0; epoch < 7; ++epoch) {
      p.enqueue_all(epoch);
      p.expect_epoch(epoch);
    }
    for (std::uint64_t epoch = 7; epoch < 20; ++epoch) p.enqueue_all(epoch);
    p.expect_epoch(19);
  }
}

TEST_P(region_api, kernels_announce_at_their_blocks_ends) {
  INTERLACE_NEED_GPUS(2);
  const std::uint32_t n = most_devices();
  region_spec spec = program::make_spec(GetParam(), 40'000, 2048);
  spec.boundaries = {0};
  for (std::uint32_t d = 0; d < n; ++d) {
    spec.boundaries.push_back(40'000ULL * (d + 1) * (d + 1) / n / n);
    const std::uint64_t elements = spec.boundaries[d + 1] - spec.boundaries[d];
    spec.producers.push_back(
        {(elements + lanes - 1) / lanes,
         kernel::block_mapping::contiguous(spec.boundaries[d], lanes, spec.boundaries[d + 1])});
  }
  program p(n, spec);
  p.at_the_end = true;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) p.enqueue_all(epoch);
  p.expect_epoch(5);
}

TEST_P(region_api, memory_that_the_caller_brings) {
  INTERLACE_NEED_GPUS(2);
  program p(2, program::make_spec(GetParam(), 30'000, 4096), 10, true);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) p.enqueue_all(epoch);
  p.expect_epoch(4);
}

TEST_P(region_api, a_graph_of_two_epochs_is_launched_three_times) {
  INTERLACE_NEED_GPUS(2);
  const std::uint32_t n = most_devices();
  program p(n, program::make_spec(GetParam(), 50'021, 4096));
  p.enqueue_all(0);
  p.expect_epoch(0);
  std::vector<cudaGraphExec_t> graphs(n);
  for (std::uint32_t d = 0; d < n; ++d) {
    const cuda::current_device on(p.devices.ordinal(d));
    cudaGraph_t graph = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(p.streams[d], cudaStreamCaptureModeThreadLocal));
    p.enqueue(d, 0);
    p.enqueue(d, 1);
    INTERLACE_CUDA_CHECK(cudaStreamEndCapture(p.streams[d], &graph));
    INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&graphs[d], graph, 0));
    INTERLACE_CUDA_CHECK(cudaGraphDestroy(graph));
  }
  for (std::uint64_t repetition = 0; repetition < 3; ++repetition) {
    for (std::uint32_t d = 0; d < n; ++d) p.set_epoch(d, 10 + 2 * repetition);
    for (std::uint32_t d = 0; d < n; ++d) {
      const cuda::current_device on(p.devices.ordinal(d));
      INTERLACE_CUDA_CHECK(cudaGraphLaunch(graphs[d], p.streams[d]));
    }
    p.expect_epoch(11 + 2 * repetition);
  }
  // Another epoch came in between, so this graph launch is out of turn.
  for (std::uint32_t d = 0; d < n; ++d) p.set_epoch(d, 0);
  p.enqueue_all(30);
  p.expect_epoch(30);
  for (std::uint32_t d = 0; d < n; ++d) {
    const cuda::current_device on(p.devices.ordinal(d));
    INTERLACE_CUDA_CHECK(cudaGraphLaunch(graphs[d], p.streams[d]));
  }
  std::string message = "nothing";
  try {
    p.finish();
  } catch (const device_error& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("took the buffers of another epoch"), std::string::npos) << message;
  for (std::uint32_t d = 0; d < n; ++d) {
    const cuda::current_device on(p.devices.ordinal(d));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(p.streams[d]));
    INTERLACE_CUDA_CHECK(cudaGraphExecDestroy(graphs[d]));
  }
}

TEST_P(region_api, readers_of_the_front_see_a_whole_epoch) {
  INTERLACE_NEED_GPUS(2);
  constexpr std::uint64_t n = 20'000;
  constexpr std::uint64_t epochs = 40;
  program p(2, program::make_spec(GetParam(), n, 2048));
  std::vector<unsigned long long*> sums;
  for (std::uint32_t d = 0; d < 2; ++d) {
    sums.push_back(static_cast<unsigned long long*>(
        p.memory.take(p.devices.ordinal(d), epochs * sizeof(unsigned long long))));
    const cuda::current_device on(p.devices.ordinal(d));
    INTERLACE_CUDA_CHECK(cudaMemset(sums[d], 0, epochs * sizeof(unsigned long long)));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    p.enqueue_all(epoch);
    for (std::uint32_t d = 0; d < 2; ++d) {
      const cuda::current_device on(p.devices.ordinal(d));
      const auto* front = static_cast<const std::uint32_t*>(p.data->front(d));
      sum_front<<<1, 256, 0, p.streams[d]>>>(front, n, sums[d] + epoch);
      INTERLACE_CUDA_CHECK(cudaGetLastError());
    }
  }
  p.finish();
  for (std::uint32_t d = 0; d < 2; ++d) {
    std::vector<unsigned long long> seen(epochs);
    const cuda::current_device on(p.devices.ordinal(d));
    INTERLACE_CUDA_CHECK(cudaMemcpy(seen.data(), sums[d], epochs * sizeof(unsigned long long),
                                    cudaMemcpyDeviceToHost));
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      unsigned long long expected = 0;
      for (std::uint64_t i = 0; i < n; ++i) expected += value_of(epoch, i);
      ASSERT_EQ(seen[epoch], expected) << "epoch " << epoch << " on device " << d;
    }
  }
}

TEST_P(announced_region_api, wrong_publications_are_reported) {
  INTERLACE_NEED_GPUS(2);
  const std::string how = GetParam();
  {
    program p(2, program::make_spec(how, 20'000, 2048));
    const std::string message = p.failure_of(fault::skips);
    EXPECT_NE(message.find("GPU 0: a kernel announced too little of chunk"), std::string::npos)
        << message;
    EXPECT_THROW(p.devices.check(), device_error);
    EXPECT_THROW(p.data->begin(0, p.streams[0]), device_error);
  }
  program p(2, program::make_spec(how, 20'000, 2048));
  const std::string message = p.failure_of(fault::repeats);
  EXPECT_NE(message.find("GPU 0: a kernel announced too much of chunk"), std::string::npos)
      << message;
}

TEST_P(region_api, the_debug_mode_names_block_chunk_and_element) {
  INTERLACE_NEED_GPUS(2);
  const std::string how = GetParam();
  region_spec spec = program::make_spec(how, 20'000, 2048);
  spec.checks = true;
  {
    program p(2, spec);
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) p.enqueue_all(epoch);
    p.expect_epoch(3);
  }
  {
    program p(2, spec);
    const std::string message = p.failure_of(fault::outside);
    EXPECT_NE(message.find("GPU 0: block 1 stored or published element 10000 of region 0"),
              std::string::npos)
        << message;
  }
  {
    program p(2, spec);
    const std::string message = p.failure_of(fault::repeats);
    EXPECT_NE(message.find("GPU 0: block 1 published element "), std::string::npos) << message;
    EXPECT_NE(message.find("which block 1 had published"), std::string::npos) << message;
  }
  // Regions with these mechanisms have no chunks that wait for publications.
  if (how == "bulk-copy" || how == "inline") return;
  {
    program p(2, spec);
    const std::string message = p.failure_of(fault::skips);
    EXPECT_NE(message.find("GPU 0: block 1 stored element "), std::string::npos) << message;
    EXPECT_NE(message.find("which no block published"), std::string::npos) << message;
  }
  program p(2, spec);
  const std::string message = p.failure_of(fault::unwritten);
  EXPECT_NE(message.find("GPU 0: block 1 published element 305 of region 0 (chunk "),
            std::string::npos)
      << message;
}

TEST(region_group, all_gpus_are_a_group) {
  INTERLACE_NEED_GPUS(1);
  const group g = group::all();
  int gpus = 0;
  INTERLACE_CUDA_CHECK(cudaGetDeviceCount(&gpus));
  ASSERT_EQ(g.devices(), static_cast<std::uint32_t>(gpus));
  for (std::uint32_t d = 0; d < g.devices(); ++d) EXPECT_EQ(g.ordinal(d), static_cast<int>(d));
}

TEST(region_deadline, a_kernel_slower_than_the_deadline_is_reported) {
  INTERLACE_NEED_GPUS(2);
  program p(2, program::make_spec("polling", 20'000, 2048), 0.1);
  const std::string message = p.failure_of(fault::stalls);
  EXPECT_NE(message.find("GPU 0 waited 0.1 s for chunk"), std::string::npos) << message;
}

// The kernel ends without an exchange, so no device waits at an exchange. Only streams wait for
// chunks.
TEST(region_deadline, a_stream_that_waits_for_a_chunk_is_reported) {
  INTERLACE_NEED_GPUS(2);
  program p(2, program::make_spec("copy-engine", 20'000, 2048), 0.1);
  const std::string message = p.failure_of(fault::all_stall);
  EXPECT_NE(message.find("GPU 0 waited 0.1 s for chunk 0 of region 0, whose counter is 0 and not "),
            std::string::npos)
      << message;
}

TEST(region_deadline, a_wait_can_be_asked_for_before_its_deadline) {
  INTERLACE_NEED_GPUS(2);
  // Each block stalls for five deadlines before the first piece that it publishes.
  program p(2, program::make_spec("copy-engine", 20'000, 2048), 0.1);
  EXPECT_EQ(p.devices.waits(), "");
  p.enqueue_all(0);
  p.enqueue_all(1, fault::all_stall);
  std::string asked;
  for (int k = 0; k < 50 && asked.empty(); ++k) asked = p.devices.waits();
  EXPECT_TRUE(asked.starts_with("GPU 0 waits for chunk 0 of region 0, whose counter is 0 and not "))
      << asked;
  EXPECT_THROW(p.finish(), device_error);
}

// Returns the answer of this process to `interlace ps`.
std::string told_by(const std::filesystem::path& socket_of_this_process) {
  const descriptor asker(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_of_this_process;
  std::copy_n(path.begin(), std::min(path.size(), sizeof(address.sun_path) - 1),
              std::begin(address.sun_path));
  if (connect(asker.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return {};
  }
  std::string text;
  char some[4096];
  for (ssize_t n = 0; (n = read(asker.get(), some, sizeof(some))) > 0;) text.append(some, n);
  return text;
}

TEST(region_deadline, interlace_ps_shows_a_region_that_hangs) {
  INTERLACE_NEED_GPUS(2);
  std::string folder = "/tmp/region-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  const std::filesystem::path name =
      folder + "/interlace-ps/" + std::to_string(getpid()) + ".socket";
  {
    program p(2, program::make_spec("copy-engine", 20'000, 2048), 0.1);
    p.enqueue_all(0);
    p.enqueue_all(1, fault::all_stall);
    std::string told;
    for (int k = 0; k < 50 && told.find("waits for") == std::string::npos; ++k)
      told = told_by(name);
    EXPECT_NE(told.find("a group of 2 devices, of which this process has 0, 1"), std::string::npos)
        << told;
    EXPECT_NE(
        told.find("region 0: device 1 has begun 2 epochs and exchanged 2; its last call was "),
        std::string::npos)
        << told;
    EXPECT_NE(told.find("GPU 0 waits for chunk 0 of region 0, whose counter is 0 and not "),
              std::string::npos)
        << told;
    EXPECT_THROW(p.finish(), device_error);
  }
  EXPECT_EQ(told_by(name), "");  // after the end of the group, there is no answer
  before != nullptr ? setenv("XDG_RUNTIME_DIR", kept.c_str(), 1) : unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove_all(folder);
}

TEST(region_deadline, work_in_front_of_an_epoch_takes_its_time) {
  INTERLACE_NEED_GPUS(2);
  program p(2, program::make_spec("copy-engine", 20'000, 2048), 0.1);
  for (std::uint32_t d = 0; d < 2; ++d) {
    const cuda::current_device on(p.devices.ordinal(d));
    wait_long<<<1, 1, 0, p.streams[d]>>>(400'000'000);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) p.enqueue_all(epoch, fault::all_begin_late);
  p.expect_epoch(3);
}

TEST(region_deadline, an_exception_ends_a_wait_of_the_host) {
  INTERLACE_NEED_GPUS(1);
  program p(1, program::make_spec("bulk-copy", 1000, 2048));
  const cuda::current_device on(p.devices.ordinal(0));
  wait_long<<<1, 1, 0, p.streams[0]>>>(400'000'000);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  struct stop {};
  EXPECT_THROW(p.devices.synchronize(0, p.streams[0], [] { throw stop(); }), stop);
  p.devices.synchronize(0, p.streams[0]);
}

TEST_P(region_api, a_device_that_stays_away_is_reported) {
  INTERLACE_NEED_GPUS(2);
  program p(2, program::make_spec(GetParam(), 20'000, 2048), 0.2);
  p.enqueue_all(0);
  p.expect_epoch(0);
  p.enqueue(0, 1);
  std::string message = "nothing";
  try {
    p.finish();
  } catch (const device_error& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("GPU 0 waited 0.2 s at the exchange of region 0 for GPU 1, whose counter "
                         "is 1 and not 2"),
            std::string::npos)
      << message;
}

TEST_P(region_api, wrong_use_is_refused) {
  INTERLACE_NEED_GPUS(2);
  program p(2, program::make_spec(GetParam(), 20'000, 2048));
  EXPECT_THROW(p.data->exchange(0, p.streams[0]), model_error);
  p.data->begin(0, p.streams[0]);
  EXPECT_THROW(p.data->begin(0, p.streams[0]), model_error);
  EXPECT_THROW(p.data->exchange(0, p.streams[1]), model_error);
  EXPECT_THROW((void)p.data->writer<std::uint64_t>(0), model_error);
  EXPECT_THROW((void)p.data->front(2), usage_error);
}

std::string refusal(const group& g, const region_spec& spec,
                    const std::vector<region_memory>& memory = {}) {
  try {
    const region r(g, spec, memory);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(region_agent_test, an_agent_that_no_kernel_fits_beside_is_refused) {
  INTERLACE_NEED_GPUS(2);
  INTERLACE_NEED_COPIES(kernel::agent_copy::bulk);
  const group g = group::local(gpu_test::options_for(2).ordinals);
  region_spec spec = program::make_spec(in_bulk, 1 << 20U, 4096);
  EXPECT_EQ(refusal(g, spec), "nothing");
  spec.agent_threads = 65536;
  const std::string m = refusal(g, spec);
  EXPECT_NE(m.find("an agent of 65536 threads leaves no place"), std::string::npos) << m;
  spec.agent_copy = "vectors";
  spec.agent_threads = gpu_test::agent_threads(65536);
  EXPECT_EQ(refusal(g, spec), "nothing");
}

TEST(region_memory_test, memory_that_does_not_fit_is_refused) {
  INTERLACE_NEED_GPUS(1);
  const group g = group::local({0});
  const region_spec spec = program::make_spec("bulk-copy", 1 << 20U, 4096);
  cuda::device_memory memory;
  auto* whole = static_cast<std::byte*>(memory.take(0, std::size_t{8} << 20U));
  std::vector<std::byte> host(std::size_t{4} << 20U);
  const auto says = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos;
  };
  std::string m = refusal(g, spec, {{whole, whole + 1024}});
  EXPECT_TRUE(says(m, "front and back overlap")) << m;
  m = refusal(g, spec, {{whole + 4, whole}});
  EXPECT_TRUE(says(m, "the front does not begin at a multiple of 16 bytes")) << m;
  m = refusal(g, spec, {{host.data(), whole}});
  EXPECT_TRUE(says(m, "is not device memory")) << m;
  m = refusal(g, spec, {{whole, whole + (std::size_t{6} << 20U)}});
  EXPECT_TRUE(says(m, "the back ends after")) << m;
  m = refusal(g, spec, {{whole, whole + (std::size_t{4} << 20U)}, {}});
  EXPECT_TRUE(says(m, "gets memory for 2 devices")) << m;
  EXPECT_EQ(refusal(g, spec, {{whole, whole + (std::size_t{4} << 20U)}}), "nothing");
}

}  // namespace
}  // namespace interlace::region_api_tests
