"""Partitioned arrays for a program's own updates: PyTorch, Triton, CuPy.

Each element of a partitioned array is owned by one device of a group. All devices update elements,
and each update reaches the owner at the latest by the exchange:

    counts = interlace.PartitionedArray(group, n, "int64", "add", mechanism="packed")
    for d in group.local_devices:
        counts.begin(d, stream[d])
        counts.update(d, keys[d], ones[d], stream[d])  # counts[keys[d][k]] += ones[d][k] for all k
        counts.exchange(d, stream[d])

Updates of an epoch have no order. Work in the owner's stream after the exchange sees all updates of
the epoch. During the epoch, the owner may see none, some or all of the updates. Only the owner may
write an element of its part, in an epoch in which no device updates the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlace.base.errors import UserError
from interlace.base.native import load_cuda
from interlace.model.mechanism_table import INLINE
from interlace.runtime.regions import (
    DeviceArray,
    Group,
    TensorMemory,
    boundaries_of,
    checked_count,
    checked_text,
    dtype_name,
    stream_number,
    told_to_all,
)

if TYPE_CHECKING:
    from types import TracebackType

PACKET_BYTES = 512  # the default size of a packet


class PartitionedArray:
    """An array whose elements are divided among the devices of a group.

    All ranks of a group must make their arrays in the same order with equal arguments. All elements
    of a new array are 0.

    Args:
        group: The devices that own the elements.
        elements: The number of elements.
        dtype: "int32", "int64", "uint32", "uint64", "float32" or "float64", or such a dtype of
            NumPy or PyTorch.
        operation: How an update combines with its element: "add", "min", "max", "or", "xor" or
            "store". If several updates of an epoch store to one element, the element has the value
            of one of them.
        mechanism: "inline": each update is an atomic in the owner's memory. "packed": many updates
            leave as one packet, and the exchange combines them with their elements.
        boundaries: Device d owns the elements from boundaries[d] up to, but not including,
            boundaries[d + 1]. By default, the parts are equal.
        packet_bytes: The size of a packet of "packed", a multiple of 128 from 128 to 4096.
        queued_updates: With "packed", the number of updates that an owner can receive in packets
            from each other device in an epoch. Further updates are sent one by one. 0 means the
            number of elements of the largest part.
        combine_in_packets: Whether "packed" combines updates of one element before they leave.
        checks: Whether `check` reports updates beyond the end of the array. With and without this
            option, such updates change nothing.
        name: The name of the array in error messages.

    Raises:
        UserError: An argument is wrong on some rank. All ranks raise.
        ModelError: Calls are out of order.
        DeviceError: A device, the driver or another process failed.

    Example::

        import torch

        group = interlace.Group.local()
        with interlace.PartitionedArray(group, 1000, torch.int64, "add") as counts:
            for d in group.local_devices:
                with torch.cuda.device(group.ordinal(d)):
                    stream = torch.cuda.current_stream()
                    keys = torch.randint(1000, (1 << 20,), device="cuda")
                    counts.begin(d, stream)
                    counts.update(d, keys, torch.ones_like(keys), stream)
                    counts.exchange(d, stream)
            for d in group.local_devices:
                group.synchronize(d, torch.cuda.current_stream(group.ordinal(d)))
    """

    def __init__(
        self,
        group: Group,
        elements: int,
        dtype: object,
        operation: str,
        *,
        mechanism: str = INLINE,
        boundaries: Sequence[int] = (),
        packet_bytes: int = PACKET_BYTES,
        queued_updates: int = 0,
        combine_in_packets: bool = True,
        checks: bool = False,
        name: str = "",
    ) -> None:
        self.group = group
        with told_to_all(group):
            self.dtype = dtype_name(dtype)
            asked = (
                checked_text(name, "name"),
                checked_count(elements, "the number of elements"),
                self.dtype,
                checked_text(operation, "operation"),
                boundaries_of(boundaries),
                checked_text(mechanism, "mechanism"),
                checked_count(packet_bytes, "packet_bytes", 0, (1 << 32) - 1),
                checked_count(queued_updates, "queued_updates"),
                bool(combine_in_packets),
                bool(checks),
            )
        self._array = load_cuda().PartitionedArray(group._group, *asked)

    def part(self, device: int) -> tuple[int, int]:
        """Return (begin, end): the device owns these elements."""
        begin, end = self._array.part(device)
        return int(begin), int(end)

    def array(self, device: int) -> DeviceArray:
        """Return the device's part, in the device's memory."""
        begin, end = self.part(device)
        pointer = self.parts(device)[device]
        return DeviceArray(
            pointer, (end - begin,), self.dtype, self.group.ordinal(device), self._array
        )

    def parts(self, device: int) -> list[int]:
        """Return the address of every device's part.

        With "inline", kernels on `device` may update elements at these addresses themselves, by
        atomics with system scope. In Triton: tl.atomic_add(part + i, value, scope="sys").
        """
        return [int(p) for p in self._array.parts(device)]

    def begin(self, device: int, stream: object = None) -> None:
        """Begin an epoch. Call this function before the updates of the epoch.

        The call enqueues work in the stream and does not wait.

        Raises:
            ModelError: The device has already begun this epoch.
            DeviceError: An earlier epoch failed.
        """
        self._array.begin(device, stream_number(stream))

    def update(self, device: int, elements: Any, values: Any, stream: object = None) -> None:
        """Combine the element numbered elements[k] with values[k], for every k.

        The call enqueues work in the stream and does not wait. The tensors must keep their contents
        until this work has ended.

        Args:
            device: The device that makes the updates, a device of this process.
            elements: The numbers of the elements, an int64 tensor in the device's memory.
            values: The values: a tensor of the array's dtype, with one entry for each entry of
            `elements`. stream: The stream, which is also the stream of `begin` and `exchange`.

        Raises:
            UserError: A tensor does not fit.
            ModelError: The device has not begun an epoch.
            DeviceError: The driver failed.
        """
        numbers, given = TensorMemory(elements, "elements"), TensorMemory(values, "values")
        for memory, what, dtype in ((numbers, "elements", "int64"), (given, "values", self.dtype)):
            if memory.dtype != dtype:
                raise UserError(f"the {what} are {memory.dtype}; give a tensor of {dtype}")
        if numbers.count != given.count:
            raise UserError(
                f"{numbers.count} elements and {given.count} values are given; give one value for "
                "each element"
            )
        self._array.update(
            device, numbers.pointer, given.pointer, numbers.count, stream_number(stream)
        )

    def exchange(self, device: int, stream: object = None) -> None:
        """End an epoch. Later work in the stream finds all updates of the epoch in the part.

        The call enqueues work in the stream and does not wait.

        Raises:
            ModelError: The device has not begun the epoch.
            DeviceError: An earlier epoch failed.
        """
        self._array.exchange(device, stream_number(stream))

    def check(self, device: int, stream: object = None) -> None:
        """Wait for the stream. With `checks`, report an update beyond the end of the array.

        Raises:
            ModelError: A kernel of the device updated an element beyond the end. The message names
                the block, the lane and the element.
            DeviceError: A device or another process failed, or a deadline passed.
        """
        self._array.check(device, stream_number(stream))

    def close(self) -> None:
        """Wait for the devices, and free the memory.

        All ranks must close their arrays in the same order.
        """
        self._array.close()

    def __enter__(self) -> PartitionedArray:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
