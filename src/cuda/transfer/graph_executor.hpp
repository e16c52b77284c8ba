// The copies of a program as nodes of a CUDA graph. The graph is either instantiated once and
// launched many times, or it is the graph that the caller captures (A. Sojoodi et al., section 4.3,
// algorithms 1 and 2; section 5.5 defines the phases).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_program.hpp"

namespace interlace::cuda {

// The host time of each phase, in seconds.
struct graph_times {
  double creation_s = 0;
  double construction_s = 0;
  double instantiation_s = 0;
  double update_s = 0;  // changing addresses
  double launch_s = 0;
  std::uint64_t nodes = 0;    // number of nodes that were constructed
  std::uint64_t updates = 0;  // number of nodes whose addresses were changed
  std::uint64_t launches = 0;

  graph_times& operator+=(const graph_times& more);
};

// Adds one node for each copy. Nodes that depend on no other copy depend on `roots`.
std::vector<CUgraphNode_st*> add_copies(const contexts& of, CUgraph_st* graph,
                                        const copy_program& program, const addresses& where,
                                        std::span<CUgraphNode_st* const> roots);

// The nodes on which all work after the message must depend.
std::vector<CUgraphNode_st*> last_nodes(const copy_program& program,
                                        std::span<CUgraphNode_st* const> nodes);

// An executable graph. Not thread-safe.
class graph_executable {
 public:
  // Constructs and instantiates a graph. Throws device_error.
  graph_executable(contexts& of, const copy_program& program, const addresses& where,
                   graph_times& times);
  ~graph_executable();
  graph_executable(const graph_executable&) = delete;
  graph_executable& operator=(const graph_executable&) = delete;

  // Launches the graph. If the memory of a node differs from that of the last launch, the node is
  // changed first. Memory can differ although the address is the same. The program must have the
  // shape of the program from which the executable was made. Throws device_error. The executable
  // must not be used after this error.
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
