"""Tests `interlace calibrate`: its rows, the file of measured rows, and the errors of families."""

from __future__ import annotations

import datetime
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from fake_core import FakeCuda
from interlace.base.errors import UserError
from interlace.base.version import version
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.model.results import commit
from interlace.study import calibrate, calibration
from interlace.study.calibration_row import FITTED, PREDICTED
from interlace.study.multiprocessor_rows import multiprocessor_rows
from study_helpers import Run

SHIPPED = Path(__file__).parents[2] / "bench/results/rows-4xh200.json"
OF_ONE = SHIPPED.parent / "rows-h200.json"
WITH_COPIES = SHIPPED.parent / "rows-copies-h200.json"
SMALL = ("copy of 64 KiB to a peer", "4 B copy, from the host and back", "host to 2 GPUs")


def measured(tmp_path: Path, rows: list[Any], **more: Any) -> Path:
    path = tmp_path / "rows.json"
    head = {
        "format": 1, "machine": "test", "driver": "1", "cuda": "13.0", "date": "2026-01-01",
        "method": "none",
    }  # fmt: skip
    path.write_text(json.dumps({**head, **more, "rows": rows}))
    return path


def test_the_shipped_rows_are_all_of_them() -> None:
    keys = [row.key for row in calibration.definitions()]
    assert len(set(keys)) == len(keys)
    # The rows of multiprocessors are in another file.
    own = {row.key for row in multiprocessor_rows()}
    not_yet = re.compile(r"both ways at once, rate of each GPU|multiple of \d+ B: raw bytes")
    of_several = [
        row.key
        for row in calibration.definitions()
        if row.key not in own and not not_yet.search(row.key)
    ]
    assert [row.row for row in calibrate.read_measured(SHIPPED, keys).rows] == of_several
    missing = {"dependent loads from a peer, 1 MiB"}
    of_one = [row.key for row in multiprocessor_rows() if row.key not in missing]
    assert [row.row for row in calibrate.read_measured(WITH_COPIES, keys).rows] == of_one
    # The machine file is derived from an earlier measurement, which had no copies.
    earlier = [key for key in of_one if not re.match(r"copies of \d+ MiB again", key)]
    assert [row.row for row in calibrate.read_measured(OF_ONE, keys).rows] == earlier


def test_errors_of_small_rows(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    rows = [{"row": name, "value": 20.0} for name in SMALL]
    out = tmp_path / "out.json"
    ran = run("calibrate", "--measured", measured(tmp_path, rows), "--json", out, "--jobs", 1)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    assert {row["row"] for row in document["rows"]} == set(SMALL)
    for row in document["rows"]:
        assert row["error"] == pytest.approx(row["simulated"] / 20.0 - 1)
    # The rate of the copy of 64 KiB, in GB/s, is less than the 393 GB/s of the link. The copy of 4
    # B takes longer, in microseconds, than its setup.
    found = {row["row"]: row["simulated"] for row in document["rows"]}
    assert 5 < found[SMALL[0]] < 393
    assert 2.15 + 4.0 < found[SMALL[1]] < 10
    assert found[SMALL[2]] == pytest.approx(2 * 55.4, rel=0.02)
    missing = {it["row"]: it["reason"] for it in document["not_measured"]}
    assert missing["host to 4 GPUs"] == f"not in {tmp_path / 'rows.json'}"
    assert "Predictions: nothing is fitted to these rows." in ran.out


@pytest.mark.usefixtures("no_simulations", "core")
@pytest.mark.parametrize("format_version", [1, 2])
def test_results_name_the_origin_of_measured_rows(
    run: Run, tmp_path: Path, format_version: int
) -> None:
    origin = {"command": "interlace calibrate", "version": "0.2.0", "commit": "0a1b"}
    more = {"format": format_version, **(origin if format_version == 2 else {})}
    file = measured(tmp_path, [{"row": name, "value": 20.0} for name in SMALL], **more)
    out = tmp_path / "out.json"
    ran = run("calibrate", "--measured", file, "--json", out)
    assert ran.code == 0, ran.err
    found = json.loads(out.read_text())["measured"]
    assert {key: found[key] for key in origin if key in found} == (
        origin if format_version == 2 else {}
    )
    assert found["machine"] == "test"


def test_families_keep_groups_apart() -> None:
    def row(name: str, family: str, group: str, error: float) -> calibrate.CalibrationRow:
        return calibrate.CalibrationRow(name, family, group, "GB/s", 1.0, 1.0 + error, error)

    found = calibrate.families(
        [
            row("a", "links", FITTED, 0.1),
            row("b", "links", FITTED, -0.3),
            row("c", "links", PREDICTED, 0.5),
        ]
    )
    assert [(it.family, it.group, it.rows, it.worst_row) for it in found] == [
        ("links", FITTED, 2, "b"),
        ("links", PREDICTED, 1, "c"),
    ]
    assert found[0].mean == pytest.approx(0.2)
    assert found[0].worst == pytest.approx(0.3)


@pytest.fixture
def no_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_measured(rows: Any, *_: Any) -> list[float]:
        return [2.0] * len(rows)

    monkeypatch.setattr(calibrate, "simulate", as_measured)


@pytest.mark.usefixtures("no_simulations")
def test_four_gpus_give_all_rows(run: Run, tmp_path: Path, cuda: FakeCuda) -> None:
    saved, out = tmp_path / "rows.json", tmp_path / "out.json"
    ran = run("calibrate", "--save-measured", saved, "--json", out)
    assert ran.code == 0, ran.err
    keys = [row.key for row in calibration.definitions()]
    rows = calibrate.read_measured(saved, keys)
    assert [row.row for row in rows.rows] == keys
    assert (rows.machine, rows.driver, rows.cuda) == ("4 x Fake H200", "580.1", "13.0")
    assert datetime.date.fromisoformat(rows.date)
    assert "128 launches in a row" in rows.method
    assert (rows.format, rows.version) == (2, version())
    assert rows.command is not None
    assert rows.command.startswith("interlace calibrate --save-measured ")
    assert rows.commit == commit()
    document = json.loads(out.read_text())
    made = document["measured"]
    assert (made["command"], made.get("commit")) == (rows.command, rows.commit)
    assert document["not_measured"] == []
    assert "Not measured" not in ran.out

    values = {row.row: row.value for row in rows.rows}
    size = 256 << 20
    assert values["copy of 256 MiB to a peer"] == pytest.approx(size / (size / 400 + 2e3), rel=0.03)
    assert values["copies both ways at once, sum"] == pytest.approx(800, rel=0.03)
    assert values["copies round a ring of 4, each"] == pytest.approx(400, rel=0.03)
    assert values["all-to-all of 4 by copies, rotated"] == pytest.approx(400, rel=0.03)
    assert values["host to 4 GPUs"] == pytest.approx(1600, rel=0.03)
    assert values["all-to-all of 4 by stores"] == pytest.approx(300 * 3 / 3)
    assert values["4 B scattered stores"] == pytest.approx(300)
    assert values["copy kernel, 4 blocks of 512 threads"] == pytest.approx(180)
    assert values["16 B scattered loads"] == pytest.approx(8.7 * 16)
    assert values["4 B scattered stores: raw bytes a payload byte"] == pytest.approx(11)
    assert values["12 B scattered stores, at a multiple of 16 B"] == pytest.approx(225)
    piece = "12 B scattered stores, at a multiple of 16 B: raw bytes a payload byte"
    assert values[piece] == pytest.approx(1 + 40 / 12)
    assert values["4 B copy, from the host and back"] == pytest.approx(6 * 1.995, rel=0.01)
    assert 1 < values["inline stores, 1 peer"] < 2
    assert values["copies behind waits, 16 MiB chunks, 3 peers"] > 1
    assert values["chain of FFMA, 8 warps a sub-core"] == 32
    assert values["kernels of 500 instructions in a graph, 8 in turn"] == pytest.approx(2)
    assert values["gather with 64 registers from 16 MiB"] == pytest.approx(100)
    assert values["FFT of the planes of 96^3: kernels"] == 2
    assert values["FFT of the columns of 192^3"] == pytest.approx(10)
    assert ("load loop", "L1", 4, 16) in cuda.kernels
    assert ("stores", 4, 4, 16, 1 << 20, 0) in cuda.kernels
    assert ([(0, 1, 4, 0)], True) in cuda.streams
    assert ([(-1, 0)], 512 << 20, ["auto"]) in [found[:3] for found in cuda.copies]

    again = run("calibrate", "--measured", saved)
    assert again.code == 0, again.err


@pytest.mark.usefixtures("no_simulations")
def test_two_gpus_give_the_rows_of_two(run: Run, tmp_path: Path, cuda: FakeCuda) -> None:
    cuda.gpus = 2
    cuda.counters = False
    out = tmp_path / "out.json"
    ran = run("calibrate", "--json", out)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    reasons = {it["row"]: it["reason"] for it in document["not_measured"]}
    for row in calibration.definitions():
        few = row.gpus > 2
        assert (row.key in reasons) == (few or row.family == "wire bytes"), row.key
        if few:
            assert reasons[row.key] == f"needs {row.gpus} GPUs, and this computer has 2"
    assert reasons["host to 3 GPUs"].startswith("needs 3 GPUs")
    assert reasons["polling agent, 3 peers"].startswith("needs 4 GPUs")
    assert "the driver has no NVLink counters on this computer" in ran.out
    assert "512 MiB to host, relayed by 4 GPUs" in reasons


@pytest.mark.usefixtures("no_simulations")
def test_what_fails_is_named_and_the_rest_is_shown(
    run: Run, tmp_path: Path, cuda: FakeCuda
) -> None:
    cuda.crash = "streams"
    cuda.wrong_bytes["auto"] = 3
    saved = tmp_path / "rows.json"
    ran = run("calibrate", "--save-measured", saved)
    assert ran.code == 1
    assert "failed: a copy of 8 bytes from GPU 0 to GPU 1 left 8 bytes wrong" in ran.out
    assert "failed: the copy engine left 3 wrong bytes at the destination" in ran.out
    assert "4 B scattered stores" in ran.out
    kept = json.loads(saved.read_text())["rows"]
    assert not any("copy of" in row["row"] for row in kept)


@pytest.mark.usefixtures("no_simulations", "core")
def test_texts_of_a_file_of_rows_are_printable(run: Run, tmp_path: Path) -> None:
    rows = json.loads(SHIPPED.read_text())
    texts = {key: f"\x1b[2J{rows[key]}" for key in ("machine", "driver", "cuda")}
    (tmp_path / "rows.json").write_text(json.dumps({**rows, **texts}))
    ran = run("calibrate", "--measured", tmp_path / "rows.json")
    assert ran.code in (0, 2)
    assert "\x1b" not in ran.out + ran.err
    assert "\\x1b[2J" in ran.out + ran.err


@pytest.mark.usefixtures("cuda")
def test_measured_rows_are_not_kept_twice(run: Run, tmp_path: Path) -> None:
    ran = run("calibrate", "--measured", SHIPPED, "--save-measured", tmp_path / "rows.json")
    assert ran.code == 2
    assert "--save-measured keeps the rows that are measured here; leave --measured out" in ran.err
    same = tmp_path / "same.json"
    ran = run("calibrate", "--json", same, "--save-measured", same)
    assert ran.code == 2
    assert "are both" in ran.err
    same.write_text(SHIPPED.read_text())
    ran = run("calibrate", "--measured", same, "--json", same)
    assert ran.code == 2
    assert f"--measured and --json are both {same}" in ran.err
    assert same.read_text() == SHIPPED.read_text()


@pytest.mark.usefixtures("no_simulations")
def test_one_gpu_gives_the_rows_of_one(run: Run, tmp_path: Path, cuda: FakeCuda) -> None:
    cuda.gpus = 1
    out = tmp_path / "out.json"
    ran = run("calibrate", "--json", out)
    assert ran.code == 0, ran.err
    document = json.loads(out.read_text())
    of_one = [row.key for row in calibration.definitions() if row.gpus == 1]
    assert [row["row"] for row in document["rows"]] == of_one
    reasons = {it["row"]: it["reason"] for it in document["not_measured"]}
    assert reasons["host to GPU"] == "needs 2 GPUs, and this computer has 1"
    assert (
        "One property of a GPU: the keys of the machine file may be fitted to these rows."
        in ran.out
    )


def test_chains_of_operations_are_simulated() -> None:
    core = pytest.importorskip("interlace._core")
    machine = load_machine("hgx-h200-4")
    described = to_core(machine, core)
    # One warp waits for its own results. 16 warps share the 32 lanes of their sub-core.
    assert core.simulate_chain(described, "FFMA", 1) == pytest.approx(4.1, rel=0.01)
    assert core.simulate_chain(described, "FFMA", 16) == pytest.approx(16, rel=0.01)
    assert core.simulate_chain(described, "barrier", 8) == pytest.approx(76.6, rel=0.01)
    assert core.simulate_load_chain(described, "L2", 1 << 20) == pytest.approx(287, rel=0.01)
    loop = [core.simulate_load_loop(described, "shared memory", n, 1) for n in (1, 4)]
    assert loop == pytest.approx([43.3, 14.7], rel=0.02)
    # A remote load takes the latency of the link plus one hit of the L2, together 855 ns.
    assert core.simulate_peer_load_chain(described, 1 << 20) == pytest.approx(855 * 1.98, rel=0.01)
    assert core.simulate_small_kernels(described, 0, 1) == pytest.approx(0.72e-6)
    with pytest.raises(UserError, match="there is no chain of DADD"):
        core.simulate_chain(described, "DADD", 1)
    with pytest.raises(UserError, match="there is no memory 'L3'"):
        core.simulate_load_chain(described, "L3", 1 << 20)
    with pytest.raises(UserError, match="30 warps"):
        core.simulate_chain(described, "FFMA", 30)


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([{"row": "no such row", "value": 1}], {}, "there is no row 'no such row'"),
        ([{"row": SMALL[0], "value": 1}] * 2, {}, "occurs twice"),
        ([{"row": SMALL[0], "value": 0}], {}, "is not above 0"),
        ([{"row": SMALL[0], "value": 1e308}], {}, "is 1e+308; no measurement can give this value"),
        ([{"row": SMALL[0], "value": 5e-324}], {}, "is 5e-324; no measurement can give this value"),
        ([{"row": SMALL[0]}], {}, "is not a file of measured rows"),
        ([], {}, "has no rows"),
        ([{"row": SMALL[0], "value": 1}], {"format": 3}, "format is 3; it must be 1 or 2"),
        ([{"row": SMALL[0], "value": 1}], {"format": 2}, "names no command that measured it"),
    ],
)
def test_a_wrong_file(
    run: Run, tmp_path: Path, rows: list[Any], more: dict[str, Any], message: str
) -> None:
    ran = run("calibrate", "--measured", measured(tmp_path, rows, **more))
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_rows_from_no_regular_file(run: Run, tmp_path: Path) -> None:
    pipe, long = tmp_path / "pipe", tmp_path / "long.json"
    os.mkfifo(pipe)
    with long.open("wb") as file:
        file.truncate(1 << 40)
    for name, message in (
        (pipe, "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        (long, "is larger than 64 MiB"),
    ):
        ran = run("calibrate", "--measured", name)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert message in ran.err


def test_a_machine_of_too_few_gpus(run: Run, tmp_path: Path) -> None:
    text = (SHIPPED.parents[2] / "machines/hgx-h200-4.toml").read_text()
    machine = tmp_path / "two.toml"
    machine.write_text(text.replace("count = 4", "count = 2"))
    ran = run("calibrate", "--machine", machine, "--measured", SHIPPED)
    assert ran.code == 2
    assert "has 2 GPUs; a calibration needs 4" in ran.err
