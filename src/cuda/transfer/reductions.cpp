#include "cuda/transfer/reductions.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/driver_needs.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

struct known_type {
  const char* name;  // a part of the names of the kernels for this type
  std::uint32_t bytes;
};
constexpr std::array<known_type, reduced_types> types{
    {{"float32", 4}, {"float64", 8}, {"float16", 2}, {"bfloat16", 2}, {"int32", 4}, {"int64", 8}}};
constexpr std::array<const char*, reduce_kinds> names{"sum", "min", "max"};

constexpr unsigned block_threads = 256;
// Each thread has the loads of several vectors in flight. This number of blocks saturates the
// memory of any GPU. On a GPU with 132 multiprocessors, the blocks run in one wave.
constexpr std::uint64_t most_blocks = 1024;

const known_type& known(reduced_type type) { return types.at(static_cast<std::size_t>(type)); }

reduction_arguments arguments_of(const reduction_call& what) {
  reduction_arguments made;
  made.out = what.out;
  // The bits of all addresses; they show the addresses' common alignment.
  device_address all = what.out;
  for (std::size_t at = 0; at < what.in.size(); ++at) {
    made.in[at] = what.in[at];
    all |= what.in[at];
  }
  made.inputs = static_cast<std::uint32_t>(what.in.size());
  made.count = what.bytes / bytes_of(what.type);
  if (all % reduction_vector_bytes == 0) made.vectors = what.bytes / reduction_vector_bytes;
  return made;
}

kernel_node node_of(CUfunc_st* function, const reduction_arguments& what) {
  kernel_node made;
  made.function = function;
  const std::uint64_t lanes = what.vectors == 0 ? what.count : what.vectors;
  const std::uint64_t blocks = (lanes + block_threads - 1) / block_threads;
  made.grid_x = static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, most_blocks));
  made.block_x = block_threads;
  return made;
}

}  // namespace

std::uint32_t bytes_of(reduced_type type) { return known(type).bytes; }

reductions::reductions(const contexts& of, kernel_image image)
    : contexts_(of),
      image_(image),
      modules_(static_cast<std::size_t>(of.count()), nullptr),
      functions_(modules_.size(), std::vector<CUfunc_st*>(reduced_types * reduce_kinds, nullptr)) {}

reductions::~reductions() {
  for (std::size_t gpu = 0; gpu < modules_.size(); ++gpu) {
    if (modules_[gpu] == nullptr) continue;
    const driver_table& driver = contexts_.driver();
    const in_context on(driver, contexts_.context_of(static_cast<int>(gpu)), std::nothrow);
    log_failure(driver, driver.module_unload(modules_[gpu]), "cuModuleUnload");
  }
}

void reductions::prepare(int gpu) {
  const std::lock_guard lock(mutex_);
  CUmod_st*& module = modules_[static_cast<std::size_t>(gpu)];
  if (module != nullptr) return;
  const driver_table& driver = contexts_.driver();
  const in_context on(driver, contexts_.context_of(gpu));
  CUmod_st* loaded = nullptr;
  const int result = driver.module_load(&loaded, image_.bytes.data());
  if (result != driver_result::success && driver.version != 0)
    if (const std::string reason = why_driver_too_old_for_reductions(driver.version, image_.cuda);
        !reason.empty())
      throw device_error(reason);
  if (result == driver_result::no_binary_for_gpu)
    throw device_error("the kernels of an all-reduce were not compiled for GPU " +
                       std::to_string(gpu) +
                       "; build Interlace with its architecture in CMAKE_CUDA_ARCHITECTURES");
  check(driver, result, "cuModuleLoadData");
  try {
    for (std::size_t type = 0; type < reduced_types; ++type)
      for (std::size_t by = 0; by < reduce_kinds; ++by) {
        const std::string name =
            std::string("interlace_reduce_") + names[by] + "_" + types[type].name;
        check(driver,
              driver.module_function(
                  &functions_[static_cast<std::size_t>(gpu)][type * reduce_kinds + by], loaded,
                  name.c_str()),
              "cuModuleGetFunction");
      }
  } catch (...) {
    log_failure(driver, driver.module_unload(loaded), "cuModuleUnload");
    throw;
  }
  module = loaded;
}

CUfunc_st* reductions::function(int gpu, reduced_type type, reduce_by by) {
  prepare(gpu);
  return functions_[static_cast<std::size_t>(gpu)]
                   [static_cast<std::size_t>(type) * reduce_kinds + static_cast<std::size_t>(by)];
}

void reductions::launch(int gpu, const reduction_call& what, CUstream_st* stream) {
  reduction_arguments arguments = arguments_of(what);
  const kernel_node node = node_of(function(gpu, what.type, what.by), arguments);
  void* parameters[] = {&arguments};
  const driver_table& driver = contexts_.driver();
  const in_context on(driver, contexts_.context_of(gpu));
  check(driver,
        driver.launch(node.function, node.grid_x, 1, 1, node.block_x, 1, 1, 0, stream, parameters,
                      nullptr),
        "cuLaunchKernel");
}

CUgraphNode_st* reductions::add(int gpu, const reduction_call& what, CUgraph_st* graph,
                                std::span<CUgraphNode_st* const> after) {
  reduction_arguments arguments = arguments_of(what);
  kernel_node node = node_of(function(gpu, what.type, what.by), arguments);
  void* parameters[] = {&arguments};
  node.parameters = parameters;
  const driver_table& driver = contexts_.driver();
  const in_context on(driver, contexts_.context_of(gpu));
  CUgraphNode_st* made = nullptr;
  check(driver, driver.graph_add_kernel(&made, graph, after.data(), after.size(), &node),
        "cuGraphAddKernelNode");
  return made;
}

}  // namespace interlace::cuda
