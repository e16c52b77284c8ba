"""Tests `--inside` for simulated runs: as text, in the results file, on the page, in the timeline,
and as a warning.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlace.model.inside import Activity, Inside, LinkUse, Pair
from interlace.model.mechanism_table import BULK_COPY, INFINITE_BANDWIDTH, INLINE
from interlace.model.results import Sim, StudyRow, WireRow
from interlace.show.inside import SPARK_WIDTH, spark, text
from interlace.study import idle
from study_helpers import Run, study_of

pytest.importorskip("interlace._core")


def _study(run: Run, graph: Path, tmp_path: Path, *words: object) -> str:
    chosen = ("--gpus", 4, "--mechanisms", "bulk-copy,inline", "--json", tmp_path / "out.json")
    ran = run(*study_of(graph, *chosen, *words))
    assert ran.code == 0, ran.err
    return ran.out


def test_bytes_of_the_pairs_are_those_of_the_table(run: Run, graph: Path, tmp_path: Path) -> None:
    out = _study(run, graph, tmp_path, "--inside")
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert "inside" in rows[0]["sim"]
    assert rows[0]["sim"]["inside"]["pairs"] == []
    for row in rows[1:]:
        seen = row["sim"]["inside"]
        assert {(p["from"], p["to"]) for p in seen["pairs"]} == {
            (a, b) for a in range(4) for b in range(4) if a != b
        }
        payload = sum(p["payload_bytes"] for p in seen["pairs"])
        protocol = sum(p["protocol_bytes"] for p in seen["pairs"])
        assert payload == row["wire"]["useful"] + row["wire"]["wasted"]
        assert protocol == row["wire"]["protocol"]
        assert sum(link["wire_bytes"] for link in seen["links"]) == payload + protocol
        assert seen["time_s"] == pytest.approx(row["time_s"])
        for link in seen["links"]:
            assert len(link["by_bin"]) <= 128
            assert (len(link["by_bin"]) - 1) * seen["bin_s"] < seen["time_s"]
        for gpu in seen["gpus"]:
            assert gpu["kernel"] + gpu["idle"] <= 1 + 2e-6
    packets = sum(p["packets"] for p in rows[2]["sim"]["inside"]["pairs"])
    # In each iteration, each of four GPUs sends a flag to three GPUs. With each flag, it sends a
    # second packet, which has the sum over the dangling vertices.
    flags = 2 * 12 * rows[2]["iterations"]
    assert packets == rows[2]["sim"]["remote_transactions"] + flags
    for words in ("Inside inline on 4 GPUs", "payload, ", "mean latency, us", "gpu0 -> gpu1"):
        assert words in out


def test_without_the_option_nothing_is_said(run: Run, graph: Path, tmp_path: Path) -> None:
    out = _study(run, graph, tmp_path)
    study = json.loads((tmp_path / "out.json").read_text())
    assert all("inside" not in row["sim"] for row in [*study["rows"], *study["candidates"]])
    assert "Inside" not in out


def test_the_page_and_the_timeline_have_it(run: Run, graph: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "p.html", tmp_path / "t.json"
    _study(run, graph, tmp_path, "--html", page, "--timeline", trace)
    text = page.read_text()
    assert "Inside on 4 GPUs" in text
    figures = json.loads(text.split('id="figures">')[1].split("</script>")[0])
    by_id = {figure["id"]: figure for figure in figures}
    matrix = by_id["pairs-1"]["data"][0]
    assert matrix["type"] == "heatmap"
    assert [line[i] for i, line in enumerate(matrix["z"])] == [None] * 4
    sent = [value for line in matrix["z"] for value in line if value is not None]
    assert min(sent) > 0
    assert (matrix["zmin"], matrix["zmax"]) == (0, max(sent))
    assert len(by_id["links-1"]["data"][0]["z"]) == 12
    counters = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "C"]
    assert {event["name"] for event in counters} >= {"gpu0 -> gpu1", "gpu3 -> gpu2"}
    assert any(event["args"]["busy %"] > 0 for event in counters)


def test_real_gpus_do_not_show_it(run: Run) -> None:
    ran = run("study", "pagerank", "--rmat", 6, "--inside")
    assert ran.code == 2
    assert "--inside is for simulated machines" in ran.err


def _row(gpus: int, mechanism: str, idle: list[float]) -> StudyRow:
    activity = [Activity(1 - part, 0, part, part, 0.5, 0.5) for part in idle]
    seen = Inside(
        1.0,
        0.25,
        [Pair(0, 1, 4, 5, 100, 10, 1e-6, 2e-6)],
        [LinkUse("gpu0", "gpu1", "nvlink2", 110, 0.5, [0.0, 1.0, 1.0, 0.0])],
        activity,
    )
    return StudyRow(
        workload="w", data="d", node="sim", machine="m", gpus=gpus, mechanism=mechanism, config={},
        iterations=1, time_s=1, speedup=1, opportunity=1, captured=1, derived=False, verified=True,
        max_error=0, wire=WireRow(1, 1, 1), overlap=None, sim=Sim(1, 1, 1, 1, inside=seen),
    )  # fmt: skip


def test_a_gpu_that_idles_is_warned_of_once_for_each_number_of_gpus() -> None:
    rows = [
        _row(2, BULK_COPY, [0, 0.1]),
        _row(4, BULK_COPY, [0, 0.1, 0.3, 0]),
        _row(4, INLINE, [0, 0.45, 0.3, 0]),
        _row(4, INFINITE_BANDWIDTH, [0, 0, 0, 0.9]),
    ]
    (sentence,) = idle.warnings(rows)
    assert sentence.startswith(
        "Warning: on 4 GPUs, gpu1 is idle for 45 % of the time while others compute (inline)"
    )


def test_text_of_a_pair_that_sends_one_way() -> None:
    seen = _row(2, INLINE, [0.25, 0]).inside
    assert seen is not None
    lines = "\n".join(text(INLINE, seen)).splitlines()
    words = [line.split() for line in lines]
    assert ["gpu0", "-", "100.0"] in words
    assert ["gpu1", "-", "-"] in words
    assert any(line.endswith("  50.0  | ██ |") for line in lines)
    assert ["gpu0", "75.0", "0.0", "25.0", "25.0", "50.0", "50.0"] in words


def test_blocks_show_whatever_is_not_nothing() -> None:
    assert spark([]) == ""
    assert spark([0, 0.001, 0.5, 1]) == " ▁▄█"
    assert spark([1.0] * 128) == "█" * SPARK_WIDTH
