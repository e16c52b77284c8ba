"""Measures copy profiles: the fastest way to copy messages of each size on this machine.

When a process starts the copy engine, the engine reads the copy profile of the machine
(src/plan/copy_profile). The engine makes the copies of `interlace.copy`, `interlace run`,
`interlace.load`, and programs in C and C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from interlace.base.native import load_core
from interlace.base.progress import Steps, progress
from interlace.base.turns import turn
from interlace.model.copies import HOST, PLAIN
from interlace.model.mechanisms import size_text
from interlace.model.results import Head, provenance
from interlace.model.run import RunFailure, core_errors
from interlace.nodes.nodes import CudaNode
from interlace.tuning import profiles
from interlace.tuning.profiles import Machine
from interlace.tuning.search import Candidate, Round, Search, tune_in_rounds

FORMAT = 1  # the format version of copy profiles
DIRECT = "direct"
EXECUTORS = ("streams", "graphs")
# Maps each direction to the source and the destination of the message that represents it.
PAIRS = {"host-to-gpu": (HOST, 0), "gpu-to-host": (0, HOST), "gpu-to-gpu": (0, 1)}
CHUNKS = (1, 2, 4, 8, 16, 32, 64)
LEAST_CHUNK = (
    32 << 10
    # Staged parts have at least this many bytes. In smaller parts, the events between copies take
    # longer than the copies.
)
MOST_ROUNDS = 6  # the finalists are measured in at most this many rounds


class Class(msgspec.Struct, frozen=True):
    """The picked way to copy messages that have at least `bytes` bytes."""

    bytes: int
    paths: str  # direct, gpus, host or gpus+host
    chunks: int  # the number of chunks of a staged part; 0 means that there is no staged part
    executor: str  # auto, streams or graphs
    median_s: float
    spread_s: float
    direct_s: float  # the median time of one plain copy


class Measured(msgspec.Struct, frozen=True):
    """All measurements of one size. A mechanism is `direct`, or an executor with its paths."""

    bytes: int
    search: Search


class Direction(msgspec.Struct, frozen=True):
    """The results for one direction."""

    # a message of fewer bytes is one plain copy; None means that every message is one plain copy
    threshold_bytes: int | None
    classes: list[Class]  # classes from the threshold on, sorted by bytes
    measured: list[Measured]


class CopyProfile(Head, frozen=True, tag_field="kind", tag="interlace copy profile"):
    """The content of a copy profile's file."""

    machine: Machine
    warmup: int
    repeats: int
    directions: dict[str, Direction]


def default_path(machine: Machine) -> Path:
    """Return the file in which the copy engine looks for the profile of this machine's GPUs."""
    return profiles.folder() / f"copy-{profiles.file_word(machine.key[1])}.json"


# --- measuring ------------------------------------------------------------------------------------


def path_sets(direction: str, gpus: int) -> list[str]:
    """Return the sets of relays that a message of this direction can take."""
    ends = 2 if direction == "gpu-to-gpu" else 1
    others = ["gpus"] if gpus > ends else []
    if direction != "gpu-to-gpu":
        return others
    return [*others, "host", *(["gpus+host"] if others else [])]


def _space(direction: str, size: int, gpus: int) -> Any:
    core = load_core()
    chunks = [count for count in CHUNKS if count == 1 or size // count >= LEAST_CHUNK]
    families = [core.TuneFamily(DIRECT, [], True)]
    for paths in path_sets(direction, gpus):
        for executor in EXECUTORS:
            families.append(
                core.TuneFamily(f"{executor} {paths}", [("chunks", list(chunks))], False)
            )
    return core.TuneSpace(families)


def method_of(candidate: Candidate, gpus: int) -> str:
    """Return the candidate's settings of the copy engine. They override the environment."""
    if candidate.mechanism == DIRECT:
        return PLAIN
    executor, paths = candidate.mechanism.split()
    places = [f"gpu{gpu}" for gpu in range(gpus)] if "gpus" in paths else []
    if "host" in paths:
        places.append("host")
    return " ".join(
        (
            f"INTERLACE_COPY={executor}",
            "INTERLACE_COPY_THRESHOLD=0",
            f"INTERLACE_COPY_RELAYS={','.join(places)}",
            f"INTERLACE_COPY_CHUNKS={candidate.parameters['chunks']}",
            "INTERLACE_COPY_PROFILE=none",
            "INTERLACE_COPY_TRAFFIC=none",
            *(
                f"{name}={standard}"
                for name, standard, _ in load_core().copy_settings()
                if name in ("INTERLACE_COPY_STAGING", "INTERLACE_COPY_GRAPHS")
            ),
        )
    )


def _measured_by(node: CudaNode, direction: str, size: int, warmup: int, steps: Steps) -> Any:
    def measure(round_: Round) -> list[Sequence[float] | str]:
        methods = [method_of(one, node.gpus) for one in round_.candidates]
        with turn(), core_errors(f"{direction} of {size_text(size)}"):
            found = node.cuda.measure_copies(
                [PAIRS[direction]], size, methods, warmup, round_.repeats
            )
        for (_, _, _, wrong), candidate in zip(found, round_.candidates, strict=True):
            if wrong:
                raise RunFailure(
                    f"{direction} of {size_text(size)}: {wrong} bytes are wrong by "
                    f"{label_of(candidate.mechanism, candidate.parameters)}"
                )
        steps()
        return [time_s for _, time_s, _, _ in found]

    return measure


def _chosen(size: int, search: Search) -> Class:
    picked = search.picked
    plain = search.best(DIRECT)
    assert plain is not None
    assert plain.median_s is not None
    assert picked.median_s is not None
    assert picked.spread_s is not None
    executor, _, paths = picked.mechanism.partition(" ")
    return Class(
        bytes=size,
        paths=paths or DIRECT,
        chunks=picked.parameters.get("chunks", 0),
        executor=executor if paths else "auto",
        median_s=picked.median_s,
        spread_s=picked.spread_s,
        direct_s=plain.median_s,
    )


def direction_of(searches: Sequence[tuple[int, Search]]) -> Direction:
    """Return the measurements, sorted by size, in the form that the copy engine needs."""
    classes = [_chosen(size, search) for size, search in searches]
    while classes and classes[0].paths == DIRECT:
        classes.pop(0)
    return Direction(
        threshold_bytes=classes[0].bytes if classes else None,
        classes=classes,
        measured=[Measured(size, search) for size, search in searches],
    )


def label_of(mechanism: str, parameters: dict[str, int]) -> str:
    """Return the name of a candidate in words."""
    if mechanism == DIRECT:
        return DIRECT
    executor, _, paths = mechanism.partition(" ")
    return f"{paths}, {executor}, {parameters['chunks']} chunks"


def tune_copies(
    node: CudaNode, wanted: Sequence[str], sizes: Sequence[int], warmup: int, repeats: int
) -> CopyProfile:
    """Measure the copy profile of a node, for each requested direction and size."""
    found: dict[str, Direction] = {}
    with progress(f"tuning copies on {node.machine_name}", 1, "rounds") as steps:
        for name in PAIRS:
            searches = []
            for size in sizes if name in wanted else []:
                # Expect the largest number of rounds until the search knows the real number.
                steps.expect(len(wanted) * len(sizes) * MOST_ROUNDS)
                search = tune_in_rounds(
                    _measured_by(node, name, size, warmup, steps),
                    space=_space(name, size, node.gpus),
                    repeats=repeats,
                    most_rounds=MOST_ROUNDS,
                    repeatable=False,
                )
                searches.append((size, search))
            found[name] = direction_of(searches)
    return CopyProfile(
        format=FORMAT,
        **provenance(),
        machine=Machine.of(node),
        warmup=warmup,
        repeats=repeats,
        directions=found,
    )
