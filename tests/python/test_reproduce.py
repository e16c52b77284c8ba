"""Tests `interlace reproduce` with a fake core and tiny inputs: its figures must match its runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fake_core import Fake, FakeCuda
from interlace.base.statistics import geometric_mean
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.model.mechanism_table import (
    BULK_COPY,
    DEVICE_LAUNCH,
    INFINITE_BANDWIDTH,
    INLINE,
    POLLING,
    PROACT_HARDWARE,
    SERIAL_COPY,
)
from interlace.model.mechanisms import KIB, MIB, Config
from interlace.model.run import Case
from interlace.nodes.nodes import CudaNode, in_processes, real_node
from interlace.reproduce import proact, runs
from interlace.reproduce import proact_inputs as given
from interlace.reproduce.proact_inputs import Sizes
from interlace.reproduce.rows import agreement, row
from interlace.reproduce.runs import Runner
from interlace.workloads import WORKLOADS
from study_helpers import Run

TINY = Sizes(pagerank_scale=6, jacobi_rows=256, sssp_side=3, als_side=3, ct_size=16)
NEEDED = ("speedup-4", "bulk-copy-4", "opportunity-4", "speedup-16", "vs-bulk-copy-16")


pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use two workloads with tiny inputs, and few chunks of the microbenchmark."""
    for name in ("FOUR_GPUS", "SIXTEEN_GPUS", "QUICK_FOUR_GPUS", "QUICK_SIXTEEN_GPUS"):
        monkeypatch.setattr(given, name, TINY)
    monkeypatch.setattr(given, "HALF_BANDWIDTH", 3)
    kept = {name: proact.LOADED[name] for name in ("pagerank", "als")}
    monkeypatch.setattr(proact, "LOADED", kept)
    monkeypatch.setattr(proact, "FIG_4_CHUNKS", (64 << 10, MIB))


def result(run: Run, tmp_path: Path, *words: object) -> dict[str, Any]:
    file = tmp_path / "figures.json"
    ran = run("reproduce", "proact", "--quick", "--json", file, *words)
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def mean(values: list[float]) -> float:
    return math.prod(values) ** (1 / len(values))


@pytest.mark.usefixtures("core")
def test_figures_follow_from_the_runs(run: Run, tmp_path: Path) -> None:
    document = result(run, tmp_path)
    rows = {one["key"]: one for one in document["rows"]}
    assert len(rows) == len(document["rows"])
    assert set(NEEDED) <= set(rows)
    assert document["quick"]
    assert document["inputs"]["four_gpus"] == TINY._asdict()
    for one in rows.values():
        assert set(one) == {
            "key", "figure", "quantity", "published", "simulated", "measured", "ratio", "possible",
            "note",
        }  # fmt: skip
        assert one["measured"] is None
        if isinstance(one["published"], str) or one["published"] is None:
            assert one["ratio"] is None
        else:
            assert one["ratio"] == pytest.approx(one["simulated"] / one["published"])
        assert one["possible"] or one["note"]
        if one["key"] in proact.REASONS:
            far = one["ratio"] is not None and abs(one["ratio"] - 1) > 0.15
            assert one["note"] == (proact.REASONS[one["key"]] if far else "")
            assert one["possible"] == (not far or one["key"] not in proact.IMPOSSIBLE)
    # --quick does not run this case.
    assert set(proact.REASONS) - set(rows) == {"vs-bulk-copy-8"}
    hardware = [
        one["simulated"] for key, one in rows.items() if key.startswith("hardware-vs-inline-")
    ]
    assert len(hardware) == 6
    assert rows["hardware-vs-inline"]["simulated"] == min(hardware)
    slower = sum(gain < 1 for gain in hardware)
    assert rows["hardware-vs-inline"]["note"].startswith(f"slower in {slower} of 6: ")
    assert (rows["hardware-loss-us"]["simulated"] > 0) == (slower > 0)
    assert document["jobs"] >= 1
    assert document["seconds"] >= 0

    times: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for one in document["runs"]:
        of = times.setdefault((one["workload"], one["machine"], one["gpus"]), {})
        of.setdefault(one["mechanism"], []).append(one["time_s"])
    found: dict[str, list[float]] = {"speedup": [], BULK_COPY: [], "opportunity": []}
    for (workload, machine, gpus), of in times.items():
        if gpus != 4 or machine == "dgx-2":
            continue
        single = times[workload, machine, 1][BULK_COPY][0]
        best = min(of[INLINE] + of[POLLING] + of[DEVICE_LAUNCH])
        found["speedup"].append(single / best)
        found[BULK_COPY].append(single / of[SERIAL_COPY][0])
        found["opportunity"].append(single / of[INFINITE_BANDWIDTH][0])
        assert len([name for name in of if name.endswith("-without-transfers")]) == 1
    for kind, values in found.items():
        assert len(values) == 6  # two workloads on three machines
        assert rows[f"{kind}-4"]["simulated"] == pytest.approx(mean(values))
    ours, serial = [], []
    for workload in ("pagerank", "als"):
        of = times[workload, "dgx-2", 16]
        best = min(of[INLINE] + of[POLLING])
        ours.append(times[workload, "dgx-2", 1][BULK_COPY][0] / best)
        serial.append(of[SERIAL_COPY][0] / best)
    assert rows["speedup-16"]["simulated"] == pytest.approx(mean(ours))
    assert rows["vs-bulk-copy-16"]["simulated"] == pytest.approx(mean(serial))


def test_processes_change_nothing(core: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "in_processes", in_processes)
    workload = proact.LOADED["pagerank"](TINY)

    def found(jobs: int) -> dict[Case, float]:
        results: dict[str, runs.Results] = {}
        runner = Runner(core, jobs, lambda: None)
        cases = [Case(1, BULK_COPY), Case(4, INLINE), Case(4, SERIAL_COPY)]
        runner.simulate(workload, ["4x-volta-nvlink2", "4x-kepler-pcie3"], cases, results)
        assert len(runner.runs) == 6
        return {case: r.time(case) for r in results.values() for case in cases}

    assert found(1) == found(3)


@pytest.mark.usefixtures("cuda")
def test_measured_figures(run: Run, tmp_path: Path) -> None:
    document = result(run, tmp_path)
    rows = {one["key"]: one for one in document["rows"]}
    times: dict[str, dict[str, list[float]]] = {}
    for one in document["runs"]:
        if one["node"] == "cuda":
            name = f"{one['mechanism']}-{one['gpus']}"
            times.setdefault(one["workload"], {}).setdefault(name, []).append(one["time_s"])
    expected = [
        of["bulk-copy-1"][0] / min(of["inline-4"] + of["polling-4"] + of["device-launch-4"])
        for of in times.values()
    ]
    assert rows["speedup-4"]["measured"] == pytest.approx(mean(expected))
    assert rows["bulk-copy-4"]["measured"] is None  # serial-copy does not run on real GPUs
    bounds = [
        of["bulk-copy-1"][0] / of["bulk-copy-without-transfers-4"][0] for of in times.values()
    ]
    assert rows["opportunity-4"]["measured"] == pytest.approx(mean(bounds))
    assert rows["opportunity-4"]["measured"] > rows["speedup-4"]["measured"]
    assert rows["speedup-16"]["measured"] is None


@pytest.mark.usefixtures("cuda")
def test_measured_tracking_moves_nothing(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    text = run("reproduce", "proact", "--quick", "--json", file).out.splitlines()
    document = json.loads(file.read_text())
    rows = {one["key"]: one for one in document["rows"]}
    costs = []
    for workload in ("pagerank", "als"):
        ran = [
            one for one in document["runs"]
            if (one["node"], one["workload"], one["gpus"]) == ("cuda", workload, 4)
        ]  # fmt: skip
        bulk, tracked = (one for one in ran if one["mechanism"].endswith("-without-transfers"))
        assert bulk["mechanism"] == "bulk-copy-without-transfers"
        best = min(
            (one for one in ran if one["mechanism"] in (POLLING, DEVICE_LAUNCH)),
            key=lambda one: one["time_s"],
        )
        assert tracked["mechanism"] == best["mechanism"] + "-without-transfers"
        assert (tracked["config"], tracked["iterations"]) == (best["config"], best["iterations"])
        assert bulk["iterations"] == best["iterations"]
        # In these runs, the replicas of the fake are NaN. A verification would refuse these
        # replicas.
        assert bulk["max_error"] is tracked["max_error"] is None
        costs.append(tracked["time_s"] / bulk["time_s"] - 1)
        assert rows[f"tracking-{workload}"]["measured"] == pytest.approx(costs[-1])
        assert rows[f"tracking-{workload}"]["simulated"] is None
    assert min(costs) > 0
    assert rows["tracking-mean"]["measured"] == pytest.approx(sum(costs) / len(costs))
    assert rows["tracking-worst"]["measured"] == pytest.approx(max(costs))
    others = [one for one in document["runs"] if one["max_error"] is None]
    assert len(others) == 4  # all simulated runs were verified
    assert f"{len(document['runs']) - 4} runs verified; " in text[5]
    assert text[6] == "4 runs have no result to verify: they were measured without transfers."
    assert text[7].startswith("The runs took ")


def test_a_measured_run_of_no_time_ends_it(
    run: Run, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cuda.run_pagerank

    def timeless(mechanism: str, *arguments: Any) -> dict[str, Any]:
        result = whole(mechanism, *arguments)
        return result | ({"time_s": 0.0} if mechanism == "bulk-copy-without-transfers" else {})

    monkeypatch.setattr(cuda, "run_pagerank", timeless)
    ran = run("reproduce", "proact", "--quick")
    assert ran.code == 1
    assert ran.err == (
        "interlace: bulk-copy-without-transfers on 4 GPUs: the run's time is 0.0 s, which no run "
        "can have\n"
    )


def test_few_gpus_measure_nothing(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    cuda.gpus = 2
    assert all(one["measured"] is None for one in result(run, tmp_path)["rows"])
    assert cuda.calls == []


def ticks_of(core: Fake, node: CudaNode | None, *, quick: bool) -> tuple[int, int]:
    """Return how often the runner's tick was called, and the number of calls that was announced."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    proact.reproduce(Runner(core, 2, tick), node, quick)
    return count, proact.steps(quick, node)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("measured", [True, False])
def test_progress_knows_the_steps(
    core: Fake, quick: bool, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proact, "LOADED", {"pagerank": proact.LOADED["pagerank"]})
    called, said = ticks_of(core, real_node(1, 3) if measured else None, quick=quick)
    assert called == said


def test_a_wrong_result_ends_it(run: Run, core: Fake, tmp_path: Path) -> None:
    core.wrong = (INLINE, 4, 2, 5)
    file = tmp_path / "figures.json"
    ran = run("reproduce", "proact", "--quick", "--json", file)
    assert ran.code == 1
    assert "verification failed: inline on 4 GPUs: GPU 2" in ran.err
    assert not file.exists()
    assert ran.out == ""


def test_a_failing_benchmark_ends_it(run: Run, core: Fake) -> None:
    core.crash = POLLING
    ran = run("reproduce", "proact", "--quick")
    assert ran.code == 1
    assert "gpu1 does not have element 7" in ran.err


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            [],
            "reproduce needs the name of a paper; give one of proact, finepack, multipath, dualopt",
        ),
        (
            ["proct"],
            "there is no paper 'proct' (did you mean proact?); give one of proact, finepack, "
            "multipath, dualopt",
        ),
        (["proact", "--jobs", "0"], "--jobs 0: give a number of at least 1"),
        (["proact", "--json", "{dir}"], "--json {dir} is a directory; give the name of a file"),
    ],
)
def test_what_cannot_be_meant(run: Run, tmp_path: Path, words: list[str], sentence: str) -> None:
    ran = run("reproduce", *(word.format(dir=tmp_path) for word in words))
    assert ran.code == 2
    assert ran.err.strip() == "interlace: " + sentence.format(dir=tmp_path)
    assert ran.out == ""


@pytest.mark.usefixtures("core")
def test_the_table(run: Run) -> None:
    ran = run("reproduce", "proact", "--quick")
    lines = ran.out.splitlines()
    head = lines[: lines.index("", 2)]
    assert len(head) <= 10
    assert re.fullmatch(
        r"\d+ figures; \d+ can be compared with published numbers: \d+ are within 10 %, \d+ within "
        r"25 %, \d+ within a factor of 2\.",
        head[2],
    )
    assert head[3].startswith("Furthest off: ")
    assert head[4].startswith("--quick: the inputs are small")
    assert head[5] == "Nothing was measured: this computer has no GPUs that can be used."
    lines = lines[len(head) :]
    assert lines[1].split() == [
        "figure", "quantity", "published", "simulated", "measured", "ratio", "key",
    ]  # fmt: skip
    assert sum(line.endswith("  speedup-4") for line in lines) == 1
    assert lines[-1] == "The summary is above the table."


def test_agreement_with_published_figures() -> None:
    rows = [
        row("near", "Fig. 1", "x", 2.0, simulated=2.1),
        row("low", "Fig. 1", "x", 2.0, simulated=0.5),
        row("measured", "Fig. 1", "x", 2.0, measured=3.0),
        row("other", "Fig. 1", "x", 2.0, simulated=9.0, possible=False),
        row("ours", "Fig. 1", "x", simulated=9.0),
    ]
    assert agreement(rows) == [
        "5 figures; 3 can be compared with published numbers: 1 are within 10 %, 1 within 25 %, 2 "
        "within a factor of 2.",
        "Furthest off: low (published 2, ours 0.5), measured (published 2, ours 3), near "
        "(published 2, ours 2.1).",
    ]
    assert len(agreement(rows[-1:])) == 1


def test_rows_compute_ratios() -> None:
    assert row("a", "Fig. 1", "x", 4, simulated=3.0).ratio == 0.75
    assert row("a", "Fig. 1", "x", 4, measured=5.0).ratio == 1.25
    assert row("a", "Fig. 1", "x", 4).ratio is None
    assert row("a", "Fig. 1", "x", "I", simulated="I").ratio is None
    assert geometric_mean([]) is None
    assert geometric_mean([2, 8]) == pytest.approx(4)


def test_names_of_cases() -> None:
    case = Case(4, POLLING, Config(chunk_bytes=MIB, agent_threads=4096))
    assert case.without_transfers().mechanism == "polling-without-transfers"
    assert proact._short(case) == "D 1MB 4096 Poll"
    assert proact._short(Case(4, INLINE)) == "I"


def all_loaded() -> dict[str, Callable[[Sizes], Any]]:
    return dict(proact.LOADED)


ALL = all_loaded()


@pytest.mark.parametrize("name", list(ALL))
def test_every_workload_loads(name: str) -> None:
    workload = ALL[name](TINY)
    assert workload.name == name
    assert workload.iterations == given.ITERATIONS
    cut = workload.boundaries(16)
    assert len(cut) == 17
    assert list(cut) == sorted(cut)


def test_the_workloads_are_those_of_the_paper() -> None:
    assert set(ALL) == {"pagerank", "jacobi", "sssp", "als", "ct"}  # section IV-D of the paper
    assert set(ALL) <= set(WORKLOADS)


def test_the_machines_are_those_of_the_paper() -> None:
    rows = {one.key: one for one in proact._table_1()}
    for short in ("kepler", "pascal", "volta", "dgx-2"):
        assert rows[f"units-{short}"].ratio == 1
        assert rows[f"teraflops-{short}"].ratio == pytest.approx(1, abs=0.02)
        assert rows[f"links-{short}"].ratio == pytest.approx(1, abs=0.07)


# --- the real core --------------------------------------------------------------------------------

# Each input is so large that the start of a copy is short in comparison with an epoch.
SMALL = Sizes(pagerank_scale=16, jacobi_rows=1 << 14, sssp_side=14, als_side=6, ct_size=144)


def hardware_over_inline(name: str) -> float:
    """Return the time of the better of two chunk sizes, divided by inline's time. Blocks run in
    several waves.
    """
    core = pytest.importorskip("interlace._core")
    described = load_machine("4x-volta-nvlink2")
    replace = msgspec.structs.replace
    few = replace(described.gpu, compute_units=2)
    machine = to_core(replace(described, gpu=few), core)
    workload = ALL[name](SMALL)

    def time(mechanism: str, config: Config) -> float:
        outcome = workload.simulate(core, machine, Case(4, mechanism, config))
        workload.verify(outcome)
        return outcome.time_s

    inline = time(INLINE, Config())
    return min(time(PROACT_HARDWARE, Config(chunk_bytes=n * KIB)) for n in (4, 16)) / inline


# A chunk leaves after its last element is stored. At that time, inline has already sent all other
# elements. If every store fills its packet, a copy therefore loses at most the time of one chunk.
@pytest.mark.parametrize("name", list(ALL))
def test_hardware_hardly_loses_to_inline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "HALF_BANDWIDTH", 20)
    # There are so many angles that the start of a copy is short in comparison with an epoch.
    monkeypatch.setattr(given, "ANGLES", 90)
    assert hardware_over_inline(name) < 1.02
