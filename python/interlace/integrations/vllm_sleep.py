"""The backend for vLLM's sleep mode.

Start vLLM with `vllm serve MODEL --enable-sleep-mode --sleep-mode-backend interlace`. vLLM's own
allocator maps and unmaps the memory. Interlace moves the contents, which takes most of the time.
The contents go to page-locked host memory. Several threads touch this memory before Interlace
page-locks it. Interlace keeps the host memory for the next sleep.
"""

from __future__ import annotations

from typing import Any

from vllm.device_allocator.cumem import CuMemAllocator
from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from interlace.runtime.parking import Contents

KEPT = ("runtime", "cudagraph")  # memory with these tags keeps its contents at every sleep level
WEIGHTS = "weights"  # memory with this tag keeps its contents at level 1 only


class InterlaceBackend(CuMemBackend):  # type: ignore[misc]
    """vLLM's default backend, with Interlace to move the contents."""

    def __init__(self) -> None:
        super().__init__()
        # For each sleep: the sleeping allocations by address, and their contents.
        self._kept: list[tuple[dict[int, Any], Contents]] = []

    def suspend(self, level: int = 1) -> None:
        """Keep the contents in host memory, and free all physical GPU memory."""
        allocator = CuMemAllocator.get_instance()
        tags = (*KEPT, WEIGHTS) if level == 1 else KEPT
        awake = {
            address: data
            for address, data in allocator.pointer_to_data.items()
            if data.tag in tags and not data.is_asleep
        }
        if awake:
            ranges = [(address, data.handle[1], data.handle[0]) for address, data in awake.items()]
            self._kept.append((awake, Contents(ranges)))
        self._state = "SUSPENDED"
        allocator.sleep(offload_tags=())

    def resume(self, tags: list[str] | None = None) -> None:
        """Map memory, and restore its contents.

        `tags` limits the call to the memory that has one of these tags. None means all memory.
        """
        self._state = "RESUMING"
        allocator = CuMemAllocator.get_instance()
        allocator.wake_up(tags)
        there = allocator.pointer_to_data
        for asleep, contents in self._kept:
            # The memory may have been freed in the meantime. The address may then belong to other
            # memory, or to none.
            for address in [at for at, data in asleep.items() if there.get(at) is not data]:
                del asleep[address]
            awake = [address for address, data in asleep.items() if not data.is_asleep]
            contents.restore(awake)
            for address in awake:
                del asleep[address]
            if not asleep:
                contents.close()
        self._kept = [one for one in self._kept if one[0]]
        self._state = "RUNNING"
