"""Tests the Jacobi workload: systems, the reference, verification and the command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import mmwrite
from scipy.sparse import coo_array

from fake_core import Asked, Fake, FakeCuda, with_halo
from interlace.base.errors import UserError
from interlace.data import reading
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.model.limits import work_of
from interlace.model.mechanism_table import (
    BULK_COPY,
    INFINITE_BANDWIDTH,
    INLINE,
    POLLING,
    PROACT_HARDWARE,
    SPLIT,
)
from interlace.model.mechanisms import DEFAULTS, MIB, Config
from interlace.model.run import Case, RunFailure
from interlace.workloads import jacobi
from interlace.workloads.jacobi import Jacobi, JacobiInputs, generate, jacobi_reference, load_banded
from study_helpers import MACHINE, Run

TINY = (
    "--rows",
    600,
    "--half-bandwidth",
    9,
    "--iterations",
    3,
)  # the tests of all workloads use these options, too


def faked(
    core: Fake, asked: Asked, diagonals: NDArray[np.float32], right: NDArray[np.float32], halo: bool
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    for array in (diagonals, right):
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
    assert diagonals.shape == (len(diagonals) // 2 * 2 + 1, right.size)
    system = jacobi.BandedSystem("fake", diagonals, right)
    exact = jacobi.jacobi_reference(system, asked.iterations).x
    result = core.run(asked, exact, asked.iterations, 0.0, diagonals.size, "jacobi_update")
    return with_halo(result, asked.boundaries, len(diagonals) // 2) if halo else result


BANNER = "%%MatrixMarket matrix coordinate real general\n"
STUDY = ["study", "jacobi", "--machine", MACHINE]


def dense(system: jacobi.BandedSystem) -> NDArray[np.float64]:
    half = system.half_bandwidth
    matrix = np.zeros((system.rows, system.rows))
    for i in range(system.rows):
        for k in range(-half, half + 1):
            if 0 <= i + k < system.rows:
                matrix[i, i + k] = system.diagonals[half + k, i]
    return matrix


def mixed_system(rows: int, half: int, seed: int) -> jacobi.BandedSystem:
    """Return a system with entries of both signs, so that sums cancel."""
    random = np.random.default_rng(seed)
    made = generate(rows, half, seed)
    flip = random.choice(np.array([-1, 1], dtype=np.float32), made.diagonals.shape)
    flip[half] = 1
    right = made.right * random.choice(np.array([-1, 1], dtype=np.float32), rows)
    return jacobi.BandedSystem("mixed", made.diagonals * flip, right)


# --- systems --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "half"), [(2, 1), (7, 6), (50, 3), (300, 17)])
def test_a_generated_system(rows: int, half: int) -> None:
    system = generate(rows, half, 3)
    assert system.diagonals.shape == (2 * half + 1, rows)
    assert system.diagonals.dtype == system.right.dtype == np.float32
    assert system.diagonals.flags.c_contiguous
    for k in range(-half, half + 1):
        outside = [i for i in range(rows) if not 0 <= i + k < rows]
        assert np.all(system.diagonals[half + k, outside] == 0)
    matrix = dense(system)
    others = np.abs(matrix).sum(axis=1) - np.diag(matrix)
    assert np.all(np.diag(matrix) > others)
    assert system.dominance == pytest.approx(jacobi.DOMINANCE, rel=1e-6)
    assert np.all((system.right >= 0.5) & (system.right < 1.5))


def test_a_seed_gives_the_same_system_for_ever() -> None:
    system = generate(5, 1, 1)
    again = generate(5, 1, 1)
    assert np.array_equal(system.diagonals, again.diagonals)
    assert np.array_equal(system.right, again.right)
    raw = np.random.PCG64(1).random_raw(15) >> np.uint64(40)
    assert np.array_equal(system.diagonals[0, 1:], -(raw[1:5] / 2**24))
    assert np.array_equal(system.diagonals[2, :4], -(raw[5:9] / 2**24))
    assert np.array_equal(system.right, (0.5 + raw[10:] / 2**24).astype(np.float32))
    assert not np.array_equal(generate(5, 1, 2).right, system.right)


def test_the_reference_solves_the_system() -> None:
    for system in (generate(60, 4), mixed_system(60, 4, 1), generate(9, 8)):
        matrix = dense(system)
        found = jacobi_reference(system, 300)
        exact = np.linalg.solve(matrix, system.right.astype(np.float64))
        assert np.allclose(found.x, exact, rtol=1e-10, atol=1e-12)
        diagonal = np.diag(matrix)
        x = np.zeros(system.rows)
        bound = np.zeros(system.rows)
        rest = matrix - np.diag(diagonal)
        for _ in range(7):
            x = (system.right - rest @ x) / diagonal
            bound = (np.abs(system.right) + np.abs(rest) @ bound) / diagonal
        short = jacobi_reference(system, 7)
        assert np.allclose(short.x, x, rtol=1e-13, atol=1e-15)
        assert np.allclose(short.magnitude, bound, rtol=1e-13)


def test_a_diagonal_matrix_needs_one_iteration() -> None:
    system = jacobi.BandedSystem(
        "diagonal", np.array([[2, 4]], dtype=np.float32), np.array([1, 1], dtype=np.float32)
    )
    assert jacobi_reference(system, 3).x.tolist() == [0.5, 0.25]
    assert system.dominance == 0


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_round_trip(tmp_path: Path, symmetric: bool, packed: bool) -> None:
    matrix = dense(mixed_system(40, 3, 2))
    if symmetric:
        matrix = matrix + matrix.T + 9 * np.eye(40)
    path = tmp_path / "band.mtx"
    mmwrite(path, coo_array(matrix), symmetry="symmetric" if symmetric else "general")
    if packed:
        text = path.read_bytes()
        path = tmp_path / "band.mtx.gz"
        path.write_bytes(gzip.compress(text))
    system = load_banded(path, 5)
    assert system.name == "band"
    assert system.half_bandwidth == 3
    assert np.array_equal(dense(system), matrix.astype(np.float32))
    assert np.array_equal(system.right, load_banded(path, 5).right)
    assert not np.array_equal(system.right, load_banded(path, 6).right)


def test_the_slow_reader_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BANNER.replace("general", "symmetric") + "3 3 4\n1 1 5\n2 2 6.5\n3 3 7\n2 1 -1e0\n"
    (tmp_path / "a.mtx").write_text(text)
    fast = load_banded(tmp_path / "a.mtx")
    monkeypatch.setattr(reading, "_fast_matrix_market", lambda *_: None)
    slow = load_banded(tmp_path / "a.mtx")
    assert np.array_equal(fast.diagonals, slow.diagonals)
    assert fast.diagonals.tolist() == [[0, -1, 0], [5, 6.5, 7], [-1, 0, 0]]


def test_entries_at_one_place_are_added(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(BANNER + "2 2 5\n1 1 2\n2 2 3\n1 1 2\n2 1 0.5\n2 1 0.25\n")
    assert load_banded(tmp_path / "a.mtx").diagonals.tolist() == [[0, 0.75], [4, 3], [0, 0]]


FILES = {
    "wide.mtx": BANNER + "600 600 2\n1 1 1\n599 5 1\n",
    "weak.mtx": BANNER + "3 3 5\n1 1 5\n2 2 2\n3 3 5\n2 1 1.5\n2 3 -0.5\n",
    "negative.mtx": BANNER + "2 2 2\n1 1 5\n2 2 -3\n",
    "hole.mtx": BANNER + "2 2 1\n1 1 5\n",
    "large.mtx": BANNER + "2 2 2\n1 1 1e300\n2 2 1\n",
    "nan.mtx": BANNER + "2 2 2\n1 1 1\n2 2 nan\n",
    "pattern.mtx": BANNER.replace("real", "pattern") + "2 2 2\n1 1\n2 2\n",
    "long.mtx": BANNER + "2 3 2\n1 1 1\n2 2 1\n",
    "none.mtx": BANNER + "2 2 0\n",
    "word.mtx": BANNER + "2 2 2\n1 1 1\n2 2 x\n",
    "empty.mtx": "",
}
WRONG: list[tuple[list[str], str]] = [
    (
        ["--data", "{folder}/wide.mtx"],
        "{folder}/wide.mtx is not banded: entry (599, 5) is 594 diagonals away from the main "
        "diagonal, but at most 512 are possible; reorder the rows and "
        "columns, or take another matrix",
    ),
    (
        ["--data", "{folder}/weak.mtx"],
        "{folder}/weak.mtx is not diagonally dominant: row 2 has 2 on the diagonal and needs "
        "more than 2, the sum of its other entries' magnitudes; take another matrix",
    ),
    (
        ["--data", "{folder}/negative.mtx"],
        "{folder}/negative.mtx is not diagonally dominant: row 2 has -3 on the diagonal and needs "
        "more than 0, the sum of its other entries' magnitudes; take another matrix",
    ),
    (
        ["--data", "{folder}/hole.mtx"],
        "{folder}/hole.mtx is not diagonally dominant: row 2 has 0 on the diagonal and needs "
        "more than 0, the sum of its other entries' magnitudes; take another matrix",
    ),
    *(
        (
            ["--data", f"{{folder}}/{name}.mtx"],
            f"{{folder}}/{name}.mtx: row {row} has a value that is not a finite float32; correct "
            "it or scale the matrix",
        )
        for name, row in (("large", 1), ("nan", 2))
    ),
    (
        ["--data", "{folder}/pattern.mtx"],
        "{folder}/pattern.mtx, line 1: field 'pattern' is impossible for a linear system; convert "
        "the file to real or integer",
    ),
    (
        ["--data", "{folder}/long.mtx"],
        "{folder}/long.mtx, line 2: the matrix is 2 x 3; a linear system has a square matrix; "
        "name another file",
    ),
    (
        ["--data", "{folder}/none.mtx"],
        "{folder}/none.mtx, line 2: the matrix has no entries; name another file",
    ),
    (
        ["--data", "{folder}/word.mtx"],
        "{folder}/word.mtx, line 4: expected two integers and a value, found '2 2 x'; correct the "
        "line",
    ),
    (
        ["--data", "{folder}/empty.mtx"],
        "{folder}/empty.mtx is empty; name a file that holds a matrix",
    ),
    (["--data", "{folder}/no.mtx"], "{folder}/no.mtx does not exist; check the path"),
    (["--data", "{folder}"], "{folder} is a directory; name a matrix file in it"),
    (
        ["--data", "{folder}/graph.el"],
        "{folder}/graph.el: files of matrices end in .mtx or .mtx.gz; name such a file",
    ),
    (
        ["--data", "{folder}/weak.mtx", "--rows", "9"],
        "--rows is for generated systems; leave it out with --data",
    ),
    (
        ["--data", "{folder}/weak.mtx", "--half-bandwidth", "9"],
        "--half-bandwidth is for generated systems; leave it out with --data",
    ),
    (["--rows", "1"], "--rows 1: give a number from 2 to 4294966272"),
    (["--rows", "many"], "--rows 'many': give a whole number"),
    (
        ["--half-bandwidth", "0"],
        "--half-bandwidth 0: with 32768 rows give a number from 1 to 512",
    ),
    (
        ["--rows", "9", "--half-bandwidth", "9"],
        "--half-bandwidth 9: with 9 rows give a number from 1 to 8",
    ),
    (["--seed", "-1"], "--seed -1: give a number of at least 0"),
    *(
        (["--tolerance", text], f"--tolerance {text}: give a finite number above 0")
        for text in ("0", "-1", "nan", "inf")
    ),
    (["--iterations", "0"], "--iterations 0: give a number from 1 to 1000000"),
    (["--damping", "0.5"], "--damping is for pagerank; leave it out with jacobi"),
    (["--rmat", "5"], "--rmat is for pagerank and sssp; leave it out with jacobi"),
    (["--edge-factor", "5"], "--edge-factor is for pagerank and sssp; leave it out with jacobi"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(run: Run, core: Fake, tmp_path: Path, words: list[str], sentence: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    ran = run(*STUDY, *(word.format(folder=tmp_path) for word in words))
    assert ran.err == f"interlace: {sentence.format(folder=tmp_path)}\n"
    assert (ran.code, ran.out) == (2, "")
    assert core.calls == []


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("words", [["--rows", "9"], ["--half-bandwidth", "2"], ["--halo"]])
def test_options_of_jacobi_with_pagerank(run: Run, words: list[str]) -> None:
    ran = run("study", "pagerank", "--rmat", 4, "--machine", MACHINE, *words)
    assert ran.code == 2
    takers = "jacobi and halo-jacobi" if words[0] == "--rows" else "jacobi"
    assert ran.err == f"interlace: {words[0]} is for {takers}; leave it out with pagerank\n"


def test_memory_is_checked_before_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(UserError, match=r"a band of 10000000 rows .* needs about 2.4 GB"):
        generate(10_000_000, 8)
    (tmp_path / "a.mtx").write_text(BANNER + "4000000 4000000 2\n1 1 1\n500 1 1\n")
    with pytest.raises(UserError, match=r"a.mtx needs about 48.1 GB .* take a smaller matrix"):
        load_banded(tmp_path / "a.mtx")


# --- verification ---------------------------------------------------------------------------------


def small(**options: Any) -> Jacobi:
    return Jacobi.load(JacobiInputs(rows=90, half_bandwidth=4, **options), None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -1.0])
@pytest.mark.parametrize("halo", [None, True])
def test_no_wrong_number_passes(core: Fake, value: float, halo: bool | None) -> None:
    workload = small(halo=halo)
    for row in (41, 45, 89):  # GPU 1 needs row 41 of GPU 0, and owns rows 45 and 89
        outcome = workload.simulate(core, "machine", Case(2, SPLIT, Config(ranges=4)))
        assert workload.verify(outcome) < 1e-7
        outcome.values[1, row] = value
        with pytest.raises(RunFailure, match=rf"split \(4 ranges\) on 2 GPUs: GPU 1 .* row {row}"):
            workload.verify(outcome)


def test_with_a_halo_only_what_a_gpu_needs_is_compared(core: Fake) -> None:
    workload = small(halo=True)
    outcome = workload.simulate(core, "machine", Case(3, INLINE))
    assert np.isnan(outcome.values).sum() == (60 - 4) + (30 - 4) + (30 - 4) + (60 - 4)
    assert workload.verify(outcome) < 1e-7
    assert [workload.held(outcome.case, d) for d in range(3)] == [
        slice(0, 34), slice(26, 64), slice(56, 90),
    ]  # fmt: skip
    everybody = small()
    outcome.values[0, 89] = np.nan
    with pytest.raises(RunFailure, match="GPU 0 has nan for row"):
        everybody.verify(outcome)


def test_one_old_value_is_found() -> None:
    # This row was computed with the value that a neighbour had in the previous iteration.
    workload = small()
    system = workload.system
    old, new = (jacobi_reference(system, n).x for n in (9, 10))
    last = jacobi_reference(system, 8).x
    changed = system.diagonals[4 + 1, 30] * (old[31] - last[31]) / system.diagonals[4, 30]
    assert abs(changed) / new[30] > 10 * workload.allowed_error()


def test_what_rounding_does_is_allowed() -> None:
    for system in (generate(3000, 8), mixed_system(3000, 8, 5), mixed_system(3000, 200, 6)):
        workload = Jacobi(system, "", JacobiInputs())
        half = system.half_bandwidth
        reciprocal = np.float32(1) / system.diagonals[half]
        x = np.zeros(system.rows, dtype=np.float32)
        for _ in range(workload.iterations):
            padded = np.pad(x, half)
            rest = system.right.copy()
            for k in range(2 * half + 1):
                if k != half:
                    rest -= system.diagonals[k] * padded[k : k + system.rows]
            x = rest * reciprocal
        exact, magnitude = workload.reference(workload.iterations)
        worst = (np.abs(x - exact) / magnitude).max()
        assert 0 < worst < workload.allowed_error() < 1e-4


def test_a_result_of_the_wrong_shape_fails(core: Fake) -> None:
    workload = small()
    outcome = workload.simulate(core, "machine", Case(2, INLINE))
    outcome.values = outcome.values[:, :-1]
    with pytest.raises(RunFailure, match=r"unknowns of shape \(2, 89\), expected \(2, 90\)"):
        workload.verify(outcome)


# --- the command ----------------------------------------------------------------------------------


def test_what_the_core_is_given(core: Fake) -> None:
    workload = small(iterations=7)
    outcome = workload.simulate(core, "machine", Case(4, SPLIT, Config(ranges=8)))
    assert core.calls == [("sim", 4, SPLIT, 7, 0.0, 8, MIB, 32, "")]
    assert outcome.values.shape == (4, 90)
    assert workload.boundaries(4) == [0, 22, 45, 67, 90]


@pytest.mark.usefixtures("core")
def test_the_facts_of_a_study(run: Run, tmp_path: Path) -> None:
    out, page = tmp_path / "o.json", tmp_path / "o.html"
    ran = run(*STUDY, "--rows", 90, "--halo", "--json", out, "--html", page, "--gpus", 2)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(
        "jacobi, banded-90-k8 (90 rows, half bandwidth 8, halo), 10 iterations; simulated on "
    )
    data = json.loads(out.read_text())["data"]
    assert list(data) == [
        "name", "source", "size", "rows", "half_bandwidth", "dominance", "subscribers",
        "iterations", "tolerance", "max_allowed_error",
    ]  # fmt: skip
    assert data["source"] == "generated, 90 rows, half bandwidth 8, seed 1"
    assert data["subscribers"] == "halo"
    assert "banded-90-k8: 90 rows, half bandwidth 8, halo" in page.read_text()


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["study", "jacobi", "--rows", 90, "--gpus", 2, "--repeats", 3, "--json", out]
    ran = run(*words)
    assert ran.code == 0, ran.err
    rows = {row["mechanism"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows[INLINE]["wire"]["protocol"] > 0
    assert rows[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}


@pytest.mark.parametrize("halo", [False, True])
def test_the_real_core(run: Run, tmp_path: Path, halo: bool) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    mmwrite(tmp_path / "band.mtx", coo_array(dense(mixed_system(500, 6, 3))))
    words = ["--data", tmp_path / "band.mtx", "--gpus", "1,2,4", "--split", "2,4", "--json", out]
    ran = run(*STUDY, *words, *(["--halo"] if halo else []))
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + 2 * len(DEFAULTS)
    for row in rows:
        assert 0 < row["max_error"] < 1e-6
        if row["gpus"] > 1 and row["mechanism"] != INFINITE_BANDWIDTH:
            assert row["wire"]["useful"] == 2 * 6 * 4 * 10 * (row["gpus"] - 1)
            assert (row["wire"]["wasted"] == 0) == halo


@pytest.mark.parametrize("halo", [None, True])
def test_what_a_long_run_counts_follows_from_short_ones(halo: bool | None) -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(halo=halo)
    case = Case(4, POLLING, Config(chunk_bytes=MIB, agent_threads=32))
    found, work, sent = workload.count(core, case, 9)
    assert found == workload.count(core, Case(4, BULK_COPY), 9).wire
    result = workload._run(core, case, ("host", None), (9, 0.0))
    assert (found.useful, found.wasted) == (result.wire.useful, result.wire.wasted)
    assert work == work_of(result.work, 0)
    assert sent == result.sent_bytes
    assert found.useful == 2 * 4 * 4 * 9 * 3


def test_a_tolerance(run: Run) -> None:
    pytest.importorskip("interlace._core")
    words = ["--rows", 200, "--gpus", 2, "--mechanisms", INLINE]
    ran = run(*STUDY, *words, "--tolerance", "1e-2")
    assert ran.code == 0, ran.err
    ran = run(*STUDY, *words, "--tolerance", "1e-2", "--iterations", 3)
    assert ran.code == 0
    assert ", 3 iterations;" in ran.out


def test_no_residual_ends_a_run_without_transfers() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(tolerance=1.0, iterations=40)
    machine = to_core(load_machine("4x-volta-nvlink2"), core)
    case = Case(2, PROACT_HARDWARE)
    assert workload.simulate(core, machine, case).iterations < 40
    assert workload.simulate(core, machine, case.without_transfers()).iterations == 40


def test_the_core_refuses_what_is_no_band() -> None:
    core = pytest.importorskip("interlace._core")
    right = np.ones(4, dtype=np.float32)
    cut = np.array([0, 4], dtype=np.uint64)
    for diagonals, sentence in (
        (np.ones((2, 4)), "not those of a band"),
        (np.ones((3, 5)), "not those of a band"),
        (np.ones((9, 4)), "not those of a band"),
        (np.zeros((3, 4)), "the main diagonal has a zero"),
    ):
        with pytest.raises(UserError, match=sentence):
            core.run_jacobi(
                "host",
                None,
                BULK_COPY,
                cut,
                1,
                0.0,
                1,
                MIB,
                32,
                "",
                diagonals.astype(np.float32),
                right,
                False,
            )
    good = np.ones((1, 4), dtype=np.float32)
    for wrong, sentence in (([0], "0 GPUs cannot be"), ([0, 3], "do not cut the elements")):
        with pytest.raises(UserError, match=sentence):
            core.run_jacobi(
                "host", None, BULK_COPY, np.array(wrong, dtype=np.uint64), 1, 0.0, 1, MIB, 32, "",
                good, right, False,
            )  # fmt: skip
