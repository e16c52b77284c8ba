"""Loaders of safetensors files. Each loader is a function that yields tensors as they arrive."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base.cores import allowed_cores

Arrived = Iterator[tuple[str, Any]]


class Asked(NamedTuple):
    """A request to a loader: the file and the destination."""

    file: Path
    device: str
    framework: str
    threads: int | None  # None means the default of the loader, or else the number of cores
    ring: tuple[int, int] | None  # for interlace: the number of slots and the bytes of a slot
    # Only for interlace, in place of `file` and `device`: files, and the device of each tensor.
    files: tuple[Path, ...] = ()
    places: Mapping[str, str] | None = None

    @property
    def cores(self) -> int:
        """Return the number of threads for a loader that has no default number."""
        return self.threads or allowed_cores()


class Method(NamedTuple):
    """A loader, and the conditions under which it can be used."""

    name: str
    module: str  # the module that must be importable
    package: str  # the package whose version is reported
    frameworks: tuple[str, ...]
    gpu: bool  # whether the loader loads only to GPUs
    load: Callable[[Asked], Arrived]
    cold: bool = True  # whether to measure the loader with a file that is not in the page cache
    warm: bool = True

    def why_not(self, framework: str, gpu: bool) -> str | None:
        """Return why this loader cannot load, or None if it can."""
        if framework not in self.frameworks:
            return f"it has no tensors of {framework}"
        if self.gpu and not gpu:
            return "it loads only to GPUs"
        for name in (self.module.partition(".")[0], self.module):
            try:
                if importlib.util.find_spec(name) is None:
                    return f"{name} is not installed"
            except (ImportError, ValueError):
                return f"{name} is not installed"
        return None

    def version(self) -> str | None:
        """Return the version of the loader's package."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


def _interlace(*, direct: bool) -> Callable[[Asked], Arrived]:
    def load(asked: Asked) -> Arrived:
        from interlace.runtime import loading

        yield from loading.load(
            asked.files or asked.file,
            asked.places or asked.device,
            framework=asked.framework,
            threads=asked.threads,
            ring=asked.ring,
            direct=direct,
        ).items()

    return load


def _interlace_stream(asked: Asked) -> Arrived:
    from interlace.runtime import streaming

    yield from streaming.stream(
        asked.files or asked.file,
        asked.places or asked.device,
        framework=asked.framework,
        threads=asked.threads,
    )


def _load_file(asked: Asked) -> Arrived:
    module: Any = importlib.import_module(f"safetensors.{asked.framework}")
    if asked.framework == "torch":
        yield from module.load_file(asked.file, device=asked.device).items()
    else:
        yield from module.load_file(asked.file).items()


def _prefetch(asked: Asked) -> Arrived:
    module: Any = importlib.import_module("safetensors")
    with module.safe_open(asked.file, "pt", device=asked.device) as opened:
        if not hasattr(opened, "prefetch"):
            raise RuntimeError(
                f"safetensors {module.__version__} has no prefetch; install 0.9 or later"
            )
        yield from opened.prefetch(device=asked.device, threads=asked.cores)


def _instant_tensor(backend: str) -> Callable[[Asked], Arrived]:
    def load(asked: Asked) -> Arrived:
        module: Any = importlib.import_module("instanttensor")
        with module.safe_open(
            str(asked.file),
            framework="pt",
            device=int(asked.device.partition(":")[2] or 0),
            backend=module.Backend[backend],
        ) as opened:
            # The tensors of this loader are views of a buffer, and later tensors overwrite it.
            yield from ((name, tensor.clone()) for name, tensor in opened.tensors())

    return load


def _run_ai(asked: Asked) -> Arrived:
    os.environ.setdefault("RUNAI_STREAMER_CONCURRENCY", str(asked.cores))
    module: Any = importlib.import_module("runai_model_streamer")
    with module.SafetensorsStreamer() as streamer:
        streamer.stream_files([str(asked.file)], device=asked.device)
        yield from ((name, tensor.clone()) for name, tensor in streamer.get_tensors())


def _fastsafetensors(asked: Asked) -> Arrived:
    module: Any = importlib.import_module("fastsafetensors")
    with module.fastsafe_open([str(asked.file)], device=asked.device, nogds=True) as opened:
        for name in opened.keys():  # noqa: SIM118
            yield name, opened.get_tensor(name)


def _checkpoint_reader(asked: Asked) -> Arrived:
    torch: Any = importlib.import_module("torch")
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    module: Any = importlib.import_module("safetensors")
    with module.safe_open(
        asked.file, "pt"
    ) as opened:  # the caller must give this loader the shapes of the tensors
        state = {
            name: torch.empty(
                opened.get_slice(name).get_shape(), dtype=torch.bfloat16, device=asked.device
            )
            for name in opened.keys()  # noqa: SIM118
        }
    reader = dcp.HuggingFaceStorageReader(str(asked.file.parent))
    dcp.load(state, storage_reader=reader, no_dist=True)
    yield from state.items()


PIECE = 1 << 20  # the bytes that a thread of `_limit` reads at a time


def _limit(flags: int) -> Callable[[Asked], Arrived]:
    """Return a method that reads the file on all cores. Each thread reads into its own buffer."""

    def load(asked: Asked) -> Arrived:
        descriptor = os.open(asked.file, os.O_RDONLY | flags)
        size = os.fstat(descriptor).st_size
        share = -(-size // asked.cores // PIECE) * PIECE

        def read(begin: int) -> None:
            buffer = mmap.mmap(
                -1, PIECE
            )  # mapped memory begins at a page boundary, which direct reads require
            for offset in range(begin, min(begin + share, size), PIECE):
                os.preadv(descriptor, [buffer], offset)

        threads = [threading.Thread(target=read, args=(k * share,)) for k in range(asked.cores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.close(descriptor)
        yield from ()

    return load


OWN = "interlace"
OWN_DIRECT = "interlace direct"
OWN_STREAM = "interlace stream"
THEIRS = "safetensors load_file"
LIMIT = "pread"  # not a loader, but the rate that no loader can exceed
DISK_LIMIT = "direct reads"
LIMITS = (LIMIT, DISK_LIMIT)
OWN_METHODS = (OWN, OWN_DIRECT, OWN_STREAM)
_ALL = ("torch", "cupy", "numpy")
METHODS = (
    Method(OWN, "interlace.runtime.loading", "interlace", _ALL, False, _interlace(direct=False)),
    Method(
        OWN_DIRECT, "interlace.runtime.loading", "interlace", ("torch", "cupy"), True,
        _interlace(direct=True), warm=False,
    ),
    Method(
        OWN_STREAM, "interlace.runtime.streaming", "interlace", _ALL, False, _interlace_stream
    ),
    Method(THEIRS, "safetensors", "safetensors", ("torch", "numpy"), False, _load_file),
    Method("safetensors prefetch", "safetensors", "safetensors", ("torch",), True, _prefetch),
    *(
        Method(
            f"InstantTensor {name}", "instanttensor", "instanttensor", ("torch",), True,
            _instant_tensor(name), cold, not cold,
        )
        for name, cold in (
            ("MMAP", False), ("URING_BUFFERED", False), ("AIO_BUFFERED", False),
            ("URING", True), ("AIO", True),
        )
    ),
    Method(
        "fastsafetensors", "fastsafetensors", "fastsafetensors", ("torch",), True, _fastsafetensors
    ),
    Method(
        "Run:ai streamer", "runai_model_streamer", "runai-model-streamer", ("torch",), True, _run_ai
    ),
    Method(
        "torch checkpoint", "torch.distributed.checkpoint", "torch", ("torch",), True,
        _checkpoint_reader,
    ),
    Method(LIMIT, "os", "interlace", _ALL, False, _limit(0), cold=False),
    Method(DISK_LIMIT, "os", "interlace", _ALL, False, _limit(os.O_DIRECT), warm=False),
)  # fmt: skip
BY_NAME = {method.name: method for method in METHODS}
