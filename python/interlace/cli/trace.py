"""`interlace trace`: streams of accesses, recorded, taken from other tools, and run again."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import typer

from interlace.base import files
from interlace.base.errors import UserError, unknown
from interlace.base.native import load_core
from interlace.base.progress import progress
from interlace.cli.failures import failure_ends
from interlace.cli.workload_options import ReadInputs, takes_inputs
from interlace.machine.machines import MAX_GPUS, load_machine, to_core
from interlace.model.mechanisms import SERIAL, Config
from interlace.model.options import whole
from interlace.model.results import json_text, provenance
from interlace.model.run import Case, core_errors
from interlace.show import table
from interlace.study.address_map import Places, load_map
from interlace.study.trace_files import (
    COMPONENT,
    FORMATS,
    MGPUSIM,
    PIECE,
    Conversion,
    kind_of,
)
from interlace.workloads import WORKLOADS, inputs_of

FORMAT = 1
KINDS = ("load", "store", "atomic")
ACTIONS = (*KINDS, "release", "compute", "shared", "shuffle", "wait", "barrier")
UNITS = (32, 64, 128)  # bytes
RUNS = tuple(1 << n for n in range(8))  # the upper ends of the sizes of runs, bytes
REPLAYED = (
    "inline",
    "write-combining",
    "finepack",
    "config-packet",
)  # mechanisms by which a trace's stores can go
RECORDED = ("bulk-copy", "split", "inline", SERIAL, "infinite-bandwidth")
DEFAULT_RANGES = 8

File = Annotated[Path | None, typer.Argument(metavar="FILE")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all results.")]
MapOption = Annotated[
    Path | None,
    typer.Option(
        "--map",
        metavar="FILE",
        help="accel-sim, nvbit: which addresses are on which GPU (TOML, docs/traces.md).",
    ),
]
GpusOption = Annotated[
    str | None, typer.Option("--gpus", "-g", metavar="N", help="mgpusim: GPUs of the trace.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"Of another tool's file: {', '.join(FORMATS)}.  [default: what it looks like]",
    ),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        "--component",
        metavar="NAME",
        help=f"mgpusim: part of the names of those that receive accesses.  [default: {COMPONENT}]",
    ),
]


class Foreign(NamedTuple):
    """What the command line says about another tool's file."""

    map: Path | None
    gpus: str | None
    format: str | None
    component: str | None

    def refuse(self, file: Path) -> None:
        """Raise UserError if anything is said of a file of ours, which says it itself."""
        options = ("--map", "--gpus", "--format", "--component")
        for option, value in zip(options, self, strict=True):
            if value is not None:
                raise UserError(f"{option} is for traces of other tools; {file} is one of ours")


def _existing(command: str, file: Path | None) -> Path:
    if file is None:
        raise UserError(f"trace {command} needs the name of a file")
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror or error}") from None


def _ours(core: Any, file: Path) -> bool:
    with file.open("rb") as stream:
        found: bool = core.is_trace_file(stream.read(16))
    return found


def _places(kind: str, said: Foreign) -> Places:
    """Where a trace's memory is."""
    count = whole("--gpus", said.gpus, 1)
    if count is not None and count > MAX_GPUS:
        raise UserError(f"--gpus {count}: give 1 to {MAX_GPUS}")
    if kind == MGPUSIM:
        if said.map is not None:
            raise UserError(
                "--map: a trace of MGPUSim says itself whose memory an address is; leave it out"
            )
        if count is None:
            raise UserError("--gpus is missing: a trace of MGPUSim does not say how many GPUs ran")
        return Places("", count, [], {}, [])
    for option, value in (("--gpus", said.gpus), ("--component", said.component)):
        if value is not None:
            raise UserError(f"{option} is for traces of MGPUSim; leave it out")
    if said.map is None:
        raise UserError(
            "--map is missing: the trace does not say which addresses are on which GPU; "
            "docs/traces.md has an example"
        )
    return load_map(said.map)


def _convert(core: Any, file: Path, said: Foreign, out: str) -> tuple[dict[str, Any], int, float]:
    """What the trace has, lines that were read, and seconds that it took."""
    kind = kind_of(file, said.format)
    conversion = Conversion(core, file, kind, _places(kind, said), said.component or COMPONENT, out)
    size = max(1, file.stat().st_size // PIECE)
    begun = perf_counter()
    with progress(f"reading {file.name}", size, "MiB") as tick:
        found = conversion.run(tick)
    return found, conversion.lines(), perf_counter() - begun


# --- what a trace has -----------------------------------------------------------------------------


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a trace under the names of docs/json.md."""
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


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _print_summary(name: str, it: dict[str, Any], foot: Sequence[str]) -> None:
    head = (
        f"{name}: {_count(it['kernels'], 'kernel')} on {_count(it['gpus'], 'GPU')}, "
        f"{_count(it['blocks'], 'block')}, {it['accesses']:,} "
        f"access{'' if it['accesses'] == 1 else 'es'} of warps"
    )
    per_gpu = it["per_gpu"]
    rows = [(g, kind) for g in range(it["gpus"]) for kind in KINDS]
    own = [per_gpu[g]["own"][kind] for g, kind in rows]
    remote = [per_gpu[g]["remote"][kind] for g, kind in rows]
    moved = [(per_gpu[g]["own_bytes"][kind], per_gpu[g]["remote_bytes"][kind]) for g, kind in rows]
    size, unit = table.scale([a + b for a, b in moved], table.BYTES)
    cut = [
        table.Column("GPU", "", [str(g) for g, _ in rows]),
        table.Column("kind", "", [kind for _, kind in rows], number=False),
        table.Column("own", "", [f"{count:,}" for count in own]),
        table.Column("remote", "", [f"{count:,}" for count in remote]),
        table.Column("bytes", unit, table.fixed([(a + b) / size for a, b in moved])),
        table.Column("remote", "%", [table.percent(b / (a + b) if a + b else None)
                                     for a, b in moved]),
    ]  # fmt: skip
    lines = [
        "Bytes that an instruction uses of a unit that it touches, on average: "
        + "; ".join(
            f"{kind} "
            + ", ".join(f"{used[str(u)]:.1f} of {u}" for u in UNITS if used[str(u)] is not None)
            for kind, used in it["used_bytes"].items()
            if used["32"] is not None
        )
        + "."
    ]
    runs = [(run["up_to_bytes"], run["count"]) for run in it["remote_store_runs"] if run["count"]]
    if runs:
        total = sum(count for _, count in runs)
        lines.append(
            "Runs of bytes stored to another GPU's line: "
            + ", ".join(f"{100 * count / total:.0f} % up to {up_to} B" for up_to, count in runs)
            + "."
        )
    more = [
        (it["copies"] - it["host_copies"], "copies between GPUs"),
        (it["host_copies"], "copies from or to the host"),
        (it["exchanges"], "exchanges"),
        (it["calls"], "library calls"),
    ]
    if any(count for count, _ in more):
        lines.append("Besides: " + ", ".join(f"{n:,} {what}" for n, what in more if n) + ".")
    table.print_table(head, cut, [g for g, _ in rows], [""] * len(rows), [*lines, *foot])


def _deliver(show: Callable[[], None], document: dict[str, Any], json_file: Path | None) -> None:
    whole_document = {"format": FORMAT, **provenance(), **document}
    texts = {} if json_file is None else {json_file: partial(json_text, whole_document)}
    files.show_and_write(show, texts)


def info(
    file: File = None,
    map_file: MapOption = None,
    gpus: GpusOption = None,
    format_: FormatOption = None,
    component: ComponentOption = None,
    json_file: Json = None,
) -> None:
    """Say what a trace has: accesses by kind and GPU, what is remote, locality, store sizes."""
    path = _existing("info", file)
    said = Foreign(map_file, gpus, format_, component)
    files.check_outputs({"--json": json_file}, {"FILE": path, "--map": map_file})
    core = load_core()
    with failure_ends():
        if _ours(core, path):
            said.refuse(path)
            size = path.stat().st_size
            with progress(f"reading {path.name}", size >> 20, "MiB") as tick, core_errors():
                seen = 0

                def advance(done: int) -> None:
                    nonlocal seen
                    while seen < done >> 20:
                        seen += 1
                        tick()

                found = core.trace_statistics(str(path), advance)
        else:
            found, _, _ = _convert(core, path, said, "")
    it = _summary(found)
    foot = []
    if it["file_bytes"]:
        each = it["file_bytes"] / max(1, it["accesses"])
        foot.append(f"{it['file_bytes']:,} bytes, {each:.1f} an access; every check sum is right.")
    _deliver(partial(_print_summary, str(path), it, foot), {"trace": it}, json_file)


# --- conversion -----------------------------------------------------------------------------------


def convert(
    file: Annotated[Path | None, typer.Argument(metavar="IN")] = None,
    out: Annotated[Path | None, typer.Argument(metavar="OUT")] = None,
    map_file: MapOption = None,
    gpus: GpusOption = None,
    format_: FormatOption = None,
    component: ComponentOption = None,
    json_file: Json = None,
) -> None:
    """Make a trace file of Interlace of one of Accel-Sim, NVBit's mem_trace or MGPUSim."""
    path = _existing("convert", file)
    if out is None:
        raise UserError("trace convert needs two files: the one to read and the one to write")
    files.check_outputs({"OUT": out, "--json": json_file}, {"IN": path, "--map": map_file})
    core = load_core()
    if _ours(core, path):
        raise UserError(f"{path} is a trace of Interlace already")
    with failure_ends():
        found, lines, seconds = _convert(
            core, path, Foreign(map_file, gpus, format_, component), str(out.resolve())
        )
    it = _summary(found)
    it["file_bytes"] = out.stat().st_size
    foot = [
        f"{out}: {it['file_bytes']:,} bytes of {lines:,} lines, "
        f"{60e-6 * lines / seconds:.1f} million lines a minute."
    ]
    document = {"trace": it, "lines": lines, "seconds": seconds}
    _deliver(partial(_print_summary, str(path), it, foot), document, json_file)


# --- replay ---------------------------------------------------------------------------------------


def _print_replay(name: str, machine: str, mechanism: str, it: dict[str, Any]) -> None:
    time, time_unit = table.scale([it["time_s"]], table.SECONDS)
    moved = ("stores", "reads", "copies", "exchanges")
    size, unit = table.scale([it[kind]["wire"] for kind in moved], table.BYTES)
    cut = [
        table.Column("moved by", "", list(moved), number=False),
        table.Column("payload", unit, table.fixed([it[k]["payload"] / size for k in moved])),
        table.Column("on the wire", unit, table.fixed([it[k]["wire"] / size for k in moved])),
    ]
    rate = it["accesses"] / it["cpu_s"] if it["cpu_s"] > 0 else 0.0
    foot = [
        f"Time {it['time_s'] / time:.4g} {time_unit}; {it['accesses']:,} accesses of lines, "
        f"{it['remote_transactions']:,} remote transactions.",
        f"All {it['instructions']:,} accesses of the file were replayed, "
        f"{rate / 1e6:.2f} million accesses of lines a CPU second.",
    ]
    if it["host_copies"]:
        foot.append(f"{it['host_copies']:,} copies from or to the host were left out.")
    head = f"{name}, stores by {mechanism}; simulated on {machine}"
    table.print_table(head, cut, [0] * len(moved), [""] * len(moved), foot)


def replay(
    file: File = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine", "-m", metavar="NAME|FILE", help="A shipped machine or a .toml file."
        ),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help=f"How stores go to other GPUs: {', '.join(REPLAYED)}.",
        ),
    ] = REPLAYED[0],
    json_file: Json = None,
) -> None:
    """Run a trace of Interlace on a simulated machine."""
    path = _existing("replay", file)
    if machine is None:
        raise UserError("--machine is missing: name the machine to run the trace on")
    if mechanism not in REPLAYED:
        raise unknown("mechanism for a replay", mechanism, REPLAYED)
    files.check_outputs({"--json": json_file}, {"FILE": path, "--machine": Path(machine)})
    core = load_core()
    if not _ours(core, path):
        raise UserError(f"{path} is no trace of Interlace; make one of it with trace convert")
    description = load_machine(machine)
    with failure_ends(), core_errors():
        found = core.replay_trace(str(path), to_core(description, core), mechanism)
    it = {
        **found,
        **{
            kind: dict(zip(("payload", "wire"), found[kind], strict=True))
            for kind in ("stores", "reads", "copies", "exchanges")
        },
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }
    document = {"file": str(path), "machine": description.name, "mechanism": mechanism, **it}
    show = partial(_print_replay, str(path), description.name, mechanism, it)
    _deliver(show, document, json_file)


# --- recording ------------------------------------------------------------------------------------


@takes_inputs
def record(
    inputs: ReadInputs,
    workload: Annotated[
        str | None, typer.Argument(metavar="WORKLOAD", help=f"One of: {', '.join(WORKLOADS)}.")
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine", "-m", metavar="NAME|FILE", help="A shipped machine or a .toml file."
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", "-g", metavar="N", help="GPUs to use.  [default: all]"),
    ] = None,
    mechanism: Annotated[
        str, typer.Option("--mechanism", metavar="NAME", help=f"One of: {', '.join(RECORDED)}.")
    ] = "inline",
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="N", help=f"Ranges of split.  [default: {DEFAULT_RANGES}]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
    ] = None,
) -> None:
    """Run a workload on a simulated machine and write what its warps access."""
    if workload is None:
        raise UserError(
            f"trace record needs the name of a workload; there are {', '.join(WORKLOADS)}"
        )
    if workload not in WORKLOADS:
        raise unknown("workload", workload, tuple(WORKLOADS))
    given_inputs = inputs()
    if machine is None:
        raise UserError("--machine is missing: name the machine to record on")
    if out is None:
        raise UserError("--output is missing: name the file to write")
    if mechanism not in RECORDED:
        raise unknown("mechanism that can be recorded", mechanism, RECORDED)
    if split is not None and mechanism != "split":
        raise UserError(f"--split is for the mechanism split, not {mechanism}; leave it out")
    ranges = whole("--split", split, 1) or DEFAULT_RANGES
    asked = inputs_of(workload, given_inputs)
    files.check_writable(out, "--output")
    description = load_machine(machine)
    count = whole("--gpus", gpus, 1) or description.gpu.count
    if count > description.gpu.count:
        raise UserError(f"--gpus {count}: {description.name} has {description.gpu.count} GPUs")
    core = load_core()
    config = Config(ranges=ranges if mechanism == "split" else None)
    target = out.resolve()
    unverified = target.with_name(f".{target.name[:80]}.{os.getpid()}")
    try:
        with failure_ends():
            loaded = WORKLOADS[workload].load(asked, None)
            found = loaded.simulate(
                core, to_core(description, core), Case(count, mechanism, config), unverified
            )
            loaded.verify(found)
        unverified.replace(target)
    finally:
        unverified.unlink(missing_ok=True)
    print(
        f"{out}: {out.stat().st_size:,} bytes, {found.accesses:,} accesses of lines, "
        f"{found.remote_transactions:,} remote transactions, {1e6 * found.time_s:.4g} us; "
        f"verified."
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "info": info,
    "convert": convert,
    "replay": replay,
    "record": record,
}
