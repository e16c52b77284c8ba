"""Explains why a profile picked its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from interlace.base import table
from interlace.model.mechanisms import Config, label
from interlace.tuning.profiles import Profile
from interlace.tuning.search import Search, Tried


def _outcome(tried: Tried, profile: Profile) -> str:
    """Return the outcome of a candidate as text."""
    search = profile.search
    if tried is search.picked:
        return "picked"
    if tried.dropped is not None:
        return f"dropped in round {tried.dropped_round}: {tried.dropped}"
    if tried.control:
        return "control"
    return "finalist"


def _columns(shown: Sequence[Tried], profile: Profile) -> list[table.Column]:
    medians = [it.median_s or 0.0 for it in shown]
    unit, name = table.scale(medians, table.SECONDS)
    pick = profile.pick.median_s
    counts = [str(sum(len(one.times_s) for one in it.samples)) for it in shown]
    return [
        table.Column(
            "candidate",
            "",
            [label(it.mechanism, Config.of(it.parameters)) for it in shown],
            number=False,
            wraps=True,
        ),
        table.Column("samples", "", counts),
        table.Column("median", name, table.fixed([m / unit for m in medians])),
        table.Column("spread", name, table.fixed([(it.spread_s or 0.0) / unit for it in shown], 3)),
        table.Column("over the pick", "%", [f"{100 * (m / pick - 1):+.1f}" for m in medians]),
        table.Column("", "", [_outcome(it, profile) for it in shown], number=False, wraps=True),
    ]


def _time(seconds: float) -> str:
    unit, name = table.scale([seconds], table.SECONDS)
    return f"{table.fixed([seconds / unit])[0]} {name}"


def _verdict(profile: Profile) -> list[str]:
    pick, control = profile.pick, profile.best_control
    text = f"Picked {pick.label}: median {_time(pick.median_s)}, spread {_time(pick.spread_s)}."
    if profile.search.control_unbeaten:
        return [
            text,
            "It is a control. Other candidates have lower medians, but the differences are within "
            f"the error of measurement ({_time(profile.search.error_s)}).",
        ]
    if control is None:
        return [text, "No control was among the mechanisms."]
    if profile.search.picked.control:
        return [text, "It is a control, and no other candidate was faster."]
    slower = 100 * (control.median_s / pick.median_s - 1)
    return [
        text,
        f"The next control is {control.label}: median {_time(control.median_s)}, "
        f"{slower:.1f} % longer.",
    ]


def _left_out(search: Search) -> list[str]:
    """Return mechanism, parameters and reason for each candidate that was not measured."""
    found: dict[tuple[str, tuple[str, ...], str], list[Config]] = {}
    for it in search.candidates:
        if not it.samples:
            key = it.mechanism, tuple(it.parameters), it.dropped or ""
            found.setdefault(key, []).append(Config.of(it.parameters))
    for out in search.excluded:
        key = out.mechanism, tuple(out.parameters), f"left out: {out.reason}"
        found.setdefault(key, []).append(Config.of(out.parameters))
    lines = []
    for (mechanism, _, reason), configs in found.items():
        more = f" to ({configs[-1].words()}), {len(configs)} in all" if configs[1:] else ""
        lines.append(f"{label(mechanism, configs[0])}{more}: {reason}.")
    return lines


def explain(profile: Profile, path: Path | None = None) -> None:
    """Print the reasons why a profile picked its configuration."""
    search = profile.search
    shown = sorted(
        (it for it in search.candidates if it.samples),
        key=lambda it: (it is not search.picked, not it.finalist, it.median_s or 0.0),
    )
    how = "simulated" if profile.machine.node == "sim" else "measured"
    head = f"{profile.workload}; {how} on {profile.machine.name}, {profile.date}"
    foot = _verdict(profile)
    foot += _left_out(search)
    if path is not None:
        foot.append(f"Profile: {path}")
    styles = [table.BEST if it is search.picked else "dim" if it.dropped else "" for it in shown]
    groups = [0 if it.finalist else 1 for it in shown]
    table.print_table(head, _columns(shown, profile), groups, styles, foot)
