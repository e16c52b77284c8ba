"""`interlace plan`: how messages would be cut over the paths of a machine, and why."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from interlace.base.errors import UserError, unknown
from interlace.base.files import check_writable, show_and_write
from interlace.base.native import load_core
from interlace.machine.machines import Machine, gpu_names, load_machine, to_core
from interlace.model import options
from interlace.model.results import FORMAT, json_text, provenance
from interlace.model.run import core_errors
from interlace.show.table import BYTES, SECONDS, fixed, scale
from interlace.study.topo import discover

DEALINGS = ("by-share", "round-robin")
EXECUTORS = ("streams", "graphs")
MOST_CHUNKS = 1024
MOST_MESSAGES = 1024
USED, UNUSED = "in", "out"


class Message(NamedTuple):
    """Bytes from one memory to another, by name."""

    start: str
    end: str
    bytes: int


class Planned(NamedTuple):
    """A plan of the extension module, and what it was made of."""

    machine: Machine
    messages: list[Message]
    options: dict[str, Any]
    plan: Any
    path_names: list[str]
    simulated: dict[str, float] | None = None  # seconds of the plan, by executor


# --- what was asked -------------------------------------------------------------------------------


def _memory(machine: Machine, name: str) -> str:
    known = [*gpu_names(machine), "host"]
    if name not in known:
        raise unknown("memory", name, known)
    return name


def _endpoint(core: Any, name: str) -> Any:
    if name == "host":
        return core.Endpoint(core.EndpointKind.host, 0)
    return core.Endpoint(core.EndpointKind.gpu, int(name.removeprefix("gpu")))


def _messages(
    machine: Machine,
    single: tuple[str | None, str | None, str | None],
    written: Sequence[str],
    ring: str | None,
    all_to_all: str | None,
) -> list[Message]:
    """The messages of the command line, in its order."""
    found: list[Message] = []

    def add(start: str, end: str, size: int) -> None:
        found.append(Message(_memory(machine, start), _memory(machine, end), size))

    start, end, size = single
    if start is not None:
        if end is None or size is None:
            raise UserError("a message needs a source, a destination and a size: gpu0 gpu1 256M")
        add(start, end, options.byte_count("SIZE", size))
    for text in written:
        words = text.split(":")
        if len(words) != 3:
            raise UserError(f"--message {text!r}: give SOURCE:DESTINATION:SIZE, gpu0:gpu1:256M")
        add(words[0], words[1], options.byte_count("--message", words[2]))
    gpus = gpu_names(machine)
    for option, each, pairs in (
        ("--ring", ring, list(zip(gpus, [*gpus[1:], gpus[0]], strict=True))),
        ("--all-to-all", all_to_all, [(a, b) for a in gpus for b in gpus if a != b]),
    ):
        if each is None:
            continue
        if len(gpus) < 2:
            raise UserError(f"{option}: {machine.name} has one GPU; it takes two")
        for a, b in pairs:
            add(a, b, options.byte_count(option, each))
    if not found:
        raise UserError("there is no message; give one as gpu0 gpu1 256M, or with --message")
    if len(found) > MOST_MESSAGES:
        raise UserError(f"there are {len(found)} messages; a plan has at most {MOST_MESSAGES}")
    for message in found:
        if message.start == message.end:
            raise UserError(f"source and destination are both {message.start}; name two memories")
    return found


def _allowed(machine: Machine, text: str | None) -> tuple[bool, list[str] | None]:
    """Whether the direct path may be used, and which staging places; None for all."""
    if text is None:
        return True, None
    names = [word.strip() for word in text.split(",")]
    known = ["direct", *gpu_names(machine), "host"]
    for name in names:
        if name not in known:
            raise unknown("path", name, known)
    return "direct" in names, [name for name in known[1:] if name in names]


def _traffic(machine: Machine, texts: Sequence[str]) -> list[list[str]]:
    found = []
    for text in texts:
        stops = text.split(":")
        if len(stops) < 2 or any(a == b for a, b in itertools.pairwise(stops)):
            raise UserError(f"--traffic {text!r}: give the memories on the way, gpu1:host:gpu0")
        found.append([_memory(machine, stop) for stop in stops])
    return found


def make(
    machine: Machine,
    messages: Sequence[Message],
    *,
    paths: str | None = None,
    chunks: int = 0,
    dealing: str = "by-share",
    staging_bytes: int | None = None,
    traffic: Sequence[str] = (),
) -> Planned:
    """A plan; UserError where what is asked makes no sense on the machine."""
    core = load_core()
    direct, staging = _allowed(machine, paths)
    busy = _traffic(machine, traffic)
    if dealing not in DEALINGS:
        raise unknown("dealing", dealing, DEALINGS)
    asked: dict[str, Any] = {"direct": direct, "chunks": chunks, "dealing": dealing}
    if staging_bytes is not None:
        asked["staging_bytes"] = staging_bytes
    described = to_core(machine, core)
    with core_errors():
        plan = core.make_plan(
            described,
            [(_endpoint(core, m.start), _endpoint(core, m.end), m.bytes) for m in messages],
            staging=None if staging is None else [_endpoint(core, name) for name in staging],
            traffic=[([_endpoint(core, stop) for stop in stops], 0.0) for stops in busy],
            **asked,
        )
    names = [plan.path_name(described, index) for index in range(len(plan.paths))]
    told = {**asked, "staging": staging, "traffic": busy}
    return Planned(machine, list(messages), told, plan, names)


def simulate(planned: Planned) -> Planned:
    """The same with the times that the plan takes on its machine when it is simulated."""
    core = load_core()
    described = to_core(planned.machine, core)
    with core_errors():
        times = {
            executor: float(
                core.simulate_transfers(
                    described, [planned.plan], 1, 1, executor=executor, moves=False
                )["time_s"]
            )
            for executor in EXECUTORS
        }
    return planned._replace(simulated=times)


# --- showing --------------------------------------------------------------------------------------


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def _seconds(value: float) -> str:
    unit, name = scale([value], SECONDS)
    return f"{fixed([value / unit])[0]} {name}"


def _rate(planned: Planned, seconds: float) -> str:
    total = sum(message.bytes for message in planned.messages)
    return f"{_seconds(seconds)}, {fixed([total / seconds / 1e9])[0]} GB/s"


def _headline(planned: Planned) -> str:
    plan = planned.plan
    first = planned.messages[0]
    total = sum(message.bytes for message in planned.messages)
    what = (
        f"{_size(first.bytes)} from {first.start} to {first.end}"
        if len(planned.messages) == 1
        else f"{len(planned.messages)} messages of {_size(total)} together"
    )

    return (
        f"{what} on {planned.machine.name}: predicted {_rate(planned, plan.predicted_s)}; "
        f"direct {_rate(planned, plan.direct_s)}; {plan.direct_s / plan.predicted_s:.2f} x"
    )


def _one_message(planned: Planned) -> list[str]:
    """A line for each path, used or not."""
    width = max(len(name) for name in ["path", *planned.path_names])
    lines = [f"{'path':{width}}       why"]
    for name, path in zip(planned.path_names, planned.plan.paths, strict=True):
        lines.append(f"{name:{width}}  {USED if path.bytes else UNUSED:3}  {path.reason}")
    return lines


def _several_messages(planned: Planned) -> list[str]:
    """A line for each message with the paths that carry it, and why others do not."""
    plan = planned.plan
    starts = max(len("from"), *(len(m.start) for m in planned.messages))
    ends = max(len("to"), *(len(m.end) for m in planned.messages))
    lines = [f"{'from':{starts}}  {'to':{ends}}  {'bytes':>9}  round  paths"]
    for index, (message, turn) in enumerate(zip(planned.messages, plan.rounds, strict=True)):
        used = [
            f"{name} {100 * path.bytes / message.bytes:.0f} %"
            for name, path in zip(planned.path_names, plan.paths, strict=True)
            if path.message == index and path.bytes
        ]
        lines.append(
            f"{message.start:{starts}}  {message.end:{ends}}  {_size(message.bytes):>9}  "
            f"{turn:>5}  {', '.join(used)}"
        )
    reasons = Counter(
        re.sub(r"gpu\d+", "a gpu", path.reason) for path in plan.paths if not path.bytes
    )
    lines += ["", "paths that are out, by reason"] if reasons else []
    lines += [f"{count:>5}  {reason}" for reason, count in reasons.most_common()]
    return lines


def show(planned: Planned) -> None:
    """Prints a plan for people."""
    plan = planned.plan
    print(_headline(planned))
    print()
    print("\n".join((_one_message if len(planned.messages) == 1 else _several_messages)(planned)))
    print()
    staging = sum(buffer.bytes for buffer in plan.buffers)
    unit, name = scale([staging], BYTES)
    print(
        f"copies: {len(plan.steps)}; streams: {len(plan.slots)}; "
        f"staging buffers: {len(plan.buffers)}, {fixed([staging / unit])[0]} {name}"
    )
    for executor, seconds in (planned.simulated or {}).items():
        how = "a graph that is kept" if executor == "graphs" else executor
        print(f"simulated, by {how}: {_rate(planned, seconds)}")


def to_json(planned: Planned) -> dict[str, Any]:
    """The same as data, with every copy."""
    plan = planned.plan
    machine = msgspec.to_builtins(planned.machine)
    del machine["sources"]

    def place(end: Any) -> str:
        return f"gpu{end.index}" if end.kind.name == "gpu" else "host"

    def location(at: Any) -> dict[str, Any]:
        return {"memory": at.memory.name, "index": at.index, "offset": at.offset}

    total = sum(message.bytes for message in planned.messages)
    return {
        "format": FORMAT,
        **provenance(),
        "machine": machine,
        "options": planned.options,
        "predicted_s": plan.predicted_s,
        "direct_s": plan.direct_s,
        "gb_per_s": total / plan.predicted_s / 1e9,
        "speedup": plan.direct_s / plan.predicted_s,
        "simulated_s": planned.simulated,
        "apart": plan.apart,
        "messages": [
            {"from": message.start, "to": message.end, "bytes": message.bytes, "round": turn}
            for message, turn in zip(planned.messages, plan.rounds, strict=True)
        ],
        "paths": [
            {
                "message": path.message,
                "name": name,
                "stops": [place(end) for end in path.stops],
                "bytes": path.bytes,
                "share": path.bytes / planned.messages[path.message].bytes,
                "chunks": path.chunks,
                "reason": path.reason,
            }
            for name, path in zip(planned.path_names, plan.paths, strict=True)
        ],
        "buffers": [
            {"place": place(buffer.place), "bytes": buffer.bytes, "path": buffer.path}
            for buffer in plan.buffers
        ],
        "streams": [{"gpu": slot.gpu} for slot in plan.slots],
        "steps": [
            {
                "path": step.path,
                "leg": step.leg,
                "chunk": step.chunk,
                "from": location(step.source),
                "to": location(step.target),
                "bytes": step.bytes,
                "stream": step.slot,
                "after": list(step.after),
                "begin_s": step.begin_s,
                "end_s": step.end_s,
            }
            for step in plan.steps
        ],
    }


# --- the command ----------------------------------------------------------------------------------


def plan_command(
    source: Annotated[
        str | None, typer.Argument(metavar="[SRC]", help="gpu0, gpu1, ... or host.")
    ] = None,
    destination: Annotated[
        str | None, typer.Argument(metavar="[DST]", help="gpu0, gpu1, ... or host.")
    ] = None,
    size: Annotated[
        str | None, typer.Argument(metavar="[SIZE]", help="Bytes, such as 4096, 64K or 256M.")
    ] = None,
    message: Annotated[
        list[str] | None,
        typer.Option("--message", metavar="SRC:DST:SIZE", help="Another message; repeatable."),
    ] = None,
    ring: Annotated[
        str | None,
        typer.Option("--ring", metavar="SIZE", help="A message of each GPU to the next one."),
    ] = None,
    all_to_all: Annotated[
        str | None,
        typer.Option("--all-to-all", metavar="SIZE", help="A message of each GPU to each other."),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine", metavar="NAME", help="A described machine or file; without it, this one."
        ),
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option("--paths", metavar="LIST", help="The paths allowed: direct,gpu2,host."),
    ] = None,
    chunks: Annotated[
        str | None,
        typer.Option("--chunks", metavar="N", help="Chunks of a staged path; else the fastest."),
    ] = None,
    dealing: Annotated[
        str,
        typer.Option(
            "--dealing", metavar="HOW", help="Chunks lie by-share, in one part, or round-robin."
        ),
    ] = "by-share",
    staging: Annotated[
        str | None,
        typer.Option("--staging", metavar="SIZE", help="Staging memory of a message; 64M."),
    ] = None,
    traffic: Annotated[
        list[str] | None,
        typer.Option(
            "--traffic", metavar="STOPS", help="A transfer under way, gpu1:host:gpu0; repeatable."
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulate", help="Also run the plan on the simulated machine, by streams and graphs."
        ),
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the plan as JSON.")
    ] = None,
) -> None:
    """Plan messages over all the paths that help them, and say why each path is in or out."""
    if json_file is not None:
        check_writable(json_file, "--json")
    count = options.whole("--chunks", chunks, 1) or 0
    if count > MOST_CHUNKS:
        raise UserError(f"--chunks {count}: give a number of at most {MOST_CHUNKS}")
    staging_bytes = None if staging is None else options.byte_count("--staging", staging)
    described = (
        discover("interlace plan gpu0 gpu1 256M --machine").machine
        if machine is None
        else load_machine(machine)
    )
    messages = _messages(described, (source, destination, size), message or (), ring, all_to_all)
    planned = make(
        described,
        messages,
        paths=paths,
        chunks=count,
        dealing=dealing,
        staging_bytes=staging_bytes,
        traffic=traffic or (),
    )
    if simulated:
        planned = simulate(planned)
    texts = {} if json_file is None else {json_file: lambda: json_text(to_json(planned))}
    show_and_write(lambda: show(planned), texts)
