// A program's copies as nodes of a CUDA graph: of one that is instantiated and launched again and
// again, or of the one that the caller captures (A. Sojoodi et al., section 4.3, algorithms 1 and
// 2; the phases are those of section 5.5).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_program.hpp"

namespace interlace::cuda {

// Host time, in seconds.
struct graph_times {
  double creation_s = 0;
  double construction_s = 0;
  double instantiation_s = 0;
  double update_s = 0;  // changing addresses
  double launch_s = 0;
  std::uint64_t nodes = 0;    // constructed
  std::uint64_t updates = 0;  // nodes changed
  std::uint64_t launches = 0;

  graph_times& operator+=(const graph_times& more);
};

// Adds a node for each copy. Those that depend on no copy depend on `roots`.
std::vector<CUgraphNode_st*> add_copies(const contexts& of, CUgraph_st* graph,
                                        const copy_program& program, const addresses& where,
                                        std::span<CUgraphNode_st* const> roots);

// The last nodes: what comes behind the message depends on them.
std::vector<CUgraphNode_st*> ends_of(const copy_program& program,
                                     std::span<CUgraphNode_st* const> nodes);

// An executable graph. One thread at a time uses it.
class graph_executable {
 public:
  // Throws device_error.
  graph_executable(contexts& of, const copy_program& program, const addresses& where,
                   graph_times& times);
  ~graph_executable();
  graph_executable(const graph_executable&) = delete;
  graph_executable& operator=(const graph_executable&) = delete;

  // Changes the nodes whose memory is another than at the last launch, even where the address is
  // the same, and launches. The program has the shape of the one that it was made of. Throws
  // device_error; then it cannot be used again.
  void launch(const copy_program& program, const addresses& where, CUstream_st* stream,
              graph_times& times);

 private:
  void update(const copy_program& program, const addresses& where, bool all, graph_times& times);

  contexts& contexts_;
  CUgraph_st* graph_ = nullptr;
  CUgraphExec_st* executable_ = nullptr;
  std::vector<CUgraphNode_st*> nodes_;
  addresses where_;
};

}  // namespace interlace::cuda
