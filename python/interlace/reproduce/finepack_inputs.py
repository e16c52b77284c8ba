"""Sizes and seeds of the runs of `interlace reproduce finepack`.

Sizes and seeds follow from the paper alone (section V) and from the time that a run may take. They
were chosen without a look at any published figure, and they do not change. KERNELS and SUBSCRIBE
were added after the first runs, whose kernels stored whole lines and sent them to all GPUs. The
figures before and after differ because the programs differ; `--kernel` and `--subscribe` run both.

- Jacobi runs on "synthetically generated banded matrices", and "the boundary values are shared with
  the neighbors": a band of 2 x 8 + 1, and halos.
- PageRank runs on "the Cage matrix": a generated graph of its character
  (interlace.data.graph_models), SSSP on "the indochina dataset": a generated web crawl, ALS on "the
  rgg dataset": a random geometric graph.
- The paper gives no size for X-ray CT: a square image and ordered subsets, as for PROACT's.
- The paper gives no sizes for EQWP, diffusion and HIT: cubes. Diffusion solves the heat equation,
  the first equation that its paper names.

The number of rows, pixels or points is as large as the time allows, about ten million accesses a
run. On 16 GPUs there are about twice as many, because a GPU's part becomes small there. There are
two iterations: GPS learns in the first one which pages are read.

The lanes that store side by side decide how large stores are. Where the project has several kernels
for a workload, these figures use the one that the papers and the public codes describe:

- Stores of Jacobi and diffusion have 128 B (section VI-A); both use a lane for each element.
- PageRank is "an iterative, synchronous series of matrix-vector operations", and SSSP goes over the
  same rows. Their program is not public. PROACT runs it too and finds that "coalescing is poor"
  (section V-B). `warp-per-row` is the usual matrix-vector kernel for sparse rows (Bell and Garland,
  2009), and its stores do not coalesce.
- ALS "performs ALS using Stochastic Gradient Descent for vertices" (PROACT, section IV-C), and its
  stores make 26 times as many transactions as copies (section V-B). `lane-per-row` has a lane for
  each vertex; its 4-byte stores make 32 times as many as stores of whole lines.
- CT's data "are produced densely in increasing address order" (PROACT, section V-B), as in ours.
- EQWP's and HIT's kernels have blocks of 16 x 16 lanes (b2r, eqwp.cu: CUDA_BLOCK_SIZE; Tartan,
  hit/src/turH.h: THREADSPERBLOCK_IN): `tiles`. b2r also cuts along the fastest dimension; ours
  does not.

Values go to the GPUs that read them (`SUBSCRIBE`). Section V calls the communication of PageRank
and Jacobi "peer-to-peer" for their matrices, so not every GPU receives everything. Section VI-A
counts bytes of peer-to-peer stores as wasted if they are stored again, and mentions none that
nobody reads. The data of each run decide which GPU reads a value. A store goes to each reader of
its element. A copy moves one range for each pair of GPUs. The range holds everything that the
receiver reads and the bytes in between, which are "difficult to eliminate due to the coarse-grained
nature of this paradigm". Jacobi, EQWP, diffusion and HIT have fixed ranges. Under GPS, pages decide
within the same ranges. One point speaks against this choice: section V calls the communication of
ALS and X-ray CT "all-to-all" and that of SSSP "many-to-many".

`quick` has about a tenth of the sizes. Launches, flags and starts of copies do not shrink with the
rows and weigh more there.
"""

from __future__ import annotations

from typing import NamedTuple

SEED = 1
ITERATIONS = 2
HALF_BANDWIDTH = 8  # half the bandwidth of Jacobi's matrix
RANK = 16  # the number of ALS's factors
ANGLES, SUBSETS = 32, 2  # angles and subsets of X-ray CT
KERNELS = {
    "pagerank": "warp-per-row",
    "sssp": "warp-per-row",
    "als": "lane-per-row",
    "eqwp": "tiles",
    "hit": "tiles",
}
WHOLE_LINES = {  # the kernels of an experiment; the lanes of a warp store side by side
    "pagerank": "balanced",
    "sssp": "balanced",
    "als": "warp-per-row",
}
SUBSCRIBE = "needed"  # who receives values of PageRank, SSSP, ALS and X-ray CT


class Sizes(NamedTuple):
    """The inputs of the workloads."""

    jacobi_rows: int
    pagerank_rows: int
    sssp_pages: int
    als_vertices: int
    ct_size: int  # pixels a side
    eqwp_size: int  # points a side
    diffusion_size: int
    hit_size: int


FOUR_GPUS = Sizes(
    jacobi_rows=1 << 21, pagerank_rows=500_000, sssp_pages=700_000, als_vertices=16_384,
    ct_size=800, eqwp_size=96, diffusion_size=144, hit_size=96,
)  # fmt: skip
SIXTEEN_GPUS = Sizes(
    jacobi_rows=1 << 22, pagerank_rows=1_000_000, sssp_pages=1_400_000, als_vertices=24_576,
    ct_size=1132, eqwp_size=120, diffusion_size=180, hit_size=120,
)  # fmt: skip
QUICK_FOUR_GPUS = Sizes(
    jacobi_rows=1 << 18, pagerank_rows=65_536, sssp_pages=65_536, als_vertices=2048,
    ct_size=256, eqwp_size=48, diffusion_size=64, hit_size=36,
)  # fmt: skip
QUICK_SIXTEEN_GPUS = Sizes(
    jacobi_rows=1 << 19, pagerank_rows=131_072, sssp_pages=131_072, als_vertices=3072,
    ct_size=362, eqwp_size=60, diffusion_size=80, hit_size=48,
)  # fmt: skip
