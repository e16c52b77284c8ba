#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "bench/multiprocessor_cuda.hpp"
#include "bench/multiprocessor_kernels.cuh"
#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/fft.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::bench::multiprocessor {

namespace {

int attribute(cudaDeviceAttr which) {
  int value = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

// The stream, the memory and the clocks of a measurement on GPU 0.
class bench {
 public:
  explicit bench(std::uint32_t repeats)
      : there_(0),
        repeats_(repeats),
        multiprocessors_(static_cast<unsigned int>(attribute(cudaDevAttrMultiProcessorCount))) {
    if (repeats == 0) throw usage_error("a microbenchmark needs repeats");
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&start_));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&stop_));
    kept_ = memory_.take(0, sizeof(double));
    arrived_ = static_cast<unsigned int*>(memory_.take(0, sizeof(unsigned int)));
  }
  ~bench() {
    INTERLACE_CUDA_LOG(cudaStreamSynchronize(stream_));
    INTERLACE_CUDA_LOG(cudaEventDestroy(start_));
    INTERLACE_CUDA_LOG(cudaEventDestroy(stop_));
    INTERLACE_CUDA_LOG(cudaStreamDestroy(stream_));
  }
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;
  bench(bench&&) = delete;
  bench& operator=(bench&&) = delete;

  unsigned int multiprocessors() const { return multiprocessors_; }
  cudaStream_t stream() const { return stream_; }
  template <class T>
  T* kept() const {
    return static_cast<T*>(kept_);
  }
  template <class T>
  T* take(std::uint64_t count, int ordinal = 0) {
    return static_cast<T*>(memory_.take(ordinal, count * sizeof(T)));
  }

  // Returns, for each repeat, the time in seconds of the work that `enqueue` puts into the stream.
  std::vector<double> time_s(const std::function<void()>& enqueue) const {
    std::vector<double> found;
    for (std::uint32_t k = 0; k <= repeats_; ++k) {
      INTERLACE_CUDA_CHECK(cudaEventRecord(start_, stream_));
      enqueue();
      INTERLACE_CUDA_CHECK(cudaGetLastError());
      INTERLACE_CUDA_CHECK(cudaEventRecord(stop_, stream_));
      INTERLACE_CUDA_CHECK(cudaEventSynchronize(stop_));
      float ms = 0;
      INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
      if (k != 0) found.push_back(1e-3 * static_cast<double>(ms));
    }
    return found;
  }

  // Runs a kernel with `blocks` blocks on each of `on` multiprocessors. `of` computes one value for
  // each multiprocessor from the stretches of its blocks. Returns, for each repeat, the median of
  // these values.
  std::vector<double> stretches(unsigned int on, unsigned int blocks,
                                const std::function<void(unsigned int grid, timing)>& launch,
                                const std::function<double(const stretch&)>& of) {
    const unsigned int grid = on * blocks;
    const timing t{take<stretch>(grid), arrived_};
    std::vector<stretch> each(grid);
    std::vector<double> found;
    for (std::uint32_t k = 0; k <= repeats_; ++k) {
      INTERLACE_CUDA_CHECK(cudaMemsetAsync(arrived_, 0, sizeof(unsigned int), stream_));
      launch(grid, t);
      INTERLACE_CUDA_CHECK(cudaGetLastError());
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(each.data(), t.blocks, grid * sizeof(stretch),
                                           cudaMemcpyDeviceToHost, stream_));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_));
      if (k != 0) found.push_back(median(whole_stretches(each, blocks, of)));
    }
    return found;
  }

 private:
  // The stretches of the multiprocessors. A multiprocessor's stretch lasts from the first begin to
  // the last end of the multiprocessor's blocks.
  static std::vector<double> whole_stretches(const std::vector<stretch>& each, unsigned int blocks,
                                             const std::function<double(const stretch&)>& of) {
    std::map<unsigned int, std::pair<stretch, unsigned int>> by_multiprocessor;
    for (const stretch& s : each) {
      auto& [whole, count] = by_multiprocessor.try_emplace(s.multiprocessor, s, 0U).first->second;
      whole.begin = std::min(whole.begin, s.begin);
      whole.end = std::max(whole.end, s.end);
      whole.begin_ns = std::min(whole.begin_ns, s.begin_ns);
      whole.end_ns = std::max(whole.end_ns, s.end_ns);
      ++count;
    }
    std::vector<double> found;
    for (const auto& [number, measured] : by_multiprocessor) {
      if (measured.second != blocks) {
        throw device_error("multiprocessor " + std::to_string(number) + " got " +
                           std::to_string(measured.second) + " blocks instead of " +
                           std::to_string(blocks));
      }
      found.push_back(of(measured.first));
    }
    return found;
  }

  cuda::current_device there_;
  std::uint32_t repeats_;
  unsigned int multiprocessors_;
  cuda::device_memory memory_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  void* kept_ = nullptr;
  unsigned int* arrived_ = nullptr;
};

double clocks_of(const stretch& s) { return static_cast<double>(s.end - s.begin); }

// --- chains --------------------------------------------------------------------------------------

template <class Step>
struct named_chain {
  const char* name;
  typename Step::type a;
  typename Step::type b;
};

// Calls f with the chain that has this name. Returns whether there is such a chain.
template <class F>
bool with_chain(const F& f) {
  return f(named_chain<step_add>{"IADD3", 3, 5}) || f(named_chain<step_imad>{"IMAD", 3, 5}) ||
         f(named_chain<step_lop3>{"LOP3", 3, 5}) || f(named_chain<step_min>{"VIMNMX", 3, 5}) ||
         f(named_chain<step_min3>{"VIMNMX3", 3, 5}) ||
         f(named_chain<step_imad_hi>{"IMAD.HI", 3, 5}) ||
         f(named_chain<step_imad_wide>{"IMAD.WIDE", 3, 5}) ||
         f(named_chain<step_f2i>{"F2I", 0, 0}) || f(named_chain<step_ffma>{"FFMA", 0.5F, 1.0F}) ||
         f(named_chain<step_dfma>{"DFMA", 0.5, 1.0}) ||
         f(named_chain<step_mufu>{"MUFU", 0.0F, 0.0F}) ||
         f(named_chain<step_shuffle>{"SHFL", 1, 0}) || f(named_chain<step_reduce>{"REDUX", 0, 0}) ||
         f(named_chain<step_ballot>{"VOTE", 1, 0}) ||
         f(named_chain<step_barrier>{"barrier", 0, 0}) ||
         f(named_chain<step_divide_u32>{"32-bit integer division", 0x7fffffffU, 0}) ||
         f(named_chain<step_divide_f32>{"fp32 division", 77.0F, 0.0F});
}

constexpr unsigned int chain_steps = 1U << 14U;

template <class Step>
std::vector<double> measure_chain(const named_chain<Step>& c, std::uint32_t warps,
                                  std::uint32_t repeats,
                                  const std::function<double(const stretch&)>& of) {
  bench on(repeats);
  const shape s = shape::of(warps);
  return on.stretches(
      on.multiprocessors(), s.blocks,
      [&](unsigned int grid, const timing& t) {
        chain<Step><<<grid, s.threads, 0, on.stream()>>>(
            chain_steps / Step::steps, c.a, c.b, on.template kept<typename Step::type>(), t);
      },
      of);
}

// --- loads ---------------------------------------------------------------------------------------

// Calls f with a compile-time constant that equals `from`.
template <class F>
auto with_memory(loaded_from from, const F& f) {
  using enum loaded_from;
  switch (from) {
    case shared:
      return f(std::integral_constant<loaded_from, shared>{});
    case l1:
      return f(std::integral_constant<loaded_from, l1>{});
    default:
      return f(std::integral_constant<loaded_from, l2>{});
  }
}

template <loaded_from From, unsigned int Unroll>
std::vector<double> measure_loop(std::uint32_t warps, std::uint32_t repeats) {
  constexpr unsigned int passes = 64;
  bench on(repeats);
  const shape s = shape::of(warps);
  const std::uint64_t words = std::uint64_t{on.multiprocessors()} * s.blocks * loop_rows * lanes;
  auto* data = on.take<float>(words);
  INTERLACE_CUDA_CHECK(cudaMemsetAsync(data, 0, words * sizeof(float), on.stream()));
  return on.stretches(
      on.multiprocessors(), s.blocks,
      [&](unsigned int grid, const timing& t) {
        loop<From, Unroll>
            <<<grid, s.threads, 0, on.stream()>>>(data, loop_rows, passes, on.kept<float>(), t);
      },
      [](const stretch& found) { return clocks_of(found) / (passes * loop_rows); });
}

// --- kernels of whole GPUs -----------------------------------------------------------------------

// The number of a kernel's blocks that all multiprocessors together hold at a time.
template <class Kernel>
unsigned int resident_blocks(const Kernel& kernel, unsigned int multiprocessors) {
  int each = 0;
  INTERLACE_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &each, kernel, static_cast<int>(stream_threads), 0));
  return static_cast<unsigned int>(each) * multiprocessors;
}

std::vector<double> per_s(const std::vector<double>& time_s, double count) {
  std::vector<double> found;
  found.reserve(time_s.size());
  for (const double one : time_s) found.push_back(count / one);
  return found;
}

template <unsigned int Registers, unsigned int Held>
std::vector<double> measure_gather(std::uint64_t bytes, std::uint32_t repeats) {
  constexpr std::uint64_t indexes = std::uint64_t{1} << 22U;
  constexpr unsigned int granule = 8;  // threads get registers in multiples of this number
  constexpr unsigned int registers_of_multiprocessor = 65536;
  bench on(repeats);
  const auto kernel = gather<Registers, Held>;
  cudaFuncAttributes found{};
  INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&found, kernel));
  const unsigned int blocks = resident_blocks(kernel, on.multiprocessors());
  const auto used = static_cast<unsigned int>(found.numRegs);
  if ((used + granule - 1) / granule * granule != Registers || found.localSizeBytes != 0 ||
      blocks != on.multiprocessors() * (registers_of_multiprocessor / Registers / stream_threads)) {
    throw device_error("a gather of " + std::to_string(Registers) + " registers was compiled to " +
                       std::to_string(used) + ", and the GPU holds " + std::to_string(blocks) +
                       " of its blocks");
  }
  const std::uint64_t elements = bytes / sizeof(float);
  auto* data = on.take<float>(elements);
  auto* index = on.take<unsigned int>(indexes);
  auto* values = on.take<float>(std::uint64_t{Registers} * stream_threads);
  INTERLACE_CUDA_CHECK(cudaMemsetAsync(data, 0, elements * sizeof(float), on.stream()));
  INTERLACE_CUDA_CHECK(cudaMemsetAsync(
      values, 0, std::uint64_t{Registers} * stream_threads * sizeof(float), on.stream()));
  fill_indexes<<<indexes / stream_threads, stream_threads, 0, on.stream()>>>(index, indexes,
                                                                             elements);
  constexpr unsigned int launches = 4;
  return per_s(on.time_s([&] {
    for (unsigned int k = 0; k < launches; ++k) {
      kernel<<<blocks, stream_threads, 0, on.stream()>>>(
          data, index, static_cast<unsigned int>(indexes), values, on.kept<float>());
    }
  }),
               static_cast<double>(launches * indexes));
}

// --- small kernels -------------------------------------------------------------------------------

// A graph that is destroyed together with this object.
class graph {
 public:
  // Captures what `enqueue` puts into the stream.
  graph(cudaStream_t stream, const std::function<void()>& enqueue) {
    cudaGraph_t captured = nullptr;
    INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue();
    INTERLACE_CUDA_CHECK(cudaStreamEndCapture(stream, &captured));
    const cudaError_t counted = cudaGraphGetNodes(captured, nullptr, &nodes_);
    const cudaError_t made = cudaGraphInstantiate(&executable_, captured, 0);
    INTERLACE_CUDA_LOG(cudaGraphDestroy(captured));
    INTERLACE_CUDA_CHECK(counted);
    INTERLACE_CUDA_CHECK(made);
  }
  ~graph() { INTERLACE_CUDA_LOG(cudaGraphExecDestroy(executable_)); }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  graph(graph&&) = delete;
  graph& operator=(graph&&) = delete;

  std::size_t nodes() const { return nodes_; }
  void launch(cudaStream_t stream) const {
    INTERLACE_CUDA_CHECK(cudaGraphLaunch(executable_, stream));
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
  std::size_t nodes_ = 0;
};

// The time in seconds of one call of `enqueue`. It is computed from the difference between graphs
// with more calls and graphs with fewer calls.
std::vector<double> call_s(const bench& on, const std::function<void(unsigned int call)>& enqueue) {
  constexpr unsigned int few = 64;
  constexpr unsigned int many = 320;
  const auto calls = [&](unsigned int count) {
    return [&enqueue, count] {
      for (unsigned int k = 0; k < count; ++k) enqueue(k);
    };
  };
  const graph short_one(on.stream(), calls(few));
  const graph long_one(on.stream(), calls(many));
  const std::vector<double> less = on.time_s([&] { short_one.launch(on.stream()); });
  std::vector<double> found = on.time_s([&] { long_one.launch(on.stream()); });
  for (std::size_t k = 0; k < found.size(); ++k) found[k] = (found[k] - less[k]) / (many - few);
  return found;
}

constexpr std::uint32_t most_kernels = 8;

template <unsigned int Instructions>
std::vector<double> measure_small(std::uint32_t kernels, std::uint32_t repeats) {
  using kernel = void (*)(float, float, float*);
  const kernel all[most_kernels] = {small_kernel<Instructions, 0>, small_kernel<Instructions, 1>,
                                    small_kernel<Instructions, 2>, small_kernel<Instructions, 3>,
                                    small_kernel<Instructions, 4>, small_kernel<Instructions, 5>,
                                    small_kernel<Instructions, 6>, small_kernel<Instructions, 7>};
  bench on(repeats);
  const auto launch = [&](unsigned int call) {
    all[call % kernels]<<<on.multiprocessors(), stream_threads, 0, on.stream()>>>(0.5F, 1.0F,
                                                                                  on.kept<float>());
  };
  // The first launch of a kernel loads the kernel. That launch must not be captured.
  for (unsigned int k = 0; k < kernels; ++k) launch(k);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  return call_s(on, launch);
}

}  // namespace

std::vector<std::string> chain_kinds() {
  std::vector<std::string> names;
  (void)with_chain([&](const auto& c) {
    names.emplace_back(c.name);
    return false;
  });
  return names;
}

std::vector<double> chain_clocks(const std::string& kind, std::uint32_t warps,
                                 std::uint32_t repeats) {
  std::vector<double> found;
  const bool known = with_chain([&](const auto& c) {
    if (kind != c.name) return false;
    found = measure_chain(c, warps, repeats,
                          [](const stretch& s) { return clocks_of(s) / chain_steps; });
    return true;
  });
  if (!known) throw usage_error("there is no chain of " + kind);
  return found;
}

std::vector<double> busy_clock_mhz(std::uint32_t repeats) {
  constexpr std::uint32_t warps = 16;
  return measure_chain(named_chain<step_ffma>{"FFMA", 0.5F, 1.0F}, warps, repeats,
                       [](const stretch& s) {
                         return 1e3 * clocks_of(s) / static_cast<double>(s.end_ns - s.begin_ns);
                       });
}

std::vector<double> loop_clocks(loaded_from from, std::uint32_t unroll, std::uint32_t warps,
                                std::uint32_t repeats) {
  return with_memory(from, [&](auto memory) {
    switch (unroll) {
      case 1:
        return measure_loop<memory.value, 1>(warps, repeats);
      case 2:
        return measure_loop<memory.value, 2>(warps, repeats);
      case 4:
        return measure_loop<memory.value, 4>(warps, repeats);
      default:
        throw usage_error("no loop is unrolled " + std::to_string(unroll) +
                          " times; give 1, 2 or 4");
    }
  });
}

std::vector<double> chase_clocks(loaded_from from, std::uint64_t bytes, std::uint32_t repeats,
                                 std::uint32_t gpu, bool just_written) {
  constexpr std::uint64_t line_bytes = line_words * sizeof(unsigned int);
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 33U;  // an index of a word has 32 bits
  constexpr std::uint64_t most_shared = std::uint64_t{32} << 10U;
  const std::uint64_t most = from == loaded_from::shared ? most_shared : most_bytes;
  if (bytes < 2 * line_bytes || bytes > most || (bytes & (bytes - 1)) != 0) {
    throw usage_error("a circle of lines cannot have " + std::to_string(bytes) +
                      " bytes; give a power of two of at most " + std::to_string(most));
  }
  const auto count = static_cast<unsigned int>(bytes / line_bytes);
  // Data that fits in a cache is loaded once before the measurement. Larger data is in no cache,
  // because each repeat loads other lines.
  const bool cached = bytes <= static_cast<std::uint64_t>(attribute(cudaDevAttrL2CacheSize));
  const unsigned int warm_up = cached && !just_written ? count : 0;
  constexpr unsigned int loads = 8192;
  std::uint64_t repeat = 0;
  if (gpu >= cuda::device_count()) {
    throw usage_error("a circle of lines on GPU " + std::to_string(gpu) + ", which is not here");
  }
  const auto ordinal = static_cast<int>(gpu);
  bench on(repeats);
  if (gpu != 0) cuda::enable_peer_access({0, ordinal});
  auto* data = on.take<unsigned int>(bytes / sizeof(unsigned int), ordinal);
  const auto link = [&] {
    link_lines<<<(count + stream_threads - 1) / stream_threads, stream_threads, 0, on.stream()>>>(
        data, count);
  };
  link();
  const auto shared_bytes = from == loaded_from::shared ? static_cast<unsigned int>(bytes) : 0U;
  return on.stretches(
      1, 1,
      [&](unsigned int grid, const timing& t) {
        const std::uint64_t line = cached ? 0 : ++repeat * 0x9E3779B97F4A7C15U & (count - 1);
        const auto first = static_cast<unsigned int>(line * line_words);
        if (just_written) link();
        with_memory(from, [&](auto memory) {
          chase<memory.value><<<grid, lanes, shared_bytes, on.stream()>>>(
              data, count, first, warm_up, loads, on.kept<unsigned int>(), t);
        });
      },
      [](const stretch& s) { return clocks_of(s) / loads; });
}

std::vector<double> small_kernel_s(std::uint32_t instructions, std::uint32_t kernels,
                                   std::uint32_t repeats) {
  if (kernels != 1 && kernels != most_kernels) {
    throw usage_error(std::to_string(kernels) +
                      " small kernels in turn cannot be measured; give 1 or " +
                      std::to_string(most_kernels));
  }
  switch (instructions) {
    case 0:
      return measure_small<0>(kernels, repeats);
    case 50:
      return measure_small<50>(kernels, repeats);
    case 200:
      return measure_small<200>(kernels, repeats);
    case 500:
      return measure_small<500>(kernels, repeats);
    case 1000:
      return measure_small<1000>(kernels, repeats);
    default:
      throw usage_error("no small kernel has " + std::to_string(instructions) +
                        " instructions; give 0, 50, 200, 500 or 1000");
  }
}

std::vector<double> block_s(std::uint32_t repeats) {
  constexpr unsigned int few = 1024;  // number of blocks of a multiprocessor
  constexpr unsigned int many = 4096;
  const bench on(repeats);
  const auto timed = [&](unsigned int blocks) {
    return on.time_s([&] {
      small_kernel<0, 0><<<blocks * on.multiprocessors(), stream_threads, 0, on.stream()>>>(
          0.5F, 1.0F, on.kept<float>());
    });
  };
  const std::vector<double> less = timed(few);
  std::vector<double> found = timed(many);
  for (std::size_t k = 0; k < found.size(); ++k) {
    found[k] = (found[k] - less[k]) / (1.0 * (many - few) * on.multiprocessors());
  }
  return found;
}

std::vector<double> gathers_per_s(std::uint32_t registers, std::uint64_t bytes,
                                  std::uint32_t repeats) {
  if (bytes < sizeof(float)) throw usage_error("a gather needs at least one element of data");
  switch (registers) {
    case 32:
      return measure_gather<32, 13>(bytes, repeats);
    case 64:
      return measure_gather<64, 50>(bytes, repeats);
    case 128:
      return measure_gather<128, 112>(bytes, repeats);
    default:
      throw usage_error("no gather has " + std::to_string(registers) +
                        " registers; give 32, 64 or 128");
  }
}

std::vector<double> sectors_per_s(std::uint64_t bytes, std::uint32_t repeats) {
  constexpr unsigned int sector_bytes = 32;
  constexpr unsigned int rounds = 64;
  if (bytes < sector_bytes)
    throw usage_error("a measurement of sectors needs at least one sector of data");
  bench on(repeats);
  auto* data = on.take<unsigned int>(bytes / sizeof(unsigned int));
  const unsigned int blocks = resident_blocks(load_sectors, on.multiprocessors());
  return per_s(on.time_s([&] {
    load_sectors<<<blocks, stream_threads, 0, on.stream()>>>(data, bytes / sector_bytes, rounds,
                                                             on.kept<unsigned int>());
  }),
               1.0 * blocks * stream_threads * rounds * loads_in_flight);
}

namespace {

// A kernel that reads the same bytes in several passes.
struct read_passes {
  static constexpr std::uint64_t step_bytes = sizeof(uint4) * loads_in_flight * stream_threads;

  explicit read_passes(std::uint64_t bytes) : steps(bytes / step_bytes) {
    if (steps == 0) {
      throw usage_error("a measurement of reads needs at least " + std::to_string(step_bytes) +
                        " bytes");
    }
    // For all sizes, a kernel reads the same number of bytes in all. The start of the kernel is
    // therefore the same share of each time.
    constexpr std::uint64_t all = std::uint64_t{8} << 30U;
    passes = static_cast<unsigned int>(std::max<std::uint64_t>(1, all / bytes));
  }
  std::uint64_t values() const { return steps * loads_in_flight * stream_threads; }
  unsigned int at_most(unsigned int blocks) const {
    return static_cast<unsigned int>(std::min<std::uint64_t>(steps, blocks));
  }
  double bytes() const { return static_cast<double>(steps * step_bytes) * passes; }

  std::uint64_t steps;
  unsigned int passes = 1;
};

}  // namespace

std::vector<double> reads_per_s(std::uint64_t bytes, std::uint32_t repeats) {
  const read_passes all(bytes);
  bench on(repeats);
  auto* data = on.take<uint4>(all.values());
  const unsigned int blocks = all.at_most(resident_blocks(read_again, on.multiprocessors()));
  return per_s(on.time_s([&] {
    read_again<<<blocks, stream_threads, 0, on.stream()>>>(data, all.steps, all.passes,
                                                           on.kept<unsigned int>());
  }),
               all.bytes());
}

std::vector<double> copies_per_s(std::uint64_t bytes, std::uint32_t repeats) {
  const read_passes all(bytes);
  bench on(repeats);
  auto* from = on.take<uint4>(all.values());
  auto* to = on.take<uint4>(all.values());
  const unsigned int blocks = all.at_most(resident_blocks(copy_again, on.multiprocessors()));
  return per_s(on.time_s([&] {
    copy_again<<<blocks, stream_threads, 0, on.stream()>>>(from, to, all.steps, all.passes);
  }),
               all.bytes());
}

std::vector<double> line_load_clocks(std::uint32_t lines, std::uint32_t offset,
                                     std::uint32_t repeats) {
  constexpr unsigned int rounds = 128;
  constexpr std::uint32_t warps = 16;  // number of warps of a sub-core
  if (lines == 0 || lines > lanes || (lines & (lines - 1)) != 0 || offset >= line_words) {
    throw usage_error("loads of " + std::to_string(lines) + " lines, " + std::to_string(offset) +
                      " words off; give a power of two of at most " + std::to_string(lanes) +
                      ", and fewer words than a line has");
  }
  bench on(repeats);
  const shape s = shape::of(warps);
  const std::uint64_t words =
      std::uint64_t{on.multiprocessors()} * s.blocks * block_lines * line_words;
  auto* data = on.take<float>(words);
  INTERLACE_CUDA_CHECK(cudaMemsetAsync(data, 0, words * sizeof(float), on.stream()));
  return on.stretches(
      on.multiprocessors(), s.blocks,
      [&](unsigned int grid, const timing& t) {
        load_lines<<<grid, s.threads, 0, on.stream()>>>(data, lines, offset, rounds,
                                                        on.kept<float>(), t);
      },
      [](const stretch& found) {
        return clocks_of(found) / (rounds * loads_in_flight * warps * sub_cores);
      });
}

namespace {

// Data that one kernel writes, and another kernel reads, from the first byte to the last byte.
struct written_data {
  written_data(bench& on, std::uint64_t bytes)
      : steps(bytes / (sizeof(uint4) * loads_in_flight * stream_threads)),
        values(steps * loads_in_flight * stream_threads),
        blocks(resident_blocks(write_all, on.multiprocessors())) {
    if (steps == 0) throw usage_error("a measurement of writes needs at least one step of data");
    data = on.take<uint4>(values);
  }
  void write(const bench& on) const {
    write_all<<<blocks, stream_threads, 0, on.stream()>>>(data, values, 7);
  }
  void read(const bench& on) const {
    read_again<<<blocks, stream_threads, 0, on.stream()>>>(data, steps, 1, on.kept<unsigned int>());
  }

  std::uint64_t steps;
  std::uint64_t values;
  unsigned int blocks;
  uint4* data = nullptr;
};

}  // namespace

std::vector<double> writes_per_s(std::uint64_t bytes, std::uint32_t repeats) {
  bench on(repeats);
  const written_data all(on, bytes);
  all.write(on);  // loads the kernel
  return per_s(call_s(on, [&](unsigned int) { all.write(on); }),
               static_cast<double>(all.values * sizeof(uint4)));
}

std::vector<double> fresh_reads_per_s(std::uint64_t bytes, std::uint32_t repeats) {
  bench on(repeats);
  const written_data all(on, bytes);
  all.write(on);
  all.read(on);
  const std::vector<double> writes = call_s(on, [&](unsigned int) { all.write(on); });
  std::vector<double> found = call_s(on, [&](unsigned int) {
    all.write(on);
    all.read(on);
  });
  for (std::size_t k = 0; k < found.size(); ++k) found[k] -= writes[k];
  return per_s(found, static_cast<double>(all.values * sizeof(uint4)));
}

library_times fft_times(bool planes, std::uint32_t length, std::uint32_t repeats) {
  if (length < 2 || length > 512) {
    throw usage_error("no transform has the length " + std::to_string(length) + "; give 2 to 512");
  }
  cuda::node_options first;
  first.devices = 1;
  cuda::node node(first);
  kernel::fft f;
  f.kind = planes ? kernel::fft_kind::planes_forward : kernel::fft_kind::columns_forward;
  f.length = length;
  f.count = planes ? length : length * f.half();
  const std::uint64_t numbers = std::uint64_t{length} * length * f.half();
  f.spectrum = node.allocate<kernel::complex_number>(0, numbers);
  f.points = node.allocate<float>(0, std::uint64_t{length} * length * length);
  node.upload(f.spectrum, std::vector<kernel::complex_number>(f.spectrum.size));
  node.upload(f.points, std::vector<float>(f.points.size));
  const auto run = cuda::plan_fft(node, 0, f);
  const bench on(repeats);
  run(on.stream());  // loads the kernels of the call
  library_times found;
  found.kernels = static_cast<std::uint32_t>(graph(on.stream(), [&] { run(on.stream()); }).nodes());
  found.time_s = call_s(on, [&](unsigned int) { run(on.stream()); });
  return found;
}

}  // namespace interlace::bench::multiprocessor
