#include <algorithm>
#include <memory>
#include <string>

#include "cuda/load_kernel.hpp"
#include "cuda/measure_links.hpp"
#include "cuda/stream_hold.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::cuda {

namespace {

constexpr unsigned int probe_threads = 256;
constexpr unsigned int probe_blocks = 528;
// The least number of bytes that one repetition moves.
constexpr std::uint64_t least_bytes = std::uint64_t{64} << 20U;
constexpr std::uint32_t most_copies = 64;

__device__ std::uint64_t pattern(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15ULL + place * 0xD1B54A32D192ED03ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return z ^ (z >> 27);
}

__global__ void __launch_bounds__(probe_threads)
    fill(std::uint64_t* data, std::uint64_t words, std::uint64_t seed) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += stride) {
    data[i] = pattern(seed, i);
  }
}

__global__ void __launch_bounds__(probe_threads)
    count_wrong(const std::uint64_t* data, std::uint64_t words, std::uint64_t seed,
                unsigned long long* wrong) {
  unsigned long long own = 0;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += stride) {
    own += data[i] != pattern(seed, i) ? 1 : 0;
  }
  if (own != 0) atomicAdd(wrong, own);
}

std::string name_of(int memory) {
  return memory == host_memory ? "the host" : "GPU " + std::to_string(memory);
}

// A memory. It has two buffers, and the stream and events for copies that start in this memory.
struct place {
  int memory = 0;
  int device = 0;  // GPU of the stream; for host memory, the GPU at the other end
  void* source = nullptr;
  void* target = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  unsigned long long* wrong = nullptr;
};

class bench {
 public:
  explicit bench(const link_options& o) : options_(o) {
    if (options_.ordinals.empty()) {
      for (std::uint32_t d = 0; d < device_count(); ++d) {
        options_.ordinals.push_back(static_cast<int>(d));
      }
    }
    for (const int gpu : options_.ordinals) require_gpu(gpu);
    if (options_.sizes.empty() || options_.repetitions == 0) {
      throw usage_error("a measurement of links needs a size and a repetition");
    }
    for (std::uint64_t& size : options_.sizes) {
      size = std::max<std::uint64_t>(8, size / 8 * 8);
      largest_ = std::max(largest_, size);
    }
    for (const int gpu : options_.ordinals) places_.push_back(make_place(gpu, gpu));
    if (options_.host) {
      host_source_ = std::make_unique<mapped_memory>(largest_);
      host_target_ = std::make_unique<mapped_memory>(largest_);
      for (const int gpu : options_.ordinals) {
        places_.push_back(make_place(host_memory, gpu));
      }
    }
  }
  ~bench() {
    hold_.release();
    for (const place& p : places_) {
      INTERLACE_CUDA_LOG(cudaSetDevice(p.device));
      INTERLACE_CUDA_LOG(cudaStreamSynchronize(p.stream));
      INTERLACE_CUDA_LOG(cudaEventDestroy(p.start));
      INTERLACE_CUDA_LOG(cudaEventDestroy(p.stop));
      INTERLACE_CUDA_LOG(cudaStreamDestroy(p.stream));
    }
  }
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;
  bench(bench&&) = delete;
  bench& operator=(bench&&) = delete;

  std::vector<link_bandwidth> measure() {
    std::vector<std::pair<place*, place*>> pairs;
    const std::size_t gpus = options_.ordinals.size();
    for (std::size_t a = 0; a < gpus; ++a) {
      for (std::size_t b = 0; b < gpus; ++b) {
        if (a != b) pairs.emplace_back(&places_[a], &places_[b]);
      }
      if (options_.host) {
        pairs.emplace_back(&places_[gpus + a], &places_[a]);
        pairs.emplace_back(&places_[a], &places_[gpus + a]);
      }
    }
    std::vector<link_bandwidth> results;
    std::size_t done = 0;
    for (const auto& [from, to] : pairs) {
      for (const std::uint64_t size : options_.sizes) {
        results.push_back(measure_pair(*from, *to, size, false));
        // For both directions at once, a pair and the reverse pair give the same measurement.
        if (options_.both_ways && from < to) {
          results.push_back(measure_pair(*from, *to, size, true));
        }
      }
      ++done;
      if (options_.progress) {
        options_.progress(static_cast<double>(done) / static_cast<double>(pairs.size()));
      }
    }
    return results;
  }

 private:
  place make_place(int memory, int device) {
    place p;
    p.memory = memory;
    p.device = device;
    const current_device on(device);
    stream_hold::load();
    load_kernel(fill);
    load_kernel(count_wrong);
    if (memory == host_memory) {
      p.source = host_source_->data();
      p.target = host_target_->data();
    } else {
      p.source = memory_.take(device, largest_);
      p.target = memory_.take(device, largest_);
    }
    p.wrong = static_cast<unsigned long long*>(memory_.take(device, sizeof(*p.wrong)));
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&p.start));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&p.stop));
    return p;
  }

  void enqueue_copies(const place& on, const place& from, const place& to, std::uint64_t bytes,
                      std::uint32_t copies) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(on.device));
    hold_.enqueue(on.stream);
    INTERLACE_CUDA_CHECK(cudaEventRecord(on.start, on.stream));
    for (std::uint32_t k = 0; k < copies; ++k) {
      INTERLACE_CUDA_CHECK(
          cudaMemcpyAsync(to.target, from.source, bytes, cudaMemcpyDefault, on.stream));
    }
    INTERLACE_CUDA_CHECK(cudaEventRecord(on.stop, on.stream));
  }

  void prepare(const place& from, const place& to, std::uint64_t bytes, std::uint64_t seed) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(from.device));
    fill<<<probe_blocks, probe_threads, 0, from.stream>>>(static_cast<std::uint64_t*>(from.source),
                                                          bytes / 8, seed);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(from.stream));
    INTERLACE_CUDA_CHECK(cudaSetDevice(to.device));
    INTERLACE_CUDA_CHECK(cudaMemsetAsync(to.target, 0xff, bytes, to.stream));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(to.stream));
  }

  void verify(const place& from, const place& to, std::uint64_t bytes, std::uint64_t seed) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(to.device));
    INTERLACE_CUDA_CHECK(cudaMemsetAsync(to.wrong, 0, sizeof(*to.wrong), to.stream));
    count_wrong<<<probe_blocks, probe_threads, 0, to.stream>>>(
        static_cast<const std::uint64_t*>(to.target), bytes / 8, seed, to.wrong);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
    unsigned long long wrong = 0;
    INTERLACE_CUDA_CHECK(
        cudaMemcpyAsync(&wrong, to.wrong, sizeof(wrong), cudaMemcpyDefault, to.stream));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(to.stream));
    if (wrong != 0) {
      throw device_error("a copy of " + std::to_string(bytes) + " bytes from " +
                         name_of(from.memory) + " to " + name_of(to.memory) + " left " +
                         std::to_string(wrong) + " words of 8 bytes wrong");
    }
  }

  static double seconds(const place& p) {
    float ms = 0;
    INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, p.start, p.stop));
    return static_cast<double>(ms) * 1e-3;
  }

  link_bandwidth measure_pair(const place& from, const place& to, std::uint64_t bytes,
                              bool both_ways) {
    link_bandwidth result;
    result.from = from.memory;
    result.to = to.memory;
    result.bytes = bytes;
    result.both_ways = both_ways;
    if (from.memory != host_memory && to.memory != host_memory) {
      result.peer_access =
          try_peer_access(from.device, to.device) && try_peer_access(to.device, from.device);
    }
    const std::uint64_t seed = ++seed_;
    prepare(from, to, bytes, seed);
    if (both_ways) prepare(to, from, bytes, seed + 1);
    const auto copies =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(least_bytes / bytes, 1, most_copies));

    // The first copy between two memories initialises resources, and may wait for streams that are
    // held. The first copy is therefore made before any stream is held.
    for (const auto& [a, b] : {std::pair{&from, &to}, std::pair{&to, &from}}) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(a->device));
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(b->target, a->source, 8, cudaMemcpyDefault, a->stream));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(a->stream));
    }

    std::vector<double> rates;
    for (std::uint32_t k = 0; k <= options_.repetitions; ++k) {
      hold_.close();
      try {
        enqueue_copies(from, from, to, bytes, copies);
        if (both_ways) enqueue_copies(to, to, from, bytes, copies);
      } catch (...) {
        hold_.release();
        throw;
      }
      hold_.release();
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(from.stream));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(to.stream));
      hold_.check();
      double time_s = seconds(from);
      if (both_ways) time_s = std::max(time_s, seconds(to));
      if (k == 0) continue;  // the first repetition is the warm-up
      rates.push_back(static_cast<double>(bytes) * copies * (both_ways ? 2 : 1) / time_s);
    }
    verify(from, to, bytes, seed);
    if (both_ways) verify(to, from, bytes, seed + 1);
    ++seed_;
    std::sort(rates.begin(), rates.end());
    result.bytes_per_s = quantile(rates, 0.5);
    result.lowest = rates.front();
    result.highest = rates.back();
    return result;
  }

  link_options options_;
  std::uint64_t largest_ = 0;
  device_memory memory_;
  std::unique_ptr<mapped_memory> host_source_, host_target_;
  stream_hold hold_;
  std::uint64_t seed_ = 0;
  std::vector<place> places_;
};

}  // namespace

std::vector<link_bandwidth> measure_links(const link_options& o) {
  (void)device_count();  // throws if there is no driver; the error says why
  const current_device restore(0);
  return bench(o).measure();
}

}  // namespace interlace::cuda
