"""Reads tensors in the background, batch by batch, and hands each tensor to the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from interlace.base.errors import UserError
from interlace.runtime import reading
from interlace.runtime.checkpoint_files import File
from interlace.runtime.read_errors import naming_tensors
from interlace.runtime.reading import How, Wanted

BATCH = 128 << 20  # the bytes of a batch; a larger tensor has a batch of its own


class Arrivals:
    """Hands out each wanted tensor once.

    The object keeps the files open. The constructor allocates GPU memory in the stream that is
    current during the call. If there is a bound, `next` and `take` also allocate in this way.

    A batch has one allocation on each device. An allocation lives as long as any of its tensors.
    `ahead` bounds the memory of all batches, without the tensors that the caller holds. A single
    batch that is larger than `ahead` may exceed the bound. None means that there is no bound.
    """

    def __init__(
        self,
        files: Sequence[File],
        wanted: Sequence[Wanted],
        framework: str,
        how: How,
        *,
        ahead: int | None = None,
    ) -> None:
        self._framework = framework
        self._ahead = ahead
        most = BATCH if ahead is None else min(BATCH, max(1, ahead // 2))
        self._batches = list(_batches(wanted, most))
        self._batch_of = {
            one.entry.name: number for number, batch in enumerate(self._batches) for one in batch
        }
        # the tensors of each batch that were not yet handed out
        self._arriving: dict[int, dict[str, Any]] = {}
        self._sizes = {one.entry.name: one.entry.end - one.entry.begin for one in wanted}
        self._begun = 0  # the number of batches whose reads have begun
        # For each batch: the bytes of its memory, without the tensors that the caller holds.
        self._held: dict[int, int] = {}
        self._taken: set[str] = set()
        self._files = list(files)
        self._closed = False
        self._reader: Any = None
        try:
            if self._batches:
                self._reader = reading.reader_of(files, wanted, how)
            self._begin_batches()
        except BaseException:
            self.close()
            raise

    def _begin_batches(self, until: int = -1) -> None:
        """Begin to read as many batches as the bound allows.

        Also begin to read all batches up to the batch `until`, even if they exceed the bound.
        """
        while self._begun < len(self._batches):
            batch = self._batches[self._begun]
            size = self._bytes_of(self._begun)
            full = self._ahead is not None and sum(self._held.values()) + size > self._ahead
            if full and self._arriving and self._begun > until:
                return
            tensors = reading.begin(self._reader, self._files, batch, self._framework)
            names = [one.entry.name for one in batch]
            self._arriving[self._begun] = dict(zip(names, tensors, strict=True))
            self._held[self._begun] = size
            self._begun += 1

    def _bytes_of(self, number: int) -> int:
        return sum(self._sizes[one.entry.name] for one in self._batches[number])

    def next(self) -> tuple[str, Any] | None:
        """Wait until the tensor whose read began first has arrived, and return this tensor.

        Return None after the last tensor.
        """
        self._check_open()
        self._begin_batches()
        if not self._arriving:
            return None
        number = next(iter(self._arriving))
        name = next(iter(self._arriving[number]))
        return name, self._hand_out(number, name)

    def take(self, name: str) -> Any:
        """Wait until the tensor with this name has arrived, and return this tensor."""
        self._check_open()
        if name in self._taken:
            raise UserError(f"tensor {name!r} was already delivered")
        if name not in self._batch_of:
            raise UserError(f"tensor {name!r} is not in the prefetch plan")
        number = self._batch_of[name]
        self._begin_batches(number)
        return self._hand_out(number, name)

    def _hand_out(self, number: int, name: str) -> Any:
        with naming_tensors(self._files):
            self._reader.wait(number)
        tensor = self._arriving[number].pop(name)
        # Callers usually drop the previous tensor when they get the next tensor. The memory of
        # earlier batches is then free, so the bound no longer includes the bytes of these batches.
        self._held = {n: size for n, size in self._held.items() if n in self._arriving}
        if not self._arriving[number]:
            del self._arriving[number]
            # The batch's memory lives as long as this tensor.
            self._held[number] = self._bytes_of(number) - self._sizes[name]
        self._taken.add(name)
        return tensor

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("the loader is closed")

    def close(self) -> None:
        """Stop reading, and free every tensor that was not handed out."""
        self._closed = True
        if self._reader is not None:
            # The reader must be closed before the memory that it writes to is freed.
            self._reader.close()
            self._reader = None
        self._arriving.clear()
        self._files = []

    def __del__(self) -> None:
        if getattr(self, "_reader", None) is not None:
            self.close()


def _batches(wanted: Sequence[Wanted], most: int) -> Iterator[list[Wanted]]:
    """Yield the wanted tensors in their order, in batches of at most `most` bytes.

    A tensor of more than `most` bytes has a batch of its own.
    """
    batch: list[Wanted] = []
    size = 0
    for one in wanted:
        own = one.entry.end - one.entry.begin
        if batch and size + own > most:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += own
    if batch:
        yield batch


def every(next_one: Callable[[], tuple[str, Any] | None]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors that `next_one` returns, until it returns None."""
    while (one := next_one()) is not None:
        yield one
