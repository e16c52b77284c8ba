#include "python/bind_unified.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "base/limits.hpp"
#include "python/cpu_time.hpp"
#include "python/workloads.hpp"
#include "run/unified.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

using result_dict = nb::typed<nb::dict, nb::str, nb::any>;

template <class T>
std::vector<T> values_of(const array_in<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}
template <class T>
std::vector<T> values_of(const matrix_in<T>& array) {
  return {array.data(), array.data() + array.shape(0) * array.shape(1)};
}
std::uint32_t extent(std::size_t n) {
  constexpr std::size_t most = std::size_t{1} << 20U;
  if (n <= most) return static_cast<std::uint32_t>(n);
  throw usage_error("a matrix has " + std::to_string(n) + " rows or columns; at most " +
                    std::to_string(most) + " are possible");
}

workload::fir_data fir_data(const array_in<float>& input, const array_in<float>& coefficients,
                            const array_in<float>& history) {
  return {values_of(input), values_of(coefficients), values_of(history)};
}
workload::transpose_data transpose_data(const matrix_in<float>& input) {
  if (input.shape(0) != input.shape(1)) throw usage_error("the matrix is not square");
  return {extent(input.shape(0)), values_of(input)};
}
workload::multiply_data multiply_data(const matrix_in<float>& a, const matrix_in<float>& b) {
  if (a.shape(1) != b.shape(0)) {
    throw usage_error("the first matrix has other columns than the second has rows");
  }
  return {extent(a.shape(0)), extent(a.shape(1)), extent(b.shape(1)), values_of(a), values_of(b)};
}
workload::atax_data atax_data(const matrix_in<float>& matrix, const array_in<float>& x) {
  return {extent(matrix.shape(0)), extent(matrix.shape(1)), values_of(matrix), values_of(x)};
}
workload::sparse_data sparse_data(const array_in<std::uint32_t>& offsets,
                                  const array_in<std::uint32_t>& columns,
                                  const array_in<float>& elements, const array_in<float>& vector) {
  return {values_of(offsets), values_of(columns), values_of(elements), values_of(vector)};
}

workload::bicg_data bicg_data(const matrix_in<float>& matrix, const array_in<float>& p,
                              const array_in<float>& r) {
  return {extent(matrix.shape(0)), extent(matrix.shape(1)), values_of(matrix), values_of(p),
          values_of(r)};
}
workload::sort_data sort_data(const array_in<std::uint32_t>& keys) { return {values_of(keys)}; }
workload::aes_data aes_data(const array_in<std::uint8_t>& text, const array_in<std::uint8_t>& key) {
  return {values_of(text), values_of(key)};
}
workload::breadth_first_data breadth_first_data(const array_in<std::uint32_t>& offsets,
                                                const array_in<std::uint32_t>& targets,
                                                std::uint32_t source) {
  return {values_of(offsets), values_of(targets), source};
}
workload::rank_iteration_data rank_iteration_data(const array_in<std::uint32_t>& offsets,
                                                  const array_in<std::uint32_t>& columns,
                                                  const array_in<float>& elements,
                                                  std::uint32_t iterations) {
  return {values_of(offsets), values_of(columns), values_of(elements), iterations};
}
workload::kmeans_data kmeans_data(const matrix_in<float>& features, std::uint32_t clusters,
                                  std::uint32_t iterations) {
  return {extent(features.shape(0)), extent(features.shape(1)), clusters, iterations,
          values_of(features)};
}
workload::stencil_2d_data stencil_2d_data(const matrix_in<float>& grid,
                                          const array_in<float>& weights,
                                          std::uint32_t iterations) {
  if (grid.shape(0) < 2 || grid.shape(1) < 2 || weights.shape(0) != 3) {
    throw usage_error("a stencil needs a grid with a halo, and three weights");
  }
  return {extent(grid.shape(0) - 2),
          extent(grid.shape(1) - 2),
          iterations,
          {weights(0), weights(1), weights(2)},
          values_of(grid)};
}
workload::convolution_data convolution_data(const matrix_in<std::uint32_t>& image,
                                            const matrix_in<float>& mask) {
  const std::uint32_t side = extent(mask.shape(0));
  if (mask.shape(1) != side || side == 0 || image.shape(0) < side || image.shape(1) < side) {
    throw usage_error("a convolution needs a square mask, and an image that is not smaller");
  }
  return {extent(image.shape(1)) - side + 1, extent(image.shape(0)) - side + 1, side,
          values_of(image), values_of(mask)};
}

nb::dict load_counts(const kernel::remote_load_counts& c) {
  nb::dict d;
  d["vector_accesses"] = c.vector_accesses;
  d["scalar_accesses"] = c.scalar_accesses;
  d["local_loads"] = c.local;
  d["remote_loads"] = c.remote;
  d["remote_hits"] = c.hits;
  d["remote_useful_bytes"] = c.useful_bytes;
  d["local_stores"] = c.local_stores;
  d["remote_stores"] = c.remote_stores;
  d["requests"] = c.requests;
  d["reply_bytes"] = c.reply_bytes;
  d["wire_bytes"] = c.wire;
  d["mean_latency_s"] = c.mean_latency_s;
  d["bypassed"] = c.bypassed;
  d["mask_hits"] = c.mask_hits;
  d["mask_misses"] = c.mask_misses;
  d["coalesced_packets"] = c.coalesced;
  d["timeout_packets"] = c.timeouts;
  d["coalesced_pieces"] = c.pieces;
  d["cache_hits"] = c.cache_hits;
  d["cache_misses"] = c.cache_misses;
  d["remote_by_words"] = std::vector<std::uint64_t>(c.by_words.begin(), c.by_words.end());
  d["coalesced_pages"] = c.coalesced_pages;
  d["cached_pages"] = c.cached_pages;
  d["migrated_pages"] = c.migrated_pages;
  d["migrated_again"] = c.migrated_again;
  d["delayed_touches"] = c.delayed_touches;
  d["migration_batches"] = c.migration_batches;
  d["l2_loads"] = c.l2_loads;
  d["l2_hits"] = c.l2_hits;
  d["mean_wait_s"] = c.mean_wait_s;
  d["mean_in_links_s"] = c.mean_in_links_s;
  d["tlb_hits"] = c.tlb_hits;
  d["tlb_misses"] = c.tlb_misses;
  d["l2_tlb_hits"] = c.l2_tlb_hits;
  d["l2_tlb_misses"] = c.l2_tlb_misses;
  d["walks"] = c.walks;
  d["walk_wire_bytes"] = c.walk_wire;
  d["mean_walk_s"] = c.mean_walk_s;
  return d;
}

nb::dict decision_dict(const kernel::remote_load_decision& decided) {
  nb::dict d;
  d["made"] = decided.made;
  d["choice"] = decided.choice;
  d["when_s"] = decided.when_s;
  d["accesses"] = decided.accesses;
  d["remote"] = decided.remote;
  d["loads"] = decided.loads;
  d["remote_ratio"] = decided.remote_ratio;
  d["block_utilisation"] = decided.block_utilisation;
  d["hit_rate"] = decided.hit_rate;
  return d;
}

template <class Data>
result_dict run_on(const std::string& node, const machine::machine* described, const Data& data,
                   std::uint32_t gpus, const std::string& pages, const std::string& blocks,
                   const std::string& mechanism) {
  if (gpus == 0 || gpus > max_devices) {
    throw usage_error(std::to_string(gpus) + " GPUs cannot be used; give 1 to " +
                      std::to_string(max_devices));
  }
  run::unified_request asked;
  asked.gpus = gpus;
  asked.own_pages = pages == "own";
  if (!pages.empty() && !asked.own_pages)
    asked.placement.pages = kernel::parse_page_placement(pages, gpus);
  asked.placement.blocks = kernel::parse_block_placement(blocks);
  asked.loads = kernel::parse_remote_loads(mechanism);
  asked.check_interrupt = check_signals;
  run::unified_result result;
  double cpu_s = 0;
  {
    const nb::gil_scoped_release release;
    const double before = thread_cpu_seconds();
    if (node == "host") {
      result = run::unified_on_host(data, asked);
    } else if (node != "sim") {
      throw usage_error("unknown node '" + node + "'; there are host and sim");
    } else if (described == nullptr) {
      throw usage_error("a simulated run needs a machine");
    } else {
      result = run::unified_on_sim(data, asked, *described);
    }
    cpu_s = thread_cpu_seconds() - before;
  }
  nb::dict d;
  d["time_s"] = result.run.time_s;
  d["cpu_s"] = cpu_s;
  d["link_bytes"] = result.run.wire.useful + result.run.wire.wasted + result.run.wire.protocol;
  d["loads"] = load_counts(result.run.loads);
  nb::list decisions;
  for (const auto& one : result.run.loads.decisions) decisions.append(decision_dict(one));
  d["decisions"] = decisions;
  auto found = std::make_unique<std::vector<float>>(std::move(result.values));
  float* first = found->data();
  const std::size_t count = found->size();
  nb::capsule owner(found.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  d["values"] = nb::ndarray<nb::numpy, float, nb::ndim<1>>(first, {count}, owner);
  return d;
}

template <class Data, class... Array, class... Argument>
void bind(nb::module_& module, const char* name, const char* summary, Data (*make)(Array...),
          const Argument&... arguments) {
  module.def(
      name,
      [make](const std::string& node, const machine::machine* described, std::uint32_t gpus,
             const std::string& pages, const std::string& blocks, const std::string& mechanism,
             Array... arrays) {
        return run_on(node, described, make(arrays...), gpus, pages, blocks, mechanism);
      },
      nb::arg("node"), nb::arg("machine").none(), nb::arg("gpus"), nb::arg("pages"),
      nb::arg("blocks"), nb::arg("mechanism"), arguments..., summary);
}

}  // namespace

void bind_unified(nb::module_& module) {
  using nb::arg;
  bind(module, "run_fir", "Run a filter on unified GPUs; the result as a dict.", &fir_data,
       arg("input"), arg("coefficients"), arg("history"));
  bind(module, "run_transpose", "Transpose a matrix on unified GPUs; the result as a dict.",
       &transpose_data, arg("input"));
  bind(module, "run_multiply", "Multiply matrices on unified GPUs; the result as a dict.",
       &multiply_data, arg("a"), arg("b"));
  bind(module, "run_atax", "Run A^T (A x) on unified GPUs; the result as a dict.", &atax_data,
       arg("matrix"), arg("x"));
  bind(module, "run_sparse_product", "Run a sparse product on unified GPUs; the result as a dict.",
       &sparse_data, arg("offsets"), arg("columns"), arg("values"), arg("vector"));
  bind(module, "run_bicg", "Run A p and A^T r on unified GPUs; the result as a dict.", &bicg_data,
       arg("matrix"), arg("p"), arg("r"));
  bind(module, "run_sort", "Sort keys below 2^24 on unified GPUs; the result as a dict.",
       &sort_data, arg("keys"));
  bind(module, "run_aes", "Encrypt by AES-256 on unified GPUs; the result as a dict.", &aes_data,
       arg("text"), arg("key"));
  bind(module, "run_breadth_first", "Levels of a search on unified GPUs; the result as a dict.",
       &breadth_first_data, arg("offsets"), arg("targets"), arg("source"));
  bind(module, "run_rank_iteration", "Repeat a product on unified GPUs; the result as a dict.",
       &rank_iteration_data, arg("offsets"), arg("columns"), arg("values"), arg("iterations"));
  bind(module, "run_kmeans", "Cluster points on unified GPUs; the result as a dict.", &kmeans_data,
       arg("features"), arg("clusters"), arg("iterations"));
  bind(module, "run_stencil_2d", "Repeat a stencil on unified GPUs; the result as a dict.",
       &stencil_2d_data, arg("grid"), arg("weights"), arg("iterations"));
  bind(module, "run_convolution", "Convolve an image on unified GPUs; the result as a dict.",
       &convolution_data, arg("image"), arg("mask"));
}

}  // namespace interlace::python
