"""Prints a plan for people."""

from __future__ import annotations

import re
from collections import Counter

from interlace.base.table import BYTES, SECONDS, fixed, scale
from interlace.study.plan import Planned

USED, UNUSED = "in", "out"


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
        f"{what} on {planned.machine.name}: predicted for this plan "
        f"{_rate(planned, plan.predicted_s)}; predicted for direct paths "
        f"{_rate(planned, plan.direct_s)}; speedup {plan.direct_s / plan.predicted_s:.2f} x"
    )


def _one_message(planned: Planned) -> list[str]:
    """Return a line for each path: why the plan uses the path, or why not."""
    width = max(len(name) for name in ["path", *planned.path_names])
    lines = [f"{'path':{width}}       why"]
    for name, path in zip(planned.path_names, planned.plan.paths, strict=True):
        lines.append(f"{name:{width}}  {USED if path.bytes else UNUSED:3}  {path.reason}")
    return lines


def _several_messages(planned: Planned) -> list[str]:
    """Return a line for each message with the paths that it uses.

    Further lines say why other paths are not used.
    """
    plan = planned.plan
    starts = max(len("from"), *(len(m.start) for m in planned.messages))
    ends = max(len("to"), *(len(m.end) for m in planned.messages))
    in_rounds = any(plan.rounds)
    lines = [f"{'from':{starts}}  {'to':{ends}}  {'bytes':>9}{'  round' * in_rounds}  paths"]
    for index, (message, turn) in enumerate(zip(planned.messages, plan.rounds, strict=True)):
        used = [
            f"{name} {100 * path.bytes / message.bytes:.0f} %"
            for name, path in zip(planned.path_names, plan.paths, strict=True)
            if path.message == index and path.bytes
        ]
        lines.append(
            f"{message.start:{starts}}  {message.end:{ends}}  {_size(message.bytes):>9}"
            f"{f'  {turn:>5}' * in_rounds}  {', '.join(used)}"
        )
    if in_rounds:
        lines += [
            "",
            "The messages of one round share no port. Copies of earlier rounds start first.",
        ]
    reasons = Counter(
        re.sub(r"gpu\d+", "a gpu", path.reason) for path in plan.paths if not path.bytes
    )
    lines += ["", "paths that are not used, by reason"] if reasons else []
    lines += [f"{count:>5}  {reason}" for reason, count in reasons.most_common()]
    return lines


def print_plan(planned: Planned) -> None:
    """Print a plan for people."""
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
        how = "a reused graph" if executor == "graphs" else executor
        print(f"simulated, by {how}: {_rate(planned, seconds)}")
