"""Tests `interlace cost`: storage by formulas, compared with the figures of the papers."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from interlace.machine.reading import load_machine
from interlace.study import cost
from study_helpers import Run

PAPER = load_machine("4x-gv100-pcie4")


def bits(gpus: int, structure: str, what: str = "") -> int:
    """Return the number of bits that a structure needs in a GPU of the paper's machine."""
    found = [
        part for part in cost.parts(PAPER, gpus)
        if part.structure == structure and what in (part.what, "")
    ]  # fmt: skip
    assert found
    return sum(part.bits for part in found)


def test_the_papers_machine() -> None:
    assert bits(4, "remote write queue", "data") == 24 * 1024 * 8
    assert bits(16, "remote write queue", "data") == 120 * 1024 * 8
    assert bits(4, "remote write queue", "byte enables") == 3 * 64 * 128
    # The queue has 192 entries. Table III states 144 bytes for each entry, and leaves out some bits
    # of the queue.
    assert bits(4, "remote write queue") > 192 * 144 * 8
    assert bits(4, "remote write queue") < 192 * 150 * 8
    # A tag has 23 bits, because 7 of the 30 bits of an offset are inside a line. An entry also has
    # a valid bit.
    assert bits(4, "remote write queue", "tags, valid bits, windows") == 192 * 24
    assert bits(4, "remote write queue", "base and payload registers") == 3 * (64 + 13)
    assert bits(4, "queue of GPS") == 512 * 135 * 8
    assert bits(4, "L1") == 80 * 128 * 1024 * 8
    assert bits(4, "L2") == 6144 * 1024 * 8


def test_it_grows_with_the_configuration() -> None:
    queue = PAPER.gpu.remote_write_queue

    def total(**changes: object) -> int:
        changed = msgspec.structs.replace(queue, **changes)
        gpu = msgspec.structs.replace(PAPER.gpu, remote_write_queue=changed)
        machine = msgspec.structs.replace(PAPER, gpu=gpu)
        return sum(p.bits for p in cost.parts(machine, 4) if p.structure == "remote write queue")

    assert total(lines_per_destination=128) > 1.9 * total()
    assert total(subheader_bytes=6) > total() > total(subheader_bytes=2)
    assert total(windows_per_destination=4) > total()
    assert total(window="growing") > total()


def test_the_command(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "cost.json"
    done = run("cost", "4x-gv100-pcie4", "--json", out)
    assert (done.code, done.err) == (0, "")
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["gpus"] == 4
    assert sum(part["bits"] for part in document["parts"] if part["structure"] == "L2") > 0
    assert "24.000" in done.out
    assert "less than 0.05 % of the area of the caches of a GA100" in done.out
    for part in document["parts"]:
        assert part["bits"] == part["count"] * part["bits_each"]
    sixteen = run("cost", "4x-gv100-pcie4", "--gpus", 16)
    assert "120.000" in sixteen.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "cost needs a machine; give the name of a shipped machine, or a .toml file"),
        (("dgx-2", "--gpus", "1"), "--gpus 1: give a number of at least 2"),
        (
            ("dgx-2", "--gpus", "17"),
            "17 GPUs: the queue exists with 2 to 16 GPUs; give such a number with --gpus",
        ),
    ],
)
def test_what_cannot_be_said(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run("cost", *words)
    assert done.code == 2
    assert said in done.err


def test_dualopt_where_it_is_described(run: Run) -> None:
    machine = load_machine("4x-r9nano")
    found = {(p.structure, p.what): p for p in cost.parts(machine, 4)}
    assert found["DualOpt: bitmasks", "one bit for each piece of a line"].bits == 64 * 16
    assert found["DualOpt: MSHRs", "one bit for each piece of a line"].bits == 64 * 32 * 16
    codec = found["DualOpt: CoDec", "response IDs, data, valid bits"]
    assert (codec.count, codec.bits_each) == (3 * 64, 16 + 32 + 1)
    assert found["DualOpt: RDMA cache", "tags, valid and dirty bits"].count == 24576
    # Two bits hold one of three choices. A counter of up to 20 000 loads has 15 bits, and a counter
    # of up to 2 windows has 2 bits. The number of the unit that looks into its L1 (0 to 63) has 6
    # bits.
    (adaptive,) = [p for p in cost.parts(machine, 4) if p.structure == "dualopt-adaptive"]
    assert adaptive.bits == 2 + 15 + 2 + 6
    (pages,) = [p for p in cost.parts(machine, 4) if p.structure == "dualopt-pages"]
    assert (pages.count, pages.bits_each) == (4096, 2 + 7 + 7 + 11)
    assert not [p for p in cost.parts(PAPER, 4) if p.structure.startswith("DualOpt")]
    done = run("cost", "4x-r9nano")
    assert "0.032 % of the hardware" in done.out
    assert "GPS: runs unchanged programs: no" in done.out
