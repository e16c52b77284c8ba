"""Tests that a process tells other processes of its user what it does and for what it waits."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from interlace.base import activities, user_folder
from interlace.base.activities import Activity, ask_all, duration, lines_of, shown, waiting_for
from interlace.base.installation import installed
from interlace.base.progress import progress
from study_helpers import Run

SECONDS = 30
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that only its user may enter. Its path is too long for the address of a
    socket.
    """
    place = tmp_path / ("x" * 120)
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(user_folder, "RUNTIME", tmp_path / "run")
    monkeypatch.setattr(user_folder, "SHARED", tmp_path / "shared")
    monkeypatch.setattr(activities, "_told", activities._Told())
    return place


def _sockets(folder: Path) -> list[str]:
    return [file.name for file in (folder / activities.FOLDER).iterdir()]


def test_progress_and_waits_are_told() -> None:
    assert ask_all() == []
    with progress("pagerank on a", 4) as tick, waiting_for("process 7"):
        tick()
        (answer,) = ask_all()
        (one,) = answer["activities"]
        assert (one["what"], one["done"], one["steps"]) == ("pagerank on a", 1, 4)
        assert answer["process"] == os.getpid()
        assert answer["waits"][0]["for"] == "process 7"
    assert ask_all() == []  # the activity has ended


def test_lines_say_since_when_and_how_far() -> None:
    answer = {
        "process": 3,
        "command": ["interlace", "study"],
        "activities": [
            {"what": "ct on b", "since": 0.0, "done": 2, "steps": 5, "unit": "runs", "last": 60.0,
             "note": "first\nsecond"},
        ],
        "waits": [{"for": "process 4", "since": 95.0}],
    }  # fmt: skip
    assert lines_of([answer], now=100.0) == [
        "process 3: interlace study",
        "  ct on b, for 1 min 40 s: 2 of 5 runs, the last one 40 s ago",
        "    first",
        "    second",
        "  waits for process 4, for 5 s",
    ]
    assert [duration(s) for s in (-1, 59.4, 61, 3600, 90000)] == [
        "0 s", "59 s", "1 min 1 s", "1 h 0 min", "25 h 0 min",
    ]  # fmt: skip


def _busy(has_begun: object, may_end: object) -> None:
    with shown(lambda: Activity("the work of a child")):
        has_begun.set()  # type: ignore[attr-defined]
        may_end.wait(SECONDS)  # type: ignore[attr-defined]


def test_other_processes_are_asked_and_dead_ones_are_forgotten(folder: Path) -> None:
    has_begun, may_end = FORK.Event(), FORK.Event()
    with shown(lambda: Activity("the work of a parent")):
        child = FORK.Process(target=_busy, args=(has_begun, may_end))
        child.start()
        assert has_begun.wait(SECONDS)
        told = {answer["process"]: answer["activities"][0]["what"] for answer in ask_all()}
        assert told == {os.getpid(): "the work of a parent", child.pid: "the work of a child"}
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join(SECONDS)
        assert len(_sockets(folder)) == 2
        assert [answer["process"] for answer in ask_all()] == [os.getpid()]
        assert _sockets(folder) == [f"{os.getpid()}.socket"]


def test_a_process_that_does_not_answer_holds_nobody_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities, "PATIENCE_S", 0.05)
    (folder / activities.FOLDER).mkdir()
    monkeypatch.chdir(folder / activities.FOLDER)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind("12.socket")
        stopped.listen()
        assert lines_of(ask_all()) == ["process 12 does not answer"]


ENTRY = {
    "what": "x", "since": 1e400, "done": 0, "steps": 0, "unit": "", "last": None, "note": "\x1b[2J"
}  # fmt: skip
KNOWN = {"process": 1, "command": ["\x1b]0;a"], "activities": [ENTRY], "waits": []}


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"[]", b"7", b'{"waits": 1}', b"[" * 100_000, b"x" * (2 << 20),
        json.dumps({**KNOWN, "waits": [{"for": "x", "since": 10**400}]}).encode(),
        json.dumps({**KNOWN, "command": 5}).encode(), None,
    ],
    ids=lambda sent: "drops" if sent is None else repr(sent[:12]),
)  # fmt: skip
def test_answers_of_another_form_are_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes | None
) -> None:
    assert _told(folder, monkeypatch, sent) == ["process 12 does not answer"]


def test_what_others_send_is_printable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _told(folder, monkeypatch, json.dumps(KNOWN).encode())
    assert lines == ["process 12: \\x1b]0;a", "  x, for an unknown time", "    \\x1b[2J"]


def _told(folder: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes | None) -> list[str]:
    """Return the lines about a process that sends these bytes, or single bytes without an end."""
    monkeypatch.setattr(activities, "PATIENCE_S", 0.2)
    (folder / activities.FOLDER).mkdir()
    monkeypatch.chdir(folder / activities.FOLDER)
    asked = threading.Event()

    def send() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            while not asked.is_set() and sent is None:
                connection.sendall(b" ")
                asked.wait(0.02)
            connection.sendall(sent or b"")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("12.socket")
        listener.listen()
        thread = threading.Thread(target=send)
        thread.start()
        begun = time.monotonic()
        lines = lines_of(ask_all())
        assert time.monotonic() - begun < SECONDS / 2
        asked.set()
        thread.join()
    return lines


def test_only_the_user_can_ask(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shown(lambda: Activity("x")):
        assert (folder / activities.FOLDER).stat().st_mode & 0o777 == 0o700
        before = _sockets(folder)
    folder.chmod(0o755)  # other users may enter this folder, so it is not used
    monkeypatch.setattr(activities, "_told", activities._Told())
    with shown(lambda: Activity("x")):
        assert _sockets(folder) == before
        assert len(ask_all()) == 1


def test_without_a_place_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "_places", lambda: iter([(Path("/absent"), False)]))
    done = []
    with progress("x", 1) as tick:
        tick()
        done.append(ask_all())
    assert done == [[]]


PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a background job of a shell ignores SIGQUIT
from interlace.base.activities import Activity, shown
with shown(lambda: Activity("long work")):
    print("begun", flush=True)
    sys.stdin.readline()
"""


def test_sigquit_prints_the_same_and_the_program_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdin and program.stdout and program.stderr  # noqa: PT018
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGQUIT)
        assert program.stderr.readline() == f"process {program.pid}: -c\n"
        assert program.stderr.readline().startswith("  long work, for ")
        program.stdin.write("\n")
        program.stdin.close()
        assert program.wait(SECONDS) == 0


OWN = """
import faulthandler, os, signal, sys, time
from interlace.base.activities import Activity, shown
if sys.argv[1] == "before":
    faulthandler.register(signal.SIGQUIT, file=open(os.devnull, "w"))
with shown(lambda: Activity("x")):
    taken = []
    if sys.argv[1] == "later":
        signal.signal(signal.SIGQUIT, lambda *_: taken.append(1))
    os.kill(os.getpid(), signal.SIGQUIT)
    time.sleep(0.1)
assert taken == [1] * (sys.argv[1] == "later")
"""


@pytest.mark.parametrize("when", ["before", "later"])
def test_sigquit_stays_with_a_program_that_uses_it(when: str) -> None:
    words = [sys.executable, "-c", OWN, when]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


MANY = """
import gc, os, resource, threading
from interlace.base.activities import Activity, ask_all, shown
own = os.getpid()
def told():  # other processes of this user may show something, too
    return [[one["what"] for one in answer["activities"]] for answer in ask_all()
            if answer["process"] == own]
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1500)]
entered = shown(lambda: Activity("x"))
entered.__enter__()
assert told() == [["x"]]
thread = threading.Thread(target=lambda: entered.__exit__(None, None, None))
thread.start()
thread.join()
assert told() == []
with shown(lambda: Activity("y")):
    if os.fork() == 0:
        assert told() == [["y"]]
        raise SystemExit
    assert os.wait()[1] == 0
    assert told() == [["y"]]
"""


def test_many_files_other_threads_and_children_change_nothing(folder: Path) -> None:
    words = [
        sys.executable,
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        MANY,
    ]  # ignores the warning of Python 3.12 and later about forks in a process with threads
    ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert _sockets(folder) == []  # the process removed its socket at its end


def test_an_activity_that_cannot_be_described_hides_no_other() -> None:
    def broken() -> Activity:
        raise ValueError("no")

    with shown(broken), shown(lambda: Activity("x")):
        (answer,) = ask_all()
    assert [one["what"] for one in answer["activities"]] == ["unknown", "x"]
    assert answer["activities"][0]["note"] == "ValueError: no"


def test_a_program_under_run_is_told() -> None:
    words = [
        sys.executable,
        "-m",
        "interlace",
        "run",
        "--quiet",
        "--",
        "sh",
        "-c",
        "echo x; read y",
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdin and ran.stdout  # noqa: PT018
        assert ran.stdout.readline() == "x\n"
        (answer,) = ask_all()
        assert answer["process"] == ran.pid
        assert answer["activities"][0]["what"] == "interlace run -- sh -c echo x; read y"
        ran.stdin.write("\n")
        ran.stdin.close()
        ran.wait(SECONDS)


IN_CPP = """
#include <cstdio>
#include "base/activities.hpp"
int main() {
  const double since = interlace::seconds_now() - 61;
  const interlace::shown_activity one([since] {
    return interlace::activity{"a group of 2 devices", since, "region 'a': x\\ny\\x1b[2J"};
  });
  std::puts("begun");
  std::fflush(stdout);
  std::getchar();
}
"""


def test_programs_in_cpp_tell_the_same(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    root = Path(__file__).resolve().parents[2]
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(IN_CPP)
    sources = [root / "src/base" / name for name in ("activities.cpp", "processes.cpp")]
    subprocess.run(
        [compiler, "-std=c++20", f"-I{root}/src", f"-I{root}/include", "-o", program, source,
         *sources, "-pthread"],
        check=True, timeout=300,
    )  # fmt: skip
    with subprocess.Popen(
        [program, "one word", "\x1b]0;a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGQUIT, signal.SIG_DFL),
    ) as ran:  # fmt: skip
        assert ran.stdin and ran.stdout and ran.stderr  # noqa: PT018
        assert ran.stdout.readline() == "begun\n"
        lines = lines_of(ask_all())
        assert lines == [
            f"process {ran.pid}: {program} one word \\x1b]0;a",
            "  a group of 2 devices, for 1 min 1 s",
            "    region 'a': x",
            "    y\\x1b[2J",
        ]
        ran.send_signal(signal.SIGQUIT)
        assert [ran.stderr.readline().rstrip("\n") for _ in lines] == lines
        ran.stdin.close()
        assert ran.wait(SECONDS) == 0
    assert ask_all() == []


COPIES = """
#include <cstdio>
#include "cpp/preload/fake_driver.hpp"
int main() {
  CUctx_st* context = nullptr;
  void* host = nullptr;
  unsigned long long on_gpu = 0;
  constexpr std::size_t size = 3 << 20;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 ||
      cuCtxSetCurrent(context) != 0 || cuMemHostAlloc(&host, size, 0) != 0 ||
      cuMemAlloc_v2(&on_gpu, size) != 0) {
    return 1;
  }
  for (int k = 0; k < 5; ++k) {
    if (cuMemcpyHtoDAsync_v2(on_gpu, host, size, nullptr) != 0) return 1;
  }
  if (cuCtxSynchronize() != 0) return 1;
  std::puts("begun");
  std::fflush(stdout);
  std::getchar();
}
"""


def test_copies_of_a_program_in_cpp_under_run_are_told(tmp_path: Path, gpus: Path) -> None:
    if installed("libinterlace_preload.so") is None:
        pytest.skip("the library is not built")
    tests = Path(__file__).resolve().parents[1]
    source, program = tmp_path / "program.cpp", tmp_path / "copies"
    source.write_text(COPIES)
    subprocess.run(
        ["g++", "-std=c++20", f"-I{tests}", f"-I{tests.parent}/src", "-o", program, source,
         f"-L{gpus}", "-l:libcuda.so.1", "-ldl"],
        check=True, timeout=300,
    )  # fmt: skip
    settings = {
        "LD_LIBRARY_PATH": str(gpus),
        "INTERLACE_COPY_THRESHOLD": "64K",
        "INTERLACE_COPY_TRAFFIC": "none",
        "INTERLACE_PRELOAD_START": "wait",
        "INTERLACE_PRELOAD_AFTER": "0",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "interlace", "run", "--quiet", "--", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings},
    ) as ran:  # fmt: skip
        assert ran.stdin and ran.stdout  # noqa: PT018
        assert ran.stdout.readline() == "begun\n"
        (answer,) = ask_all()
        told = answer["activities"][0]
        assert told["what"] == f"interlace run -- {program}"
        assert re.fullmatch(
            rf"process \d+ \({program.name}\): 5 copies; Interlace took over 5 of them with "
            rf"{5 * (3 << 20)} bytes; the engine is \w+",
            told["note"],
        ), told["note"]
        ran.stdin.close()
        assert ran.wait(SECONDS) == 0


def test_the_command_prints_lines_and_json(run: Run, tmp_path: Path) -> None:
    assert run("ps").out == "None of your processes has anything to show.\n"
    with shown(lambda: Activity("some work")):
        ran = run("ps", "--json", str(tmp_path / "out.json"))
    assert ran.code == 0
    assert "  some work, for 0 s\n" in ran.out
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["processes"][0]["activities"][0]["what"] == "some work"
