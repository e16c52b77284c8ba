"""Prints the report of the preload library."""

from __future__ import annotations

from interlace.base.table import BYTES, SECONDS, fixed, scale
from interlace.runtime.preload import Counted
from interlace.show.call_sites import quantity


def _plural(count: int, word: str, words: str | None = None) -> str:
    return f"{count} {word if count == 1 else words or word + 's'}"


def warnings(counted: Counted, program: str) -> list[str]:
    """Return the reasons why the library took over no copy at all.

    This function leaves out reasons that concern single copies.
    """
    if counted.loaded == 0:
        return [
            f"warning: the library was never called: {program} is statically linked, runs with "
            "other rights, or removes LD_PRELOAD"
        ]
    if counted.saw_driver == 0 and counted.claimed == 0:
        return [
            f"warning: {program} never looked for a CUDA driver, so there was nothing to take over"
        ]
    if not any(process.tallies for process in counted.processes):
        return ["warning: no CUDA copy was seen"]
    return []


def lines_of(counted: Counted) -> list[str]:
    """Return the lines of the report.

    The lines show the copies that were taken over, all other copies by reason, and the time saved.
    """
    rows: list[tuple[str, int, int]] = []
    tallies = counted.tallies()
    taken = [one for one in tallies if one.outcome in counted.taken_over]
    passed: dict[str, tuple[int, int]] = {}
    for one in tallies:
        if one.outcome not in counted.taken_over:
            copies, size = passed.get(one.outcome, (0, 0))
            passed[one.outcome] = (copies + one.copies, size + one.bytes)
    rows.append(("taken over", sum(o.copies for o in taken), sum(o.bytes for o in taken)))
    # copies that the library took over one by one, each over several paths
    first = counted.taken_over[:1]
    rows += [
        (
            f"  {one.direction}"
            + ("" if one.outcome in first else ", by one kernel for each batch"),
            one.copies,
            one.bytes,
        )
        for one in taken
    ]
    rows.append(
        (
            "passed through",
            sum(copies for copies, _ in passed.values()),
            sum(size for _, size in passed.values()),
        )
    )
    ordered = sorted(passed.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    rows += [(f"  {reason}", *sums) for reason, sums in ordered]
    unit, name = scale([size for _, _, size in rows], BYTES)
    sizes = fixed([size / unit for _, _, size in rows])
    labels = max(len(row[0]) for row in rows)
    counts = max(len("copies"), *(len(str(row[1])) for row in rows))
    width = max(len(name), *map(len, sizes))
    lines_of = [f"{'':{labels}}  {'copies':>{counts}}  {name:>{width}}"]
    lines_of += [
        f"{label:{labels}}  {copies:>{counts}}  {size:>{width}}"
        for (label, copies, _), size in zip(rows, sizes, strict=True)
    ]
    gains = counted.gains()
    predicted = sum(gain.predicted_s for gain in gains)
    direct = sum(gain.direct_s for gain in gains)
    if predicted > 0:
        lines_of.append(
            "predicted for the copies that were taken over: "
            f"{quantity(predicted, SECONDS)} of copying, {quantity(direct, SECONDS)} as plain "
            f"copies; {direct / predicted:.2f} x"
        )
    started = [process.started_s for process in counted.processes if process.engine == "ready"]
    if started:
        lines_of.append(
            f"the engine started in {_plural(len(started), 'process', 'processes')}, in "
            f"{quantity(max(started), SECONDS)}"
        )
    notes = dict.fromkeys(process.note for process in counted.processes if process.note)
    return [*lines_of, *(f"note: {note}" for note in notes)]
