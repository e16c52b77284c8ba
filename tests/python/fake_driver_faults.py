"""A program in which calls of the driver fail: one call, or all calls from a certain call on.

The program runs with the stand-in libcuda.so.1 of tests/cpp/preload. Its arguments are an action, a
number of calls, and K/N. In each of the WAYS, this number of the action's calls fails, one call per
turn (0 means all calls). With K/N, the program tries only every N-th of these failures, starting
with the K-th. It prints one line of JSON: the number of calls that the action makes, the number of
failures that were tried, the messages, and the findings.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import fake_blocks
import fake_gpus
import fake_parking
import interlace
from fake_gpus import Device, check, on_gpu
from interlace.base.errors import DeviceError, UserError
from interlace.runtime import parking

driver: Any = fake_gpus.driver
driver.fake_calls_seen.restype = ctypes.c_uint64
driver.fake_bytes.restype = ctypes.c_uint64
driver.fake_failed_call.restype = ctypes.c_char_p
driver.fake_objects.restype = ctypes.c_long
SEED = 1
# the number of failures in one process; if the use of a resource grows with each failure, the
# resource leaks
TURNS = 4
SECONDS = 30  # if an action takes longer after a failure, the action hangs
OUT_OF_MEMORY, LAUNCH_FAILED = 2, 719
# Either one call fails, or all calls from a certain call on fail. The second case is that of an
# error that ends a context.
WAYS = {"no memory": (OUT_OF_MEMORY, 0), "error": (LAUNCH_FAILED, 0), "lost": (LAUNCH_FAILED, 1)}
# If one of these calls fails, memory stays mapped or registered.
KEPT = ("cuMemUnmap", "cuMemHostUnregister")
ALONE = 12  # a plain copy makes fewer driver calls than this
MIB = 1 << 20
SIZE = 3 * MIB  # interlace takes over copies of this size
GPUS = {"a": "cuda:0", "": "cuda:1"}
ROWS = {"ring": (3, 1 << 16), "threads": 2}
Check = Callable[[], None]
lost = False  # true if all calls fail from a certain call on


def _values(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


# Each generator prepares its inputs and yields two functions. The first is the action, which raises
# an error if a call fails. The second checks the state that must hold after a failure.


def load() -> tuple[Check, Check]:
    host = {f"{name}.w": _values(k, 3, 100_000) for k, name in enumerate("abc")}
    interlace.save(host, "in.safetensors", checksums=True)

    def act() -> None:
        read = interlace.load("in.safetensors", GPUS, framework="cupy", verify=True, **ROWS)
        _need(all(np.array_equal(read[name], host[name]) for name in host), "bytes are wrong")

    return act, lambda: None


def save() -> tuple[Check, Check]:
    host = {f"{name}.w": _values(k, 3, 100_000) for k, name in enumerate("abc")}
    tensors = {name: on_gpu(values, k % 2) for k, (name, values) in enumerate(host.items())}

    def whole() -> bool:
        read = interlace.load("out.safetensors", framework="numpy", verify=True)
        return all(np.array_equal(read[name], host[name]) for name in host)

    def act() -> None:
        interlace.save(tensors, "out.safetensors", checksums=True, **ROWS)
        _need(whole(), "the file is wrong")

    def after() -> None:
        names = {path.name for path in Path().iterdir()}
        _need(names <= {"out.safetensors"}, f"files are left: {names}")
        _need(not names or whole(), "half a file is left")

    return act, after


def copy() -> tuple[Check, Check]:
    values = _values(1, 3 * MIB)
    with Device(0):
        source = fake_blocks.pinned(values)
    target = on_gpu(np.zeros_like(values), 1)

    def act() -> None:
        target[...] = 0
        with Device(1):
            interlace.copy(target.exported(), source)
            fake_gpus.synchronize()
        _need(np.array_equal(target, values), "bytes are wrong")

    return act, fake_gpus.synchronize


def copy_blocks() -> tuple[Check, Check]:
    values = _values(2, 64, 1024)
    rows = np.random.default_rng(3).permutation(64)[:40]
    with Device(0):
        pinned = fake_blocks.pinned(values)
    pageable, cache = values.copy(), on_gpu(np.zeros_like(values), 0)
    back = np.zeros_like(values)

    def act() -> None:
        with Device(0):
            for host, pages in ((pinned, "refuse"), (pageable, "stage")):
                cache[...], back[...] = 0, 0
                interlace.copy_blocks(cache.exported(), host, src_rows=rows, pageable=pages)
                interlace.copy_blocks(back, cache[:40].exported(), dst_rows=rows, pageable="stage")
                fake_gpus.synchronize()
                _need(np.array_equal(cache[:40], values[rows]), "rows on the GPU are wrong")
                _need(np.array_equal(back[rows], values[rows]), "rows that came back are wrong")

    return act, fake_gpus.synchronize


def park() -> tuple[Check, Check]:
    with interlace.parkable("weights"):
        one = fake_parking.tensor(3 * MIB, 1)
        two = fake_parking.tensor(MIB, 2)

    def intact() -> bool:
        return one.is_all(1) and two.is_all(2)

    def act() -> None:
        interlace.prepare_park("weights", wait=True)
        for to in ("host", "gpu:1"):
            interlace.park("weights", to=to)
            interlace.resume("weights")
            _need(intact(), "contents are wrong")

    def after() -> None:
        if interlace.parked_memory()["weights"].parked:
            interlace.resume("weights")
        _need(intact(), "contents are lost")

    return act, after


def parkable() -> tuple[Check, Check]:
    made: list[fake_parking.Tensor] = []

    def free() -> None:
        for one in made:
            if one.address in one.pool.segments:
                one.drop()
                one.pool.empty_cache()

    def act() -> None:
        made.clear()
        with interlace.parkable("cache"):
            made.append(fake_parking.tensor(2 * MIB, 3))
        interlace.park("cache", to="drop")
        interlace.resume("cache")
        free()

    def after() -> None:
        state = interlace.parked_memory().get("cache")
        if state is not None and state.parked:
            interlace.resume("cache")
        free()
        for one in made:  # if memory could not be freed, it still exists and can be freed again
            with suppress(UserError):
                parking._call("pool_free", one.address)

    return act, after


def run() -> tuple[Check, Check]:
    """Act as a program under `interlace run`.

    The program must see only the failures of calls that it makes itself.
    """
    sys.path.insert(0, str(Path(__file__).parent / "stand_ins/driver"))
    torch: Any = importlib.import_module("torch")
    pinned = torch.full((SIZE,), 7, dtype=torch.uint8, pin_memory=True)
    on_gpu = torch.empty_like(pinned, device="cuda:0")
    own = {"cuMemcpyHtoDAsync_v2", "found_host_to_gpu", "cuCtxSynchronize", ""}

    def act() -> None:
        ctypes.memset(on_gpu.data_ptr(), 0, SIZE)
        try:
            on_gpu.copy_(pinned, non_blocking=True)
            torch._check(torch.cuda.synchronize())
        except RuntimeError as error:
            failed = driver.fake_failed_call().decode()
            _need(lost or failed in own, f"the program sees that {failed} failed: {error}")
            raise DeviceError(str(error)) from None
        _need(ctypes.string_at(on_gpu.data_ptr(), SIZE) == b"\7" * SIZE, "bytes are wrong")

    return act, fake_gpus.synchronize


def run_taken_over() -> tuple[Check, Check]:
    """Act like `run`, but after the library has started its engine."""
    act, after = run()
    end = time.monotonic() + SECONDS / 2
    while True:
        _arm(0)
        act()
        if driver.fake_calls_seen() > ALONE:
            return act, after
        _need(time.monotonic() < end, "the engine does not start")
        time.sleep(0.01)


ACTIONS = {
    one.__name__: one
    for one in (load, save, copy, copy_blocks, park, parkable, run, run_taken_over)
}


# --- the failures ---------------------------------------------------------------------------------


def _arm(at: int, code: int = 0, lasts: int = 0) -> None:
    global lost
    lost = lasts != 0
    driver.fake_fail_calls(ctypes.c_uint64(at), code, lasts)


def _left() -> dict[str, int]:
    gc.collect()
    fake_gpus.synchronize()
    return {
        "on GPUs": driver.fake_bytes(1),
        "page-locked": driver.fake_bytes(0),
        "objects": driver.fake_objects(),
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208
    }


def _fails(act: Check) -> str:
    """Return the message of a failure, or an empty text if the action worked."""
    try:
        act()
    except (UserError, DeviceError, MemoryError) as error:
        said = str(error)
        _need(said != "" and "\n" not in said, f"not one sentence: {said!r}")
        return said
    return ""


def _one(make: Callable[[], tuple[Check, Check]], warm: bool, at: int, way: str) -> str:
    """Let one call fail in this process, and return the finding."""
    act, after = make()
    if warm:
        act()
    said, held, failed = "", [], ""
    for _ in range(1 if way == "lost" else TURNS):
        _arm(at, *WAYS[way])
        said = _fails(act) or said
        failed = driver.fake_failed_call().decode() or failed
        _arm(0)
        after()
        if way == "lost":  # a process without its context cannot use the driver again
            return said
        act()
        held.append(_left())
    for what in held[0]:
        counts = [one[what] for one in held]
        leaks = all(one < other for one, other in itertools.pairwise(counts[1:]))
        leaks = leaks and failed not in KEPT
        _need(not leaks, f"{what}: {counts} after failures of {failed}: {said}")
    return said


def _forked(work: Callable[[], str]) -> str:
    """Run `work` in a child process, and return the child's answer. A finding begins with an
    exclamation mark.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open("../messages", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        signal.alarm(SECONDS)
        try:
            answer = work()
        except BaseException:
            answer = "!" + traceback.format_exc()
        os.write(write, answer.encode()[-4000:])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        answer = answers.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if (code := os.waitstatus_to_exitcode(status)) != 0:
        messages = Path("../messages").read_text(errors="replace")
        return f"!it ended with {code}: {messages[-500:]}"
    return answer


def _count(make: Callable[[], tuple[Check, Check]], warm: bool) -> str:
    act, _ = make()
    if warm:
        act()
        act()
    _arm(0)
    act()
    return str(driver.fake_calls_seen())


def _points(name: str, calls: dict[bool, int], way: str, sample: int) -> list[tuple[bool, int]]:
    """Return the failures to try. Each has two values: whether the action ran before, and which
    call fails.
    """
    every = [(warm, at) for warm, count in calls.items() for at in range(1, count + 1)]
    if sample == 0:
        return every
    return sorted(random.Random(f"{SEED} {name} {way}").sample(every, min(len(every), sample)))


def _clean() -> None:
    for file in Path().iterdir():
        file.unlink()


def main() -> None:
    name, sample = sys.argv[1], int(sys.argv[2])
    first, step = map(int, sys.argv[3].split("/"))
    make = ACTIONS[name]
    if not name.startswith("run"):
        fake_gpus.stand_in()
    if "park" in name:
        sys.modules["torch"] = fake_parking.make_torch()
    check(driver.cuInit(0))
    Path("work").mkdir()
    os.chdir("work")
    calls = {}
    for warm in (False, True):
        _clean()
        counted = _forked(lambda: _count(make, warm))  # noqa: B023
        if counted.startswith("!"):
            raise RuntimeError(counted)
        calls[warm] = int(counted)
    found: dict[str, Any] = {"calls": sum(calls.values()), "failures": 0, "said": {}}
    findings = []
    failures = [(way, *point) for way in WAYS for point in _points(name, calls, way, sample)]
    for way, warm, at in failures[first::step]:
        _clean()
        said = _forked(lambda: _one(make, warm, at, way))  # noqa: B023
        found["failures"] += 1
        if said.startswith("!"):
            start = "warm" if warm else "cold"
            findings.append(f"{name}, {start}, call {at}, {way}: {said[1:]}")
        else:
            found["said"][said] = found["said"].get(said, 0) + 1
    print(json.dumps({**found, "findings": findings}))


if __name__ == "__main__":
    main()
