"""Simulations on a Dask cluster: a scheduler's address in place of this machine's cores.

Workers need the same Interlace; each task says which compiled simulator it is for.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from interlace.errors import UserError
from interlace.nodes import load_core
from interlace.workloads import Case, Outcome, RunFailure, Workload

if TYPE_CHECKING:
    from interlace.machines import Machine

CONNECT_S = 10


def core_build() -> str:
    """The SHA-256 of the compiled simulator: what two machines must share to give one result."""
    from pathlib import Path

    from interlace.design_space import file_hash

    return file_hash(Path(load_core().__file__))


def simulate(workload: Workload, machine: Machine, case: Case) -> Outcome:
    """One run, on the calling process."""
    from interlace.machines import to_core

    core = load_core()
    return workload.simulate(core, to_core(machine, core), case)


def _task(workload: Workload, machine: Machine, case: Case, build: str) -> Outcome:
    """One run on a worker."""
    if core_build() != build:
        raise UserError(
            "a worker has another build of Interlace than this machine; install the same one on "
            "all of them"
        )
    return simulate(workload, machine, case)


def run_on_cluster(
    address: str, workload: Workload, work: Sequence[tuple[Machine, Case]]
) -> Iterator[tuple[int, Outcome]]:
    """Every run's index and outcome as it ends, in no fixed order.

    Whoever leaves the loop early cancels what has not begun.
    """
    client = _connect(address)
    try:
        from distributed import as_completed

        shared = client.scatter(workload, broadcast=True)
        build = core_build()
        futures = {
            client.submit(_task, shared, machine, case, build, pure=False): index
            for index, (machine, case) in enumerate(work)
        }
        try:
            for future in as_completed(list(futures)):
                index = futures.pop(future)
                yield index, _result(future, work[index][1])
                future.release()
        finally:
            client.cancel(list(futures))
    finally:
        client.close()


def _result(future: Any, case: Case) -> Outcome:
    try:
        found: Outcome = future.result()
    except (UserError, RunFailure):
        raise
    except ImportError as error:
        raise UserError(
            f"a worker cannot run Interlace ({error}); install the same build there"
        ) from None
    except Exception as error:
        raise RunFailure(f"{case}: a worker failed: {type(error).__name__}: {error}") from None
    return found


def _connect(address: str) -> Any:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise UserError(
            "--scheduler needs Dask, which is not installed; pip install distributed, here and "
            "on the workers"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it says what we say below
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
