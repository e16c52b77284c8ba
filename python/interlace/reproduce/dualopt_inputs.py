"""What `interlace reproduce dualopt` runs; `interlace.workloads.unified` has the programs' sizes.

The choices follow from the paper alone. They were written down before the first run and do not
change.

- Clock of the links. Table 1 gives flits of 16 B and 64 GB/s, which means 4 GHz. The paper's
  simulator moves one flit a cycle at 1 GHz. Q1 multiplies the baseline's frequency by 2 to 16 and
  says that gains end "above 8 GHz". From 1 GHz that is a factor of 8, and gains do end there. From
  4 GHz it is a factor of 2, and gains do not end there (1.8, 2.4, 3.1, 3.2). So the paper's figures
  are compared with links of 1 GHz. Figures of 64 GB/s links have keys of their own.
- In that simulator a higher frequency (Fig. 2) also shortens the latency of switches and links.
  Both versions run: frequency, and bandwidth alone.
- PCIe 5 has twice the bandwidth of PCIe 4, and PCIe 6 four times. Flits of 32 and 64 B move at the
  same frequency as flits of 16 B, so they also have twice and four times the bandwidth.
- 8 and 16 GPUs form the same tree, with a switch for each two GPUs and the root above all switches.
- Compute units get blocks by "partition" (Table 1), and in turn or greedily in section 6.2.
- Averages are arithmetic means over the eleven programs that are not local-dominated. With 3.6 for
  five programs and 1.6 for six, this mean is the 2.5 that the paper states. A mean over all 13
  programs, or a geometric mean, is not.
- The windows of Fig. 10 are a quarter of a program's accesses apart.
- The decision "takes negligible time compared to the total execution time" (section 5). Here it
  takes 20 000 accesses of warm-up, and then as many accesses as contain 20 000 remote loads. That
  is a smaller part of a run at four times MGPUSim's parameters than at MGPUSim's own. So the
  paper's figures are compared with the larger set, and the smaller set has keys of its own
  (`-small`). Fig. 2, Fig. 10, granularities and timeouts need no decision and use the smaller set.
- The paper does not say how a program's blocks are spread over the GPUs. The figures use contiguous
  ranges of blocks, and pages where each array asks (`own`), as MGPUSim does. An experiment repeats
  the smaller set with `PLACEMENTS`, all other ways of `interlace locality`.

`quick` runs the smaller set only, on fewer machines, with the first two of these placements.
"""

from __future__ import annotations

MACHINE = "4x-r9nano-1ghz"
OTHER_READING = "4x-r9nano"
DISPATCH = "partition"
FREQUENCIES = {2: 1.8, 4: 2.4, 8: 3.1, 16: 3.2}  # factor of the frequency: published speedup
GRANULARITIES = (8, 16)  # bytes; Table 1 has 4
TIMEOUTS = (10, 50)  # clocks; Table 1 has 30
DISPATCHES = {"round-robin": 2.5, "greedy": 2.7}
FRIENDLY_WITHOUT_MM = (6 * 1.6 - 2.6) / 5
# Bytes of a sector of both caches. The simulator allows at most six sectors in a line, so sectors
# of 4 B are not possible.
FINE_L2_BYTES = 16
GENERATIONS = {"pcie5": 2, "pcie6": 4}  # generation: factor of the bandwidth
FLITS = {32: 2.0, 64: 1.8}  # bytes of a flit: published speedup; Table 1 has 16
MORE_GPUS = {8: 2.8, 16: 2.9}
WINDOWS = (0.25, 0.5, 0.75)  # the fractions of a program's accesses before a window starts
WINDOW_ACCESSES = 2000  # remote accesses in a window
PLACEMENTS = (  # of blocks and of pages
    ("round-robin", "own"),
    ("contiguous", "round-robin"),
    ("round-robin", "round-robin"),
    ("round-robin", "contiguous"),
    ("round-robin", "gpu0"),
    ("contiguous", "contiguous"),
    ("contiguous", "gpu0"),
)
QUICK_PLACEMENTS = PLACEMENTS[:2]
SMALL, LARGE = 1, 4  # factors of MGPUSim's sizes, one for each set
# A cache that never evicts a remote line shows what an ideal buffer could merge (Q5).
IDEAL_CACHE_MIB = 64
LARGE_PACKET_BYTES = 4096  # from FinePack's Table III
