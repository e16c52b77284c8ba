"""Experiments on FinePack's figures. An experiment repeats runs with one change.

The paper leaves some choices open, and it contradicts some of our choices. Each experiment changes
one choice. It shows whether this choice makes a figure differ from the paper's figure. The note of
the experiment's rows names the change. Experiments do not change the figures themselves.

- `lane-by-lane`: the paper says that peer-to-peer stores do well in Jacobi and diffusion, "where
  the store granularity is 128B", and poorly in the other programs. The stores of CT "exhibit
  minimal spatial locality" (section VI-A). In our programs, neighbouring lanes of EQWP, HIT and CT
  store to adjacent addresses. In this experiment, the machine does not join the stores of
  neighbouring lanes to other GPUs: the machine's `remote_store_bytes` is 4. Elements of 8 bytes
  stay whole.
- `to-all`: section V calls the communication of ALS "all-to-all", and the communication of SSSP
  "many-to-many". In this experiment, both programs send every value to all GPUs. Otherwise our
  programs send a value only to the GPUs that read it.
- `both`: `lane-by-lane` and `to-all` together.
- `whole-lines`: PageRank, SSSP and ALS use kernels whose warps store whole lines, or whole factors.
  The paper has 42 stores in a packet of 4 KiB. So a store has about 97 bytes on average, and most
  stores must be whole lines.
- `whole-lines-to-all`: as in `whole-lines`, and ALS and SSSP also send every value to all GPUs.
- `twice-the-size`: the bound on four GPUs, with the inputs for 16 GPUs. These inputs are about
  twice as large as the inputs for four GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from interlace.machine.reading import load_machine
from interlace.machine.schema import Machine
from interlace.model.mechanism_table import FINEPACK, GPS, INLINE
from interlace.model.mechanisms import BASELINE, BOUND
from interlace.model.run import Case
from interlace.reproduce.finepack_figures import FIGURES
from interlace.reproduce.finepack_inputs import WHOLE_LINES
from interlace.reproduce.finepack_measures import FOUR, MACHINE, fewer, gain
from interlace.reproduce.rows import FigureRow, row
from interlace.reproduce.runs import Results, Runner
from interlace.workloads import Workload

LANE_BYTES = 4
ALONE = ("eqwp", "hit", "ct")  # programs whose neighbouring lanes store to adjacent addresses
TO_ALL = ("als", "sssp")
OF_ALL = [Case(FOUR, name) for name in (INLINE, BASELINE, FINEPACK, GPS)]
OF_LINES = [Case(FOUR, name) for name in (INLINE, FINEPACK)]
TWICE = Case(FOUR, BOUND)  # an additional run on four GPUs, with the inputs for 16 GPUs
OF_SIXTEEN = "lane-by-lane on 16"

NOTES = {
    "lane-by-lane": (
        "an experiment: the machine does not join stores of neighbouring lanes of EQWP, HIT and CT "
        "to other GPUs"
    ),
    "to-all": "an experiment: ALS and SSSP send every value to all GPUs",
    "both": (
        "an experiment: the machine does not join stores of neighbouring lanes of EQWP, HIT and CT "
        "to other GPUs, and ALS and SSSP send every value to all GPUs"
    ),
    "whole-lines": "an experiment: the warps of PageRank, SSSP and ALS store whole lines",
    "whole-lines-to-all": (
        "an experiment: the warps of PageRank, SSSP and ALS store whole lines, and ALS and SSSP "
        "send every value to all GPUs"
    ),
    "twice-the-size": (
        "an experiment: four GPUs run the inputs for 16 GPUs. These inputs are about twice as "
        "large as the inputs for four GPUs"
    ),
}


def lane_cases(gpus: int) -> list[Case]:
    """Return the cases to run on a machine that does not join stores of neighbouring lanes."""
    return [Case(gpus, name) for name in (INLINE, FINEPACK)]


def cases_of(which: str) -> list[Case]:
    """Return the cases to run for a workload with another kernel."""
    return OF_ALL if which == "to-all" else OF_LINES


def lane_machine(name: str) -> tuple[str, Machine]:
    """Return a name and a machine of the paper that does not join neighbouring lanes' stores."""
    described = load_machine(name)
    gpu = msgspec.structs.replace(described.gpu, remote_store_bytes=LANE_BYTES)
    return f"{name}, stores by lanes", msgspec.structs.replace(described, gpu=gpu)


def runs_of(name: str) -> int:
    """Return how many runs of this workload the experiments make."""
    of_lanes = len(lane_cases(FOUR)) + len(lane_cases(16))
    of_lines = len(OF_LINES) * (1 + (name in TO_ALL))
    of_all = len(OF_ALL) * (name in TO_ALL)
    return of_lanes * (name in ALONE) + of_all + of_lines * (name in WHOLE_LINES) + 1


def run_lanes(runner: Runner, workload: Workload, name: str, gpus: int) -> Results:
    """Run a workload on the machine that does not join stores of neighbouring lanes."""
    machine, described = lane_machine(name)
    return _run(runner, workload, machine, described, lane_cases(gpus))


def run_as(runner: Runner, workload: Workload, which: str) -> Results:
    """Run a workload with a kernel that only an experiment uses."""
    return _run(runner, workload, f"{MACHINE}, {which}", load_machine(MACHINE), cases_of(which))


def _run(
    runner: Runner, workload: Workload, machine: str, described: Machine, cases: Sequence[Case]
) -> Results:
    runner.described[machine] = described  # this name distinguishes the runs of this kernel
    found: dict[str, Results] = {}
    runner.simulate(workload, [machine], cases, found)
    return found[machine]


def replaced(own: Results, *experiments: Results | None) -> Results:
    """Return `own`, with the outcomes of the experiments in place of the original outcomes."""
    found = Results()
    found.outcomes = dict(own.outcomes)
    for experiment in experiments:
        found.outcomes |= {} if experiment is None else experiment.outcomes
    return found


_OF_STORES = ("vs-inline", "bulk-copy-vs-inline", "bytes-vs-inline")
_OF_PACKETS = ("vs-one-gpu", "vs-bulk-copy", "bytes-vs-bulk-copy", "stores-per-packet")
_OF_LINES = ("stores-under-32B", "vs-inline", "bytes-vs-inline", "stores-per-packet")
SHOWN = {  # the keys of the figures that each experiment shows
    "lane-by-lane": ("stores-under-32B", *_OF_STORES, *_OF_PACKETS),
    "to-all": (*_OF_STORES, *_OF_PACKETS, "vs-gps"),
    "both": ("stores-under-32B", *_OF_STORES, *_OF_PACKETS),
    "whole-lines": _OF_LINES,
    "whole-lines-to-all": _OF_LINES,
}


def _of_one(which: str, name: str, r: Results) -> list[FigureRow]:
    """Return the rows of an experiment for one of the workloads that the experiment changes."""
    mechanisms = [case.mechanism for case in cases_of(which)]
    rows = [
        row(f"speedup-{mechanism}-{name}-{which}", "Fig. 9",
            f"{which}, {name}, {mechanism}: speedup over one GPU, x",
            simulated=r.speedup(Case(FOUR, mechanism)), note=NOTES[which])
        for mechanism in mechanisms
    ]  # fmt: skip
    for mechanism in mechanisms:
        if mechanism == FINEPACK:
            continue
        of = gain(FOUR, FINEPACK, mechanism)
        text = f"{which}, {name}: speedup of FinePack over {mechanism}, x"
        rows.append(
            row(f"vs-{mechanism}-{name}-{which}", "Fig. 9", text, simulated=of(r),
                note=NOTES[which])
        )  # fmt: skip
        text = f"{which}, {name}: bytes of {mechanism} divided by FinePack's bytes, x"
        rows.append(
            row(f"bytes-vs-{mechanism}-{name}-{which}", "Fig. 10", text,
                simulated=fewer(mechanism)(r), note=NOTES[which])
        )  # fmt: skip
    return [*rows, FIGURES["stores-per-packet"].of_one(name, r, which, NOTES[which])]


# The sets of runs that make up each experiment. Outcomes of a later set replace earlier outcomes.
_MADE_OF = {
    "lane-by-lane": ("lane-by-lane",),
    "to-all": ("to-all",),
    "both": ("lane-by-lane", "to-all"),
    "whole-lines": ("whole-lines",),
    "whole-lines-to-all": ("whole-lines", "whole-lines-to-all"),
}


def rows_of(
    own: Mapping[str, Results],
    sixteen: Mapping[str, Results],
    varied: Mapping[str, Mapping[str, Results]],
) -> list[FigureRow]:
    """Return all rows of the experiments.

    An experiment replaces runs on four and on sixteen GPUs. `varied` maps each workload and each
    experiment to its runs. The key `OF_SIXTEEN` has the runs on sixteen GPUs.
    """
    rows = []
    for which, parts in _MADE_OF.items():
        with_them = {
            name: replaced(r, *(varied[name].get(part) for part in parts))
            for name, r in own.items()
        }
        rows += [FIGURES[key].over_all(with_them, which, NOTES[which]) for key in SHOWN[which]]
    for name, r in own.items():
        for which, of_it in varied[name].items():
            if which != OF_SIXTEEN:
                rows += _of_one(which, name, replaced(r, of_it))
    large = {name: replaced(r, varied[name].get(OF_SIXTEEN)) for name, r in sixteen.items()}
    stores, bound = FIGURES["16-vs-inline"], FIGURES["opportunity"]
    lane, twice = "lane-by-lane", "twice-the-size"
    return [
        *rows,
        stores.over_all(large, lane, NOTES[lane]),
        *(stores.of_one(name, r, lane, NOTES[lane]) for name, r in large.items() if name in ALONE),
        # `bound` is computed from the run `TWICE`, which has four GPUs and the inputs for 16 GPUs.
        bound.over_all(sixteen, twice, NOTES[twice]),
        *(bound.of_one(name, r, twice, NOTES[twice]) for name, r in sixteen.items()),
    ]
