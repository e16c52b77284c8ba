"""Tests wrong input of PageRank. Other tests use this file's stand-in for PageRank's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fake_core import Asked, Fake, only_read
from interlace.data import graphs
from interlace.model.mechanisms import UPDATE_DEFAULTS
from study_helpers import MACHINE, Run

TINY = ("--rmat", 8, "--iterations", 3)  # the tests of all workloads use this small run


def faked(
    core: Fake,
    asked: Asked,
    offsets: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    out_degree: NDArray[np.uint32],
    damping: float,
    kernel: str,
    subscribe: str,
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert kernel in ("balanced", "warp-per-row")
    assert subscribe in ("all", "needed")
    for array, kind in ((offsets, np.uint64), (columns, np.uint32), (out_degree, np.uint32)):
        assert array.dtype == kind
        assert array.flags.c_contiguous
    graph = graphs.Graph("fake", len(out_degree), offsets.astype(np.int64), columns, out_degree)
    exact = graphs.pagerank_reference(
        graph, damping, iterations=asked.iterations, tolerance=asked.tolerance or None
    )
    result = core.run(
        asked, exact.ranks, exact.iterations, exact.residual, columns.size, "rank_update"
    )
    return (
        only_read(result, asked.boundaries, offsets, columns) if subscribe == "needed" else result
    )


@pytest.mark.parametrize("damping", ["-0.1", "1.1"])
def test_wrong_input(run: Run, core: Fake, damping: str) -> None:
    ran = run("study", "pagerank", *TINY, "--machine", MACHINE, "--damping", damping)
    assert ran.err == f"interlace: --damping {damping}: give a number from 0 to 1\n"
    assert (ran.code, ran.out, core.calls) == (2, "", [])


def test_push_gives_the_ranks_of_pull(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    path = tmp_path / "out.json"
    done = run(
        "study", "pagerank", *TINY, "--kernel", "push", "--machine", MACHINE, "--gpus", 4,
        "--json", path,
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert {row["mechanism"] for row in rows if row["gpus"] == 4} == set(UPDATE_DEFAULTS)
    assert all(row["verified"] for row in rows)


def test_push_has_no_subscribers(run: Run) -> None:
    ran = run("study", "pagerank", *TINY, "--kernel", "push", "--subscribe", "needed")
    assert ran.code == 2
    assert "--subscribe is for regions; leave it out with --kernel push" in ran.err
