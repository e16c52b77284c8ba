"""Commands that the tests of faults and of power losses run with a preloaded library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from study_helpers import MACHINE

SOURCE = Path(__file__).resolve().parents[1] / "faults" / "faults.cpp"

SWEEP = f"""
format = 1
machine = "{MACHINE}"
workload = "pagerank"
gpus = [2]
mechanisms = ["inline"]
[options]
rmat = 5
iterations = 1
[axes]
link.nvlink2.bandwidth_GB_per_s = [25]
"""
ON = f"pagerank --rmat 5 -n 1 --machine {MACHINE} --gpus"
COMMANDS = {
    "study": f"study {ON} 2 --mechanisms inline --jobs 1 --json out.json --html out.html",
    "sweep": "sweep sweep.toml --jobs 1 --json out.json --csv out.csv",
    "tune": f"tune {ON} 2 --jobs 1 --chunks 64K --threads 256 --out out.json",
    "record": f"trace record {ON} 2 -o out.trace",
    "info": "trace info in.trace --json out.json",
    "run": "run --json out.json -- true",
    "save": "save",
    "load": "load",
}


def build_library(folder: Path) -> Path:
    """Compile the library that will be preloaded."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    out = folder / "libfaults.so"
    words = ["-O1", "-std=c++20", "-shared", "-fPIC", "-Wall", "-Wextra", "-o", out, SOURCE, "-ldl"]
    subprocess.run([compiler, *words], check=True, timeout=120)
    return out


def run_child(script: str, words: list[str], library: Path, folder: Path) -> str:
    """Run a test file as a program with the library preloaded. Return the output."""
    environment = {**os.environ, "LD_PRELOAD": str(library), "HOME": str(folder)}
    ended = subprocess.run(
        [sys.executable, script, *words, str(library)], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=4 * 3600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


# --- in a process with the library ----------------------------------------------------------------


def prepare(command: str) -> set[str]:
    """Make folders and inputs, and change to the working folder. Return the names of the inputs."""
    import numpy as np

    import interlace

    folder = Path("inputs")
    folder.mkdir()
    os.chdir(folder)
    os.environ["TMPDIR"] = str(Path("../tmp").resolve())
    Path("../tmp").mkdir()
    Path("sweep.toml").write_text(SWEEP)
    interlace.save(
        {"a": np.ones(1000, np.float32), "b": np.ones(3)}, "in.safetensors", checksums=True
    )
    if command == "info":
        code, said = forked(lambda: call("record"))
        assert code == 0, said
        Path("out.trace").rename("in.trace")
    return {path.name for path in Path().iterdir()}


def call(command: str) -> int:
    """Run the command in this process. Return its exit code."""
    import numpy as np

    import interlace
    from interlace.base.errors import DeviceError, UserError
    from interlace.cli import main as cli

    if command not in ("save", "load"):
        return cli.run(COMMANDS[command].split())
    try:
        if command == "save":
            values = {"a": np.arange(100_000, dtype=np.float32), "b": np.ones(3, np.int8)}
            interlace.save(values, "out.safetensors", checksums=True, threads=2)
        else:
            found = interlace.load("in.safetensors", framework="numpy", verify=True, threads=2)
            assert found["a"].sum() == 1000
    except (UserError, DeviceError, MemoryError) as error:
        print(f"interlace: {error or 'no memory'}", file=sys.stderr)
        return 2
    return 0


def forked(work: Callable[[], int]) -> tuple[int, str]:
    """Run `work` in a child process.

    Return the child's exit code and the child's messages. If a signal ended the child, the exit
    code is minus the number of the signal.
    """
    with Path("../messages").open("w+b") as messages:
        child = os.fork()
        if child == 0:
            os.dup2(messages.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = 99
            try:
                code = work()
                sys.stderr.flush()
            except BaseException:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        messages.seek(0)
        return os.waitstatus_to_exitcode(status), messages.read().decode(errors="replace")
