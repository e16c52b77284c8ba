// Sorts keys by CUDA's libraries. A caller uses this sort in place of a kernel of its own. This
// file also makes a graph on a GPU with the sort.
#pragma once

#include <cstdint>

#include "interlace/cuda/node.hpp"

namespace interlace::cuda {

// Sorts the keys in ascending order by their bits [0, bits). `spare` must be as long as the keys,
// and its contents are lost. Blocks until the keys are sorted.
void sort_keys(node& n, std::uint32_t device, const local<std::uint64_t>& keys,
               const local<std::uint64_t>& spare, std::uint32_t bits);

// A graph as lists of incoming edges. The sources of the edges to v are the elements of `columns`
// from offsets[v] up to offsets[v + 1], in ascending order.
struct device_graph {
  std::uint64_t rows = 0;
  std::uint64_t edges = 0;
  // For each row, the index of its first edge in `columns`. The last element is the number of
  // edges.
  local<std::uint64_t> offsets;
  local<std::uint32_t> columns;     // for each edge, its source
  local<std::uint32_t> out_degree;  // for each row, the number of out-edges
};

// R-MAT (Chakrabarti, Zhan and Faloutsos, 2004) with 2^scale vertices. Edge k depends only on the
// seed and k, in the same way as in python/interlace/data/graphs.py. For each level, the edge takes
// SplitMix64 of seed * 0x9E3779B97F4A7C15 + k * scale + level, and the upper 32 bits of the result
// are compared with thresholds.
struct rmat_options {
  std::uint32_t scale = 20;  // 1 to 31
  std::uint32_t edge_factor = 16;
  std::uint64_t seed = 1;
  double a = 0.57;
  double b = 0.19;
  double c = 0.19;
};

// Makes the whole graph on one device. Each edge takes 20 bytes of memory during construction, and
// 4 bytes afterwards.
device_graph make_rmat(node& n, std::uint32_t device, const rmat_options& o);

}  // namespace interlace::cuda
