// Copies over several paths on real GPUs. Every byte must arrive, for every direction and size, in
// the order of the caller's streams. Delays make a missing wait visible.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "delay.cuh"
#include "gpu.hpp"
#include "interlace/copy.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::copy_tests {
namespace {

using gpu_test::random_at;

constexpr std::uint64_t mebi = std::uint64_t{1} << 20U;
constexpr std::uint8_t poison = 0xA5;
// The number of bytes on each side of a destination. These bytes must not change.
constexpr std::uint64_t margin = 4096;
constexpr int host = copy_through_host;

__device__ std::uint8_t byte_at(std::uint64_t seed, std::uint64_t place) {
  return static_cast<std::uint8_t>(random_at(seed, place / 8) >> (place % 8 * 8));
}

// Fills memory. The seed is in memory, so a second launch of a graph can write different values.
__global__ void fill(std::uint8_t* data, std::uint64_t bytes, const std::uint64_t* seed,
                     std::uint64_t salt, std::uint64_t delay_ns) {
  if (delay_ns != 0) gpu_test::wait_ns(delay_ns);
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes;
       i += stride)
    data[i] = byte_at(*seed + salt, i);
}

__global__ void paint(std::uint8_t* data, std::uint64_t bytes) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes;
       i += stride)
    data[i] = poison;
}

// Counts the wrong bytes of a destination, and the changed bytes in the margins around it.
__global__ void count_wrong(const std::uint8_t* data, std::uint64_t bytes,
                            const std::uint64_t* seed, std::uint64_t salt,
                            unsigned long long* wrong) {
  unsigned long long own = 0;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  const std::uint64_t all = bytes + 2 * margin;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all;
       i += stride) {
    const std::uint8_t seen = data[i - margin];
    const bool inside = i >= margin && i < margin + bytes;
    own += seen != (inside ? byte_at(*seed + salt, i - margin) : poison) ? 1 : 0;
  }
  if (own != 0) atomicAdd(wrong, own);
}

__global__ void write_one_late(std::uint8_t* memory) {
  gpu_test::wait_ns(500'000);
  *memory = 1;
}

constexpr int blocks = 264;
constexpr int threads = 512;

// Memory of the host or of a GPU.
struct area {
  int place = host;
  std::uint8_t* data = nullptr;
  std::uint64_t bytes = 0;

  area(int where, std::uint64_t size) : place(where), bytes(size) {
    if (place == host) {
      INTERLACE_CUDA_CHECK(cudaMallocHost(&data, bytes));
      return;
    }
    const cuda::current_device on(place);
    INTERLACE_CUDA_CHECK(cudaMalloc(&data, bytes));
  }
  ~area() {
    if (place == host)
      INTERLACE_CUDA_LOG(cudaFreeHost(data));
    else
      INTERLACE_CUDA_LOG(cudaFree(data));
  }
  area(const area&) = delete;
  area& operator=(const area&) = delete;
};

// A stream with a source and a destination, and a counter of wrong bytes.
class user {
 public:
  user(int from, int to, std::uint64_t bytes, cudaStream_t given = nullptr, bool own_stream = true)
      : gpu_(from == host ? to : from),
        own_stream_(own_stream),
        source_(from, bytes + 2 * margin),
        target_(to, bytes + 2 * margin) {
    // The kernels that fill and check memory run on a GPU that is the source or the destination of
    // the copy. If both are GPUs, the kernels run on one of them and need peer access to the other.
    const cuda::current_device on(gpu_);
    if (from != host && to != host) cuda::enable_peer_access({from, to});
    INTERLACE_CUDA_CHECK(cudaMalloc(&seed_, sizeof(*seed_)));
    INTERLACE_CUDA_CHECK(cudaMalloc(&wrong_, sizeof(*wrong_)));
    INTERLACE_CUDA_CHECK(cudaMemset(wrong_, 0, sizeof(*wrong_)));
    if (own_stream)
      INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    else
      stream_ = given;
    set_seed(1);
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  }
  ~user() {
    INTERLACE_CUDA_LOG(cudaSetDevice(gpu_));
    if (own_stream_) INTERLACE_CUDA_LOG(cudaStreamDestroy(stream_));
    INTERLACE_CUDA_LOG(cudaFree(seed_));
    INTERLACE_CUDA_LOG(cudaFree(wrong_));
  }
  user(const user&) = delete;
  user& operator=(const user&) = delete;

  cudaStream_t stream() const { return stream_; }
  int gpu() const { return gpu_; }
  const std::uint8_t* source(std::uint64_t offset) const { return source_.data + margin + offset; }
  std::uint8_t* target(std::uint64_t offset) const { return target_.data + margin + offset; }

  void set_seed(std::uint64_t seed) {
    const cuda::current_device on(gpu_);
    INTERLACE_CUDA_CHECK(cudaMemcpy(seed_, &seed, sizeof(seed), cudaMemcpyHostToDevice));
  }
  // Enqueues all of the following on the stream: poisons the destination, fills the source after a
  // delay, copies and compares.
  void enqueue(copier& by, std::uint64_t bytes, std::uint64_t from_offset, std::uint64_t to_offset,
               std::uint64_t salt, std::uint64_t delay_ns, cudaStream_t check_on = nullptr,
               cudaStream_t fill_on = nullptr, bool fill_apart = false) {
    const cuda::current_device on(gpu_);
    cudaStream_t const filler = fill_apart ? fill_on : stream_;
    paint<<<blocks, threads, 0, filler>>>(target(to_offset) - margin, bytes + 2 * margin);
    fill<<<blocks, threads, 0, filler>>>(source_.data + margin + from_offset, bytes, seed_, salt,
                                         delay_ns);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
    by.copy_async(target(to_offset), source(from_offset), bytes, stream_);
    count_wrong<<<blocks, threads, 0, check_on != nullptr ? check_on : stream_>>>(
        target(to_offset), bytes, seed_, salt, wrong_);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }
  unsigned long long wrong() const {
    const cuda::current_device on(gpu_);
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_));
    unsigned long long count = 0;
    INTERLACE_CUDA_CHECK(cudaMemcpy(&count, wrong_, sizeof(count), cudaMemcpyDeviceToHost));
    return count;
  }

 private:
  int gpu_;
  bool own_stream_;
  area source_;
  area target_;
  std::uint64_t* seed_ = nullptr;
  unsigned long long* wrong_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

void load_kernels() {
  for (int gpu = 0; gpu < static_cast<int>(gpu_test::gpus_here()); ++gpu) {
    const cuda::current_device on(gpu);
    cudaFuncAttributes loaded{};
    INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, fill));
    INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, paint));
    INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, count_wrong));
    INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, write_one_late));
  }
}

copier copier_of(copy_executor executor, std::uint64_t threshold = 1) {
  copy_options options;
  options.executor = executor;
  options.threshold_bytes = threshold;
  options.traffic_file = "";  // the copiers of a test must not see each other's messages
  copier made(options);
  made.prepare();
  return made;
}

std::uint64_t over_paths(const copy_statistics& counted) {
  return counted.streams + counted.graphs + counted.captured;
}

std::vector<std::pair<int, int>> directions() {
  const int last = static_cast<int>(gpu_test::gpus_here()) - 1;
  return {{host, 0}, {0, host}, {0, 1}, {1, 0}, {host, last}, {last, host}, {0, last}};
}

std::string text(std::pair<int, int> way, std::uint64_t bytes, copy_executor executor) {
  const auto name = [](int place) {
    return place == host ? std::string("host") : "gpu" + std::to_string(place);
  };
  return name(way.first) + " to " + name(way.second) + ", " + std::to_string(bytes) +
         " bytes, executor " + std::to_string(static_cast<int>(executor));
}

constexpr std::array executors{copy_executor::streams, copy_executor::graphs,
                               copy_executor::automatic, copy_executor::direct};

TEST(copy, every_size_and_direction_arrives_whole_and_in_stream_order) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  const std::vector<std::uint64_t> sizes{1,
                                         2,
                                         3,
                                         255,
                                         256,
                                         257,
                                         4095,
                                         65'537,
                                         mebi - 1,
                                         mebi + 1,
                                         2 * mebi,
                                         2 * mebi + 13,
                                         4 * mebi,
                                         8 * mebi,
                                         8 * mebi + 255,
                                         16 * mebi + 1,
                                         33'000'007,
                                         64 * mebi,
                                         100'000'003,
                                         256 * mebi};
  std::mt19937_64 random(7);
  for (const copy_executor executor : executors) {
    copier by = copier_of(executor);
    for (const auto& way : directions()) {
      user one(way.first, way.second, 256 * mebi + 512);
      for (const std::uint64_t bytes : sizes)
        // The rounds first make graphs, then change them, and then reuse them unchanged.
        for (int repeat = 0; repeat < 3; ++repeat) {
          const std::uint64_t from = repeat == 0 ? 0 : random() % 512;
          const std::uint64_t to = repeat == 0 ? 0 : random() % 512;
          one.enqueue(by, bytes, from, to, random(), random() % 4 == 0 ? 200'000 : 0);
        }
      ASSERT_EQ(one.wrong(), 0U) << text(way, 0, executor);
    }
    const copy_statistics counted = by.statistics();
    if (executor == copy_executor::direct)
      EXPECT_EQ(over_paths(counted), 0U);
    else
      EXPECT_GT(over_paths(counted), 50U);
    if (executor == copy_executor::graphs) {
      EXPECT_GT(counted.hits, 20U);
      EXPECT_GT(counted.updates, 20U);
    }
  }
}

TEST(copy, windows_of_messages_on_many_streams_overlap_and_arrive) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  constexpr std::uint64_t bytes = 24 * mebi + 77;
  std::mt19937_64 random(11);
  for (const copy_executor executor : executors) {
    copier by = copier_of(executor);
    for (const auto& way : directions())
      for (const std::size_t window : {1U, 4U, 16U}) {
        std::vector<std::unique_ptr<user>> users;
        for (std::size_t at = 0; at < window; ++at)
          users.push_back(std::make_unique<user>(way.first, way.second, bytes));
        for (int round = 0; round < 3; ++round)
          for (const auto& one : users)
            one->enqueue(by, bytes, 0, 0, random(), random() % 3 * 100'000);
        for (const auto& one : users)
          ASSERT_EQ(one->wrong(), 0U) << text(way, bytes, executor) << ", window " << window;
      }
    if (executor == copy_executor::graphs) EXPECT_GT(by.statistics().executables, 4U);
  }
}

// Runs eight threads. Each thread makes four users, one after another. Each user makes twelve
// copies. `pick` chooses the two memories of a user.
template <class Pick>
void copy_by_threads(copier& by, copy_executor executor, const Pick& pick) {
  std::vector<std::string> failures(8);
  std::vector<std::thread> running;
  for (std::size_t thread = 0; thread < failures.size(); ++thread)
    running.emplace_back([&, thread] {
      try {
        std::mt19937_64 random(thread + 100);
        for (int turn = 0; turn < 4; ++turn) {
          const std::pair<int, int> way = pick(random);
          user one(way.first, way.second, 16 * mebi + 512);
          for (int message = 0; message < 12; ++message)
            one.enqueue(by, 1 + random() % (16 * mebi), random() % 512, random() % 512, random(),
                        random() % 4 == 0 ? 50'000 : 0);
          if (const auto wrong = one.wrong(); wrong != 0)
            failures[thread] = std::to_string(wrong) + " bytes wrong, " + text(way, 0, executor);
        }
      } catch (const std::exception& error) {
        failures[thread] = error.what();
      }
    });
  for (std::thread& one : running) one.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

// First, all messages go in one direction, over several paths. Then messages go in all directions
// at the same time, and avoid each other's links.
TEST(copy, threads_copy_in_one_direction_and_in_all_at_once) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  const int gpus = static_cast<int>(gpu_test::gpus_here());
  for (const copy_executor executor : {copy_executor::automatic, copy_executor::graphs}) {
    for (const auto& way : {std::pair(host, 0), std::pair(0, host)}) {
      copier by = copier_of(executor);
      copy_by_threads(by, executor, [&](std::mt19937_64&) { return way; });
      EXPECT_GT(over_paths(by.statistics()), 100U);
    }
    copier by = copier_of(executor);
    copy_by_threads(by, executor, [&](std::mt19937_64& random) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(gpus + 1)) - 1;
      int to = static_cast<int>(random() % static_cast<unsigned>(gpus)) - 1;
      if (to >= from) ++to;
      return std::pair(from, to);
    });
  }
}

TEST(copy, messages_to_all_gpus_leave_each_gpu_its_own_link) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  constexpr std::uint64_t bytes = 64 * mebi;
  const int gpus = static_cast<int>(gpu_test::gpus_here());
  for (const bool to_gpus : {true, false}) {
    copier by = copier_of(copy_executor::automatic);
    std::vector<std::unique_ptr<user>> users;
    for (int gpu = 0; gpu < gpus; ++gpu)
      users.push_back(std::make_unique<user>(to_gpus ? host : gpu, to_gpus ? gpu : host, bytes));
    std::uint64_t salt = 0;
    const auto round = [&](std::size_t count) {
      for (std::size_t at = 0; at < count; ++at) users[at]->enqueue(by, bytes, 0, 0, ++salt, 0);
      for (std::size_t at = 0; at < count; ++at) ASSERT_EQ(users[at]->wrong(), 0U);
    };
    // In the first rounds, the copier makes plans and staging memory, and sees that the messages
    // overlap.
    for (int turn = 0; turn < 6; ++turn) round(users.size());
    const copy_statistics before = by.statistics();
    EXPECT_GT(over_paths(before), 0U);
    for (int turn = 0; turn < 5; ++turn) round(users.size());
    EXPECT_EQ(over_paths(by.statistics()), over_paths(before));
    EXPECT_EQ(by.statistics().direct, before.direct + 5 * users.size());
    // After this time, a message that does not overlap with others has all links again.
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    for (int turn = 0; turn < 3; ++turn) round(1);
    EXPECT_EQ(over_paths(by.statistics()), over_paths(before) + 3);
  }
}

TEST(copy, the_legacy_default_stream_keeps_its_order_with_blocking_streams) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  constexpr std::uint64_t bytes = 64 * mebi;
  for (const copy_executor executor : executors) {
    copier by = copier_of(executor);
    for (const auto& way : directions()) {
      user one(way.first, way.second, bytes, nullptr, false);
      const cuda::current_device on(one.gpu());
      cudaStream_t blocking = nullptr;
      INTERLACE_CUDA_CHECK(cudaStreamCreate(&blocking));
      for (std::uint64_t salt = 1; salt <= 3; ++salt)
        one.enqueue(by, bytes, 0, 0, salt, 300'000, blocking);
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(blocking));
      EXPECT_EQ(one.wrong(), 0U) << text(way, bytes, executor);
      INTERLACE_CUDA_CHECK(cudaStreamDestroy(blocking));
    }
    user own(host, 0, bytes, cudaStreamPerThread, false);
    own.enqueue(by, bytes, 0, 0, 5, 300'000);
    EXPECT_EQ(own.wrong(), 0U);
  }
}

// A file holds a number that each process increases. Waits until the number is `count`.
void wait_for_all(const std::string& file, std::uint32_t count) {
  FILE* opened = std::fopen(file.c_str(), "r+");
  ASSERT_NE(opened, nullptr);
  void* memory =
      mmap(nullptr, sizeof(count), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(opened), 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& arrived = *static_cast<std::atomic<std::uint32_t>*>(memory);
  arrived.fetch_add(1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (arrived.load() < count && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(arrived.load(), count);
  munmap(memory, sizeof(count));
  (void)std::fclose(opened);
}

constexpr std::uint32_t processes = 2;

// The first two GPUs that this process may use, as a value of CUDA_VISIBLE_DEVICES. A third GPU
// would give each process a link that no process uses.
std::string first_two_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "0,1";
  const std::string all = visible;
  const std::size_t second = all.find(',');
  return second == std::string::npos ? all : all.substr(0, all.find(',', second + 1));
}

// The other process also copies to this process's GPU. During this time, all messages to this GPU
// must be direct.
void copy_beside_another_process(int gpu, const std::string& folder) {
  constexpr std::uint64_t bytes = 64 * mebi;
  load_kernels();
  copy_options options;
  options.traffic_file = folder + "/traffic";
  copier by(options);
  by.prepare();
  user one(host, gpu, bytes);
  for (std::uint64_t salt = 0; salt < 3; ++salt) one.enqueue(by, bytes, 0, 0, salt, 0);
  ASSERT_EQ(one.wrong(), 0U);
  wait_for_all(folder + "/arrived", processes);
  const auto run_until = [&](std::chrono::steady_clock::time_point end) {
    while (std::chrono::steady_clock::now() < end) {
      by.copy_async(one.target(0), one.source(0), bytes, one.stream());
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(one.stream()));
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  run_until(begin + std::chrono::milliseconds(400));
  const copy_statistics before = by.statistics();
  run_until(begin + std::chrono::milliseconds(800));
  EXPECT_EQ(over_paths(by.statistics()), over_paths(before));
  EXPECT_GT(by.statistics().direct, before.direct + 20);
  // From here on, a message that does not overlap with others has all links again.
  wait_for_all(folder + "/ended", processes);
  if (gpu != 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  for (std::uint64_t salt = 5; salt < 8; ++salt) {
    one.enqueue(by, bytes, 0, 0, salt, 0);
    ASSERT_EQ(one.wrong(), 0U);
  }
  EXPECT_EQ(over_paths(by.statistics()), over_paths(before) + 3);
}

TEST(copy, processes_leave_each_gpu_its_own_link) {
  INTERLACE_NEED_DISTINCT_GPUS(processes);
  constexpr const char* gpu_variable = "INTERLACE_TEST_GPU";
  constexpr const char* folder_variable = "INTERLACE_TEST_FOLDER";
  if (const char* gpu = std::getenv(gpu_variable)) {
    copy_beside_another_process(std::atoi(gpu), std::getenv(folder_variable));
    return;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "interlace-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const char* name : {"/arrived", "/ended"}) {
    FILE* made = std::fopen((folder + name).c_str(), "w");
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(ftruncate(fileno(made), sizeof(std::uint32_t)), 0);
    (void)std::fclose(made);
  }
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<FILE*> running;
  for (std::uint32_t gpu = 0; gpu < processes; ++gpu)
    running.push_back(
        popen(("CUDA_VISIBLE_DEVICES=" + first_two_gpus() + ' ' + gpu_variable + '=' +
               std::to_string(gpu) + ' ' + folder_variable + '=' + folder + ' ' + program +
               " --gtest_filter=copy.processes_leave_each_gpu_its_own_link 2>&1")
                  .c_str(),
              "r"));
  for (FILE* one : running) {
    ASSERT_NE(one, nullptr);
    std::string text;
    std::array<char, 512> line{};
    while (std::fgets(line.data(), static_cast<int>(line.size()), one) != nullptr)
      text += line.data();
    EXPECT_EQ(pclose(one), 0) << text;
  }
  std::filesystem::remove_all(folder);
}

// CUDA orders the default stream and blocking streams without events. On these streams, the
// executors enqueue work that changes nothing: before they record an event, and after they make the
// stream wait for an event. Because of this work, events also keep CUDA's order between these
// streams. The test prints which orders hold without this work.
class promise {
 public:
  promise() : on_(0) {
    INTERLACE_CUDA_CHECK(cudaStreamCreate(&blocking));
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    INTERLACE_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    INTERLACE_CUDA_CHECK(cudaMalloc(&memory_, 2));
    INTERLACE_CUDA_CHECK(cudaMallocHost(&seen_, 1));
  }
  ~promise() {
    INTERLACE_CUDA_LOG(cudaDeviceSynchronize());
    INTERLACE_CUDA_LOG(cudaStreamDestroy(blocking));
    INTERLACE_CUDA_LOG(cudaStreamDestroy(apart));
    INTERLACE_CUDA_LOG(cudaEventDestroy(event_));
    INTERLACE_CUDA_LOG(cudaFree(memory_));
    INTERLACE_CUDA_LOG(cudaFreeHost(seen_));
  }
  promise(const promise&) = delete;
  promise& operator=(const promise&) = delete;

  void clear() {
    INTERLACE_CUDA_CHECK(cudaMemset(memory_, 0, 2));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    *seen_ = 0;
  }
  void write_late(cudaStream_t on) { write_one_late<<<1, 1, 0, on>>>(memory_); }
  void work(cudaStream_t on) { INTERLACE_CUDA_CHECK(cudaMemsetAsync(memory_ + 1, 0, 1, on)); }
  void behind(cudaStream_t later, cudaStream_t earlier) {
    INTERLACE_CUDA_CHECK(cudaEventRecord(event_, earlier));
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(later, event_, 0));
  }
  bool sees(cudaStream_t on) {
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(seen_, memory_, 1, cudaMemcpyDeviceToHost, on));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    return *seen_ == 1;
  }

  cudaStream_t blocking = nullptr;
  cudaStream_t apart = nullptr;

 private:
  cuda::current_device on_;
  cudaEvent_t event_ = nullptr;
  std::uint8_t* memory_ = nullptr;
  std::uint8_t* seen_ = nullptr;
};

TEST(copy, work_makes_default_and_blocking_streams_wait_for_each_other) {
  INTERLACE_NEED_GPUS(1);
  load_kernels();
  promise one;
  for (const bool work : {false, true})
    for (const bool legacy_last : {false, true}) {
      cudaStream_t const first = legacy_last ? one.blocking : nullptr;
      cudaStream_t const last = legacy_last ? nullptr : one.blocking;
      bool recorded = true;
      bool waited = true;
      for (int turn = 0; turn < 5; ++turn) {
        one.clear();  // does an event on `last` come after the work of `first`?
        one.write_late(first);
        if (work) one.work(last);
        one.behind(one.apart, last);
        recorded = one.sees(one.apart) && recorded;
        one.clear();  // does `last` also wait for what `first` waits for?
        one.write_late(one.apart);
        one.behind(first, one.apart);
        if (work) one.work(first);
        waited = one.sees(last) && waited;
      }
      std::printf("%s work, %s after %s: an event recorded %s, a wait %s\n",
                  work ? "with" : "without", legacy_last ? "default" : "blocking",
                  legacy_last ? "blocking" : "default", recorded ? "holds" : "does NOT hold",
                  waited ? "holds" : "does NOT hold");
      if (!work) continue;
      EXPECT_TRUE(recorded);
      EXPECT_TRUE(waited);
    }
}

// One stream writes the source. The stream of the copy waits for that stream without an event.
TEST(copy, work_of_blocking_streams_is_over_before_a_copy_of_the_default_stream) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  constexpr std::uint64_t bytes = 64 * mebi;
  for (const copy_executor executor : executors) {
    copier by = copier_of(executor);
    for (const auto& way : directions())
      for (const bool legacy_last : {false, true}) {
        const cuda::current_device on(way.first == host ? way.second : way.first);
        cudaStream_t blocking = nullptr;
        INTERLACE_CUDA_CHECK(cudaStreamCreate(&blocking));
        {
          user one(way.first, way.second, bytes, legacy_last ? nullptr : blocking, false);
          for (std::uint64_t salt = 1; salt <= 3; ++salt)
            one.enqueue(by, bytes, 0, 0, salt, 300'000, legacy_last ? nullptr : blocking,
                        legacy_last ? blocking : nullptr, true);
          EXPECT_EQ(one.wrong(), 0U) << text(way, bytes, executor);
        }
        INTERLACE_CUDA_CHECK(cudaStreamDestroy(blocking));
      }
  }
}

// Memory that is freed and allocated again can have the same address.
TEST(copy, memory_that_comes_again_at_the_same_address_is_copied) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  for (const copy_executor executor : {copy_executor::graphs, copy_executor::automatic}) {
    copier by = copier_of(executor);
    std::mt19937_64 random(17);
    for (int turn = 0; turn < 4; ++turn)
      for (const auto& way : directions())
        for (const std::uint64_t bytes : {24 * mebi + 77, 64 * mebi, 24 * mebi + 77}) {
          user one(way.first, way.second, bytes);
          one.enqueue(by, bytes, 0, 0, random(), 0);
          one.enqueue(by, bytes, 0, 0, random(), 0);
          ASSERT_EQ(one.wrong(), 0U) << text(way, bytes, executor);
        }
    EXPECT_GT(by.statistics().hits, 20U);
  }
}

TEST(copy, captured_copies_run_in_the_callers_graph_again_and_again) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  load_kernels();
  // A smaller message between GPUs would be a single copy.
  constexpr std::uint64_t bytes = 96 * mebi + 5;
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed})
    for (const auto& way : directions()) {
      copier by = copier_of(copy_executor::automatic);
      user one(way.first, way.second, 2 * bytes);
      const cuda::current_device on(one.gpu());
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(one.stream(), mode));
      one.enqueue(by, bytes, 0, 0, 1, 200'000);
      one.enqueue(by, bytes, 1, bytes, 2, 200'000);
      INTERLACE_CUDA_CHECK(cudaStreamEndCapture(one.stream(), &graph));
      EXPECT_EQ(by.statistics().captured, 2U) << text(way, bytes, copy_executor::automatic);
      INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
      INTERLACE_CUDA_CHECK(cudaGraphDestroy(graph));
      for (std::uint64_t launch = 1; launch <= 3; ++launch) {
        one.set_seed(launch * 1000);
        INTERLACE_CUDA_CHECK(cudaGraphLaunch(executable, one.stream()));
        // The capture does not include this copy. It runs at the same time as the graph.
        one.enqueue(by, bytes / 2, 0, 0, 3, 0);
        EXPECT_EQ(one.wrong(), 0U) << text(way, bytes, copy_executor::automatic);
      }
      INTERLACE_CUDA_CHECK(cudaGraphExecDestroy(executable));
    }
}

TEST(copy, what_cannot_go_over_several_paths_is_one_plain_copy) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  copier by = copier_of(copy_executor::graphs);
  constexpr std::uint64_t bytes = 32 * mebi;
  std::vector<std::uint8_t> pageable(bytes);
  for (std::uint64_t at = 0; at < bytes; ++at) pageable[at] = static_cast<std::uint8_t>(at * 7);
  const area first(0, bytes);
  const area second(0, bytes);
  const area pinned(host, bytes);
  std::uint8_t* managed = nullptr;
  const cuda::current_device on(0);
  INTERLACE_CUDA_CHECK(cudaMallocManaged(&managed, bytes));
  by.copy_async(first.data, pageable.data(), bytes, nullptr);   // from pageable memory to a GPU
  by.copy_async(second.data, first.data, bytes, nullptr);       // inside a GPU
  by.copy_async(managed, second.data, bytes, nullptr);          // to managed memory
  by.copy_async(first.data, managed, bytes, nullptr);           // from managed memory
  by.copy_async(pageable.data(), first.data, bytes, nullptr);   // from a GPU to pageable memory
  by.copy_async(pinned.data, pageable.data(), bytes, nullptr);  // inside the host
  by.copy_async(pinned.data, first.data, 0, nullptr);           // a copy of 0 bytes
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  std::uint64_t wrong = 0;
  for (std::uint64_t at = 0; at < bytes; ++at)
    wrong += pinned.data[at] != static_cast<std::uint8_t>(at * 7) ? 1 : 0;
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(over_paths(by.statistics()), 0U);
  EXPECT_THROW(by.copy_async(first.data, first.data + 1, bytes / 2, nullptr), usage_error);
  INTERLACE_CUDA_CHECK(cudaFree(managed));
}

// Memory of a pool. Peers have access to the pool in one case, and no access in the other case.
TEST(copy, memory_of_pools_arrives_whoever_may_reach_it) {
  INTERLACE_NEED_DISTINCT_GPUS(2);
  constexpr std::uint64_t bytes = 64 * mebi;
  const area pinned(host, bytes);
  const area back(host, bytes);
  for (std::uint64_t at = 0; at < bytes; ++at)
    pinned.data[at] = static_cast<std::uint8_t>(at * 13 >> 3U);
  for (const bool shared : {false, true}) {
    copier by = copier_of(copy_executor::graphs);
    const cuda::current_device on(0);
    cudaMemPool_t pool = nullptr;
    INTERLACE_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    if (shared)
      for (int gpu = 1; gpu < static_cast<int>(gpu_test::gpus_here()); ++gpu) {
        cudaMemAccessDesc access{};
        access.location = {cudaMemLocationTypeDevice, gpu};
        access.flags = cudaMemAccessFlagsProtReadWrite;
        INTERLACE_CUDA_CHECK(cudaMemPoolSetAccess(pool, &access, 1));
      }
    cudaStream_t stream = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamCreate(&stream));
    std::uint8_t* data = nullptr;
    INTERLACE_CUDA_CHECK(cudaMallocAsync(&data, bytes, stream));
    std::fill_n(back.data, bytes, poison);
    by.copy_async(data, pinned.data, bytes, stream);
    by.copy_async(back.data, data, bytes, stream);
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream));
    EXPECT_TRUE(std::equal(back.data, back.data + bytes, pinned.data));
    // The sending GPU makes the copies. It can write to the memory of a relay. If the pool is not
    // shared, no relay can access the memory of the sending GPU.
    EXPECT_EQ(over_paths(by.statistics()), shared ? 2U : 1U);
    INTERLACE_CUDA_CHECK(cudaFreeAsync(data, stream));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream));
    INTERLACE_CUDA_CHECK(cudaStreamDestroy(stream));
  }
}

}  // namespace
}  // namespace interlace::copy_tests
