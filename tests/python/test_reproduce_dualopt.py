"""Tests `interlace reproduce dualopt` on tiny inputs: its rows must match its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlace.machine.compiled import to_core
from interlace.machine.devices import MAX_GPUS
from interlace.machine.reading import load_machine
from interlace.reproduce import dualopt
from interlace.reproduce import dualopt_inputs as given
from interlace.reproduce.dualopt_inputs import LARGE, SMALL
from interlace.study.locality import FINE, LOCAL, PUBLISHED
from interlace.workloads import unified
from study_helpers import Run

NEEDED = (
    "speedup", "insensitive", "friendly", "mm", "traffic", "latency", "rdma-cache-hit",
    "speedup-8", "frequency-2", "remote-requests", "latency-in-links", "narrow-accesses", "bypass",
    "fine-grained", "coalescing", "l2-hit-baseline", "l2-hit-dualopt", "granularity-8",
    "timeout-10", "flit-32", "flit-64", "classes", "vs-griffin", "fine-l2",
)  # fmt: skip
# Parts of the keys of rows that --quick leaves out.
LEFT_OUT = ("speedup-16", "frequency-4", "pcie5", "greedy")
IMPOSSIBLE = ("link-GB-per-s", "count-bits", "overhead", "area-codec", "needs-dualopt")
KEPT = ("atax", "bicg", "bfs", "mm", "km", "fir")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, in_this_process: None) -> None:  # noqa: ARG001
    """Use tiny inputs for some programs, and do the work in this process."""
    pytest.importorskip("interlace._core")
    for name in KEPT:
        monkeypatch.setitem(unified.SIZES, name, {"bfs": 2048, "fir": 4096}.get(name, 128))
    monkeypatch.setattr(given, "GRAPH_SCALE", 14)
    kept = {name: unified.PROGRAMS[name] for name in KEPT}
    monkeypatch.setattr(unified, "PROGRAMS", kept)


@pytest.fixture
def document(run: Run, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "figures.json"
    ran = run("reproduce", "dualopt", "--quick", "--json", file)
    assert ran.code == 0, ran.err
    read: dict[str, Any] = json.loads(file.read_text())
    return read


def test_rows_follow_from_the_runs(document: dict[str, Any]) -> None:
    rows = {one["key"]: one for one in document["rows"]}
    assert len(rows) == len(document["rows"])  # all keys are different
    for key in NEEDED:
        assert rows[key]["published"] is not None, key
        assert rows[key]["simulated"] is not None, key
    for blocks, pages in given.QUICK_PLACEMENTS:
        assert rows[f"classes-blocks-{blocks}-pages-{pages}"]["published"] == len(KEPT)
        ran = [one for one in document["runs"] if one["config"].get("blocks") == blocks]
        assert {one["workload"] for one in ran if one["config"]["pages"] == pages} == set(KEPT)
    # A vertex has many edges, so most remote loads go to levels of random vertices and miss.
    other = rows["l1-hit-bfs-other-graph"]
    assert other["published"] == 0.33
    assert other["simulated"] < rows["l1-hit-bfs"]["simulated"]
    for key in ("class-bfs-other-graph", "class-of-run-bfs-other-graph"):
        assert rows[key]["published"] == FINE
    for key in LEFT_OUT:
        assert rows[key]["published"] is not None
        assert rows[key]["simulated"] is None
        assert rows[key]["ratio"] is None
    for key in IMPOSSIBLE:
        assert not rows[key]["possible"]
        assert rows[key]["note"]
    assert all(one["max_error"] is not None for one in document["runs"])
    times = {
        (one["workload"], one["machine"], one["gpus"], one["mechanism"]): one["time_s"]
        for one in document["runs"]
        if not one["config"]  # blocks and pages are placed as in the paper's figures
    }
    gains = {}
    for name in KEPT:
        direct = times[name, "own", 4, "direct"]
        gains[name] = direct / times[name, "own", 4, "dualopt"]
        assert rows[f"speedup-{name}"]["simulated"] == pytest.approx(gains[name])
        over_one = times[name, "own", 1, "direct"] / direct
        assert rows[f"four-gpus-{name}"]["simulated"] == pytest.approx(over_one)
        assert rows[f"class-{name}"]["published"] == PUBLISHED[name]
    of_all = [gains[name] for name in KEPT if PUBLISHED[name] != LOCAL]
    assert rows["speedup"]["simulated"] == pytest.approx(sum(of_all) / len(of_all))
    steps = [times[name, "own", 4, "bypass"] / times[name, "own", 4, "fine-grained"]
             for name in KEPT if PUBLISHED[name] == FINE]  # fmt: skip
    assert rows["fine-grained"]["simulated"] == pytest.approx(sum(steps) / len(steps))
    known = [PUBLISHED[name] == rows[f"class-{name}"]["simulated"] for name in KEPT]
    assert rows["classes"]["simulated"] == sum(known)
    moved = times["atax", "own", 4, "direct"] / times["atax", "own", 4, "page-migration"]
    assert rows["page-migration-atax"]["simulated"] == pytest.approx(moved)
    griffin = times["atax", "own", 4, "griffin"] / times["atax", "own", 4, "dualopt"]
    assert rows["vs-griffin-atax"]["simulated"] == pytest.approx(griffin)


def test_the_programs_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert set(unified.PROGRAMS) == set(PUBLISHED)
    assert len(dualopt.AVERAGED) == 11
    # The paper's mean over all programs, 2.5, is the arithmetic mean over the insensitive programs
    # (3.6) and the friendly programs (1.6).
    assert (3.6 * len(dualopt.INSENSITIVE) + 1.6 * len(dualopt.FRIENDLY)) / 11 == pytest.approx(
        2.5, abs=0.05
    )


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_cases(name: str) -> None:
    full, quick = dualopt.cases(name, quick=False), dualopt.cases(name, quick=True)
    for found in (full, quick):
        assert len(set(found)) == len(found)
        assert {case.machine for case in found} <= set(dualopt.machines())
    assert {case.scale for case in quick} == {SMALL}
    assert {case.scale for case in full} == {SMALL, LARGE}
    steps = {case.mechanism for case in full}
    assert ("coalesced" in steps) == (PUBLISHED[name] == FINE)
    assert ("rdma-cache" in steps) == (PUBLISHED[name] != LOCAL)


def test_machines() -> None:
    found = dualopt.machines()
    own = found[dualopt.OWN]
    assert own.gpu.launch.dispatch == given.DISPATCH
    assert [link.bandwidth_GB_per_s for link in own.link] == [16] * 4
    assert found["64gbps"].link[0].bandwidth_GB_per_s == 64
    fast = found["frequency-4"]
    assert fast.link[0].bandwidth_GB_per_s == 64
    assert fast.link[0].latency_ns == own.link[0].latency_ns / 4
    assert fast.switch[0].latency_ns == own.switch[0].latency_ns / 4
    wide = found["bandwidth-4"]
    assert wide.link[0].bandwidth_GB_per_s == 64
    assert wide.link[0].latency_ns == own.link[0].latency_ns
    flits = found["flit-64"]
    assert flits.link[0].bandwidth_GB_per_s == 64
    assert flits.protocol["pcie4"].flit_bytes == 64


def test_more_gpus_are_the_same_tree() -> None:
    core = pytest.importorskip("interlace._core")
    described = load_machine(given.MACHINE)
    same = to_core(dualopt.of_gpus(described, 4), core)
    before = to_core(described, core)
    gpu = core.EndpointKind.gpu
    for count in (*given.MORE_GPUS, MAX_GPUS):
        larger = to_core(dualopt.of_gpus(described, count), core)
        assert larger.gpu_count == count
        assert len(larger.switches) == count // 2
        assert len(larger.links) == count + count // 2
    ends = [
        sorted(
            (link.a.kind == gpu, link.a.index, link.b.kind == gpu, link.b.index)
            for link in machine.links
        )
        for machine in (before, same)
    ]
    assert ends[0] == ends[1]


def made_up(runner: Any, program: str, quick: bool) -> dualopt.Found:  # noqa: ARG001
    """Make up every run of a program. All runs have the same figures."""
    counts = (
        "local_loads", "remote_loads", "local_stores", "remote_stores", "remote_hits",
        "remote_useful_bytes", "reply_bytes", "cache_hits", "cache_misses", "l2_hits", "l2_loads",
    )  # fmt: skip
    loads = {
        **dict.fromkeys(counts, 8),
        "remote_by_words": [4] * 2,
        "mean_wait_s": 3.0,
        "mean_latency_s": 2.0,
        "mean_in_links_s": 1.0,
    }
    decision = {
        "made": True, "choice": "coalesced", "loads": 8, "block_utilisation": 0.1, "hit_rate": 0.1,
    }  # fmt: skip
    one = {"time_s": 1.0, "link_bytes": 64.0, "loads": loads, "decisions": [decision]}
    found = dualopt.Found(dualopt.main_scale(quick))
    windows = [
        dualopt.Case(SMALL, f"window-{part:.0%}".rstrip("%"), 4, "dualopt")
        for part in given.WINDOWS
    ]
    found.runs = dict.fromkeys([*dualopt.cases(program, quick), *windows], one)
    found.placed = dict.fromkeys(given.PLACEMENTS, dict.fromkeys(dualopt.PLACED_RUNS, one))
    found.other_graph = dict.fromkeys(dualopt.OTHER_GRAPH_RUNS, one)
    return found


def test_all_runs_give_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(dualopt, "_run", made_up)
    rows = {one.key: one for one in dualopt.reproduce(None, None, quick=False)}  # type: ignore[arg-type]
    assert {one.key for one in rows.values() if one.simulated is None} == {
        one.key for one in rows.values() if not one.possible
    } - {"link-GB-per-s", "count-bits"}
    assert rows["speedup"].simulated == 1
    assert rows["latency-in-links"].simulated == 0.5
    assert rows["insensitive-64gbps"].simulated == 1
    assert rows["speedup-16"].simulated == 1
    assert rows["classes"].simulated == len(dualopt.INSENSITIVE)
    for blocks, pages in given.PLACEMENTS:
        key = f"blocks-{blocks}-pages-{pages}"
        other = str(rows[f"classes-other-{key}"].simulated).split(", ")
        assert rows[f"classes-{key}"].simulated == len(PUBLISHED) - len(other)
        assert set(other) == set(PUBLISHED) - set(dualopt.INSENSITIVE)
        # All loads use 1/64 of a line and hit, so every run as a whole is cache-friendly.
        assert rows[f"classes-of-run-{key}"].simulated == len(dualopt.FRIENDLY)
    for key in ("classes-of-run", "classes-of-run-small"):
        assert rows[key].simulated == len(dualopt.FRIENDLY)
    assert rows["word-accesses"].simulated == 0.5
