"""Sizes and seeds of the runs of `interlace reproduce finepack`.

Sizes and seeds follow from the paper alone (section V) and from the time that a run may take. We
chose them without a look at any published figure, and they do not change. We added KERNELS and
SUBSCRIBE after the first runs. The kernels of the first runs stored whole lines, and sent them to
all GPUs. The figures before and after this addition differ because the programs differ. The options
`--kernel` and `--subscribe` select the old or the new programs.

- Jacobi runs on "synthetically generated banded matrices", and "the boundary values are shared with
  the neighbors". Here: a band of 2 x 8 + 1 entries, and halos.
- PageRank runs on "the Cage matrix". Here: a generated graph with the matrix's character
  (interlace.data.graph_models).
- SSSP runs on "the indochina dataset". Here: a generated web crawl.
- ALS runs on "the rgg dataset". Here: a random geometric graph.
- The paper gives no size for X-ray CT. Here: a square image and ordered subsets, as for the figures
  of PROACT.
- The paper gives no sizes for EQWP, diffusion and HIT. Here: cubes. Diffusion solves the heat
  equation, the first equation that the paper names for it.

The number of rows, pixels or points is as large as the time allows: a run has about ten million
accesses. On 16 GPUs, the number is about twice as large, because the part of each GPU becomes small
there. A run has two iterations, because GPS learns in the first iteration which pages are read.

The size of a store depends on which lanes store to adjacent addresses. If the project has several
kernels for a workload, these figures use the kernel that the papers and the public codes describe:

- Stores of Jacobi and diffusion have 128 B (section VI-A). Both programs use one lane for each
  element.
- PageRank is "an iterative, synchronous series of matrix-vector operations". SSSP also goes over
  the rows of a sparse matrix, the matrix of its own graph. The programs are not public. PROACT's
  paper runs PageRank and SSSP too and finds that "coalescing is poor" (section V-B). `warp-per-row`
  is the usual matrix-vector kernel for sparse rows (Bell and Garland, 2009), and its stores do not
  coalesce.
- ALS "performs ALS using Stochastic Gradient Descent for vertices" (PROACT, section IV-C), and its
  stores make 26 times as many transactions as copies make (section V-B). Our kernel `lane-per-row`
  has a lane for each vertex. Its stores of 4 bytes make 32 times as many transactions as stores of
  whole lines.
- CT's data "are produced densely in increasing address order" (PROACT, section V-B), as in our
  program.
- The kernels of EQWP and HIT have blocks of 16 x 16 lanes (b2r, eqwp.cu: CUDA_BLOCK_SIZE; Tartan,
  hit/src/turH.h: THREADSPERBLOCK_IN): `tiles`. The code of b2r also cuts along the fastest
  dimension; our kernel does not.

Values go to the GPUs that read them (`SUBSCRIBE`). Section V calls the communication of PageRank
and Jacobi "peer-to-peer" for their matrices, so not every GPU receives everything. Section VI-A
counts bytes of peer-to-peer stores as wasted if they are stored again. Section VI-A mentions no
bytes that nobody reads. The data of each run decide which GPU reads a value. A store goes to each
reader of its element. A copy moves one range for each pair of GPUs. The range holds everything that
the receiver reads, and the bytes in between, which are "difficult to eliminate due to the
coarse-grained nature of this paradigm". In Jacobi, EQWP, diffusion and HIT, these ranges are fixed.
With GPS, each page inside the same ranges goes to the GPUs that receive the range. One point speaks
against `SUBSCRIBE`: section V calls the communication of ALS and X-ray CT "all-to-all", and the
communication of SSSP "many-to-many".

`quick` has about a tenth of the sizes. Launches, flags and starts of copies do not become shorter
with fewer rows, so they weigh more in `quick`.
"""

from __future__ import annotations

from typing import NamedTuple

SEED = 1
ITERATIONS = 2
HALF_BANDWIDTH = 8  # half the bandwidth of Jacobi's matrix
RANK = 16  # the number of ALS's factors
ANGLES, SUBSETS = 32, 2  # the numbers of angles and of subsets of X-ray CT
KERNELS = {
    "pagerank": "warp-per-row",
    "sssp": "warp-per-row",
    "als": "lane-per-row",
    "eqwp": "tiles",
    "hit": "tiles",
}
WHOLE_LINES = {  # kernels of an experiment; the lanes of a warp store to adjacent addresses
    "pagerank": "balanced",
    "sssp": "balanced",
    "als": "warp-per-row",
}
SUBSCRIBE = "needed"  # which GPUs receive values of PageRank, SSSP, ALS and X-ray CT


class Sizes(NamedTuple):
    """The inputs of the workloads."""

    jacobi_rows: int
    pagerank_rows: int
    sssp_pages: int
    als_vertices: int
    ct_size: int  # pixels on a side
    eqwp_size: int  # points on a side
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
