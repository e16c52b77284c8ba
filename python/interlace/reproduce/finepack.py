"""The figures that the text of the FinePack paper states, beside our figures.

The paper is Muthukrishnan et al., "FinePack: Transparently Improving the Efficiency of Fine-Grained
Transfers in Multi-GPU Systems" (HPCA 2023).

If the text gives no number for a bar, the bar has no published value here. The paper's "P2P stores"
are the mechanism `inline`, and its "bulk DMA" is `bulk-copy`. Every run is simulated on the paper's
machines: four GV100 with PCIe 4 to 6, and sixteen GV100 with PCIe 6.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from interlace.base.statistics import geometric_mean
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.machine.schema import Machine
from interlace.model.mechanism_table import CONFIG_PACKET, FINEPACK, GPS, INLINE, WRITE_COMBINING
from interlace.model.mechanisms import BASELINE, BOUND
from interlace.model.run import Case, core_errors
from interlace.nodes.nodes import CudaNode
from interlace.reproduce import finepack_described
from interlace.reproduce import finepack_experiments as experiments
from interlace.reproduce import finepack_inputs as given
from interlace.reproduce.finepack_figures import FIGURES, Figure
from interlace.reproduce.finepack_inputs import Sizes
from interlace.reproduce.finepack_measures import (
    FIG_9,
    FOUR,
    MACHINE,
    SINGLE,
    SIXTEEN,
    all_bytes,
    flushed_for,
    issue_used,
    line_filled,
    memory_used,
    packed,
    waits_for_others,
    wasted_share,
)
from interlace.reproduce.rows import FigureRow, row
from interlace.reproduce.runs import Results, Runner
from interlace.workloads import Workload
from interlace.workloads.als import Als, AlsInputs
from interlace.workloads.ct import Ct, CtInputs
from interlace.workloads.diffusion import Diffusion, DiffusionInputs
from interlace.workloads.eqwp import Eqwp, EqwpInputs
from interlace.workloads.hit import Hit, HitInputs
from interlace.workloads.jacobi import Jacobi, JacobiInputs
from interlace.workloads.pagerank import Pagerank, PagerankInputs
from interlace.workloads.sssp import Sssp, SsspInputs

TITLE = "FinePack (HPCA 2023): published figures, and figures simulated on the paper's machines"

FASTER = {"pcie5": "4x-gv100-pcie5", "pcie6": "4x-gv100-pcie6"}
NVLINK = "4x-volta-nvlink2"  # the machine of Fig. 2

SUBHEADERS = (2, 3, 4, 5, 6)
OWN_SUBHEADER = 5  # the bytes of a sub-header in Table III and in the machine files
PROBES = (4, 8, 16, 32, 64, 128)  # the bytes of a store, one size for each probe
# Why a packet was sent. The runs have no loads, atomics or timeouts, so there are no other reasons.
REASONS = {
    "payload": "because their payload is full",
    "entries": "because no line of the queue is free",
    "window": "because a store falls outside of the window",
    "release": "because a kernel ends",
}


# --- the inputs -----------------------------------------------------------------------------------


SAME: dict[str, Any] = {"seed": given.SEED, "iterations": given.ITERATIONS}
TO_ALL = "all"

Kernels = Mapping[str, str]


def _pagerank(sizes: Sizes, by: Kernels = given.KERNELS) -> Workload:
    inputs = PagerankInputs(
        cage=sizes.pagerank_rows, kernel=by["pagerank"], subscribe=given.SUBSCRIBE, **SAME
    )
    return Pagerank.load(inputs, None)


def _sssp(sizes: Sizes, to: str = given.SUBSCRIBE, by: Kernels = given.KERNELS) -> Workload:
    return Sssp.load(
        SsspInputs(crawl=sizes.sssp_pages, kernel=by["sssp"], subscribe=to, **SAME), None
    )


def _als(sizes: Sizes, to: str = given.SUBSCRIBE, by: Kernels = given.KERNELS) -> Workload:
    inputs = AlsInputs(
        rgg=sizes.als_vertices,
        rank=given.RANK,
        method="sgd",
        kernel=by["als"],
        subscribe=to,
        **SAME,
    )
    return Als.load(inputs, None)


LOADED: dict[str, Callable[[Sizes], Workload]] = {
    "jacobi": lambda sizes: Jacobi.load(
        JacobiInputs(
            rows=sizes.jacobi_rows, half_bandwidth=given.HALF_BANDWIDTH, halo=True, **SAME
        ),
        None,
    ),
    "pagerank": _pagerank,
    "sssp": _sssp,
    "als": _als,
    "ct": lambda sizes: Ct.load(
        CtInputs(
            size=sizes.ct_size,
            angles=given.ANGLES,
            subsets=given.SUBSETS,
            subscribe=given.SUBSCRIBE,
            iterations=given.ITERATIONS,
        ),
        None,
    ),
    "eqwp": lambda sizes: Eqwp.load(
        EqwpInputs(size=sizes.eqwp_size, kernel=given.KERNELS["eqwp"], **SAME), None
    ),
    "diffusion": lambda sizes: Diffusion.load(
        DiffusionInputs(size=sizes.diffusion_size, dimensions=3, equation="heat", **SAME), None
    ),
    "hit": lambda sizes: Hit.load(
        HitInputs(size=sizes.hit_size, kernel=given.KERNELS["hit"], **SAME), None
    ),
}
# For each experiment, the inputs that differ from the usual inputs.
VARIED: dict[str, dict[str, Callable[[Sizes], Workload]]] = {
    "to-all": {
        "als": lambda sizes: _als(sizes, TO_ALL),
        "sssp": lambda sizes: _sssp(sizes, TO_ALL),
    },
    "whole-lines": {
        "pagerank": lambda sizes: _pagerank(sizes, given.WHOLE_LINES),
        "sssp": lambda sizes: _sssp(sizes, by=given.WHOLE_LINES),
        "als": lambda sizes: _als(sizes, by=given.WHOLE_LINES),
    },
    "whole-lines-to-all": {
        "als": lambda sizes: _als(sizes, TO_ALL, given.WHOLE_LINES),
        "sssp": lambda sizes: _sssp(sizes, TO_ALL, given.WHOLE_LINES),
    },
}


def _sizes(quick: bool) -> tuple[Sizes, Sizes]:
    if quick:
        return given.QUICK_FOUR_GPUS, given.QUICK_SIXTEEN_GPUS
    return given.FOUR_GPUS, given.SIXTEEN_GPUS


def inputs(quick: bool) -> dict[str, Any]:
    """Return the sizes and seeds of the inputs."""
    four, sixteen = _sizes(quick)
    return {
        "seed": given.SEED,
        "iterations": given.ITERATIONS,
        "half_bandwidth": given.HALF_BANDWIDTH,
        "rank": given.RANK,
        "angles": given.ANGLES,
        "subsets": given.SUBSETS,
        "kernels": given.KERNELS,
        "kernels_whole_lines": given.WHOLE_LINES,
        "subscribe": given.SUBSCRIBE,
        "four_gpus": four._asdict(),
        "sixteen_gpus": sixteen._asdict(),
    }


# --- the runs -------------------------------------------------------------------------------------

CASES = [
    SINGLE,
    *(Case(FOUR, name) for name in (*FIG_9, WRITE_COMBINING, CONFIG_PACKET, GPS)),
]
OF_BANDWIDTH = [Case(FOUR, name) for name in (INLINE, BASELINE, FINEPACK)]
OF_SIXTEEN = [SINGLE, *(Case(16, name) for name in FIG_9)]


def subheader_machine(size: int) -> tuple[str, Machine]:
    """Return a name for the paper's machine with sub-headers of another size, and the machine."""
    described = load_machine(MACHINE)
    queue = msgspec.structs.replace(described.gpu.remote_write_queue, subheader_bytes=size)
    gpu = msgspec.structs.replace(described.gpu, remote_write_queue=queue)
    return f"{MACHINE}, sub-headers of {size} B", msgspec.structs.replace(described, gpu=gpu)


def _subheaders(quick: bool) -> tuple[int, ...]:
    return (2, 4, 6) if quick else tuple(s for s in SUBHEADERS if s != OWN_SUBHEADER)


def steps(quick: bool, node: CudaNode | None) -> int:  # noqa: ARG001 (nothing is measured)
    """Return how many times `reproduce` calls the runner's tick."""
    of_one = len(CASES) + len(_subheaders(quick)) + len(FASTER) * len(OF_BANDWIDTH)
    of_experiments = sum(experiments.runs_of(name) for name in LOADED)
    return len(LOADED) * (of_one + len(OF_SIXTEEN)) + of_experiments


class Found(NamedTuple):
    """All results of one workload, by machine."""

    own: Results
    subheaders: dict[int, Results]
    faster: dict[str, Results]
    sixteen: Results  # on 16 GPUs; also the bound on four GPUs with the inputs for 16 GPUs
    varied: dict[str, Results]  # maps an experiment's name to its results


def _run(runner: Runner, name: str, quick: bool) -> Found:
    four, sixteen = _sizes(quick)
    workload = LOADED[name](four)
    results: dict[str, Results] = {}
    runner.simulate(workload, [MACHINE], CASES, results)
    subheaders: dict[int, Results] = {}
    for size in _subheaders(quick):
        machine, described = subheader_machine(size)
        found: dict[str, Results] = {}
        runner.described[machine] = described
        runner.simulate(workload, [machine], [Case(FOUR, FINEPACK)], found)
        subheaders[size] = found[machine]
    faster: dict[str, Results] = {}
    runner.simulate(workload, list(FASTER.values()), OF_BANDWIDTH, faster)
    larger = LOADED[name](sixteen)
    large: dict[str, Results] = {}
    runner.simulate(larger, [SIXTEEN], [*OF_SIXTEEN, experiments.TWICE], large)
    varied: dict[str, Results] = {}
    if name in experiments.ALONE:
        varied["lane-by-lane"] = experiments.run_lanes(runner, workload, MACHINE, FOUR)
        varied[experiments.OF_SIXTEEN] = experiments.run_lanes(runner, larger, SIXTEEN, 16)
    for which, loaded in VARIED.items():
        if name in loaded:
            varied[which] = experiments.run_as(runner, loaded[name](four), which)
    return Found(results[MACHINE], subheaders, faster, large[SIXTEEN], varied)


def reproduce(runner: Runner, node: CudaNode | None, quick: bool) -> list[FigureRow]:  # noqa: ARG001
    """Return all rows, in the order of the paper's figures."""
    found = {name: _run(runner, name, quick) for name in LOADED}
    own = {name: of.own for name, of in found.items()}
    varied = {name: of.varied for name, of in found.items()}
    return [
        *_fig_2(runner),
        *_fig_4(own),
        *_fig_9(own),
        *_fig_10(own),
        *_fig_11(own),
        *_fig_12(found),
        *_fig_13(found),
        *_others(own),
        *_sixteen(found),
        *_storage(),
        *experiments.rows_of(
            own,
            {name: of.sixteen for name, of in found.items()},
            varied,
        ),
        *finepack_described.rows_of(own, varied),
    ]


# --- figures --------------------------------------------------------------------------------------


def _fig_2(runner: Runner) -> list[FigureRow]:
    """Fig. 2: useful bytes as a fraction of all bytes, by the size of a store."""
    rows = []
    for kind, machine in (("pcie", MACHINE), ("nvlink", NVLINK)):
        described = to_core(load_machine(machine), runner.core)
        for size in PROBES:
            with core_errors():
                share = float(runner.core.store_goodput(described, size))
            text = f"goodput of {size} B stores, {kind}"
            rows.append(row(f"goodput-{kind}-{size}", "Fig. 2", text, simulated=share))
    return rows


def _fig_4(own: Mapping[str, Results]) -> list[FigureRow]:
    """Fig. 4: sizes of the stores to other GPUs."""
    small = FIGURES["stores-under-32B"]
    text = "fraction of the stores to other GPUs that are smaller than 32 B"
    return [
        small._replace(quantity=text).over_all(own),
        *(small.of_one(name, r) for name, r in own.items()),
    ]


LIMITS = (  # what limits the opportunity: the key, the text and the measure of each limit
    ("issue-one-gpu", "on one GPU: fraction of the issue slots that are used", issue_used),
    ("memory-one-gpu", "on one GPU: fraction of the memory bandwidth that is used", memory_used),
    ("waits-for-others", f"{BOUND}: fraction of the time in which a GPU waits while others compute",
     waits_for_others),
)  # fmt: skip


def _fig_9(own: Mapping[str, Results]) -> list[FigureRow]:
    """Fig. 9: speedups of four GPUs."""
    rows = [one.over_all(own) for one in FIGURES.values() if one.figure == "Fig. 9"]
    for name, r in own.items():
        for mechanism in FIG_9:
            text = f"{name}, {mechanism}: speedup over one GPU, x"
            key = f"speedup-{mechanism}-{name}"
            rows.append(row(key, "Fig. 9", text, simulated=r.speedup(Case(FOUR, mechanism))))
        rows += [
            row(f"{key}-{name}", "Fig. 9", f"{name}, {text}", simulated=of(r))
            for key, text, of in LIMITS
        ]
    return rows


def _fig_10(own: Mapping[str, Results]) -> list[FigureRow]:
    """Fig. 10: the bytes on the links."""
    rows = [one.over_all(own) for one in FIGURES.values() if one.figure == "Fig. 10"]
    for name, r in own.items():
        of_copies = all_bytes(r, BASELINE)
        for mechanism in (BASELINE, INLINE, WRITE_COMBINING, FINEPACK):
            wire = r.outcomes[Case(FOUR, mechanism)].wire
            for kind, value in wire._asdict().items():
                text = f"{name}, {mechanism}: {kind} bytes, relative to all bytes of bulk DMA"
                key = f"bytes-{kind}-{mechanism}-{name}"
                share = (value or 0) / of_copies
                rows.append(row(key, "Fig. 10", text, simulated=share))
    return rows


def _fig_11(own: Mapping[str, Results]) -> list[FigureRow]:
    """Fig. 11: the number of stores in a packet."""
    stores = FIGURES["stores-per-packet"]
    counts = {name: packed(r) for name, r in own.items()}
    least = min(counts, key=lambda name: counts[name])
    of_packets = [count for count in counts.values() if count > 0]
    return [
        stores.over_all(own),
        row("stores-per-packet-median", "Fig. 11", "stores in a packet, median of the programs",
            simulated=statistics.median(counts.values())),
        row("stores-per-packet-geometric-mean", "Fig. 11",
            "stores in a packet, geometric mean of the "
            "programs", simulated=geometric_mean(of_packets)),
        row("fewest-stores-per-packet", "Fig. 11", "program with the fewest stores in a "
            "packet", "ct",
            simulated=least),
        *(stores.of_one(name, r) for name, r in own.items()),
        *(
            row(f"flushes-{reason}-{name}", "Fig. 11",
                f"{name}: fraction of the packets that are sent {why}",
                simulated=flushed_for(reason, FINEPACK)(r))
            for name, r in own.items()
            for reason, why in REASONS.items()
        ),
    ]  # fmt: skip


def _fig_12(found: Mapping[str, Found]) -> list[FigureRow]:
    """Fig. 12: speedups with sub-headers of different sizes."""

    def time(of: Found, size: int) -> float:
        results = of.own if size == OWN_SUBHEADER else of.subheaders[size]
        return results.time(Case(FOUR, FINEPACK))

    sizes = sorted({OWN_SUBHEADER, *next(iter(found.values())).subheaders})
    speedups = {
        size: geometric_mean(of.own.time(SINGLE) / time(of, size) for of in found.values()) or 0.0
        for size in sizes
    }
    best = max(sizes, key=lambda size: speedups[size])
    return [
        row("best-subheader", "Fig. 12", "size of the fastest sub-header, bytes", 4, simulated=best,
            note='the paper says "reaches the maximum at 4, with virtually no change at 5"'),
        *(
            row(f"subheader-{size}", "Fig. 12", f"sub-headers of {size} B: speedup over one GPU, x",
                simulated=speedups[size])
            for size in sizes
        ),
    ]  # fmt: skip


def _fig_13(found: Mapping[str, Found]) -> list[FigureRow]:
    """Fig. 13: speedups with faster links."""
    rows = []
    for short, machine in {"pcie4": MACHINE, **FASTER}.items():
        for mechanism in (INLINE, BASELINE, FINEPACK):
            times = [
                (of.own if short == "pcie4" else of.faster[machine]).time(Case(FOUR, mechanism))
                for of in found.values()
            ]
            single = [of.own.time(SINGLE) for of in found.values()]
            speedup = geometric_mean(a / b for a, b in zip(single, times, strict=True))
            text = f"{short}, {mechanism}: speedup over one GPU, x"
            rows.append(row(f"speedup-{mechanism}-{short}", "Fig. 13", text, simulated=speedup))
    return rows


OF_GPS = (  # each figure has a row for each program
    FIGURES["vs-gps"],
    FIGURES["bytes-vs-gps"],
    Figure("bytes-wasted-gps", "Sec. VI-B", "fraction of GPS's sent bytes that no GPU reads", None,
           wasted_share(GPS)),
    Figure("gps-line-filled", "Sec. VI-B",
           "fraction of a line that stores filled, in the lines that GPS sends", None,
           line_filled),
    Figure("gps-flushes-release", "Sec. VI-B",
           "fraction of the lines that GPS sends because a kernel ends", None,
           flushed_for("release", GPS)),
)  # fmt: skip


def _others(own: Mapping[str, Results]) -> list[FigureRow]:
    """Section VI-B: GPS, and the alternative with configuration packets."""
    return [
        *(FIGURES[key].over_all(own) for key in ("vs-gps", "vs-config-packet", "bytes-vs-gps")),
        *(one.of_one(name, r) for name, r in own.items() for one in OF_GPS),
    ]


def _sixteen(found: Mapping[str, Found]) -> list[FigureRow]:
    """Section VI-B: sixteen GPUs on PCIe 6."""
    results = {name: of.sixteen for name, of in found.items()}
    return [one.over_all(results) for key, one in FIGURES.items() if key.startswith("16-")]


def _storage() -> list[FigureRow]:
    """Section IV-B: the data in the remote write queue, without tags and byte enables."""
    rows = []
    for gpus, machine, published in ((FOUR, MACHINE, 48), (16, SIXTEEN, 120)):
        gpu = load_machine(machine).gpu
        lines = gpu.remote_write_queue.lines_per_destination * (gpus - 1)
        kilobytes = lines * gpu.l2.line_bytes / 1024
        note = ""
        if gpus == FOUR:
            note = (
                "three partitions of 64 lines of 128 B have 24 KiB, but the paper says 48 KiB; "
                "the paper's 120 KiB for 16 GPUs agrees with ours"
            )
        rows.append(
            row(f"queue-KiB-{gpus}", "Sec. IV-B", f"{gpus} GPUs: data in the remote write queue, "
                "KiB",
                published, simulated=kilobytes, possible=gpus != FOUR, note=note)
        )  # fmt: skip
    return rows
