"""The figures that the text of the DualOpt paper states, beside our figures.

The paper is Belayneh et al., "Locality-aware Optimizations for Improving Remote Memory Latency in
Multi-GPU Systems" (PACT 2022).

If the text gives no number for a bar, the bar has no published value here. The paper's baseline,
direct cache access, is the treatment `direct`. Every run is simulated on the paper's machine, four
R9 Nanos. Where the paper leaves something open, `dualopt_inputs` explains our choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from interlace.data.graphs import rmat
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.machine.schema import Link, Machine, Switch
from interlace.model.remote_load_table import (
    BYPASS,
    COALESCED,
    DIRECT,
    DUALOPT,
    DUALOPT_ADAPTIVE,
    DUALOPT_FINEPACK,
    DUALOPT_PAGES,
    FINE_GRAINED,
    GRIFFIN,
    PAGE_MIGRATION,
    RDMA_CACHE,
)
from interlace.nodes.nodes import CudaNode
from interlace.reproduce import dualopt_inputs as given
from interlace.reproduce.dualopt_inputs import LARGE, SMALL
from interlace.reproduce.rows import FigureRow, Run, Value, row
from interlace.reproduce.runs import Runner
from interlace.study.cost import NEEDS, parts
from interlace.study.locality import CACHED, FINE, LOCAL, PUBLISHED, THRESHOLDS, classify
from interlace.workloads import unified
from interlace.workloads.unified import breadth_first

TITLE = "DualOpt (PACT 2022): published figures, and figures simulated on the paper's machine"

STEPS = (BYPASS, FINE_GRAINED, COALESCED)  # each step adds one optimisation to the previous step
# Griffin with arrays that begin on the same GPUs as in the baseline
PLACED = f"{GRIFFIN}, placed"
OWN = "own"  # the machine whose figures are compared with the paper's figures
FINE_L2 = "fine-l2"  # a machine whose caches fetch single sectors of a line
# A machine whose packets hold several stores. In MGPUSim, a packet holds one store.
LARGE_PACKETS = "large-packets"
# Treatments that go beyond the paper: an engine that decides repeatedly, an engine that decides for
# each page, and FinePack's queues for stores. An entry has the last part of the keys of the
# figures, and the machine on which the treatment and dualopt run.
PAST = {
    DUALOPT_ADAPTIVE: ("adaptive", OWN),
    DUALOPT_PAGES: ("pages", OWN),
    DUALOPT_FINEPACK: ("finepack", LARGE_PACKETS),
}
PLACED_RUNS = (DIRECT, DUALOPT)  # the treatments that run with other placements
OTHER_GRAPH_RUNS = (DIRECT, DUALOPT)  # the treatments that run bfs on another graph
FOUR = 4
WORDS = 16  # the number of words of 4 bytes in a line
# Maps the engine's choice to the class of programs for which this choice is right.
CLASS_OF = {"none": LOCAL, COALESCED: FINE, RDMA_CACHE: CACHED}

INSENSITIVE = tuple(name for name, kind in PUBLISHED.items() if kind == FINE)
FRIENDLY = tuple(name for name, kind in PUBLISHED.items() if kind == CACHED)
AVERAGED = INSENSITIVE + FRIENDLY


# --- machines -------------------------------------------------------------------------------------


def _with_dualopt(machine: Machine, **keys: Any) -> Machine:
    before = machine.gpu.dualopt
    assert not isinstance(before, msgspec.UnsetType)
    treated = msgspec.structs.replace(before, **keys)
    return msgspec.structs.replace(
        machine, gpu=msgspec.structs.replace(machine.gpu, dualopt=treated)
    )


def _with_links(machine: Machine, bandwidth: float, latency: float = 1.0) -> Machine:
    """Return the machine with other links.

    The bandwidth of each link is multiplied by `bandwidth`. The latency of each link and of each
    switch is multiplied by `latency`.
    """
    links = [
        msgspec.structs.replace(
            link,
            bandwidth_GB_per_s=link.bandwidth_GB_per_s * bandwidth,
            latency_ns=link.latency_ns * latency,
        )
        for link in machine.link
    ]
    switches = [
        msgspec.structs.replace(switch, latency_ns=switch.latency_ns * latency)
        for switch in machine.switch
    ]
    return msgspec.structs.replace(machine, link=links, switch=switches)


def _with_flits(machine: Machine, size: int) -> Machine:
    """Return the machine with flits of another size, at the same frequency."""
    ((name, protocol),) = machine.protocol.items()
    before = protocol.flit_bytes
    assert isinstance(before, int)
    larger = msgspec.structs.replace(protocol, flit_bytes=size)
    links = [  # a buffer holds as many flits as before
        msgspec.structs.replace(link, queue_KiB=link.queue_KiB * size / before)
        if isinstance(link.queue_KiB, int | float)
        else link
        for link in machine.link
    ]
    machine = msgspec.structs.replace(machine, link=links)
    return msgspec.structs.replace(_with_links(machine, size / before), protocol={name: larger})


def _with_packets(machine: Machine, most: int) -> Machine:
    larger = {
        name: msgspec.structs.replace(protocol, max_payload_bytes=most)
        for name, protocol in machine.protocol.items()
    }
    return msgspec.structs.replace(machine, protocol=larger)


def _with_dispatch(machine: Machine, how: str) -> Machine:
    launch = msgspec.structs.replace(machine.gpu.launch, dispatch=how)
    return msgspec.structs.replace(machine, gpu=msgspec.structs.replace(machine.gpu, launch=launch))


def of_gpus(machine: Machine, count: int) -> Machine:
    """Return the machine as a tree for an even number of GPUs, with two GPUs below each switch."""
    to_gpus = next(link for link in machine.link if link.ends[0].startswith("gpu"))
    to_root = next(link for link in machine.link if link.ends[1] == "host")
    switches: list[Switch] = []
    links: list[Link] = []
    for k in range(count // 2):
        name = f"switch{k}"
        switches.append(msgspec.structs.replace(machine.switch[0], name=name))
        links.append(msgspec.structs.replace(to_gpus, ends=(f"gpu{2 * k}-{2 * k + 1}", name)))
        links.append(msgspec.structs.replace(to_root, ends=(name, "host")))
    return msgspec.structs.replace(
        machine, gpu=msgspec.structs.replace(machine.gpu, count=count), switch=switches, link=links
    )


def _with_ideal_cache(machine: Machine) -> Machine:
    kib = given.IDEAL_CACHE_MIB * 1024
    l2 = msgspec.structs.replace(machine.gpu.l2, size_KiB=machine.gpu.l2.size_KiB + kib)
    larger = msgspec.structs.replace(machine, gpu=msgspec.structs.replace(machine.gpu, l2=l2))
    return _with_dualopt(larger, rdma_cache_KiB=kib)


def _with_sectors(machine: Machine, size: int) -> Machine:
    """Return the machine with caches that fetch sectors of `size` bytes instead of whole lines."""
    gpu = msgspec.structs.replace(
        machine.gpu,
        l1=msgspec.structs.replace(machine.gpu.l1, sector_bytes=size),
        l2=msgspec.structs.replace(machine.gpu.l2, sector_bytes=size),
    )
    return msgspec.structs.replace(machine, gpu=gpu)


def machines() -> dict[str, Machine]:
    """Return the paper's machine and its variants, by name."""
    own = _with_dispatch(load_machine(given.MACHINE), given.DISPATCH)
    found = {
        OWN: own,
        "64gbps": _with_dispatch(load_machine(given.OTHER_READING), given.DISPATCH),
        "ideal-cache": _with_ideal_cache(own),
        FINE_L2: _with_sectors(own, given.FINE_L2_BYTES),
        LARGE_PACKETS: _with_packets(own, given.LARGE_PACKET_BYTES),
    }
    for factor in given.FREQUENCIES:
        found[f"frequency-{factor}"] = _with_links(own, factor, 1 / factor)
        found[f"bandwidth-{factor}"] = _with_links(own, factor)
    for size in given.GRANULARITIES:
        found[f"granularity-{size}"] = _with_dualopt(own, granularity_bytes=size)
    for clocks in given.TIMEOUTS:
        found[f"timeout-{clocks}"] = _with_dualopt(own, timeout_clocks=clocks)
    for how in given.DISPATCHES:
        found[how] = _with_dispatch(own, how)
    for name, factor in given.GENERATIONS.items():
        found[name] = _with_links(own, factor)
    for size in given.FLITS:
        found[f"flit-{size}"] = _with_flits(own, size)
    for count in given.MORE_GPUS:
        found[f"{count}-gpus"] = of_gpus(own, count)
    return found


# --- the runs -------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One run of a program: its size, machine, number of GPUs and treatment of remote loads."""

    scale: int
    machine: str  # a key of `machines`, or the name of a window (`_window`)
    gpus: int
    mechanism: str

    def __str__(self) -> str:
        return f"{self.mechanism} on {self.gpus} GPUs, {self.machine}, size {self.scale}x"


def _pairs(scale: int, names: Sequence[str], gpus: int = FOUR) -> Iterator[Case]:
    for name in names:
        yield Case(scale, name, gpus, DIRECT)
        yield Case(scale, name, gpus, DUALOPT)


def main_scale(quick: bool) -> int:
    """Return the scale of the inputs whose figures are compared with the paper's figures."""
    return SMALL if quick else LARGE


def _varied(quick: bool) -> tuple[str, ...]:
    """Return the names of the machines of section 6.2, which compares DualOpt with the baseline."""
    flits = tuple(f"flit-{size}" for size in given.FLITS)
    if quick:
        return ("64gbps", *flits)
    return ("64gbps", *given.DISPATCHES, *given.GENERATIONS, *flits)


def cases(program: str, quick: bool) -> list[Case]:
    """Return all runs of a program except the runs of `_windows`.

    A window begins after a fraction of the program's accesses. The number of accesses is known only
    after a run.
    """
    kind, main = PUBLISHED[program], main_scale(quick)
    found = [Case(main, OWN, 1, DIRECT)]
    for scale in dict.fromkeys((main, SMALL)):
        found += _pairs(scale, [OWN])
        if kind == FINE:
            found += [Case(scale, OWN, FOUR, step) for step in STEPS]
            found.append(Case(scale, FINE_L2, FOUR, COALESCED))
        if kind == CACHED:
            found.append(Case(scale, OWN, FOUR, RDMA_CACHE))
    factors = (2, 8) if quick else tuple(given.FREQUENCIES)
    for factor in factors:
        found += [
            Case(SMALL, f"{what}-{factor}", FOUR, DIRECT) for what in ("frequency", "bandwidth")
        ]
    if kind == LOCAL:
        return found
    found.append(Case(SMALL, "ideal-cache", FOUR, RDMA_CACHE))
    found += [Case(main, OWN, FOUR, how) for how in (PAGE_MIGRATION, GRIFFIN, PLACED)]
    found += [Case(main, where, FOUR, how) for how, (_, where) in PAST.items()]
    found.append(Case(main, LARGE_PACKETS, FOUR, DUALOPT))
    found += _pairs(main, _varied(quick))
    for count in (8,) if quick else tuple(given.MORE_GPUS):
        found += _pairs(main, [f"{count}-gpus"], count)
    if kind == FINE:
        sizes = [f"granularity-{size}" for size in given.GRANULARITIES]
        clocks = [f"timeout-{count}" for count in given.TIMEOUTS]
        found += [Case(SMALL, name, FOUR, COALESCED) for name in (*sizes, *clocks)]
    return found


def _window(part: float) -> str:
    return f"window-{100 * part:.0f}"


def steps(quick: bool, node: CudaNode | None) -> int:  # noqa: ARG001 (nothing is measured)
    """Return how many times `reproduce` calls the runner's tick."""
    each = len(given.WINDOWS) + len(PLACED_RUNS) * len(_placements(quick))
    other_graph = len(OTHER_GRAPH_RUNS) * ("bfs" in unified.PROGRAMS)
    return other_graph + sum(len(cases(name, quick)) + each for name in unified.PROGRAMS)


def _placements(quick: bool) -> Sequence[tuple[str, str]]:
    return given.QUICK_PLACEMENTS if quick else given.PLACEMENTS


def inputs(quick: bool) -> dict[str, Any]:
    """Return the scales of the inputs, the seed, and the differences between the machines.

    The record of each run has the sizes of its program.
    """
    return {
        "seed": unified.SEED,
        "times": main_scale(quick),
        "times_small": SMALL,
        "machine": given.MACHINE,
        "other_reading": given.OTHER_READING,
        "dispatch": given.DISPATCH,
        "windows": given.WINDOWS,
        "window_accesses": given.WINDOW_ACCESSES,
        "placements": _placements(quick),
    }


class NotRun(Exception):  # noqa: N818 (--quick leaves runs out)
    """A figure needs a run that was not made, because --quick leaves it out."""


class NothingSeen(Exception):  # noqa: N818 (says why a program has no figure)
    """The engine saw no remote load, or the run ended before the engine decided."""

    def __init__(self) -> None:
        super().__init__(
            "the engine saw no remote load in its window, or the run ended before the window began"
        )


class Found:
    """The results of the runs of one program."""

    def __init__(self, main: int) -> None:
        self.main = main
        self.runs: dict[Case, dict[str, Any]] = {}
        # The runs at the smaller scale with other placements of (blocks, pages), by treatment.
        self.placed: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        # The runs of bfs on a graph like the one in MGPUSim's folder, by treatment.
        self.other_graph: dict[str, dict[str, Any]] = {}

    def run(
        self, mechanism: str, machine: str = OWN, gpus: int = FOUR, scale: int | None = None
    ) -> dict[str, Any]:
        """Return the result of a run.

        The default is the scale whose figures are compared with the paper's figures.
        """
        case = Case(self.main if scale is None else scale, machine, gpus, mechanism)
        if case not in self.runs:
            raise NotRun(str(case))
        return self.runs[case]

    def over(
        self, slower: str, faster: str, machine: str = OWN, gpus: int = FOUR,
        scale: int | None = None,
    ) -> float:  # fmt: skip
        """Return the speedup of the treatment `faster` over the treatment `slower`."""
        times = [self.run(how, machine, gpus, scale)["time_s"] for how in (slower, faster)]
        return float(times[0] / times[1])


def _run_kept(runner: Runner, it: unified.Problem, case: Case, result: dict[str, Any],
              config: dict[str, int | str]) -> None:  # fmt: skip
    runner.runs.append(
        Run(
            node="sim",
            machine=case.machine,
            workload=it.name,
            data=it.sizes,
            gpus=case.gpus,
            mechanism=case.mechanism,
            config=config,
            iterations=1,
            time_s=result["time_s"],
            max_error=result["max_error"],
            remote_transactions=result["loads"]["requests"],
        )
    )


def _simulate(
    runner: Runner, it: unified.Problem, described: dict[Case, Machine]
) -> dict[Case, dict[str, Any]]:
    work = [
        partial(
            unified.simulate, runner.core, to_core(machine, runner.core), it, case.gpus,
            GRIFFIN if case.mechanism == PLACED else case.mechanism,
            pages="own" if case.mechanism == PLACED else "",
        )
        for case, machine in described.items()
    ]  # fmt: skip
    found = runner.map(work, [f"{it.name}, {case}" for case in described])
    for case, result in zip(described, found, strict=True):
        _run_kept(runner, it, case, result, {})
    return dict(zip(described, found, strict=True))


def _place(
    runner: Runner, it: unified.Problem, placements: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Run the baseline and DualOpt on four GPUs with other placements of blocks and pages."""
    own = to_core(machines()[OWN], runner.core)
    wanted = [(place, how) for place in placements for how in PLACED_RUNS]
    work = [
        partial(unified.simulate, runner.core, own, it, FOUR, how, pages=pages, blocks=blocks)
        for (blocks, pages), how in wanted
    ]
    names = [
        f"{it.name}, {Case(SMALL, OWN, FOUR, how)}, blocks {blocks}, pages {pages}"
        for (blocks, pages), how in wanted
    ]
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {place: {} for place in placements}
    for (place, how), result in zip(wanted, runner.map(work, names), strict=True):
        found[place][how] = result
        blocks, pages = place
        case = Case(SMALL, OWN, FOUR, how)
        _run_kept(runner, it, case, result, {"blocks": blocks, "pages": pages})
    return found


def _other_graph(runner: Runner) -> dict[str, dict[str, Any]]:
    """Run bfs on four GPUs, on a graph like the one in MGPUSim's folder."""
    graph = rmat(given.GRAPH_SCALE, given.GRAPH_DEGREE, unified.SEED)
    targets = np.repeat(np.arange(graph.rows), np.diff(graph.offsets))
    it = breadth_first.of_edges(graph.rows, np.array([graph.columns, targets]))
    wanted = {how: Case(SMALL, OWN, FOUR, how) for how in OTHER_GRAPH_RUNS}
    found = _simulate(runner, it, dict.fromkeys(wanted.values(), machines()[OWN]))
    return {how: found[case] for how, case in wanted.items()}


def _windows(direct: dict[str, Any]) -> dict[Case, Machine]:
    """Return the runs in which DualOpt's engine begins to watch in a later window."""
    own = machines()[OWN]
    return {
        Case(SMALL, _window(part), FOUR, DUALOPT): _with_dualopt(
            own,
            warm_up_accesses=int(part * direct["loads"]["vector_accesses"]),
            monitored_accesses=given.WINDOW_ACCESSES,
        )
        for part in given.WINDOWS
    }


def _run(runner: Runner, program: str, quick: bool) -> Found:
    found, described = Found(main_scale(quick)), machines()
    wanted = cases(program, quick)
    for scale in sorted({case.scale for case in wanted}):
        it = unified.problem(program, scale)
        of_it = {case: described[case.machine] for case in wanted if case.scale == scale}
        found.runs |= _simulate(runner, it, of_it)
        if scale == SMALL:
            found.runs |= _simulate(runner, it, _windows(found.run(DIRECT, scale=SMALL)))
            found.placed = _place(runner, it, _placements(quick))
    if program == "bfs":
        found.other_graph = _other_graph(runner)
    return found


def reproduce(runner: Runner, node: CudaNode | None, quick: bool) -> list[FigureRow]:  # noqa: ARG001
    """Return all rows, in the order of the paper's figures."""
    found = {name: _run(runner, name, quick) for name in unified.PROGRAMS}
    return [
        *_fig_2(found),
        *_fig_3(found),
        *_fig_4(found),
        *_fig_5(found),
        *_fig_6(found),
        *_table_1(),
        *_table_2(found),
        *_classes_of_runs(found),
        *_classes_by_place(found),
        *_bfs_on_another_graph(found),
        *_fig_10(found),
        *_fig_12(found),
        *_fig_13(found),
        *_fig_14(found),
        *_fig_15(found),
        *_fig_16(found),
        *_fig_17(found),
        *_fig_18(found),
        *_sensitivity(found),
        *_past_the_paper(found),
        *_fig_19(found),
        *_table_3(),
        *_table_4(),
    ]


# --- figures --------------------------------------------------------------------------------------

Programs = dict[str, Found]


def _mean(
    found: Programs, of: Callable[[Found], float], names: Sequence[str] = AVERAGED
) -> float | None:
    """Return the arithmetic mean, because the paper states arithmetic means.

    Return None if a run is missing.
    """
    try:
        values = [of(found[name]) for name in names if name in found]
    except NotRun:
        return None
    return sum(values) / len(values) if values else None


def _least(found: Programs, of: Callable[[Found], float], names: Sequence[str]) -> float | None:
    return min((of(found[name]) for name in names if name in found), default=None)


def _of_each(
    found: Programs, key: str, figure: str, text: str, of: Callable[[Found], float],
    names: Sequence[str] = AVERAGED, published: dict[str, float] | None = None,
) -> list[FigureRow]:  # fmt: skip
    """Return a row for each program. The row's text is the program's name and `text`."""
    known = published or {}
    rows = []
    for name in names:
        if name not in found:
            continue
        try:
            value, note = of(found[name]), ""
        except NothingSeen as reason:
            value, note = None, str(reason)
        rows.append(
            row(f"{key}-{name}", figure, f"{name}: {text}", known.get(name), simulated=value,
                possible=value is not None, note=note)
        )  # fmt: skip
    return rows


def _part(some: float, of_all: float) -> float:
    return some / of_all if of_all else 0.0


def _accesses(run: dict[str, Any]) -> float:
    loads = run["loads"]
    kinds = ("local_loads", "remote_loads", "local_stores", "remote_stores")
    return float(sum(loads[kind] for kind in kinds))


def _hit_rate(run: dict[str, Any]) -> float:
    return _part(run["loads"]["remote_hits"], run["loads"]["remote_loads"])


def _used(run: dict[str, Any]) -> float:
    return _part(run["loads"]["remote_useful_bytes"], 4 * WORDS * run["loads"]["remote_loads"])


def _fig_2(found: Programs) -> list[FigureRow]:
    """Fig. 2: faster links. Each factor has a row for the frequency and one for the bandwidth."""
    rows = []
    for factor, published in given.FREQUENCIES.items():
        for what, text in (
            ("frequency", "links and switches at {} times the frequency"),
            ("bandwidth", "links with {} times the bandwidth and the same latency"),
        ):

            def gain(f: Found, machine: str = f"{what}-{factor}") -> float:
                before = f.run(DIRECT, scale=SMALL)["time_s"]
                return float(before / f.run(DIRECT, machine, scale=SMALL)["time_s"])

            rows.append(
                row(f"{what}-{factor}", "Fig. 2", f"{text.format(factor)}: speedup, x",
                    published if what == "frequency" else None,
                    simulated=_mean(found, gain, tuple(found)),
                    note="over all programs" if what == "frequency" else "")
            )  # fmt: skip
    return rows


def _fig_3(found: Programs) -> list[FigureRow]:
    """Fig. 3: the memories that serve accesses."""

    def remote(f: Found) -> float:
        loads = f.run(DIRECT)["loads"]
        asked = loads["remote_loads"] - loads["remote_hits"] + loads["remote_stores"]
        return _part(asked, _accesses(f.run(DIRECT)))

    def hit(f: Found) -> float:
        return _part(f.run(DIRECT)["loads"]["remote_hits"], _accesses(f.run(DIRECT)))

    names = tuple(found)
    return [
        row("remote-requests", "Fig. 3", "fraction of the accesses that another GPU serves", 0.4,
            simulated=_mean(found, remote), note='the paper says "around 40%"'),
        *_of_each(found, "remote-requests", "Fig. 3",
                  "fraction of the accesses that another GPU serves", remote, names),
        *_of_each(found, "remote-in-l1", "Fig. 3",
                  "fraction of the accesses that hit in the L1 cache on lines of other GPUs", hit,
                  names),
    ]  # fmt: skip


def _fig_4(found: Programs) -> list[FigureRow]:
    """Fig. 4: the fraction of a remote load's time that the load spends between GPUs."""

    def share(f: Found) -> float:
        loads = f.run(DIRECT)["loads"]
        return _part(loads["mean_in_links_s"], loads["mean_latency_s"])

    return [
        row("latency-in-links", "Fig. 4",
            "fraction of the time of remote loads that they spend between GPUs", 0.8,
            simulated=_mean(found, share),
            note=(
                "counted from the moment when the load reaches the GPU's port; earlier time is "
                "left out"
            )),
        *_of_each(found, "latency-in-links", "Fig. 4",
                  "fraction of the time of remote loads that they spend between GPUs", share),
    ]  # fmt: skip


def _fig_5(found: Programs) -> list[FigureRow]:
    """Fig. 5: how much of each remote line a program uses."""

    def at_most(words: int) -> Callable[[Found], float]:
        def share(f: Found) -> float:
            counts = f.run(DIRECT)["loads"]["remote_by_words"]
            return _part(sum(counts[:words]), sum(counts))

        return share

    return [
        row("narrow-accesses", "Fig. 5",
            "fraction of the remote loads that use less than 16 B, in cache-insensitive "
            "programs", 0.99,
            simulated=_mean(found, at_most(3), INSENSITIVE)),
        row("word-accesses", "Sec. 6.2",
            "fraction of the remote loads that use 4 B, in cache-insensitive programs", 0.99,
            simulated=_mean(found, at_most(1), INSENSITIVE)),
        *_of_each(found, "used-of-line", "Fig. 5", "fraction of a remote line that a load uses",
                  lambda f: _used(f.run(DIRECT)), tuple(found)),
    ]  # fmt: skip


def _fig_6(found: Programs) -> list[FigureRow]:
    """Fig. 6: hits in the L1 cache, and requests that an ideal buffer at the RDMA engine merges."""

    def merged(f: Found) -> float:
        loads = f.run(RDMA_CACHE, "ideal-cache", scale=SMALL)["loads"]
        return _part(loads["cache_hits"], loads["cache_hits"] + loads["cache_misses"])

    return [
        row("l1-hit-friendly", "Fig. 6",
            "cache-friendly programs: fraction of the remote loads that hit in the L1 cache", 0.22,
            simulated=_mean(found, lambda f: _hit_rate(f.run(DIRECT)), FRIENDLY)),
        *_of_each(found, "l1-hit", "Fig. 6",
                  "fraction of the remote loads that hit in the L1 cache",
                  lambda f: _hit_rate(f.run(DIRECT)), tuple(found), {"bfs": 0.33}),
        *_of_each(found, "coalescable", "Fig. 6",
                  "fraction of the remote loads whose line the GPU has already loaded since the "
                  "kernel's start", merged),
    ]  # fmt: skip


def _table_1() -> list[FigureRow]:
    """Table 1 and Fig. 9: parameters that contradict each other in the paper."""
    machine = machines()[OWN]
    added = machine.gpu.dualopt
    (protocol,) = machine.protocol.values()
    header = protocol.completion_overhead_bytes
    assert not isinstance(added, msgspec.UnsetType)
    assert isinstance(header, int)
    each = added.granularity_bytes + 2  # bytes of a piece and of the ID of its response
    pieces = (added.packet_bytes - header) // each
    return [
        row("link-GB-per-s", "Table 1", "bandwidth of a link, GB/s", 64,
            simulated=machine.link[0].bandwidth_GB_per_s, possible=False,
            note=(
                "flits of 16 B at the simulator's 1 GHz give 16 GB/s; keys that end in -64gbps use "
                "64 GB/s, the other bandwidth that Table 1 can mean"
            )),
        row("pieces-per-packet", "Fig. 9", "most responses in a packet", 10, simulated=pieces),
        row("count-bits", "Sec. 4.1.3", "bits that count a packet's responses", 3,
            simulated=pieces.bit_length(), possible=False, note="3 bits cannot hold the number 10"),
    ]  # fmt: skip


def _in_force(run: dict[str, Any]) -> str:
    """Return the class of a program that follows from the engine's decision in a run."""
    decided = run["decisions"][0]
    return CLASS_OF[decided["choice"] if decided["made"] else "none"]


PLACES = (
    "an experiment: the paper takes MGPUSim's placement, and our figures place blocks and pages as "
    "MGPUSim 2.0.1 does"
)
GRAPH = (
    "an experiment: the paper does not name its graph; this R-MAT graph has about as many vertices "
    "and edges as Slashdot0902, which is in the folder of MGPUSim's program"
)


def _class_of_run(run: dict[str, Any]) -> str:
    """Return the class that follows from the counts of the whole run, not from a window."""
    loads = run["loads"]
    remote = loads["remote_loads"] + loads["remote_stores"]
    share = _part(remote, remote + loads["local_loads"] + loads["local_stores"])
    return classify(share, _used(run), _hit_rate(run), THRESHOLDS)


def _class_rows(key: str, text: str, ours: dict[str, str], note: str = "") -> list[FigureRow]:
    """Return rows: the number of programs with the published class, and all other programs."""
    other = [name for name, kind in ours.items() if kind != PUBLISHED[name]]
    return [
        row(f"classes-{key}", "Table 2", f"{text} the published class", len(ours),
            simulated=len(ours) - len(other), note=note),
        row(f"classes-other-{key}", "Table 2", f"{text} another class",
            simulated=", ".join(other) or "none", note=note),
    ]  # fmt: skip


def _classes_by_place(found: Programs) -> list[FigureRow]:
    """Table 2 with other placements of blocks and pages."""
    rows = []
    for place in next(iter(found.values())).placed:
        blocks, pages = place
        runs = {name: f.placed[place] for name, f in found.items()}
        where = f"blocks {blocks}, pages {pages}, MGPUSim's parameters"
        rows += _class_rows(
            f"blocks-{blocks}-pages-{pages}", f"{where}: programs with",
            {name: _in_force(one[DUALOPT]) for name, one in runs.items()}, PLACES,
        )  # fmt: skip
        rows += _class_rows(
            f"of-run-blocks-{blocks}-pages-{pages}", f"{where}: programs whose whole run has",
            {name: _class_of_run(one[DIRECT]) for name, one in runs.items()}, PLACES,
        )  # fmt: skip
    return rows


def _classes_of_runs(found: Programs) -> list[FigureRow]:
    """Table 2 with the classes that follow from whole runs.

    Fig. 12 compares the engine's estimates with whole runs.
    """
    rows = []
    scales = {"of-run": next(iter(found.values())).main, "of-run-small": SMALL}
    for key, scale in scales.items():
        text = "MGPUSim's parameters, programs" if key.endswith("small") else "programs"
        ours = {name: _class_of_run(f.run(DIRECT, scale=scale)) for name, f in found.items()}
        rows += _class_rows(key, f"{text} whose whole run has", ours)
    return rows


def _bfs_on_another_graph(found: Programs) -> list[FigureRow]:
    """Fig. 6 and Table 2 for bfs on a graph like the one in MGPUSim's folder."""
    if "bfs" not in found:
        return []
    runs = found["bfs"].other_graph
    return [
        row("l1-hit-bfs-other-graph", "Fig. 6",
            "bfs, graph like Slashdot0902: remote loads that hit in the L1 cache", 0.33,
            simulated=_hit_rate(runs[DIRECT]), note=GRAPH),
        row("class-bfs-other-graph", "Table 2",
            "bfs, graph like Slashdot0902: class that the engine gives it", PUBLISHED["bfs"],
            simulated=_in_force(runs[DUALOPT]), note=GRAPH),
        row("class-of-run-bfs-other-graph", "Table 2",
            "bfs, graph like Slashdot0902: class that the whole run without DualOpt has",
            PUBLISHED["bfs"], simulated=_class_of_run(runs[DIRECT]), note=GRAPH),
    ]  # fmt: skip


def _table_2(found: Programs) -> list[FigureRow]:
    """Table 2: the classes of the programs."""

    ours = {name: _in_force(f.run(DUALOPT)) for name, f in found.items()}
    small = {name: _in_force(f.run(DUALOPT, scale=SMALL)) for name, f in found.items()}
    known = {name: PUBLISHED[name] for name in found}
    return [
        row("classes", "Table 2", "programs with the published class", len(known),
            simulated=sum(ours[name] == kind for name, kind in known.items())),
        row("classes-small", "Table 2", "MGPUSim's parameters: programs with the published class",
            len(known), simulated=sum(small[name] == kind for name, kind in known.items())),
        *(
            row(f"class-{name}", "Table 2", f"{name}: class that the engine gives it", kind,
                simulated=ours[name])
            for name, kind in known.items()
        ),
    ]  # fmt: skip


def _fig_10(found: Programs) -> list[FigureRow]:
    """Fig. 10: whether the locality of a program changes while the program runs."""

    def spread(of: str, whole: Callable[[dict[str, Any]], float]) -> Callable[[Found], float]:
        def widest(f: Found) -> float:
            golden = whole(f.run(DIRECT, scale=SMALL))
            seen = [
                f.run(DUALOPT, _window(part), scale=SMALL)["decisions"][0] for part in given.WINDOWS
            ]
            differences = [
                abs(float(window[of]) - golden)
                for window in seen
                if window["made"] and window["loads"]
            ]
            if not differences:
                raise NothingSeen
            return max(differences)

        return widest

    return [
        *_of_each(found, "window-used", "Fig. 10",
                  "fraction of a line that is used: largest difference between a window and the "
                  "whole run",
                  spread("block_utilisation", _used)),
        *_of_each(found, "window-hits", "Fig. 10",
                  "L1 hit rate: largest difference between a window and the whole run",
                  spread("hit_rate", _hit_rate)),
    ]  # fmt: skip


def _fig_12(found: Programs) -> list[FigureRow]:
    """Fig. 12: the engine's estimate minus the value for the whole run."""

    def error(of: str, whole: Callable[[dict[str, Any]], float]) -> Callable[[Found], float]:
        def difference(f: Found) -> float:
            decided = f.run(DUALOPT)["decisions"][0]
            if not (decided["made"] and decided["loads"]):
                raise NothingSeen
            return float(decided[of] - whole(f.run(DIRECT)))

        return difference

    return [
        *_of_each(found, "accuracy-used", "Fig. 12",
                  "fraction of a line that is used: the engine's window minus the whole run",
                  error("block_utilisation", _used)),
        *_of_each(found, "accuracy-hits", "Fig. 12",
                  "L1 hit rate: the engine's window minus the whole run",
                  error("hit_rate", _hit_rate)),
    ]  # fmt: skip


SPEEDUPS: tuple[tuple[str, str, float, Sequence[str]], ...] = (
    ("speedup", "all programs that are not local-dominated", 2.5, AVERAGED),
    ("insensitive", "cache-insensitive programs", 3.6, INSENSITIVE),
    ("friendly", "cache-friendly programs", 1.6, FRIENDLY),
    ("mm", "mm", 2.6, ("mm",)),
)


def _fig_13(found: Programs) -> list[FigureRow]:
    """Fig. 13: speedups over the baseline, for both scales and both bandwidths of Table 1."""

    def gain(machine: str = OWN, scale: int | None = None) -> Callable[[Found], float]:
        return lambda f: f.over(DIRECT, DUALOPT, machine, scale=scale)

    rows = [
        row(key, "Fig. 13", f"{text}: speedup of DualOpt over the baseline, x", published,
            simulated=_mean(found, gain(), names))
        for key, text, published, names in SPEEDUPS
    ]  # fmt: skip
    for suffix, text, of in (
        ("small", "MGPUSim's parameters", gain(scale=SMALL)),
        ("64gbps", "links of 64 GB/s", gain("64gbps")),
    ):
        rows += [
            row(f"{key}-{suffix}", "Fig. 13", f"{text}, {whose}: speedup of DualOpt over the "
                "baseline, x",
                published, simulated=_mean(found, of, names))
            for key, whose, published, names in SPEEDUPS
        ]  # fmt: skip

    def chosen(f: Found, name: str) -> float:
        return f.over(DIRECT, COALESCED if name in INSENSITIVE else RDMA_CACHE)

    but_mm = tuple(name for name in FRIENDLY if name != "mm")
    there = [name for name in AVERAGED if name in found]
    whole = sum(chosen(found[name], name) for name in there) / len(there) if there else None
    return [
        *rows,
        row("friendly-without-mm", "Fig. 13",
            "cache-friendly programs without mm: speedup of DualOpt over the baseline, x",
            given.FRIENDLY_WITHOUT_MM, simulated=_mean(found, gain(), but_mm),
            note=(
                "the published value is computed from two means: 1.6 over all six programs, and "
                "2.6 for mm"
            )),
        row("speedup-from-the-start", "Fig. 13",
            "each program's published optimisation, active from the first access: speedup over the "
            "baseline, x",
            simulated=whole),
        *_of_each(found, "speedup", "Fig. 13", "speedup of DualOpt over the baseline, x", gain(),
                  tuple(found)),
        *(
            row(f"speedup-from-the-start-{name}", "Fig. 13",
                f"{name}: speedup of its published optimisation, active from the first access, x",
                simulated=chosen(found[name], name))
            for name in there
        ),
        *_of_each(found, "four-gpus", "Fig. 13", "speedup of the baseline over one GPU, x",
                  lambda f: f.run(DIRECT, gpus=1)["time_s"] / f.run(DIRECT)["time_s"],
                  tuple(found)),
        row(PAGE_MIGRATION, "Fig. 13", "speedup of page migration over the baseline, x",
            simulated=_mean(found, lambda f: f.over(DIRECT, PAGE_MIGRATION)),
            note="each page moves once, to the first remote GPU that touches it, as in MGPUSim"),
        *_of_each(found, PAGE_MIGRATION, "Fig. 13",
                  "speedup of page migration over the baseline, x",
                  lambda f: f.over(DIRECT, PAGE_MIGRATION)),
        row("vs-page-migration", "Fig. 13", "speedup of DualOpt over page migration, x",
            simulated=_mean(found, lambda f: f.over(PAGE_MIGRATION, DUALOPT))),
    ]  # fmt: skip


def _fewer(scale: int | None = None) -> Callable[[Found], float]:
    """Return a function that computes a ratio of bytes on links.

    The ratio is the number of bytes under the baseline divided by the number of bytes under
    DualOpt.
    """

    def ratio(f: Found) -> float:
        ours = f.run(DUALOPT, scale=scale)["link_bytes"]
        return _part(f.run(DIRECT, scale=scale)["link_bytes"], ours)

    return ratio


def _smaller_replies(f: Found) -> float:
    """Return a ratio of the bytes of replies to remote loads: bytes under the baseline / under
    DualOpt.
    """
    ours = f.run(DUALOPT)["loads"]["reply_bytes"]
    return _part(f.run(DIRECT)["loads"]["reply_bytes"], ours)


def _fig_14(found: Programs) -> list[FigureRow]:
    """Fig. 14: bytes between GPUs."""
    clear = sum(_fewer()(found[name]) >= 1.1 for name in AVERAGED if name in found)
    return [
        row("traffic", "Fig. 14", "bytes between GPUs: baseline divided by DualOpt, x", 4.4,
            simulated=_mean(found, _fewer())),
        row("traffic-small", "Fig. 14", "MGPUSim's parameters: bytes between GPUs, baseline "
            "divided by DualOpt, x", 4.4,
            simulated=_mean(found, _fewer(SMALL))),
        row("traffic-replies", "Fig. 14",
            "bytes that loads bring from other GPUs' memory: baseline divided by DualOpt, x",
            simulated=_mean(found, _smaller_replies),
            note=(
                "the published 4.4 may include more than the bytes of loads, but not all bytes: "
                "DualOpt sends a flit for each request like the baseline, and leaves stores "
                "unchanged"
            )),
        row("traffic-programs", "Fig. 14", "programs with noticeably fewer bytes", 8,
            simulated=clear, note=(
                'the paper does not define "noticeably"; here it means a tenth fewer'
            )),
        *_of_each(found, "traffic", "Fig. 14",
                  "bytes between GPUs: baseline divided by DualOpt, x", _fewer()),
    ]  # fmt: skip


def _sooner(scale: int | None = None, what: str = "mean_wait_s") -> Callable[[Found], float]:
    """Return a function that computes a ratio of the mean times of a load.

    The ratio is the time under the baseline divided by the time under DualOpt.
    """

    def ratio(f: Found) -> float:
        ours = f.run(DUALOPT, scale=scale)["loads"][what]
        return _part(f.run(DIRECT, scale=scale)["loads"][what], ours)

    return ratio


def _fig_15(found: Programs) -> list[FigureRow]:
    """Fig. 15: latency."""
    return [
        row("latency", "Fig. 15", "mean time of a load: baseline divided by DualOpt, x", 2.4,
            simulated=_mean(found, _sooner()),
            note=(
                "the time of a load instruction lasts from its first line to its last line, and "
                "includes local loads"
            )),
        row("latency-small", "Fig. 15", "MGPUSim's parameters: mean time of a load, baseline "
            "divided by DualOpt, x", 2.4,
            simulated=_mean(found, _sooner(SMALL))),
        row("latency-remote", "Fig. 15",
            "mean round trip of a remote request: baseline divided by DualOpt, x",
            simulated=_mean(found, _sooner(what="mean_latency_s"))),
        *_of_each(found, "latency", "Fig. 15",
                  "mean time of a load: baseline divided by DualOpt, x", _sooner()),
    ]  # fmt: skip


def _fig_16(found: Programs) -> list[FigureRow]:
    """Fig. 16: the steps of coalescing. Each step is compared with the previous step."""
    before = dict(zip(STEPS, (DIRECT, *STEPS), strict=False))

    def gain(step: str) -> Callable[[Found], float]:
        return lambda f: f.over(before[step], step)

    def fine_l2(f: Found) -> float:
        times = [f.run(COALESCED, machine)["time_s"] for machine in (OWN, FINE_L2)]
        return float(times[0] / times[1])

    rows = [
        row(BYPASS, "Fig. 16", "atax and bicg: speedup of bypassing over the baseline, x", 3.2,
            simulated=_mean(found, gain(BYPASS), ("atax", "bicg"))),
        row(FINE_GRAINED, "Fig. 16", "speedup of fine-grained replies over bypassing, x", 1.7,
            simulated=_mean(found, gain(FINE_GRAINED), INSENSITIVE)),
        row("coalescing", "Fig. 16", "speedup of coalescing over fine-grained replies, x", 1.2,
            simulated=_mean(found, gain(COALESCED), INSENSITIVE)),
        row("fine-l2", "Sec. 4.1.3", "smallest speedup of fine-grained L2 accesses over "
            "coalescing, x", 0.98,
            simulated=_least(found, fine_l2, INSENSITIVE),
            note=(
                "the paper says \"up to 2% loss\". Here the sectors of L1 and L2 have 16 B, the "
                "paper's pieces have 4 B, and no decision engine runs"
            )),
        *_of_each(found, "fine-l2", "Sec. 4.1.3",
                  "speedup of fine-grained L2 accesses over coalescing, x",
                  fine_l2, INSENSITIVE),
    ]  # fmt: skip
    published = {BYPASS: {"bfs": 0.75}}
    for step in STEPS:
        rows += _of_each(
            found, f"{step}-over-{before[step]}", "Fig. 16",
            f"speedup of {step} over {before[step]}, x",
            gain(step), INSENSITIVE, published.get(step),
        )  # fmt: skip
    return rows


def _fig_17(found: Programs) -> list[FigureRow]:
    """Fig. 17: hit rates of the RDMA cache and of the L2 cache in cache-friendly programs."""

    def cached(f: Found) -> float:
        loads = f.run(RDMA_CACHE)["loads"]
        return _part(loads["cache_hits"], loads["cache_hits"] + loads["cache_misses"])

    def l2(mechanism: str) -> Callable[[Found], float]:
        def rate(f: Found) -> float:
            loads = f.run(mechanism)["loads"]
            return _part(loads["l2_hits"], loads["l2_loads"])

        return rate

    return [
        row("rdma-cache-hit", "Fig. 17", "hit rate of the RDMA cache", 0.35,
            simulated=_mean(found, cached, FRIENDLY),
            note="the cache works from the first access on"),
        row("l2-hit-baseline", "Fig. 17", "hit rate of the L2 cache in the baseline", 0.21,
            simulated=_mean(found, l2(DIRECT), FRIENDLY)),
        row("l2-hit-dualopt", "Fig. 17",
            "hit rate of the L2 cache with the RDMA cache in use", 0.13,
            simulated=_mean(found, l2(RDMA_CACHE), FRIENDLY)),
        *_of_each(found, "rdma-cache-hit", "Fig. 17",
                  "hit rate of the RDMA cache", cached, FRIENDLY),
        *_of_each(found, "l2-hit-baseline", "Fig. 17", "hit rate of the L2 cache in the baseline",
                  l2(DIRECT), FRIENDLY),
        *_of_each(found, "l2-hit-dualopt", "Fig. 17",
                  "hit rate of the L2 cache with the RDMA cache in use",
                  l2(RDMA_CACHE), FRIENDLY),
    ]  # fmt: skip


def _fig_18(found: Programs) -> list[FigureRow]:
    """Fig. 18: speedups on more GPUs."""
    return [
        row(f"speedup-{count}", "Fig. 18",
            f"{count} GPUs: speedup of DualOpt over the baseline, x", published,
            simulated=_mean(
                found,
                lambda f, n=count: f.over(DIRECT, DUALOPT, f"{n}-gpus", n),  # type: ignore[misc]
            ))
        for count, published in given.MORE_GPUS.items()
    ]  # fmt: skip


def _past_the_paper(found: Programs) -> list[FigureRow]:
    """Return the speedups of treatments beyond the paper over DualOpt's single decision."""
    rows = []
    for how, (key, where) in PAST.items():

        def gain(f: Found, how: str = how, where: str = where) -> float:
            return f.over(DUALOPT, how, where)

        text = f"speedup of {how} over dualopt, x"
        rows += [
            row(f"past-{key}", "-", text, None, simulated=_mean(found, gain)),
            *_of_each(found, f"past-{key}", "-", text, gain),
        ]
    return rows


def _sensitivity(found: Programs) -> list[FigureRow]:
    """Section 6.2: pieces of other sizes, other timeouts and other machines."""

    def bytes_of(f: Found, machine: str) -> float:
        return float(f.run(COALESCED, machine, scale=SMALL)["link_bytes"])

    def time_of(f: Found, machine: str) -> float:
        return float(f.run(COALESCED, machine, scale=SMALL)["time_s"])

    rows = []
    for size, published in zip(given.GRANULARITIES, (1.03, 1.15), strict=True):
        name = f"granularity-{size}"
        rows += [
            row(name, "Sec. 6.2",
                f"bytes between GPUs with pieces of {size} B, divided by the bytes with 4 B, x",
                published,
                simulated=_mean(
                    found,
                    lambda f, n=name: bytes_of(f, n) / bytes_of(f, OWN),  # type: ignore[misc]
                    INSENSITIVE,
                )),
            row(f"{name}-time", "Sec. 6.2",
                f"time with pieces of {size} B, divided by the time with 4 B, x",
                simulated=_mean(
                    found,
                    lambda f, n=name: time_of(f, n) / time_of(f, OWN),  # type: ignore[misc]
                    INSENSITIVE,
                )),
        ]  # fmt: skip
    for clocks, published in zip(given.TIMEOUTS, (1.04, 1.02), strict=True):
        name = f"timeout-{clocks}"
        ratios = [
            time_of(found[p], name) / time_of(found[p], OWN) for p in INSENSITIVE if p in found
        ]
        rows.append(
            row(name, "Sec. 6.2",
                f"time with a timeout of {clocks} clocks, divided by the time with 30 clocks: "
                "largest ratio, x", published, simulated=max(ratios, default=None))
        )  # fmt: skip
    generations = dict.fromkeys(given.GENERATIONS, 2.5)
    flits = {f"flit-{size}": published for size, published in given.FLITS.items()}
    for name, published in {**given.DISPATCHES, **generations, **flits}.items():
        rows.append(
            row(name, "Sec. 6.2", f"{name}: speedup of DualOpt over the baseline, x", published,
                simulated=_mean(
                    found,
                    lambda f, n=name: f.over(DIRECT, DUALOPT, n),  # type: ignore[misc]
                ))
        )  # fmt: skip
    return rows


def _fig_19(found: Programs) -> list[FigureRow]:
    """Fig. 19: comparison with Griffin."""
    return [
        row("vs-griffin", "Fig. 19", "speedup of DualOpt over Griffin, x", 4.0,
            simulated=_mean(found, lambda f: f.over(GRIFFIN, DUALOPT)),
            note=(
                "Griffin's parameters are assumed; a TLB keeps only translations of its GPU's own "
                "memory, as section 6.3 implies"
            )),
        row("vs-griffin-placed", "Fig. 19",
            "speedup of DualOpt over Griffin, whose pages begin on the same GPUs as in the "
            "baseline, x",
            simulated=_mean(found, lambda f: f.over(PLACED, DUALOPT)),
            note=(
                "in the other rows all pages begin on one GPU, and the first touch of a page moves "
                "the page"
            )),
        *_of_each(found, "vs-griffin-placed", "Fig. 19",
                  "speedup of DualOpt over Griffin, with the pages of the baseline, x",
                  lambda f: f.over(PLACED, DUALOPT)),
        row("vs-griffin-without-sc", "Fig. 19",
            "all programs but sc: speedup of DualOpt over Griffin, x",
            simulated=_mean(found, lambda f: f.over(GRIFFIN, DUALOPT),
                            tuple(name for name in AVERAGED if name != "sc"))),
        *_of_each(found, "vs-griffin", "Fig. 19", "speedup of DualOpt over Griffin, x",
                  lambda f: f.over(GRIFFIN, DUALOPT)),
        row(GRIFFIN, "Fig. 19", "speedup of Griffin over the baseline, x",
            simulated=_mean(found, lambda f: f.over(DIRECT, GRIFFIN))),
        row("griffin-vs-page-migration", "Fig. 19", "speedup of Griffin over page migration, x",
            simulated=_mean(found, lambda f: f.over(PAGE_MIGRATION, GRIFFIN))),
    ]  # fmt: skip


def _table_3() -> list[FigureRow]:
    """Table 3: the authors' judgement of the needs of each scheme."""
    note = "a judgement of the authors, which we cannot measure; interlace cost also prints it"
    return [
        row(f"needs-{scheme.lower()}", "Table 3",
            f"{scheme}: leaves programs as they are; helps transfers; makes no replicas; simple "
            "hardware",
            ", ".join(what), possible=False, note=note)
        for scheme, *what in NEEDS
    ]  # fmt: skip


def _table_4() -> list[FigureRow]:
    """Table 4: areas and power, and the storage that Table 1 implies."""
    note = (
        "areas and power need a synthesis of the hardware; interlace cost prints the bits of "
        "storage"
    )
    areas: dict[str, tuple[Value, Value]] = {
        "bgu": (964.99, 0.43), "scbu": (202.94, 0.27), "mshr": (697, 0.1), "codec": (37234, 31.9),
    }  # fmt: skip
    rows = []
    for unit, (area, power) in areas.items():
        rows += [
            row(f"area-{unit}", "Table 4", f"{unit.upper()}: area, um2", area, possible=False,
                note=note),
            row(f"power-{unit}", "Table 4", f"{unit.upper()}: power, mW", power, possible=False,
                note=note),
        ]  # fmt: skip
    bits = sum(
        part.bits
        for part in parts(machines()[OWN], FOUR)
        if part.structure.startswith("DualOpt") and "RDMA cache" not in part.structure
    )
    return [
        *rows,
        row("overhead", "Sec. 6.4", "DualOpt's share of the hardware", 0.00032, possible=False,
            note=note),
        row("storage-KiB", "Sec. 6.4", "DualOpt's storage in a GPU, without the RDMA cache, KiB",
            simulated=bits / 8 / 1024),
    ]  # fmt: skip
