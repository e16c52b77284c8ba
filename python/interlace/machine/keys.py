"""The properties of a key of machine files. schema.py lists all keys."""

from __future__ import annotations

from typing import Literal, NamedTuple

Type = Literal["whole", "number", "text", "name", "choice", "protocol", "ends"]
Need = Literal[
    "required", "optional", "preset", "pcie", "pcie_only", "nvlink_only", "named", "list"
]
RuleKind = Literal[
    "power_of_two", "power_of_two_of", "same", "divides", "multiple", "at_most", "less",
    "at_least_together", "needs",
]  # fmt: skip


class Key(NamedTuple):
    """A key: its type, and the range of its values."""

    table: str  # such as "gpu.l2"; "" at the top of the file
    name: str
    type: Type
    in_struct: float  # the value of the key's unit in bytes, picoseconds, hertz or bytes a second
    least: float = 0
    most: float = 0
    need: Need = "required"
    choices: tuple[str, ...] = ()
    above_least: bool = False  # whether the value must be greater than `least`
    stored: bool = True  # the form in the C++ struct

    @property
    def full(self) -> str:
        """The key with its table, such as gpu.l2.size_KiB."""
        return f"{self.table}.{self.name}" if self.table else self.name


class KeyTable(NamedTuple):
    """A table of machine files."""

    name: str
    need: Need


class Rule(NamedTuple):
    """A rule about several keys. C++ compares the same values (src/machine/keys.hpp)."""

    kind: RuleKind
    key: str  # such as "gpu.l2.size_KiB"
    others: tuple[str, ...] = ()
    times: float = 1
