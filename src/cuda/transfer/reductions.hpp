// Kernels that combine elements of several buffers, loaded through the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/reduction_arguments.hpp"
#include "cuda/transfer/reduction_image.hpp"
#include "interlace/copy.hpp"

namespace interlace::cuda {

std::uint32_t bytes_of(reduced_type type);

// Combines the inputs element by element, in their order. The output may be one of the inputs. All
// buffers are in the memory of one GPU and aligned to their elements.
struct reduction_call {
  device_address out = 0;
  std::vector<device_address> in;  // 1 to most_reduced
  std::uint64_t bytes = 0;         // of each, a multiple of the element's; at least one
  reduced_type type = reduced_type::float32;
  reduce_by by = reduce_by::sum;
};

class reductions {
 public:
  // `image` must outlive this. If it is empty, no other function may be called.
  reductions(const contexts& of, kernel_image image);
  ~reductions();
  reductions(const reductions&) = delete;
  reductions& operator=(const reductions&) = delete;

  // Loads the kernels of a GPU. Throws device_error if they were not compiled for it, or if the
  // driver is too old for them or fails.
  void prepare(int gpu);
  // Enqueues the reduction on a stream of the GPU. Throws as prepare.
  void launch(int gpu, const reduction_call& what, CUstream_st* stream);
  // Adds the reduction to a graph, as a node that depends on others. Throws as prepare.
  CUgraphNode_st* add(int gpu, const reduction_call& what, CUgraph_st* graph,
                      std::span<CUgraphNode_st* const> after);

 private:
  CUfunc_st* function(int gpu, reduced_type type, reduce_by by);

  const contexts& contexts_;
  kernel_image image_;
  std::mutex mutex_;
  std::vector<CUmod_st*> modules_;                  // by GPU; null: not loaded
  std::vector<std::vector<CUfunc_st*>> functions_;  // by GPU, type and operation
};

}  // namespace interlace::cuda
