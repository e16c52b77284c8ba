"""Tests queues of remote stores: the results of each workload, and the output of studies."""

from __future__ import annotations

import importlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interlace.machine.reading import load_machine
from interlace.machine.writing import machine_text
from interlace.model.mechanism_table import BULK_COPY, FINEPACK, GPS, INLINE, WRITE_COMBINING
from interlace.model.mechanisms import QUEUED
from study_helpers import REGION_WORKLOADS, Run

# Maps a workload to a small run. The test file of the workload defines this run.
TINY = {
    name: importlib.import_module(f"test_{name.replace('-', '_')}").TINY
    for name in REGION_WORKLOADS
}
REASONS = ("window", "payload", "entries", "release", "load", "atomic", "timeout")


def rows_of(run: Run, path: Path, workload: str, *words: object) -> dict[str, Any]:
    """Return the rows of a study on four GPUs by mechanism."""
    pytest.importorskip("interlace._core")
    done = run("study", workload, "--gpus", 4, "--json", path, *words)
    assert done.code == 0, done.err
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["mechanism"]: row for row in rows if row["gpus"] == 4}


@pytest.mark.parametrize(
    ("workload", "machine"),
    [*((name, "4x-gv100-pcie4") for name in REGION_WORKLOADS), ("sssp", "4x-volta-nvlink2")],
)
def test_results_are_verified(run: Run, tmp_path: Path, workload: str, machine: str) -> None:
    names = ",".join((INLINE, *QUEUED))
    rows = rows_of(
        run, tmp_path / "out.json", workload, *TINY[workload], "--machine", machine,
        "--mechanisms", names,
    )  # fmt: skip
    plain = rows[INLINE]["sim"]["stores"]
    for name in QUEUED:
        assert rows[name]["verified"]
        stores = rows[name]["sim"]["stores"]
        assert sum(stores["sizes"]) == stores["stores"]
        assert tuple(stores["reasons"]) == REASONS
        assert sum(stores["reasons"].values()) == stores["flushes"] > 0
        if name != GPS:  # GPS sends less once it knows which GPUs read an element
            assert (stores["stores"], stores["sizes"]) == (plain["stores"], plain["sizes"])
        wire = rows[name]["wire"]
        if name in (FINEPACK, WRITE_COMBINING):
            payload = stores["bytes"] - stores["overwritten_bytes"]
            assert payload < stores["wire_bytes"] <= sum(wire.values())
    assert rows[FINEPACK]["sim"]["stores"]["packets"] <= plain["packets"]


def test_the_table_says_what_was_packed(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    done = run(
        "study", "pagerank", *TINY["pagerank"], "--machine", "4x-gv100-pcie4", "--gpus", 2,
        "--mechanisms", "bulk-copy,finepack", "--json", tmp_path / "out.json",
        "--html", tmp_path / "out.html",
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    stores = next(row for row in rows if row["mechanism"] == FINEPACK)["sim"]["stores"]
    small = sum(stores["sizes"][:5]) / stores["stores"]
    said = (
        f"{stores['stores'] / stores['packets']:.1f} stores per packet, {small:.0%} of the stores"
    )
    assert f"finepack on 2 GPUs: {said} below 32 B." in done.out
    assert all(row["sim"]["stores"] is None for row in rows if row["mechanism"] == BULK_COPY)
    assert FINEPACK in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_the_machine_file_sets_the_queue(run: Run, tmp_path: Path) -> None:
    text = machine_text(load_machine("4x-gv100-pcie4"))
    packets = []
    for lines in (64, 8, 1):
        path = tmp_path / "mine.toml"
        old = "lines_per_destination = 64"
        assert old in text
        path.write_text(text.replace(old, f"lines_per_destination = {lines}"), encoding="utf-8")
        rows = rows_of(
            run, tmp_path / "out.json", "sssp", *TINY["sssp"], "--machine", path,
            "--mechanisms", FINEPACK,
        )  # fmt: skip
        packets.append(rows[FINEPACK]["sim"]["stores"]["packets"])
    assert all(fewer <= more for fewer, more in pairwise(packets))
    assert packets[0] < packets[-1]


def test_links_without_room_for_a_packet(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    text = machine_text(load_machine("4x-gv100-pcie4"))
    path = tmp_path / "mine.toml"
    path.write_text(
        text.replace("max_payload_bytes = 4096", "max_payload_bytes = 128"), encoding="utf-8"
    )
    done = run("study", "pagerank", *TINY["pagerank"], "--machine", path, "--mechanisms", FINEPACK)
    assert done.code == 2
    assert (
        "packets of protocol pcie4 carry 128 bytes on machine mine, and a line with its sub-header "
        "has 133: raise max_payload_bytes or take another mechanism" in done.err
    )


@pytest.mark.parametrize(
    ("workload", "words", "kernel", "largest"),
    [
        ("pagerank", TINY["pagerank"], "warp-per-row", 4),
        ("sssp", TINY["sssp"], "warp-per-row", 4),
        ("als", (*TINY["als"], "--method", "sgd"), "lane-per-row", 4),
        ("eqwp", ("--size", 20, "--iterations", 2), "tiles", 64),  # the grid is wider than a tile
        ("hit", TINY["hit"], "tiles", 128),
    ],
)
def test_kernels_that_store_less_side_by_side(
    run: Run, tmp_path: Path, workload: str, words: tuple[object, ...], kernel: str, largest: int
) -> None:
    """Check that the other kernels give the same results and store the same bytes, but in more
    stores.
    """
    names = ("--machine", "4x-gv100-pcie4", "--mechanisms", "inline,finepack")
    usual = rows_of(run, tmp_path / "usual.json", workload, *words, *names)
    other = rows_of(run, tmp_path / "other.json", workload, *words, *names, "--kernel", kernel)
    assert json.loads((tmp_path / "other.json").read_text())["data"]["kernel"] == kernel
    for name, row in other.items():
        assert row["verified"]
        stores, before = (of["sim"]["stores"] for of in (row, usual[name]))
        assert stores["bytes"] == before["bytes"]
        assert stores["stores"] > before["stores"]
        assert stores["bytes"] <= largest * stores["stores"]


def test_stores_leave_lane_by_lane_where_the_machine_says_so(run: Run, tmp_path: Path) -> None:
    """Check a machine that does not join the stores of neighbouring lanes.

    The results and the stored bytes must be the same. The mechanism inline must send more packets,
    and queues must not.
    """
    text = machine_text(load_machine("4x-gv100-pcie4"))
    old = "warp_width_lanes = 32"
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, f"{old}\nremote_store_bytes = 4"), encoding="utf-8")
    for workload, element in (("eqwp", 4), ("hit", 8)):  # the elements of HIT are complex numbers
        found = []
        for machine in ("4x-gv100-pcie4", path):
            rows = rows_of(
                run, tmp_path / "out.json", workload, *TINY[workload], "--machine", machine,
                "--mechanisms", "inline,finepack",
            )  # fmt: skip
            assert all(row["verified"] for row in rows.values())
            found.append({name: row["sim"]["stores"] for name, row in rows.items()})
        lines, lanes = found
        for name, stores in lanes.items():
            assert stores["bytes"] == lines[name]["bytes"]
            assert stores["stores"] * element == stores["bytes"]
        assert lanes[INLINE]["packets"] == lanes[INLINE]["stores"]
        # the bytes of all packets except the data of the stores
        overhead = 26 * lanes[INLINE]["stores"]
        assert lanes[INLINE]["wire_bytes"] == overhead + lanes[INLINE]["bytes"]
        assert lanes[FINEPACK]["packets"] <= lines[FINEPACK]["packets"]
