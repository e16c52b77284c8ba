"""Copies between GPUs, and between a GPU and the host, over all links that make a copy faster.

    interlace.copy(on_gpu, pinned)  # in the current stream of on_gpu's framework
    interlace.copy(pinned, on_gpu, stream)
    interlace.all_gather(outputs, inputs)  # lists with one array for each GPU
    interlace.all_to_all(outputs, inputs)
    interlace.all_reduce(outputs, inputs)

Arrays may come from PyTorch, CuPy, NumPy, or any other library with `__cuda_array_interface__`,
DLPack or the buffer protocol. This module calls libinterlace.so, as C programs do
(interlace/copy.h). The promises in interlace/copy.hpp about order, captures and memory hold for
this module, too.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from interlace.base.errors import DeviceError, UserError
from interlace.base.installation import installed
from interlace.runtime.regions import stream_number

SHARED_OBJECT = "libinterlace.so"
# The numbers that stand for CUDA's default streams. Each number means a different stream on each
# GPU.
DEFAULT_STREAMS = (0, 1, 2)

# Constants of interlace/copy.h.
ABI = 4
INVALID = (
    1,
    2,
    3,
)  # the results that mean an error of the caller: a wrong argument, a wrong setting, no GPU
OUT_OF_MEMORY = 5
CURRENT_GPU = -1
PAGE_LOCKED, PAGEABLE, MANAGED = -1, -2, -3
ELEMENTS = ("float32", "float64", "float16", "bfloat16", "int32", "int64")
REDUCTIONS = ("sum", "min", "max")


class _Statistics(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("direct", "streams", "graphs", "captured", "bytes")),
        *((name, ctypes.c_uint64) for name in ("hits", "misses", "evictions", "executables")),
        *(
            (f"{phase}_s", ctypes.c_double)
            for phase in ("creation", "construction", "instantiation", "update", "launch")
        ),
        *((name, ctypes.c_uint64) for name in ("nodes", "updates", "launches", "staging_bytes")),
    )


@cache
def open_library() -> Any:
    """Return the loaded library. The caller must declare the types of the library's functions."""
    file = installed(SHARED_OBJECT)
    if file is None:
        raise UserError(
            f"this installation lacks {SHARED_OBJECT}, the library that copies; install Interlace "
            "anew with ./quickstart"
        )
    try:
        library = ctypes.CDLL(str(file))
        library.interlace_copy_abi.restype = ctypes.c_int
        if library.interlace_copy_abi() < ABI:
            raise UserError(f"{file} is older than this module; install Interlace anew")
    except (OSError, AttributeError) as error:
        raise UserError(f"{file} cannot be loaded ({error}); install Interlace anew") from None
    library.interlace_last_error.argtypes = []
    library.interlace_last_error.restype = ctypes.c_char_p
    return library


@cache
def _library() -> Any:
    library = open_library()
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, arguments, result in (
        (
            "interlace_copier_copy_async",
            [pointer, ctypes.c_int, pointer, pointer, size, pointer],
            ctypes.c_int,
        ),
        *(
            (
                f"interlace_copier_{collective}_async",
                [pointer, ctypes.c_int, pointer, pointer, size, size, pointer],
                ctypes.c_int,
            )
            for collective in ("all_gather", "all_to_all")
        ),
        (
            "interlace_copier_all_reduce_async",
            [
                *(pointer, ctypes.c_int, pointer, pointer, size, size),
                *(ctypes.c_int, ctypes.c_int, pointer),
            ],
            ctypes.c_int,
        ),
        (
            "interlace_copier_copy_blocks_async",
            [pointer, ctypes.c_int, pointer, size, pointer, pointer],
            ctypes.c_int,
        ),
        ("interlace_copier_statistics", [pointer, pointer, size], ctypes.c_int),
        ("interlace_memory_place", [pointer, size, pointer], ctypes.c_int),
        ("interlace_stream_is_capturing", [ctypes.c_int, pointer, pointer], ctypes.c_int),
        ("interlace_event_record", [ctypes.c_int, pointer, pointer], ctypes.c_int),
        ("interlace_event_wait", [pointer, ctypes.c_int, pointer], ctypes.c_int),
        ("interlace_event_done", [pointer, pointer], ctypes.c_int),
        ("interlace_event_destroy", [pointer], None),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


def check(library: Any, result: int) -> None:
    """Raise an error if a call to the library returned a result other than success."""
    if result == 0:
        return
    text = library.interlace_last_error().decode("utf-8", "replace")
    if result in INVALID:
        raise UserError(text)
    if result == OUT_OF_MEMORY:
        raise MemoryError(text)
    raise DeviceError(text)


def call(name: str, *arguments: Any) -> None:
    """Call the function `name` of the library. Raise the error that the function reports."""
    library = _library()
    check(library, getattr(library, name)(*arguments))


class Array(NamedTuple):
    """The memory of a caller's array. `gpu` is None if the array is in the host's memory."""

    address: int
    bytes: int
    gpu: int | None
    dtype: str  # empty for bytes without a dtype
    framework: str
    writable: bool
    # the stream in which the owner of the array works, if the array's interface names this stream
    stream: int | None = None
    width: int = 1  # the bytes of an element, for arrays on a GPU


def place_of(address: int, size: int) -> int:
    library = _library()
    place = ctypes.c_int()
    check(library, library.interlace_memory_place(address, size, ctypes.byref(place)))
    return place.value


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, width: int) -> bool:
    if strides is None or 0 in shape:
        return True
    rows = [prod(shape[k + 1 :]) * width for k in range(len(shape))]
    return all(n == 1 or s == r for n, s, r in zip(shape, strides, rows, strict=True))


def _numpy_name(dtype: Any) -> str:
    if dtype.hasobject:
        raise UserError(f"an array of {dtype} cannot be copied: its elements are Python's objects")
    return str(dtype.name if dtype.isnative else dtype.str) if dtype.names is None else ""


def _of_torch(tensor: Any, which: str) -> Array:
    if str(tensor.layout) != "torch.strided" or tensor.device.type not in ("cpu", "cuda"):
        raise UserError(
            f"the {which} is {str(tensor.layout).removeprefix('torch.')} on {tensor.device}; give "
            "a dense tensor in the host's or a GPU's memory"
        )
    if tensor.is_conj() or tensor.is_neg():
        raise UserError(
            f"the {which} is a lazy conjugate or a lazy negative; use "
            "tensor.resolve_conj().resolve_neg()"
        )
    if not tensor.is_contiguous():
        raise UserError(f"the {which} is not contiguous; use tensor.contiguous()")
    gpu = None if tensor.device.type == "cpu" else int(tensor.device.index)
    size = int(tensor.numel()) * int(tensor.element_size())
    dtype = str(tensor.dtype).removeprefix("torch.")
    width = int(tensor.element_size())
    return Array(int(tensor.data_ptr()), size, gpu, dtype, "torch", True, width=width)


def _of_interface(array: Any, interface: Any, which: str) -> Array:
    """Return the array that a `__cuda_array_interface__` describes."""
    if interface.get("mask") is not None:
        raise UserError(
            f"the {which} has a mask, and a copy leaves out masks; copy its data and its mask "
            "separately"
        )
    dtype = np.dtype(interface["typestr"])
    shape = tuple(int(extent) for extent in interface["shape"])
    if not _contiguous(shape, interface.get("strides"), dtype.itemsize):
        raise UserError(f"the {which} is not contiguous; copy it to a contiguous array first")
    address, read_only = interface["data"]
    size = prod(shape) * dtype.itemsize
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        framework, gpu = "cupy", int(array.device.id)
    else:
        framework, gpu = "", 0
        if size:
            place = place_of(int(address), size)
            if place in (PAGE_LOCKED, PAGEABLE):
                raise UserError(
                    f"the {which} says that its memory is on a GPU, "
                    "but the driver says that it is not"
                )
            gpu = place if place >= 0 else CURRENT_GPU
    return Array(
        int(address),
        size,
        gpu,
        _numpy_name(dtype),
        framework,
        not read_only,
        interface.get("stream"),
        dtype.itemsize,
    )


def _of_host(array: Any, which: str, dtype: str | None = None) -> Array:
    if not array.flags.c_contiguous:
        raise UserError(f"the {which} is not contiguous; use numpy.ascontiguousarray")
    return Array(
        int(array.ctypes.data),
        int(array.nbytes),
        None,
        _numpy_name(array.dtype) if dtype is None else dtype,
        "numpy",
        bool(array.flags.writeable),
    )


def array_of(array: Any, which: str) -> Array:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array, which)
    if isinstance(array, np.ndarray):
        return _of_host(array, which)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        try:
            return _of_interface(array, interface, which)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise UserError(
                f"the {which} has a __cuda_array_interface__ that is wrong: {error}"
            ) from None
    if hasattr(array, "__dlpack_device__"):
        if int(array.__dlpack_device__()[0]) == 1:  # 1 means that the array is in host memory
            return _of_host(np.from_dlpack(array), which)
        for name in ("torch", "cupy"):
            module: Any = sys.modules.get(name)
            if module is not None:
                return array_of(module.from_dlpack(array), which)
        raise UserError(
            f"the {which} is a {type(array).__name__}, which only DLPack describes; import torch "
            "or cupy, because these frameworks read DLPack"
        )
    try:
        view = memoryview(array)
    except TypeError:
        raise UserError(
            f"the {which} is a {type(array).__name__}; give an array of PyTorch, CuPy or NumPy"
        ) from None
    if not view.c_contiguous:
        raise UserError(f"the {which} is not contiguous; use numpy.ascontiguousarray")
    return _of_host(
        np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0), which, ""
    )


# --- streams --------------------------------------------------------------------------------------


def gpu_of_stream(stream: Any) -> int | None:
    device = getattr(stream, "device", None)  # streams of PyTorch have this attribute
    index = getattr(device, "index", None)
    if not isinstance(index, int):
        # Streams of CuPy have this attribute. It is negative if CuPy does not know the GPU.
        index = getattr(stream, "device_id", None)
    return index if isinstance(index, int) and index >= 0 else None


def current_stream(array: Array) -> int:
    """Return the current stream of the array's framework on the array's GPU."""
    if array.framework == "torch":
        return int(sys.modules["torch"].cuda.current_stream(array.gpu).cuda_stream)
    if array.framework == "cupy":
        cuda = sys.modules["cupy"].cuda
        with cuda.Device(array.gpu):
            return int(cuda.get_current_stream().ptr)
    return array.stream or 0


class _Event:
    """A point in a stream, after all work that was enqueued before the event was made."""

    def __init__(self, library: Any, number: int, gpu: int) -> None:
        self._library = library
        self._event = ctypes.c_void_p()
        check(library, library.interlace_event_record(gpu, number, ctypes.byref(self._event)))

    def __del__(self) -> None:
        self._library.interlace_event_destroy(self._event)

    def hold(self, number: int, gpu: int) -> None:
        """Make all later work of the stream `number` on `gpu` wait for the event."""
        check(self._library, self._library.interlace_event_wait(self._event, gpu, number))

    def done(self) -> bool:
        answer = ctypes.c_int()
        check(self._library, self._library.interlace_event_done(self._event, ctypes.byref(answer)))
        return answer.value == 1


def _is_capturing(library: Any, number: int, gpu: int) -> bool:
    answer = ctypes.c_int()
    check(library, library.interlace_stream_is_capturing(gpu, number, ctypes.byref(answer)))
    return answer.value == 1


# --- the host's memory ----------------------------------------------------------------------------

# Frameworks reuse page-locked memory as soon as it is freed, even while a copy still uses it.
_kept: list[tuple[_Event, Any]] = []  # each array is kept until its event has happened
_kept_lock = threading.Lock()


def _keep(event: _Event, array: Any) -> None:
    with _kept_lock:
        _kept.append((event, array))  # this step comes first, because the next steps can fail
        _kept[:] = [one for one in _kept if not one[0].done()]


def keep_until_done(arrays: list[Any], stream: int, gpu: int) -> None:
    """Keep arrays in host memory alive until all work that is now in the stream is complete.

    If the stream is being captured, no array is kept alive: the caller must keep the arrays alive
    as long as the graph exists.
    """
    library = _library()
    if not arrays or _is_capturing(library, stream, gpu):
        return
    event = _Event(library, stream, gpu)
    for array in arrays:
        _keep(event, array)


_told = False


def _tell_of_pageable(array: Array) -> None:
    global _told
    if _told or place_of(array.address, array.bytes) != PAGEABLE:
        return
    _told = True
    warnings.warn(
        "interlace.copy: host memory that is not page-locked is copied by a plain copy, and the "
        "call waits for this copy; page-lock the memory with tensor.pin_memory() or "
        "cupyx.empty_pinned (this warning comes only once)",
        RuntimeWarning,
        stacklevel=3,
    )


def copy(dst: Any, src: Any, stream: Any = None) -> None:
    """Copy the bytes of an array to another array. At least one of the two is on a GPU.

    The call enqueues the copy and returns; the host does not wait. The copy runs after all earlier
    work of its stream and before all later work. Without `stream`, the stream is the current stream
    of the array's framework. If the arrays are on two GPUs, the copy runs after all earlier work of
    both GPUs' current streams, and before all later work of both streams. Autograd does not record
    the copy.

    A stream that is being captured receives the copy as nodes of its graph. The caller must keep
    both arrays alive as long as the graph exists. If there are two current streams, only the
    captured stream orders the copy. Without a capture, Interlace keeps host memory alive until a
    later call finds that the copy has ended. For GPU memory, the framework's rules about the use in
    other streams apply (Tensor.record_stream).

    Args:
        dst: The destination: a contiguous, writable array of PyTorch, CuPy or NumPy, or any object
            with `__cuda_array_interface__`, DLPack or the buffer protocol.
        src: The source, with the same dtype and the same number of bytes as `dst`. Shapes may
            differ. A buffer without a dtype (bytearray, mmap) fits any dtype. Host memory should be
            page-locked (tensor.pin_memory(), cupyx.empty_pinned). If host memory is not
            page-locked, the copy is a plain copy, and the call waits until this copy has ended.
        stream: A torch.cuda.Stream, a cupy.cuda.Stream, any object with `__cuda_stream__`, or the
            number of a cudaStream_t. The number of a default stream means the default stream of the
            destination's GPU, or of the source's GPU if the destination is in host memory. None is
            the current stream of this GPU in the array's framework.

    Raises:
        UserError: The arrays do not fit each other, `stream` is not a stream, or there is no GPU.
        DeviceError: The driver failed.

    Example::

        import torch

        pinned = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
        on_gpu = torch.empty_like(pinned, device="cuda:0")
        interlace.copy(on_gpu, pinned)
        torch.cuda.synchronize()
    """
    to, source = array_of(dst, "destination"), array_of(src, "source")
    if not to.writable:
        raise UserError("the destination is read-only")
    if to.dtype and source.dtype and to.dtype != source.dtype:
        raise UserError(
            f"the destination is {to.dtype} and the source is {source.dtype}; a copy converts "
            "nothing"
        )
    if to.bytes != source.bytes:
        raise UserError(
            f"the destination has {to.bytes} bytes and the source has {source.bytes} bytes; give "
            "arrays with equal numbers of bytes"
        )
    number = None if stream is None else stream_number(stream)
    if to.gpu is None and source.gpu is None:
        raise UserError(
            "both arrays are in the host's memory; one has to be on a GPU, or use numpy.copyto"
        )
    if to.bytes == 0:
        return
    library = _library()
    end = source if to.gpu is None else to
    assert end.gpu is not None
    # whether the source's current stream differs from the destination's current stream
    across = False
    if number is None:
        gpu, number = end.gpu, current_stream(end)
        if to.gpu is not None and source.gpu is not None:
            other = (current_stream(source), source.gpu)
            across = not _same_stream((number, gpu), other)
    else:
        named = gpu_of_stream(stream)
        gpu = end.gpu if named is None else named
    on_host = [given for array, given in ((to, dst), (source, src)) if array.gpu is None]
    for array in (to, source):
        if array.gpu is None:
            _tell_of_pageable(array)
    capturing = (across or on_host) and _is_capturing(library, number, gpu)
    if across and not capturing:
        _Event(library, *other).hold(number, gpu)
    check(
        library,
        library.interlace_copier_copy_async(
            None, gpu, to.address, source.address, to.bytes, number
        ),
    )
    if capturing or not (across or on_host):
        return
    event = _Event(library, number, gpu)
    if across:
        event.hold(*other)
    for given in on_host:
        _keep(event, given)


def _same_stream(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two streams, each given as (number, GPU), are the same stream.

    The legacy default stream has two numbers.
    """
    default = {one[0], other[0]} == set(DEFAULT_STREAMS[:2])
    return one[1] == other[1] and (one[0] == other[0] or default)


def _participants(outputs: Any, inputs: Any, name: str) -> tuple[list[Array], list[Array]]:
    """Return the outputs and the inputs of a collective: one output and one input for each GPU."""
    given = list(outputs), list(inputs)
    if len(given[0]) != len(given[1]) or not given[0]:
        raise UserError(
            f"{name} has {len(given[0])} outputs and {len(given[1])} inputs; give one output and "
            "one input for each GPU"
        )
    to, sent = (
        [array_of(array, f"{kind} {k}") for k, array in enumerate(arrays)]
        for kind, arrays in zip(("output", "input"), given, strict=True)
    )
    first_on: dict[int | None, int] = {}
    for k, (output, source) in enumerate(zip(to, sent, strict=True)):
        for kind, array in (("output", output), ("input", source)):
            if array.gpu is None:
                raise UserError(f"{kind} {k} is in the host's memory; {name} needs arrays on GPUs")
            if array.dtype != sent[0].dtype:
                raise UserError(
                    f"{kind} {k} is {array.dtype} and input 0 is {sent[0].dtype}; {name} converts "
                    "nothing"
                )
        if not output.writable:
            raise UserError(f"output {k} is read-only")
        if output.gpu != source.gpu:
            raise UserError(
                f"output {k} is on GPU {output.gpu} and input {k} is on GPU {source.gpu}; put both "
                "arrays of a GPU at the same index of the two lists"
            )
        if source.gpu in first_on:
            raise UserError(
                f"inputs {first_on[source.gpu]} and {k} are both on GPU {source.gpu}; give {name} "
                "one array on each GPU"
            )
        first_on[source.gpu] = k
        if source.bytes != sent[0].bytes:
            raise UserError(
                f"input {k} has {source.bytes} bytes and input 0 has {sent[0].bytes}; give arrays "
                "of one size"
            )
    return to, sent


def _collect(
    name: str, to: list[Array], sent: list[Array], of: tuple[int, ...], stream: Any
) -> None:
    """Call the library's function for the collective `name`.

    The collective is ordered with `stream` or, without `stream`, with the current streams of all
    arrays. `of` has the arguments that describe the arrays. The first argument is their size.
    """
    if of[0] == 0:
        return
    library = _library()
    first = to[0]
    assert first.gpu is not None
    others: list[tuple[int, int]] = []  # further streams with which the collective is ordered
    if stream is None:
        main = (current_stream(first), first.gpu)
        for array in (*to, *sent):
            assert array.gpu is not None
            one = (current_stream(array), array.gpu)
            if not any(_same_stream(one, known) for known in (main, *others)):
                others.append(one)
        if others and _is_capturing(library, *main):
            others = []
    else:
        number, named = stream_number(stream), gpu_of_stream(stream)
        main = (number, first.gpu if named is None else named)
    for one in others:
        _Event(library, *one).hold(*main)
    pointers = ctypes.c_void_p * len(to)
    check(
        library,
        getattr(library, f"interlace_copier_{name}_async")(
            None,
            main[1],
            pointers(*(array.address for array in sent)),
            pointers(*(array.address for array in to)),
            len(to),
            *of,
            main[0],
        ),
    )
    if others:
        event = _Event(library, *main)
        for one in others:
            event.hold(*one)


def all_gather(outputs: Any, inputs: Any, stream: Any = None) -> None:
    """Send the array of every GPU to all GPUs. Each GPU holds all arrays in the list's order.

    One process must drive all GPUs. The copies are planned together over all paths.

    The call enqueues the copies and returns; the host does not wait. Without `stream`, the copies
    run after all earlier work of the current streams of all arrays' frameworks, and before all
    later work. With `stream`, only this stream orders the copies, so the caller must tell PyTorch
    that the stream uses the arrays (Tensor.record_stream). A stream that is being captured receives
    the copies as nodes of its graph. If there are several current streams during a capture, only
    the stream of the first output orders the copies.

    Args:
        outputs: A list with a contiguous array on each GPU. Each output has `len(inputs)` times the
            bytes of an input.
        inputs: A list with a contiguous array on each GPU, in the order of `outputs`. All arrays
            have one dtype, and all inputs have one size. An input may be a part of the output on
            the same GPU, namely the part that receives the input's bytes.
        stream: As for `copy`. The number of a default stream means the default stream of the first
            output's GPU.

    Raises:
        UserError: The arrays do not fit each other or overlap, `stream` is not a stream, or there
            is no GPU.
        DeviceError: The driver failed.

    Example::

        import torch

        gpus = range(torch.cuda.device_count())
        inputs = [torch.full((1000,), float(g), device=f"cuda:{g}") for g in gpus]
        outputs = [torch.empty(len(gpus) * 1000, device=f"cuda:{g}") for g in gpus]
        interlace.all_gather(outputs, inputs)
    """
    to, sent = _participants(outputs, inputs, "all_gather")
    for k, output in enumerate(to):
        if output.bytes != len(sent) * sent[0].bytes:
            raise UserError(
                f"output {k} has {output.bytes} bytes, but {len(sent)} inputs of {sent[0].bytes} "
                f"bytes need outputs of {len(sent) * sent[0].bytes} bytes"
            )
    _collect("all_gather", to, sent, (sent[0].bytes,), stream)


def all_to_all(outputs: Any, inputs: Any, stream: Any = None) -> None:
    """Send block j of the input of GPU i to GPU j, as block i of GPU j's output.

    Ordering, capture and errors are as in `all_gather`.

    Args:
        outputs: A list with a contiguous array on each GPU. Each output has the size of an input.
            No output overlaps an input.
        inputs: A list with a contiguous array on each GPU, in the order of `outputs`. All arrays
            have one dtype and one size. Each array can be cut into as many blocks of whole elements
            as there are GPUs.
        stream: As for `all_gather`.

    Raises:
        UserError: The arrays do not fit each other or overlap, `stream` is not a stream, or there
            is no GPU.
        DeviceError: The driver failed.

    Example::

        import torch

        gpus = range(torch.cuda.device_count())
        inputs = [torch.arange(len(gpus) << 20, device=f"cuda:{g}") for g in gpus]
        outputs = [torch.empty_like(x) for x in inputs]
        interlace.all_to_all(outputs, inputs)
    """
    to, sent = _participants(outputs, inputs, "all_to_all")
    for k, output in enumerate(to):
        if output.bytes != sent[0].bytes:
            raise UserError(
                f"output {k} has {output.bytes} bytes and input 0 has {sent[0].bytes}; give arrays "
                "of one size"
            )
    elements = sent[0].bytes // max(1, sent[0].width)
    if elements % len(sent) != 0:
        raise UserError(
            f"inputs of {elements} elements cannot be cut into a block for each of {len(sent)} "
            f"GPUs; give a multiple of {len(sent)} elements"
        )
    _collect("all_to_all", to, sent, (sent[0].bytes // len(sent),), stream)


def all_reduce(outputs: Any, inputs: Any, op: str = "sum", stream: Any = None) -> None:
    """Combine the arrays of all GPUs element by element, and send the result to all GPUs.

    Elements are combined in the order of the lists. The results have the same bits on all GPUs and
    in every run. Sums of 16-bit floats are added in float32 and rounded once. Integer sums wrap.
    The min or max of a number and a NaN is the number. Received parts wait in staging memory.
    INTERLACE_COPY_STAGING limits this memory. Ordering and capture are as in `all_gather`.

    Args:
        outputs: A list with a contiguous array on each GPU. Each output has the size of an input.
            An output may be the input of the same GPU, but must not overlap any other array.
        inputs: A list with a contiguous array on each GPU, in the order of `outputs`. All arrays
            have one size and one dtype: float32, float64, float16, bfloat16, int32 or int64.
        op: "sum", "min" or "max".
        stream: As for `all_gather`.

    Raises:
        UserError: The arrays or the stream are wrong, as in `all_gather`, or this installation was
            built without nvcc.
        DeviceError: The driver failed.

    Example::

        import torch

        gpus = range(torch.cuda.device_count())
        gradients = [torch.ones(1 << 20, device=f"cuda:{g}") for g in gpus]
        interlace.all_reduce(gradients, gradients, op="sum")
    """
    to, sent = _participants(outputs, inputs, "all_reduce")
    if op not in REDUCTIONS:
        raise UserError(f"there is no reduction {op!r}; use one of {', '.join(REDUCTIONS)}")
    if sent[0].dtype not in ELEMENTS:
        raise UserError(
            f"input 0 is {sent[0].dtype or 'of no dtype'}; all_reduce combines "
            f"{', '.join(ELEMENTS)}"
        )
    for k, output in enumerate(to):
        if output.bytes != sent[0].bytes:
            raise UserError(
                f"output {k} has {output.bytes} bytes and input 0 has {sent[0].bytes}; give arrays "
                "of one size"
            )
    count = sent[0].bytes // sent[0].width
    of = (count, ELEMENTS.index(sent[0].dtype), REDUCTIONS.index(op))
    _collect("all_reduce", to, sent, of, stream)


def copy_statistics() -> dict[str, int | float]:
    """Return the numbers, bytes and times of this process's copies (interlace::copy_statistics)."""
    library = _library()
    counted = _Statistics()
    check(
        library,
        library.interlace_copier_statistics(None, ctypes.byref(counted), ctypes.sizeof(counted)),
    )
    return {name: getattr(counted, name) for name, *_ in _Statistics._fields_}
