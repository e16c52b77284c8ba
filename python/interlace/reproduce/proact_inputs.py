"""Sizes and seeds of what `interlace reproduce proact` runs.

They follow from the paper alone (sections IV-C and V) and from the time that a run may take; no
published figure was looked at to choose them, and they stay as they are.

- PageRank runs on "the Wikipedia dataset": the SuiteSparse Collection's wikipedia-20070206 has
  3,566,907 vertices and 12.6 edges a vertex. Here: an R-MAT graph, also a power law, of 13 edges a
  vertex.
- SSSP and ALS run on HV15R: a three-dimensional flow problem of 2,017,169 rows and 140.3 entries a
  row. Here: cubes of the same structure (interlace.data.meshes), 135 entries a row inside. ALS
  makes gradient steps, as the paper's does; the paper gives no number of factors: 16, the smaller
  of the two that exist here.
- Jacobi runs on "banded matrices, which arise widely in finite element analysis", of no given size.
  Here: as many entries a row as HV15R has, a band of 2 x 70 + 1.

- X-ray CT is of no given size; the method is "similar to that used in the FDA-approved GE Veo CT
  system". That reconstructs slices of 512 x 512 pixels from 984 views a turn. Here: such a slice,
  by rays that are parallel, so that 492 angles in half a turn tell the same, and by ordered subsets
  (src/workload/ct.hpp). What is computed for each byte depends on the angles of a subset alone. The
  paper does not say how often GPUs exchange; 12 subsets, a common number, have 41 angles each. All
  steps cost the same: there are two of the twelve.

The ratio of entries to rows, which decides how much a GPU computes for each byte that it sends, is
therefore the paper's, where it gives one. The number of rows is as large as the time allows: a
simulated second takes days. On the machine with 16 GPUs there are about twice as many rows, or
pixels, as on those with four, for parts become small there. An iteration costs the same in each, so
one is run; ALS has two epochs in it, and X-ray CT two for each subset.

`quick` is about a tenth of that: what does not shrink with the rows (launches, flags, starts of
copies) weighs more there.
"""

from __future__ import annotations

from typing import NamedTuple

SEED = 1
ITERATIONS = 1
EDGE_FACTOR = 13  # of PageRank's graph
HALF_BANDWIDTH = 70  # of Jacobi's matrix
RANK = 16  # of ALS
ANGLES, SUBSETS = 82, 2  # of X-ray CT

# The microbenchmark (section IV-C): 256 MB are transferred.
OVERLAP_BYTES = 256 << 20
QUICK_OVERLAP_BYTES = 16 << 20


class Sizes(NamedTuple):
    """What the workloads run on."""

    pagerank_scale: int  # 2**scale vertices
    jacobi_rows: int
    sssp_side: int  # points of a cube each way
    als_side: int
    ct_size: int  # pixels a side


FOUR_GPUS = Sizes(pagerank_scale=19, jacobi_rows=1 << 19, sssp_side=40, als_side=15, ct_size=512)
SIXTEEN_GPUS = Sizes(pagerank_scale=20, jacobi_rows=1 << 20, sssp_side=48, als_side=19, ct_size=724)
QUICK_FOUR_GPUS = Sizes(
    pagerank_scale=16, jacobi_rows=1 << 16, sssp_side=19, als_side=8, ct_size=160
)
QUICK_SIXTEEN_GPUS = Sizes(
    pagerank_scale=17, jacobi_rows=1 << 17, sssp_side=24, als_side=10, ct_size=226
)
