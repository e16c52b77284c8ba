"""Reads files of tensors lazily, with the interface of safetensors' `safe_open`.

Example::

    with interlace.safe_open("model.safetensors", "pt", "cuda:0") as f:
        for name in f.keys():
            tensor = f.get_tensor(name)
        rows = f.get_slice("weight")[1024:2048]
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from interlace.base.errors import UserError
from interlace.runtime import reading, slices, tensor_memory
from interlace.runtime.arrivals import Arrivals, every
from interlace.runtime.checkpoint_files import File, open_files
from interlace.runtime.placement import Device, Devices
from interlace.runtime.read_errors import naming_tensors
from interlace.runtime.reading import MOST_NAMED_THREADS, How, Wanted, threads_of
from interlace.runtime.safetensors_header import BITS, Entry

FRAMEWORKS = {
    **dict.fromkeys(("pt", "torch", "pytorch"), "torch"),
    **dict.fromkeys(("np", "numpy"), "numpy"),
    "cupy": "cupy",
}
BACKENDS = ("mmap", "pread")
FEW_BYTES = 4 << 20  # one thread reads up to this many bytes as fast as several threads

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _as_safetensors_raises(
    function: Callable[_Arguments, _Result],
) -> Callable[_Arguments, _Result]:
    """Make each UserError also a SafetensorError if the program has imported safetensors."""

    @functools.wraps(function)
    def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        try:
            return function(*arguments, **options)
        except UserError as error:
            raise _error(error) from None

    return call


def _error(error: UserError) -> UserError:
    module = sys.modules.get("safetensors")
    theirs = getattr(module, "SafetensorError", None)
    if theirs is None or isinstance(error, (theirs, FileNotFoundError)):
        return error
    return _both(theirs)(*error.args)


@functools.cache
def _both(theirs: type[Exception]) -> type[UserError]:
    return type("UserError", (UserError, theirs), {"__doc__": UserError.__doc__})


class _MissingFileError(UserError, FileNotFoundError):
    """The file does not exist."""

    __str__ = UserError.__str__


class TensorMeta(NamedTuple):
    """The properties of a tensor that the header states."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class safe_open:  # noqa: N801
    """Open a safetensors file, or a folder of such files, to read single tensors or parts of them.

    The interface is that of `safetensors.safe_open`. If the program has imported safetensors, each
    error is both a SafetensorError and a UserError. Every read checks that the size of the file has
    not changed. Every header is checked as in `load`.

    Args:
        filename: A file, or a folder as for `load`.
        framework: "pt" (also "torch") or "np" (also "numpy"); "cupy" for GPUs.
        device: "cpu", "cuda", "cuda:1", or the number of a GPU.
        backend: "mmap" or "pread". Both names have the same effect.

    Raises:
        UserError: The file is damaged, or an argument is not valid.
        FileNotFoundError: There is no such file.
        DeviceError: A disk or a GPU failed.

    Example::

        import numpy

        interlace.save({"weight": numpy.ones((4, 3), numpy.float32)}, "model.safetensors")
        with interlace.safe_open("model.safetensors", "np") as f:
            rows = f.get_slice("weight")[1:3]
        assert rows.shape == (2, 3)
    """

    @_as_safetensors_raises
    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: Device = "cpu",
        *,
        backend: str = "mmap",
    ) -> None:
        if framework not in FRAMEWORKS:
            raise UserError(f"there is no framework {framework!r} here; give pt, np or cupy")
        if backend not in BACKENDS:
            raise UserError(f"backend {backend!r} is not one of {', '.join(BACKENDS)}")
        self._framework = FRAMEWORKS[framework]
        self._device = device
        gpu = tensor_memory.gpu_of(device)
        tensor_memory.framework_named(self._framework, gpu=gpu is not None)
        if isinstance(filename, (str, os.PathLike)) and not os.path.exists(filename):  # noqa: PTH110
            raise _MissingFileError(f"No such file or directory: {os.fspath(filename)}")
        self._name = os.fspath(filename)
        self._files: list[File] = open_files(filename)
        self._places = {
            entry.name: (number, entry)
            for number, file in enumerate(self._files)
            for entry in file.header.tensors
        }

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file. A loader that `prefetch` returned still works."""
        self._files = []

    def _check_open(self) -> None:
        if not self._files:
            raise UserError("File is closed")

    @_as_safetensors_raises
    def keys(self) -> list[str]:
        """Return the names of all tensors, sorted."""
        self._check_open()
        return sorted(self._places)

    @_as_safetensors_raises
    def offset_keys(self) -> list[str]:
        """Return the names of all tensors, in the order of the file."""
        self._check_open()
        return list(self._places)

    @_as_safetensors_raises
    def metadata(self) -> dict[str, str] | None:
        """Return the strings in the metadata of the header.

        For a folder, return only the strings that are the same in all files.
        """
        self._check_open()
        first, *others = (file.header.metadata for file in self._files)
        agreed = {
            key: text
            for key, text in first.items()
            if all(other.get(key) == text for other in others)
        }
        return agreed or None

    @_as_safetensors_raises
    def get_tensor_meta(self, name: str) -> TensorMeta:
        """Return the properties of a tensor that the header states. This reads no data."""
        _, entry = self._place(name)
        return TensorMeta(entry.dtype, list(entry.shape), (entry.begin, entry.end))

    @_as_safetensors_raises
    def get_tensor(self, name: str) -> Any:
        """Read a tensor."""
        number, entry = self._place(name)
        return self._read([(number, entry)])[0]

    @_as_safetensors_raises
    def get_tensors(self) -> dict[str, Any]:
        """Read all tensors, by name."""
        self._check_open()
        places = list(self._places.values())
        return dict(zip(self._places, self._read(places), strict=True))

    @_as_safetensors_raises
    def get_slice(self, name: str) -> TensorSlice:
        """Return an object that stands for a tensor. Indexing the object reads a part of it."""
        number, entry = self._place(name)
        return TensorSlice(self, number, entry)

    @_as_safetensors_raises
    def prefetch(
        self,
        plan: Mapping[str, slice | None] | None = None,
        *,
        device: Device | None = None,
        threads: int | None = None,
    ) -> PrefetchLoader:
        """Start to load tensors to a GPU in the background.

        Args:
            plan: A mapping from the name of each tensor to load to None or a slice. None loads the
                whole tensor. A slice selects rows of the first dimension, with step 1. If the plan
                itself is None, all tensors are loaded.
            device: The GPU. The default is the GPU of this file.
            threads: The number of reading threads. The default is one thread for each core, but at
                most 32 threads.

        Returns:
            A loader that hands out each tensor once, even after this file is closed.
        """
        self._check_open()
        if self._framework == "numpy":
            raise UserError('prefetch loads to GPUs; give framework="pt" or framework="cupy"')
        where = self._device if device is None else device
        if tensor_memory.gpu_of(where) is None:
            raise UserError(f"prefetch loads to cuda devices, not {where}")
        wanted = self._planned(plan)
        reading.refuse_unknown(self._framework, self._files, wanted)
        gpu = Devices(where, self._framework).of(self._name, "")
        wanted = [one._replace(gpu=gpu) for one in wanted]
        # As in safetensors, any number is allowed. Idle threads are not started.
        most = min(threads, MOST_NAMED_THREADS) if isinstance(threads, int) else threads
        how = How(threads_of(most))
        return PrefetchLoader(Arrivals(self._files, wanted, self._framework, how), wanted)

    def _planned(self, plan: Mapping[str, slice | None] | None) -> list[Wanted]:
        if plan is None:
            return [Wanted(number, entry, None) for number, entry in self._places.values()]
        rows = {name: self._rows(name, value) for name, value in plan.items()}
        if not rows:
            raise UserError(f"{self._name}: the prefetch plan selects no tensors")
        return [
            Wanted(number, rows[name], None)
            for name, (number, _) in self._places.items()
            if name in rows
        ]

    def _rows(self, name: str, rows: slice | None) -> Entry:
        """Return an entry that describes some rows of a tensor, as if they were a tensor."""
        number, entry = self._place(name)
        if rows is None:
            return entry
        file = self._files[number].name
        if not isinstance(rows, slice):
            raise UserError(
                f"{file}: tensor {name!r}: a prefetch plan has None or a slice, not {rows!r}"
            )
        try:
            first, last = slices.rows_of(name, rows, entry.shape)
        except UserError as error:
            raise UserError(f"{file}: {error}") from None
        size = entry.end - entry.begin
        each = size // entry.shape[0] if entry.shape[0] else 0
        if each * entry.shape[0] != size:
            raise UserError(f"{file}: tensor {name!r}: a row does not fill whole bytes")
        shape = (last - first, *entry.shape[1:])
        begin = entry.begin + first * each
        return Entry(name, entry.dtype, shape, begin, begin + (last - first) * each)

    def _place(self, name: str) -> tuple[int, Entry]:
        self._check_open()
        if name not in self._places:
            raise UserError(f"{self._name} does not contain tensor {name!r}")
        return self._places[name]

    def _gpu(self) -> int | None:
        return Devices(self._device, self._framework).of(self._name, "")

    def _read(self, places: list[tuple[int, Entry]]) -> list[Any]:
        gpu = self._gpu()
        wanted = [Wanted(number, entry, gpu) for number, entry in places]
        reading.refuse_unknown(self._framework, self._files, wanted)
        size = sum(entry.end - entry.begin for _, entry in places)
        with naming_tensors(self._files):
            return reading.read(self._files, wanted, self._framework, _how(size))[0]

    def _read_part(self, number: int, entry: Entry, index: Any) -> Any:
        self._check_open()
        file = self._files[number]
        gpu = self._gpu()
        reading.refuse_unknown(self._framework, self._files, [Wanted(number, entry, gpu)])
        bits = BITS[entry.dtype]
        if bits % 8:
            return self._read_rows(number, entry, index)
        try:
            part = slices.part_of(index, entry.shape, bits // 8)
        except UserError as error:
            error.add_note(f"{file.name}: tensor {entry.name!r}")
            raise
        size = len(part.runs) * part.run_bytes
        memory = reading.allocated(self._framework, size, gpu, file.name, entry)
        begin = file.header.data_begin + entry.begin
        place = -1 if gpu is None else gpu
        segments = [
            (0, begin + run, part.run_bytes, memory.address + k * part.run_bytes, place, 0)
            for k, run in enumerate(part.runs)
        ]
        if gpu is not None:
            tensor_memory.synchronize(self._framework, gpu)
        gpus = set() if gpu is None else {gpu}
        with naming_tensors([file]):
            reading.move_from([file], segments, gpus, _how(size))
        elements = size * 8 // bits
        return memory.strided(entry.dtype, part.shape, part.strides, elements)

    def _read_rows(self, number: int, entry: Entry, index: Any) -> Any:
        """Read rows of a tensor whose elements do not fill whole bytes."""
        given = index[0] if isinstance(index, tuple) and len(index) == 1 else index
        if given is Ellipsis or given == () or given == slice(None):
            return self._read([(number, entry)])[0]
        if not isinstance(given, slice) or len(entry.shape) < 2:
            raise UserError(
                f"{self._files[number].name}: tensor {entry.name!r}: give a slice of the first "
                f"dimension; elements of {entry.dtype} are not whole bytes"
            )
        return self._read([(number, self._rows(entry.name, given))])[0]


def _how(size: int) -> How:
    return How(1 if size <= FEW_BYTES else threads_of(None))


class TensorSlice:
    """A tensor in a file. Indexing the tensor reads only the bytes that the index selects.

    Gaps of less than 4 KiB between these bytes are also read. An index such as `[2:5, ..., 0]` can
    have slices with positive steps, whole numbers, and at most one ellipsis. A bound beyond the
    tensor is an error.
    """

    def __init__(self, file: safe_open, number: int, entry: Entry) -> None:
        self._file, self._number, self._entry = file, number, entry

    @_as_safetensors_raises
    def __getitem__(self, index: Any) -> Any:
        return self._file._read_part(self._number, self._entry, index)

    def get_shape(self) -> list[int]:
        """Return the shape of the whole tensor."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """Return the dtype with the name that the header has."""
        return self._entry.dtype


class PrefetchLoader:
    """Loads tensors to a GPU in the background, and hands out each tensor once.

    A tensor is complete when it is handed out. Its memory belongs to the stream that was current
    during the call of `prefetch`.
    """

    def __init__(self, arrivals: Arrivals, wanted: list[Wanted]) -> None:
        self._arrivals = arrivals
        self._names = [one.entry.name for one in wanted]

    def names(self) -> list[str]:
        """Return the names of all tensors of the loader, in the order of the file."""
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @_as_safetensors_raises
    def take(self, name: str) -> Any:
        """Return a tensor after it has arrived. If the plan selects rows, return these rows."""
        return self._arrivals.take(name)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield names and tensors as they arrive, without the tensors that `take` returned."""
        return every(_as_safetensors_raises(self._arrivals.next))

    def close(self) -> None:
        """Stop loading, and free the tensors that were not handed out."""
        self._arrivals.close()

    def __enter__(self) -> Self:
        """Return the loader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the loader."""
        self.close()
