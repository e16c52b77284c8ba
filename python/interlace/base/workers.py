"""Runs each piece of work in its own process, on all cores.

The processes are forked. They therefore see the caller's data without a copy, and the system counts
their peak resident memory from the fork on.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from interlace.base import interrupts

Result = TypeVar("Result")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LOOK_S = 0.5  # the time between two checks for a Ctrl-C that Python dropped, in seconds


class WorkerLost(Exception):  # noqa: N818 (nothing went wrong in Python)
    """A process ended without a result. `index` is the index of the work that it ran."""

    def __init__(self, index: int, exit_code: int | None) -> None:
        self.index = index
        if exit_code is not None and exit_code < 0:
            name = signal.Signals(-exit_code).name
            self.reason = f"its process was killed by {name}"
            if -exit_code == signal.SIGKILL:
                self.reason += ", most likely for lack of memory"
        else:
            self.reason = f"its process ended with code {exit_code}"
        super().__init__(self.reason)


def run_all(
    work: Sequence[Callable[[], Result]],
    jobs: int,
    on_start: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[int, Result]]:
    """Do all work in processes, `jobs` processes at a time.

    Yields the index and the result of each piece of work when it ends, so the order varies. If a
    piece of work raises an exception, this function raises the same exception. If the caller leaves
    the loop early, even by an exception, all processes are killed.
    """
    context = multiprocessing.get_context("fork")
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    waiting = iter(range(len(work)))
    try:
        while True:
            interrupts.check()
            while len(running) < jobs and (index := next(waiting, None)) is not None:
                sys.stdout.flush()  # otherwise the child would also print the buffered text
                sys.stderr.flush()
                receiver, sender = context.Pipe(duplex=False)
                process: BaseProcess = context.Process(
                    target=_work, args=(work[index], sender, os.getpid()), daemon=True
                )
                # SIGINT is blocked until the child ignores it. Otherwise Ctrl-C could make the
                # child print a traceback.
                held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    process.start()
                    running[receiver] = (index, process)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, held)
                sender.close()
                on_start(index)
            if not running:
                return
            for ready in wait(list(running), _LOOK_S):
                assert isinstance(ready, Connection)
                index, process = running[ready]
                result: Result = _receive(ready, index, process)
                del running[ready]
                ready.close()
                process.join()
                yield index, result
    finally:
        for receiver, (_, process) in running.items():
            process.kill()
            receiver.close()
        for _, process in running.values():
            process.join()


def _receive(receiver: Connection, index: int, process: BaseProcess) -> Any:
    try:
        kind, value = receiver.recv()
    except (EOFError, OSError):
        receiver.close()  # a child that still sends would otherwise wait forever for a reader
        process.join()
        raise WorkerLost(index, process.exitcode) from None
    if kind == "result":
        return value
    if kind == "interrupted":
        raise KeyboardInterrupt
    assert isinstance(value, BaseException)
    raise value


def _work(work: Callable[[], Result], sender: Connection, parent: int) -> None:
    """Do the work of the child process."""
    # Ctrl-C reaches the whole process group. Only the parent handles it, and the parent stops the
    # child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    message: tuple[str, object]
    try:
        message = ("result", work())
    except KeyboardInterrupt:
        message = ("interrupted", None)
    except Exception as error:
        message = ("error", _portable(error))
    try:
        sender.send(message)
    except BrokenPipeError:  # the parent no longer listens
        pass
    except OSError:
        sys.exit(1)  # the parent reports this exception
    sender.close()


def _portable(error: Exception) -> Exception:
    """Return the exception if the parent can unpickle it.

    Otherwise return another exception with the same message.
    """
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(text)
    return error
