"""Measures how fast a transformer's checkpoint is loaded into tensors.

The benchmark compares interlace with every other installed loader. Each loader has a process of its
own (`load_child`), and the loaders take turns.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlace.base.cores import allowed_cores
from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.model.mechanisms import GIB, MIB
from interlace.model.results import BENCHMARK_FORMAT, BenchmarkFile, provenance
from interlace.model.run import core_errors
from interlace.runtime import loading, reading
from interlace.runtime.tensor_memory import count_gpus, framework_named, gpu_of
from interlace.study import load_model
from interlace.study.load_methods import (
    BY_NAME,
    LIMIT,
    LIMITS,
    METHODS,
    OWN,
    THEIRS,
    Asked,
    Method,
)

PLACES = ("cache", "tmpfs", "cold")
TMPFS = Path("/dev/shm")
# A loader is ended if it takes longer than ANSWER_S seconds and is slower than LEAST_BYTES_PER_S.
ANSWER_S, LEAST_BYTES_PER_S = 20, 5e8
AFTER_LIMIT_S = 5  # a loader is ended when it exceeds its time limit by this many seconds
# If a loader takes this many times as long as the fastest loader, it has only one more measurement,
# at the end.
SLOW = 3


class LoadRow(msgspec.Struct):
    """The measurements of a loader, with the file in one place.

    A time begins with the call and ends when all bytes have arrived. If the tensors are in host
    memory, the process touches all of their pages within this time.
    """

    method: str
    package: str  # the name and the version of the package
    place: str  # where the file is: cache (the page cache), tmpfs, or cold (the disk)
    # fresh: the allocator gets memory from the driver; reused: the allocator already has the memory
    memory: str
    cores: int
    # the first call, with fresh memory, in a process that already has a context
    first_s: float | None
    first_without_context_s: float | None
    first_tensor_s: (
        float | None
    )  # the median time from the call until the first tensor could be used
    time_s: list[float]
    median_s: float
    gb_per_s: float
    speedup: float | None  # the speedup over safetensors' load_file with the same place and memory
    wrong: int | None  # the number of wrong tensors in the first load
    host_peak: int | None  # the peak memory use in bytes, without the tensors
    device_peak: int | None


class LoadResults(BenchmarkFile):
    """The content of a results file of `interlace bench load`."""

    framework: str
    framework_version: str
    device: str
    bytes: int
    tensors: int
    layers: int
    halvings: int  # the number of times that all sizes of the model were halved
    threads: int
    ring: list[int] | None  # the number and the bytes of slots; null for tensors in host memory
    repeats: int
    rows: list[LoadRow]
    notes: list[str]  # sentences that say what was left out, and why


class Request(NamedTuple):
    """A request to measure: the size of the file, the device and the other choices of the user."""

    most: int  # the file has at most this many bytes
    device: str | None
    folder: Path | None
    threads: int | None
    ring: tuple[int, int] | None
    repeats: int
    places: tuple[str, ...] = ("cache",)
    methods: tuple[str, ...] | None = None  # the loaders; None means all loaders
    # `interlace` and the limit depend on the number of cores. They are also measured with each of
    # these numbers.
    cores: tuple[int, ...] = ()
    limit_s: float | None = None  # no measurement starts after this many seconds


def _now() -> float:
    return time.monotonic()


class _Failed(Exception):  # noqa: N818
    """A loader failed."""


class _TimeIsOver(Exception):  # noqa: N818
    """The allowed time is over. The results keep the measurements that were made before."""


class _Loader:
    """A process that loads with one method."""

    def __init__(
        self, method: Method, given: dict[str, Any], end: float | None, *, context: bool
    ) -> None:
        self.method = method
        self._end = end
        self._deadline = ANSWER_S + given["most"] / LEAST_BYTES_PER_S
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        told = json.dumps(given | {"method": method.name, "context": context})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "interlace.study.load_child", told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        most = self._deadline
        if self._end is not None:
            most = min(most, max(self._end - _now(), 0) + AFTER_LIMIT_S)
        if not select.select([self._process.stdout], [], [], most)[0]:
            raise _Failed(f"it did not end within {most:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace").strip().splitlines()
            raise _Failed(
                text[-1][:200] if text else f"it ended with code {self._process.returncode}"
            )
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise _Failed(found["error"])
        return found

    def load(self, **told: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        usual = {"reused": False, "verify": False, "memory": False, "cores": None, "cold": False}
        with suppress(BrokenPipeError):  # if the child has ended, its answer says why
            self._process.stdin.write(json.dumps(usual | told) + "\n")
            self._process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """Tell the process to end, and do not wait for its end."""
        with suppress(BrokenPipeError, OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def close(self) -> None:
        self.end()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


class _Measured:
    """The measurements of a loader with one kind of memory."""

    def __init__(self, method: Method, memory: str, cores: int) -> None:
        self.method, self.memory, self.cores = method, memory, cores
        self.first: dict[str, Any] | None = None
        self.without_context: float | None = None
        self.repeats: list[dict[str, Any]] = []
        self.peaks: dict[str, Any] = {}


class _Place:
    """The loads by all methods, with the file in one place."""

    def __init__(
        self,
        place: str,
        methods: Sequence[Method],
        given: dict[str, Any],
        write: Callable[[], None],
        request: Request,
        notes: list[str],
        tick: Callable[[], None],
        end: float | None,
    ) -> None:
        self.place, self.given, self.request, self.end = place, given, request, end
        self.write, self.notes, self.tick = write, notes, tick
        self.methods = [m for m in methods if (m.cold if place == "cold" else m.warm)]
        if place == "cold":
            # The limit is measured first, because every row is compared with the limit, and the
            # allowed time may be over before all methods are measured.
            self.methods.sort(key=lambda m: m.name not in LIMITS)
        self.rows: dict[tuple[str, str, int], _Measured] = {}

    def _check_time(self) -> None:
        if self.end is not None and _now() > self.end:
            raise _TimeIsOver

    def _try(self, name: str, action: Callable[[], Any]) -> Any:
        """Return the result of an action.

        If the action fails, add a note with the reason and return None.
        """
        self._check_time()
        try:
            return action()
        except _Failed as error:
            self.notes.append(f"{name} with --place {self.place} ({error})")
            return None

    def _row(self, method: Method, memory: str, cores: int) -> _Measured:
        key = (method.name, memory, cores)
        return self.rows.setdefault(key, _Measured(method, memory, cores))

    def _start(
        self, running: ExitStack, methods: Sequence[Method], *, context: bool
    ) -> dict[str, _Loader]:
        """Start the processes of the loaders. Do not wait until they are ready."""
        loaders = {}
        for method in methods:
            loaders[method.name] = loader = _Loader(method, self.given, self.end, context=context)
            running.callback(loader.close)
        for loader in loaders.values():  # tell all processes to end before the first wait
            running.callback(loader.end)
        return loaders

    def _ready(self, loaders: dict[str, _Loader]) -> dict[str, _Loader]:
        """Return the loaders whose processes are ready."""
        return {n: x for n, x in loaders.items() if self._try(n, x.answer) is not None}

    def measure(self) -> None:
        """Measure all loaders, or as many as the time allows."""
        try:
            self._check_time()
            self._measure()
        except _TimeIsOver:
            self.notes.append(
                f"the remaining loads with --place {self.place}, because the time allowed "
                "(--limit) was over"
            )

    def _measure(self) -> None:
        all_cores = allowed_cores()
        gpu = self.given["device"] != "cpu"
        cold = self.place == "cold"
        with ExitStack() as running:
            loaders = self._start(running, self.methods, context=True)
            self.write()  # the processes start while this process writes the file
            loaders = self._ready(loaders)
            self._first(loaders, all_cores, cold=cold)
            if cold:
                for _ in range(self.request.repeats):
                    for loader in list(loaders.values()):
                        self._repeat(loaders, loader, "fresh", all_cores, cold=True)
                return
            firsts = {n: row.first["s"] for (n, _, _), row in self.rows.items() if row.first}
            fastest = min((s for n, s in firsts.items() if n not in LIMITS), default=0.0)
            slow = {name for name, seconds in firsts.items() if seconds > SLOW * fastest}
            for name in slow:
                row = self._row(loaders[name].method, "fresh", all_cores)
                row.repeats = [found for found in [row.first] if found is not None]
            users = [loader for n, loader in loaders.items() if n not in slow | set(LIMITS)]
            for loader in users:
                self._sample(loaders, loader, all_cores)
            for _ in range(self.request.repeats):
                for memory in ("fresh", "reused") if gpu else ("fresh",):
                    for name, loader in list(loaders.items()):
                        if name not in slow | (set(LIMITS) if memory == "reused" else set()):
                            self._repeat(loaders, loader, memory, all_cores)
            for cores in self.request.cores:
                for name in (OWN, LIMIT):
                    for _ in range(self.request.repeats if name in loaders else 0):
                        self._repeat(loaders, loaders[name], "fresh", cores)
            again = [x.method for x in users if gpu and x.method.name in loaders]
            without = self._start(running, again, context=False)
            self._without_context(self._ready(without), all_cores)
            for name in slow & set(loaders):
                self._repeat(loaders, loaders[name], "fresh", all_cores, sample=True)

    def _first(self, loaders: dict[str, _Loader], cores: int, *, cold: bool) -> None:
        for name, loader in list(loaders.items()):
            found = self._try(name, partial(loader.load, verify=True, memory=cold, cold=cold))
            self.tick()
            if found is None:
                del loaders[name]
            elif "s" not in found:
                left = 100 * found["resident"]
                self.notes.append(
                    f"{name} with --place cold ({left:.0f} % of the file stayed in memory)"
                )
                del loaders[name]
            else:
                row = self._row(loader.method, "fresh", cores)
                row.first = found
                if cold:
                    row.peaks = found

    def _sample(self, loaders: dict[str, _Loader], loader: _Loader, cores: int) -> None:
        """Load once to find the peaks of memory.

        This load is not timed, because finding the peaks slows it down.
        """
        found = self._try(loader.method.name, partial(loader.load, memory=True))
        self.tick()
        if found is None:
            del loaders[loader.method.name]
        else:
            self._row(loader.method, "fresh", cores).peaks = found

    def _repeat(
        self,
        loaders: dict[str, _Loader],
        loader: _Loader,
        memory: str,
        cores: int,
        *,
        sample: bool = False,
        cold: bool = False,
    ) -> None:
        name, reused = loader.method.name, memory == "reused"
        load = partial(loader.load, cores=cores, reused=reused, memory=sample, cold=cold)
        found = self._try(name, load)
        self.tick()
        if found is None or "s" not in found:
            del loaders[name]
            return
        row = self._row(loader.method, memory, cores)
        row.repeats.append(found)
        if sample:
            row.peaks = found

    def _without_context(self, loaders: dict[str, _Loader], cores: int) -> None:
        for name, loader in loaders.items():
            found = self._try(name, loader.load)
            self.tick()
            if found is not None:
                self._row(loader.method, "fresh", cores).without_context = found["s"]

    def results(self, size: int) -> list[LoadRow]:
        for row in self.rows.values():
            if not row.repeats and row.first is not None:  # the time was over before a repeat began
                row.repeats = [row.first]
        kept = {key: row for key, row in self.rows.items() if row.repeats}
        medians = {k: statistics.median(r["s"] for r in row.repeats) for k, row in kept.items()}
        found = []
        for key, row in kept.items():
            theirs = medians.get((THEIRS, row.memory, row.cores))
            firsts = [r["first_s"] for r in row.repeats if r["first_s"] is not None]
            first = row.first or {}
            found.append(
                LoadRow(
                    method=row.method.name,
                    package=f"{row.method.package} {row.method.version() or 'unknown'}",
                    place=self.place,
                    memory=row.memory,
                    cores=row.cores,
                    first_s=first.get("s"),
                    first_without_context_s=row.without_context,
                    first_tensor_s=statistics.median(firsts) if firsts else None,
                    time_s=[r["s"] for r in row.repeats],
                    median_s=medians[key],
                    gb_per_s=1e-9 * size / medians[key],
                    speedup=None
                    if theirs is None or row.method.name in LIMITS
                    else theirs / medians[key],
                    wrong=first.get("wrong"),
                    host_peak=row.peaks.get("host_peak"),
                    device_peak=row.peaks.get("device_peak"),
                )
            )
        return found


def check_room(folder: Path, size: int, largest: int) -> None:
    """Raise UserError if the file does not fit on the disk or into the page cache."""
    free = shutil.disk_usage(folder).free
    if free < size + 64 * MIB:
        raise UserError(
            f"{folder} has {free / GIB:.1f} GiB free, and the file needs {size / GIB:.1f} GiB; "
            "name another folder with --folder, or give fewer --bytes"
        )
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                available = 1024 * int(line.split()[1])
    # memory for the file, for the loaded tensors, and for the bytes to compare the tensors with
    needed = 3 * size + 3 * largest
    if available < needed:
        raise UserError(
            f"{available / GIB:.1f} GiB of memory are available, and {needed / GIB:.1f} GiB are "
            "needed; give fewer --bytes"
        )


def machine_of(device: str, framework: str) -> tuple[dict[str, Any], str | None]:
    """Return facts about the machine and, if it has GPUs, the version of the driver."""
    cores = allowed_cores()
    if device == "cpu":
        return {"node": "host", "name": f"{cores} cores", "cores": cores}, None
    from interlace.base.native import load_core

    seen = load_core().report_driver(0, 0)
    models = [one["name"] for one in seen["gpus"]]
    count = count_gpus(framework)
    model = str(models[gpu_of(device) or 0])
    return {
        "node": "cuda",
        "gpus": count,
        "name": f"{count}x {model}",
        "driver": seen["driver"],
        "cuda": seen["cuda"],
        "model": model,
        "cores": cores,
    }, seen["driver"]


def default_device() -> str:
    """Return the first GPU, or "cpu" if there is no GPU."""
    for name in ("torch", "cupy"):
        if importlib.util.find_spec(name) is not None:
            return "cuda:0" if count_gpus(name) else "cpu"
    return "cpu"


def _targets(asked: str) -> list[str]:
    """Return the requested devices: "cpu", or GPUs with their numbers."""
    named = [part.strip() for part in asked.split(",")]
    gpus = [gpu_of(one) for one in named]
    if gpus == [None]:
        return ["cpu"]
    if None in gpus or len(set(gpus)) < len(gpus):
        raise UserError(f"--device {asked}: give cpu, or GPUs without repetition")
    return [f"cuda:{max(gpu or 0, 0)}" for gpu in gpus]


def _chosen(request: Request, framework: str, gpu: bool, notes: list[str]) -> list[Method]:
    """Return the methods that can load. Add a note for each method that cannot load."""
    chosen = []
    left_out: dict[str, list[str]] = {}
    for method in METHODS:
        if request.methods is not None and method.name not in request.methods:
            continue
        reason = method.why_not(framework, gpu)
        if reason is None:
            chosen.append(method)
        else:
            left_out.setdefault(reason, []).append(method.name)
    notes += [f"{', '.join(names)}: {reason}" for reason, names in left_out.items()]
    return chosen


def _folder_of(place: str, request: Request) -> Path:
    if place == "tmpfs":
        if not TMPFS.is_dir():
            raise UserError(f"--place tmpfs: this computer has no {TMPFS}; leave tmpfs out")
        return TMPFS
    folder = Path(tempfile.gettempdir()) if request.folder is None else request.folder
    if not folder.is_dir():
        raise UserError(f"--folder {folder} is not a folder")
    return folder


def _write(
    files: Sequence[Path], data: Path, of: load_model.Shapes, framework: str, *, warm: bool
) -> None:
    """Write the checkpoint, and a file with the random bytes that the tensors share."""
    data.write_bytes(random := load_model.random_bytes(of))
    tensors = load_model.tensors_of(of, random, framework)
    for file, names in zip(files, load_model.shards(of, len(files)), strict=True):
        loading.save({name: tensors[name] for name in names}, file, metadata={"format": "pt"})
        # The first two reads of a page are slower in the kernel than later reads. Two reads of the
        # file here keep this cost away from all loaders.
        for _ in range(2 if warm else 0):
            list(BY_NAME[LIMIT].load(Asked(file, "cpu", framework, None, None)))


def run(request: Request) -> LoadResults:
    """Measure every method from every place, with the largest checkpoint that fits."""
    end = None if request.limit_s is None else _now() + request.limit_s
    targets = _targets(request.device or default_device())
    target = ",".join(targets)
    gpu = targets != ["cpu"]
    framework = framework_named(None, gpu=gpu)
    machine, driver = machine_of(targets[0], framework)
    of, layers, halvings = load_model.shapes(request.most)
    total = load_model.bytes_of(of)
    notes: list[str] = []
    methods = _chosen(request, framework, gpu, notes)
    folders = {place: _folder_of(place, request) for place in request.places}
    threads = reading.threads_of(request.threads)
    ring = request.ring or reading.default_ring(threads, int(machine.get("gpus", 1)))
    given = {
        "device": target, "framework": framework, "threads": request.threads,
        "ring": request.ring, "most": request.most,
    }  # fmt: skip
    warm = sum(place != "cold" for place in request.places)
    steps = warm * len(methods) * (2 + (1 + gpu) * request.repeats + gpu)
    steps += (len(request.places) - warm) * len(methods) * (1 + request.repeats)
    rows: list[LoadRow] = []
    with progress(f"load to {target}", steps) as tick, core_errors("load"):
        for place, folder in folders.items():
            check_room(folder, total, max(map(load_model.size_of, of.values())))
            with tempfile.TemporaryDirectory(prefix="interlace-", dir=folder) as inside:
                shards = [Path(inside) / f"{d.replace(':', '')}.safetensors" for d in targets]
                data = Path(inside) / "bytes"
                write = partial(_write, shards, data, of, framework, warm=place != "cold")
                here = given | {"files": [str(file) for file in shards], "bytes": str(data)}
                measured = _Place(place, methods, here, write, request, notes, tick, end)
                measured.measure()
                rows += measured.results(total)
    return LoadResults(
        format=BENCHMARK_FORMAT,
        benchmark="load",
        **provenance(),
        driver=driver,
        machine=machine,
        framework=framework,
        framework_version=str(importlib.import_module(framework).__version__),
        device=target,
        bytes=total,
        tensors=len(of),
        layers=layers,
        halvings=halvings,
        threads=threads,
        ring=list(ring) if gpu else None,
        repeats=request.repeats,
        rows=rows,
        notes=notes,
    )
