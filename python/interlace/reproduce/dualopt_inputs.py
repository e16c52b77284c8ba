"""What `interlace reproduce dualopt` runs; `interlace.workloads.unified` has the programs' sizes.

It follows from the paper alone, and was written down before the first run; it stays.

- Clock of the links. Table 1 has flits of 16 B and 64 GB/s, which is 4 GHz. The simulator that the
  paper used moves a flit a cycle at 1 GHz, and Q1 speeds the baseline's frequency up by 2 to 16 and
  says that gains end "above 8 GHz": of 1 GHz 8 GHz is a factor of 8, behind which they do end; of 4
  GHz it is a factor of 2, behind which they do not (1.8, 2.4, 3.1, 3.2). So the paper's figures are
  compared with 1 GHz; those of 64 GB/s have keys of their own.
- A higher frequency (Fig. 2) shortens switches and links in that simulator as well. Both are run:
  this, and bandwidth alone.
- PCIe 5 and 6 are twice and four times the bandwidth of PCIe 4. Flits of 32 and 64 B come at the
  same frequency, so that they have twice and four times the bandwidth, too.
- 8 and 16 GPUs: the same tree, with a switch for two GPUs and the root above all.
- Compute units get blocks by "partition" (Table 1), and in turn or greedily in section 6.2.
- Averages are arithmetic means over the eleven programs that are not local-dominated: of 3.6 for
  five and 1.6 for six these are the 2.5 that the paper states; over all 13, or geometric, they are
  not.
- Windows of Fig. 10 are a quarter of a program's accesses apart.
- The decision "takes negligible time compared to the total execution time" (section 5). It takes
  20 000 accesses of warm-up here and as many as have 20 000 remote loads, a smaller part of a run
  at four times MGPUSim's parameters than at those. So the larger set is the one that figures are
  compared with, and the smaller one has keys of its own (`-small`). Fig. 2, 10, and granularities
  and timeouts, which need no decision, are of the smaller set.

`quick` has the smaller set alone, and fewer machines.
"""

from __future__ import annotations

MACHINE = "4x-r9nano-1ghz"
OTHER_READING = "4x-r9nano"
DISPATCH = "partition"
FREQUENCIES = {2: 1.8, 4: 2.4, 8: 3.1, 16: 3.2}  # factor: published speedup
GRANULARITIES = (8, 16)  # bytes; Table 1 has 4
TIMEOUTS = (10, 50)  # clocks; Table 1 has 30
DISPATCHES = {"round-robin": 2.5, "greedy": 2.7}
FRIENDLY_WITHOUT_MM = (6 * 1.6 - 2.6) / 5
# Bytes of a sector of both caches. The simulator has six sectors in a line at most, so that pieces
# of 4 B cannot be.
FINE_L2_BYTES = 16
GENERATIONS = {"pcie5": 2, "pcie6": 4}  # times the bandwidth
FLITS = {32: 2.0, 64: 1.8}  # bytes: published speedup; Table 1 has 16
MORE_GPUS = {8: 2.8, 16: 2.9}
WINDOWS = (0.25, 0.5, 0.75)  # of a program's accesses
WINDOW_ACCESSES = 2000  # remote ones, of a window
SMALL, LARGE = 1, 4  # sets of sizes
# A cache in which no remote line is displaced, for what an ideal buffer could merge (Q5).
IDEAL_CACHE_MIB = 64
LARGE_PACKET_BYTES = 4096  # FinePack, Table III
