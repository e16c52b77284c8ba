"""Tensors that a thread reads in the background, batch by batch, and that are handed out on
arrival.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from interlace.base.errors import UserError
from interlace.runtime import reading, tensor_memory
from interlace.runtime.checkpoint_files import File
from interlace.runtime.reading import How, Wanted

BATCH = 1 << 30  # the bytes that one call of the engine reads


class _Stopped(Exception):  # noqa: N818
    """Raised in the reader when it is told to stop."""


class Arrivals:
    """Hands out each wanted tensor once.

    The files may be closed once this object exists. Memory on GPUs comes from the streams that are
    current at that time. At most `ahead` bytes wait for the caller, or one batch if that is more.
    With None the bytes have no bound.
    """

    def __init__(
        self,
        files: Sequence[File],
        wanted: Sequence[Wanted],
        framework: str,
        how: How,
        *,
        batch: int = BATCH,
        ahead: int | None = None,
    ) -> None:
        self._state = _State(ahead)
        self._left = {one.entry.name for one in wanted}
        self._taken: set[str] = set()
        self._closed = False
        if not wanted:
            return
        with ExitStack() as opened:
            own = [file._replace(descriptor=_duplicate(file, opened)) for file in files]
            streams = {
                one.gpu: tensor_memory.current_stream(framework, one.gpu)
                for one in wanted
                if one.gpu is not None
            }
            batches = list(_batches(wanted, batch))
            work = _Work(own, batches, framework, how, streams, opened.pop_all())
            thread = threading.Thread(
                target=_run, args=(self._state, work), name="interlace-reader", daemon=True
            )
            try:
                thread.start()
            except BaseException:
                work.opened.close()
                raise
            self._thread = thread

    def __len__(self) -> int:
        return len(self._left)

    def next(self) -> tuple[str, Any] | None:
        """The tensor that has waited longest, or None after the last one. Waits until there is
        one.
        """
        with self._state.changed:
            while self._left:
                self._check_open()
                if self._state.arrived:
                    name = next(iter(self._state.arrived))
                    return name, self._hand_out(name)
                self._wait()
            self._check_open()
            return None

    def take(self, name: str) -> Any:
        """The tensor with this name, which must be wanted. Waits for the tensor."""
        with self._state.changed:
            self._check_open()
            if name in self._taken:
                raise UserError(f"tensor {name!r} was already delivered")
            if name not in self._left:
                raise UserError(f"tensor {name!r} is not in the prefetch plan")
            self._state.named += 1  # the reader may then exceed the bytes that may wait
            self._state.changed.notify_all()
            try:
                while name not in self._state.arrived:
                    self._check_open()
                    self._wait()
            finally:
                self._state.named -= 1
            return self._hand_out(name)

    def _hand_out(self, name: str) -> Any:
        tensor, size = self._state.arrived.pop(name)
        self._state.waiting -= size
        self._left.remove(name)
        self._taken.add(name)
        self._state.changed.notify_all()
        return tensor

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("the loader is closed")

    def _wait(self) -> None:
        if self._state.error is not None:
            raise self._state.error
        self._state.changed.wait()

    def close(self) -> None:
        """Stop the reader, and free every tensor that was not handed out."""
        with self._state.changed:
            self._closed = True
            self._state.stopped = True
            self._state.arrived.clear()
            self._state.changed.notify_all()
        if (thread := getattr(self, "_thread", None)) is not None:
            thread.join()
        self._state.arrived.clear()

    def __del__(self) -> None:
        # The reader does not know this object, so Python destroys an object that was not closed.
        state = getattr(self, "_state", None)
        if state is not None:
            state.stopped = True


class _State:
    """The state that the reader and the caller share."""

    def __init__(self, ahead: int | None) -> None:
        self.changed = threading.Condition()
        self.arrived: dict[str, tuple[Any, int]] = {}
        self.waiting = 0  # bytes of the tensors in `arrived`
        self.ahead = ahead
        self.named = 0  # number of callers that wait for a tensor by its name
        self.error: BaseException | None = None
        self.stopped = False

    def is_full(self, more: int) -> bool:
        if self.ahead is None or self.named or not self.arrived:
            return False
        return self.waiting + more > self.ahead


class _Work:
    """The tensors that the reader reads, and the files that it closes."""

    def __init__(
        self,
        files: Sequence[File],
        batches: Sequence[Sequence[Wanted]],
        framework: str,
        how: How,
        streams: dict[int, Any],
        opened: ExitStack,
    ) -> None:
        self.files, self.batches, self.framework = files, batches, framework
        self.how, self.streams, self.opened = how, streams, opened


def _duplicate(file: File, opened: ExitStack) -> int:
    descriptor = os.dup(file.descriptor)
    opened.callback(os.close, descriptor)
    return descriptor


def _batches(wanted: Sequence[Wanted], most: int) -> Iterator[list[Wanted]]:
    """The wanted tensors in their order, in batches of at most `most` bytes or of one tensor."""
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


def _run(state: _State, work: _Work) -> None:
    """Read the batches. The thread runs this function."""

    def stop(_done: int, _of: int) -> None:
        if state.stopped:
            raise _Stopped

    how = work.how._replace(progress=stop)
    try:
        with work.opened:
            for batch in work.batches:
                size = sum(one.entry.end - one.entry.begin for one in batch)
                with state.changed:
                    while state.is_full(size) and not state.stopped:
                        state.changed.wait(0.1)  # an object that was not closed notifies nobody
                if state.stopped:
                    return
                tensors = _read(work, batch, how)
                with state.changed:
                    if state.stopped:
                        return
                    for one, tensor in zip(batch, tensors, strict=True):
                        own = one.entry.end - one.entry.begin
                        state.arrived[one.entry.name] = (tensor, own)
                        state.waiting += own
                    del tensors, tensor
                    state.changed.notify_all()
    except _Stopped:
        pass
    except BaseException as error:
        with state.changed:
            # The frames of a traceback would keep tensors alive.
            state.error = error.with_traceback(None)
            state.changed.notify_all()


def _read(work: _Work, batch: Sequence[Wanted], how: How) -> list[Any]:
    with ExitStack() as streams:
        for gpu, stream in work.streams.items():
            streams.enter_context(tensor_memory.in_stream(work.framework, gpu, stream))
        return reading.read(work.files, batch, work.framework, how)[0]


def every(next_one: Callable[[], tuple[str, Any] | None]) -> Iterator[tuple[str, Any]]:
    """The tensors that `next_one` returns, until it returns None."""
    while (one := next_one()) is not None:
        yield one
