"""Compares collectives made of planned copies with NCCL's collectives."""

from __future__ import annotations

from collections.abc import Sequence

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.base.turns import turn
from interlace.model.copies import PLAIN
from interlace.model.mechanisms import size_text
from interlace.model.run import core_errors
from interlace.nodes.nodes import CudaNode, measured_by
from interlace.study.copy_bench import CopyResults, CopyRow, methods_here, nccl_lines, rows_of

REDUCE = "all-reduce"
PATTERNS = ("all-gather", "all-to-all", REDUCE)
FLOAT32 = 4  # the bytes of a float32


def messages_of(pattern: str, gpus: int) -> int:
    """Return how many blocks each GPU sends to every other GPU.

    An all-reduce sends two blocks: first the summands and then the sums.
    """
    return gpus * (gpus - 1) * (2 if pattern == REDUCE else 1)


def gpus_of(node: CudaNode, asked: int | None) -> int:
    """Return the requested number of GPUs, or the number of all GPUs if no number was requested."""
    if node.gpus < 2:
        raise UserError(f"bench collective needs at least 2 GPUs; {node.machine_name} has 1")
    count = asked or node.gpus
    if count > node.gpus:
        raise UserError(f"--gpus {count}: {node.machine_name} has only {node.gpus}")
    return count


def measure(
    node: CudaNode, gpus: int, named: list[str] | None, patterns: Sequence[str],
    sizes: Sequence[int], warmup: int, repeats: int,
) -> CopyResults:  # fmt: skip
    """Measure each pattern and size in turn, with the named methods or the default methods."""
    by, left_out = methods_here(node, named)
    rows: list[CopyRow] = []
    with progress(f"collectives on {node.machine_name}", len(patterns) * len(sizes)) as tick:
        for name in patterns:
            can = [method for method in by if method != PLAIN or name != REDUCE]
            for size in sizes:
                with turn(), core_errors(f"{name} of {size_text(size)}"):
                    found = node.cuda.measure_collective(name, gpus, size, can, warmup, repeats)
                rows += rows_of(name, size, messages_of(name, gpus), found)
                tick()
    return CopyResults(
        **measured_by("collective", node),
        warmup=warmup,
        repeats=repeats,
        window=1,
        notes=nccl_lines(rows, left_out),
        rows=rows,
    )
