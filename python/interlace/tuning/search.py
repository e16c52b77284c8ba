"""Picks a mechanism and its parameters by measuring; the search itself is compiled.

    space = interlace.tune_space(part_bytes=1 << 26, peers=3)
    found = interlace.tune(measure, space=space)
    print(found.picked.mechanism, found.picked.parameters)

`measure(candidate, repeats)` gives the seconds of so many runs. `include/interlace/tune.hpp` says
how the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from interlace.base.errors import UserError
from interlace.base.native import load_core
from interlace.model.mechanisms import CONTROLS, TUNED


class Impossible(Exception):  # noqa: N818 (an answer, not an error)
    """What `measure` raises for a candidate that cannot be run; the message is the reason."""


class Candidate(NamedTuple):
    """A mechanism, and its parameters by name: ranges, chunk_bytes, agent_threads, bulk_threads."""

    mechanism: str
    parameters: dict[str, int]


class Round(NamedTuple):
    """What is measured side by side."""

    number: int  # from 1
    final: bool
    candidates: list[Candidate]  # in the order to measure
    repeats: int  # samples wanted of each
    measured: int  # candidates in all rounds before
    expected: int  # in all rounds, as far as can be foreseen


class Samples(msgspec.Struct, frozen=True):
    """The samples of a candidate in one round."""

    round: int
    times_s: list[float]


class Tried(msgspec.Struct, frozen=True):
    """A candidate with all that was measured of it, or the reason why nothing was."""

    mechanism: str
    parameters: dict[str, int]
    control: bool
    finalist: bool
    median_s: float | None  # of the final rounds, of all where it came into none
    spread_s: float | None  # from the first to the third quartile
    samples: list[Samples]
    dropped: str | None  # why
    dropped_round: int | None  # behind this round


class Excluded(msgspec.Struct, frozen=True):
    """A value that the region does not allow."""

    mechanism: str
    parameters: dict[str, int]
    reason: str


class Search(msgspec.Struct, frozen=True):
    """What a search found."""

    pick: int  # of `candidates`
    best_control: int | None
    error_s: float  # of the difference between the pick and the best control
    control_unbeaten: bool  # the pick is a control although another median is lower
    rounds: int
    candidates: list[Tried]
    excluded: list[Excluded]

    @property
    def picked(self) -> Tried:
        """The fastest."""
        return self.candidates[self.pick]

    def best(self, mechanism: str) -> Tried | None:
        """The fastest that was measured of a mechanism; finalists before others."""
        found = [it for it in self.candidates if it.mechanism == mechanism and it.samples]
        if mechanism == self.picked.mechanism:
            return self.picked
        # What was measured side by side at the end compares better than what was not.
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
    """The candidates of a region of which a device sends at most `part_bytes` as a whole.

    `tried` are lists of values: ranges, chunk_bytes, agent_threads; by default powers of 2, from 2
    to 32, 4 KiB to 16 MiB and 32 to 16384. And bulk_threads, by default none: threads of agents of
    `polling` that copy in bulk. Raises UserError for what cannot be tried.
    """
    return load_core().tune_space(
        part_bytes=part_bytes,
        peers=peers,
        element_bytes=element_bytes,
        mechanisms=list(mechanisms),
        **tried,
    )


def _space(given: Any) -> Any:
    """A space of the compiled search, from one or from {mechanism: {parameter: values}}."""
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
    """The fastest candidate of a space, with everything that was measured to pick it.

    `measure` gives as many seconds as the number that it is called with, and raises Impossible for
    a candidate that cannot run; a UserError of something that it calls says the same. `space` comes
    from `tune_space`, or is {mechanism: {parameter: values}}, where `bulk-copy` and `split` are
    controls. Finalists are measured in `most_rounds` at most; `repeatable`: a candidate always
    takes the same time. Raises UserError if nothing can be measured or a time is none.
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
    """As `tune`; `measure` gives each candidate of a round its seconds, or why it is impossible."""

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
