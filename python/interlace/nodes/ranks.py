"""Runs a workload with a process for each GPU, as NVSHMEM requires.

The caller writes the data into a folder and starts the processes with `python -m
interlace.nodes.ranks FOLDER RANK`. Each process maps the data from the folder. Rank 0 writes a file
into the folder. The other ranks need this file to connect to rank 0. Each process writes its
figures and its GPU's part of the result. The caller combines the figures and the parts. If one
process fails, the caller ends all other processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlace.base import interrupts
from interlace.base.errors import UserError
from interlace.model.mechanism_table import NVSHMEM
from interlace.model.run import Case, Outcome, RunFailure, core_errors
from interlace.workloads import Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Without -P, a file in the current folder could replace a module of the same name.
COMMAND = (sys.executable, "-P", "-m", "interlace.nodes.ranks")
START_S = 90  # all processes must have connected after this many seconds
RUN_S = 900  # seconds that the whole run may take
_LOOK_S = 0.02
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_USAGE = 2  # the exit code of a process with bad input
_REMARK = (
    "NVSHMEM {version} with a process for each GPU, without multicast in the switches. It runs on "
    "streams and not in a graph, so short iterations contain some of the host's time"
)


# --- the caller -----------------------------------------------------------------------------------


def why_not(files: Sequence[str]) -> str | None:
    """Return why NVSHMEM cannot connect processes, without a full stop, or None if it can.

    `files` are the files of NVSHMEM's library.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="interlace-") as folder:
            _run(Path(folder), {"ranks": 2, "files": list(files)}, "NVSHMEM", START_S + 10)
    except (RunFailure, UserError) as failed:
        return str(failed)
    return None


def measure(
    workload: Workload, case: Case, files: Sequence[str], warmup: int, repeats: int
) -> Outcome:
    """Run the case on the first GPUs, with a process for each GPU.

    Raises the same errors as a run in one process.
    """
    import numpy as np

    spec: dict[str, Any] = {
        "ranks": case.gpus,
        "files": list(files),
        "function": workload.function(),
        "limits": workload.limits(),
        "repeats": [warmup, repeats],
        "data": [],
    }
    with tempfile.TemporaryDirectory(prefix="interlace-") as name:
        folder = Path(name)
        np.save(folder / "boundaries.npy", np.array(workload.boundaries(case.gpus), np.uint64))
        for place, value in enumerate(workload.arguments()):
            if isinstance(value, np.ndarray):
                np.save(folder / f"data-{place}.npy", value)
                spec["data"].append(None)
            else:
                spec["data"].append(value)
        found = _run(folder, spec, str(case), RUN_S)
        values = [np.load(folder / f"values-{rank}.npy") for rank in range(case.gpus)]
    return Outcome.of(case, _together(found, values))


def _together(found: Sequence[dict[str, Any]], values: list[NDArray[np.float32]]) -> dict[str, Any]:
    """Combine the results of all ranks. The time of the run is the time of its slowest rank."""
    import numpy as np

    first = found[0]
    times = [max(of_all) for of_all in zip(*(one["times_s"] for one in found), strict=True)]

    def counted(key: str) -> float | None:
        each = [one[key] for one in found]
        return None if None in each else sum(each)

    return {
        "time_s": statistics.median(times),
        "times_s": times,
        "copy_s": 0.0,
        "iterations": first["iterations"],
        "residual": first["residual"],
        "values": np.concatenate(values),
        "wire": None,
        "timeline": [],
        "accesses": 0,
        "remote_transactions": 0,
        "cpu_s": None,
        "raw_tx_bytes": counted("raw_tx_bytes"),
        "data_tx_bytes": counted("data_tx_bytes"),
        "remarks": [_REMARK.format(version=first["version"])],
    }


def _run(folder: Path, spec: dict[str, Any], what: str, limit_s: float) -> list[dict[str, Any]]:
    """Start the processes of a run, wait for their end, and return their results."""
    (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    ranks = range(spec["ranks"])
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in ranks:
            with (folder / f"log-{rank}").open("wb") as log:
                command = [*COMMAND, str(folder), str(rank)]
                processes.append(
                    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                )
        until = time.monotonic() + limit_s
        while True:
            interrupts.check()
            codes = [process.poll() for process in processes]
            for rank, code in enumerate(codes):
                if code not in (None, 0):
                    _fail(folder, what, rank, code)
            if None not in codes:
                break
            if time.monotonic() > until:
                late = ", ".join(str(rank) for rank, code in enumerate(codes) if code is None)
                raise RunFailure(
                    f"{what}: after {limit_s:g} s the processes of GPU {late} still run"
                )
            time.sleep(_LOOK_S)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
        for process in processes:
            process.wait()
    return [json.loads((folder / f"result-{rank}.json").read_text("utf-8")) for rank in ranks]


def _fail(folder: Path, what: str, rank: int, code: int | None) -> None:
    """Raise an error that says why the process of a rank failed."""
    log = (folder / f"log-{rank}").read_text(encoding="utf-8", errors="replace")
    lines = [line for line in log.splitlines() if line.strip()]
    last = lines[-1] if lines else "its process printed no reason"
    if code == _USAGE:
        raise UserError(last)
    if code is not None and code < 0:
        how = f"its process was killed by {signal.Signals(-code).name}"
        if -code == signal.SIGALRM:
            how = f"its process could not connect to all other processes within {START_S} s"
        last = f"{how} ({last})"
    raise RunFailure(f"{what}: GPU {rank}: {last}")


# --- a process ------------------------------------------------------------------------------------


def _id(folder: Path, rank: int, cuda: Any, files: list[str]) -> bytes:
    """Return NVSHMEM's id of the job. Rank 0 makes the id, and all other ranks wait for it."""
    path = folder / "id"
    if rank == 0:
        made = bytes(cuda.make_nvshmem_id(files))
        part = folder / "id.part"
        part.write_bytes(made)
        part.rename(path)
        return made
    while not path.exists():
        time.sleep(_LOOK_S)
    return path.read_bytes()


def work(folder: Path, rank: int, cuda: Any) -> None:
    """Run the part of one rank in the compiled module, and write its results."""
    import numpy as np

    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    signal.alarm(START_S)
    common = _id(folder, rank, cuda, spec["files"])
    result: dict[str, Any] = {
        "version": str(cuda.join_nvshmem(spec["files"], rank, spec["ranks"], common))
    }
    signal.alarm(0)
    if "function" in spec:
        data = [
            np.load(folder / f"data-{place}.npy", mmap_mode="r") if value is None else value
            for place, value in enumerate(spec["data"])
        ]
        ran = getattr(cuda, spec["function"])(
            NVSHMEM,
            np.load(folder / "boundaries.npy"),
            *spec["limits"],
            *Case(1, NVSHMEM).config.arguments(),
            *spec["repeats"],
            *data,
        )
        np.save(folder / f"values-{rank}.npy", ran["values"])
        for key in ("times_s", "iterations", "residual", "raw_tx_bytes", "data_tx_bytes"):
            result[key] = ran[key]
    signal.alarm(START_S)
    cuda.leave_nvshmem()
    signal.alarm(0)
    (folder / f"result-{rank}.json").write_text(json.dumps(result), encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Run the process of a rank. `words` are the folder and the rank."""
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C reaches the whole process group. Only the caller handles it, and the caller ends this
    # process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, rank = Path(words[0]), int(words[1])
    if os.getppid() != parent:
        return 1
    try:
        cuda = importlib.import_module("interlace._cuda")
        with core_errors():
            work(folder, rank, cuda)
    except UserError as error:
        print(error, file=sys.stderr)
        return _USAGE
    except (RunFailure, ImportError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # Skip the shutdown of the interpreter, because a library may wait there for a failed process.
    code = 1
    try:
        code = main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
