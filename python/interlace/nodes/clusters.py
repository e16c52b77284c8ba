"""Simulations on a Dask cluster instead of this machine's cores.

Workers need the same build of Interlace. Each task names its compiled simulator.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.machine.compiled import to_core
from interlace.machine.schema import Machine
from interlace.model.run import Case, Outcome, RunFailure
from interlace.workloads import Workload

CONNECT_S = 10


def core_build() -> str:
    """The SHA-256 of the compiled simulator. Machines with the same one give the same results."""
    from pathlib import Path

    from interlace.base.files import file_hash

    return file_hash(Path(load_core().__file__))


class Job(NamedTuple):
    """A run of a sweep; `point` names its place in the design space for people."""

    machine: Machine
    case: Case
    point: str


@contextlib.contextmanager
def named(job: Job) -> Iterator[None]:
    """Add the point to the message of an error."""
    try:
        yield
    except (RunFailure, UserError) as error:
        raise type(error)(f"{error}{job.point}") from None


def simulate(workload: Workload, job: Job) -> Outcome:
    """Make one run in the calling process."""
    core = load_core()
    with named(job):
        return workload.simulate(core, to_core(job.machine, core), job.case)


def _task(workload: Workload, job: Job, build: str) -> Outcome:
    """Make one run on a worker."""
    if core_build() != build:
        raise UserError(
            "a worker has another build of Interlace than this machine; install the same one on "
            "all of them"
        )
    return simulate(workload, job)


def run_on_cluster(
    address: str, workload: Workload, work: Sequence[Job]
) -> Iterator[tuple[int, Outcome]]:
    """Yield each run's index and outcome when it ends, in any order.

    A caller that leaves the loop early cancels the runs that have not started.
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
        try:
            for future in as_completed(list(futures)):
                index = futures.pop(future)
                yield index, _result(future, work[index])
                future.release()
        finally:
            client.cancel(list(futures))
    finally:
        client.close()


def _result(future: Any, job: Job) -> Outcome:
    try:
        found: Outcome = future.result()
    except (UserError, RunFailure):
        raise
    except ImportError as error:
        raise UserError(
            f"a worker cannot run Interlace ({error}); install the same build there"
        ) from None
    except Exception as error:
        reason = f"a worker failed: {type(error).__name__}: {error}"
        raise RunFailure(f"{job.case}{job.point}: {reason}") from None
    return found


def _connect(address: str) -> Any:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise UserError(
            "--scheduler needs Dask, which is not installed; pip install distributed, here and "
            "on the workers"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it repeats the errors below
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
