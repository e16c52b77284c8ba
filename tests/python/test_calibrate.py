"""`interlace calibrate`: its rows, the file of measured rows, the errors of families."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlace import calibrate, calibration
from interlace.calibration import FITTED, PREDICTED
from study_helpers import Run

SHIPPED = Path(__file__).parents[2] / "bench/results/rows-4xh200.json"
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
    assert [row.row for row in calibrate.read_measured(SHIPPED, keys).rows] == keys


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
    # 64 KiB cannot be faster than the link, nor a copy than its start.
    found = {row["row"]: row["simulated"] for row in document["rows"]}
    assert 5 < found[SMALL[0]] < 393
    assert 2.15 + 4.0 < found[SMALL[1]] < 10
    assert found[SMALL[2]] == pytest.approx(2 * 55.4, rel=0.02)
    assert "host to 4 GPUs" in document["not_measured"]
    assert "Predictions: nothing is fitted to these rows." in ran.out


def test_families_keep_groups_apart() -> None:
    def row(name: str, family: str, group: str, error: float) -> calibrate.Row:
        return calibrate.Row(name, family, group, "GB/s", 1.0, 1.0 + error, error)

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


def test_rows_of_measured_links() -> None:
    links = [
        {"from": 0, "to": 1, "bytes": 64 << 10, "gb_per_s": 25.0, "both_gb_per_s": 30.0},
        {"from": 0, "to": 1, "bytes": 256 << 20, "gb_per_s": 393.0, "both_gb_per_s": 778.0},
        {"from": "host", "to": 0, "bytes": 256 << 20, "gb_per_s": 55.0, "both_gb_per_s": None},
        {"from": 1, "to": 0, "bytes": 256 << 20, "gb_per_s": 1.0, "both_gb_per_s": None},
    ]
    assert {row.row: row.value for row in calibrate.measured_links(links)} == {
        "copy of 64 KiB to a peer": 25.0,
        "copy of 256 MiB to a peer": 393.0,
        "copies both ways at once, sum": 778.0,
        "host to GPU": 55.0,
    }


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([{"row": "no such row", "value": 1}], {}, "there is no row 'no such row'"),
        ([{"row": SMALL[0], "value": 1}] * 2, {}, "is there twice"),
        ([{"row": SMALL[0], "value": 0}], {}, "is not above 0"),
        ([{"row": SMALL[0]}], {}, "is no file of measured rows"),
        ([], {}, "has no rows"),
        ([{"row": SMALL[0], "value": 1}], {"format": 2}, "format is 2; it must be 1"),
    ],
)
def test_a_wrong_file(
    run: Run, tmp_path: Path, rows: list[Any], more: dict[str, Any], message: str
) -> None:
    ran = run("calibrate", "--measured", measured(tmp_path, rows, **more))
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_machine_of_too_few_gpus(run: Run, tmp_path: Path) -> None:
    text = (SHIPPED.parents[2] / "machines/hgx-h200-4.toml").read_text()
    machine = tmp_path / "two.toml"
    machine.write_text(text.replace("count = 4", "count = 2"))
    ran = run("calibrate", "--machine", machine, "--measured", SHIPPED)
    assert ran.code == 2
    assert "has 2 GPUs; a calibration takes 4" in ran.err
