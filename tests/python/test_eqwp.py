"""Tests seismic waves: the medium, the reference, verification and the command."""

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
from interlace.workloads import eqwp
from interlace.workloads.eqwp import Eqwp, EqwpInputs
from study_helpers import MACHINE, Run

TINY = ("--size", 16, "--iterations", 2)  # the tests of all workloads use these, too


def faked(
    core: Fake,
    asked: Asked,
    velocity: NDArray[np.float32],
    medium: NDArray[np.float32],
    kernel: str,
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert kernel in ("runs", "tiles")
    for array in (velocity, medium):
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
    planes, rows, columns = velocity.shape
    made = eqwp.Start(velocity.reshape(planes, 3, rows // 3, columns), medium)
    exact = eqwp.propagate(made, asked.iterations).ravel()
    result = core.run(asked, exact, asked.iterations, 0.0, 30 * exact.size, "renew_stresses")
    return with_halo(result, asked.boundaries, made.halo)


STUDY = ["study", "eqwp", "--machine", MACHINE]


def small(**options: Any) -> Eqwp:
    return Eqwp.load(EqwpInputs(**{"size": 10, **options}), None)


# --- the start and the reference ------------------------------------------------------------------


def test_the_medium_has_four_layers() -> None:
    start = eqwp.generate(16, 2)
    lame_1, lame_2, buoyancy = start.medium.astype(np.float64).T
    speeds = np.sqrt((lame_1 + 2 * lame_2) * buoyancy)
    assert np.allclose(speeds, 0.4 * np.repeat([1 / 4, 5 / 12, 2 / 3, 1], 4), rtol=1e-6)
    assert np.abs(start.velocity).max() == 1
    assert np.array_equal(eqwp.generate(16, 2).velocity, start.velocity)
    assert not np.array_equal(eqwp.generate(16, 3).velocity, start.velocity)


def test_memory_is_checked_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(UserError, match="a grid of 800 points per side needs about"):
        eqwp.generate(800)


@pytest.mark.parametrize(("component", "speed"), [(0, 0.4), (1, 0.4 / 3**0.5)])
def test_plane_waves_go_at_the_speed_of_their_kind(component: int, speed: float) -> None:
    # A motion along the direction of travel is a P wave. A motion across this direction is an S
    # wave. Half of the wave travels in each direction. The grid is so wide that its edges do not
    # affect the middle.
    side, n, steps = 33, 48, 32
    bell = np.exp(-(((np.arange(n) - n // 2) / 2) ** 2) / 2)
    velocity = np.zeros((side, 3, side, n), dtype=np.float32)
    velocity[:, component] = bell
    medium = np.tile(
        eqwp.generate(8).medium[-1], (side, 1)
    )  # all planes have the material of the fastest layer
    found = eqwp.propagate(eqwp.Start(velocity, medium), steps)[side // 2, component]
    ahead = found[side // 2, n // 2 :]
    assert abs(int(ahead.argmax()) - steps * speed) <= 1
    assert ahead.max() == pytest.approx(0.5, abs=0.03)


def test_energy_stays() -> None:
    start = eqwp.generate(16)
    sizes = [float((eqwp.propagate(start, steps) ** 2).sum()) for steps in (40, 80, 120)]
    assert max(sizes) < 3 * min(sizes)


# --- wrong input ----------------------------------------------------------------------------------

WRONG: list[tuple[list[str], str]] = [
    *((["--size", n], f"--size {n}: give a number from 4 to 894") for n in ("3", "-1", "895")),
    (["--seed", "-1"], "--seed -1: give a number of at least 0"),
    (["--kernel", "warp-per-row"], "--kernel warp-per-row: give runs or tiles"),
    (["--equation", "heat"], "--equation is for diffusion; leave it out with eqwp"),
    (
        ["--tolerance", "1"],
        "--tolerance is not for eqwp, which makes a fixed number of steps; give --iterations",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, words: list[str], sentence: str) -> None:
    ran = run(*STUDY, *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"interlace: {sentence}\n")
    assert core.calls == []


# --- verification ---------------------------------------------------------------------------------


def test_a_late_plane_does_not_pass(core: Fake) -> None:
    workload = small()
    case = Case(3, SPLIT, Config(ranges=4))
    for device in range(3):
        outcome = workload.simulate(core, MACHINE, case)
        workload.verify(outcome)
        held = workload.held(case, device)
        old = eqwp.propagate(workload.start, workload.iterations - 1).ravel()
        for at in (held.start, held.stop - 1):
            plane = slice(at // 300 * 300, at // 300 * 300 + 300)
            outcome = workload.simulate(core, MACHINE, case)
            outcome.values[device][plane] = old[plane]
            with pytest.raises(RunFailure, match="verification failed"):
                workload.verify(outcome)


def test_parts_are_whole_planes(core: Fake) -> None:
    workload = small()
    assert workload.boundaries(4) == [0, 600, 1500, 2100, 3000]
    assert workload.held(Case(4, INLINE), 1) == slice(0, 2100)
    assert workload.largest_part(4) == 4 * 600
    workload.simulate(core, MACHINE, Case(4, INLINE))
    assert core.calls == [("sim", 4, INLINE, 5, 0.0, 1, MIB, 32, "")]


# --- the command ----------------------------------------------------------------------------------


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    ran = run("study", "eqwp", "--size", 10, "--json", out, "--gpus", 2, "--repeats", 3)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert {row["mechanism"]: row for row in document["rows"]}[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}


def test_the_real_core(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    words = ["--size", 12, "--gpus", "1,4", "--split", "2", "--json", out]
    ran = run(*STUDY, *words, "--iterations", 1)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + len(DEFAULTS)
    assert all(0 < row["max_error"] < 1e-6 for row in rows)


def test_the_reference_node() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(size=20, iterations=30)
    outcome = workload._run(core, Case(3, INLINE), ("host", None), (30, 0.0))
    outcome.time_s = 1.0
    assert 0 < workload.verify(outcome) < workload.allowed_error() / 2


def test_the_core_refuses_what_it_cannot_use() -> None:
    core = pytest.importorskip("interlace._core")
    velocity, medium, runs = small().arguments()
    cut = np.array(small().boundaries(2), dtype=np.uint64)
    for given, sentence in (
        ((velocity[:, :-1].copy(), medium, runs), "do not belong to the same grid"),
        ((velocity, medium[:-1].copy(), runs), "do not belong to the same grid"),
        ((velocity, -medium, runs), "a value of the medium"),
        ((velocity, medium * np.float32(np.nan), runs), "a value of the medium"),
        ((velocity, medium, "rows"), "unknown kernel 'rows'; give 'runs' or 'tiles'"),
    ):
        with pytest.raises(UserError, match=sentence):
            core.run_eqwp("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *given)
