#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "bench/microbenchmark_cuda.hpp"
#include "bench/sample_bytes.hpp"
#include "cuda/stream_hold.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/memory/unified.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/nvlink_counters.hpp"
#include "interlace/cuda/visible_gpus.hpp"
#include "workload/benchmark/microbenchmark.hpp"

namespace interlace::bench {

namespace {

using word = workload::words_element<1>;
using quad_word = workload::words_element<4>;
using runs = std::vector<kernel::run_result>;

cuda::node_options first_gpus(std::uint32_t gpus) {
  cuda::node_options options;
  options.devices = gpus;
  return options;
}

workload::repetition checked(const kernel_repeats& how) {
  if (how.epochs == 0 || how.repeats == 0) {
    throw usage_error("a microbenchmark needs at least one epoch and one repeat");
  }
  return {how.epochs, how.repeats};
}

kernel_times per_epoch(const runs& found, std::uint32_t epochs, std::uint64_t payload) {
  kernel_times times;
  times.payload = payload;
  for (const kernel::run_result& one : found) times.time_s.push_back(one.time_s / epochs);
  return times;
}

// Calls f with an element type of `bytes` bytes.
template <class F>
runs with_element(std::uint32_t bytes, const F& f) {
  if (bytes == sizeof(word)) return f(word{});
  if (bytes == sizeof(quad_word)) return f(quad_word{});
  throw usage_error("no microbenchmark uses " + std::to_string(bytes) +
                    " bytes for each lane; give 4 or 16");
}

runs stores_of(cuda::node& node, std::uint32_t element_bytes, const workload::store_request& asked,
               const workload::repetition& repeated) {
  return with_element(element_bytes, [&](auto element) {
    return workload::run_stores<decltype(element)>(node, asked, repeated);
  });
}

// The counters of a GPU. The driver refreshes the counters from time to time. This function waits
// until they no longer change and show at least `least_sent` bytes.
cuda::nvlink_bytes settled_counters(int gpu, std::uint64_t least_sent) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds pause{50};
  constexpr std::chrono::milliseconds still{400};
  constexpr std::chrono::seconds patience{10};
  const auto begin = clock::now();
  auto changed = begin;
  std::optional<cuda::nvlink_bytes> last = cuda::read_nvlink_counters(gpu);
  while (last) {
    std::this_thread::sleep_for(pause);
    const std::optional<cuda::nvlink_bytes> next = cuda::read_nvlink_counters(gpu);
    if (!next) break;
    const auto now = clock::now();
    if (next->data_sent != last->data_sent) changed = now;
    last = next;
    if (now - changed >= still && next->data_sent >= least_sent) return *next;
    if (now - begin > patience) {
      throw device_error("the NVLink counters of GPU " + std::to_string(gpu) +
                         " do not settle within 10 s; another process may be using it");
    }
  }
  throw device_error("the NVLink counters of GPU " + std::to_string(gpu) + " cannot be read");
}

// Streams with copies, the memory of these copies, and the events that time the copies.
class copy_streams {
 public:
  explicit copy_streams(const std::vector<stream_copy>& copies) : copy_streams() {
    if (copies.empty()) throw usage_error("a measurement of copies needs a copy");
    for (const stream_copy& c : copies) add(c);
    load_kernels();
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      const copy& c = copies_[k];
      fill_with_samples(c.gpu, c.source, c.asked.bytes, seed_of(k));
      fill_with_poison(c.end, c.target, c.asked.bytes);
    }
    // The first copy between two memories initialises resources, and may wait for streams that are
    // held. This copy is therefore made before any stream is held.
    enqueue();
    wait();
  }
  ~copy_streams() {
    hold_.release();
    for (const auto& [number, s] : streams_) {
      INTERLACE_CUDA_LOG(cudaStreamSynchronize(s.stream));
      INTERLACE_CUDA_LOG(cudaEventDestroy(s.start));
      INTERLACE_CUDA_LOG(cudaEventDestroy(s.stop));
      INTERLACE_CUDA_LOG(cudaStreamDestroy(s.stream));
    }
  }
  copy_streams(const copy_streams&) = delete;
  copy_streams& operator=(const copy_streams&) = delete;
  copy_streams(copy_streams&&) = delete;
  copy_streams& operator=(copy_streams&&) = delete;

  double by_host_s() {
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  double by_gpus_s() {
    constexpr std::uint64_t least_bytes = std::uint64_t{64} << 20U;
    constexpr std::uint64_t most_in_a_row = 64;
    const std::uint64_t in_a_row =
        std::clamp<std::uint64_t>(least_bytes / bytes_, 1, most_in_a_row);
    hold_.close();
    try {
      for (const auto& [number, s] : streams_) {
        INTERLACE_CUDA_CHECK(cudaSetDevice(s.gpu));
        hold_.enqueue(s.stream);
        INTERLACE_CUDA_CHECK(cudaEventRecord(s.start, s.stream));
      }
      for (std::uint64_t k = 0; k < in_a_row; ++k) enqueue();
      for (const auto& [number, s] : streams_) {
        INTERLACE_CUDA_CHECK(cudaEventRecord(s.stop, s.stream));
      }
    } catch (...) {
      hold_.release();
      throw;
    }
    hold_.release();
    wait();
    hold_.check();
    double longest_ms = 0;
    for (const auto& [number, s] : streams_) {
      float ms = 0;
      INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, s.start, s.stop));
      longest_ms = std::max(longest_ms, static_cast<double>(ms));
    }
    return 1e-3 * longest_ms / static_cast<double>(in_a_row);
  }

  // Throws device_error unless all bytes are at their destination.
  void verify() {
    for (std::size_t k = 0; k < copies_.size(); ++k) {
      const copy& c = copies_[k];
      auto* count =
          static_cast<unsigned long long*>(memory_.take(c.end, sizeof(unsigned long long)));
      const std::uint64_t wrong =
          count_wrong_samples(c.end, c.target, c.asked.bytes, seed_of(k), count);
      if (wrong == 0) continue;
      throw device_error("a copy of " + std::to_string(c.asked.bytes) + " bytes from " +
                         name_of(c.asked.from) + " to " + name_of(c.asked.to) + " left " +
                         std::to_string(wrong) + " bytes wrong");
    }
  }

 private:
  struct copy {
    stream_copy asked;
    int gpu = 0;  // GPU of `asked.from`, or of `asked.to` if `asked.from` is the host
    int end = 0;  // GPU that fills and checks the target
    std::uint8_t* source = nullptr;
    std::uint8_t* target = nullptr;
    cudaStream_t stream = nullptr;
  };
  struct timed_stream {
    int gpu = 0;
    cudaStream_t stream = nullptr;
    cudaEvent_t start = nullptr;
    cudaEvent_t stop = nullptr;
  };

  // if a later step throws, the object destroys everything that was made so far
  copy_streams() = default;

  static std::uint64_t seed_of(std::size_t copy) { return 1 + 1'000'003 * copy; }
  static std::string name_of(int place) {
    return place < 0 ? "the host" : "GPU " + std::to_string(place);
  }

  void add(const stream_copy& asked) {
    const int here = static_cast<int>(cuda::device_count());
    const bool known = asked.from < here && asked.to < here && asked.from != asked.to;
    if (!known || (asked.from < 0 && asked.to < 0) || asked.bytes == 0) {
      throw usage_error("a copy of " + std::to_string(asked.bytes) + " bytes from " +
                        name_of(asked.from) + " to " + name_of(asked.to) + "; there are " +
                        std::to_string(here) + " GPUs");
    }
    if (asked.from >= 0 && asked.to >= 0) cuda::enable_peer_access({asked.from, asked.to});
    copy c;
    c.asked = asked;
    c.gpu = asked.from >= 0 ? asked.from : asked.to;
    c.end = asked.to >= 0 ? asked.to : asked.from;
    c.source = take(asked.from, asked.bytes);
    c.target = take(asked.to, asked.bytes);
    timed_stream& s = streams_[asked.stream];
    if (s.stream == nullptr) {
      const cuda::current_device on(c.gpu);
      s.gpu = c.gpu;
      INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
      INTERLACE_CUDA_CHECK(cudaEventCreate(&s.start));
      INTERLACE_CUDA_CHECK(cudaEventCreate(&s.stop));
    }
    c.stream = s.stream;
    bytes_ += asked.bytes;
    copies_.push_back(c);
  }

  std::uint8_t* take(int place, std::uint64_t bytes) {
    if (place >= 0) return static_cast<std::uint8_t*>(memory_.take(place, bytes));
    host_.push_back(std::make_unique<cuda::mapped_memory>(bytes));
    return static_cast<std::uint8_t*>(host_.back()->data());
  }

  void load_kernels() const {
    for (const copy& c : copies_) {
      load_sample_kernels(c.gpu);
      load_sample_kernels(c.end);
    }
    for (const auto& [number, s] : streams_) {
      const cuda::current_device on(s.gpu);
      cuda::stream_hold::load();
    }
  }

  void enqueue() {
    for (const copy& c : copies_) {
      const stream_copy& asked = c.asked;
      if (asked.from >= 0 && asked.to >= 0) {
        INTERLACE_CUDA_CHECK(
            cudaMemcpyPeerAsync(c.target, asked.to, c.source, asked.from, asked.bytes, c.stream));
      } else {
        INTERLACE_CUDA_CHECK(
            cudaMemcpyAsync(c.target, c.source, asked.bytes, cudaMemcpyDefault, c.stream));
      }
    }
  }

  void wait() const {
    for (const auto& [number, s] : streams_) {
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(s.stream));
    }
  }

  cuda::device_memory memory_;
  std::vector<std::unique_ptr<cuda::mapped_memory>> host_;
  cuda::stream_hold hold_;
  std::map<std::uint32_t, timed_stream> streams_;
  std::vector<copy> copies_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

kernel_times stores_on_cuda(std::uint32_t gpus, std::uint32_t element_bytes,
                            const workload::store_request& asked, const kernel_repeats& how) {
  const workload::repetition repeated = checked(how);
  cuda::node node(first_gpus(gpus));
  const runs found = stores_of(node, element_bytes, asked, repeated);
  return per_epoch(found, how.epochs, asked.stored() * element_bytes * asked.senders * (gpus - 1));
}

kernel_times exchanges_on_cuda(std::uint32_t sums, const kernel_repeats& how) {
  const workload::repetition repeated = checked(how);
  cuda::node node(first_gpus(1));
  return per_epoch(workload::run_exchanges(node, sums, repeated), how.epochs, 0);
}

kernel_times copy_kernel_on_cuda(std::uint64_t bytes, std::uint32_t blocks,
                                 const kernel_repeats& how) {
  if (bytes < sizeof(quad_word) || blocks == 0) throw usage_error("a copy needs bytes and blocks");
  const workload::repetition repeated = checked(how);
  const std::uint32_t rounds = workload::copy_rounds(bytes);
  const std::uint64_t elements = bytes / rounds / sizeof(quad_word);
  cuda::node node(first_gpus(2));
  const runs found = workload::run_copy<quad_word>(node, elements, blocks, rounds,
                                                   cuda::unified_memory::page_bytes, repeated);
  return per_epoch(found, how.epochs, elements * sizeof(quad_word) * rounds);
}

kernel_times loads_on_cuda(std::uint32_t element_bytes, std::uint64_t elements,
                           const kernel_repeats& how) {
  const workload::repetition repeated = checked(how);
  cuda::node node(first_gpus(2));
  const runs found = with_element(element_bytes, [&](auto element) {
    return workload::run_loads<decltype(element)>(node, elements, cuda::unified_memory::page_bytes,
                                                  repeated);
  });
  return per_epoch(found, how.epochs, elements * element_bytes);
}

std::optional<std::vector<double>> store_wire_on_cuda(std::uint32_t element_bytes,
                                                      const workload::store_request& asked,
                                                      const kernel_repeats& how) {
  if (asked.senders != 1) throw usage_error("the bytes on the wire are those of one sender");
  const workload::repetition once{checked(how).epochs, 1};
  cuda::node node(first_gpus(2));
  const int gpu = node.ordinal(0);
  if (!cuda::read_nvlink_counters(gpu)) return std::nullopt;
  // The factor 2 stands for the warm-up run, because the counters also count this run.
  const std::uint64_t payload = 2 * asked.stored() * element_bytes * how.epochs;
  std::vector<double> found;
  cuda::nvlink_bytes before = settled_counters(gpu, 0);
  for (std::uint32_t k = 0; k < how.repeats; ++k) {
    stores_of(node, element_bytes, asked, once);
    // One percent is subtracted because the counters are in KiB and rounded.
    const std::uint64_t least = before.data_sent + payload - payload / 100;
    const cuda::nvlink_bytes after = settled_counters(gpu, least);
    found.push_back(static_cast<double>((after - before).raw_sent) / static_cast<double>(payload));
    before = after;
  }
  return found;
}

std::vector<double> copies_on_cuda(const std::vector<stream_copy>& copies, bool by_host,
                                   std::uint32_t repeats) {
  if (repeats == 0) throw usage_error("a measurement of copies needs repeats");
  const cuda::current_device restore(0);
  copy_streams on(copies);
  std::vector<double> time_s;
  for (std::uint32_t k = 0; k <= repeats; ++k) {
    const double one_s = by_host ? on.by_host_s() : on.by_gpus_s();
    if (k != 0) time_s.push_back(one_s);  // the first run is the warm-up
  }
  on.verify();
  return time_s;
}

}  // namespace interlace::bench
