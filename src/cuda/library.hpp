// A sort of CUDA's libraries that stands for a kernel of ours, and a graph that is made with it on
// a GPU.
#pragma once

#include <cstdint>

#include "interlace/cuda/node.hpp"

namespace interlace::cuda {

// Ascending, by bits [0, bits) of the keys. `spare` is as long and is overwritten. Waits.
void sort_keys(node& n, std::uint32_t device, const local<std::uint64_t>& keys,
               const local<std::uint64_t>& spare, std::uint32_t bits);

// A graph by incoming edges: columns[offsets[v] .. offsets[v + 1]) are the sources of edges into v,
// ascending.
struct device_graph {
  std::uint64_t rows = 0;
  std::uint64_t edges = 0;
  local<std::uint64_t> offsets;     // rows + 1
  local<std::uint32_t> columns;     // edges
  local<std::uint32_t> out_degree;  // rows
};

// R-MAT (Chakrabarti, Zhan and Faloutsos, 2004) with 2^scale vertices. Edge k is a function of the
// seed and k alone, the same one as in python/interlace/graphs.py: SplitMix64 of
// seed * 0x9E3779B97F4A7C15 + k * scale + level for each level, upper 32 bits against thresholds.
struct rmat_options {
  std::uint32_t scale = 20;  // 1 to 31
  std::uint32_t edge_factor = 16;
  std::uint64_t seed = 1;
  double a = 0.57;
  double b = 0.19;
  double c = 0.19;
};

// The whole graph on one device. It takes 20 bytes an edge while it is made, and 4 afterwards.
device_graph make_rmat(node& n, std::uint32_t device, const rmat_options& o);

}  // namespace interlace::cuda
