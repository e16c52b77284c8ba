"""`interlace ps` and SIGQUIT on a region that hangs, on one real GPU with PyTorch.

    python tests/gpu/hung_region_torch.py [--save FILE]

Two devices share GPU 0. In the fourth epoch, a kernel of device 1 takes longer than the deadline of
20 s before it publishes the last elements, so a stream waits for these elements. Meanwhile, another
process runs `interlace ps`, and then the program gets a SIGQUIT. The script prints what a terminal
shows, and a line for each check. The exit code is 1 if a check fails, and 77 if there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

DEADLINE_S = 20
EPOCHS = 4
MISSING = 4096  # number of elements that the last epoch publishes late
LATE_CYCLES = 50_000_000_000  # 25 s at 2 GHz
BEGUN = "the last epoch is enqueued"
WAIT = re.compile(r"waits for chunk (\d+) of region 'vector', whose counter is (\d+) and not (\d+)")


def program() -> None:
    """Run three epochs, and a fourth epoch that takes too long."""
    try:
        import torch

        gpus = torch.cuda.device_count()
    except ImportError:
        gpus = 0
    if gpus == 0:
        print("there is no GPU with PyTorch")
        sys.exit(77)
    import interlace

    group = interlace.Group.local([0, 0], deadline=DEADLINE_S)
    vector = interlace.Region(
        group, 1 << 20, "float32", mechanism="copy-engine", chunk_bytes=1 << 20, name="vector"
    )
    parts = []
    late = torch.tensor([MISSING], device="cuda:0")
    torch.cuda._sleep(1)  # here and below, each kernel is loaded before anything waits
    for d in group.local_devices:
        chunks = torch.from_numpy(vector.chunks(d))
        sizes = (chunks[:, 1] - chunks[:, 0]).cuda()
        arrays = vector.counters(d), vector.flags(d)
        counters, flags = (torch.from_dlpack(array) for array in arrays)
        parts.append((torch.cuda.Stream(0), sizes, counters, flags))
        counters.add_(torch.zeros_like(sizes))
        counters[-1:].add_(torch.zeros_like(late))
        for some in (flags, flags[:-1], flags[-1:]):
            some.fill_(0)
        torch.zeros(1, device="cuda:0").fill_(1)
    torch.cuda.synchronize()
    for epoch in range(EPOCHS):
        if epoch == EPOCHS - 1:
            for d in group.local_devices:
                group.synchronize(d, parts[d][0])
            parts[1][1][-1] -= MISSING
            torch.cuda.synchronize()
        for d in group.local_devices:
            stream, sizes, counters, flags = parts[d]
            hangs = epoch == EPOCHS - 1 and d == 1
            begin, end = vector.part(d)
            with torch.cuda.stream(stream):
                vector.begin(d, stream)
                torch.from_dlpack(vector.back(d))[begin:end].fill_(epoch)
                counters.add_(sizes)
                (flags[:-1] if hangs else flags).fill_(1)
                if hangs:
                    torch.cuda._sleep(LATE_CYCLES)
                    counters[-1:].add_(late)
                    flags[-1:].fill_(1)
                vector.exchange(d, stream)
    print(BEGUN, flush=True)
    try:
        for d in group.local_devices:
            group.synchronize(d, parts[d][0])
    except interlace.DeviceError as error:
        print(f"{Path(__file__).name}: {error}", file=sys.stderr)
        sys.exit(1)


def _ask() -> str:
    asked = subprocess.run(
        [sys.executable, "-m", "interlace", "ps"], capture_output=True, text=True, timeout=20,
        check=False,
    )  # fmt: skip
    return asked.stdout + asked.stderr


def watch(save: Path | None) -> int:
    """Start the program, ask what it does, and return the exit code."""
    begun = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, Path(__file__).name, "--program"], cwd=Path(__file__).parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32"},
    )  # fmt: skip
    assert child.stdout is not None
    line = child.stdout.readline()
    if line.strip() != BEGUN:
        _, said = child.communicate()
        print(line + said, end="")
        return child.returncode or 1
    time.sleep(3)
    told = _ask()
    child.send_signal(signal.SIGQUIT)
    _, said = child.communicate()  # the program ends by itself at the deadline
    after = _ask()
    shown = f"$ interlace ps\n{told}$ kill -QUIT {child.pid}\n{said}"
    print(shown, end="", flush=True)
    if save is not None:
        save.write_text(shown, encoding="utf-8")
    found = WAIT.search(told)
    last = said.splitlines()[-1] if said else ""
    checks = {
        "ps names chunk, counter and target": found is not None
        and int(found[3]) - int(found[2]) == MISSING,
        "SIGQUIT prints the same": WAIT.search(said) is not None,
        "the deadline ends the wait": child.returncode == 1 and "waited 20 s" in last,
        "nothing is shown afterwards": str(child.pid) not in after,
    }
    for name, right in checks.items():
        print(f"{name}: {'right' if right else 'WRONG'}")
    print(f"{time.monotonic() - begun:.0f} s")
    return 0 if all(checks.values()) else 1


def main() -> int:
    """Read the options, and return the exit code."""
    parser = argparse.ArgumentParser(description="Asks what a hung region waits for.")
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    if asked.program:
        program()
        return 0
    return watch(asked.save)


if __name__ == "__main__":
    sys.exit(main())
