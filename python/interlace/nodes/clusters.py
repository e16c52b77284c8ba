"""Runs simulations on a Dask cluster instead of this machine's cores.

All workers need the same build of Interlace. Each task therefore has the hash of the compiled
simulator that made the task.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from interlace.base.activities import waiting_for
from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.machine.compiled import to_core
from interlace.machine.schema import Machine
from interlace.model.run import Case, Outcome, RunFailure
from interlace.workloads import Workload

CONNECT_S = 10
POLL_S = 0.02
LOOK_S = 5.0  # seconds between two checks for silent workers
SILENT_S = 60.0  # a worker that sends nothing for this time is reported; live workers send often


def core_build() -> str:
    """Return the SHA-256 of the compiled simulator.

    Simulators with the same hash give the same results.
    """
    from pathlib import Path

    from interlace.base.files import file_hash

    return file_hash(Path(load_core().__file__))


class Job(NamedTuple):
    """A run of a sweep. `point` says in words which point of the design space the run is for."""

    machine: Machine
    case: Case
    point: str


@contextlib.contextmanager
def named(job: Job) -> Iterator[None]:
    """Add the job's point to the message of an error that the block raises."""
    try:
        yield
    except (RunFailure, UserError) as error:
        raise type(error)(f"{error}{job.point}") from None


def simulate(workload: Workload, job: Job) -> Outcome:
    """Make one run in this process."""
    core = load_core()
    with named(job):
        return workload.simulate(core, to_core(job.machine, core), job.case)


def _task(workload: Workload, job: Job, build: str) -> Outcome:
    """Make one run on a worker."""
    if core_build() != build:
        raise UserError(
            "a worker has a different build of Interlace than this machine; install the same build "
            "on all workers"
        )
    return simulate(workload, job)


def run_on_cluster(
    address: str, workload: Workload, work: Sequence[Job], say: Callable[[str], None]
) -> Iterator[tuple[int, Outcome]]:
    """Yield the index and the outcome of each run when the run ends, in any order.

    If the caller leaves the loop early, runs that have not begun are cancelled. `say` receives
    sentences about workers that do not answer. The caller must trust the scheduler and the workers,
    because Dask unpickles the bytes that they send.
    """
    client = _connect(address)
    try:
        from distributed import as_completed

        shared = client.scatter(workload, broadcast=True)
        build = core_build()
        futures = {
            client.submit(_task, shared, job, build, pure=False): index
            for index, job in enumerate(work)
        }
        silence = _Silence(say)
        try:
            done = as_completed(list(futures))
            while not done.is_empty():
                with waiting_for(f"the workers of {address}"):
                    while not done.has_ready():
                        silence.look(client, time.monotonic())
                        time.sleep(POLL_S)
                future = next(done)
                index = futures.pop(future)
                yield index, _result(future, work[index])
                future.release()
        finally:
            client.cancel(list(futures))
    finally:
        client.close()


class _Silence:
    """Reports a worker once, after the worker has sent nothing to its scheduler for SILENT_S
    seconds.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._looked = -math.inf
        # Maps a worker's address to two times: Dask's time of the worker's last message, and our
        # time of the check that found this message.
        self._seen: dict[str, tuple[Any, float]] = {}
        self._told: set[str] = set()

    def look(self, client: Any, now: float) -> None:
        """Report each worker from which no check has seen a message for SILENT_S seconds."""
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        for worker, about in client.scheduler_info()["workers"].items():
            last = about.get("last_seen")
            before, since = self._seen.get(worker, (None, now))
            if last != before:
                self._seen[worker] = last, now
            elif now - since >= SILENT_S and worker not in self._told:
                self._told.add(worker)
                self._say(
                    f"interlace: worker {worker} has sent nothing for {now - since:.0f} s, and the "
                    "sweep waits for this worker's runs; if you stop the worker, other workers "
                    "take over its runs"
                )


def _result(future: Any, job: Job) -> Outcome:
    try:
        found = future.result()
    except (UserError, RunFailure):
        raise
    except ImportError as error:
        raise UserError(
            f"a worker cannot run Interlace ({error}); install the same build there"
        ) from None
    except Exception as error:
        reason = f"a worker failed: {type(error).__name__}: {error}"
        raise RunFailure(f"{job.case}{job.point}: {reason}") from None
    if not isinstance(found, Outcome) or found.case != job.case:
        raise RunFailure(
            f"{job.case}{job.point}: a worker sent something that is not a result of this run"
        )
    return found


def _connect(address: str) -> Any:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise UserError(
            "--scheduler needs Dask, which is not installed; run pip install distributed here and "
            "on the workers"
        ) from None
    logging.getLogger("distributed").setLevel(
        logging.CRITICAL
    )  # the log of distributed would repeat the errors that this function raises
    try:
        client = distributed.Client(address, timeout=CONNECT_S)
    except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"--scheduler {address}: no scheduler answers there ({reason})") from None
    if not client.scheduler_info()["workers"]:
        client.close()
        raise UserError(
            f"--scheduler {address} has no workers; start some with: dask worker {address}"
        )
    return client
