"""What a simulated run shows of itself: traffic between GPUs, use of links, who was idle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interlace.model.mechanisms import BOUND, Config, label
from interlace.show import table

if TYPE_CHECKING:
    from interlace.model.results import StudyRow

IDLE_SHARE = 0.2  # of the time, above which a GPU that others leave behind is worth a warning
SPARKS = " ▁▂▃▄▅▆▇█"
SPARK_WIDTH = 32


class Pair(msgspec.Struct, frozen=True):
    """All messages from one GPU to another; a message is what is routed as a whole."""

    source: int = msgspec.field(name="from")
    to: int
    messages: int
    packets: int
    payload_bytes: int
    protocol_bytes: int
    mean_latency_s: float  # from when a message wants the first link to its delivery
    max_latency_s: float


class LinkUse(msgspec.Struct, frozen=True):
    """One direction of a link that carried something; parts of the time that it was busy."""

    source: str = msgspec.field(name="from")
    to: str
    protocol: str
    wire_bytes: int
    busy: float
    by_bin: list[float]

    @property
    def name(self) -> str:
        """Both ends, as people read them."""
        return f"{self.source} -> {self.to}"


class Activity(msgspec.Struct, frozen=True):
    """What kept a GPU busy, as parts of the time, of its issue slots and its memory bandwidth."""

    kernel: float
    copy: float
    idle: float
    idle_while_others_compute: float
    issue: float
    memory: float


class Inside(msgspec.Struct, frozen=True):
    """A whole run: its pairs, its links in bins of time, its GPUs."""

    time_s: float
    bin_s: float
    pairs: list[Pair]
    links: list[LinkUse]
    gpus: list[Activity]


def inside_of(observed: dict[str, Any]) -> Inside:
    """What a compiled module returned; parts of one are rounded to what a reader can use."""
    links = [
        {
            **link,
            "busy": round(link["busy"], 6),
            "by_bin": [round(part, 4) for part in link["by_bin"]],
        }
        for link in observed["links"]
    ]
    gpus = [{key: round(part, 6) for key, part in gpu.items()} for gpu in observed["gpus"]]
    return msgspec.convert({**observed, "links": links, "gpus": gpus}, Inside)


def matrix(inside: Inside, value: Callable[[Pair], float]) -> list[list[float | None]]:
    """A value of each pair: [from][to], None where nothing was sent."""
    count = len(inside.gpus)
    found: list[list[float | None]] = [[None] * count for _ in range(count)]
    for pair in inside.pairs:
        found[pair.source][pair.to] = value(pair)
    return found


def of_row(row: StudyRow) -> Inside | None:
    """What is known of a row's inside."""
    if not row.sim or not row.sim.inside:
        return None
    return row.sim.inside


def warnings(rows: Sequence[StudyRow]) -> list[str]:
    """A sentence for each number of GPUs where one of them waits long for the others."""
    worst: dict[int, tuple[float, int, StudyRow]] = {}
    for row in rows:
        inside = of_row(row)
        if inside is None or row.gpus == 1 or row.mechanism == BOUND:
            continue
        for index, gpu in enumerate(inside.gpus):
            share = gpu.idle_while_others_compute
            if share > IDLE_SHARE and share > worst.get(row.gpus, (0.0, 0, row))[0]:
                worst[row.gpus] = (share, index, row)
    return [
        f"Warning: of {gpus} GPUs, gpu{index} is idle in {100 * share:.0f} % of the time while "
        f"others compute ({_label(row)}); above {100 * IDLE_SHARE:.0f} % the work is cut unevenly, "
        "or launches and exchanges outweigh it."
        for gpus, (share, index, row) in sorted(worst.items())
    ]


def _label(row: StudyRow) -> str:
    return label(row.mechanism, Config.of(row.config), short=True)


# --- text -----------------------------------------------------------------------------------------


def print_inside(rows: Sequence[StudyRow]) -> None:
    """Print the matrices, links and GPUs of every row on several GPUs."""
    for row in rows:
        inside = of_row(row)
        if inside is not None and row.gpus > 1:
            print("\n".join(["", *text(f"{_label(row)} on {row.gpus} GPUs", inside)]))


def text(title: str, inside: Inside) -> list[str]:
    """The inside of one run, line by line."""
    lines = [f"Inside {title}"]
    if inside.pairs:
        size, unit = table.scale(
            (float(p.payload_bytes + p.protocol_bytes) for p in inside.pairs), table.BYTES
        )
        lines += _matrix(f"payload, {unit}", matrix(inside, lambda p: p.payload_bytes / size))
        lines += _matrix(f"protocol, {unit}", matrix(inside, lambda p: p.protocol_bytes / size))
        lines += _matrix("packets", matrix(inside, lambda p: p.packets), places=0)
        lines += _matrix("mean latency, us", matrix(inside, lambda p: p.mean_latency_s * 1e6))
        lines += _matrix("max latency, us", matrix(inside, lambda p: p.max_latency_s * 1e6))
        lines += _links(inside)
    return [*lines, *_gpus(inside)]


def _matrix(what: str, cells: list[list[float | None]], *, places: int | None = None) -> list[str]:
    flat = [value for line in cells for value in line]
    if places is None:
        shown = table.fixed(flat)
    else:
        shown = [table.UNKNOWN if v is None else f"{v:.{places}f}" for v in flat]
    count = len(cells)
    columns = [
        table.Column("from", what, [f"gpu{index}" for index in range(count)], number=False),
        *(
            table.Column("to" if to == 0 else "", f"gpu{to}", shown[to::count])
            for to in range(count)
        ),
    ]
    return ["", table.plain(columns)]


def _links(inside: Inside) -> list[str]:
    size, unit = table.scale((float(link.wire_bytes) for link in inside.links), table.BYTES)
    columns = [
        table.Column("link", "", [link.name for link in inside.links], number=False),
        table.Column("", "", [link.protocol for link in inside.links], number=False),
        table.Column("wire", unit, table.fixed([n.wire_bytes / size for n in inside.links])),
        table.Column("busy", "%", [f"{100 * link.busy:.1f}" for link in inside.links]),
        table.Column(
            "over time",
            f"0 to {_seconds(inside.time_s)}; a full block is 100 %",
            [f"|{spark(link.by_bin)}|" for link in inside.links],
            number=False,
        ),
    ]
    return ["", table.plain(columns)]


def _seconds(seconds: float) -> str:
    size, unit = table.scale([seconds], table.SECONDS)
    return f"{seconds / size:.4g} {unit}"


def spark(parts: Sequence[float]) -> str:
    """Parts of one as blocks of growing height, a character for the mean of some bins."""
    width = min(SPARK_WIDTH, len(parts))
    cuts = [len(parts) * k // width for k in range(width + 1)] if width else [0]
    means = [sum(parts[begin:end]) / (end - begin) for begin, end in itertools.pairwise(cuts)]
    # Whatever is not nothing is at least the lowest block.
    steps = len(SPARKS) - 1
    return "".join(SPARKS[min(steps, max(int(mean > 0), round(mean * steps)))] for mean in means)


def _gpus(inside: Inside) -> list[str]:
    columns = [
        table.Column("GPU", "", [f"gpu{index}" for index in range(len(inside.gpus))], number=False)
    ]
    for name, unit, value in (
        ("kernel", "% of time", "kernel"),
        ("copies", "% of time", "copy"),
        ("idle", "% of time", "idle"),
        ("while others", "compute, %", "idle_while_others_compute"),
        ("issue slots", "% used", "issue"),
        ("memory", "% of GB/s", "memory"),
    ):
        cells = [f"{100 * getattr(gpu, value):.1f}" for gpu in inside.gpus]
        columns.append(table.Column(name, unit, cells))
    return ["", table.plain(columns)]
