"""Tests `interlace run`: exit codes, signals, and its report on the copies of a program."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from interlace.cli import main as cli
from interlace.cli import run as run_command
from interlace.runtime import preload, program
from interlace.show import call_sites
from interlace.show.preload import lines_of

ROOT = Path(__file__).resolve().parents[2]

if platform.machine() != "x86_64" or importlib.util.find_spec("interlace._core") is None:
    pytest.skip("there is no preload library here", allow_module_level=True)

compiler = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(compiler is None, reason="there is no C compiler")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Run `interlace run` in this process. The program runs in a separate process."""

    def run(*words: object) -> Ended:
        capfd.readouterr()
        code = cli.run(["run", *map(str, words)])
        return Ended(code, *capfd.readouterr())

    return run


def one_sentence(ended: Ended) -> str:
    assert ended.err.count("\n") == 1, ended.err
    return ended.err.removeprefix("interlace: ").rstrip("\n")


# A driver that has all functions that a program needs to copy, and a program that copies.
DRIVER = """
#include <string.h>
int cuInit(unsigned flags) { return (int)(flags & 0); }
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, unsigned long bytes, void* on) {
  (void)on;
  memcpy((void*)to, from, bytes);
  return 0;
}
int cuGetProcAddress_v2(const char* name, void** found, int version, unsigned long flags,
                        int* status) {
  (void)version; (void)flags; (void)status;
  *found = strcmp(name, "cuMemcpyHtoDAsync") == 0 ? (void*)cuMemcpyHtoDAsync_v2 : 0;
  return *found == 0 ? 500 : 0;
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
typedef int (*copy)(unsigned long long, const void*, unsigned long, void*);
typedef int (*find)(const char*, void**, int, unsigned long, int*);
int main(int count, char** words) {
  static char from[5000], to[5000];
  void* function = 0;
  find looked = (find)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  if (looked("cuMemcpyHtoDAsync", &function, 12000, 0, 0) != 0) return 2;
  memset(from, 7, sizeof from);
  for (int index = 1; index < count; ++index)
    if (((copy)function)((unsigned long long)to, from, atoi(words[index]), 0) != 0) return 3;
  return count > 1 && memcmp(from, to, atoi(words[1])) != 0 ? 4 : 0;
}
"""


@pytest.fixture
def copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program that makes a copy of each size in its arguments."""
    (tmp_path / "driver.c").write_text(DRIVER)
    (tmp_path / "program.c").write_text(PROGRAM)
    assert compiler is not None
    library, program = tmp_path / "libcuda.so.1", tmp_path / "program"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"]
    for words in (
        [*shared, "-o", library, tmp_path / "driver.c"],
        ["-o", program, tmp_path / "program.c", "-ldl"],
    ):
        subprocess.run([compiler, *words], check=True, timeout=60)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return program


# --- the program ----------------------------------------------------------------------------------


def test_the_exit_code_is_the_programs(call: Call) -> None:
    assert call("--", "true").code == 0
    assert call("--", "sh", "-c", "exit 7").code == 7
    assert call("--", "sh", "-c", "kill -9 $$").code == 128 + signal.SIGKILL
    ended = call("--", "sh", "-c", "exit 130")
    assert ended.code == 130
    assert "interrupted" not in ended.err


def test_what_is_no_json_is_not_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "to_json", lambda *_: {"elapsed_s": math.nan})
    with pytest.raises(ValueError, match="not JSON compliant"):
        call("--json", tmp_path / "x.json", "--", "true")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["", "."])
def test_a_program_of_this_folder_is_not_looked_up_in_path(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    own = tmp_path / "id"
    own.write_text("#!/bin/sh\necho ours: $0\n")
    own.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert call("--", "./id").out == "ours: ./id\n"
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    assert call("--", "id").out == "ours: ./id\n"


def test_the_counters_have_their_place_on_the_disk(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "counters"
    preload.make_counters(file)
    facts = file.stat()
    assert facts.st_size == preload.SLOTS_AT + preload.SLOTS * preload.SLOT_BYTES
    assert facts.st_blocks * 512 >= facts.st_size
    file.unlink()

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = call("--", "true")
    assert ended.code == 2
    assert one_sentence(ended) == (
        f"the file of counters cannot be made in {tmp_path}: No space left on device; "
        "set TMPDIR to a folder with 8 MB of space"
    )
    assert list(tmp_path.iterdir()) == []


def test_its_output_and_arguments_are_its_own(call: Call) -> None:
    ended = call("--", "printf", "%s|", "a b", "--json", "--")
    assert ended.out == "a b|--json|--|"


@pytest.mark.parametrize(
    ("program", "code", "sentence"),
    [
        ("no-such-program", 127, "there is no program 'no-such-program' in PATH"),
        ("./no-such-program", 127, "there is no program ./no-such-program"),
        ("{folder}", 126, "{folder} is a directory, not a program"),
        ("{file}", 126, "{file} may not be executed; chmod +x makes it executable"),
        ("{garbage}", 126, "{garbage} cannot be executed: Exec format error"),
    ],
)
def test_what_cannot_be_run(
    call: Call, tmp_path: Path, program: str, code: int, sentence: str
) -> None:
    places = {"folder": tmp_path, "file": tmp_path / "file", "garbage": tmp_path / "garbage"}
    for name in ("file", "garbage"):
        places[name].write_bytes(b"\1\2\3")
    places["garbage"].chmod(0o755)
    ended = call("--", program.format(**places))
    assert ended.code == code
    assert one_sentence(ended) == sentence.format(**places)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("INTERLACE_PRELOAD_AFTER", "much", "is not a size; give bytes, such as 65536, 64K, 2M"),
        ("INTERLACE_PRELOAD_THRESHOLD", "99999999999999G", "is not a size; give bytes, such as"),
        ("INTERLACE_PRELOAD_THRESHOLD", "-1", "is not a size; give bytes, such as"),
        pytest.param(
            "INTERLACE_PRELOAD_AFTER", "9" * 5000, "is not a size; give bytes, such as", id="long"
        ),
        (
            "INTERLACE_PRELOAD_START",
            "soon",
            "is not a way to start; give background, wait or never",
        ),
        ("INTERLACE_PRELOAD_BLOCKS", "all", "is not a number of multiprocessors; give 0 to 1024"),
        ("INTERLACE_PRELOAD_BLOCKS", "1025", "is not a number of multiprocessors; give 0 to 1024"),
    ],
)
def test_a_wrong_setting_is_refused_before_the_program_starts(
    call: Call, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, value)
    ended = call("--", "echo", "started")
    assert (ended.code, ended.out) == (2, "")
    assert one_sentence(ended).startswith(f"{variable}={value!r} {sentence}")


def test_an_installation_without_the_library(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "LIBRARY", "libnothing.so")
    ended = call("--", "echo", "started")
    assert (ended.code, ended.out) == (2, "")
    assert one_sentence(ended).startswith("this installation has no libnothing.so")


def test_a_file_that_cannot_be_written_stops_it_first(call: Call, tmp_path: Path) -> None:
    ended = call("--json", tmp_path / "none" / "x.json", "--", "echo", "started")
    assert (ended.code, ended.out) == (2, "")


def test_preloaded_libraries_of_others_stay(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    ended = call("--", "sh", "-c", 'echo "$LD_PRELOAD"')
    assert ended.out == f"{preload.preload_library()}:libm.so.6\n"


def started(*words: str) -> subprocess.Popen[str]:
    """Start the command in a separate process group, as a terminal does."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "interlace.cli.main", "run", "--", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        process_group=0,
    )


@pytest.mark.parametrize(("number", "group"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_signals_are_the_programs(number: signal.Signals, group: bool) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo caught; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
    process = started("sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (os.killpg if group else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert (out, process.returncode) == ("caught\n", 9)
    assert err.startswith("interlace: warning: ")


def test_nothing_is_left_behind(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program.tempfile, "tempdir", str(tmp_path))
    assert call("--", "true").code == 0
    assert list(tmp_path.iterdir()) == []


# --- what is said ---------------------------------------------------------------------------------


def test_a_program_without_cuda(call: Call) -> None:
    ended = call("--", "true")
    assert one_sentence(ended) == (
        "warning: true never looked for a CUDA driver, so there was nothing to take over"
    )


@needs_compiler
def test_a_static_program(call: Call, tmp_path: Path) -> None:
    (tmp_path / "static.c").write_text("int main(void) { return 0; }\n")
    assert compiler is not None
    words = [compiler, "-static", "-o", tmp_path / "static", tmp_path / "static.c"]
    if subprocess.run(words, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("there is no static C library")
    ended = call("--quiet", "--", tmp_path / "static")
    assert ended.code == 0
    assert "the library was never called" in one_sentence(ended)
    assert "statically linked" in one_sentence(ended)


@needs_compiler
def test_copies_are_counted(call: Call, copying: Path, tmp_path: Path) -> None:
    file = tmp_path / "counted.json"
    ended = call("--json", file, "--", copying, 100, 4000, 900)
    assert (ended.code, ended.out) == (0, "")
    lines = [line.removeprefix("interlace: ").split() for line in ended.err.splitlines()]
    assert lines == [
        ["copies", "kB"],
        ["taken", "over", "0", "0"],
        ["passed", "through", "3", "5.000"],
        ["smaller", "than", "the", "threshold", "3", "5.000"],
    ]
    result = json.loads(file.read_text())
    assert result["program"] == [str(copying), "100", "4000", "900"]
    assert (result["loaded"], result["saw_driver"], result["copying_processes"]) == (1, 1, 1)
    assert result["copies"] == [
        {
            "direction": "host to GPU",
            "outcome": "smaller than the threshold",
            "copies": 3,
            "bytes": 5000,
        }
    ]
    assert result["processes"][0]["name"] == "program"
    assert call("--quiet", "--", copying, 100).err == ""


@needs_compiler
def test_a_driver_that_is_too_old_leaves_copies_alone(
    call: Call, copying: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLACE_PRELOAD_THRESHOLD", "1K")
    ended = call("--", copying, 4000, 5000, 100)
    assert ended.code == 0
    assert "note: this NVIDIA driver has no " in ended.err
    assert re.search(r"passed through +3 ", ended.err)


@needs_compiler
def test_a_program_that_never_copies(call: Call, copying: Path) -> None:
    assert one_sentence(call("--", copying)) == "warning: no CUDA copy was seen"


@needs_compiler
def test_every_process_of_a_script_counts(call: Call, copying: Path) -> None:
    script = f"{copying} 10 20 & {copying} 30; wait; exec {copying} 40"
    ended = call("--", "sh", "-c", script)
    assert re.search(r"passed through +4 +100 ?", ended.err), ended.err


def test_rates_and_gains_are_of_all_processes() -> None:
    counted = preload.Counted(
        2,
        2,
        2,
        ["taken over"],
        [
            preload.Process(
                1,
                "a",
                "ready",
                0.5,
                "",
                [preload.Tally("host to GPU", "taken over", 3, 3_000_000)],
                [preload.Gain("host to GPU", 0.001, 0.003)],
            ),
            preload.Process(
                2,
                "b",
                "ready",
                0.25,
                "something",
                [
                    preload.Tally("host to GPU", "taken over", 1, 1_000_000),
                    preload.Tally("GPU to GPU", "one path is as fast", 2, 500_000),
                ],
                [preload.Gain("host to GPU", 0.001, 0.002)],
            ),
        ],
    )
    lines = lines_of(counted)
    assert [line.split() for line in lines[:5]] == [
        ["copies", "MB"],
        ["taken", "over", "4", "4.000"],
        ["host", "to", "GPU", "4", "4.000"],
        ["passed", "through", "2", "0.500"],
        ["one", "path", "is", "as", "fast", "2", "0.500"],
    ]
    assert lines[5:] == [
        "predicted for the copies that were taken over: 2.000 ms of "
        "copying, 5.000 ms as plain copies; 2.50 x",
        "the engine started in 2 processes, in 500.0 ms",
        "note: something",
    ]


# --- call sites and their times
# --------------------------------------------------------------------

LINK = 50e9  # bytes per second


def site(function: str, *tallies: preload.SiteTally, size: int = 4096) -> preload.Site:
    copies = sum(one.copies for one in tallies)
    return preload.Site(1, function, "liba.so", "f(int)", "", "", 1, 0, {size: copies}, [*tallies])


def test_what_a_call_site_loses_and_what_to_change() -> None:
    def lost(one: preload.Site, rate: float | None = LINK) -> call_sites.Loss | None:
        return call_sites.loss_of(one, one.tallies[0], rate)

    pageable = preload.SiteTally("host to GPU", "pageable", 10, 1_000_000_000, 0.12)
    loss = lost(site("cuMemcpyHtoDAsync", pageable, size=100_000_000))
    assert loss is not None
    assert loss.seconds == pytest.approx(0.1)
    assert "page-lock" in loss.change
    result = preload.SiteTally("GPU to host", "pageable", 100, 400, 0.9)
    loss = lost(site("cuMemcpyDtoHAsync", result, size=4))
    assert loss is not None
    assert "earlier work" in loss.why
    small = preload.SiteTally("GPU to host", "page-locked", 100_000, 409_600_000, 0.2)
    loss = lost(site("cuMemcpyDtoHAsync", small))
    assert loss is not None
    assert "cuMemcpyBatchAsync" in loss.change
    waits = preload.SiteTally("GPU to host", "page-locked", 10, 10_000_000, 0.2)
    loss = lost(site("cuMemcpyDtoH", waits, size=1 << 20))
    assert loss is not None
    assert "asynchronously" in loss.change
    # No time is lost in three cases: if the link is the limit, if no link is known, and if the copy
    # stays in the host.
    assert lost(site("cuMemcpyDtoHAsync", waits._replace(host_s=1e-4))) is None
    assert lost(site("cuMemcpyHtoDAsync", pageable), None) is None
    inside = preload.SiteTally("GPU to GPU", "neither end is the host", 10, 1000, 9.0)
    assert lost(site("cuMemcpyDtoDAsync", inside)) is None


def test_the_report_of_call_sites() -> None:
    pageable = preload.SiteTally("host to GPU", "pageable", 2, 3_000_000_000, 0.5)
    counted = preload.Counted(
        1, 1, 1, ["taken over"], [], [site("cuMemcpyHtoD", pageable, size=1 << 30)], 2
    )
    assert call_sites.lines_of_sites(counted, LINK) == [
        "call sites, the most bytes first:",
        "  1. liba.so f(int)",
        "     cuMemcpyHtoD, host to GPU: 2 copies, 3.000 GB, pageable host memory, "
        "500.0 ms in calls",
        "     lost: 440.0 ms to pageable memory, which the driver copies twice while the caller "
        "waits",
        "     change: page-lock the host's memory: pin_memory=True, cudaHostAlloc or "
        "cudaHostRegister",
        "     sizes from: 1 GiB 100 %",
        "     2 more call sites share the entry 'elsewhere', because the list of call "
        "sites is full",
        "     lost: the host's time in calls, minus the time that a link of 50.0 GB/s needs",
    ]
    assert call_sites.lines_of_sites(counted._replace(sites=[]), LINK) == []


@needs_compiler
def test_sites_and_calls_of_a_program(call: Call, copying: Path, tmp_path: Path) -> None:
    file, trace = tmp_path / "counted.json", tmp_path / "trace.json"
    ended = call(
        "--report", "--json", file, "--timeline", trace, "--", copying, *[100] * 40, *[3000] * 20
    )
    assert ended.code == 0
    lines = [line.removeprefix("interlace: ") for line in ended.err.splitlines()]
    begin = lines.index("call sites, the most bytes first:")
    assert re.fullmatch(r" +1\. program \S.*", lines[begin + 1])
    assert re.match(r" +cuMemcpyHtoDAsync, .*: 60 copies, 64\.00 kB, ", lines[begin + 2])
    assert "     sizes from: 64 B 67 %, 2 KiB 33 %" in lines
    [found] = json.loads(file.read_text())["sites"]
    assert (found["module"], found["sampled"]) == ("program", 60)
    assert sum(one["bytes"] for one in found["tallies"]) == 64_000
    document = json.loads(trace.read_text())
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [span["args"]["bytes"] for span in spans] == [100] * 40 + [3000] * 20
    assert {span["name"] for span in spans} == {"cuMemcpyHtoDAsync"}
    assert {span["args"]["outcome"] for span in spans} == {"smaller than the threshold"}
    for one, following in itertools.pairwise(spans):
        assert one["ts"] + one["dur"] <= following["ts"]
    assert document["otherData"]["calls_without_room"] == 0


@needs_compiler
def test_what_is_remembered_is_bounded(
    call: Call, copying: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "CALLS", 10)
    monkeypatch.setattr(run_command, "SITES", 1)  # the only entry stands for all call sites
    trace = tmp_path / "trace.json"
    ended = call("--report", "--timeline", trace, "--", copying, *[100] * 40)
    assert "note: the timeline lacks the last 30 calls" in ended.err
    assert "  1. elsewhere" in ended.err
    assert "1 more call sites share the entry" in ended.err
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 10


# --- what the library and the command have to agree on --------------------------------------------


def test_settings_are_those_of_the_library() -> None:
    text = (ROOT / "src/preload/settings.hpp").read_text()
    documented = set(re.findall(r"// (INTERLACE_PRELOAD_\w+):", text))
    assert documented == {*preload.SETTINGS, preload.COUNTERS}
    for name, setting in preload.SETTINGS.items():
        after = text.partition(f"// {name}:")[2]
        default = after.partition(" = ")[2].partition(";")[0]
        if setting.words:
            assert default == f"start_mode::{setting.standard}"
            for word in setting.words:
                assert re.search(rf"^  {word},", text, re.MULTILINE)
        elif setting.standard == "auto":
            assert "std::optional<unsigned> most_blocks;  // no value means auto" in after
        else:
            found = re.fullmatch(r"std::uint64_t\{(\d+)\} << 20U", default)
            assert found is not None
            assert setting.standard == f"{found[1]}M"


def test_the_layout_of_counters_is_that_of_the_library() -> None:
    text = (ROOT / "src/preload/counters.hpp").read_text()
    for name, value in {
        "slot_bytes": preload.SLOT_BYTES,
        "names_offset": preload.NAMES_AT,
        "slots_offset": preload.SLOTS_AT,
        "direction_count": preload.DIRECTIONS,
    }.items():
        assert re.search(rf"std::size_t {name} = {value};", text), name
    for name, value in {
        "site_bytes": preload.SITE_BYTES,
        "call_bytes": preload.CALL.size,
        "site_module_bytes": preload.SITE_TEXTS[0],
        "site_symbol_bytes": preload.SITE_TEXTS[1],
    }.items():
        assert re.search(rf"std::size_t {name} = {value};", text), name
    magic = "".join(re.findall(r"'(\w)'", text.partition("counters_magic{")[2].partition("}")[0]))
    assert magic.encode() == preload.MAGIC
    states = text.partition("enum class engine_state")[2].partition("{")[2].partition("}")[0]
    assert tuple(word.strip() for word in states.split(",")) == preload.ENGINE
    for member in ("std::array<char, 64> name", "std::array<char, 512> note"):
        assert member in text


def test_a_file_of_counters_that_nobody_touched(tmp_path: Path) -> None:
    file = tmp_path / "counters"
    preload.make_counters(file)
    counted = preload.read_counters(file)
    assert (counted.loaded, counted.processes) == (0, [])
    assert time.time() - file.stat().st_mtime < 3600
