"""Sizes and parameters of the runs of `interlace reproduce multipath`.

Sizes and parameters follow from the paper alone (section 5) and from the time that a run may take.
We chose them without a look at any simulated figure, and they do not change. Nothing is random: a
fixed rule makes the bytes of messages.

- Put bandwidth: "message sizes up to 512MB". UCX's benchmark keeps 32 puts in flight. These runs do
  the same, with at most 1 GiB in flight. A run has at least four messages. The first quarter of a
  run fills the links and is not counted.
- MPI bandwidth, one direction and both: "1MB to 64MB", windows of 1, 4 and 16. A run sends two
  windows. Only the second window counts, with its handshake and acknowledgement.
- Chunks: "this tuning stage exhaustively searches for optimal communication configurations [...]
  separately for CUDA Graph-enabled and non-CUDA Graph modes" (section 4.4). Each combination of
  machine, size, paths and executor uses the number of CHUNKS that gives the most put bandwidth.
- Jacobi: "fixing the vertical dimension to 8 and increasing the horizontal dimension from 2^23 to
  2^30"; "for the total application data size of 8GB on four GPUs, each rank exchanges 256MB" with
  each neighbour. Both statements are true if each GPU has 8 rows and the horizontal dimension
  counts the bytes of all four GPUs. Each of the 8 rows of a GPU is then as long as a message.
- Jacobi's kernels are simulated with grids of four and eight times the L2. Times for more columns
  are extrapolated linearly. A ring of four GPUs is simulated in full, with values and halos, on a
  smaller grid.
- Graphs: "dual-path communication from message sizes 2MB to 512MB" on Narval; at most 34 nodes.

CONTROL_S is the time of a small message between two processes on a node. The value is an
assumption: UCX's shared memory takes a few tenths of a microsecond, and the receiver must poll. No
number in the paper depends on this time, because the paper's messages take milliseconds.

`quick` has fewer sizes, windows and chunk counts, and smaller kernels.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 1 << 20

CONTROL_S = 0.5e-6
OUTSTANDING = 32  # the number of puts in flight
OUTSTANDING_BYTES = 1 << 30
LARGE = 32 * MIB  # the paper says "for message sizes larger than 32MB"
GRAPHS_HELP_FROM = 8 * MIB  # the paper says "for messages larger than 8MB"
GRAPH_NODES = 34
JACOBI_ROWS = 8  # the number of rows of each GPU
# real bytes are moved and compared if at most this many bytes are in flight
VERIFIED_BYTES = 256 * MIB


class Sizes(NamedTuple):
    """The sizes and parameters of a run."""

    put: tuple[int, ...]  # the bytes of a message
    mpi: tuple[int, ...]
    windows: tuple[int, ...]
    chunks: tuple[int, ...]
    jacobi: tuple[int, ...]  # the bytes of a message, which is a row of one GPU
    # the size of the smaller kernel grid divided by the size of the L2; the larger grid is twice as
    # large
    kernel_scale: int
    ring_columns: int  # the columns of the ring that is simulated in full
    ring_iterations: int
    graph: tuple[int, ...]  # the bytes of a message


FULL = Sizes(
    put=tuple(MIB << k for k in range(10)),  # 1 to 512 MiB
    mpi=tuple(MIB << k for k in range(7)),  # 1 to 64 MiB
    windows=(1, 4, 16),
    chunks=(1, 2, 4, 8, 16, 32, 64),
    jacobi=tuple((1 << k) // 4 for k in range(23, 31)),  # 2 to 256 MiB
    kernel_scale=4,
    ring_columns=1 << 18,
    ring_iterations=2,
    graph=tuple(MIB << k for k in range(1, 10)),  # 2 to 512 MiB
)
QUICK = Sizes(
    put=(2 * MIB, 8 * MIB, 64 * MIB, 256 * MIB),
    mpi=(2 * MIB, 8 * MIB, 64 * MIB),
    windows=(1, 16),
    chunks=(1, 4, 16, 64),
    jacobi=(2 * MIB, 64 * MIB, 256 * MIB),
    kernel_scale=1,
    ring_columns=1 << 15,
    ring_iterations=2,
    graph=(2 * MIB, 64 * MIB, 512 * MIB),
)
