"""Tests matrix factorisation: ratings, references, verification and the command."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import mmwrite
from scipy.sparse import coo_array

from fake_core import Asked, Fake, FakeCuda
from interlace.base.errors import UserError
from interlace.data import ratings, reading
from interlace.data.ratings import Ratings, generate, load_ratings
from interlace.model.limits import work_of
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE, SPLIT
from interlace.model.mechanisms import DEFAULTS, MIB, Config
from interlace.model.run import Case, RunFailure
from interlace.workloads.als import Als, AlsInputs
from study_helpers import MACHINE, Run

# The tests of all workloads use these options, too.
TINY = ("--users", 90, "--items", 60, "--ratings", 700, "--iterations", 1)


def faked(
    core: Fake,
    asked: Asked,
    user_offsets: NDArray[np.uint64],
    user_items: NDArray[np.uint32],
    user_values: NDArray[np.float32],
    item_offsets: NDArray[np.uint64],
    item_users: NDArray[np.uint32],
    item_values: NDArray[np.float32],
    start_users: NDArray[np.float32],
    start_items: NDArray[np.float32],
    method: str,
    damping: float,
    rate: float,
    steps: int,
    kernel: str,
    subscribe: str,
) -> dict[str, Any]:
    """Return the result that the compiled module would return."""
    assert kernel in ("warp-per-row", "lane-per-row")
    assert subscribe in ("all", "needed")
    for array in (user_values, item_values, start_users, start_items):
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
    rated = ratings.Ratings(
        "fake",
        ratings.Side(user_offsets.astype(np.int64), user_items, user_values),
        ratings.Side(item_offsets.astype(np.int64), item_users, item_values),
    )
    by = (
        ratings.by_equations(damping)
        if method == "als"
        else ratings.by_gradient(damping, rate, steps)
    )
    start = start_users.astype(np.float64), start_items.astype(np.float64)
    users, items = ratings.factorise(rated, start, asked.iterations, by)
    exact = np.concatenate([users.ravel(), items.ravel()])
    name = "renew_rows"
    return core.run(asked, exact, asked.iterations, 0.0, rated.count, name, elements=users.size)


BANNER = "%%MatrixMarket matrix coordinate real general\n"
STUDY = ["study", "als", "--machine", MACHINE]
METHODS = ["als", "sgd"]


def entries(rated: Ratings) -> list[tuple[int, int, float]]:
    """Return the user, item and value of each rating, sorted by user."""
    side = rated.users
    return [
        (int(u), int(i), float(v))
        for u, i, v in zip(side.row_of, side.others, side.values, strict=True)
    ]


def small(**options: Any) -> Als:
    return Als.load(AlsInputs(users=70, items=30, ratings=900, **options), None)


# --- ratings --------------------------------------------------------------------------------------


def test_generated_ratings() -> None:
    rated = generate(200, 50, 5000, 3)
    assert rated.count == rated.items.values.size == 5000
    assert (rated.users.rows, rated.items.rows) == (200, 50)
    turned = sorted((u, i, v) for i, u, v in entries(Ratings("", rated.items, rated.users)))
    assert sorted(entries(rated)) == turned
    values = rated.users.values
    assert values.dtype == np.float32
    assert 0.5 < values.min() < values.max() < 5.5
    counts = np.diff(rated.users.offsets)
    assert 0.4 < counts[:25].sum() / 5000 < 0.6
    again = generate(200, 50, 5000, 3)
    assert np.array_equal(again.users.values, values)
    assert not np.array_equal(generate(200, 50, 5000, 4).users.values, values)


def test_factors_start_at_the_mean_rating() -> None:
    rated = generate(300, 200, 9000)
    for rank in (16, 32):
        users, items = ratings.start_factors(rated, rank, 2)
        assert users.shape == (300, rank)
        assert items.shape == (200, rank)
        assert users.dtype == items.dtype == np.float32
        assert users.flags.c_contiguous
        predicted = ratings.predictions(rated.users, users, items)
        assert predicted.mean() == pytest.approx(rated.users.values.mean(), rel=0.1)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("quick", [False, True])
def test_a_file_round_trip(
    tmp_path: Path, packed: bool, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = np.zeros((4, 7))
    matrix[[0, 3, 3, 1], [6, 0, 2, 2]] = [1.5, 4, -2, 0.25]
    path = tmp_path / "some.mtx"
    mmwrite(path, coo_array(matrix))
    if packed:
        text = path.read_bytes()
        path = tmp_path / "some.mtx.gz"
        path.write_bytes(gzip.compress(text))
    if not quick:
        monkeypatch.setattr(reading, "_fast_matrix_market", lambda *_: None)
    rated = load_ratings(path)
    assert rated.name == "some"
    assert (rated.users.rows, rated.items.rows) == (4, 7)
    assert entries(rated) == [(0, 6, 1.5), (1, 2, 0.25), (3, 0, 4), (3, 2, -2)]
    assert rated.items.offsets.tolist() == [0, 1, 1, 3, 3, 3, 3, 4]
    assert rated.items.others.tolist() == [3, 1, 3, 0]
    assert rated.items.values.tolist() == [4, 0.25, -2, 1.5]


# --- references -----------------------------------------------------------------------------------


def test_least_squares_minimise() -> None:
    rated = generate(20, 15, 100, 2)
    random = np.random.default_rng(1)
    own, other = random.normal(size=(20, 16)), random.normal(size=(15, 16))
    found = ratings.by_equations(0.1)(rated.users, own, other)

    def cost(x: Any, user: int) -> float:
        part = slice(rated.users.offsets[user], rated.users.offsets[user + 1])
        error = rated.users.values[part] - other[rated.users.others[part]] @ x
        return float(error @ error + 0.1 * (part.stop - part.start) * x @ x)

    for user in range(20):
        if rated.users.offsets[user] == rated.users.offsets[user + 1]:
            assert not found[user].any()
            continue
        least = cost(found[user], user)
        for _ in range(20):
            assert cost(found[user] + 1e-3 * random.normal(size=16), user) > least


def test_gradient_steps_go_down() -> None:
    rated = generate(20, 15, 100, 2)
    random = np.random.default_rng(1)
    own, other = random.normal(size=(20, 16)), random.normal(size=(15, 16))
    for steps in (1, 3):
        found = ratings.by_gradient(0.1, 0.05, steps)(rated.users, own, other)
        for user in range(20):
            part = slice(rated.users.offsets[user], rated.users.offsets[user + 1])
            y, r = other[rated.users.others[part]], rated.users.values[part]
            x = own[user].copy()
            for _ in range(steps if r.size else 0):
                x += 0.05 * (((r - y @ x) @ y) / r.size - 0.1 * x)
            assert np.allclose(found[user], x, rtol=1e-12)


# --- wrong input ----------------------------------------------------------------------------------

FILES = {
    "good.mtx": BANNER + "2 3 2\n1 1 2\n2 3 1\n",
    "none.mtx": BANNER + "2 3 0\n",
    "nan.mtx": BANNER + "2 3 2\n1 1 2\n2 3 nan\n",
    "large.mtx": BANNER + "2 3 1\n2 3 1e300\n",
    "far.mtx": BANNER + "2 3 2\n1 1 2\n2 4 1\n",
    "many.mtx": BANNER + "2 3 2\n1 1 2\n3 1 1\n",
    "pattern.mtx": BANNER.replace("real", "pattern") + "2 3 1\n1 1\n",
    "mirrored.mtx": BANNER.replace("general", "symmetric") + "2 2 1\n1 1 1\n",
    "empty.mtx": "",
}
WRONG: list[tuple[list[str], str]] = [
    (
        ["--data", "{folder}/none.mtx"],
        "{folder}/none.mtx, line 2: there are no ratings; name another file",
    ),
    *(
        (
            ["--data", f"{{folder}}/{name}.mtx"],
            f"{{folder}}/{name}.mtx: the rating of item 3 by user 2 is {shown}, which is not a "
            "finite float32; correct it",
        )
        for name, shown in (("nan", "nan"), ("large", "1e+300"))
    ),
    (
        ["--data", "{folder}/far.mtx"],
        "{folder}/far.mtx, line 4: index 4 is outside 1 .. 3; correct the line or the sizes",
    ),
    (
        ["--data", "{folder}/many.mtx"],
        "{folder}/many.mtx, line 4: index 3 is outside 1 .. 2; correct the line or the sizes",
    ),
    (
        ["--data", "{folder}/pattern.mtx"],
        "{folder}/pattern.mtx, line 1: field 'pattern' is impossible for ratings; convert the file "
        "to real or integer",
    ),
    (
        ["--data", "{folder}/mirrored.mtx"],
        "{folder}/mirrored.mtx, line 1: symmetry 'symmetric' is impossible for ratings; convert "
        "the file to general",
    ),
    (
        ["--data", "{folder}/empty.mtx"],
        "{folder}/empty.mtx is empty; name a file that holds ratings",
    ),
    (["--data", "{folder}"], "{folder} is a directory; name a file of ratings in it"),
    (
        ["--data", "{folder}/graph.el"],
        "{folder}/graph.el: files of ratings end in .mtx or .mtx.gz; name such a file",
    ),
    *(
        (
            ["--data", "{folder}/good.mtx", option, "9"],
            f"{option} is for random ratings; leave it out with --data",
        )
        for option in ("--users", "--items", "--ratings")
    ),
    *(
        ([option, "0"], f"{option} 0: give a number from 1 to {2**27 - 1}")
        for option in ("--users", "--items")
    ),
    (["--ratings", "0"], "--ratings 0: give a number from 1 to 2**32 - 1"),
    (["--rank", "8"], "--rank 8: give 16 or 32"),
    (["--rank", "x"], "--rank 'x': give a whole number"),
    (["--method", "svd"], "--method svd: give als or sgd"),
    *(
        (["--lambda", text], f"--lambda {text}: give a finite number of at least 1e-06")
        for text in ("0", "-1", "nan", "inf")
    ),
    (["--lambda", "x"], "--lambda 'x': give a number"),
    (["--kernel", "balanced"], "--kernel balanced: give warp-per-row or lane-per-row"),
    (
        ["--kernel", "lane-per-row"],
        "--kernel lane-per-row is for --method sgd; leave it out, or add --method sgd",
    ),
    (["--rate", "0.1"], "--rate is for --method sgd; leave it out, or add --method sgd"),
    (["--method", "sgd", "--rate", "0"], "--rate 0: give a finite number above 0"),
    (["--seed", "-1"], "--seed -1: give a number of at least 0"),
    (["--halo"], "--halo is for jacobi; leave it out with als"),
    (["--rmat", "4"], "--rmat is for pagerank and sssp; leave it out with als"),
    (
        ["--tolerance", "1"],
        "--tolerance is not for als, which makes a fixed number of iterations; give --iterations",
    ),
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
@pytest.mark.parametrize(
    ("words", "what"),
    [(["--lambda", "1000"], "--lambda"), (["--method", "sgd", "--rate", 50], "--rate or --lambda")],
)
def test_training_that_does_not_get_better(run: Run, words: list[str], what: str) -> None:
    ran = run(*STUDY, "--users", 30, "--items", 20, "--ratings", 200, *words)
    assert ran.code == 2
    assert "interlace: the training error does not fall in 5 iterations (from " in ran.err
    assert ran.err.endswith(f"); give a smaller {what}\n")


def test_memory_is_checked_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "memory_bytes", lambda: 1_000_000_000)
    with pytest.raises(UserError, match=r"100000000 ratings needs about 7.2 GB"):
        generate(1000, 1000, 100_000_000)


# --- verification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rank", [16, 32])
def test_no_wrong_number_passes(core: Fake, method: str, rank: int) -> None:
    workload = small(method=method, rank=rank)
    case = Case(2, SPLIT, Config(ranges=4))
    # The numbers of the users come before the numbers of the items.
    for at in (0, 70 * rank - 1, 70 * rank, 100 * rank - 1):
        for value in (np.nan, np.inf, -np.inf, -1.0):
            outcome = workload.simulate(core, "machine", case)
            assert workload.verify(outcome) < 1e-7
            outcome.values[1, at] = value
            with pytest.raises(
                RunFailure, match=rf"split \(4 ranges\) on 2 GPUs: GPU 1 .* number {at},"
            ):
                workload.verify(outcome)


@pytest.mark.parametrize("method", METHODS)
def test_an_old_factor_is_found(method: str) -> None:
    workload = Als.load(AlsInputs(users=300, items=100, ratings=9000, method=method), None)
    four, five = (workload.reference(n) for n in (4, 5))
    wrong = np.abs(four.values - five.values) / np.where(five.magnitude > 0, five.magnitude, 1)
    rated = five.magnitude.reshape(-1, 16)[:, 0] > 0
    assert (wrong.reshape(-1, 16).max(axis=1)[rated] > workload.allowed_error()).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rank", [16, 32])
def test_what_rounding_does_is_allowed(method: str, rank: int) -> None:
    inputs = AlsInputs(users=600, items=200, ratings=20000, method=method, rank=rank)
    workload = Als.load(inputs, None)
    exact, magnitude = workload.reference(5)
    found = ratings.factorise(workload.ratings, workload.start, 5, workload.renewal())
    rounded = np.concatenate([side.ravel() for side in found])
    assert rounded.dtype == np.float32
    error = np.abs(rounded - exact)
    assert not error[magnitude == 0].any()
    worst = (error[magnitude > 0] / magnitude[magnitude > 0]).max()
    assert 0 < worst < workload.allowed_error() < 2e-3


# --- the command ----------------------------------------------------------------------------------


def test_what_the_core_is_given(core: Fake) -> None:
    workload = small(iterations=7)
    outcome = workload.simulate(core, "machine", Case(4, SPLIT, Config(ranges=8)))
    assert core.calls == [("sim", 4, SPLIT, 7, 0.0, 8, MIB, 32, "")]
    assert outcome.values.shape == (4, 100 * 16)
    cut = workload.boundaries(4)
    assert cut[0] == 0
    assert cut[-1] == 70 * 16
    assert all(boundary % 16 == 0 for boundary in cut)
    assert small().iterations == 5
    work = [
        int(workload.ratings.users.offsets[b // 16] - workload.ratings.users.offsets[a // 16])
        for a, b in pairwise(cut)
    ]
    assert max(work) < 2 * min(work)


@pytest.mark.usefixtures("core")
def test_the_facts_of_a_study(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["--users", 50, "--items", 20, "--ratings", 300, "--json", out, "--gpus", 2]
    ran = run(*STUDY, *words)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(
        "als, ratings-50x20-300 (50 users, 20 items, 300 ratings, rank 16, als), 5 iterations; "
    )
    data = json.loads(out.read_text())["data"]
    assert list(data) == [
        "name", "source", "size", "users", "items", "ratings", "rank", "method", "lambda", "rate",
        "start_rmse", "rmse", "subscribers", "kernel", "iterations", "tolerance",
        "max_allowed_error",
    ]  # fmt: skip
    assert data["source"] == "generated, 300 ratings of 20 items by 50 users, seed 1"
    assert data["rmse"] < data["start_rmse"]


def test_a_measured_study(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["--users", 50, "--items", 20, "--ratings", 300, "--json", out]
    ran = run("study", "als", *words, "--gpus", 2, "--repeats", 3)
    assert ran.code == 0, ran.err
    rows = {row["mechanism"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows[INFINITE_BANDWIDTH]["derived"]
    assert {call[0] for call in cuda.calls} == {"cuda"}


@pytest.mark.parametrize("method", METHODS)
def test_the_real_core(run: Run, tmp_path: Path, method: str) -> None:
    pytest.importorskip("interlace._core")
    out = tmp_path / "o.json"
    random = np.random.default_rng(4)
    matrix = random.uniform(1, 5, (40, 25)) * (random.random((40, 25)) < 0.3)
    mmwrite(tmp_path / "some.mtx", coo_array(matrix))
    words = ["--data", tmp_path / "some.mtx", "--gpus", "1,2,4", "--split", "2", "--json", out]
    ran = run(*STUDY, *words, "--method", method, "--iterations", 2)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 1 + 2 * len(DEFAULTS)
    assert all(0 < row["max_error"] < 1e-4 for row in rows)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rank", [16, 32])
def test_the_reference_node(method: str, rank: int) -> None:
    core = pytest.importorskip("interlace._core")
    workload = small(method=method, rank=rank, iterations=3)
    for gpus in (1, 3):
        outcome = workload._run(core, Case(gpus, INLINE), ("host", None), (3, 0.0))
        outcome.time_s = 1.0
        assert 0 < workload.verify(outcome) < workload.allowed_error() / 3


def test_only_factors_that_a_gpu_reads_are_compared() -> None:
    core = pytest.importorskip("interlace._core")
    for method, kernel in (("als", None), ("sgd", "lane-per-row")):
        workload = small(method=method, kernel=kernel, iterations=3, subscribe="needed")
        case = Case(3, INLINE)
        start = workload._run(core, case, ("host", None), (1, 0.0))
        outcome = workload._run(core, case, ("host", None), (3, 0.0))
        outcome.time_s = start.time_s = 1.0
        assert 0 < workload.verify(outcome) < workload.allowed_error() / 3
        for device in range(3):
            held = workload.held(case, device)
            assert isinstance(held, np.ndarray)
            assert (np.diff(held) > 0).all()
            at = int(held[len(held) // 2])
            kept = outcome.values[device][at]
            outcome.values[device][at] = start.values[device][at]
            with pytest.raises(RunFailure, match=rf"GPU {device} has .* for number {at},"):
                workload.verify(outcome)
            outcome.values[device][at] = kept


def test_what_a_long_run_counts_follows_from_short_ones() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small()
    case = Case(4, INLINE)
    found, work, sent = workload.count(core, case, 6)
    result = workload._run(core, case, ("host", None), (6, 0.0))
    assert (found.useful, found.wasted) == (result.wire.useful, result.wire.wasted)
    assert work == work_of(result.work, 0)
    assert sent == result.sent_bytes


def test_the_core_refuses_what_are_no_ratings() -> None:
    core = pytest.importorskip("interlace._core")
    workload = small()
    good = list(workload.arguments())
    cut = np.array(workload.boundaries(2), dtype=np.uint64)
    for place, wrong, sentence in (
        (0, good[0][:-1], "do not divide the given columns into rows"),
        (1, good[1] + np.uint32(30), "not one of the 30 items"),
        (4, good[4] + np.uint32(70), "not one of the 70 users"),
        (
            2,
            good[2][:-1],
            "ratings sorted by users and those sorted by items have different lengths",
        ),
        (6, good[6][:-1].copy(), "not one of the 69 users|do not match the users and items"),
        (7, good[7][:, :8].copy(), "do not match the users and items"),
        (8, "svd", "unknown method 'svd'; give 'als' or 'sgd'"),
        (9, 0.0, "lambda must be above 0"),
        (12, "runs", "unknown kernel 'runs'; give 'warp-per-row' or 'lane-per-row'"),
        (12, "lane-per-row", "lane-per-row is a kernel of method sgd"),
    ):
        given = [*good[:place], wrong, *good[place + 1 :]]
        with pytest.raises(UserError, match=sentence):
            core.run_als("host", None, BULK_COPY, cut, 1, 0.0, 1, MIB, 32, "", *given)
    given = [*good[:6], good[6][:, :8].copy(), good[7][:, :8].copy(), *good[8:]]
    with pytest.raises(UserError, match="the rank is 8; it must be 16 or 32"):
        core.run_als("host", None, BULK_COPY, cut // np.uint64(2), 1, 0.0, 1, MIB, 32, "", *given)
