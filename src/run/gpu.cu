#include "run/gpu.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <string_view>

#include "base/cut_text.hpp"
#include "base/read_file.hpp"
#include "cuda/library.hpp"
#include "cuda/measure_links.hpp"
#include "cuda/measure_rates.hpp"
#include "cuda/transfer/nccl_library.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/node.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::run {

namespace {

// The driver's kernel module writes its version to this file. NVML also has the version, but NVML
// takes longer to load.
std::string driver_version() {
  const std::string stated = read_file("/sys/module/nvidia/version").value_or("");
  if (const auto words = words_of(stated); !words.empty()) return std::string(words.front());
  const std::string text = read_file("/proc/driver/nvidia/version").value_or("");
  for (const std::string_view word : words_of(text)) {
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos) {
      return std::string(word);
    }
  }
  return {};
}

std::string end_name(int ordinal) {
  return ordinal == cuda::host_memory ? "host" : "gpu" + std::to_string(ordinal);
}

}  // namespace

gpu_info describe_gpus() {
  gpu_info info;
  info.gpus = cuda::device_count();
  cudaDeviceProp properties{};
  INTERLACE_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  info.name = properties.name;
  info.driver = driver_version();
  int version = 0;
  INTERLACE_CUDA_CHECK(cudaDriverGetVersion(&version));
  info.cuda = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  return info;
}

std::string nccl_version(const std::vector<std::string>& candidates) {
  return cuda::nccl_library::of_process(candidates).version();
}

host_graph make_rmat(std::uint32_t scale, std::uint32_t edge_factor, std::uint64_t seed) {
  cuda::node node(cuda::node_options{});
  cuda::rmat_options options;
  options.scale = scale;
  options.edge_factor = edge_factor;
  options.seed = seed;
  const cuda::device_graph graph = cuda::make_rmat(node, 0, options);
  return {node.download(graph.offsets), node.download(graph.columns),
          node.download(graph.out_degree)};
}

std::vector<measured_link> measure_links(const std::vector<std::uint64_t>& sizes,
                                         std::uint32_t repetitions,
                                         const std::function<void()>& check_interrupt) {
  cuda::link_options options;
  options.sizes = sizes;
  options.repetitions = repetitions;
  options.progress = [&](double) { check_interrupt(); };
  const auto measured = cuda::measure_links(options);
  std::vector<measured_link> links;
  for (const cuda::link_bandwidth& m : measured) {
    if (m.both_ways) continue;
    measured_link l{end_name(m.from), end_name(m.to), m.bytes, m.bytes_per_s, 0};
    const auto both = std::find_if(measured.begin(), measured.end(), [&](const auto& b) {
      return b.both_ways && b.bytes == m.bytes &&
             std::minmax(b.from, b.to) == std::minmax(m.from, m.to);
    });
    if (both != measured.end()) l.both_bytes_per_s = both->bytes_per_s;
    links.push_back(l);
  }
  return links;
}

device_rates measure_device_rates(std::uint32_t repeats) {
  const cuda::device_rates r = cuda::measure_rates({.repetitions = repeats});
  return {r.read_bytes_per_s, r.write_bytes_per_s, r.fp32_per_s, r.fp64_per_s,
          r.integer_per_s,    r.together_per_s,    r.cache_bytes};
}

}  // namespace interlace::run
