"""A copier for fastsafetensors, with the name "interlace".

import interlace.integrations.fastsafetensors

loader = BaseSafeTensorsFileLoader(pg, device, copier_type="interlace")
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fastsafetensors.copier import CopierInterface, register_copier_constructor
from fastsafetensors.copier.base import validated_byte_ranges, validated_chunk_allocation_size
from fastsafetensors.st_types import DeviceType, DType

from interlace.runtime import reading
from interlace.runtime.reading import How, threads_of

NAME = "interlace"


class InterlaceCopier(CopierInterface):
    """Loads the bytes of one file to its device, with Interlace's threads and links."""

    def __init__(self, metadata: Any, device: Any, framework: Any) -> None:
        self.metadata, self.device, self.framework = metadata, device, framework
        self._ranges: list[tuple[int, int]] | None = None
        self._names: set[str] | None = None
        self._allocation: int | None = None
        self._begin = metadata.header_length
        self._pool: ThreadPoolExecutor | None = None
        self._moved: Future[Any] | None = None

    def set_byte_ranges(self, byte_ranges: Any) -> None:
        """Read only these ranges of the file."""
        self._ranges = validated_byte_ranges(self.metadata, byte_ranges)

    def set_chunk(self, byte_ranges: Any, names: Any, allocation_size: int | None = None) -> None:
        """Read only these ranges, and allocate memory only for them.

        The ranges hold the bytes of the tensors `names`.
        """
        self._ranges = validated_byte_ranges(self.metadata, byte_ranges)
        self._names = names
        self._allocation = validated_chunk_allocation_size(self._ranges, allocation_size)

    @classmethod
    def chunk_transient_multiplier(cls, paths: list[str]) -> int:  # noqa: ARG003
        """Return the device memory that a chunk takes, divided by the chunk's bytes."""
        return 1

    @classmethod
    def fixed_device_overhead(cls, paths: list[str]) -> int:  # noqa: ARG003
        """Return 0, because Interlace's buffers are in host memory, not on the device."""
        return 0

    def submit_io(self, use_buf_register: bool, max_copy_block_size: int) -> Any:  # noqa: ARG002
        """Allocate the memory, and begin to read."""
        runs = self._ranges
        if runs is None:
            runs = [(self.metadata.header_length, self.metadata.size_bytes)]
        size = self.metadata.size_bytes - self.metadata.header_length
        if self._names is not None:
            self._begin = min((begin for begin, _ in runs), default=self._begin)
            span = max((end for _, end in runs), default=self._begin) - self._begin
            size = self._allocation or span
        buffer = self.framework.alloc_tensor_memory(size, self.device)
        try:
            if self.device.type != DeviceType.CPU:
                # The allocator may return memory that earlier work in this thread's stream still
                # uses.
                self.framework.synchronize_current_stream(self.device)
            self._pool = ThreadPoolExecutor(1, "interlace-reader")
            self._moved = self._pool.submit(self._move, buffer.get_base_address(), runs)
        except BaseException:
            self.finish_io()
            self.framework.free_tensor_memory(buffer, self.device)
            raise
        return buffer

    def _move(self, address: int, runs: list[tuple[int, int]]) -> None:
        on_host = self.device.type == DeviceType.CPU
        gpu = -1 if on_host else self.device.index or 0
        segments = [
            (0, begin, end - begin, address + begin - self._begin, gpu, 0) for begin, end in runs
        ]
        descriptor = os.open(self.metadata.src, os.O_RDONLY | os.O_CLOEXEC)
        try:
            files = [(descriptor, self.metadata.src)]
            reading.move(
                "read", files, segments, set() if on_host else {gpu}, How(threads_of(None))
            )
        finally:
            os.close(descriptor)

    def wait_io(
        self,
        gbuf: Any,
        dtype: Any = DType.AUTO,
        noalign: bool = False,  # noqa: ARG002
        owner: Any = None,
    ) -> Any:
        """Wait for the bytes, and return the tensors."""
        assert self._moved is not None
        self._moved.result()
        self.finish_io()
        return self.metadata._get_tensors(
            gbuf, self.device, self._begin, dtype=dtype, names=self._names, owner=owner
        )

    def finish_io(self) -> None:
        """Wait until no thread writes to the memory any more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


@register_copier_constructor(NAME, InterlaceCopier)
def new_interlace_copier(device: Any, **_: Any) -> Callable[[Any, Any, Any], InterlaceCopier]:  # noqa: ARG001
    """Return a function that makes the copier of a file."""
    return InterlaceCopier
