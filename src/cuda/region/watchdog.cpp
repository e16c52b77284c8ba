#include "cuda/region/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

namespace {

using clock = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

bool all_idle(const std::vector<watched_device>& devices) {
  bool idle = true;
  for (const watched_device& d : devices) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(d.ordinal));
    for (cudaStream_t s : d.streams) idle = idle && cudaStreamQuery(s) != cudaErrorNotReady;
  }
  return idle;
}

// A stream that waits for no other stream, and that can access the memory of devices while they
// run.
class aside {
 public:
  explicit aside(int ordinal) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal));
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~aside() { INTERLACE_CUDA_LOG(cudaStreamDestroy(stream_)); }
  aside(const aside&) = delete;
  aside& operator=(const aside&) = delete;
  aside(aside&&) = delete;
  aside& operator=(aside&&) = delete;

  void copy(void* to, const void* from, std::size_t bytes) const {
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_));
  }
  template <class T>
  std::vector<T> read(const T* from, std::size_t n) const {
    std::vector<T> values(n);
    if (n != 0) copy(values.data(), from, n * sizeof(T));
    return values;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

// All counters that grow while devices make progress.
std::vector<counter> progress_of(const std::vector<watched_device>& devices) {
  std::vector<counter> all;
  for (const watched_device& d : devices) {
    const aside stream(d.ordinal);
    all.push_back(stream.read(&d.control->entered, 1)[0]);
    for (const kernel::chunk_table& t : d.launches) {
      const auto counters = stream.read(t.counters, t.count);
      all.insert(all.end(), counters.begin(), counters.end());
    }
  }
  return all;
}

// Names the chunk for which a stream of the device waits, if there is one.
void name_late_chunk(const watched_device& d, std::uint32_t device) {
  if (d.failure->what != failed_wait::none) return;
  const aside stream(d.ordinal);
  for (const kernel::chunk_table& t : d.launches) {
    if (t.flags == nullptr) continue;
    const counter over = stream.read(t.launches, 1)[0];
    const auto counters = stream.read(t.counters, t.count);
    const auto targets = stream.read(t.targets, t.count);
    for (std::uint32_t c = 0; c < t.count; ++c) {
      if (counters[c] >= (over + 1) * targets[c]) continue;
      wait_failure late{};
      late.what = failed_wait::chunk;
      late.device = device;
      late.region = t.region;
      late.chunk = c;
      late.seen = counters[c] - over * targets[c];
      late.target = targets[c];
      *d.failure = late;
      return;
    }
  }
}

void let_go(const std::vector<watched_device>& devices) {
  for (const watched_device& device : devices) {
    const aside stream(device.ordinal);
    const unsigned int failed = 1;
    stream.copy(&device.control->failed, &failed, sizeof(failed));
    for (const kernel::chunk_table& t : device.launches) {
      if (t.flags == nullptr || t.count == 0) continue;
      const std::vector<unsigned int> set(t.count, 1);
      stream.copy(t.flags, set.data(), set.size() * sizeof(unsigned int));
    }
  }
}

}  // namespace

bool await_streams(const std::vector<watched_device>& devices, double deadline_s) {
  const current_device restore(devices.front().ordinal);
  constexpr seconds eager{0.01};  // for this long, the host polls the streams without pauses
  constexpr std::chrono::microseconds pause{50};
  const seconds between{deadline_s / 4};
  const auto begun = clock::now();
  auto looked = begun;
  auto changed = begun;
  std::vector<counter> before;
  bool released = false;
  while (!all_idle(devices)) {
    const auto now = clock::now();
    if (now - begun > eager) std::this_thread::sleep_for(pause);
    if (now - looked < between) continue;
    looked = now;
    auto progress = progress_of(devices);
    if (progress != before) {
      before = std::move(progress);
      changed = now;
    }
    if (now - changed < seconds{deadline_s}) continue;
    if (released) return false;
    for (std::uint32_t d = 0; d < devices.size(); ++d) name_late_chunk(devices[d], d);
    let_go(devices);
    released = true;
    changed = clock::now();
  }
  return true;
}

}  // namespace interlace::cuda
