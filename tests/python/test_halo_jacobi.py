"""Tests Jacobi on a ring: the reference, counts, verification, multi-path, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_core import Asked, Fake, FakeCuda
from interlace.base.errors import UserError
from interlace.data import reading
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE, MULTI_PATH, SPLIT
from interlace.model.mechanisms import DEFAULTS, MIB, Config, Tuning
from interlace.model.run import Case, RunFailure
from interlace.workloads import Workload
from interlace.workloads.halo_jacobi import (
    CACHED_COLUMNS,
    COUNTED_COLUMNS,
    HaloJacobi,
    HaloJacobiInputs,
    solve,
    start,
)
from study_helpers import MACHINE, Run

# The tests of all workloads use these options, too.
TINY = ("--rows", 12, "--columns", 100, "--iterations", 2)


def faked(core: Fake, asked: Asked, rows: int, columns: int) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    # These loops are the reference of the tests. They share no code with the workload.
    at = np.arange(rows * columns)
    grid = ((at // columns * 7919 + at % columns * 104729) % 1021 / 1024).reshape(rows, columns)
    for _ in range(asked.iterations):
        mean = (np.roll(grid, 1, 0) + np.roll(grid, -1, 0)) / 4
        mean[:, 1:-1] += (grid[:, 2:] + grid[:, :-2]) / 4
        mean[:, [0, -1]] = grid[:, [0, -1]]
        grid = mean
    result = core.run(asked, grid.ravel(), asked.iterations, 0.0, 5 * grid.size, "halo_jacobi_step")
    for device, values in enumerate(result["values"]):
        of_grid = values.reshape(rows, columns)
        own = range(
            int(asked.boundaries[device]) // columns, int(asked.boundaries[device + 1]) // columns
        )
        has = {(row + beside) % rows for row in own for beside in (-1, 0, 1)}
        of_grid[[row for row in range(rows) if row not in has]] = np.nan
    return result


STUDY = ["study", "halo-jacobi", "--machine", MACHINE]
PHASES = (
    "The time for which an iteration computes, and the time that its copies add. The column 'gain' "
    "is the speedup of the iteration over bulk-copy:"
)
TIMED = "Copies of bulk-copy and multi-path were timed between events in separate runs."
MEASURED = ["study", "halo-jacobi", "--rows", 8, "--columns", 64, "--gpus", "2,4", "--repeats", 3]


def small(**options: Any) -> HaloJacobi:
    return HaloJacobi.load(HaloJacobiInputs(**{"rows": 8, "columns": 50, **options}), None)


# --- the start and the reference ------------------------------------------------------------------


def test_every_point_starts_unlike_its_neighbours() -> None:
    values = start(40, 300)
    assert values.min() >= 0
    assert values.max() < 1
    assert np.array_equal(values.astype(np.float32), values)
    for axis in (0, 1):
        assert np.abs(np.diff(values, axis=axis)).min() > 0.05


def test_a_harmonic_grid_stays() -> None:
    linear = np.tile(np.linspace(-1, 2, 33), (5, 1))
    assert np.abs(solve(linear, 50) - linear).max() < 1e-14


@pytest.mark.parametrize("columns", [21, 2 * CACHED_COLUMNS + 3])
def test_a_wave_decays_as_its_eigenvalue_says(columns: int) -> None:
    # These two functions are eigenvectors: a sine along a row that is 0 at both ends, and a cosine
    # along the ring.
    rows, steps = 12, 7
    across = np.sin(3 * np.pi * np.arange(columns) / (columns - 1))
    around = np.cos(2 * np.pi * 2 * np.arange(rows) / rows)
    wave = np.outer(around, across)
    eigenvalue = (np.cos(3 * np.pi / (columns - 1)) + np.cos(2 * np.pi * 2 / rows)) / 2
    assert np.abs(solve(wave, steps) - eigenvalue**steps * wave).max() < 1e-14


def test_memory_is_checked_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(UserError, match="a grid of 32 x 8388608 points needs about"):
        small(rows=32, columns=1 << 23)


# --- wrong input ----------------------------------------------------------------------------------

WRONG: list[tuple[list[str], str]] = [
    *((["--rows", n], f"--rows {n}: give a number from 1 to 1048576") for n in ("0", "1048577")),
    *(
        (["--columns", n], f"--columns {n}: give a number from 3 to 1073741824")
        for n in ("2", "1073741825")
    ),
    (["--columns", "x"], "--columns 'x': give a whole number"),
    (["--size", "8"], "--size is for ct, diffusion, eqwp, hit, random-access, histogram and "
     "embedding; leave it out with halo-jacobi"),
    (["--mechanisms", MULTI_PATH], "--mechanisms multi-path: it is measured on real GPUs; leave it "
     "out, and simulate such copies with interlace plan --simulate"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, words: list[str], sentence: str) -> None:
    ran = run(*STUDY, *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"interlace: {sentence}\n")
    assert core.calls == []


# --- verification ---------------------------------------------------------------------------------


def test_devices_hold_their_rows_and_those_beside_them() -> None:
    workload = small()
    rows = [slice(None, 150), slice(50, 250), slice(150, 350)]
    everything = np.arange(400)
    for device, has in enumerate([None, rows[1], rows[2], None]):
        held = workload.held(Case(4, INLINE), device)
        if has is not None:
            assert held == has
    assert np.array_equal(everything[workload.held(Case(4, INLINE), 0)], np.r_[0:150, 350:400])
    assert np.array_equal(everything[workload.held(Case(4, INLINE), 3)], np.r_[0:50, 250:400])
    for gpus in (1, 2, 3):
        for device in range(gpus):
            count = everything[workload.held(Case(gpus, INLINE), device)].size
            own = np.diff(workload.boundaries(gpus))[device]
            assert count == min(400, own + 100)
    # There are fewer rows than devices.
    assert workload.boundaries(16)[:3] == [0, 0, 50]
    assert workload.held(Case(16, INLINE), 0) == slice(0, 0)


def test_a_late_row_does_not_pass(core: Fake) -> None:
    workload = small()
    case = Case(4, SPLIT, Config(ranges=4))
    old = solve(start(8, 50), workload.iterations - 1)
    for device in range(4):
        outcome = workload.simulate(core, MACHINE, case)
        workload.verify(outcome)
        for row in ((2 * device - 1) % 8, (2 * device + 2) % 8):
            for values in (old[row], np.full(50, np.nan)):
                outcome = workload.simulate(core, MACHINE, case)
                outcome.values[device].reshape(8, 50)[row] = values
                with pytest.raises(RunFailure, match=f"GPU {device} has .* for point"):
                    workload.verify(outcome)


def test_parts_are_whole_rows_and_a_row_is_a_message(core: Fake) -> None:
    workload = small(rows=9)
    assert workload.boundaries(4) == [0, 100, 200, 300, 450]
    assert workload.largest_part(4) == 4 * 50
    assert workload.parameters()["message_bytes"] == 4 * 50
    workload.simulate(core, MACHINE, Case(4, INLINE))
    assert core.calls == [("sim", 4, INLINE, 10, 0.0, 1, MIB, 32, "")]


# --- the real core --------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [1, 3, 4])
def test_the_reference_node(gpus: int) -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(rows=10, columns=333, iterations=40)
    for mechanism in (BULK_COPY, MULTI_PATH):
        outcome = workload._run(core, Case(gpus, mechanism), ("host", None), (40, 0.0))
        outcome.time_s = 1.0
        assert 0 < workload.verify(outcome) < workload.allowed_error() / 2


@pytest.mark.parametrize("gpus", [1, 3])
def test_what_wide_grids_count_follows_from_narrow_ones(gpus: int) -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(columns=4 * COUNTED_COLUMNS + 5, iterations=4)
    case = Case(gpus, BULK_COPY)
    exact = Workload.count(workload, core, case, 4)
    assert workload.count(core, case, 4) == exact
    if gpus > 1:
        # In each of four iterations, each GPU sends two rows of floats of 4 bytes.
        assert exact.wire.useful is not None
        assert exact.wire.useful >= 4 * 2 * gpus * 4 * (workload.columns - 2)


def test_what_the_l2_may_hold_is_counted_as_it_is(core: Fake) -> None:
    workload = small(columns=4 * COUNTED_COLUMNS)
    for cache_bytes, runs in ((0, 4), (1 << 30, 2)):
        core.calls.clear()
        workload.count(core, Case(2, BULK_COPY), 10, cache_bytes)
        assert len(core.calls) == runs


def test_the_real_core(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    words = ["--rows", 9, "--columns", 200, "--gpus", "2,4", "--split", "2", "--json", out]
    ran = run(*STUDY, *words, "--iterations", 2, "--jobs", 2)
    assert ran.code == 0, ran.err
    rows = {(row["gpus"], row["mechanism"]): row for row in json.loads(out.read_text())["rows"]}
    assert len(rows) == 1 + 2 * len(DEFAULTS)
    assert "timed between events" not in ran.out
    assert all(row["max_error"] < 1e-6 for row in rows.values())
    table = [line.split() for line in ran.out.partition(PHASES)[2].splitlines() if line]
    assert table[0] == ["GPUs", "mechanism", "iteration", "compute", "copies", "copies", "gain"]
    cell = {(int(line[0]), line[1]): line for line in table[2:5]}
    for gpus in (2, 4):
        whole, bound = rows[gpus, BULK_COPY]["time_s"], rows[gpus, INFINITE_BANDWIDTH]["time_s"]
        iteration, compute, exchange = (float(text) for text in cell[gpus, BULK_COPY][2:5])
        assert iteration == pytest.approx(1e6 * whole / 2, rel=1e-3)
        assert compute == pytest.approx(1e6 * bound / 2, rel=1e-3)
        assert exchange == pytest.approx(iteration - compute, rel=1e-2)


# --- multi-path -----------------------------------------------------------------------------------


def test_multi_path_has_nothing_to_configure() -> None:
    tuning = Tuning((2,), (MIB,), (4096,))
    assert tuning.configs(MULTI_PATH, MIB) == [Config()]


def test_multi_path_is_measured_where_it_is_named(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    ran = run(*MEASURED, "--mechanisms", "bulk-copy,multi-path", "--json", out)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert list(document["data"]) == [
        "name", "source", "size", "points", "rows", "columns", "message_bytes", "iterations",
        "tolerance", "max_allowed_error",
    ]  # fmt: skip
    rows = {(row["gpus"], row["mechanism"]): row for row in document["rows"]}
    assert list(rows) == [
        (1, BULK_COPY), (2, BULK_COPY), (2, MULTI_PATH), (4, BULK_COPY), (4, MULTI_PATH),
    ]  # fmt: skip
    table = [line.split() for line in ran.out.partition(PHASES)[2].splitlines()]
    for gpus in (2, 4):
        bulk, ours = rows[gpus, BULK_COPY], rows[gpus, MULTI_PATH]
        found = next(line for line in table if line[:2] == [str(gpus), MULTI_PATH])
        iteration, compute, exchange, part, gain = (float(text) for text in found[2:])
        assert compute + exchange == pytest.approx(iteration, abs=0.02)
        assert exchange / iteration == pytest.approx(
            ours["cuda"]["copy_s"] / ours["time_s"], abs=0.01
        )
        assert part == pytest.approx(100 * exchange / iteration, abs=1)
        assert gain == pytest.approx(bulk["time_s"] / ours["time_s"], abs=0.01)
    assert {call[2] for call in cuda.calls if call[0] == "cuda"} == {
        BULK_COPY, "bulk-copy-without-transfers", MULTI_PATH,
    }  # fmt: skip
    assert TIMED in ran.out.splitlines()
    assert "multi-path on 4 GPUs: runs on plain streams\n" in ran.out


def test_multi_path_is_of_every_workload_and_no_default(run: Run, cuda: FakeCuda) -> None:
    ran = run("study", "jacobi", "--rows", 400, "--gpus", 2, "--mechanisms", "bulk-copy,multi-path")
    assert ran.code == 0, ran.err
    assert PHASES in ran.out
    cuda.calls.clear()
    ran = run("study", "jacobi", "--rows", 400, "--gpus", 2)
    assert ran.code == 0, ran.err
    assert PHASES not in ran.out
    assert MULTI_PATH not in {call[2] for call in cuda.calls}
