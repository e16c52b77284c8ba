"""Tests turbulence: the start, the reference, verification and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fake_core import Asked, Fake, FakeCuda, with_halo
from interlace.base.errors import UserError
from interlace.data import reading
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE, SPLIT
from interlace.model.mechanisms import DEFAULTS, MIB, Config
from interlace.model.run import Case, RunFailure
from interlace.workloads import hit
from interlace.workloads.hit import Hit, HitInputs
from study_helpers import MACHINE, Run

TINY = ("--size", 16, "--iterations", 2)  # the tests of all workloads use these, too


def faked(
    core: Fake,
    asked: Asked,
    velocity: NDArray[np.float32],
    viscosity: float,
    step: float,
    kernel: str,
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert kernel in ("runs", "tiles")
    assert velocity.dtype == np.float32
    assert velocity.flags.c_contiguous
    side = len(velocity)
    shaped = velocity.reshape(side, 3, side, side // 2 + 1, 2)
    made = hit.Start(side, shaped, viscosity, step)
    exact = hit.evolve(made, asked.iterations).ravel()
    result = core.run(asked, exact, asked.iterations, 0.0, 30 * exact.size, "advance")
    return with_halo(result, asked.boundaries, 0)


STUDY = ["study", "hit", "--machine", MACHINE]


def small(**options: Any) -> Hit:
    return Hit.load(HitInputs(**{"size": 12, **options}), None)


def modes_of(start: hit.Start) -> hit.Modes:
    wide = start.velocity.astype(np.float64)
    return (wide[..., 0] + 1j * wide[..., 1]).transpose(1, 2, 0, 3)


def start_of(like: hit.Start, modes: hit.Modes, **changes: float) -> hit.Start:
    ordered = np.ascontiguousarray(modes.transpose(2, 0, 1, 3)).astype(np.complex64)
    velocity = ordered.view(np.float32).reshape(*ordered.shape, 2)
    values = {"viscosity": like.viscosity, "step": like.step, **changes}
    return hit.Start(like.side, velocity, **values)


# --- the start and the reference ------------------------------------------------------------------


def test_a_start_is_without_divergence_and_of_size_1() -> None:
    start = hit.generate(16, 3)
    modes = modes_of(start)
    k = hit._wavenumbers(16)
    assert np.abs((k * modes).sum(axis=0)).max() < 1e-6
    points = np.fft.irfftn(modes, s=(16,) * 3, axes=(1, 2, 3), norm="forward")
    assert (points**2).mean() == pytest.approx(1, rel=1e-5)
    assert hit.energy(start.velocity) == pytest.approx(1.5, rel=1e-5)
    assert np.array_equal(hit.generate(16, 3).velocity, start.velocity)
    assert not np.array_equal(hit.generate(16).velocity, start.velocity)


def test_memory_is_checked_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(UserError, match="a box of 512 points per side needs about"):
        hit.generate(512)


def test_a_taylor_green_vortex_stays_and_decays() -> None:
    # In two dimensions there is an exact solution. In this solution, the whole velocity decays by
    # the factor exp(-2 nu t).
    n = 16
    x = 2 * np.pi * np.arange(n) / n
    z, y, x = np.meshgrid(x, x, x, indexing="ij")
    flow = np.stack([np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y), 0 * z])
    modes = np.fft.rfftn(flow, axes=(1, 2, 3), norm="forward")
    start = start_of(hit.generate(n), modes, viscosity=0.1, step=0.05)
    found = hit.evolve(start, 40)
    assert np.abs(found - np.exp(-0.4) * start.velocity).max() < 1e-7


def test_without_viscosity_energy_stays_to_the_order_of_the_step() -> None:
    start = hit.generate(16)
    modes = modes_of(start)
    errors = []
    for step in (0.02, 0.01):
        ideal = start_of(start, modes, viscosity=0.0, step=step)
        after = hit.evolve(ideal, round(0.2 / step))
        errors.append(abs(hit.energy(after) - hit.energy(ideal.velocity)))
    assert errors[1] < errors[0] / 3
    assert errors[0] < 1e-3


def test_it_turns_with_the_axes() -> None:
    start = hit.generate(10, 4)
    modes = modes_of(start)
    k = hit._wavenumbers(10)
    nonlinear = hit._nonlinear(modes, k, 10)
    # To exchange y and z, the test swaps two components and two axes of the array.
    swapped = modes[[0, 2, 1]].transpose(0, 2, 1, 3)
    found = hit._nonlinear(swapped, k, 10)
    assert np.abs(found - nonlinear[[0, 2, 1]].transpose(0, 2, 1, 3)).max() < 1e-12
    assert np.abs(nonlinear).max() > 1e-3


# --- wrong input ----------------------------------------------------------------------------------

WRONG: list[tuple[list[str], str]] = [
    *(
        (["--size", n], f"--size {n}: give an even number from 4 to 640")
        for n in ("2", "-1", "33", "642")
    ),
    (["--seed", "-1"], "--seed -1: give a number of at least 0"),
    (["--kernel", "rows"], "--kernel rows: give runs or tiles"),
    (["--dimensions", "2"], "--dimensions is for diffusion; leave it out with hit"),
    (
        ["--tolerance", "1"],
        "--tolerance is not for hit, which makes a fixed number of steps; give --iterations",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, words: list[str], sentence: str) -> None:
    ran = run(*STUDY, *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"interlace: {sentence}\n")
    assert core.calls == []


# --- verification ---------------------------------------------------------------------------------


def test_a_wrong_coefficient_does_not_pass(core: Fake) -> None:
    workload = small()
    case = Case(3, SPLIT, Config(ranges=4))
    workload.verify(workload.simulate(core, MACHINE, case))
    old = hit.evolve(workload.start, workload.iterations - 1).ravel()
    for device in (0, 2):  # devices 1 and 3 hold only coefficients that are dropped
        held = workload.held(case, device)
        outcome = workload.simulate(core, MACHINE, case)
        outcome.values[device][held] = old[held]
        with pytest.raises(RunFailure, match="verification failed"):
            workload.verify(outcome)


def test_parts_are_whole_planes(core: Fake) -> None:
    workload = small()
    plane = 2 * 3 * 12 * 7
    assert workload.boundaries(5) == [n * plane for n in (0, 2, 4, 7, 9, 12)]
    assert workload.held(Case(5, INLINE), 2) == slice(4 * plane, 7 * plane)
    assert workload.largest_part(5) == 8 * 6 * 3 * 3 * 7
    workload.simulate(core, MACHINE, Case(4, INLINE))
    assert core.calls == [("sim", 4, INLINE, 5, 0.0, 1, MIB, 32, "")]


# --- the command ----------------------------------------------------------------------------------


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    ran = run("study", "hit", "--size", 12, "--json", out, "--gpus", 2, "--repeats", 3)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert {row["mechanism"]: row for row in document["rows"]}[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}
    assert document["data"]["energy"] < document["data"]["start_energy"]


def test_the_real_core(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    words = ["--size", 12, "--gpus", "1,4", "--split", "2", "--json", out]
    ran = run(*STUDY, *words, "--iterations", 1)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + len(DEFAULTS)
    assert all(0 < row["max_error"] < 1e-6 for row in rows)


@pytest.mark.parametrize("size", [16, 20])
def test_the_reference_node(size: int) -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(size=size, iterations=20)
    outcome = workload._run(core, Case(3, INLINE), ("host", None), (20, 0.0))
    outcome.time_s = 1.0
    assert 0 < workload.verify(outcome) < workload.allowed_error() / 2


def test_the_core_refuses_what_it_cannot_use() -> None:
    core = pytest.importorskip("interlace._core")
    velocity, viscosity, step, runs = small().arguments()
    cut = np.array(small().boundaries(2), dtype=np.uint64)
    for given, sentence in (
        ((velocity[:, :-1].copy(), viscosity, step, runs), "shape of a box's coefficients"),
        ((velocity[:-1].copy(), viscosity, step, runs), "shape of a box's coefficients"),
        ((velocity, -1.0, step, runs), "viscosity and step"),
        ((velocity, viscosity, 0.0, runs), "viscosity and step"),
        ((velocity, viscosity, np.nan, runs), "viscosity and step"),
        ((velocity, viscosity, step, ""), "unknown kernel ''; give 'runs' or 'tiles'"),
    ):
        with pytest.raises(UserError, match=sentence):
            core.run_hit("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *given)
