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
    """A key of machine files: its type, and the range of its values."""

    table: str  # the table, such as "gpu.l2"; empty at the top of the file
    name: str
    type: Type
    # the factor from the key's unit to bytes, picoseconds, hertz or bytes per second
    in_struct: float
    least: float = 0
    most: float = 0
    need: Need = "required"
    choices: tuple[str, ...] = ()
    # if true, the value must be greater than `least`; if false, it may also equal `least`
    above_least: bool = False
    stored: bool = True  # whether the C++ struct has a member for the key

    @property
    def full(self) -> str:
        """Return the key with its table, such as gpu.l2.size_KiB."""
        return f"{self.table}.{self.name}" if self.table else self.name


class KeyTable(NamedTuple):
    """A table of machine files, such as gpu.l2."""

    name: str
    need: Need


class Rule(NamedTuple):
    """A rule about the values of several keys. C++ has the same rules (src/machine/keys.hpp)."""

    kind: RuleKind
    key: str  # a full name, such as "gpu.l2.size_KiB"
    others: tuple[str, ...] = ()
    times: float = 1
