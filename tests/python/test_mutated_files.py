"""Tests random changes of machine files and sweep files, with fixed seeds.

Each file must be read, or refused with one sentence. tests/fuzz/fuzz_files.py makes the same test
for as long as its user wants.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from file_checks import MACHINES, SWEEPS, check_machine, check_sweep
from mutations import mutated

randoms = st.randoms(note_method_calls=False, use_true_random=False)
TEXTS = [path.read_text(encoding="utf-8") for path in MACHINES]
(SWEEP,) = (path.read_text(encoding="utf-8") for path in SWEEPS)


def test_what_ships_is_valid() -> None:
    assert all(check_machine(text) for text in TEXTS)
    assert check_sweep(SWEEP)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(TEXTS), randoms)
def test_machine_files(text: str, random: Random) -> None:
    check_machine(mutated(text, random))


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(randoms)
def test_sweep_files(random: Random) -> None:
    check_sweep(mutated(SWEEP, random))


@pytest.mark.parametrize("seed", range(3))
def test_mutations_repeat(seed: int) -> None:
    assert mutated(SWEEP, Random(seed)) == mutated(SWEEP, Random(seed)) != SWEEP
