"""Sizes and seeds of the runs of `interlace reproduce proact`.

Sizes and seeds follow from the paper alone (sections IV-C and V) and from the time that a run may
take. We chose them without a look at any published figure, and they do not change.

- PageRank runs on "the Wikipedia dataset": the SuiteSparse Collection's wikipedia-20070206 has
  3,566,907 vertices and 12.6 edges per vertex. Here: an R-MAT graph with 13 edges per vertex. Its
  degrees also follow a power law.
- SSSP and ALS run on HV15R: a three-dimensional flow problem with 2,017,169 rows and 140.3 entries
  per row. Here: cubes of the same structure (interlace.data.meshes), with 135 entries in an inner
  row. ALS makes gradient steps, as the paper's ALS does. The paper gives no number of factors.
  Here: 16, the smaller of the two ranks that our kernels have.
- Jacobi runs on "banded matrices, which arise widely in finite element analysis". The paper gives
  no size. Here: a band of 2 x 70 + 1 entries, about as many entries per row as HV15R has.

- The paper gives no size for X-ray CT. The paper's method is "similar to that used in the
  FDA-approved GE Veo CT system". That system reconstructs slices of 512 x 512 pixels from 984 views
  per turn. Here: such a slice with ordered subsets (src/workload/ct.hpp). Our rays are parallel, so
  492 angles in half a turn hold the same information as 984 angles in a full turn. The computation
  for each byte depends only on the number of angles in a subset. The paper does not say how often
  GPUs exchange. Twelve subsets are usual and have 41 angles each. All subsets cost the same, so
  only two of the twelve run.

The ratio of entries to rows decides how much a GPU computes for each byte that it sends. Our inputs
have the paper's ratio wherever the paper gives one. The number of rows is as large as the time
allows, because the simulation of one second takes days. On 16 GPUs, the inputs have about twice as
many rows or pixels as on four GPUs, because the part of each GPU becomes small there. Every
iteration costs the same, so only one iteration runs. An iteration of ALS has two epochs, and an
iteration of X-ray CT has two epochs for each subset.

`quick` has about a tenth of the sizes. Launches, flags and starts of copies do not become shorter
with fewer rows, so they weigh more in `quick`.
"""

from __future__ import annotations

from typing import NamedTuple

SEED = 1
ITERATIONS = 1
EDGE_FACTOR = 13  # the number of edges per vertex in PageRank's graph
HALF_BANDWIDTH = 70  # half the bandwidth of Jacobi's matrix
RANK = 16  # the number of ALS's factors
ANGLES, SUBSETS = 82, 2  # the numbers of angles and of subsets of X-ray CT

# The microbenchmark (section IV-C) transfers 256 MB.
OVERLAP_BYTES = 256 << 20
QUICK_OVERLAP_BYTES = 16 << 20


class Sizes(NamedTuple):
    """The inputs of the workloads."""

    pagerank_scale: int  # the graph has 2**scale vertices
    jacobi_rows: int
    sssp_side: int  # points on each side of a cube
    als_side: int
    ct_size: int  # pixels on a side


FOUR_GPUS = Sizes(pagerank_scale=19, jacobi_rows=1 << 19, sssp_side=40, als_side=15, ct_size=512)
SIXTEEN_GPUS = Sizes(pagerank_scale=20, jacobi_rows=1 << 20, sssp_side=48, als_side=19, ct_size=724)
QUICK_FOUR_GPUS = Sizes(
    pagerank_scale=16, jacobi_rows=1 << 16, sssp_side=19, als_side=8, ct_size=160
)
QUICK_SIXTEEN_GPUS = Sizes(
    pagerank_scale=17, jacobi_rows=1 << 17, sssp_side=24, als_side=10, ct_size=226
)
