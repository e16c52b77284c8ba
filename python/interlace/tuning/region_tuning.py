"""Tunes regions for a program's own kernels, and keeps profiles that later runs use.

    def measure(candidate, repeats):
        with interlace.Region(group, n, "float32", **interlace.region_options(candidate)) as region:
            return [seconds_of_an_epoch(region) for _ in range(repeats)]

    tuned = interlace.tune_region("smoothing", measure, group, n, "float32")
    region = interlace.Region(group, n, "float32", **tuned.options)

The profiles have the same form as the profiles of `interlace tune`. All ranks of a group use the
same profile.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base import files
from interlace.base.errors import UserError
from interlace.model.mechanism_table import BULK_THREADS
from interlace.model.mechanisms import BULK, OF_REGIONS, powers_tried
from interlace.model.results import json_text
from interlace.nodes.nodes import real_node
from interlace.runtime.regions import Group, boundaries_of, element_bytes_of, lengths_of
from interlace.tuning import profiles
from interlace.tuning.profiles import Machine, Picked, Profile, Subject, Use
from interlace.tuning.search import Candidate, Impossible, Tried, tune, tune_space

KIND = "region"
TAG = b"tune_region "  # the first bytes of each message between ranks


class TunedRegion(NamedTuple):
    """The result of a search, which ran just now or in an earlier run."""

    options: dict[str, Any]  # the fastest configuration, as arguments of interlace.Region
    path: Path  # the profile's file

    def explain(self) -> None:
        """Print every candidate with its measurements, as `interlace tune --explain` does."""
        from interlace.tuning.explanation import explain

        explain(profiles.load(self.path, ""), self.path)


def region_options(candidate: Candidate | Tried | Picked) -> dict[str, Any]:
    """Return the keyword arguments of interlace.Region for a candidate."""
    given = dict(candidate.parameters)
    options: dict[str, Any] = {"mechanism": candidate.mechanism}
    if (bulk := given.pop("bulk_threads", None)) is not None:
        given["agent_threads"] = bulk
        options["agent_copy"] = BULK
    return options | given


def _together(group: Group, make: Callable[[], Any]) -> list[Any]:
    """Call `make` on all ranks, and return the results of all ranks, in the order of the ranks.

    If `make` raises on one rank, this function raises on all ranks. The rank may fail before it
    makes a region, while all other ranks already take part in the gather that makes a region. That
    gather then fails, and all ranks gather again here.
    """
    told: dict[str, Any]
    failed: Exception | None = None
    try:
        told = {"made": make()}
    except (Impossible, UserError) as reason:
        told = {"refused": str(reason) or "no reason was given"}
    except Exception as error:
        failed = error
        told = {"failed": f"{type(error).__name__}: {error}"}
    own = TAG + json.dumps(told).encode()
    while True:
        every = group.gather(own)
        if all(one.startswith(TAG) for one in every):
            break
    found = [json.loads(one.removeprefix(TAG)) for one in every]
    for rank, one in enumerate(found):
        if "failed" in one:
            raise failed or RuntimeError(f"rank {rank} failed: {one['failed']}")
    if refused := [one["refused"] for one in found if "refused" in one]:
        # The region's own error says only that another rank failed while the ranks gathered.
        raise UserError(next((why for why in refused if TAG.decode()[1:] not in why), refused[0]))
    return [one["made"] for one in found]


def _subject(
    name: str, group: Group, shape: Any, dtype: object, boundaries: Sequence[int],
    mechanisms: Sequence[str],
) -> Subject:  # fmt: skip
    elements, width = prod(lengths_of(shape)), element_bytes_of(dtype)
    largest = -(-elements // group.devices)
    cut = boundaries_of(boundaries)
    if cut:
        if len(cut) != group.devices + 1:
            raise UserError(
                f"{len(cut)} boundaries for {group.devices} devices; give one boundary more than "
                "devices"
            )
        largest = max(end - begin for begin, end in pairwise(cut))
    return Subject(
        kind=KIND,
        data=name,
        gpus=group.devices,
        peers=group.devices - 1,
        elements=elements,
        element_bytes=width,
        part_bytes=largest * width,
        parameters={"mechanisms": ",".join(sorted(mechanisms))},
    )


def tune_region(
    name: str,
    measure: Callable[[Candidate, int], Sequence[float]],
    group: Group,
    shape: int | Sequence[int],
    dtype: object,
    *,
    boundaries: Sequence[int] = (),
    mechanisms: Sequence[str] = OF_REGIONS,
    repeats: int = 5,
    again: bool = False,
    **tried: Sequence[int],
) -> TunedRegion:
    """Find the fastest mechanism of a region and its parameters, and keep them for later runs.

    The result is a profile in the user's folder of profiles. The profile is identified by `name`,
    the GPUs, the sizes of the region and the mechanisms. If this profile already exists, nothing is
    measured. If the profile comes from another driver or from a computer with another number of
    GPUs, a warning precedes its use. All ranks of a group must call this function. The time of a
    candidate is the time of its slowest rank.

    Args:
        name: The name of the program's work, which identifies the profile.
        measure: A function of (candidate, repeats). It makes the region with
            `region_options(candidate)`, runs the work `repeats` times and returns the seconds of
            each run. It raises Impossible for a candidate that cannot run. UserError, for example
            because a region is refused, has the same effect as Impossible.
        group: The devices that hold the region.
        shape: The region's shape.
        dtype: The region's dtype.
        boundaries: The region's boundaries.
        mechanisms: The mechanisms that the kernels support, with or without bulk-copy.
        repeats: The number of samples of a finalist in each round.
        again: Measure even if there is a profile.
        tried: Lists of values by parameter, as for `tune_space`.

    Raises:
        UserError: An argument is wrong, or no candidate can be measured. An error of `measure` on
            one rank is an error on all ranks.

    Example::

        def measure(candidate, repeats):
            options = interlace.region_options(candidate)
            with interlace.Region(group, n, "float32", **options) as region:
                return [seconds_of_an_epoch(region) for _ in range(repeats)]

        tuned = interlace.tune_region("smoothing", measure, group, n, "float32")
        region = interlace.Region(group, n, "float32", **tuned.options)
    """

    here: Machine
    subject: Subject
    is_first = group.local_devices[0] == 0

    def prepared() -> tuple[str, bool] | None:
        """Return rank 0's path for the profile, and whether a file exists there."""
        nonlocal here, subject
        here = Machine.of(real_node(0, repeats, hint="regions need GPUs"))
        subject = _subject(name, group, shape, dtype, boundaries, mechanisms)
        if not is_first:
            return None
        path = profiles.default_path(here, subject)
        try:
            there = path.is_file() and not again
        except OSError as error:
            raise UserError(f"the profile {path} cannot be read: {error.strerror}") from None
        if not there:
            files.make_folder(path.parent)
            files.check_writable(path, "the profile")
        return str(path), there

    place, there = _together(group, prepared)[0]
    path = Path(place)
    if there:
        pick, warning = _together(group, lambda: _kept(path, here) if is_first else None)[0]
        if warning is not None:
            warnings.warn(warning, stacklevel=2)
        return TunedRegion(pick, path)

    tried = {BULK_THREADS.name: powers_tried(BULK_THREADS), **tried}
    space = tune_space(
        subject.part_bytes,
        subject.peers,
        element_bytes=subject.element_bytes,
        mechanisms=mechanisms,
        **tried,
    )

    def longest(candidate: Candidate, count: int) -> list[float]:
        every = _together(group, lambda: [float(s) for s in measure(candidate, count)])
        return [max(samples) for samples in zip(*every, strict=True)]

    found = tune(longest, space=space, repeats=repeats)
    profile = Profile.of(here, subject, found, iterations=1, warmup=0, repeats=repeats)

    def keep() -> None:
        if is_first:
            files.write_all({path: json_text(profile)})

    _together(group, keep)
    return TunedRegion(region_options(found.picked), path)


def _kept(path: Path, here: Machine) -> tuple[dict[str, Any], str | None]:
    """Return the options of a profile's pick, and a warning if the profile's machine differs."""
    profile = profiles.load(path, "the profile")
    use = Use(path, profile, profile.machine.differences(here))
    return region_options(profile.pick), use.warning("make it anew with again=True")
