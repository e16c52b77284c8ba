// Kernels that combine elements of several buffers. The driver loads these kernels.
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

// A reduction. It combines the inputs element by element, in the order of the inputs. The output
// may be one of the inputs. All buffers must be in the memory of one GPU and aligned to their
// elements.
struct reduction_call {
  device_address out = 0;
  std::vector<device_address> in;  // 1 to most_reduced buffers
  std::uint64_t bytes = 0;         // size of each buffer: whole elements, at least one
  reduced_type type = reduced_type::float32;
  reduce_by by = reduce_by::sum;
};

class reductions {
 public:
  // `image` must outlive this object. If the image is empty, the caller may call no other function.
  reductions(const contexts& of, kernel_image image);
  ~reductions();
  reductions(const reductions&) = delete;
  reductions& operator=(const reductions&) = delete;

  // Loads the kernels on a GPU. Throws device_error if the kernels were not compiled for this GPU,
  // if the driver fails, or if the driver is too old for the kernels.
  void prepare(int gpu);
  // Enqueues the reduction on a stream of the GPU. Throws the same errors as prepare.
  void launch(int gpu, const reduction_call& what, CUstream_st* stream);
  // Adds the reduction to a graph, as a node that depends on `after`. Throws the same errors as
  // prepare.
  CUgraphNode_st* add(int gpu, const reduction_call& what, CUgraph_st* graph,
                      std::span<CUgraphNode_st* const> after);

 private:
  CUfunc_st* function(int gpu, reduced_type type, reduce_by by);

  const contexts& contexts_;
  kernel_image image_;
  std::mutex mutex_;
  std::vector<CUmod_st*> modules_;  // one for each GPU; null if the module is not loaded
  // The first index is the GPU, and the second is type and operation.
  std::vector<std::vector<CUfunc_st*>> functions_;
};

}  // namespace interlace::cuda
