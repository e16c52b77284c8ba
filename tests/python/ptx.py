"""Runs kernels in PTX on the host, thread by thread.

The interpreter knows only the instructions of these kernels.

Each entry becomes a generator in Python. A thread yields at a barrier. A test registers the memory
that kernels may access. An access outside of this memory, or a misaligned access, raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
OPERATORS = {
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "shl": "{a} << {b}",
    "shr": "{a} >> {b}",
    "div": "{a} // {b}",
    "min": "min({a}, {b})",
    "mul": "{a} * {b}",
    "mad": "{a} * {b} + {c}",
    "neg": "-{a}",
    "mov": "{a}",
    "cvt": "{a}",
    "cvta": "{a}",
    "selp": "{a} if {c} else {b}",
}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "ge": ">="}
SPECIAL = {"%tid.x": "tid", "%ntid.x": "ntid", "%ctaid.x": "ctaid", "%nctaid.x": "nctaid"}


class Memory:
    """Memory as bytes, found by address."""

    def __init__(self) -> None:
        self._regions: list[tuple[int, bytearray]] = []

    def add(self, address: int, content: bytearray) -> None:
        self._regions.append((address, content))

    def _at(self, address: int, size: int) -> tuple[bytearray, int]:
        if address % size:
            raise ValueError(f"an access of {size} bytes at {address:#x} is misaligned")
        for begin, content in self._regions:
            if begin <= address and address + size <= begin + len(content):
                return content, address - begin
        raise ValueError(f"an access of {size} bytes at {address:#x} leaves the memory")

    def load(self, address: int, width: int, count: int) -> Any:
        content, at = self._at(address, width * count)
        read = [
            int.from_bytes(content[at + k * width : at + (k + 1) * width], "little")
            for k in range(count)
        ]
        return read if count > 1 else read[0]

    def store(self, address: int, width: int, values: list[int]) -> None:
        content, at = self._at(address, width * len(values))
        for k, value in enumerate(values):
            content[at + k * width : at + (k + 1) * width] = value.to_bytes(width, "little")


def entries(text: str) -> dict[str, list[str]]:
    """Return the instructions and the labels of each entry."""
    text = re.sub(r"//[^\n]*", "", text)
    found = {}
    for name, body in re.findall(
        r"\.visible \.entry (\w+)\([^)]*\)\s*\{(.*?)\n\}", text, re.DOTALL
    ):
        body = re.sub(r"(?m)^(\w+):", r"\1:;", body)
        statements = (one.strip() for one in body.split(";"))
        found[name] = [one for one in statements if one and not one.startswith(".reg")]
    return found


def _operand(word: str) -> str:
    word = word.strip()
    if word in SPECIAL:
        return SPECIAL[word]
    if re.fullmatch(r"-?\d+", word):
        return word
    return "r_" + word


def _operands(text: str) -> list[str]:
    return [one.strip() for one in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", text)]


def _address(word: str) -> str:
    base, _, offset = word.strip("[]").partition("+")
    return f"({_operand(base)} + {offset or 0})"


def _vector(word: str) -> list[str]:
    return [_operand(one) for one in word.strip("{}").split(",")]


def _statement(instruction: str) -> str:
    name, _, rest = instruction.partition(" ")
    kinds, words = name.split("."), _operands(rest)
    operation = kinds[0]
    size = SIZES.get(kinds[-1][1:], 0)
    count = next((int(kind[1]) for kind in kinds if re.fullmatch(r"v\d", kind)), 1)
    space = next((kind for kind in kinds if kind in ("param", "shared", "global")), "generic")
    if operation == "ld":
        return (
            f"{', '.join(_vector(words[0]))} = {space}.load({_address(words[1])}, {size}, {count})"
        )
    if operation == "st":
        return f"{space}.store({_address(words[0])}, {size}, [{', '.join(_vector(words[1]))}])"
    if operation == "setp":
        left, right = (_operand(one) for one in words[1:])
        return f"{_operand(words[0])} = {left} {COMPARE[kinds[1]]} {right}"
    values = dict(zip("abc", map(_operand, words[1:]), strict=False))
    # A predicate has one bit.
    bits = 1 if kinds[-1] == "pred" else 8 * size * (2 if "wide" in kinds else 1)
    if operation == "cvt":
        bits = 8 * SIZES[kinds[1][1:]]
    return f"{_operand(words[0])} = ({OPERATORS[operation].format(**values)}) & {(1 << bits) - 1}"


def compiled(instructions: list[str], symbols: dict[str, int]) -> Callable[..., Iterator[None]]:
    """Return a generator function for an entry.

    `symbols` are the addresses of variables and parameters.
    """
    names = sorted(set(re.findall(r"(?<![\w.%])[a-z]\w*", " ".join(instructions))))
    lines = ["def thread(tid, ntid, ctaid, nctaid, param, shared, generic):", " global_ = generic"]
    lines += [f" r_{name} = {symbols.get(name, 0)}" for name in names]
    lines += [" pc = 0", " while True:", "  if pc == 0:"]
    labels: dict[str, int] = {}
    for one in instructions:
        if one.endswith(":"):
            labels[one[:-1]] = len(labels) + 1
    for one in instructions:
        if one.endswith(":"):
            lines += [f"   pc = {labels[one[:-1]]}", f"  if pc == {labels[one[:-1]]}:"]
            continue
        condition, rest = "", one
        if one.startswith("@"):
            predicate, _, rest = one.partition(" ")
            negated = predicate.startswith("@!")
            condition = f"if {'not ' if negated else ''}r_{predicate.lstrip('@!')}: "
        if rest.startswith("bra "):
            made = f"pc = {labels[rest.split()[1]]}; continue"
        elif rest == "ret":
            made = "return"
        elif rest.startswith("bar.sync"):
            made = "yield"
        else:
            made = _statement(rest).replace("global.", "global_.")
        lines.append(f"   {condition}{made}")
    lines.append("  yield  # never reached; it makes the function a generator")
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    made_function: Callable[..., Iterator[None]] = scope["thread"]
    return made_function


def launch(
    text: str, name: str, groups: int, threads: int, arguments: bytes, memory: Memory, shared: int
) -> None:
    """Run a grid of an entry, with one structure of arguments and with dynamic shared memory."""
    given, places = 1 << 60, 1 << 10
    # PTX programs read arguments by address after cvta.param, so the arguments are in memory like
    # other data.
    memory.add(given, bytearray(arguments))
    run = compiled(entries(text)[name], {"given": given, "places": places})
    for group in range(groups):
        own = Memory()
        own.add(places, bytearray(shared))
        waiting = [run(k, threads, group, groups, memory, own, memory) for k in range(threads)]
        while waiting:  # all threads of a group meet at each barrier
            left = [thread for thread in waiting if next(thread, True) is None]
            if left and len(left) < len(waiting):
                raise ValueError("some threads of a group wait at a barrier, and others have ended")
            waiting = left
