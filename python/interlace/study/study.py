"""A study compares mechanisms and numbers of GPUs for one workload on one machine.

Each row stands for one mechanism on one number of GPUs. The study verifies each result before it
makes the row. Each simulated run has its own process. Measured runs run one after another, without
other runs at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from interlace.base.errors import UserError
from interlace.base.progress import progress
from interlace.model.mechanism_table import AGENT_THREADS, CHUNK_BYTES, PACKED, RANGES, ROWS
from interlace.model.mechanisms import BASELINE, BOUND, NOT_AVAILABLE, Tuning
from interlace.model.options import whole_numbers
from interlace.model.results import FORMAT, Study, StudyRow, Timelines, provenance
from interlace.nodes.nodes import CudaNode, Node
from interlace.study import idle
from interlace.study.evaluation import Plan, run_study
from interlace.workloads import Inputs, Workload

if TYPE_CHECKING:
    from interlace.tuning.profiles import Profile, Use

TUNED = "tuned"  # the user's name for the mechanism that the profile picked
MAX_DEVICES = 16
SHARED_NOTE = (
    "Shared GPU: all devices share one GPU, so the times say nothing about several GPUs. Rates "
    "of links, NVLink bytes and the reachable speedup are left out."
)


# --- options --------------------------------------------------------------------------------------


def default_gpus(count: int) -> list[int]:
    """Return the default numbers of GPUs: 1, 2, 4 and so on, and the number of all GPUs."""
    return sorted({1 << n for n in range(count.bit_length())} | {count})


def _chosen_gpus(text: str | None, node: Node) -> tuple[int, ...]:
    count = node.gpus
    chosen = default_gpus(count) if text is None else whole_numbers("--gpus", text, "GPUs")
    shared = isinstance(node, CudaNode) and node.share_gpu
    if shared and chosen[-1] > MAX_DEVICES:
        raise UserError(
            f"--gpus {chosen[-1]}: at most {MAX_DEVICES} devices can share GPUs; give fewer"
        )
    if not shared and chosen[-1] > count:
        has = "1 GPU" if count == 1 else f"{count} GPUs"
        hint = "; --share-gpu lets several devices share a GPU"
        raise UserError(
            f"--gpus {chosen[-1]}: {node.machine_name} has {has}"
            + (hint if isinstance(node, CudaNode) else "")
        )
    return tuple(gpus for gpus in chosen if gpus != 1)


# --- profiles -------------------------------------------------------------------------------------


def _named_profile(file: Path, counts: Sequence[int]) -> tuple[Path, Profile]:
    from interlace.tuning import profiles

    profile = profiles.load(file, "--profile")
    if profile.workload.gpus not in counts:
        raise UserError(
            f"--profile {file} is for {profile.workload.gpus} GPUs, but this study does not run "
            f"on {profile.workload.gpus} GPUs; give --gpus"
        )
    return file, profile


def _profiles(
    node: Node,
    workload: Workload,
    counts: Sequence[int],
    named: tuple[Path, Profile] | None,
    warn: Callable[[str], None],
) -> dict[int, Use]:
    """Return the profiles to use, by number of GPUs. Warn about a profile of another machine."""
    from interlace.tuning import profiles

    found: dict[int, Use] = {}
    for gpus in counts:
        use: Use | None
        if named is not None and named[1].workload.gpus == gpus:
            use = profiles.given(*named, node, workload)
        else:
            use = profiles.find(node, workload, gpus)
        if use is None:
            continue
        found[gpus] = use
        if (warning := use.warning()) is not None:
            warn(warning)
    return found


def _planned(
    counts: tuple[int, ...],
    names: tuple[str, ...],
    tuning: Tuning,
    uses: Mapping[int, Use],
    by_hand: Mapping[str, bool],
) -> Plan:
    """Return the runs. Mechanisms have their profile's configuration unless options override it."""
    besides = {}
    if TUNED in names:
        for gpus in counts:
            if gpus not in uses:
                raise UserError(
                    f"--mechanisms {TUNED}: there is no profile of this workload on {gpus} GPUs of "
                    f"this machine; make one with interlace tune and --gpus {gpus}"
                )
            pick = uses[gpus].profile.pick
            besides[gpus] = (pick.mechanism, pick.config)
    profiled = {
        gpus: {
            mechanism: config
            for mechanism, said in by_hand.items()
            if mechanism in names
            and not said
            and (config := use.profile.best(mechanism)) is not None
        }
        for gpus, use in uses.items()
    }
    mechanisms = tuple(name for name in names if name != TUNED)
    return Plan(counts, mechanisms, tuning, profiled, besides)


# --- the file of results --------------------------------------------------------------------------


def _notes(
    workload: Workload, node: Node, rows: Sequence[StudyRow], left_out: Mapping[str, str]
) -> list[str]:
    notes = [f"{name}{NOT_AVAILABLE}{reason}." for name, reason in left_out.items()]
    if any(row.derived for row in rows):
        notes.append(
            f"{BOUND} is derived: it is the time of {BASELINE}, run again without its copies."
        )
        if any(row.captured is not None and row.captured > 1 for row in rows):
            notes.append(
                "A mechanism captures more than 100 % of a derived opportunity if, apart from the "
                f"copies, it needs less time than {BASELINE}. Such values occur because the bound "
                "is only an estimate."
            )
    elif any(row.gpus > 1 and row.opportunity is None for row in rows):
        bound = BOUND if node.runs(BOUND) else BASELINE
        notes.append(
            f"The figures opportunity, captured and overlap need {bound} among the mechanisms."
        )
    if isinstance(node, CudaNode) and any(node.shares(row.gpus) for row in rows):
        notes.append(SHARED_NOTE)
    if isinstance(node, CudaNode):
        notes.append(
            "The host node counts useful and wasted bytes with the boundaries of this run. "
            "Protocol bytes are the NVLink counters' raw bytes minus useful and wasted bytes. "
            "Without these counters, protocol bytes are null."
        )
    else:
        notes.append(
            "peak_rss_mb is the peak memory of the row's own process, with the interpreter and the "
            "data."
        )
    for row in rows:
        notes.extend(
            f"{row.mechanism} on {row.gpus} GPUs: {remark}"
            for remark in row.config.get("remarks", ())
        )
    notes += idle.warnings(rows)
    notes.append(
        f"Every device's result was compared with a float64 reference; relative errors up to "
        f"{workload.facts().get('max_allowed_error', 0):g} are allowed."
    )
    return notes


def _study(
    workload: Workload,
    node: Node,
    rows: list[StudyRow],
    candidates: list[StudyRow],
    left_out: Mapping[str, str],
    uses: Sequence[Use],
) -> Study:
    return Study(
        format=FORMAT,
        **provenance(),
        driver=node.driver,
        machine={"node": node.name, **node.description()},
        data=workload.facts(),
        notes=[
            *_notes(workload, node, rows, left_out),
            *(use.sentence() for use in uses),
        ],
        rows=rows,
        candidates=candidates,
    )


class Asked(NamedTuple):
    """The options of the command line. None means that the option was not given."""

    counts: str | None  # numbers of GPUs
    mechanisms: tuple[str, ...] | None
    ranges: tuple[int, ...] | None
    chunks: tuple[int, ...] | None
    threads: tuple[int, ...] | None
    profile: Path | None
    profiled: bool  # whether the study may use profiles

    @property
    def by_hand(self) -> dict[str, bool]:
        """Return, for each mechanism, whether the command line names its configurations."""
        said = {
            RANGES.name: self.ranges is not None,
            CHUNK_BYTES.name: self.chunks is not None,
            AGENT_THREADS.name: self.threads is not None,
        }
        named = {
            row.name: any(said.get(name, False) for name in row.families[0])
            for row in ROWS
            if row.families
        }
        return {**named, PACKED: False}  # no option has the parameters of `packed`


def _moved(names: tuple[str, ...], workload: Workload, *, named: bool) -> tuple[str, ...]:
    """Return the mechanisms that the workload can use.

    Raise UserError if the user named a mechanism that the workload cannot use.
    """
    reasons = {name: workload.refuses(name) for name in names}
    for name, reason in reasons.items():
        if named and reason is not None:
            raise UserError(f"--mechanisms {name}: it {reason}; leave it out")
    return tuple(name for name in names if reasons[name] is None)


def conduct(
    chosen: type[Workload], inputs: Inputs, node: Node, asked: Asked, jobs: int,
    warn: Callable[[str], None],
) -> tuple[Study, Timelines]:  # fmt: skip
    """Run a whole study. `warn` receives a sentence if a profile belongs to another machine."""
    left_out: Mapping[str, str] = {}
    if asked.mechanisms is None:
        names, left_out = node.default_mechanisms(chosen.defaults(inputs))
    else:
        names = asked.mechanisms
        if isinstance(node, CudaNode):
            node.require(names, "--mechanisms")
    tuning = Tuning(
        asked.ranges or node.default_ranges,
        asked.chunks or node.default_chunks,
        asked.threads or node.default_threads,
        bulk_agents=node.bulk_agents,
    )
    counts = _chosen_gpus(asked.counts, node)
    profile = None if asked.profile is None else _named_profile(asked.profile, counts)
    loaded = chosen.load(inputs, node.cuda if isinstance(node, CudaNode) else None)
    names = _moved(names, loaded, named=asked.mechanisms is not None)
    uses = _profiles(node, loaded, counts, profile, warn) if asked.profiled else {}
    tuning = replace(tuning, collectives=loaded.collectives)
    plan = _planned(counts, names, tuning, uses, asked.by_hand)
    steps = len(plan.cases(node.runs, loaded.largest_part))
    if isinstance(node, CudaNode):
        # the runs of bulk-copy without transfers, from which the bound is derived
        steps += len(plan.bulk_copies())
        steps += 1 + len(plan.gpus)  # the runs that count wire bytes and work
    with progress(f"{chosen.name} on {node.machine_name}", steps) as tick:
        found, candidates, timelines = run_study(loaded, node, plan, jobs, tick)
    study = _study(loaded, node, found, candidates, left_out, list(uses.values()))
    return study, timelines
