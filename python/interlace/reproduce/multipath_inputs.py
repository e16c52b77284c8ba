"""Sizes and parameters of what `interlace reproduce multipath` runs.

They follow from the paper alone (section 5) and from the time that a run may take; no simulated
figure was looked at to choose them, and they stay as they are. There is no random number but the
bytes of messages, which a fixed rule makes.

- Put bandwidth: "message sizes up to 512MB". UCX's benchmark has 32 puts outstanding; so has this
  one, as long as they are a GiB at most. Four messages or more; the first quarter fills the wires
  and is not counted.
- MPI bandwidth, one direction and both: "1MB to 64MB", windows of 1, 4 and 16. Two windows are
  sent, of which the second counts, with its handshake and acknowledgement.
- Chunks: "this tuning stage exhaustively searches for optimal communication configurations [...]
  separately for CUDA Graph-enabled and non-CUDA Graph modes" (section 4.4): every machine, size,
  set of paths and executor has the number of chunks, of CHUNKS, with the most put bandwidth.
- Jacobi: "fixing the vertical dimension to 8 and increasing the horizontal dimension from 2^23 to
  2^30"; "for the total application data size of 8GB on four GPUs, each rank exchanges 256MB" with
  each neighbour. Both are true of 8 rows on each GPU, and of a horizontal dimension in bytes of all
  four. It has as many bytes in each of the 8 rows of a GPU as a message has.
- Kernels of Jacobi are simulated where both grids are four times the L2 and eight times it; time
  goes on from there in proportion to columns. A ring of four GPUs is simulated in full, values and
  halos, on a smaller grid.
- Graphs: "dual-path communication from message sizes 2MB to 512MB" on Narval, 34 nodes at most.

CONTROL_S is how long a small message takes from one process to another on a node. It is assumed:
UCX's shared memory takes a few tenths of a microsecond, and the receiver has to poll. Nothing that
the paper puts into numbers depends on it, for messages there take milliseconds.

`quick` has fewer sizes, windows and chunk counts, and smaller kernels.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 1 << 20

CONTROL_S = 0.5e-6
OUTSTANDING = 32  # puts
OUTSTANDING_BYTES = 1 << 30
LARGE = 32 * MIB  # "for message sizes larger than 32MB"
GRAPHS_HELP_FROM = 8 * MIB  # "for messages larger than 8MB"
GRAPH_NODES = 34
JACOBI_ROWS = 8  # of each GPU
VERIFIED_BYTES = 256 * MIB  # outstanding ones at most whose real bytes are moved and compared


class Sizes(NamedTuple):
    """What runs."""

    put: tuple[int, ...]  # bytes of a message
    mpi: tuple[int, ...]
    windows: tuple[int, ...]
    chunks: tuple[int, ...]
    jacobi: tuple[int, ...]  # bytes of a message: of a GPU's row
    kernel_scale: int  # the kernels' grids are so many times the L2, and twice as many
    ring_columns: int  # of the ring that is simulated in full
    ring_iterations: int
    graph: tuple[int, ...]  # bytes of a message


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
