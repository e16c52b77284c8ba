"""Picks a mechanism and its parameters by measurement. The search itself is in C++.

    space = interlace.tune_space(part_bytes=1 << 26, peers=3)
    found = interlace.tune(measure, space=space)
    print(found.picked.mechanism, found.picked.parameters)

`measure(candidate, repeats)` returns the seconds of each of `repeats` runs.
`include/interlace/tune.hpp` describes the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.model.mechanisms import CONTROLS, TUNED


class Impossible(Exception):  # noqa: N818 (an answer, not an error)
    """`measure` raises this error for a candidate that cannot run. Its message is the reason."""


class Candidate(NamedTuple):
    """A mechanism and its parameters by name: ranges, chunk_bytes, agent_threads, bulk_threads."""

    mechanism: str
    parameters: dict[str, int]


class Round(NamedTuple):
    """The candidates of one round, which are measured in turn."""

    number: int  # the rounds' numbers begin at 1
    final: bool
    candidates: list[Candidate]  # in the order in which they are measured
    repeats: int  # the number of samples to measure of each candidate
    measured: int  # the number of candidates in all earlier rounds
    expected: int  # the number of candidates in all rounds, as far as the search knows it


class Samples(msgspec.Struct, frozen=True):
    """The samples of a candidate in one round."""

    round: int
    times_s: list[float]


class Tried(msgspec.Struct, frozen=True):
    """A candidate with all its measurements, or with the reason why it has none."""

    mechanism: str
    parameters: dict[str, int]
    control: bool
    finalist: bool
    # the median over all samples of the final rounds, or of all rounds without final rounds
    median_s: float | None
    spread_s: float | None  # the third quartile minus the first quartile
    samples: list[Samples]
    dropped: str | None  # the reason why the candidate was dropped
    dropped_round: int | None  # the round after which the candidate was dropped


class Excluded(msgspec.Struct, frozen=True):
    """A value of a parameter that the region does not allow."""

    mechanism: str
    parameters: dict[str, int]
    reason: str


class Search(msgspec.Struct, frozen=True):
    """The result of a search."""

    pick: int  # the index of the pick in `candidates`
    best_control: int | None
    error_s: float  # chance alone can make the pick this much faster than the best control
    control_unbeaten: bool  # true if the pick is a control although another median is lower
    rounds: int
    candidates: list[Tried]
    excluded: list[Excluded]

    @property
    def picked(self) -> Tried:
        """Return the fastest candidate."""
        return self.candidates[self.pick]

    def best(self, mechanism: str) -> Tried | None:
        """Return the fastest measured candidate of a mechanism.

        If the mechanism has finalists, only the finalists are compared.
        """
        found = [it for it in self.candidates if it.mechanism == mechanism and it.samples]
        if mechanism == self.picked.mechanism:
            return self.picked
        # Finalists were measured in the same rounds, so their times can be compared more exactly.
        found = [it for it in found if it.finalist] or found
        return min(found, key=lambda it: it.median_s or 0.0, default=None)


def tune_space(
    part_bytes: int,
    peers: int = 1,
    *,
    element_bytes: int = 1,
    mechanisms: Sequence[str] = TUNED,
    **tried: Sequence[int],
) -> Any:
    """Make the candidates for a region. A device sends a part of at most `part_bytes` bytes.

    Args:
        part_bytes: The bytes of the largest part that a device sends as a whole.
        peers: The number of other devices that receive a part.
        element_bytes: The size of an element in bytes.
        mechanisms: The mechanisms to try. By default all mechanisms that tuning tries.
        tried: Lists of values by parameter: `ranges` (by default powers of 2 from 2 to 32),
            `chunk_bytes` (by default 4 KiB to 16 MiB), `agent_threads` (by default 32 to 16384) and
            `bulk_threads`, the threads of `polling` agents that copy in bulk (by default none).

    Raises:
        UserError: A value is outside its range.

    Example::

        space = interlace.tune_space(part_bytes=1 << 26, peers=3)
    """
    return load_core().tune_space(
        part_bytes=part_bytes,
        peers=peers,
        element_bytes=element_bytes,
        mechanisms=list(mechanisms),
        **tried,
    )


def _space(given: Any) -> Any:
    """Return a space in the form that the compiled search needs.

    `given` is the result of `tune_space` or {mechanism: {parameter: values}}.
    """
    if not isinstance(given, Mapping):
        return given
    core = load_core()
    return core.TuneSpace(
        [
            core.TuneFamily(mechanism, list(axes.items()), mechanism in CONTROLS)
            for mechanism, axes in given.items()
        ]
    )


def tune(
    measure: Callable[[Candidate, int], Sequence[float]],
    *,
    space: Any,
    repeats: int = 3,
    most_rounds: int = 8,
    repeatable: bool = False,
) -> Search:
    """Find the fastest candidate of a space.

    Args:
        measure: A function of (candidate, repeats) that returns `repeats` times in seconds. It
            raises Impossible for a candidate that cannot run. UserError has the same effect.
        space: The result of `tune_space`, or {mechanism: {parameter: values}}. `bulk-copy` and
            `split` are the controls: one of them is picked unless another candidate is faster.
        repeats: The number of samples of a finalist in each round.
        most_rounds: The largest number of rounds in which finalists are measured.
        repeatable: Whether every run of a candidate takes exactly the same time.

    Returns:
        The pick, with all its measurements.

    Raises:
        UserError: No candidate can be measured, or `measure` returned an invalid time.

    Example::

        def measure(candidate, repeats):
            return [1.0 if candidate.mechanism == "bulk-copy" else 0.5] * repeats

        found = interlace.tune(measure, space={"bulk-copy": {}, "inline": {}})
        assert found.picked.mechanism == "inline"
    """

    def in_turn(round_: Round) -> list[Sequence[float] | str]:
        found: list[Sequence[float] | str] = []
        for candidate in round_.candidates:
            try:
                found.append([float(s) for s in measure(candidate, round_.repeats)])
            except (Impossible, UserError) as reason:
                found.append(str(reason) or "no reason was given")
        return found

    return tune_in_rounds(
        in_turn, space=space, repeats=repeats, most_rounds=most_rounds, repeatable=repeatable
    )


def tune_in_rounds(
    measure: Callable[[Round], Sequence[Sequence[float] | str]],
    *,
    space: Any,
    repeats: int,
    most_rounds: int,
    repeatable: bool,
) -> Search:
    """Search like `tune`, but measure a whole round in each call.

    For each candidate of the round, `measure` returns either the seconds of the candidate's runs or
    the reason why the candidate cannot run.
    """

    def call(given: Any) -> Sequence[Sequence[float] | str]:
        return measure(
            Round(
                given.number,
                given.final,
                [Candidate(*it) for it in given.candidates],
                given.repeats,
                given.measured,
                given.expected,
            )
        )

    made = _space(space)
    found = load_core().tune_in_rounds(made, call, repeats, most_rounds, repeatable)
    return Search(
        pick=found.pick,
        best_control=found.best_control,
        error_s=found.error_s,
        control_unbeaten=found.control_unbeaten,
        rounds=found.rounds,
        candidates=[_tried(it) for it in found.candidates],
        excluded=[
            Excluded(mechanism, parameters, reason)
            for (mechanism, parameters), reason in made.excluded
        ],
    )


def _tried(found: Any) -> Tried:
    mechanism, parameters = found.candidate
    measured = bool(found.rounds)
    return Tried(
        mechanism=mechanism,
        parameters=parameters,
        control=found.control,
        finalist=found.finalist,
        median_s=found.median_s if measured else None,
        spread_s=found.spread_s if measured else None,
        samples=[Samples(number, times) for number, times in found.rounds],
        dropped=found.dropped or None,
        dropped_round=found.dropped_round if found.dropped else None,
    )
