"""Tests tomographic reconstruction: the scan, the reference, verification and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import mmread
from scipy.sparse import csr_array, vstack

from fake_core import Asked, Fake, FakeCuda
from interlace.base.errors import UserError
from interlace.data import reading
from interlace.model.limits import work_of
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE, SPLIT
from interlace.model.mechanisms import DEFAULTS, MIB, Config
from interlace.model.run import Case, RunFailure
from interlace.workloads import ct
from interlace.workloads.ct import Ct, CtInputs, System, generate, least_detectors
from study_helpers import MACHINE, Run

# The tests of all workloads use these options, too.
TINY = ("--size", 16, "--angles", 12, "--subsets", 2, "--iterations", 1)


def faked(
    core: Fake,
    asked: Asked,
    measured: NDArray[np.float32],
    weights: NDArray[np.float32],
    curvature: NDArray[np.float32],
    subsets: int,
    beta: float,
    subscribe: str,
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert subscribe in ("all", "needed")
    for array in (measured, weights, curvature):
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
    shape = (len(curvature), *measured.shape, subsets, beta)
    scan = ct.Scan(*shape, measured, weights, curvature)
    exact = ct.reconstruct(scan, asked.iterations).image.ravel()
    entries = curvature.size * len(measured)
    return core.run(asked, exact, asked.iterations, 0.0, entries, "renew_pixels")


STUDY = ["study", "ct", "--machine", MACHINE]
DATA = Path(__file__).parents[2] / "data"


def small(**options: Any) -> Ct:
    return Ct.load(CtInputs(**{"size": 40, "angles": 20, **options}), None)


def whole(system: System) -> csr_array:
    """Return the whole matrix of the system."""
    return csr_array(vstack(list(system.matrices(range(system.angles)))))


# --- the scan -------------------------------------------------------------------------------------


def test_the_phantom_is_the_one_that_ships() -> None:
    for size in (64, 256):
        shipped = mmread(DATA / f"shepp-logan-{size}.mtx.gz")
        assert np.allclose(ct.phantom(size), shipped, atol=1e-12)


def test_the_system_is_the_one_that_ships() -> None:
    shipped = csr_array(mmread(DATA / "siddon-64.mtx.gz"))
    found = whole(System(64, 45, 92))
    assert abs(found - shipped).max() < 1e-7
    assert least_detectors(64) == 92


@pytest.mark.parametrize(("size", "least"), [(2, 4), (3, 5), (64, 92), (65, 93), (100, 142)])
def test_the_fewest_detectors_see_everything(size: int, least: int) -> None:
    assert least_detectors(size) == least
    # At every angle, some ray must cross each pixel, even at the edges.
    system = System(size, 8, least)
    for matrix in system.matrices(range(8)):
        seen = matrix.sum(axis=0)
        assert seen.min() > 0.5
        # for rays that are 1 apart, the lengths in a pixel add up to its area on average
        if size >= 64:
            assert seen.mean() == pytest.approx(1, abs=0.01)


def test_line_integrals_are_those_of_a_fine_image() -> None:
    size, fine = 16, 25
    detectors = least_detectors(size)
    exact = ct.phantom_scan(size, 6, detectors)
    # Projects the same rays through an image whose pixels are smaller by the factor `fine`.
    system = System(size * fine, 6, detectors)
    image = ct.phantom(size * fine).ravel()
    distance = (np.arange(detectors) - (detectors - 1) / 2) * fine
    for angle in range(6):
        counts, pixels, lengths = system._pieces(distance, *ct.direction(angle, 6))
        starts = np.concatenate([[0], np.cumsum(counts)])
        rays = csr_array((lengths, pixels, starts), shape=(detectors, image.size))
        assert np.abs(rays @ image / fine - exact[angle]).max() < 0.1
    assert exact.max() > 2


def test_the_curvature_is_that_of_the_system() -> None:
    for size, angles in ((31, 12), (70, 7)):
        scan = generate(size, angles, least_detectors(size), 1, 0.02)
        matrix = whole(scan.system)
        lengths = matrix @ np.ones(size * size)
        data = matrix.T @ (scan.weights.ravel().astype(np.float64) * lengths)
        assert scan.beta == pytest.approx(0.02 * data.mean(), rel=1e-6)
        expected = data.reshape(size, size) + 2 * scan.beta * ct.neighbours(size)
        assert np.allclose(scan.curvature, expected, rtol=1e-6)
        assert scan.weights.max() == 1
        assert 0 < scan.weights.min() < 0.02


def test_memory_is_checked_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(UserError, match="an image of 8000 x 8000 with 4 angles needs about"):
        generate(8000, 4, least_detectors(8000), 1, 0)


# --- the reference --------------------------------------------------------------------------------


def test_one_subset_goes_down_and_stays_positive() -> None:
    scan = generate(24, 16, least_detectors(24), 1, 0.05)
    matrix = whole(scan.system)
    y, w = scan.measured.ravel().astype(np.float64), scan.weights.ravel().astype(np.float64)

    def objective(image: NDArray[np.float64]) -> float:
        error = y - matrix @ image.ravel()
        prior = sum((np.diff(image, axis=axis) ** 2).sum() for axis in (0, 1))
        return float(w @ error**2 + scan.beta * prior) / 2

    last = objective(np.zeros((24, 24)))
    for iterations in (1, 2, 3, 6):
        image = ct.reconstruct(scan, iterations).image
        assert image.min() >= 0
        assert objective(image) < last
        last = objective(image)


def test_subsets_approach_the_phantom_faster() -> None:
    truth = ct.phantom(48)
    errors = []
    for subsets in (1, 8):
        scan = generate(48, 48, least_detectors(48), subsets, 0.01)
        image = ct.reconstruct(scan, 3).image
        errors.append(float(np.sqrt(((image - truth) ** 2).mean())))
    assert errors[1] < errors[0] < float(np.sqrt((truth**2).mean())) * 0.8


def test_what_does_not_fit_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = small().scan
    expected = ct.reconstruct(scan, 2).image
    monkeypatch.setattr(scan.system, "_kept", {})
    monkeypatch.setattr(scan.system, "_room", 200_000)
    assert np.array_equal(ct.reconstruct(scan, 2).image, expected)
    assert 0 < len(scan.system._kept) < scan.angles


# --- wrong input ----------------------------------------------------------------------------------

WRONG: list[tuple[list[str], str]] = [
    *((["--size", n], f"--size {n}: give a number from 2 to 8192") for n in ("1", "-4", "8193")),
    (["--size", "x"], "--size 'x': give a whole number"),
    *(
        (
            ["--size", "64", "--detectors", n],
            f"--detectors {n}: with --size 64 give an even number from 92 to 32768",
        )
        for n in ("90", "93", "-2", "32770")
    ),
    (
        ["--size", "63", "--detectors", "92"],
        "--detectors 92: with --size 63 give an odd number from 91 to 32768",
    ),
    (["--angles", "0"], "--angles 0: with 182 detectors give a number from 1 to 11799360"),
    *(
        (
            ["--angles", "90", "--subsets", n],
            f"--subsets {n}: give a number that divides the 90 angles",
        )
        for n in ("0", "-1", "4", "180")
    ),
    *(
        (["--smoothing", text], f"--smoothing {text}: give a finite number of at least 0")
        for text in ("-1", "nan", "inf")
    ),
    (["--smoothing", "x"], "--smoothing 'x': give a number"),
    (["--halo"], "--halo is for jacobi; leave it out with ct"),
    (
        ["--data", "a.mtx"],
        "--data is for pagerank, jacobi, sssp and als; leave it out with ct",
    ),
    (
        ["--tolerance", "1"],
        "--tolerance is not for ct, which makes a fixed number of iterations; give --iterations",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, words: list[str], sentence: str) -> None:
    ran = run(*STUDY, *words)
    assert ran.err == f"interlace: {sentence}\n"
    assert (ran.code, ran.out) == (2, "")
    assert core.calls == []


def test_angles_are_for_ct(run: Run) -> None:
    ran = run("study", "jacobi", "--machine", MACHINE, "--angles", 4)
    assert (ran.code, ran.err) == (2, "interlace: --angles is for ct; leave it out with jacobi\n")


# --- verification ---------------------------------------------------------------------------------


def test_no_wrong_pixel_passes(core: Fake) -> None:
    workload = small()
    case = Case(2, SPLIT, Config(ranges=4))
    for at in (0, 40 * 20 + 20, 40 * 40 - 1):
        for value in (np.nan, np.inf, -np.inf, -1e-3, 2.0):
            outcome = workload.simulate(core, "machine", case)
            assert workload.verify(outcome) < 1e-6
            outcome.values[1, at] = value
            with pytest.raises(
                RunFailure, match=rf"split \(4 ranges\) on 2 GPUs: GPU 1 .* pixel {at},"
            ):
                workload.verify(outcome)
    outcome = workload.simulate(core, "machine", case)
    outcome.values[outcome.values == 0] = -1e-9
    with pytest.raises(RunFailure, match="a pixel is below 0"):
        workload.verify(outcome)


@pytest.mark.parametrize("iterations", [3, 12])
def test_an_old_part_is_found(iterations: int) -> None:
    workload = small(iterations=iterations)
    image, magnitude = workload.reference(iterations)
    before = ct.reconstruct(workload.scan, iterations - 1).image.ravel()
    wrong = np.abs(image - before) / magnitude
    for row in range(4, 36):  # the rows above and below the head are air
        assert wrong.reshape(40, 40)[row].max() > workload.allowed_error()


# --- the command ----------------------------------------------------------------------------------


def test_what_the_core_is_given(core: Fake) -> None:
    workload = small(iterations=7, subsets=5)
    outcome = workload.simulate(core, "machine", Case(3, SPLIT, Config(ranges=8)))
    assert core.calls == [("sim", 3, SPLIT, 7, 0.0, 8, MIB, 32, "")]
    assert outcome.values.shape == (3, 1600)
    assert workload.boundaries(3) == [0, 13 * 40, 26 * 40, 1600]
    assert small(subsets=1).size.endswith(", 1 subset")
    assert (small().iterations, small().scan.subsets, small(angles=6).scan.subsets) == (3, 4, 2)
    assert small().largest_part(4) == 4 * 10 * 40
    assert small(subsets=1).largest_part(1) > 4 * 20 * least_detectors(40)


@pytest.mark.usefixtures("core")
def test_the_facts_of_a_study(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["--size", 32, "--angles", 12, "--subsets", 3, "--json", out, "--gpus", 2]
    ran = run(*STUDY, *words)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(
        "ct, shepp-logan-32 (32 x 32 pixels, 12 angles, 46 detectors, 3 subsets), 3 iterations; "
    )
    data = json.loads(out.read_text())["data"]
    assert list(data) == [
        "name", "source", "size", "pixels_a_side", "angles", "detectors", "subsets", "smoothing",
        "start_cost", "cost", "subscribers", "iterations", "tolerance", "max_allowed_error",
    ]  # fmt: skip
    assert data["cost"] < data["start_cost"]


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["--size", 32, "--angles", 12, "--json", out, "--gpus", 2, "--repeats", 3]
    ran = run("study", "ct", *words)
    assert ran.code == 0, ran.err
    rows = {row["mechanism"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}


def test_the_real_core(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    words = ["--size", 36, "--angles", 8, "--gpus", "1,2,4", "--split", "2", "--json", out]
    ran = run(*STUDY, *words, "--iterations", 1)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + 2 * len(DEFAULTS)
    assert all(0 < row["max_error"] < 1e-5 for row in rows)


@pytest.mark.parametrize(("size", "angles"), [(40, 20), (33, 9), (150, 4)])
def test_the_reference_node(size: int, angles: int) -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(size=size, angles=angles, subsets=1, iterations=3)
    for gpus in (1, 3):
        outcome = workload._run(core, Case(gpus, INLINE), ("host", None), (3, 0.0))
        outcome.time_s = 1.0
        assert 0 < workload.verify(outcome) < workload.allowed_error() / 3


def test_what_a_long_run_counts_follows_from_short_ones() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small()
    case = Case(4, INLINE)
    found, work, sent = workload.count(core, case, 6)
    result = workload._run(core, case, ("host", None), (6, 0.0))
    assert (found.useful, found.wasted) == (result.wire.useful, result.wire.wasted)
    assert work == work_of(result.work, 0)
    assert sent == result.sent_bytes


def test_rays_go_to_those_that_need_them() -> None:
    core = pytest.importorskip("interlace._core")
    everybody, some = small(), small(subscribe="needed")
    case = Case(4, INLINE)
    found = some._run(core, case, ("host", None), (2, 0.0))
    same = everybody._run(core, case, ("host", None), (2, 0.0))
    assert np.array_equal(found.values, same.values)
    assert found.wire.useful == same.wire.useful
    assert found.wire.wasted is not None
    assert same.wire.wasted is not None
    assert found.wire.wasted < same.wire.wasted


def test_the_core_refuses_what_is_no_scan() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small()
    good = list(workload.arguments())
    cut = np.array(workload.boundaries(2), dtype=np.uint64)
    for place, wrong, sentence in (
        (0, good[0][:-1], "do not belong to the same scan"),
        (1, good[1][:, :-1].copy(), "do not belong to the same scan"),
        (2, good[2][:-1], "do not belong to the same scan"),
        (2, np.zeros_like(good[2]), "curvature is not above 0"),
        (3, 3, "cannot be cut into 3 equal subsets"),
        (4, -1.0, "beta must be a finite number"),
        (4, np.nan, "beta must be a finite number"),
    ):
        given = [*good[:place], wrong, *good[place + 1 :]]
        with pytest.raises(UserError, match=sentence):
            core.run_ct("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *given)
    odd = [array[:, :-1].copy() for array in good[:2]]
    with pytest.raises(UserError, match="needs an even number of detectors from 58 to 32768"):
        core.run_ct("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *odd, *good[2:])
