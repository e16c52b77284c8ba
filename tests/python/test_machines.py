"""Tests machine descriptions: the shipped files, and the reading, checking and writing of files."""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace.base import toml_files
from interlace.base.errors import UserError
from interlace.base.files import write_all
from interlace.machine.compiled import from_core, to_core
from interlace.machine.devices import connections, gpu_names
from interlace.machine.keys import Key
from interlace.machine.reading import load_machine, parse_machine
from interlace.machine.schema import KEYS, Machine
from interlace.machine.shipped import shipped_machines
from interlace.machine.validation import validate
from interlace.machine.writing import machine_text
from study_helpers import figures_of

SHIPPED = [
    "16x-gv100-pcie6",
    "4x-gv100-pcie3",
    "4x-gv100-pcie4",
    "4x-gv100-pcie5",
    "4x-gv100-pcie6",
    "4x-kepler-pcie3",
    "4x-pascal-nvlink",
    "4x-r9nano",
    "4x-r9nano-1ghz",
    "4x-volta-nvlink2",
    "beluga-4x-v100",
    "dgx-2",
    "hgx-h200-4",
    "narval-4x-a100",
]
FOLDER = Path(__file__).resolve().parents[2] / "machines"
TOOL = FOLDER.parent / "tools" / "machine_keys.py"


def volta() -> str:
    return (FOLDER / "4x-volta-nvlink2.toml").read_text(encoding="utf-8")


def error_of(text: str) -> str:
    """Return the error message for a file with this text."""
    with pytest.raises(UserError) as caught:
        parse_machine(text, "x", "x.toml")
    return str(caught.value)


def refusal(text: str) -> str:
    """Return the error message for a file with this text, or an empty text if the file is a
    machine.
    """
    try:
        machine = parse_machine(text, "x", "x.toml")
    except UserError as error:
        return str(error)
    assert validate(machine) == []
    return ""


# --- the shipped files ----------------------------------------------------------------------------


def test_all_are_shipped() -> None:
    assert shipped_machines() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_file_loads_and_reaches_cpp(name: str) -> None:
    core = pytest.importorskip("interlace._core")
    machine = load_machine(name)
    assert machine.name == name
    assert validate(machine) == []
    made = to_core(machine, core)
    assert core.validate_machine(made) == []
    assert made.gpu_count == machine.gpu.count
    assert made["gpu.l2.hit_latency_ns"] == machine.gpu.l2.hit_latency_ns
    assert len(made.links) == len(connections(machine))
    assert made.links[0]["bandwidth_GB_per_s"] == machine.link[0].bandwidth_GB_per_s
    back = from_core(made, core, "back")
    # The core has no key for the error of simulated workloads, because this key is only for people.
    described = msgspec.structs.replace(machine.gpu, workload_error_percent=msgspec.UNSET)
    assert (back.gpu, back.host, back.protocol, back.switch) == (
        described,
        machine.host,
        machine.protocol,
        machine.switch,
    )
    assert [c[:2] for c in connections(back)] == [c[:2] for c in connections(machine)]


@pytest.mark.parametrize("sign", ["##", "# #", "#\t# #"])
def test_a_source_after_several_number_signs_is_written_and_read_again(sign: str) -> None:
    text = re.sub(r"(?m)^(compute_units = \d+).*$", rf"\g<1> {sign} a source", volta(), count=1)
    machine = parse_machine(text, "m", "m.toml", sources=True)
    assert machine.sources["gpu.compute_units"] == "a source"
    assert parse_machine(machine_text(machine), "m", "m.toml", sources=True) == machine


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_has_a_source(name: str) -> None:
    sources = load_machine(name, sources=True).sources
    keys = figures_of((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    assert len(keys) > 45
    missing = [key for key in keys if len(sources.get(key, "")) < 6]
    assert missing == []
    assert "Link bandwidth" in sources[""] or "reading" in sources[""]


@pytest.mark.parametrize("name", SHIPPED)
def test_assumptions_give_a_reason(name: str) -> None:
    for key, source in load_machine(name, sources=True).sources.items():
        if "assumed" in source and key:
            assert re.search(r"assumed: \S+ \S+ \S+", source), f"{key}: {source}"


@pytest.mark.parametrize(
    ("name", "per_gpu"),
    [
        ("4x-pascal-nvlink", 80.0),  # four links of 20 GB/s
        ("4x-volta-nvlink2", 150.0),  # six links of 25 GB/s
        ("beluga-4x-v100", 150.0),
        ("dgx-2", 150.0),
        ("narval-4x-a100", 300.0),  # twelve links of 25 GB/s
        ("hgx-h200-4", 419.0),
    ],
)
def test_nvlinks_of_a_gpu_add_up(name: str, per_gpu: float) -> None:
    machine = load_machine(name)
    for gpu in gpu_names(machine):
        rates = [
            link.bandwidth_GB_per_s
            for a, b, link in connections(machine)
            if gpu in (a, b) and link.protocol.startswith("nvlink")
        ]
        assert sum(rates) == per_gpu


@pytest.mark.parametrize("name", SHIPPED)
def test_every_gpu_reaches_the_host(name: str) -> None:
    core = pytest.importorskip("interlace._core")
    machine = load_machine(name)
    made = to_core(machine, core)
    host = core.Endpoint(core.EndpointKind.host, 0)
    for index in range(machine.gpu.count):
        assert core.route(made, core.Endpoint(core.EndpointKind.gpu, index), host)


# --- groups of ends -------------------------------------------------------------------------------


def pairs(name: str, protocol: str) -> list[tuple[str, str]]:
    return [(a, b) for a, b, link in connections(load_machine(name)) if link.protocol == protocol]


def test_groups_of_ends() -> None:
    mesh = pairs("4x-volta-nvlink2", "nvlink2")
    assert mesh == [(f"gpu{a}", f"gpu{b}") for a in range(4) for b in range(a + 1, 4)]
    tree = pairs("4x-volta-nvlink2", "pcie3")
    assert tree == [
        ("gpu0", "plx0"),
        ("gpu1", "plx0"),
        ("gpu2", "plx1"),
        ("gpu3", "plx1"),
        ("plx0", "host"),
        ("plx1", "host"),
    ]
    star = pairs("dgx-2", "nvlink2")
    assert star == [(f"gpu{index}", "nvswitch") for index in range(16)]


# --- finding --------------------------------------------------------------------------------------


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dgx-2").write_text(volta(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_machine("dgx-2").gpu.count == 4
    (tmp_path / "dgx-2").unlink()
    assert load_machine("dgx-2").gpu.count == 16
    # A folder with the name of a machine must not hide the shipped machine.
    (tmp_path / "dgx-2").mkdir()
    assert load_machine("dgx-2").gpu.count == 16


def test_unknown_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    give = f"give one of {', '.join(SHIPPED)}, or the path of a .toml file"
    for name, said in [
        ("dgx2", f"there is no machine 'dgx2' (did you mean dgx-2?); {give}"),
        ("", f"there is no machine ''; {give}"),
        ("a\0b", f"there is no machine 'a\\x00b'; {give}"),
        ("no.toml", "no.toml: there is no such machine file"),
        ("no/such", "no/such: there is no such machine file"),
    ]:
        with pytest.raises(UserError) as caught:
            load_machine(name)
        assert str(caught.value) == said


# --- files that cannot be read --------------------------------------------------------------------


def test_unreadable_files(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(UserError) as caught:
            load_machine(path)
        return str(caught.value)

    path = tmp_path / "x.toml"
    path.write_bytes(b"title = '\xff'\n")
    assert said(path) == f"{path} is not UTF-8 text: byte 0xff at offset 9"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    assert said(path) == f"{path} is larger than 1 MiB; this is not a machine file"
    path.write_text("format = 1\ntitle = \n", encoding="utf-8")
    assert said(path) == f"{path}, line 2: this is not TOML: Invalid value"
    path.write_text("x = " + "[" * 5000, encoding="utf-8")
    assert "this is not" in said(path) or "too deeply nested" in said(path)
    assert said(tmp_path) == f"{tmp_path} is a directory; a machine is a .toml file"
    os.mkfifo(tmp_path / "pipe")
    pipe = tmp_path / "pipe"
    assert said(pipe) == f"{pipe} is not a regular file; a machine is a .toml file"


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.toml"
    path.write_text(volta(), encoding="utf-8")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"x\.toml cannot be read: Permission denied"):
        load_machine(path)


# --- bad contents ---------------------------------------------------------------------------------

Edit = Callable[[str], str]


def put(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return edit


def drop(key: str) -> Edit:
    return lambda text: re.sub(rf"^{key} = .*\n", "", text, count=1, flags=re.MULTILINE)


def add(lines: str) -> Edit:
    return lambda text: f"{text}\n{lines}\n"


LINK = """[[link]]
ends = ["{}", "{}"]
protocol = "nvlink2"
width = 1
bandwidth_GB_per_s = 25
latency_ns = 1
queue_KiB = 1"""
ENDS = "give one of gpu0, gpu1, gpu2, gpu3, plx0, plx1, host"

BAD: list[tuple[Edit, str]] = [
    (drop("format"), "format is missing; the first line of a machine is format = 1"),
    (
        put("format = 1", "format = 2"),
        "format is 2, but this version of Interlace reads format 1",
    ),
    (
        put("format = 1", "format = true"),
        "format is True, but this version of Interlace reads format 1",
    ),
    (
        put("format = 1", 'format = 1\nname = "y"'),
        "name is not a known key; the name of the file is the name of the machine",
    ),
    (drop("title"), "title is missing"),
    (put("count = 4", "count = 0"), "gpu.count is 0; it must be at least 1"),
    (drop("launch_us"), "gpu.copy.launch_us is missing"),
    (
        put("latency_ns = 350", "latency_ns = 350\ncopy_GB_per_s = 51"),
        "link 1: copy_GB_per_s is 51; it must be at most bandwidth_GB_per_s, which is 50",
    ),
    (
        put("latency_ns = 350", "latency_ns = 350\ncopy_both_GB_per_s = 101"),
        "link 1: copy_both_GB_per_s is 101; it must be at most 100, "
        "because bandwidth_GB_per_s is 50",
    ),
    (
        put("memory_GB_per_s = 100", "memory_GB_per_s = 100\ncopy_write_GB_per_s = 101"),
        "host.copy_write_GB_per_s is 101; it must be at most host.memory_GB_per_s, which is 100",
    ),
    (put("count = 4", "count = 17"), "gpu.count is 17; it must be at most 16"),
    (put("count = 4", 'count = "4"'), "gpu.count must be a whole number, not a string"),
    (
        put("count = 4", "count = 4.5"),
        "gpu.count must be a whole number, not a number with a fraction",
    ),
    (put("count = 4", "count = true"), "gpu.count must be a whole number, not true or false"),
    (
        put("clock_MHz = 1530", "clock_GHz = 1.53"),
        "gpu.clock_GHz is not a known key (did you mean clock_MHz?)",
    ),
    (put("clock_MHz = 1530", "clock_MHz = -1"), "gpu.clock_MHz is -1; it must be at least 1"),
    (
        put("bandwidth_GB_per_s = 50", "bandwidth_GB_per_s = 1e-9"),
        "link 1: bandwidth_GB_per_s is 1e-09; it must be at least 0.1",
    ),
    (
        put("clock_MHz = 1530", "clock_MHz = inf"),
        "gpu.clock_MHz is inf; it must be at most 1000000000",
    ),
    (put("clock_MHz = 1530", "clock_MHz = nan"), "gpu.clock_MHz is nan; it must be at least 1"),
    (drop("warp_width_lanes"), "gpu.warp_width_lanes is missing"),
    (
        put("warp_width_lanes = 32", "warp_width_lanes = 33"),
        "gpu.warp_width_lanes is 33; it must be a power of two",
    ),
    (
        put("[gpu.l1]\n", "[gpu.l1]\nsize_kib = 3\n"),
        "gpu.l1.size_kib is not a known key (did you mean size_KiB?)",
    ),
    (
        put('write_policy = "through"', 'write_policy = "around"'),
        'gpu.l1.write_policy is \'around\'; it must be "through" or "back"',
    ),
    (
        put("size_KiB = 6144", "size_KiB = 6145"),
        "gpu.l2.size_KiB is 6145; it must be a multiple of gpu.l2.banks x gpu.l2.ways x "
        "gpu.l2.line_bytes, which is 128",
    ),
    (
        put("warp_width_lanes = 32", "warp_width_lanes = 32\nremote_store_bytes = 12"),
        "gpu.remote_store_bytes is 12; it must be a power of two",
    ),
    (
        put("[gpu.copy]\n", "[gpu.copy]\npeer_engines = 4\n"),
        "gpu.copy.peer_engines is 4; it must be at most gpu.copy.engines, which is 3",
    ),
    (
        put("sector_bytes = 32", "sector_bytes = 256"),
        "gpu.l1.sector_bytes is 256; it must divide gpu.l1.line_bytes, which is 128",
    ),
    (
        put("line_bytes = 128", "line_bytes = 64"),
        "gpu.l2.line_bytes is 128; it must be gpu.l1.line_bytes, which is 64",
    ),
    (put("[gpu.dram]", "[gpu.memory]"), "gpu.memory is not a known key"),
    (put("[host]", "[hosts]"), "hosts is not a known key (did you mean host?)"),
    (
        put('kind = "nvlink2"', 'kind = "nvlink9"'),
        "protocol.nvlink2.kind is 'nvlink9'; it must be "
        '"pcie3", "pcie4", "pcie5", "pcie6", "nvlink1", "nvlink2", "nvlink3" or "nvlink4"',
    ),
    (
        put("read_request_bytes = 24", "unused = 24"),
        "protocol.pcie3.unused is not a known key",
    ),
    (
        drop("read_request_bytes"),
        "protocol.pcie3.read_request_bytes is missing; the kind pcie3 needs it",
    ),
    (
        put('kind = "nvlink2"', 'kind = "nvlink2"\npacket_overhead_bytes = 1'),
        "protocol.nvlink2.packet_overhead_bytes has no meaning for nvlink2; leave it out",
    ),
    (
        put('protocol = "nvlink2"', 'protocol = "nvlink3"'),
        'link 1: protocol: "nvlink3" is not described; give one of nvlink2, pcie3',
    ),
    (
        put('ends = ["gpu0-1", "plx0"]', 'ends = ["gpu0-9", "plx0"]'),
        f'link 2: ends: "gpu0-9" does not exist; {ENDS}',
    ),
    (
        put('ends = ["plx*", "host"]', 'ends = ["pcie*", "host"]'),
        f'link 4: ends: "pcie*" does not exist; {ENDS}',
    ),
    (
        put('ends = ["plx*", "host"]', 'ends = ["plx0"]'),
        "link 4: ends has 1 entry; it must have 2",
    ),
    (
        put('ends = ["plx*", "host"]', 'ends = ["plx0", 3]'),
        "link 4: ends must be a string, not a whole number",
    ),
    (
        put('ends = ["plx*", "host"]', 'ends = ["host", "host"]'),
        'link 4: ends: both ends are "host"; name two different devices',
    ),
    *(
        (put(f"{key} = {good}", f"{key} = {bad}"), f"gpu.{table}.{key} is {bad}; it must be {must}")
        for table, key, good, bad, must in (
            ("remote_write_queue", "lines_per_destination", 64, 0, "at least 1"),
            ("remote_write_queue", "windows_per_destination", 1, 0, "at least 1"),
            ("remote_write_queue", "subheader_bytes", 5, 1, "at least 2"),
            ("remote_write_queue", "subheader_bytes", 5, 7, "at most 6"),
            ("remote_write_queue", "payload_bytes", 4096, 8192, "at most 4096"),
            ("remote_write_queue", "idle_flush_ns", 0, -1, "at least 0"),
            ("remote_write_queue", "unpacked_lines", 64, 0, "at least 1"),
            ("gps", "queue_lines", 512, 0, "at least 1"),
            ("gps", "page_KiB", 64, 0, "at least 1"),
        )
    ),
    (
        put("payload_bytes = 4096", "payload_bytes = 132"),
        "gpu.remote_write_queue.payload_bytes is 132; it must be at least 133, because "
        "gpu.l2.line_bytes is 128 and gpu.remote_write_queue.subheader_bytes is 5",
    ),
    (
        put('window = "aligned"', 'window = "wide"'),
        'gpu.remote_write_queue.window is \'wide\'; it must be "aligned" or "growing"',
    ),
    (
        put("[gpu.launch]", '[gpu.launch]\ndispatch = "random"'),
        'gpu.launch.dispatch is \'random\'; it must be "round-robin", "greedy" or "partition"',
    ),
    (
        put("[gpu.l1]", '[gpu.l1]\nset_index = "xor"'),
        'gpu.l1.set_index is \'xor\'; it must be "hashed" or "modulo"',
    ),
    (
        put("[gpu.launch]", "[gpu.dualopt]\ngranularity_bytes = 5\n[gpu.launch]"),
        "gpu.dualopt.granularity_bytes is 5; it must be 4, 8 or 16",
    ),
    *(
        (
            put("[host]", f"[gpu.graph]\n{key} = 1\n[host]"),
            f"gpu.graph.{key} is not a known key (did you mean {known}?)",
        )
        for key, known in (("launch_nod_us", "launch_node_us"), ("launchus", "launch_us"))
    ),
    (
        put("queue_lines = 512", "queu_lines = 512"),
        "gpu.gps.queu_lines is not a known key (did you mean queue_lines?)",
    ),
    (
        put('window = "aligned"', 'windo = "aligned"'),
        "gpu.remote_write_queue.windo is not a known key (did you mean window?)",
    ),
    (put("width = 2", "widht = 2"), "link 1: widht is not a known key (did you mean width?)"),
    (
        put("max_payload_bytes", "max_payload_byte"),
        "protocol.nvlink2.max_payload_byte is not a known key (did you mean max_payload_bytes?)",
    ),
    (put("width = 2", "width = 0"), "link 1: width is 0; it must be at least 1"),
    (
        add(LINK.format("gpu3", "gpu1")),
        'link 5: gpu3 and gpu1 already have a nvlink2 link ("gpu*" to "gpu*"); '
        "state the width and bandwidth of that link instead",
    ),
    (
        # This link repeats the first link.
        lambda text: f"{text}\n[[link]]\n{text.split('[[link]]')[1]}",
        'link 5: gpu0 and gpu1 already have a nvlink2 link ("gpu*" to "gpu*"); '
        "state the width and bandwidth of that link instead",
    ),
    (
        lambda text: put('ends = ["gpu2-3", "plx1"]', 'ends = ["gpu2", "plx1"]')(
            put('ends = ["gpu*", "gpu*"]', 'ends = ["gpu0", "gpu1-2"]')(text)
        ),
        "link: no path from gpu0 to gpu3; GPUs do not forward data, so join the "
        "two GPUs by a link, by switches or by the host",
    ),
    (put('name = "plx1"', 'name = "plx0"'), 'switch: two switches have the name "plx0"'),
    (
        put('name = "plx1"', 'name = "gpu7"'),
        'switch: the name "gpu7" is reserved for GPUs and the host; give another name',
    ),
    (
        put('name = "plx1"', 'name = "PLX 1"'),
        "switch 2: name is 'PLX 1'; it must begin with a letter and "
        "have only lower-case letters, digits and _",
    ),
    (
        add('[[switch]]\nname = "alone"\nlatency_ns = 1'),
        'switch: "alone" has no link; add a link or remove the switch',
    ),
    (lambda text: text[: text.index("# Every pair")], "link is missing"),
    (lambda _: "", "format is missing; the first line of a machine is format = 1"),
    (lambda _: "format = 1", "title is missing"),
    (lambda _: 'format = 1\ntitle = "x"\ngpu = 3', "gpu must be a table, not a whole number"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_files(case: int) -> None:
    edit, said = BAD[case]
    text = edit(volta())
    assert error_of(text) == f"x.toml: {said}"


def test_a_gpu_without_nvlink_is_reached_through_pcie() -> None:
    text = put('ends = ["gpu*", "gpu*"]', 'ends = ["gpu0", "gpu1-2"]')(volta())
    assert refusal(text) == ""


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_in_one_sentence(data: st.DataObject) -> None:
    lines = volta().splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = data.draw(
            st.sampled_from(["", "x = 1", "[gpu]", "[[link]]", "count = []", "ends = [1, 2]", "="])
            | st.text(max_size=20)
            | st.just(re.sub(r"= [0-9.]+", "= -5", lines[at]))
        )
    said = refusal("\n".join(lines))
    assert said == "" or said.startswith("x.toml")
    assert "\n" not in said
    assert "$" not in said


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_a_saved_machine_is_the_same(name: str, tmp_path: Path) -> None:
    machine = load_machine(name, sources=True)
    path = tmp_path / f"{name}.toml"
    path.write_text(machine_text(machine), encoding="utf-8")
    assert load_machine(path, sources=True) == machine
    assert all(len(line) <= 100 for line in path.read_text(encoding="utf-8").splitlines())


def test_unwritable_targets_leave_nothing(tmp_path: Path) -> None:
    text = machine_text(load_machine("dgx-2"))
    with pytest.raises(UserError, match="cannot be written"):
        write_all({tmp_path / "no" / "x.toml": text})
    with pytest.raises(UserError, match="cannot be written"):
        write_all({tmp_path: text})
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "x.toml"
    write_all({path: text})
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.toml"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_an_invalid_machine_has_no_file() -> None:
    machine = msgspec.structs.replace(load_machine("dgx-2"), link=())
    with pytest.raises(UserError, match="dgx-2: link: no path from gpu0 to gpu1"):
        machine_text(machine)


NUMBERS = st.floats(min_value=1e-3, max_value=1e8, allow_nan=False)
RATES = st.floats(min_value=10, max_value=1e8, allow_nan=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=60)


@st.composite
def any_machine(draw: st.DrawFn) -> Machine:
    """Return a valid machine with random figures, words and comments."""
    document = msgspec.to_builtins(load_machine(draw(st.sampled_from(SHIPPED)), sources=True))
    document["title"] = draw(WORDS)
    document["gpu"]["model"] = draw(WORDS)
    document["host"]["memory_GB_per_s"] = draw(RATES)
    document["host"].pop("copy_write_GB_per_s", None)
    if draw(st.booleans()):
        document["host"]["copy_write_GB_per_s"] = document["host"]["memory_GB_per_s"] / 2
    document["gpu"]["clock_MHz"] = draw(RATES)
    if draw(st.booleans()):
        document["gpu"]["remote_store_bytes"] = 1 << draw(st.integers(0, 7))
        document["gpu"]["store_GB_per_s_per_compute_unit"] = draw(RATES)
    document["gpu"]["dram"]["latency_ns"] = draw(NUMBERS)
    document["gpu"]["copy"]["setup_us"] = draw(NUMBERS)
    for link in document["link"]:
        rate = link["bandwidth_GB_per_s"] = draw(RATES)
        for key, most in (("copy_GB_per_s", rate), ("copy_both_GB_per_s", 2 * rate)):
            link.pop(key, None)
            if draw(st.booleans()):
                link[key] = draw(st.floats(0.01, 1)) * most
        link["latency_ns"] = draw(NUMBERS)
    comment = st.text("abc, #=[]\"'0é", max_size=150).map(lambda text: " ".join(text.split()))
    sources = {key: draw(comment).lstrip("# ") for key in list(document["sources"])[:8]}
    document["sources"] = {key: text for key, text in sources.items() if text}
    return msgspec.convert(document, Machine)


@settings(max_examples=100, deadline=None)
@given(any_machine())
def test_any_machine_survives_writing(machine: Machine) -> None:
    again = parse_machine(machine_text(machine), machine.name, "x.toml", sources=True)
    assert again == machine


@settings(max_examples=50, deadline=None)
@given(any_machine())
def test_any_machine_survives_cpp(machine: Machine) -> None:
    core = pytest.importorskip("interlace._core")
    made = to_core(machine, core)
    again = from_core(made, core, "again")
    twice = to_core(again, core)
    assert again == from_core(twice, core, "twice")
    assert again.gpu.remote_store_bytes == machine.gpu.remote_store_bytes
    assert again.gpu.clock_MHz == pytest.approx(machine.gpu.clock_MHz, rel=1e-12)
    assert again.gpu.dram.latency_ns == pytest.approx(machine.gpu.dram.latency_ns, abs=1e-3)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_units_give_numbers_back(data: st.DataObject) -> None:
    core = pytest.importorskip("interlace._core")
    made = core.Machine()
    key = data.draw(
        st.sampled_from(
            [k for k in KEYS if k.table == "gpu.dram" or k.name in ("page_KiB", "clock_MHz")]
        )
    )
    made["gpu.tlb.page_KiB"] = 4  # this key makes the table gpu.tlb
    if key.type == "whole":
        value: float = data.draw(st.integers(int(key.least), int(key.most)))
    else:
        value = data.draw(st.integers(1, 10**6)) / 1000
    value = max(value, key.least)
    made[key.full] = value
    assert made[key.full] == pytest.approx(value, rel=1e-12, abs=1e-3)
    again = made[key.full]
    made[key.full] = again
    assert made[key.full] == again


def test_a_key_that_is_left_out_has_no_value() -> None:
    core = pytest.importorskip("interlace._core")
    made = core.Machine()
    assert made["gpu.remote_store_bytes"] is None
    assert made["gpu.tlb.walks"] is None
    assert made["gpu.issue.fp64_lanes_per_clock"] == 32
    with pytest.raises(KeyError, match=r"gpu\.l3\.ways"):
        made["gpu.l3.ways"]
    with pytest.raises(UserError, match=r"gpu\.l1\.ways cannot be -1"):
        made["gpu.l1.ways"] = -1
    with pytest.raises(UserError, match=r"gpu\.launch\.dispatch cannot be fair"):
        made["gpu.launch.dispatch"] = "fair"


# --- the list of keys -----------------------------------------------------------------------------


def test_what_is_made_of_the_list_is_current() -> None:
    core = pytest.importorskip("interlace._core")
    spec = importlib.util.spec_from_file_location("machine_keys", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for path, text in tool.texts(core).items():
        assert path.read_text(encoding="utf-8") == text, f"run {TOOL.name}: {path.name} is stale"


UNITS = {
    1: ("",),
    1024: ("KiB",),
    1 << 30: ("GiB",),
    1e6: ("MHz", "us"),
    1e3: ("ns",),
    1e9: ("GB",),
}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.full)
def test_a_key_keeps_its_unit_in_its_name(key: Key) -> None:
    parts = key.name.split("_")
    units = [unit for unit in UNITS[key.in_struct] if unit in ("", *parts)]
    assert units
    others = {unit for names in UNITS.values() for unit in names if unit} - set(units)
    assert not others & set(parts)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("4x-volta-nvlink2", "sector_bytes = 32", "sector_bytes = 256"),
        ("4x-volta-nvlink2", "size_KiB = 6144", "size_KiB = 6145"),
        ("4x-volta-nvlink2", "clock_MHz = 1530", "clock_MHz = 0.5"),
        ("4x-volta-nvlink2", "payload_bytes = 4096", "payload_bytes = 132"),
        ("4x-volta-nvlink2", "memory_GB_per_s = 100", "memory_GB_per_s = 0.01"),
        ("4x-r9nano", "l1_ways = 64", "l1_ways = 48"),
        ("4x-r9nano", "shared_factor = 1.3", "shared_factor = 9"),
        ("4x-r9nano", "rdma_cache_KiB = 1536", "rdma_cache_KiB = 2048"),
        ("4x-r9nano", "page_KiB = 4 ", "page_KiB = 2 "),
    ],
)
def test_both_validations_say_the_same(name: str, old: str, new: str) -> None:
    core = pytest.importorskip("interlace._core")
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert core.validate_machine(to_core(parse_machine(text, "x", "x.toml"), core)) == []
    assert old in text
    text = text.replace(old, new, 1)
    wrong = msgspec.convert({**tomllib.loads(text), "name": "x", "sources": {}}, Machine)
    said = error_of(text).removeprefix("x.toml: ")
    assert core.validate_machine(to_core(wrong, core))[0] == said


def r9nano() -> str:
    return (FOLDER / "4x-r9nano.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("granularity_bytes = 4", "granularity_bytes = 3", "granularity_bytes"),
        ("remote_threshold = 0.02", "remote_threshold = 1.5", "gpu.dualopt.remote_threshold"),
        ("block_threshold = 0.2", "block_threshold = -0.2", "gpu.dualopt.block_threshold"),
        (
            "rdma_cache_KiB = 1536", "rdma_cache_KiB = 2048",
            "gpu.dualopt.rdma_cache_KiB is 2048; it must be less than gpu.l2.size_KiB, which is "
            "2048",
        ),
        (
            "rdma_cache_ways = 16", "rdma_cache_ways = 10",
            "gpu.dualopt.rdma_cache_KiB is 1536; it must be a multiple of "
            "gpu.dualopt.rdma_cache_ways x gpu.l2.line_bytes, which is 0.625",
        ),
        (
            "rdma_cache_KiB = 1536", "rdma_cache_KiB = 1537",
            "gpu.dualopt.rdma_cache_KiB is 1537; it must be a multiple of "
            "gpu.l2.banks x gpu.l2.ways x gpu.l2.line_bytes, which is 16",
        ),
        ("page_KiB = 4 ", "page_KiB = 6 ", "gpu.tlb.page_KiB is 6; it must be a power of two"),
        ("page_KiB = 4 ", "page_KiB = 2 ", "gpu.tlb.page_KiB is 2; it must be at least 4"),
        (
            "l1_ways = 64", "l1_ways = 48",
            "gpu.tlb.l1_entries is 64; it must be a power of two times gpu.tlb.l1_ways, "
            "which is 48",
        ),
        (
            "l2_entries = 4096", "l2_entries = 192",
            "gpu.tlb.l2_entries is 192; it must be a power of two times gpu.tlb.l2_ways, "
            "which is 64",
        ),
        ("walks = 16", "walks = 0", "gpu.tlb.walks is 0; it must be at least 1"),
        (
            "shared_factor = 1.3", "shared_factor = 2.5",
            "gpu.griffin.shared_factor is 2.5; it must be at most gpu.griffin.dedicated_factor, "
            "which is 2",
        ),
        (
            "newest_weight = 0.03", "newest_weight = 0.0",
            "gpu.griffin.newest_weight is 0.0; it must be more than 0",
        ),
        ('full_set = "stalls"', 'full_set = "waits"', "full_set"),
        ('dispatch = "round-robin"', 'dispatch = "fair"', "gpu.launch.dispatch"),
        (
            "compute_units = 4 ", "compute_units = 5 ",
            "gpu.scalar_l1.compute_units is 5; it must divide gpu.compute_units, which is 64",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_r9_nanos(old: str, new: str, said: str) -> None:
    assert old in r9nano()
    assert said in error_of(r9nano().replace(old, new))


def test_griffin_takes_translations() -> None:
    text = r9nano()
    begin, end = text.index("[gpu.tlb]"), text.index("[gpu.dram]")
    assert "gpu.tlb is missing; gpu.griffin needs it" in error_of(text[:begin] + text[end:])


def test_flits_are_of_pcie_links() -> None:
    text = volta().replace("max_payload_bytes = 256", "max_payload_bytes = 256\nflit_bytes = 16")
    assert "flit_bytes has no meaning for nvlink2" in error_of(text)


def test_words_have_a_size_on_nvlink_only() -> None:
    core = pytest.importorskip("interlace._core")
    text = volta().replace(
        "max_payload_bytes = 256", "max_payload_bytes = 256\nword_write_bytes = 60", 1
    )
    made = to_core(parse_machine(text, "x", "x.toml"), core)
    assert made.links[0].packets["word_write_bytes"] == 60
    assert from_core(made, core, "x").protocol["nvlink2"].word_write_bytes == 60
    text = r9nano().replace("flit_bytes = 16", "flit_bytes = 16\nword_write_bytes = 60")
    assert "word_write_bytes has no meaning for pcie4" in error_of(text)


def test_the_two_readings_of_the_link_differ_in_nothing_else() -> None:
    slow = (FOLDER / "4x-r9nano-1ghz.toml").read_text(encoding="utf-8")
    one, other = (parse_machine(t, "x", "x.toml") for t in (r9nano(), slow))
    assert {link.bandwidth_GB_per_s for link in one.link} == {64}
    assert {link.bandwidth_GB_per_s for link in other.link} == {16}
    assert one.gpu.l2 == other.gpu.l2
    assert one.protocol == other.protocol
    assert one.switch == other.switch


def test_a_key_of_many_parts_is_refused_before_it_takes_memory() -> None:
    key = ".".join(["a", '"b.c"', "'d'"] * 10_000)
    for text in (f"x = 1\n{key} = 1\n", f"[{key}]\n", f"[[ {key} ]]", f"x = {{y = 1, {key} = 1}}"):
        with pytest.raises(UserError, match=r"^m\.toml: .* too deeply nested$"):
            toml_files.parse_any(text, "m.toml", "machine")
    text = '"' + ".".join(["a"] * 200) + '"'
    assert toml_files.parse_any(f"x = {text}\n", "m", "machine") == {"x": text.strip('"')}


def test_texts_that_a_terminal_acts_on_are_refused() -> None:
    for text in (r'title = "a\u001b]0;b"', r'"\u009b" = 1', r'x = [{y = "\u202e"}]'):
        with pytest.raises(
            UserError, match=r"^m\.toml: '.*' has a control character, which terminals act on"
        ):
            toml_files.parse_any(text, "m.toml", "machine")
    assert toml_files.parse_any('x = "ä\\n\\t→"', "m", "machine") == {"x": "ä\n\t→"}
