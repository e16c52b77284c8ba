"""Finds the fastest mechanism of a workload and its parameters by measurement.

The result is a profile, which later studies use automatically. Every run's result is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from interlace.base import files
from interlace.base.errors import UserError
from interlace.base.progress import Steps, progress
from interlace.model.mechanisms import Config, Tuning
from interlace.model.options import whole
from interlace.model.run import Case
from interlace.nodes.nodes import CudaNode, Node
from interlace.tuning import profiles
from interlace.tuning.packing import update_space
from interlace.tuning.profiles import Machine, Profile, Subject
from interlace.tuning.search import Round, tune_in_rounds
from interlace.workloads import Inputs, Workload

MOST_ROUNDS = 8  # the finalists are measured in at most this many rounds


def _measured_by(
    workload: Workload, node: Node, gpus: int, steps: Steps
) -> Callable[[Round], list[Sequence[float] | str]]:
    """Return a function that runs the candidates of a round and verifies every result."""

    def measure(round_: Round) -> list[Sequence[float] | str]:
        steps.expect(round_.expected)
        cases = [Case(gpus, it.mechanism, Config.of(it.parameters)) for it in round_.candidates]
        found: dict[Case, Sequence[float] | str] = {}
        for case, outcome in node.attempts(workload, cases):
            if isinstance(outcome, UserError):
                found[case] = str(outcome)
            else:
                workload.verify(outcome)
                outcome.values = np.empty((0, 0), dtype=np.float32)
                found[case] = outcome.times_s or [outcome.time_s]
            steps()
        return [found[case] for case in cases]

    return measure


def _chosen_gpus(text: str | None, node: Node) -> int:
    if node.gpus < 2:
        raise UserError(f"tune needs at least 2 GPUs; {node.machine_name} has 1")
    if text is None:
        return node.gpus
    chosen = whole("--gpus", text, 2)
    assert chosen is not None
    if chosen > node.gpus:
        raise UserError(f"--gpus {chosen}: {node.machine_name} has {node.gpus} GPUs")
    return chosen


def tune_workload(
    chosen: type[Workload], inputs: Inputs, node: Node, gpus: str | None,
    mechanisms: Sequence[str], tuning: Tuning, warmup: int | None, repeats: int, out: Path | None,
) -> tuple[Profile, Path]:  # fmt: skip
    """Return the profile of a workload on a node, and its path.

    `warmup` is None for simulated runs.
    """
    tuning = replace(tuning, bulk_agents=node.bulk_agents)
    count = _chosen_gpus(gpus, node)
    loaded = chosen.load(inputs, node.cuda if isinstance(node, CudaNode) else None)
    path = out or profiles.default_path(Machine.of(node), Subject.of(loaded, count))
    if out is None:
        files.make_folder(path.parent)
        files.check_writable(path, "the profile")
    if loaded.has_updates:
        space = update_space(loaded, count, mechanisms)
    else:
        space = tuning.space(mechanisms, loaded.largest_part(count), count - 1)
    with progress(f"tuning {chosen.name} on {node.machine_name}", 1) as steps:
        found = tune_in_rounds(
            _measured_by(loaded, node, count, steps),
            space=space,
            repeats=repeats,
            most_rounds=MOST_ROUNDS,
            repeatable=warmup is None,
        )
    profile = Profile.of(
        Machine.of(node),
        Subject.of(loaded, count),
        found,
        iterations=loaded.iterations,
        warmup=warmup,
        repeats=repeats,
    )
    return profile, path
