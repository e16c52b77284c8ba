"""Loads of a transformer's checkpoint into tensors, compared with safetensors' own reader.

The file has the shapes of a transformer of 8 billion parameters: 32 layers, hidden size 4096,
feed-forward size 14336, 32 heads of 128 with 8 for keys and values, a vocabulary of 128256. A
smaller file has fewer layers. If not even one layer fits, all sizes are halved.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.model.mechanisms import GIB, MIB
from interlace.model.results import BENCHMARK_FORMAT, BenchmarkFile, provenance
from interlace.model.run import core_errors
from interlace.nodes.nodes import real_node
from interlace.runtime import loading, reading
from interlace.runtime.tensor_memory import framework_named, gpu_of

OWN = "interlace"
THEIRS = "safetensors"
LAYERS, HIDDEN, FORWARD, KEYS, VOCABULARY = 32, 4096, 14336, 1024, 128256
ELEMENT = 2  # bytes
PAGE = 4096  # bytes
STEP = PAGE  # bytes between the starts of two tensors in the random bytes that all tensors share

Tensors = dict[str, Any]


class LoadRow(msgspec.Struct):
    """A way to load the file. A time begins at the call and ends when all bytes have arrived.

    For host memory, every page has been touched by then.
    """

    method: str
    first_s: float  # first call of the process: includes contexts and page-locked memory
    time_s: list[float]
    median_s: float
    gb_per_s: float
    speedup: float | None  # speedup over safetensors' load_file
    wrong: int  # tensors


class LoadResults(BenchmarkFile):
    """A file of results."""

    framework: str
    framework_version: str
    safetensors: str | None  # version
    device: str
    bytes: int
    tensors: int
    layers: int
    halvings: int  # how often all sizes were halved
    threads: int
    ring: list[int]  # slots, bytes of each
    repeats: int
    rows: list[LoadRow]


def shapes(most: int) -> tuple[dict[str, tuple[int, ...]], int, int]:
    """The tensors of the largest checkpoint that fits, and its numbers of layers and halvings."""
    halvings = 0
    while True:
        hidden, forward, keys, vocabulary = (
            max(1, n >> halvings) for n in (HIDDEN, FORWARD, KEYS, VOCABULARY)
        )
        layer = {
            "input_layernorm": (hidden,),
            "mlp.down_proj": (hidden, forward),
            "mlp.gate_proj": (forward, hidden),
            "mlp.up_proj": (forward, hidden),
            "post_attention_layernorm": (hidden,),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "self_attn.q_proj": (hidden, hidden),
            "self_attn.v_proj": (keys, hidden),
        }
        rest = {
            "lm_head": (vocabulary, hidden),
            "model.embed_tokens": (vocabulary, hidden),
            "model.norm": (hidden,),
        }
        room = most - ELEMENT * sum(map(prod, rest.values()))
        layers = min(LAYERS, room // (ELEMENT * sum(map(prod, layer.values()))))
        if layers > 0:
            break
        halvings += 1
    made = dict(rest)
    for number in range(layers):
        made |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return {f"{name}.weight": shape for name, shape in made.items()}, layers, halvings


def random_tensors(of: Mapping[str, tuple[int, ...]], framework: str, seed: int = 0) -> Tensors:
    """Tensors that share one block of random bytes and start at different offsets."""
    import numpy as np

    most = max(ELEMENT * prod(shape) for shape in of.values())
    data = bytearray(np.random.default_rng(seed).bytes(most + STEP * len(of)))
    made: Tensors = {}
    for number, (name, shape) in enumerate(of.items()):
        begin = STEP * number
        if framework == "torch":
            torch: Any = importlib.import_module("torch")
            flat = torch.frombuffer(data, dtype=torch.bfloat16, count=prod(shape), offset=begin)
            made[name] = flat.view(shape)
        else:
            made[name] = np.frombuffer(data, np.float16, prod(shape), begin).reshape(shape)
    return made


def differing(one: Tensors, other: Tensors) -> int:
    """The number of tensors that differ in name, dtype, shape or bytes."""
    return len(set(one) ^ set(other)) + sum(
        not _equal(one[name], other[name]) for name in set(one) & set(other)
    )


def _equal(one: Any, other: Any) -> bool:
    import numpy as np

    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one.view(np.uint8), other.view(np.uint8)))
    if type(one).__module__.startswith("cupy"):
        return bool((one.view(np.uint8) == other.view(np.uint8)).all())
    torch: Any = importlib.import_module("torch")
    return bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))


def reader_of_theirs(framework: str, file: Path, device: str) -> Callable[[], Tensors] | None:
    """safetensors' own reader, if it is installed and has one for this framework."""
    if framework == "cupy" or importlib.util.find_spec("safetensors") is None:
        return None
    module: Any = importlib.import_module(f"safetensors.{framework}")
    if framework == "torch":
        return partial(module.load_file, file, device=device)
    return partial(module.load_file, file)


def _synchronize(framework: str, device: str) -> None:
    module: Any = importlib.import_module(framework)
    if framework == "torch":
        module.cuda.synchronize(device)
    else:
        module.cuda.Device(gpu_of(device)).synchronize()


def _settle(framework: str, device: str) -> None:
    """Wait until nothing is in flight, and free cached memory."""
    gc.collect()
    if device == "cpu":
        return
    _synchronize(framework, device)
    module: Any = importlib.import_module(framework)
    if framework == "torch":
        module.cuda.empty_cache()
    else:
        module.get_default_memory_pool().free_all_blocks()


def _timed(load: Callable[[], Tensors], framework: str, device: str) -> tuple[float, Tensors]:
    import numpy as np

    _settle(framework, device)
    begin = time.perf_counter()
    found = load()
    if device == "cpu":  # safetensors maps the file and reads pages when they are touched
        for tensor in found.values():
            flat = tensor.reshape(-1)
            if not isinstance(flat, np.ndarray):
                flat = flat.view(importlib.import_module(framework).uint8).numpy()
            flat.view(np.uint8)[::PAGE].sum()
    else:
        _synchronize(framework, device)
    return time.perf_counter() - begin, found


def measure(
    methods: Mapping[str, Callable[[], Tensors]],
    expected: Tensors,
    repeats: int,
    where: tuple[str, str],
    tick: Callable[[], None],
) -> list[LoadRow]:
    """Measure the methods in turns. The first result of each is verified."""
    size = sum(int(tensor.nbytes) for tensor in expected.values())
    first: dict[str, float] = {}
    wrong: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in methods}
    for name, load in methods.items():
        first[name], found = _timed(load, *where)
        wrong[name] = differing({key: _on_host(tensor) for key, tensor in found.items()}, expected)
        del found
        tick()
    for _ in range(repeats):
        for name, load in methods.items():
            seconds, found = _timed(load, *where)
            del found
            times[name].append(seconds)
            tick()
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return [
        LoadRow(
            method=name,
            first_s=first[name],
            time_s=times[name],
            median_s=medians[name],
            gb_per_s=1e-9 * size / medians[name],
            speedup=medians[THEIRS] / medians[name] if THEIRS in medians else None,
            wrong=wrong[name],
        )
        for name in methods
    ]


def _on_host(tensor: Any) -> Any:
    import numpy as np

    if isinstance(tensor, np.ndarray):
        return tensor
    return tensor.get() if type(tensor).__module__.startswith("cupy") else tensor.cpu()


def check_room(folder: Path, size: int, largest: int) -> None:
    """Raise UserError if the file does not fit on the disk or into the page cache."""
    free = shutil.disk_usage(folder).free
    if free < size + 64 * MIB:
        raise UserError(
            f"{folder} has {free / GIB:.1f} GiB free, and the file takes {size / GIB:.1f}; name "
            "another folder with --folder, or give fewer --bytes"
        )
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                available = 1024 * int(line.split()[1])
    needed = 3 * size + 2 * largest  # the file, the loaded tensors, the tensors to compare with
    if available < needed:
        raise UserError(
            f"{available / GIB:.1f} GiB of memory are available, and {needed / GIB:.1f} are "
            "needed; give fewer --bytes"
        )


def machine_of(device: str) -> tuple[dict[str, Any], str | None]:
    if device == "cpu":
        cores = len(os.sched_getaffinity(0))
        return {"node": "host", "name": f"{cores} cores", "cores": cores}, None
    node = real_node(0, 1, hint="load into the host's memory with --device cpu")
    return {"node": node.name, **node.description()}, node.driver


def default_device() -> str:
    for name in ("torch", "cupy"):
        if importlib.util.find_spec(name) is not None:
            from interlace.runtime.tensor_memory import count_gpus

            return "cuda:0" if count_gpus(name) else "cpu"
    return "cpu"


def run(
    most: int, device: str | None, folder: Path | None, threads: int | None,
    ring: tuple[int, int], repeats: int,
) -> LoadResults:  # fmt: skip
    """Measure every method with the largest checkpoint that fits, written to the folder."""
    target = device or default_device()
    gpu = gpu_of(target)
    framework = framework_named(None, gpu=gpu is not None)
    machine, driver = machine_of("cpu" if gpu is None else target)
    of, layers, halvings = shapes(most)
    total = ELEMENT * sum(map(prod, of.values()))
    place = Path(tempfile.gettempdir()) if folder is None else folder
    if not place.is_dir():
        raise UserError(f"--folder {place} is not a folder")
    check_room(place, total, ELEMENT * max(map(prod, of.values())))

    safetensors = None
    with tempfile.TemporaryDirectory(prefix="interlace-", dir=place) as inside:
        file = Path(inside) / "model.safetensors"
        expected = random_tensors(of, framework)
        loading.save(expected, file, metadata={"format": "pt"})
        methods: dict[str, Callable[[], Tensors]] = {
            OWN: partial(
                loading.load, file, target, framework=framework, threads=threads, ring=ring
            )
        }
        reference = reader_of_theirs(framework, file, target)
        if reference is not None:
            methods[THEIRS] = reference
            safetensors = str(importlib.import_module("safetensors").__version__)
        with (
            progress(f"load to {target}", len(methods) * (repeats + 1)) as tick,
            core_errors("load"),
        ):
            rows = measure(methods, expected, repeats, (framework, target), tick)
    return LoadResults(
        format=BENCHMARK_FORMAT,
        benchmark="load",
        **provenance(),
        driver=driver,
        machine=machine,
        framework=framework,
        framework_version=str(importlib.import_module(framework).__version__),
        safetensors=safetensors,
        device=target,
        bytes=total,
        tensors=len(of),
        layers=layers,
        halvings=halvings,
        threads=reading.threads_of(threads),
        ring=list(ring),
        repeats=repeats,
        rows=rows,
    )
