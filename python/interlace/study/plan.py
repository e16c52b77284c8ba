"""Explains over which paths of a machine messages would go."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from interlace.base.errors import UserError, unknown
from interlace.base.native import load_core
from interlace.machine.compiled import to_core
from interlace.machine.devices import gpu_names
from interlace.machine.schema import Machine
from interlace.model import options
from interlace.model.results import FORMAT, provenance
from interlace.model.run import core_errors

DEALINGS = ("by-share", "round-robin")
EXECUTORS = ("streams", "graphs")
MOST_MESSAGES = 1024


class Message(NamedTuple):
    """A message of `size` bytes from one memory to another. Names identify the memories."""

    start: str
    end: str
    bytes: int


class Planned(NamedTuple):
    """A plan of the compiled module, and the inputs from which the plan was made."""

    machine: Machine
    messages: list[Message]
    options: dict[str, Any]
    plan: Any
    path_names: list[str]
    # maps an executor to the simulated time of the plan in seconds
    simulated: dict[str, float] | None = None


# --- what was asked -------------------------------------------------------------------------------


def _memory(machine: Machine, name: str) -> str:
    return _known(machine, "memory", name, [*gpu_names(machine), "host"])


def _known(machine: Machine, kind: str, name: str, known: Sequence[str]) -> str:
    if name in known:
        return name
    if re.fullmatch(r"gpu\d+", name):
        gpus = gpu_names(machine)
        raise UserError(f"{machine.name} has no {name}; its GPUs are {gpus[0]} to {gpus[-1]}")
    raise unknown(kind, name, known)


def _endpoint(core: Any, name: str) -> Any:
    if name == "host":
        return core.Endpoint(core.EndpointKind.host, 0)
    return core.Endpoint(core.EndpointKind.gpu, int(name.removeprefix("gpu")))


def check_asked(
    single: tuple[str | None, str | None, str | None],
    written: Sequence[str],
    ring: str | None,
    all_to_all: str | None,
) -> None:
    """Raise UserError if the command line names no message. The machine is not needed here."""
    if single[0] is None and not written and ring is None and all_to_all is None:
        raise UserError(
            "plan needs a message; give gpu0 gpu1 256M, --message SRC:DST:SIZE, --ring SIZE or "
            "--all-to-all SIZE"
        )
    if single[0] is not None and None in single:
        raise UserError(
            "a message needs a source, a destination and a size, such as gpu0 gpu1 256M"
        )


def messages_of(
    machine: Machine,
    single: tuple[str | None, str | None, str | None],
    written: Sequence[str],
    ring: str | None,
    all_to_all: str | None,
) -> list[Message]:
    """Return the messages that the command line names, in the same order."""
    found: list[Message] = []

    def add(start: str, end: str, size: int) -> None:
        found.append(Message(_memory(machine, start), _memory(machine, end), size))

    check_asked(single, written, ring, all_to_all)
    start, end, size = single
    if start is not None and end is not None and size is not None:
        add(start, end, options.byte_count("SIZE", size))
    for text in written:
        words = text.split(":")
        if len(words) != 3:
            raise UserError(
                f"--message {text!r}: give SOURCE:DESTINATION:SIZE, such as gpu0:gpu1:256M"
            )
        add(words[0], words[1], options.byte_count("--message", words[2]))
    gpus = gpu_names(machine)
    for option, each, pairs in (
        ("--ring", ring, list(zip(gpus, [*gpus[1:], gpus[0]], strict=True))),
        ("--all-to-all", all_to_all, [(a, b) for a in gpus for b in gpus if a != b]),
    ):
        if each is None:
            continue
        if len(gpus) < 2:
            raise UserError(
                f"{option}: {machine.name} has one GPU, and this option needs at least two"
            )
        for a, b in pairs:
            add(a, b, options.byte_count(option, each))
    if len(found) > MOST_MESSAGES:
        raise UserError(f"there are {len(found)} messages; a plan has at most {MOST_MESSAGES}")
    for message in found:
        if message.start == message.end:
            raise UserError(
                f"source and destination are both {message.start}; name two different memories"
            )
    return found


def _allowed(machine: Machine, text: str | None) -> tuple[bool, list[str] | None]:
    """Return whether the direct path is allowed, and which staging places are allowed.

    None means that all staging places are allowed.
    """
    if text is None:
        return True, None
    names = [word.strip() for word in text.split(",")]
    known = ["direct", *gpu_names(machine), "host"]
    for name in names:
        _known(machine, "path", name, known)
    return "direct" in names, [name for name in known[1:] if name in names]


def _traffic(machine: Machine, texts: Sequence[str]) -> list[list[str]]:
    found = []
    for text in texts:
        stops = text.split(":")
        if len(stops) < 2 or any(a == b for a, b in itertools.pairwise(stops)):
            raise UserError(
                f"--traffic {text!r}: give all memories on the way, such as gpu1:host:gpu0"
            )
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
    """Make a plan. Raise UserError if the machine cannot do what the arguments ask."""
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
    """Return the plan with its simulated times on the plan's machine."""
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


def to_json(planned: Planned) -> dict[str, Any]:
    """Return the plan, with every copy, as data for JSON."""
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
