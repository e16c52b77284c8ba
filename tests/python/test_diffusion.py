"""Tests the heat equation and Burgers' equation: the start, the reference, verification, and the
command.
"""

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
from interlace.workloads import diffusion
from interlace.workloads.diffusion import Diffusion, DiffusionInputs
from study_helpers import MACHINE, Run

TINY = ("--size", 16, "--iterations", 2)  # the tests of all workloads use these options, too


def faked(
    core: Fake, asked: Asked, start: NDArray[np.float32], equation: str, rate: float, speed: float
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert start.dtype == np.float32
    assert start.flags.c_contiguous
    made = diffusion.Start(start, equation, rate, speed)
    exact = diffusion.solve(made, asked.iterations).ravel()
    result = core.run(asked, exact, asked.iterations, 0.0, 13 * exact.size, "diffusion_stage")
    return with_halo(result, asked.boundaries, made.halo)


STUDY = ["study", "diffusion", "--machine", MACHINE]


def small(**options: Any) -> Diffusion:
    return Diffusion.load(DiffusionInputs(**{"size": 12, **options}), None)


# --- the start ------------------------------------------------------------------------------------


def test_a_start_is_smooth_and_follows_its_seed() -> None:
    for dimensions in (2, 3):
        start = diffusion.generate(32, dimensions, "heat", 3)
        assert start.values.shape == ((32, 32, 32) if dimensions == 3 else (32, 1, 32))
        assert start.speed == 1
        assert np.abs(np.diff(start.values, axis=0)).max() < 1
        assert np.array_equal(diffusion.generate(32, dimensions, "burgers", 3).values, start.values)
        assert not np.array_equal(diffusion.generate(32, dimensions, "heat").values, start.values)


def test_memory_is_checked_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(
        UserError, match="a grid of 800 points per side in 3 dimensions needs about"
    ):
        diffusion.generate(800, 3, "heat")


# --- the reference --------------------------------------------------------------------------------


def test_heat_spreads_a_bell() -> None:
    n, steps, rate, width = 128, 100, 0.15, 36.0
    far = (np.arange(n) - n // 2) ** 2
    bell = np.exp(-far / (2 * width))[None, None].astype(np.float32)
    found = diffusion.solve(diffusion.Start(bell, "heat", rate, 1.0), steps)[0, 0]
    wider = width + 2 * rate * steps
    assert np.abs(found - np.sqrt(width / wider) * np.exp(-far / (2 * wider))).max() < 2e-5


def test_burgers_keeps_a_smooth_wave_to_fifth_order() -> None:
    # Until a front forms, u is constant along the lines with constant x - u t.
    errors = []
    for n in (100, 200):
        x = (np.arange(n) + 0.5) / n
        profile = 0.5 + 0.2 * np.exp(-(((x - 0.4) / 0.1) ** 2))
        start = diffusion.Start(profile[None, None].astype(np.float32), "burgers", 0.4, 1.0)
        steps = n // 4
        t = steps * 0.4 / n
        exact = profile.copy()
        for _ in range(60):
            exact = 0.5 + 0.2 * np.exp(-(((x - exact * t - 0.4) / 0.1) ** 2))
        errors.append(float(np.abs(diffusion.solve(start, steps)[0, 0] - exact).max()))
    assert errors[1] < errors[0] / 7  # the time steps are of third order
    assert errors[1] < 1e-4


def test_a_front_is_sharp_and_stays_between_its_sides() -> None:
    values = np.where(np.arange(100) < 30, 1.0, 0.0)[None, None].astype(np.float32)
    found = diffusion.solve(diffusion.Start(values, "burgers", 0.4, 1.0), 100)[0, 0]
    assert -1e-3 < found.min() < found.max() < 1 + 1e-3
    assert found.sum() == pytest.approx(30 + 100 * 0.4 / 2, abs=1e-3)
    assert ((found > 0.05) & (found < 0.95)).sum() <= 4


# --- wrong input ----------------------------------------------------------------------------------

WRONG: list[tuple[list[str], str]] = [
    *(
        (["--size", n], f"--size {n}: with 3 dimensions give a number from 4 to 1290")
        for n in ("3", "-1", "1291")
    ),
    (
        ["--size", "46341", "--dimensions", "2"],
        "--size 46341: with 2 dimensions give a number from 4 to 46340",
    ),
    *((["--dimensions", n], f"--dimensions {n}: give 2 or 3") for n in ("1", "4")),
    (["--equation", "wave"], "--equation wave: give heat or burgers"),
    (["--seed", "-1"], "--seed -1: give a number of at least 0"),
    (
        ["--tolerance", "1"],
        "--tolerance is not for diffusion, which makes a fixed number of steps; give --iterations",
    ),
    (["--angles", "1"], "--angles is for ct; leave it out with diffusion"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, words: list[str], sentence: str) -> None:
    ran = run(*STUDY, *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"interlace: {sentence}\n")
    assert core.calls == []


# --- verification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("equation", diffusion.EQUATIONS)
def test_a_late_plane_does_not_pass(core: Fake, equation: str) -> None:
    workload = small(equation=equation)
    case = Case(3, SPLIT, Config(ranges=4))
    for device in range(3):
        outcome = workload.simulate(core, MACHINE, case)
        workload.verify(outcome)
        held = workload.held(case, device)
        old = diffusion.solve(workload.start, workload.iterations - 1).ravel()
        for at in (held.start, held.stop - 1):
            plane = slice(at // 144 * 144, at // 144 * 144 + 144)
            outcome = workload.simulate(core, MACHINE, case)
            outcome.values[device][plane] = old[plane]
            with pytest.raises(RunFailure, match="verification failed"):
                workload.verify(outcome)


def test_parts_are_whole_planes(core: Fake) -> None:
    workload = small(size=13, dimensions=2)
    assert workload.boundaries(4) == [0, 39, 78, 117, 169]
    assert workload.held(Case(4, INLINE), 1) == slice(13, 104)
    assert workload.largest_part(4) == 4 * 2 * 13
    workload.simulate(core, MACHINE, Case(4, INLINE))
    assert core.calls == [("sim", 4, INLINE, 5, 0.0, 1, MIB, 32, "")]


# --- the command ----------------------------------------------------------------------------------


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    ran = run("study", "diffusion", "--size", 12, "--json", out, "--gpus", 2, "--repeats", 3)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert {row["mechanism"]: row for row in document["rows"]}[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}
    assert list(document["data"]) == [
        "name", "source", "size", "points", "equation", "rate", "largest", "iterations",
        "tolerance", "max_allowed_error",
    ]  # fmt: skip


@pytest.mark.parametrize("equation", diffusion.EQUATIONS)
def test_the_real_core(run: Run, tmp_path: Path, equation: str) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    words = ["--size", 12, "--gpus", "1,4", "--split", "2", "--json", out, "--equation", equation]
    ran = run(*STUDY, *words, "--iterations", 1)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + len(DEFAULTS)
    assert all(0 < row["max_error"] < 1e-6 for row in rows)


@pytest.mark.parametrize("equation", diffusion.EQUATIONS)
def test_the_reference_node(equation: str) -> None:
    core = pytest.importorskip("interlace._core")
    for options in ({"size": 20}, {"size": 48, "dimensions": 2}):
        workload = small(**options, equation=equation, iterations=30)
        outcome = workload._run(core, Case(3, INLINE), ("host", None), (30, 0.0))
        outcome.time_s = 1.0
        assert 0 < workload.verify(outcome) < workload.allowed_error() / 2


def test_the_core_refuses_what_it_cannot_use() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small()
    good = list(workload.arguments())
    cut = np.array(workload.boundaries(2), dtype=np.uint64)
    for place, wrong, sentence in (
        (1, "wave", "unknown equation 'wave'; give heat or burgers"),
        (2, 0.0, "rate and speed"),
        (2, np.inf, "rate and speed"),
        (3, -1.0, "rate and speed"),
    ):
        given = [*good[:place], wrong, *good[place + 1 :]]
        with pytest.raises(UserError, match=sentence):
            core.run_diffusion("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *given)
    with pytest.raises(UserError, match="a fixed number of steps"):
        core.run_diffusion("host", None, BULK_COPY, cut, 1, 1.0, 1, MIB, 32, "", *good)
