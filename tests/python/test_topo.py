"""Tests `interlace topo`: pictures, discovery with a fake driver, measurements, saved files."""

from __future__ import annotations

import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from interlace.base.errors import UserError
from interlace.cli.topo import topo_command
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine, parse_machine
from interlace.machine.shipped import shipped_machines
from interlace.machine.writing import machine_text
from interlace.study import topo
from study_helpers import figures_of

core = pytest.importorskip("interlace._core")

app = typer.Typer()
app.command()(topo_command)


def run(*arguments: str, columns: int = 80) -> str:
    """Return the output of the command. A UserError passes through to the caller."""
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, list(arguments))
    if result.exception is not None:
        raise result.exception
    return result.output


class FakeCore:
    """The real extension module, but with invented answers of the driver."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(core, name)

    def discover_machine(self, known: list[Any]) -> Any:
        assert [machine.name for machine in known] == shipped_machines()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def four_h200() -> Any:
    """Return what discovery finds on an HGX board with four H200."""
    found = to_core(load_machine("hgx-h200-4"), core)
    found.name = "this-node"
    found["title"] = "4 x NVIDIA H200, discovered, driver 580.159"
    device = {
        "name": "NVIDIA H200",
        "memory_bytes": 150109880320,
        "pcie_generation": 5,
        "pcie_width": 16,
        "numa_node": -1,
        "nvlinks": 18,
    }
    return types.SimpleNamespace(
        found=found,
        template_name="hgx-h200-4",
        same_model=True,
        queried=[
            "gpu.count",
            "gpu.model",
            "gpu.compute_units",
            "gpu.clock_MHz",
            "gpu.dram.capacity_GiB",
        ],
        link_rates=["the rate of a link in hgx-h200-4, times the queried width"] * 8,
        devices=[types.SimpleNamespace(**device, bus_id=f"0000:{n}b:00.0") for n in range(1, 5)],
        relations=[["X" if a == b else "NV18" for a in range(4)] for b in range(4)],
        remarks=["No peer access between gpu0-gpu1: data between them go through host memory."],
        driver_version="580.159",
        cuda_version="13.0",
    )


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topo, "load_core", lambda: FakeCore(four_h200()))


# --- described machines ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_machines())
def test_draws_every_shipped_machine_in_80_columns(name: str) -> None:
    text = run(name)
    assert text.startswith(f"# {name}: {load_machine(name).title}\n")
    assert all(len(line) <= 80 for line in text.splitlines()[1:])
    for heading in ("How the devices are linked", "GB/s in each direction", "links", "routes"):
        assert heading in text


def matrix(text: str, title: str) -> list[list[str]]:
    """Return the rows of the matrix with this title."""
    lines = text[text.index(title) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("gpu"):
            break
        rows.append(line.split()[1:])
    return rows


def test_volta_mesh() -> None:
    text = run("4x-volta-nvlink2")
    assert matrix(text, "How the devices") == [
        ["X", "NV2", "NV2", "NV2", "PHB"],
        ["NV2", "X", "NV2", "NV2", "PHB"],
        ["NV2", "NV2", "X", "NV2", "PHB"],
        ["NV2", "NV2", "NV2", "X", "PHB"],
    ]
    assert matrix(text, "GB/s in each")[0] == ["-", "50", "50", "50", "15.8"]
    assert "NV#  this many bonded NVLinks" in text
    assert "PXB" not in text  # the legend explains only words that are shown
    assert "gpu0 -nvlink2-> gpu1" in text


def test_pascal_has_two_pairs_with_two_links() -> None:
    words = matrix(run("4x-pascal-nvlink"), "How the devices")
    assert [row[:4] for row in words] == [
        ["X", "NV1", "NV1", "NV2"],
        ["NV1", "X", "NV2", "NV1"],
        ["NV1", "NV2", "X", "NV1"],
        ["NV2", "NV1", "NV1", "X"],
    ]


def test_trees_and_switches() -> None:
    tree = matrix(run("4x-r9nano"), "How the devices")
    assert tree[0] == ["X", "PIX", "PHB", "PHB", "PHB"]
    assert set(matrix(run("4x-gv100-pcie4"), "How the devices")[0][1:4]) == {"PIX"}
    dgx = matrix(run("dgx-2"), "How the devices")
    assert len(dgx) == 16
    assert dgx[3].count("NV6") == 15
    assert matrix(run("hgx-h200-4"), "How the devices")[0][1] == "NV18"


def test_several_switches_are_pxb(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "machines/4x-kepler-pcie3.toml").read_text("utf-8")
    path = tmp_path / "two.toml"
    path.write_text(text.replace('ends = ["plx*", "host"]', 'ends = ["plx0", "plx1"]'))
    rows = matrix(run(str(path)), "How the devices")
    assert rows[0] == ["X", "PIX", "PXB", "PXB"]  # a host without links has no column


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert f"wrote {path}" in run("dgx-2", "--json", str(path), columns=200)
    data = json.loads(path.read_text())
    assert data["discovered"] is False
    assert data["driver"] is None
    assert data["measured"] is None
    assert data["machine"]["gpu"]["count"] == 16
    assert len(data["links"]) == 44
    assert len(data["routes"]) == 16 * 17
    assert data["matrix"]["gpu0"]["gpu5"] == "NV6"
    route = next(r for r in data["routes"] if (r["from"], r["to"]) == ("gpu2", "gpu9"))
    assert route["gb_per_s"] == 150
    assert route["text"] == "gpu2 -nvlink2-> nvswitch -nvlink2-> gpu9"
    assert route["latency_ns"] == 450


def test_save_of_a_described_machine(tmp_path: Path) -> None:
    path = tmp_path / "dgx-2.toml"
    run("dgx-2", "--save", str(path))
    assert load_machine(path) == load_machine("dgx-2")
    assert run(str(path)).splitlines()[1:] == run("dgx-2").splitlines()[1:]


# --- the machine on which the command runs
# ----------------------------------------------------------


@pytest.mark.usefixtures("h200")
def test_discovered_machine() -> None:
    text = run(columns=100)
    assert text.startswith("# this-node: 4 x NVIDIA H200, discovered, driver 580.159\n")
    assert "0000:1b:00.0" in text
    assert "5 x16" in text
    assert matrix(text, "How the devices")[0] == ["X", "NV18", "NV18", "NV18", "PHB"]
    assert "figures come from hgx-h200-4." in " ".join(text.split())
    assert "Note: No peer access between gpu0-gpu1" in text


@pytest.mark.usefixtures("h200")
def test_save_of_a_discovered_machine(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    run("--save", str(path), "--json", str(tmp_path / "mine.json"))
    machine = load_machine(path, sources=True)
    assert machine.name == "mine"
    assert machine.gpu.count == 4
    assert machine.sources["gpu.compute_units"] == "queried: NVIDIA driver 580.159"
    assert machine.sources["gpu.l2.hit_latency_ns"].startswith("taken from hgx-h200-4: measured")
    assert machine.sources["link.0.bandwidth_GB_per_s"].startswith("the rate of a link in")
    assert "Discovered on" in machine.sources[""]
    assert "No peer access" in machine.sources[""]
    bare = [key for key in figures_of(path.read_text()) if len(machine.sources.get(key, "")) < 6]
    assert bare == []
    figures = [line for line in path.read_text().splitlines() if " = " in line]
    assert len(figures) > 60
    data = json.loads((tmp_path / "mine.json").read_text())
    assert data["discovered"] is True
    assert data["driver"] == "580.159"
    assert data["devices"][0]["bus_id"] == "0000:1b:00.0"
    assert data["devices"][0]["numa_node"] is None
    assert data["taken_from"] == "hgx-h200-4"
    # Commands must accept the saved machine in the same way as a shipped machine.
    assert matrix(run(str(path)), "How the devices")[0][1] == "NV18"


def test_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = "no NVIDIA driver was found (no libcuda.so.1)"
    monkeypatch.setattr(topo, "load_core", lambda: FakeCore(UserError(said)))
    with pytest.raises(UserError) as caught:
        run("--save", str(tmp_path / "x.toml"))
    assert str(caught.value) == (
        f"{said}; name a described machine instead, for example: interlace topo 4x-volta-nvlink2"
    )
    assert list(tmp_path.iterdir()) == []


def test_no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "interlace._core", None)
    with pytest.raises(UserError, match="the compiled part of Interlace cannot be loaded"):
        run("dgx-2")


# --- measuring ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("h200")
def test_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = []
    for size, rate in ((1 << 20, 200.0), (256_000_000, 393.4)):
        for a in range(4):
            for b in range(4):
                if a != b:
                    row = {"from": a, "to": b, "bytes": size, "gb_per_s": rate + a + b}
                    rows.append({**row, "both_gb_per_s": 2 * rate})
    rows.append(
        {
            "from": "host",
            "to": "gpu0",
            "bytes": 256_000_000,
            "gb_per_s": 55.4,
            "both_gb_per_s": None,
        }
    )
    module = types.SimpleNamespace(measure_links=lambda: rows)
    monkeypatch.setitem(sys.modules, "interlace._cuda", module)
    text = run("--measure", "--json", str(tmp_path / "m.json"), columns=100)
    assert (
        "Measured: copy engine, 256 MB from the row's device "
        "to the column's device, in GB/s of payload" in text
    )
    assert matrix(text, "Measured: copy engine")[0] == ["X", "394", "395", "396", "-"]
    assert matrix(text, "Measured: both")[1] == ["787", "X", "787", "787", "-"]
    assert "host 55.4" in text
    assert len(json.loads((tmp_path / "m.json").read_text())["measured"]) == 25


@pytest.mark.usefixtures("h200")
def test_measure_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "interlace._cuda", None)
    with pytest.raises(
        UserError, match="--measure cannot measure here: this Interlace was built without CUDA"
    ):
        run("--measure")


@pytest.mark.usefixtures("h200")
def test_measure_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[Any]:
        raise RuntimeError("gpu2 is lost")

    module = types.SimpleNamespace(measure_links=fail)
    monkeypatch.setitem(sys.modules, "interlace._cuda", module)
    with pytest.raises(UserError, match="the links cannot be measured: gpu2 is lost"):
        run("--measure")


# --- files ----------------------------------------------------------------------------------------


def test_a_reader_who_left_costs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("interlace.cli.topo.draw", leave)
    path = tmp_path / "x.toml"
    with pytest.raises(BrokenPipeError):
        topo_command("dgx-2", save=path)
    assert load_machine(path).gpu == load_machine("dgx-2").gpu


def test_save_keeps_every_comment_of_a_described_machine(tmp_path: Path) -> None:
    given, copy = tmp_path / "given.toml", tmp_path / "copy.toml"
    text = machine_text(load_machine("dgx-2")).replace("[gpu.l1]", "# alone\n\n[gpu.l1] # beside")
    given.write_text(f"{text}\n# at the end\n", encoding="utf-8")
    run(str(given), "--save", str(copy))
    assert copy.read_text(encoding="utf-8") == given.read_text(encoding="utf-8")


def test_a_machine_that_could_not_be_loaded_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = topo.describe("dgx-2")
    gpu = msgspec.structs.replace(drawn.machine.gpu, warp_width_lanes=33)
    machine = msgspec.structs.replace(drawn.machine, gpu=gpu)
    monkeypatch.setattr(
        "interlace.cli.topo.discover", lambda: drawn._replace(machine=machine, text="")
    )
    with pytest.raises(UserError, match=r"dgx-2: gpu\.warp_width_lanes is 33; it must be"):
        run("--save", str(tmp_path / "x.toml"), "--json", str(tmp_path / "x.json"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_json_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlace.cli.topo.to_json", lambda *_: {"gb_per_s": math.nan})
    with pytest.raises(ValueError, match="not JSON compliant"):
        run("dgx-2", "--json", str(tmp_path / "x.json"))
    assert list(tmp_path.iterdir()) == []


# --- bad input ------------------------------------------------------------------------------------


def test_bad_options(tmp_path: Path) -> None:
    both = str(tmp_path / "both")
    for arguments, said in [
        (["dgx3"], "there is no machine 'dgx3'"),
        (["dgx-2", "--measure"], "--measure measures this computer"),
        (["dgx-2", "--save", "/no/such/x.toml"], "--save /no/such/x.toml: there is no directory"),
        (["dgx-2", "--json", str(tmp_path)], "is a directory; give the name of a file"),
        (
            ["dgx-2", "--save", both, "--json", both],
            f"--json and --save are both {both}; give two different names",
        ),
        (["nothing.toml", "--save", both], "nothing.toml: there is no such machine file"),
    ]:
        with pytest.raises(UserError) as caught:
            run(*arguments)
        assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_description_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("interlace._core")
    file = tmp_path / "mine.toml"
    run("dgx-2", "--save", str(file))
    text = file.read_text()
    with pytest.raises(
        UserError, match=r"MACHINE and --json are both .*; give two different names"
    ):
        run(str(file), "--json", str(file))
    assert file.read_text() == text
    run(str(file), "--save", str(file))
    assert file.read_text() == text


def test_a_circle_of_links(tmp_path: Path) -> None:
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(UserError, match=r"loop\.toml cannot be read: Too many levels of symbolic"):
        run(str(loop))
    for option in ("--json", "--save"):
        with pytest.raises(UserError, match=r"loop\.toml cannot be written: Too many levels"):
            run("dgx-2", option, str(loop))


def test_save_to_standard_output(tmp_path: Path) -> None:
    text = run("dgx-2", "--save", "-")
    assert parse_machine(text, "dgx-2", "-") == load_machine("dgx-2")
    assert not (tmp_path / "-").exists()


def test_what_the_real_discovery_says_without_a_gpu() -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="name a described machine instead"):
        run()
