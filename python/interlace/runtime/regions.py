"""Regions for a program's own kernels: PyTorch, Triton, CuPy, Numba.

A region is an array. Several GPUs hold a replica of this array. In an epoch, each device reads its
front buffer and writes its part of its back buffer. The exchange sends the parts to the other
devices and swaps the buffers:

    group = interlace.Group.local()        # all GPUs
    ranks = interlace.Region(group, (n,), "float32", mechanism="bulk-copy")
    for d in group.local_devices:
        ranks.begin(d, stream[d])
        ...                                # kernels in stream[d] write ranks.back(d)[begin:end]
        ranks.exchange(d, stream[d])

The promises of interlace/region.hpp about calls, memory, graphs and deadlines hold for this module,
too.

A stream is a torch.cuda.Stream, a cupy.cuda.Stream, any object with `__cuda_stream__`, or the
number of a cudaStream_t. None is CUDA's default stream. PyTorch and CuPy also work in this stream
unless the program sets another stream. torch.cuda.current_stream(device) is right in both cases.
"""

from __future__ import annotations

import contextlib
import operator
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from interlace.base.activities import Activity, duration, shown
from interlace.base.errors import DeviceError, UserError
from interlace.base.native import load_cuda
from interlace.model.mechanism_table import (
    AGENT_COPY,
    AGENT_THREADS,
    BULK_COPY,
    CHUNK_BYTES,
)

if TYPE_CHECKING:
    from types import TracebackType

AllGather = Callable[[bytes], Sequence[bytes]]

# DLPack's codes for the kinds of numbers.
_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}


def stream_number(stream: object) -> int:
    """Return the number of a stream's cudaStream_t. None is the default stream."""
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr"):  # the name in PyTorch, and the name in CuPy
        if isinstance(number := getattr(stream, name, None), int):
            return number
    raise UserError(
        f"a {type(stream).__name__} is not a CUDA stream; pass a torch.cuda.Stream, a "
        "cupy.cuda.Stream, the number of a cudaStream_t, or None for the default stream"
    )


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype of NumPy or PyTorch, such as "float32" or "bfloat16"."""
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if text == "bfloat16":
        return text
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError as e:
        raise UserError(f"{dtype!r} is not a dtype") from e
    name: str = found.name
    if not found.isnative or found.kind not in "biufc":
        raise UserError(f"a region of {name} is not possible; use numbers in native byte order")
    return name


def element_bytes_of(dtype: object) -> int:
    """Return the bytes of an element."""
    return _kind_and_bits(dtype_name(dtype))[1] // 8


def _kind_and_bits(name: str) -> tuple[int, int]:
    if name == "bool":
        return 6, 8
    kind = name.rstrip("0123456789")
    bits = name.removeprefix(kind)
    if kind not in _KINDS or not bits:
        raise UserError(f"a region of {name} is not possible; use numbers of 8 bits or more")
    return _KINDS[kind], int(bits)


class DeviceArray:
    """GPU memory for torch.from_dlpack, cupy.from_dlpack, cupy.asarray, numba.cuda and others.

    The array does not synchronize with any stream. If a kernel reads or writes the array, the
    caller must enqueue the kernel after the work on which the kernel depends. The array keeps its
    region alive.
    """

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: str, ordinal: int, owner: object
    ) -> None:
        self.pointer = pointer
        self.shape = shape
        self.dtype = dtype
        self.device = ordinal  #: CUDA's number of the GPU
        self._owner = owner

    def _array(self) -> Any:
        code, bits = _kind_and_bits(self.dtype)
        return load_cuda().device_array(
            self.pointer, list(self.shape), code, bits, self.device, self._owner
        )

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array().__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device)  # 2 is DLPack's kDLCUDA

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype == "bfloat16":
            raise AttributeError("bfloat16 has no __cuda_array_interface__; use __dlpack__")
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, GPU {self.device})"


def _gather_of(communicator: Any, rank: int | None, size: int | None) -> tuple[AllGather, int, int]:
    """Return the all-gather of a communicator, with the rank and the size of the communicator."""
    module = getattr(type(communicator), "__module__", "") or ""
    name = getattr(communicator, "__name__", "")
    if name == "torch.distributed" or module.startswith("torch"):
        import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

        process_group = None if name == "torch.distributed" else communicator
        own_size = dist.get_world_size(process_group)

        def gather(own: bytes) -> list[bytes]:
            every: list[Any] = [None] * own_size
            dist.all_gather_object(every, own, group=process_group)
            return every

        return gather, dist.get_rank(process_group), own_size
    if module.startswith("mpi4py"):
        return communicator.allgather, communicator.Get_rank(), communicator.Get_size()
    if not callable(communicator):
        raise UserError(
            f"a {type(communicator).__name__} is not an all-gather; pass torch.distributed, a "
            "ProcessGroup, an mpi4py communicator, or a function from bytes to all ranks' bytes"
        )
    if rank is None or size is None:
        raise UserError("an all-gather that is a function needs rank= and size=")
    return communicator, rank, size


class Group:
    """The GPUs that hold replicas of regions, in one process or with a process for each GPU.

    Make a group with `local` or `join`. A device is an index from 0 to `devices` - 1.
    """

    def __init__(self, made: Any, gather: AllGather | None = None) -> None:
        self._group = made
        self._gather = gather
        self._calls: list[_Calls] = []  # one object for each region
        _show(self)

    @classmethod
    def local(cls, ordinals: Sequence[int] | None = None, *, deadline: float = 10.0) -> Group:
        """Make a group of GPUs that this process drives.

        Args:
            ordinals: Device d is GPU `ordinals[d]`. By default, every visible GPU is a device. One
                GPU may stand for several devices, as in `[0, 0]`: docs/how-to/shared-gpu.md has the
                rules for such programs.
            deadline: A wait on a device fails after this number of seconds.

        Raises:
            UserError: An ordinal names no GPU, two GPUs lack peer access, or there is no GPU.
            DeviceError: The driver failed.

        Example::

            group = interlace.Group.local([0, 1])
            assert group.devices == 2
        """
        return cls(load_cuda().Group.local(None if ordinals is None else list(ordinals), deadline))

    @classmethod
    def join(
        cls,
        all_gather: Any,
        rank: int | None = None,
        size: int | None = None,
        *,
        ordinal: int | None = None,
        deadline: float = 10.0,
    ) -> Group:
        """Make a group with a process for each GPU. All processes must call this function.

        The processes run on one computer as one user.

        Args:
            all_gather: The initialised module `torch.distributed`, one of its process groups, a
                communicator of mpi4py, or a function that takes this rank's bytes and returns the
                list of all ranks' bytes.
            rank: The rank of this process. Required only if `all_gather` is a function.
            size: The number of processes. Required only if `all_gather` is a function.
            ordinal: The GPU of this process. The default is GPU `rank`.
            deadline: A wait on a device fails after this number of seconds. If processes share a
                GPU, the deadline is multiplied by the number of processes on the GPU.

        Raises:
            UserError: The arguments of the ranks do not fit together. All ranks raise.
            DeviceError: The driver or the operating system failed on a rank.

        Example::

            import torch.distributed

            torch.distributed.init_process_group("gloo")
            group = interlace.Group.join(torch.distributed)
        """
        gather, own, count = _gather_of(all_gather, rank, size)
        number = own if ordinal is None else ordinal
        made = load_cuda().Group.join(own, count, number, lambda b: list(gather(b)), deadline)
        return cls(made, gather)

    def gather(self, own: bytes) -> list[bytes]:
        """Return the bytes of all ranks in rank order. All ranks must call this function."""
        return [own] if self._gather is None else list(self._gather(own))

    @property
    def devices(self) -> int:
        """Return the number of devices in all processes."""
        return int(self._group.devices)

    @property
    def local_devices(self) -> list[int]:
        """Return the devices of this process."""
        return list(self._group.local_devices)

    def ordinal(self, device: int) -> int:
        """Return the CUDA ordinal of the GPU of a local device."""
        return int(self._group.ordinal(device))

    def check(self) -> None:
        """Raise DeviceError if a device or another process has reported an error.

        The call does not wait.
        """
        self._group.check()

    def waits(self) -> str:
        """Return a sentence about a chunk for which a stream of this process waits now.

        The sentence names the device, the region, the chunk, the value of the chunk's counter and
        the value for which the stream waits. If no stream is known to wait, the sentence is empty.
        Any thread may call this function. The call takes at most 200 ms. It does not find waits of
        streams that replay graphs.

        Raises:
            DeviceError: The driver failed.

        Example::

            group = interlace.Group.local([0])
            assert group.waits() == ""
        """
        return str(self._group.waits())

    def synchronize(self, device: int, stream: object = None) -> None:
        """Wait until all work in the stream has ended.

        Raises:
            DeviceError: A device or another process reported an error, or a deadline passed.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        self._group.synchronize(device, stream_number(stream))


class _Calls:
    """Counts a region's calls of begin and exchange, for each device of this process."""

    def __init__(self, region: str, devices: Sequence[int]) -> None:
        self.region = region
        self.begun = dict.fromkeys(devices, 0)
        self.exchanged = dict.fromkeys(devices, 0)
        self.last = dict.fromkeys(devices, time.time())

    def lines(self) -> list[str]:
        now = time.time()
        return [
            f"{self.region}: device {device} has begun {begun} "
            f"{'epoch' if begun == 1 else 'epochs'} and exchanged {self.exchanged[device]}; "
            f"its last call was {duration(now - self.last[device])} ago"
            for device, begun in self.begun.items()
        ]


def _show(group: Group) -> None:
    """Show a group to `interlace ps` as long as the group exists."""
    devices = ", ".join(map(str, group.local_devices))
    activity = Activity(f"a group of {group.devices} devices, of which this process has {devices}")
    found = weakref.ref(group)

    def describe() -> Activity:
        one = found()
        if one is not None:
            lines = [line for calls in one._calls for line in calls.lines()]
            try:
                lines.append(one.waits())
            except DeviceError as error:
                lines.append(str(error))
            activity.note = "\n".join(lines)
        return activity

    entered = contextlib.ExitStack()
    entered.enter_context(shown(describe))
    weakref.finalize(group, entered.close)


class TensorMemory:
    """The memory of a caller's tensor."""

    def __init__(self, tensor: Any, which: str) -> None:
        if hasattr(tensor, "data_ptr") and hasattr(tensor, "is_contiguous"):  # PyTorch
            self.pointer = int(tensor.data_ptr())
            contiguous = bool(tensor.is_contiguous())
            self.dtype = dtype_name(tensor.dtype)
            self.shape = tuple(int(n) for n in tensor.shape)
        else:
            interface = getattr(tensor, "__cuda_array_interface__", None)
            if interface is None:
                raise UserError(
                    f"the {which} is a {type(tensor).__name__}; give a tensor of PyTorch, CuPy or "
                    "Numba on a GPU"
                )
            self.pointer = int(interface["data"][0])
            self.shape = tuple(interface["shape"])
            self.dtype = dtype_name(interface["typestr"])
            strides = interface.get("strides")
            width = np.dtype(interface["typestr"]).itemsize
            rows = [prod(self.shape[k + 1 :]) * width for k in range(len(self.shape))]
            contiguous = strides is None or all(
                n == 1 or s == r for n, s, r in zip(self.shape, strides, rows, strict=True)
            )
        if not contiguous:
            raise UserError(f"the {which} is not contiguous; use tensor.contiguous()")

    @property
    def count(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)


def checked_count(value: object, what: str, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """Return `value` as a whole number. Raises UserError, whose message names `what`."""
    number = least - 1
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(value)  # type: ignore[arg-type]
    if not least <= number <= most:
        bounds = f"from {least} to {most}" if most < 1 << 32 else f"of at least {least}"
        raise UserError(f"{what} is {value!r}; give a whole number {bounds}")
    return number


def lengths_of(shape: object) -> tuple[int, ...]:
    """Return the shape of a region as a tuple of checked lengths."""
    lengths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    return tuple(checked_count(n, "a length of a region's shape") for n in lengths)


def boundaries_of(boundaries: Sequence[int]) -> list[int]:
    """Return the checked boundaries of the devices' parts. An empty list means equal parts."""
    return [checked_count(b, f"boundaries[{k}]") for k, b in enumerate(boundaries)]


def checked_text(value: object, what: str) -> str:
    """Return `value` if it is a text. Raises UserError, whose message names `what`."""
    if not isinstance(value, str):
        raise UserError(f"{what} is {value!r}; give a text")
    return value


def _ranges(
    of_owner: Sequence[tuple[int, int, Sequence[int]]], owner: int, devices: int
) -> list[tuple[int, int, int]]:
    """Return the ranges of a device's part as (begin, end, bit mask of the receivers)."""
    where = f"of subscribers[{owner}]"
    return [
        (
            checked_count(begin, f"the begin of a range {where}"),
            checked_count(end, f"the end of a range {where}"),
            sum(1 << checked_count(d, f"a device {where}", 0, devices - 1) for d in set(receivers)),
        )
        for begin, end, receivers in of_owner
    ]


@contextlib.contextmanager
def told_to_all(group: Group) -> Iterator[None]:
    """Run the block. If the block raises an error, tell the other ranks.

    The other ranks would otherwise wait for this rank to make the region.
    """
    try:
        yield
    except Exception as error:
        with contextlib.suppress(UserError):
            load_cuda().Region.refuse(group._group, str(error))
        raise


def _replicas(
    fronts: Sequence[Any], backs: Sequence[Any], devices: int
) -> tuple[list[tuple[int, int]], tuple[int, ...], str]:
    """Return a pair of addresses (front, back) for each device, and the shape and the dtype that
    all buffers have.
    """
    if len(fronts) != devices or len(backs) != devices:
        raise UserError(
            f"{len(fronts)} fronts and {len(backs)} backs are given for {devices} devices of this "
            "process; give one front and one back for each device"
        )
    memory = []
    alike: set[tuple[tuple[int, ...], str]] = set()
    for own_front, own_back in zip(fronts, backs, strict=True):
        pair = (TensorMemory(own_front, "front"), TensorMemory(own_back, "back"))
        alike |= {(m.shape, m.dtype) for m in pair}
        memory.append((pair[0].pointer, pair[1].pointer))
    if len(alike) != 1:
        raise UserError(
            f"fronts and backs must have one shape and one dtype; these differ: {sorted(alike)}"
        )
    return memory, *alike.pop()


class Region:
    """An array that every device of a group holds, in a front and a back buffer.

    All ranks of a group must make their regions in the same order with equal arguments. In a new
    region, every byte of both buffers is 0xff.

    Args:
        group: The devices that hold the region.
        shape: The shape of the array, on every device.
        dtype: A name such as "float32" or "bfloat16", or a dtype of NumPy or PyTorch.
        mechanism: "bulk-copy", "inline", "polling" or "copy-engine" (docs/reference/mechanisms.md).
            With "polling" and "copy-engine", the kernels must publish the chunks that they wrote,
            with the help of `counters` and `chunks`.
        boundaries: Device d writes the elements from boundaries[d] up to, but not including,
            boundaries[d + 1] of the flattened array. By default, the parts are equal.
        subscribers: `subscribers[d]` lists ranges of device d's part that only some devices
            receive, each as (begin, end, devices). begin and end are indices of elements in the
            flattened array; end is not included. By default, every device receives everything.
        chunk_bytes: The size of a chunk in bytes, for "polling" and "copy-engine".
        agent_threads: The number of threads of the agent, for "polling".
        agent_copy: How the agent of "polling" copies. "vectors": with loads and stores. "bulk":
            with cp.async.bulk through shared memory. With "bulk", the agent takes 64 KiB of shared
            memory for every 32 threads; 4096 threads suffice on an H200.
        checks: Whether to use the debug mode, in which the exchange checks the notes of kernels
            (`stored_by`, `published_by`).
        name: The name of the region in error messages.

    Raises:
        UserError: An argument is wrong on some rank. All ranks raise.
        ModelError: Calls are out of order.
        DeviceError: A device, the driver or another process failed.

    Example::

        import torch

        group = interlace.Group.local()
        with interlace.Region(group, (1 << 20,), torch.float32) as region:
            for d in group.local_devices:
                with torch.cuda.device(group.ordinal(d)):
                    stream = torch.cuda.current_stream()
                    region.begin(d, stream)
                    begin, end = region.part(d)
                    torch.from_dlpack(region.back(d))[begin:end].fill_(d)
                    region.exchange(d, stream)
            for d in group.local_devices:
                group.synchronize(d, torch.cuda.current_stream(group.ordinal(d)))
    """

    def __init__(
        self,
        group: Group,
        shape: int | Sequence[int],
        dtype: object,
        *,
        mechanism: str = BULK_COPY,
        boundaries: Sequence[int] = (),
        subscribers: Sequence[Sequence[tuple[int, int, Sequence[int]]]] = (),
        chunk_bytes: int = CHUNK_BYTES.default,
        agent_threads: int = AGENT_THREADS.default,
        agent_copy: str = AGENT_COPY.names[0],
        checks: bool = False,
        name: str = "",
        _memory: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.group = group
        self._tensors: object = None  # keeps the caller's tensors alive
        self._checks = checks
        with told_to_all(group):
            self.shape = lengths_of(shape)
            self.dtype = dtype_name(dtype)
            asked = (
                checked_text(name, "name"),
                checked_count(prod(self.shape), "the number of elements"),
                element_bytes_of(self.dtype),
                boundaries_of(boundaries),
                [_ranges(owner, n, group.devices) for n, owner in enumerate(subscribers)],
                checked_text(mechanism, "mechanism"),
                checked_count(chunk_bytes, "chunk_bytes", CHUNK_BYTES.least),
                checked_count(
                    agent_threads, "agent_threads", AGENT_THREADS.least, AGENT_THREADS.most
                ),
                checked_text(agent_copy, "agent_copy"),
                bool(checks),
                list(_memory),
            )
        self._region = load_cuda().Region(group._group, *asked)
        self._calls = _Calls(name or f"region {len(group._calls)}", group.local_devices)
        group._calls.append(self._calls)

    @classmethod
    def over(cls, group: Group, front: Any, back: Any, **options: Any) -> Region:
        """Make a region from the caller's tensors, which keep their contents.

        Args:
            group: The devices that hold the region.
            front: The front buffer. If the process has several devices, a list with one tensor for
                each device.
            back: The back buffer, in the same form as `front`. All fronts and backs must have one
                shape and one dtype, be contiguous and aligned to 16 bytes, and not overlap. The
                region keeps the tensors alive.
            options: Further arguments of `Region`, such as `mechanism`.

        Raises:
            UserError: A tensor does not fit.

        Example::

            import torch

            group = interlace.Group.local([0])
            front, back = (torch.zeros(1 << 20, device="cuda:0") for _ in range(2))
            region = interlace.Region.over(group, front, back, mechanism="bulk-copy")
            region.close()
        """
        fronts = list(front) if isinstance(front, (list, tuple)) else [front]
        backs = list(back) if isinstance(back, (list, tuple)) else [back]
        with told_to_all(group):
            memory, shape, dtype = _replicas(fronts, backs, len(group.local_devices))
        made = cls(group, shape, dtype, _memory=memory, **options)
        made._tensors = (fronts, backs)
        return made

    def part(self, device: int) -> tuple[int, int]:
        """Return (begin, end): the device writes these elements of the flattened array."""
        begin, end = self._region.part(device)
        return int(begin), int(end)

    def _array(self, device: int, pointer: int, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        return DeviceArray(pointer, shape, dtype, self.group.ordinal(device), self)

    def front(self, device: int) -> DeviceArray:
        """Return the buffer that the device reads in the current epoch.

        Between epochs, the result is the buffer for the next epoch. Each exchange swaps front and
        back, so the caller must call this function again in every epoch.
        """
        return self._array(device, self._region.front(device), self.shape, self.dtype)

    def back(self, device: int) -> DeviceArray:
        """Return the buffer in which the device writes its part.

        The caller must call this function again in every epoch.
        """
        return self._array(device, self._region.back(device), self.shape, self.dtype)

    def backs(self, device: int) -> list[int]:
        """Return the address of every device's back buffer.

        With "inline", kernels on `device` store to these addresses.
        """
        return [int(p) for p in self._region.backs(device)]

    def begin(self, device: int, stream: object = None) -> None:
        """Begin an epoch. Call this function before you enqueue kernels that write the back buffer.

        The call enqueues work in the stream and does not wait.

        Raises:
            ModelError: The device has already begun this epoch.
            DeviceError: An earlier epoch failed.
        """
        self._region.begin(device, stream_number(stream))
        self._calls.begun[device] += 1
        self._calls.last[device] = time.time()

    def exchange(self, device: int, stream: object = None) -> None:
        """End an epoch. Call this function after you enqueue kernels that write the back buffer.

        The call enqueues work in the stream and does not wait. Later work in the stream finds the
        parts of all devices in the front buffer.

        Raises:
            ModelError: The device has not begun the epoch.
            DeviceError: An earlier epoch failed.
        """
        self._region.exchange(device, stream_number(stream))
        self._calls.exchanged[device] += 1
        self._calls.last[device] = time.time()

    def chunks(self, device: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return (begin, end) of each chunk of the device's part, in elements.

        The result has the shape (number of chunks, 2).
        """
        return np.array(self._region.chunks(device), dtype=np.int64).reshape(-1, 2)

    def _table(self, device: int, name: str, columns: int, dtype: str) -> DeviceArray:
        count = len(self._region.chunks(device))
        shape = (count,) if columns == 1 else (count, columns)
        return self._array(device, self._region.table(device)[name], shape, dtype)

    def chunks_on(self, device: int) -> DeviceArray:
        """Return the chunks as an array in the device's memory.

        Each row has three words of int64: begin, end and an internal word.
        """
        return self._table(device, "chunks", 3, "int64")

    def counters(self, device: int) -> DeviceArray:
        """Return the 64-bit counters of the chunks, in GPU memory, for kernels that publish chunks.

        When a block has stored n elements of chunk c, one thread of the block adds n to
        counters[c], after a barrier of the block and with release ordering at GPU scope. In Triton:
        tl.debug_barrier(), followed by tl.atomic_add(counters + c, n, sem="release", scope="gpu").
        In an epoch, kernels must add each element exactly once. Counters are never reset. With
        "copy-engine", a kernel must also set `flags` (include/interlace/region.hpp, region::table).
        """
        return self._table(device, "counters", 1, "int64")

    def flags(self, device: int) -> DeviceArray:
        """Return the flags of the mechanism "copy-engine", one 32-bit word for each chunk.

        A stream waits for the word of a chunk before it copies the chunk.
        """
        return self._table(device, "flags", 1, "int32")

    def launches(self, device: int) -> DeviceArray:
        """Return the number of finished epochs, as one 64-bit word in the device's memory."""
        return self._array(device, self._region.table(device)["launches"], (1,), "int64")

    def _notes(self, device: int, which: int) -> DeviceArray:
        if not self._checks:
            raise UserError(
                "only the debug mode has notes of elements; make the region with checks=True"
            )
        begin, end = self.part(device)
        return self._array(device, self._region.notes(device)[which], (end - begin,), "int32")

    def stored_by(self, device: int) -> DeviceArray:
        """Return the notes of stores in the debug mode: an int32 for each element of the part.

        A kernel that stores element begin + i of the flattened array writes the number of its block
        plus 1 to word i. The exchange reports every element that has a note here but not in
        `published_by`, or the reverse, and names the block. The exchange then clears all notes.
        Kernels that write no notes are checked only through their counters.

        Raises:
            UserError: The region was made without `checks`.
        """
        return self._notes(device, 0)

    def published_by(self, device: int) -> DeviceArray:
        """Return notes in the form of `stored_by`.

        A note names the block that added the element to the counter of the element's chunk.
        """
        return self._notes(device, 1)

    def close(self) -> None:
        """Wait for the devices, and free the memory.

        All ranks must close their regions in the same order.
        """
        self._region.close()
        if self._calls in self.group._calls:
            self.group._calls.remove(self._calls)

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
