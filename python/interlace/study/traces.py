"""Computes statistics of traces, and converts, replays and records traces."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.base.files import whole_file
from interlace.base.progress import progress
from interlace.machine.compiled import to_core
from interlace.machine.devices import MAX_GPUS
from interlace.machine.schema import Machine
from interlace.model.options import whole
from interlace.model.run import Case, Outcome, RunFailure, core_errors
from interlace.study.address_map import Places, load_map
from interlace.study.trace_files import COMPONENT, MGPUSIM, PIECE, Conversion, kind_of
from interlace.workloads import Workload

FORMAT = 1
KINDS = ("load", "store", "atomic")
ACTIONS = (*KINDS, "release", "compute", "shared", "shuffle", "wait", "barrier")
UNITS = (32, 64, 128)  # bytes
RUNS = tuple(1 << n for n in range(8))  # the largest size in each class of sizes, in bytes


class Foreign(NamedTuple):
    """The options of the command line that are only for files of other tools."""

    map: Path | None
    gpus: str | None
    format: str | None
    component: str | None

    def refuse(self, file: Path) -> None:
        """Raise UserError if one of these options was given for a trace of Interlace."""
        options = ("--map", "--gpus", "--format", "--component")
        for option, value in zip(options, self, strict=True):
            if value is not None:
                raise UserError(
                    f"{option} is for traces of other tools, and {file} is a trace of Interlace; "
                    "leave the option out"
                )


def is_ours(core: Any, file: Path) -> bool:
    with file.open("rb") as stream:
        found: bool = core.is_trace_file(stream.read(16))
    return found


def _places(kind: str, said: Foreign) -> Places:
    """Return the owner of each address of a trace."""
    count = whole("--gpus", said.gpus, 1)
    if count is not None and count > MAX_GPUS:
        raise UserError(f"--gpus {count}: give 1 to {MAX_GPUS}")
    if kind == MGPUSIM:
        if said.map is not None:
            raise UserError(
                "--map: a trace of MGPUSim itself says which GPU owns an address; leave --map out"
            )
        if count is None:
            raise UserError(
                "--gpus is missing: a trace of MGPUSim does not say how many GPUs the program used"
            )
        return Places("", count, [], {}, [])
    for option, value in (("--gpus", said.gpus), ("--component", said.component)):
        if value is not None:
            raise UserError(f"{option} is for traces of MGPUSim; leave it out")
    if said.map is None:
        raise UserError(
            "--map is missing: the trace does not say which GPU owns an address; "
            "docs/how-to/traces.md has an example of a map"
        )
    return load_map(said.map)


@contextmanager
def _written_by_core(out: Path) -> Iterator[Path]:
    """Yield the path of a partial file for the compiled module. Errors name `out` instead."""
    with whole_file(out) as descriptor:
        part = Path(f"/proc/self/fd/{descriptor}")
        try:
            yield part
        except (UserError, RunFailure) as error:
            raise type(error)(str(error).replace(str(part), str(out))) from None


def convert_foreign(
    core: Any, file: Path, said: Foreign, out: Path | None
) -> tuple[dict[str, Any], int, float]:
    """Convert a trace. Return its statistics, the number of lines read, and the seconds that
    passed.
    """
    kind = kind_of(file, said.format)
    places, component = _places(kind, said), said.component or COMPONENT
    size = max(1, file.stat().st_size // PIECE)
    with ExitStack() as written:
        part = "" if out is None else str(written.enter_context(_written_by_core(out)))
        conversion = Conversion(core, file, kind, places, component, part)
        begun = perf_counter()
        with progress(f"reading {file.name}", size, "MiB") as tick:
            found = conversion.run(tick)
    return found, conversion.lines(), perf_counter() - begun


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics of a trace, with the names that docs/reference/json.md lists."""
    gpus = len(found["gpus"])
    matrix = found["matrix"]
    moved = sum(matrix)
    remote = sum(matrix[g * gpus + h] for g in range(gpus) for h in range(gpus) if g != h)
    return {
        "gpus": gpus,
        "warp_width": found["head"]["warp_width"],
        "source": found["head"]["source"],
        "ranges": [
            {"begin": begin, "end": end, "gpu": None if page else gpu, "page_bytes": page or None}
            for begin, end, gpu, page in found["head"]["ranges"]
        ],
        "file_bytes": found["file_bytes"] or None,
        "kernels": sum(one["launches"] for one in found["gpus"]),
        "kernel_names": found["names"],
        "blocks": sum(one["blocks"] for one in found["gpus"]),
        "copies": found["copies"],
        "host_copies": found["host_copies"],
        "copied_bytes": found["copied_bytes"],
        "exchanges": found["exchanges"],
        "calls": found["calls"],
        "instructions": dict(zip(ACTIONS, found["instructions"], strict=True)),
        "accesses": sum(found["instructions"][: len(KINDS)]),
        "lanes": dict(zip(KINDS, found["lanes"], strict=True)),
        "bytes": dict(zip(KINDS, found["bytes"], strict=True)),
        "by_width": [
            {"kind": KINDS[kind], "bytes": size, "instructions": count}
            for (kind, size), count in sorted(found["widths"].items())
        ],
        "remote_share": remote / moved if moved else None,
        "per_gpu": [
            {
                "kernels": one["launches"],
                "blocks": one["blocks"],
                "own": dict(zip(KINDS, one["own"], strict=True)),
                "remote": dict(zip(KINDS, one["remote"], strict=True)),
                "own_bytes": dict(zip(KINDS, one["own_bytes"], strict=True)),
                "remote_bytes": dict(zip(KINDS, one["remote_bytes"], strict=True)),
            }
            for one in found["gpus"]
        ],
        "bytes_to_home": [matrix[g * gpus : (g + 1) * gpus] for g in range(gpus)],
        "used_bytes": {
            kind: {
                str(unit): used / touched if touched else None
                for unit, touched in zip(UNITS, touches, strict=True)
            }
            for kind, used, touches in zip(
                KINDS, found["distinct_bytes"], found["touched"], strict=True
            )
        },
        "remote_store_runs": [
            {"up_to_bytes": size, "count": count}
            for size, count in zip(RUNS, found["remote_runs"], strict=True)
        ],
    }


def statistics(core: Any, file: Path, said: Foreign) -> dict[str, Any]:
    """Return the statistics of a trace from the compiled module.

    The trace is a trace of Interlace or of another tool.
    """
    if not is_ours(core, file):
        found, _, _ = convert_foreign(core, file, said, None)
        return found
    said.refuse(file)
    size = file.stat().st_size
    with progress(f"reading {file.name}", size >> 20, "MiB") as tick, core_errors():
        seen = 0

        def advance(done: int) -> None:
            nonlocal seen
            while seen < done >> 20:
                seen += 1
                tick()

        ours: dict[str, Any] = core.trace_statistics(str(file), advance)
        return ours


def replayed(core: Any, file: Path, machine: Machine, mechanism: str) -> dict[str, Any]:
    """Replay a trace on a simulated machine and return the result."""
    with core_errors():
        found = core.replay_trace(str(file), to_core(machine, core), mechanism)
    return {
        **found,
        **{
            kind: dict(zip(("payload", "wire"), found[kind], strict=True))
            for kind in ("stores", "reads", "copies", "exchanges")
        },
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


def recorded(core: Any, workload: Workload, machine: Machine, case: Case, out: Path) -> Outcome:
    """Run a workload, and write the accesses of its warps to a file.

    The file appears only after the result has been verified.
    """
    with _written_by_core(out) as part:
        found = workload.simulate(core, to_core(machine, core), case, part)
        workload.verify(found)
    return found
