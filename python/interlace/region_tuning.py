"""Tuning of regions for kernels of your own, with profiles that later runs use.

def measure(candidate, repeats):
    with interlace.Region(group, n, "float32", **interlace.region_options(candidate)) as region:
        return [seconds_of_an_epoch(region) for _ in range(repeats)]

tuned = interlace.tune_region("smoothing", measure, group, n, "float32")
region = interlace.Region(group, n, "float32", **tuned.options)
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from interlace import files, profiles
from interlace.errors import UserError
from interlace.mechanisms import BASELINE, MOST_BULK_THREADS
from interlace.nodes import real_node
from interlace.profiles import Machine, Picked, Profile, Subject
from interlace.regions import Group, element_bytes_of, lengths_of
from interlace.results import json_text, provenance
from interlace.tuning import Candidate, Impossible, Tried, tune, tune_space

MECHANISMS = (BASELINE, "inline", "polling", "copy-engine")
KIND = "region"
# Of agents that copy in bulk; fewer than these hardly reach a link's rate.
BULK_THREADS = [1 << k for k in range(8, MOST_BULK_THREADS.bit_length())]


class TunedRegion(NamedTuple):
    """What was found, in this run or in an earlier one."""

    options: dict[str, Any]  # of the fastest, for interlace.Region
    path: Path  # of the profile

    def explain(self) -> None:
        """Print why: every candidate with what was measured, as `interlace tune --explain` does."""
        from interlace.tune_command import explain

        explain(profiles.load(self.path, ""), self.path)


def region_options(candidate: Candidate | Tried | Picked) -> dict[str, Any]:
    """What interlace.Region takes for a candidate."""
    given = dict(candidate.parameters)
    options: dict[str, Any] = {"mechanism": candidate.mechanism}
    if (bulk := given.pop("bulk_threads", None)) is not None:
        given["agent_threads"] = bulk
        options["agent_copy"] = "bulk"
    return options | given


def _of_rank_0(group: Group, make: Callable[[], str]) -> str:
    """What `make` gives on rank 0, on all ranks; so is its UserError."""
    told = {}
    if group.local_devices[0] == 0:
        try:
            told = {"made": make()}
        except UserError as error:
            told = {"error": str(error)}
    first = json.loads(group.gather(json.dumps(told).encode())[0])
    if "error" in first:
        raise UserError(first["error"])
    return str(first["made"])


def _agreed(
    group: Group, measure: Callable[[Candidate, int], Sequence[float]]
) -> Callable[[Candidate, int], list[float]]:
    """As `measure`, with the same answer on all ranks: the longest times."""

    def call(candidate: Candidate, repeats: int) -> list[float]:
        try:
            own: dict[str, Any] = {"s": [float(s) for s in measure(candidate, repeats)]}
        except (Impossible, UserError) as reason:
            own = {"impossible": str(reason) or "no reason was given"}
        every = [json.loads(one) for one in group.gather(json.dumps(own).encode())]
        for one in every:
            if "impossible" in one:
                raise Impossible(one["impossible"])
        return [max(together) for together in zip(*(one["s"] for one in every), strict=True)]

    return call


def _subject(
    name: str, group: Group, shape: Any, dtype: object, boundaries: Sequence[int],
    mechanisms: Sequence[str],
) -> Subject:  # fmt: skip
    elements, width = prod(lengths_of(shape)), element_bytes_of(dtype)
    largest = -(-elements // group.devices)
    if boundaries:
        largest = max(end - begin for begin, end in pairwise(boundaries))
    return Subject(
        kind=KIND,
        data=name,
        gpus=group.devices,
        peers=group.devices - 1,
        elements=elements,
        element_bytes=width,
        part_bytes=largest * width,
        parameters={"mechanisms": ",".join(mechanisms)},
    )


def tune_region(
    name: str,
    measure: Callable[[Candidate, int], Sequence[float]],
    group: Group,
    shape: int | Sequence[int],
    dtype: object,
    *,
    boundaries: Sequence[int] = (),
    mechanisms: Sequence[str] = MECHANISMS,
    repeats: int = 5,
    again: bool = False,
    **tried: Sequence[int],
) -> TunedRegion:
    """The fastest mechanism of a region with its parameters, kept for later runs.

    `measure(candidate, repeats)` gives the seconds of so many runs of whatever the region is for,
    made with `region_options(candidate)`; it raises Impossible for what cannot run, and a region
    that is refused counts as that. `mechanisms` are those that the kernels are made for, bulk-copy
    among them or not; `tried` are lists of values as of `tune_space`.

    The profile is found by `name`, the GPUs, the sizes of the region and the mechanisms, in the
    user's folder of profiles; nothing is measured where there is one, unless `again`. One of
    another driver or number of GPUs is used after a warning. All ranks of a group call it; of the
    ranks' times the longest count. Raises UserError if nothing can be measured.
    """
    node = real_node(0, repeats, hint="regions need GPUs")
    here = Machine.of(node)
    subject = _subject(name, group, shape, dtype, boundaries, mechanisms)
    path = profiles.default_path(here, subject)

    def kept() -> str:
        if path.is_file() and not again:
            return str(path)
        files.make_folder(path.parent)
        files.check_writable(path, "the profile")
        return ""

    if found_at := _of_rank_0(group, kept):
        path = Path(found_at)
        profile = profiles.load(path, "the profile")
        if differences := profile.machine.differences(here):
            warnings.warn(
                f"the profile {path} was made on another machine: {'; '.join(differences)}. It is "
                "used nevertheless; make it anew with again=True",
                stacklevel=2,
            )
        return TunedRegion(region_options(profile.pick), path)

    if "polling" in mechanisms:
        tried = {"bulk_threads": BULK_THREADS, **tried}
    space = tune_space(
        subject.part_bytes,
        subject.peers,
        element_bytes=subject.element_bytes,
        mechanisms=mechanisms,
        **tried,
    )
    found = tune(_agreed(group, measure), space=space, repeats=repeats)
    control = None if found.best_control is None else found.candidates[found.best_control]
    profile = Profile(
        format=profiles.FORMAT,
        **provenance(),
        machine=here,
        workload=subject,
        iterations=1,
        warmup=0,
        repeats=repeats,
        pick=Picked.of(found.picked),
        best_control=None if control is None else Picked.of(control),
        search=found,
    )

    def keep() -> str:
        files.write_all({path: json_text(profile)})
        return "kept"

    _of_rank_0(group, keep)
    return TunedRegion(region_options(found.picked), path)
