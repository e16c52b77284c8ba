"""Tests `interlace plan`: its output, its file, and refused input."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from interlace.base.errors import UserError
from interlace.cli import main as cli
from interlace.machine.reading import load_machine
from interlace.study import plan
from interlace.study.plan import Message

pytest.importorskip("interlace._core")

MIB = 1 << 20


def planned(machine: str, *messages: Message, **options: Any) -> dict[str, Any]:
    """Return the JSON of a plan."""
    return plan.to_json(plan.make(load_machine(machine), messages, **options))


def paths(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {path["name"]: path for path in result["paths"]}


def error_of(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the only line on standard error for a wrong command line."""
    assert cli.run(["plan", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("interlace: ").rstrip("\n")


# --- what is known of machines --------------------------------------------------------------------


def test_staging_helps_on_a_mesh_and_not_behind_a_switch() -> None:
    mesh = planned("beluga-4x-v100", Message("gpu0", "gpu1", 256 * MIB))
    assert {name for name, path in paths(mesh).items() if path["bytes"]} == {
        "direct", "gpu2", "gpu3", "host"
    }  # fmt: skip
    switch = planned("hgx-h200-4", Message("gpu0", "gpu1", 256 * MIB))
    assert {name for name, path in paths(switch).items() if path["bytes"]} == {"direct", "host"}
    assert "gpu0 -> nvswitch" in paths(switch)["gpu2"]["reason"]


def test_a_shared_uplink_keeps_the_host_out_when_the_other_direction_uses_it() -> None:
    message = Message("gpu0", "gpu1", 256 * MIB)
    busy = planned("4x-volta-nvlink2", message, traffic=["gpu1:host:gpu0"])
    assert paths(busy)["host"]["reason"] == "traffic in flight already uses plx0 -> host"


# Times of whole transfers, measured on 4 x H200. They include about 8 us of launch and
# synchronisation. The constants of the model come from separate measurements. The time that the
# model predicts must be within a quarter of the measured time.
@pytest.mark.parametrize(
    ("start", "end", "size", "gb_per_s"),
    [
        ("host", "gpu0", 512 * MIB, 193),
        ("host", "gpu0", 256 * MIB, 182),
        ("host", "gpu0", 64 * MIB, 169),
        ("gpu0", "host", 512 * MIB, 150),
        ("gpu0", "gpu1", 576 * MIB, 442),
    ],
)
def test_predictions_are_near_what_was_measured(
    start: str, end: str, size: int, gb_per_s: float
) -> None:
    result = planned("hgx-h200-4", Message(start, end, size))
    measured_s = size / gb_per_s / 1e9
    assert result["predicted_s"] + 8e-6 == pytest.approx(measured_s, rel=0.25)


# --- the command ----------------------------------------------------------------------------------


def test_a_line_says_why_for_each_path(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["plan", "gpu0", "gpu1", "256M", "--machine", "hgx-h200-4"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert re.fullmatch(
        r"256 MiB from gpu0 to gpu1 on hgx-h200-4: predicted for this plan \d+\.\d us, "
        r"\d+\.\d GB/s; predicted for direct paths \d+\.\d us, \d+\.\d GB/s; speedup 1\.1\d x",
        lines[0],
    )
    assert [line.split()[:2] for line in lines[3:7]] == [
        ["direct", "in"], ["gpu2", "out"], ["gpu3", "out"], ["host", "in"]
    ]  # fmt: skip
    assert lines[-1].startswith("copies: ")


def test_several_messages(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--all-to-all", "16M", "--message", "host:gpu0:1M", "--machine", "hgx-h200-4"]
    assert cli.run(["plan", *words]) == 0
    out = capfd.readouterr().out
    assert out.startswith("13 messages of 193 MiB together on hgx-h200-4: predicted ")
    assert "host  gpu0" in out
    assert cli.run(["plan", "--ring", "64M", "--machine", "beluga-4x-v100"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("4 messages of 256 MiB together on beluga-4x-v100")
    assert "round" not in out


def test_rounds_are_explained(capfd: pytest.CaptureFixture[str]) -> None:
    messages = ["--message", "gpu0:gpu1:1M", "--message", "gpu0:gpu2:1M"]
    assert cli.run(["plan", *messages, "--machine", "4x-gv100-pcie3"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[2].split() == ["from", "to", "bytes", "round", "paths"]
    assert [line.split()[4] for line in lines[3:5]] == ["0", "1"]
    assert (
        lines[6] == "The messages of one round share no port. Copies of earlier rounds start first."
    )


def test_simulated_times(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    words = ["--all-to-all", "4M", "--machine", "4x-volta-nvlink2", "--simulate"]
    assert cli.run(["plan", *words, "--json", str(file)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[-2:]] == [
        "simulated, by streams", "simulated, by a reused graph"
    ]  # fmt: skip
    result = json.loads(file.read_text())
    for seconds in result["simulated_s"].values():
        assert 0.5 < seconds / result["predicted_s"] < 2
    assert result["apart"] is False
    assert planned("4x-volta-nvlink2", Message("gpu0", "gpu1", MIB))["simulated_s"] is None


def test_what_is_no_json_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlace.cli.plan.to_json", lambda *_: {"gb_per_s": math.nan})
    words = ["plan", "gpu0", "gpu1", "1M", *ON, "--json", str(tmp_path / "plan.json")]
    with pytest.raises(ValueError, match="not JSON compliant"):
        cli.run(words)
    assert list(tmp_path.iterdir()) == []


def test_json_has_every_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    words = ["gpu0", "gpu1", "64M", "--machine", "beluga-4x-v100", "--paths", "direct,gpu3"]
    words += ["--chunks", "4", "--json", str(file)]
    assert cli.run(["plan", *words]) == 0
    capfd.readouterr()
    result = json.loads(file.read_text())
    assert result["format"] == 1
    assert result["machine"]["name"] == "beluga-4x-v100"
    assert result["options"]["staging"] == ["gpu3"]
    assert len(result["steps"]) == 1 + 2 * 4
    assert sum(path["bytes"] for path in result["paths"]) == 64 * MIB
    assert sum(path["share"] for path in result["paths"]) == pytest.approx(1)
    arrived = sorted(
        (step["to"]["offset"], step["bytes"])
        for step in result["steps"]
        if step["to"]["memory"] == "destination"
    )
    assert [offset for offset, _ in arrived] == [
        sum(size for _, size in arrived[:index]) for index in range(len(arrived))
    ]
    for index, step in enumerate(result["steps"]):
        assert step["begin_s"] < step["end_s"] <= result["predicted_s"]
        assert all(
            earlier < index and result["steps"][earlier]["end_s"] <= step["begin_s"]
            for earlier in step["after"]
        )
        assert step["stream"] < len(result["streams"])
    documented = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
    section = documented.split("## plan\n")[1].split("\n## ")[0]
    for key in [*result, *result["paths"][0], *result["steps"][0], *result["buffers"][0]]:
        assert f"`{key}`" in section, key


def test_the_same_plan_twice() -> None:
    messages = [Message("gpu0", "gpu1", 64 * MIB), Message("gpu1", "host", 5 * MIB + 3)]
    first, second = (planned("narval-4x-a100", *messages) for _ in range(2))
    assert {**first, "date": None} == {**second, "date": None}


def test_round_robin_deals_chunks_in_turn() -> None:
    message = Message("gpu0", "gpu1", 64 * MIB)
    result = planned("beluga-4x-v100", message, dealing="round-robin", chunks=8)
    offsets = {
        name: {
            step["from"]["offset"]
            for step in result["steps"]
            if result["paths"][step["path"]]["name"] == name and step["from"]["memory"] == "source"
        }
        for name in ("direct", "gpu2")
    }
    assert min(offsets["gpu2"]) < max(offsets["direct"])


# --- what is refused ------------------------------------------------------------------------------

ON = ("--machine", "beluga-4x-v100")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ON,
            "plan needs a message; give gpu0 gpu1 256M, --message SRC:DST:SIZE, --ring SIZE or "
            "--all-to-all SIZE",
        ),
        (
            ("gpu0", "gpu1", *ON),
            "a message needs a source, a destination and a size, such as gpu0 gpu1 256M",
        ),
        (
            ("gpu0", "gpu4", "1M", *ON),
            "beluga-4x-v100 has no gpu4; its GPUs are gpu0 to gpu3",
        ),
        (
            ("gpu0", "gpu1", "1M", "--paths", "gpu9", *ON),
            "beluga-4x-v100 has no gpu9; its GPUs are gpu0 to gpu3",
        ),
        (
            ("gpu0", "hots", "1M", *ON),
            "there is no memory 'hots' (did you mean host?); "
            "give one of gpu0, gpu1, gpu2, gpu3, host",
        ),
        (
            (),  # this holds for every machine
            "plan needs a message; give gpu0 gpu1 256M, --message SRC:DST:SIZE, --ring SIZE or "
            "--all-to-all SIZE",
        ),
        (
            ("gpu0", "gpu1", "999999999T", *ON),
            "SIZE '999999999T': give a size in bytes, or with K, M or G, such as 4096 or 256M",
        ),
        (
            ("gpu0", "gpu0", "1M", *ON),
            "source and destination are both gpu0; name two different memories",
        ),
        (
            ("gpu0", "gpu1", "0", *ON),
            "SIZE '0': give a size of at least 1 byte, such as 4096 or 256M",
        ),
        (
            ("gpu0", "gpu1", "1.5M", *ON),
            "SIZE '1.5M': give a size in bytes, or with K, M or G, such as 4096 or 256M",
        ),
        (
            ("--message", "gpu0:gpu1", *ON),
            "--message 'gpu0:gpu1': give SOURCE:DESTINATION:SIZE, such as gpu0:gpu1:256M",
        ),
        (
            ("gpu0", "gpu1", "1M", "--paths", "direct,hots", *ON),
            "there is no path 'hots' (did you mean host?); "
            "give one of direct, gpu0, gpu1, gpu2, gpu3, host",
        ),
        (
            ("gpu0", "gpu1", "1M", "--paths", "gpu1", *ON),
            "the paths that are allowed cannot carry the message; allow others",
        ),
        (
            ("gpu0", "gpu1", "1M", "--chunks", "0", *ON),
            "--chunks 0: give a number of at least 1",
        ),
        (
            ("gpu0", "gpu1", "1M", "--chunks", "1025", *ON),
            "--chunks 1025: give a number of at most 1024",
        ),
        (
            ("gpu0", "gpu1", "1M", "--dealing", "by-shar", *ON),
            "there is no dealing 'by-shar' (did you mean by-share?); "
            "give one of by-share, round-robin",
        ),
        (
            ("gpu0", "gpu1", "1M", "--traffic", "gpu1", *ON),
            "--traffic 'gpu1': give all memories on the way, such as gpu1:host:gpu0",
        ),
        (
            ("gpu0", "gpu1", "1M", "--staging", "none", *ON),
            "--staging 'none': give a size in bytes, or with K, M or G, such as 4096 or 256M",
        ),
        (
            ("gpu0", "gpu1", "1M", "--json", "/no/such/plan.json", *ON),
            "--json /no/such/plan.json: there is no directory /no/such",
        ),
    ],
)
def test_wrong_input(
    capfd: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert error_of(capfd, *words) == sentence


def test_a_machine_with_one_gpu_has_no_ring() -> None:
    with pytest.raises(UserError, match="--ring"):
        plan.messages_of(load_one_gpu(), (None, None, None), (), "1M", None)


def load_one_gpu() -> Any:
    import msgspec

    machine = load_machine("beluga-4x-v100")
    return msgspec.structs.replace(machine, gpu=msgspec.structs.replace(machine.gpu, count=1))
