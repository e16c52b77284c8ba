"""Sizes and seeds of what `interlace reproduce finepack` runs.

Sizes and seeds follow from the paper alone (section V) and from the time that a run may take; no
published figure was looked at to choose them, and they stay as they are. KERNELS and SUBSCRIBE were
added after first runs, whose kernels stored whole lines and sent them to everybody: figures before
and after differ by what the programs are, and both can be run (`--kernel`, `--subscribe`).

- Jacobi runs on "synthetically generated banded matrices", and "the boundary values are shared with
  the neighbors": a band of 2 x 8 + 1, and halos.
- PageRank runs on "the Cage matrix": a generated graph of its character
  (interlace.data.graph_models), SSSP on "the indochina dataset": a generated web crawl, ALS on "the
  rgg dataset": a random geometric graph.
- X-ray CT is of no given size: a square image and ordered subsets, as for PROACT's.
- EQWP, diffusion and HIT are of no given size: cubes. Diffusion solves the heat equation, the first
  that its paper names.

The number of rows, pixels or points is as large as the time allows, about ten million accesses a
run. On 16 GPUs there are about twice as many, for parts become small there. Two iterations: GPS
learns in the first which pages are read.

What a program's lanes store side by side decides how large stores are. Of the kernels that the
project has for a workload, the one is taken that the papers and the public codes describe:

- Stores of Jacobi and diffusion are of 128 B (section VI-A); both have a lane an element.
- PageRank is "an iterative, synchronous series of matrix-vector operations", and SSSP goes over the
  same rows. Their program is not public. PROACT, which runs it too, finds that "coalescing is poor"
  (section V-B). `warp-per-row` is the matrix-vector kernel for sparse rows that is in general use
  (Bell and Garland, 2009), and its stores do not coalesce.
- ALS "performs ALS using Stochastic Gradient Descent for vertices" (PROACT, section IV-C), and its
  stores are 26 times as many transactions as copies are (section V-B): a lane a vertex,
  `lane-per-row`, whose 4-byte stores are 32 times those of whole lines.
- CT's data "are produced densely in increasing address order" (PROACT, section V-B), as ours are.
- EQWP's and HIT's kernels have blocks of 16 x 16 lanes (b2r, eqwp.cu: CUDA_BLOCK_SIZE; Tartan,
  hit/src/turH.h: THREADSPERBLOCK_IN): `tiles`. b2r also cuts along the fastest dimension; ours
  does not.

Where values go (`SUBSCRIBE`): to the GPUs that read them. Section V calls PageRank's communication
"peer-to-peer" for its matrix, and Jacobi's likewise, so that not everybody is sent everything; of
the bytes of peer-to-peer stores section VI-A calls those wasted that are stored again, and none
that nobody reads. Who reads what follows from the data of each run. A store goes to each reader of
its element. A copy takes for each pair of GPUs one range, which holds all that the receiver reads
and what lies between: bytes that are "difficult to eliminate due to the coarse-grained nature of
this paradigm". Jacobi, EQWP, diffusion and HIT have their ranges. Under GPS pages decide, within
the same ranges. Against that stands that section V calls the communication of ALS and X-ray CT
"all-to-all" and that of SSSP "many-to-many".

`quick` is about a tenth of that: what does not shrink with the rows (launches, flags, starts of
copies) weighs more there.
"""

from __future__ import annotations

from typing import NamedTuple

SEED = 1
ITERATIONS = 2
HALF_BANDWIDTH = 8  # of Jacobi's matrix
RANK = 16  # of ALS
ANGLES, SUBSETS = 32, 2  # of X-ray CT
KERNELS = {
    "pagerank": "warp-per-row",
    "sssp": "warp-per-row",
    "als": "lane-per-row",
    "eqwp": "tiles",
    "hit": "tiles",
}
WHOLE_LINES = {  # what an experiment takes in their place: lanes of a warp store side by side
    "pagerank": "balanced",
    "sssp": "balanced",
    "als": "warp-per-row",
}
SUBSCRIBE = "needed"  # of PageRank, SSSP, ALS and X-ray CT


class Sizes(NamedTuple):
    """What the workloads run on."""

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
