// Compares the time of an iteration of PageRank on one GPU with the time of cuSPARSE's SpMV of the
// same matrix. The program alternates between runs of PageRank and of cuSPARSE.
//
//   pagerank_vs_cusparse [--scale 24] [--edge-factor 16] [--seed 1] [--rounds 11] [--json FILE]
//
// The matrix is that of the iteration: entry (v, u) = 1 / out_degree(u) for an edge u -> v, with
// float32 values and 32-bit indices. cuSPARSE multiplies this matrix by the ranks (CSR, the default
// algorithm and ALG2, both preprocessed). The iteration also adds the share of the dangling
// vertices, applies the damping, and divides the ranks for the next iteration. Before anything is
// timed, the result of the iteration is compared with cuSPARSE's result. The memory bandwidth is
// that of a device-to-device copy in the same run. It counts the bytes that the copy reads and the
// bytes that it writes.
#include <cuda_runtime.h>
#include <cusparse.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/node.hpp"
#include "run/gpu.hpp"
#include "workload/pagerank.hpp"

namespace {

using namespace interlace;

constexpr int iterations = 10;  // number of iterations in one timed stretch

void check(cusparseStatus_t status, const char* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  throw device_error(std::string(what) + ": " + cusparseGetErrorString(status));
}

template <class T>
T* to_device(const std::vector<T>& values) {
  T* data = nullptr;
  INTERLACE_CUDA_CHECK(cudaMalloc(&data, values.size() * sizeof(T)));
  INTERLACE_CUDA_CHECK(
      cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

class stopwatch {
 public:
  stopwatch() {
    INTERLACE_CUDA_CHECK(cudaEventCreate(&start_));
    INTERLACE_CUDA_CHECK(cudaEventCreate(&stop_));
  }
  template <class F>
  double seconds(F&& f) {
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    INTERLACE_CUDA_CHECK(cudaEventRecord(start_));
    f();
    INTERLACE_CUDA_CHECK(cudaEventRecord(stop_));
    INTERLACE_CUDA_CHECK(cudaEventSynchronize(stop_));
    float ms = 0;
    INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
    return ms * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

class spmv {
 public:
  spmv(cusparseHandle_t handle, const run::host_graph& graph, cusparseSpMVAlg_t algorithm)
      : handle_(handle), algorithm_(algorithm), rows_(graph.out_degree.size()) {
    std::vector<std::int32_t> offsets(graph.offsets.begin(), graph.offsets.end());
    std::vector<std::int32_t> columns(graph.columns.begin(), graph.columns.end());
    std::vector<float> values(columns.size());
    for (std::size_t e = 0; e < values.size(); ++e) {
      values[e] = 1.0F / static_cast<float>(graph.out_degree[graph.columns[e]]);
    }
    const auto n = static_cast<std::int64_t>(rows_);
    check(cusparseCreateCsr(&matrix_, n, n, static_cast<std::int64_t>(columns.size()),
                            to_device(offsets), to_device(columns), to_device(values),
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                            CUDA_R_32F),
          "cusparseCreateCsr");
    x_data_ = to_device(std::vector<float>(rows_, 1.0F / static_cast<float>(rows_)));
    y_data_ = to_device(std::vector<float>(rows_, NAN));
    check(cusparseCreateDnVec(&x_, n, x_data_, CUDA_R_32F), "cusparseCreateDnVec");
    check(cusparseCreateDnVec(&y_, n, y_data_, CUDA_R_32F), "cusparseCreateDnVec");
    std::size_t bytes = 0;
    check(cusparseSpMV_bufferSize(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, x_,
                                  &zero_, y_, CUDA_R_32F, algorithm_, &bytes),
          "cusparseSpMV_bufferSize");
    INTERLACE_CUDA_CHECK(cudaMalloc(&buffer_, std::max<std::size_t>(bytes, 4)));
    check(cusparseSpMV_preprocess(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, x_,
                                  &zero_, y_, CUDA_R_32F, algorithm_, buffer_),
          "cusparseSpMV_preprocess");
  }
  void multiply() {
    check(cusparseSpMV(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &one_, matrix_, x_, &zero_, y_,
                       CUDA_R_32F, algorithm_, buffer_),
          "cusparseSpMV");
  }
  std::vector<float> product() const {
    std::vector<float> y(rows_);
    INTERLACE_CUDA_CHECK(
        cudaMemcpy(y.data(), y_data_, rows_ * sizeof(float), cudaMemcpyDeviceToHost));
    return y;
  }

 private:
  cusparseHandle_t handle_;
  cusparseSpMVAlg_t algorithm_;
  std::size_t rows_;
  cusparseSpMatDescr_t matrix_ = nullptr;
  cusparseDnVecDescr_t x_ = nullptr, y_ = nullptr;
  float* x_data_ = nullptr;
  float* y_data_ = nullptr;
  void* buffer_ = nullptr;
  float one_ = 1, zero_ = 0;
};

// Makes only the gathers of an iteration: loads each column once, coalesced, and then loads the
// element to which the column points.
__global__ void gather_only(const uint4* __restrict__ columns, std::uint64_t quads,
                            const float* __restrict__ x, float* out) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  float sum = 0;
  std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + stride < quads; i += 2 * stride) {
    const uint4 a = __ldcs(columns + i);
    const uint4 b = __ldcs(columns + i + stride);
    sum += ((x[a.x] + x[a.y]) + (x[a.z] + x[a.w])) + ((x[b.x] + x[b.y]) + (x[b.z] + x[b.w]));
  }
  if (i < quads) {
    const uint4 a = __ldcs(columns + i);
    sum += (x[a.x] + x[a.y]) + (x[a.z] + x[a.w]);
  }
  if (sum == -1.0F) *out = sum;  // never true; it keeps the compiler from dropping the loads
}

double copy_bytes_per_s(stopwatch& watch) {
  constexpr std::size_t bytes = std::size_t{4} << 30U;
  char* data = nullptr;
  INTERLACE_CUDA_CHECK(cudaMalloc(&data, 2 * bytes));
  INTERLACE_CUDA_CHECK(cudaMemset(data, 1, 2 * bytes));
  std::vector<double> times;
  for (int k = 0; k < 7; ++k) {
    times.push_back(watch.seconds([&] {
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(data + bytes, data, bytes, cudaMemcpyDeviceToDevice));
    }));
  }
  INTERLACE_CUDA_CHECK(cudaFree(data));
  return 2.0 * bytes / median(times);
}

struct settings {
  std::uint32_t scale = 24, edge_factor = 16;
  std::uint64_t seed = 1;
  int rounds = 11;
  std::string json;
  std::string command = "pagerank_vs_cusparse";
};

settings parse(int argc, char** argv) {
  settings s;
  for (int k = 1; k < argc; ++k) s.command += std::string(" ") + argv[k];
  for (int k = 1; k < argc; k += 2) {
    const std::string option = argv[k];
    if (k + 1 == argc) throw usage_error(option + " needs a value");
    const std::string value = argv[k + 1];
    if (option == "--json") {
      s.json = value;
      continue;
    }
    const long number = std::atol(value.c_str());
    if (number < 1) throw usage_error(option + " " + value + ": give a number of at least 1");
    if (option == "--scale") {
      s.scale = static_cast<std::uint32_t>(number);
    } else if (option == "--edge-factor") {
      s.edge_factor = static_cast<std::uint32_t>(number);
    } else if (option == "--seed") {
      s.seed = static_cast<std::uint64_t>(number);
    } else if (option == "--rounds") {
      s.rounds = static_cast<int>(number);
    } else {
      throw usage_error("unknown option " + option +
                        "; there are --scale, --edge-factor, --seed, --rounds and --json");
    }
  }
  return s;
}

void compare(const settings& s) {
  const run::gpu_info gpu = run::describe_gpus();
  const run::host_graph graph = run::make_rmat(s.scale, s.edge_factor, s.seed);
  const std::uint64_t vertices = graph.out_degree.size();
  const std::uint64_t edges = graph.columns.size();
  if (edges >= (std::uint64_t{1} << 31U))
    throw usage_error("cuSPARSE's 32-bit indices end at 2^31");

  cuda::node_options one;
  cuda::node node(one);
  const workload::pagerank_problem problem{
      {vertices, graph.offsets.data(), graph.columns.data(), graph.out_degree.data()}};
  kernel::region_options whole;
  whole.boundaries = {0, vertices};
  auto work = problem.on(node, whole);

  INTERLACE_CUDA_CHECK(cudaSetDevice(0));
  cusparseHandle_t handle = nullptr;
  check(cusparseCreate(&handle), "cusparseCreate");
  spmv standard(handle, graph, CUSPARSE_SPMV_ALG_DEFAULT);
  spmv second(handle, graph, CUSPARSE_SPMV_CSR_ALG2);

  // The ranks after the first iteration follow from cuSPARSE's product.
  node.run([&] { work.enqueue_iteration(false); });
  const auto ranks = work.result(0);
  double dangling = 0;
  for (const std::uint32_t degree : graph.out_degree) {
    if (degree == 0) dangling += 1.0 / static_cast<double>(vertices);
  }
  double worst = 0;
  for (spmv* other : {&standard, &second}) {
    other->multiply();
    const auto y = other->product();
    for (std::uint64_t v = 0; v < vertices; ++v) {
      const double expected =
          (0.15 + 0.85 * dangling) / static_cast<double>(vertices) + 0.85 * y[v];
      worst = std::max(worst, std::abs(ranks[v] - expected) / expected);
    }
  }
  if (!(worst < 1e-4)) {
    throw device_error("the iteration and cuSPARSE's product differ by " + std::to_string(worst));
  }

  stopwatch watch;
  const auto* columns = reinterpret_cast<const uint4*>(to_device(graph.columns));
  float* x = to_device(std::vector<float>(vertices, 1.0F));
  std::vector<double> ours, theirs, theirs2, gathers;
  for (int round = 0; round < s.rounds + 2; ++round) {
    const double a = node.run([&] {
                           for (int k = 0; k < iterations; ++k) work.enqueue_iteration(false);
                         })
                         .time_s;
    const double b = watch.seconds([&] {
      for (int k = 0; k < iterations; ++k) standard.multiply();
    });
    const double c = watch.seconds([&] {
      for (int k = 0; k < iterations; ++k) second.multiply();
    });
    const double d = watch.seconds([&] {
      for (int k = 0; k < iterations; ++k) {
        gather_only<<<132 * 8 * 4, 256>>>(columns, edges / 4, x, x);
      }
    });
    INTERLACE_CUDA_CHECK(cudaGetLastError());
    if (round < 2) continue;  // warm-up
    gathers.push_back(d / iterations);
    ours.push_back(a / iterations);
    theirs.push_back(b / iterations);
    theirs2.push_back(c / iterations);
  }
  const double bandwidth = copy_bytes_per_s(watch);
  // Each array moves once: columns, offsets, degrees and contributions. Contributions are read and
  // also written.
  const double bytes = 4.0 * static_cast<double>(edges) + 16.0 * static_cast<double>(vertices);
  const double t = median(ours);
  const double best = std::min(median(theirs), median(theirs2));
  std::printf("# %s, driver %s; R-MAT scale %u, edge factor %u: %llu vertices, %llu edges\n",
              gpu.name.c_str(), gpu.driver.c_str(), s.scale, s.edge_factor,
              static_cast<unsigned long long>(vertices), static_cast<unsigned long long>(edges));
  std::printf("iteration                %8.1f us   %6.1f G edges/s\n", t * 1e6,
              static_cast<double>(edges) / t * 1e-9);
  std::printf("cuSPARSE SpMV (default)  %8.1f us\n", median(theirs) * 1e6);
  std::printf("cuSPARSE SpMV (ALG2)     %8.1f us\n", median(theirs2) * 1e6);
  std::printf("gathers and nothing else %8.1f us   %6.1f %% of the iteration\n",
              median(gathers) * 1e6, 100 * median(gathers) / t);
  std::printf("best cuSPARSE / iteration %7.3f\n", best / t);
  std::printf("compulsory bytes %.1f MB: %.1f GB/s, %.1f %% of the %.0f GB/s of a copy\n",
              bytes * 1e-6, bytes / t * 1e-9, 100 * bytes / t / bandwidth, bandwidth * 1e-9);
  std::printf("largest relative difference of the results %.1e\n", worst);
  if (s.json.empty()) return;
  // A copy of a checkout has no git data, so the caller passes the commit.
  const char* commit = std::getenv("INTERLACE_COMMIT");
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S+00:00", std::gmtime(&now));
  const std::string partial = s.json + ".part";
  std::FILE* file = std::fopen(partial.c_str(), "w");
  if (file == nullptr) throw usage_error("cannot write " + s.json);
  std::fprintf(
      file,
      "{\"command\": \"%s\", \"commit\": \"%s\", \"date\": \"%s\", \"gpu\": \"%s\", \"driver\": "
      "\"%s\", \"cuda\": \"%s\", \"scale\": %u, "
      "\"edge_factor\": %u, \"seed\": %llu, \"vertices\": %llu, \"edges\": %llu, "
      "\"rounds\": %d, \"iteration_s\": %.9g, \"cusparse_default_s\": %.9g, "
      "\"cusparse_alg2_s\": %.9g, \"gather_only_s\": %.9g, \"cusparse_over_iteration\": %.6g, "
      "\"compulsory_bytes\": %.0f, \"copy_bytes_per_s\": %.6g, "
      "\"fraction_of_bandwidth\": %.6g, \"max_difference\": %.3g}\n",
      s.command.c_str(), commit == nullptr ? "" : commit, date, gpu.name.c_str(),
      gpu.driver.c_str(), gpu.cuda.c_str(), s.scale, s.edge_factor,
      static_cast<unsigned long long>(s.seed), static_cast<unsigned long long>(vertices),
      static_cast<unsigned long long>(edges), s.rounds, t, median(theirs), median(theirs2),
      median(gathers), best / t, bytes, bandwidth, bytes / t / bandwidth, worst);
  std::fclose(file);
  if (std::rename(partial.c_str(), s.json.c_str()) != 0)
    throw usage_error("cannot write " + s.json);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    compare(parse(argc, argv));
  } catch (const usage_error& e) {
    std::fprintf(stderr, "pagerank_vs_cusparse: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pagerank_vs_cusparse: %s\n", e.what());
    return 1;
  }
  return 0;
}
