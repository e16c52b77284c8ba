"""Checks of readers of machines and sweeps. Every text, valid or not, must pass them."""

from __future__ import annotations

from pathlib import Path

from interlace.base.errors import UserError
from interlace.machine.reading import parse_machine
from interlace.machine.writing import machine_text
from interlace.study.design_space import parse_design_space

ROOT = Path(__file__).resolve().parents[2]
MACHINES = sorted((ROOT / "machines").glob("*.toml"))
SWEEPS = sorted((ROOT / "docs" / "example").glob("*.toml"))
LONGEST = 4000  # the largest allowed number of characters in an error


def _check_sentence(error: UserError, where: str) -> None:
    sentence = str(error)
    assert sentence.startswith(where), sentence
    assert "\n" not in sentence, sentence
    assert 0 < len(sentence) <= LONGEST, sentence


def check_machine(text: str) -> bool:
    """Return whether the text is a machine. A machine must be the same after it is written and read
    again.
    """
    try:
        machine = parse_machine(text, "fuzzed", "fuzzed.toml", sources=True)
    except UserError as error:
        _check_sentence(error, "fuzzed.toml")
        return False
    again = parse_machine(machine_text(machine), "fuzzed", "written.toml", sources=True)
    for field in machine.__struct_fields__:
        assert getattr(again, field) == getattr(machine, field), field
    return True


def check_sweep(text: str) -> bool:
    """Return whether the text is a sweep. Each point of a sweep must have a machine."""
    file = ROOT / "docs" / "example" / "fuzzed.toml"
    try:
        space = parse_design_space(text, file)
    except UserError as error:
        _check_sentence(error, str(file))
        return False
    points = space.points()
    assert len(points) == len(space.machines) > 0
    for point in points:
        assert list(point) == space.keys
    return True
