"""Tests of the workload: its reference, wrong input, and verified runs by every mechanism."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from heat_rod.workload import HeatRod, HeatRodInputs

from interlace import _core
from interlace.base.errors import UserError
from interlace.model.mechanism_table import NVSHMEM
from interlace.model.mechanisms import EVERY, MECHANISMS, ONLY_UPDATES
from interlace.model.run import Case
from interlace.workloads import inputs_of


def small() -> HeatRod:
    return HeatRod.load(HeatRodInputs(size=1000), None)


def test_the_reference_keeps_the_heat() -> None:
    rod = small()
    after = rod.reference(50).values
    assert after.sum() == pytest.approx(rod.start.sum(dtype=np.float64))
    assert after.std() < rod.start.std() / 2


@pytest.mark.parametrize(("option", "value"), [("size", 0), ("rate", 0.6), ("seed", -1)])
def test_wrong_input(option: str, value: float) -> None:
    with pytest.raises(UserError, match=f"--{option} {value}: give a number"):
        inputs_of("heat-rod", {option: value})


def of_regions(names: tuple[str, ...]) -> list[str]:
    """Return the names of the mechanisms that move regions."""
    return [name for name in names if name not in ONLY_UPDATES]


@pytest.mark.parametrize("mechanism", [name for name in of_regions(EVERY) if name != NVSHMEM])
def test_the_reference_node(mechanism: str) -> None:
    rod = small()
    outcome = rod._run(_core, Case(3, mechanism), ("host", None), (10, 0.0))
    outcome.time_s = 1.0  # the reference node measures no time
    rod.verify(outcome)


def test_a_study(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    mechanisms = of_regions(MECHANISMS)
    command = [
        *(sys.executable, "-m", "interlace", "study", "heat-rod", "--size", "20000", "--gpus", "4"),
        *("--machine", "4x-gv100-pcie4", "--mechanisms", ",".join(mechanisms), "--json", str(out)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    rows = json.loads(out.read_text())["rows"]
    assert {row["mechanism"] for row in rows} >= set(mechanisms)
    assert all(row["verified"] for row in rows)
