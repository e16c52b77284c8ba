"""The inputs of `interlace reproduce dualopt`.

`interlace.workloads.unified` has the sizes of the programs. All choices follow from the paper
alone. We wrote the choices down before the first run, and they do not change.

- Clock of the links. Table 1 gives flits of 16 B and 64 GB/s, which means 4 GHz. But the paper's
  simulator moves one flit per cycle at 1 GHz. The paper's question Q1 multiplies the baseline's
  frequency by 2 to 16, and says that gains end "above 8 GHz". If the baseline has 1 GHz, then 8 GHz
  is the factor 8, and the published gains do end there. If the baseline has 4 GHz, then 8 GHz is
  the factor 2, but the published gains continue (1.8, 2.4, 3.1, 3.2). So we compare the paper's
  figures with links of 1 GHz. Figures for links of 64 GB/s have keys of their own.
- In the paper's simulator, a higher frequency (Fig. 2) also shortens the latency of switches and
  links. We run both versions: a higher frequency, and more bandwidth with the same latency.
- PCIe 5 has twice the bandwidth of PCIe 4, and PCIe 6 has four times the bandwidth of PCIe 4. Flits
  of 32 and 64 B move at the same frequency as flits of 16 B. So links with flits of 32 B have twice
  the bandwidth, and links with flits of 64 B have four times the bandwidth.
- Machines with 8 and 16 GPUs are trees like the machine with four GPUs: each pair of GPUs has a
  switch, and one root is above all switches.
- Compute units get blocks by "partition" (Table 1). In section 6.2, they get blocks in turn or
  greedily.
- Averages are arithmetic means over the eleven programs that are not local-dominated. The published
  mean speedup is 3.6 for five of these programs and 1.6 for the other six. The mean over all eleven
  programs is then 2.5, as the paper states. A mean over all 13 programs, or a geometric mean, does
  not give 2.5.
- The windows of Fig. 10 begin at every quarter of a program's accesses.
- The decision "takes negligible time compared to the total execution time" (section 5). Here the
  engine warms up for 20 000 accesses, and then watches until it has seen 20 000 remote loads. The
  larger the inputs are, the smaller is the fraction of a run before the decision. So we compare the
  paper's figures with the larger set, which has four times MGPUSim's parameters. The smaller set
  has MGPUSim's own parameters, and its keys end in `-small`. Fig. 2, Fig. 10, granularities and
  timeouts need no decision and use the smaller set.
- The paper's baseline "adopts runtime of MGPUSIM to distribute data" (section 6.1), and its
  MGPUSim is version 2.0.1. Our figures place blocks and pages as the source of this version does:
  each GPU has a contiguous range of blocks, and each array has its own placement of pages (`own`).
  An experiment repeats the smaller set with all other placements that `interlace locality` knows
  (`PLACEMENTS`). MGPUSim has placed blocks by `filled` since April 2022.
- The paper does not name the graph of `bfs`. The search starts at "the vertex with maximum outgoing
  edge". MGPUSim generates a graph with three edges per vertex, or reads a graph from a file. The
  folder of MGPUSim's program has the file Slashdot0902.txt: 82,168 vertices and 948,464 edges. The
  figures use the generated graph. An experiment runs an R-MAT graph of about the same size as the
  file's graph.

`quick` runs only the smaller set, on fewer machines, with the first two of `PLACEMENTS`.
"""

from __future__ import annotations

MACHINE = "4x-r9nano-1ghz"
OTHER_READING = "4x-r9nano"
DISPATCH = "partition"
# maps the factor of the frequency to the published speedup
FREQUENCIES = {2: 1.8, 4: 2.4, 8: 3.1, 16: 3.2}
GRANULARITIES = (8, 16)  # the bytes of a piece; Table 1 has pieces of 4 B
TIMEOUTS = (10, 50)  # the clocks until a timeout; Table 1 has a timeout of 30 clocks
DISPATCHES = {"round-robin": 2.5, "greedy": 2.7}
FRIENDLY_WITHOUT_MM = (6 * 1.6 - 2.6) / 5
# The bytes of a sector in both caches. The simulator allows at most six sectors in a line, so
# sectors of 4 B are not possible.
FINE_L2_BYTES = 16
GENERATIONS = {"pcie5": 2, "pcie6": 4}  # maps the PCIe generation to the factor of the bandwidth
# Maps the bytes of a flit to the published speedup. Table 1 has flits of 16 B.
FLITS = {32: 2.0, 64: 1.8}
MORE_GPUS = {8: 2.8, 16: 2.9}
WINDOWS = (0.25, 0.5, 0.75)  # the fraction of a program's accesses that comes before each window
WINDOW_ACCESSES = 2000  # the number of remote accesses in a window
PLACEMENTS = (  # (placement of blocks, placement of pages)
    ("round-robin", "own"),
    ("contiguous", "round-robin"),
    ("filled", "own"),
    ("round-robin", "round-robin"),
    ("round-robin", "contiguous"),
    ("round-robin", "gpu0"),
    ("contiguous", "contiguous"),
    ("contiguous", "gpu0"),
)
QUICK_PLACEMENTS = PLACEMENTS[:2]
# a graph of about the size of Slashdot0902: 65,536 vertices and 917,504 edges
GRAPH_SCALE, GRAPH_DEGREE = 16, 14
SMALL, LARGE = 1, 4  # the smaller and the larger set multiply MGPUSim's sizes by these factors
# A cache of this size never evicts a remote line, so it shows what an ideal buffer could merge (the
# paper's question Q5).
IDEAL_CACHE_MIB = 64
LARGE_PACKET_BYTES = 4096  # the size of a packet in FinePack's Table III
