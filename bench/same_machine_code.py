#!/usr/bin/env python3
"""Says whether two builds have the same machine code.

    bench/same_machine_code.py BEFORE AFTER [--arch sm_90]

BEFORE and AFTER are files with device code: an object, a library, a module, a program or a cubin.
The script compares the registers and the instructions of every kernel of one architecture. It
prints the number of kernels whose instructions are identical in both files. It also prints the
number of kernels that use the same number of registers and each opcode equally often in both files.
It names all other kernels. If only one file has a kernel of some name, the script looks in the
other file for a kernel with another name and the same instructions. The exit code is 1 if a kernel
differs or is missing, and 2 if nothing can be compared.

The script needs cuobjdump. It looks for cuobjdump in PATH, in the variable CUOBJDUMP, and in the
package nvidia-cuda-cuobjdump.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

TARGET = re.compile(r"^\s*code for (sm_\w+)")
FUNCTION = re.compile(r"^\s*Function : (\S+)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?);?\s*(?:/\*|$)")
OPCODE = re.compile(r"^(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
ARCHITECTURE = re.compile(r"^arch = (sm_\w+)")
RESOURCES = re.compile(r"^\s*Function (\S+):$")
REGISTERS = re.compile(r"\bREG:(\d+)")
# nvcc names the anonymous namespace of a source file after the file and a hash of it.
ANONYMOUS = re.compile(r"\d+_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}(?:_\d+)?(?=\d|E)")


class Code(NamedTuple):
    """The properties of a kernel that the script compares."""

    registers: int
    instructions: tuple[str, ...]

    def opcodes(self) -> tuple[int, frozenset[tuple[str, int]]]:
        """Return the number of registers, and the count of each opcode except NOP. NOP only pads
        the end of a kernel.
        """
        names = [match[1] for line in self.instructions if (match := OPCODE.match(line))]
        return self.registers, frozenset(Counter(n for n in names if n != "NOP").items())


# maps the name of a kernel to its code; several source files can compile the same template kernel
Kernels = dict[str, list[Code]]


def plain(name: str) -> str:
    """Return a kernel's name without the parts that differ from build to build."""
    return ANONYMOUS.sub("_GLOBAL__N_", name)


def registers_of(listing: str, arch: str) -> dict[str, list[int]]:
    """Return the number of registers of each kernel in the output of `cuobjdump -res-usage`."""
    found: dict[str, list[int]] = defaultdict(list)
    current, name = "", ""
    for line in listing.splitlines():
        if match := ARCHITECTURE.match(line):
            current = match[1]
        elif match := RESOURCES.match(line):
            name = plain(match[1])
        elif current == arch and name and (match := REGISTERS.search(line)):
            found[name].append(int(match[1]))
            name = ""
    return found


def instructions_of(listing: str, arch: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the instructions of each kernel in the output of `cuobjdump -sass`."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    current = ""
    body: list[str] | None = None
    for line in listing.splitlines():
        if match := TARGET.match(line):
            current, body = match[1], None
        elif match := FUNCTION.match(line):
            body = [] if current == arch else None
            if body is not None:
                found[plain(match[1])].append(body)
        elif body is not None and (match := INSTRUCTION.match(line)) and match[1]:
            body.append(match[1].strip())
    return {name: [tuple(body) for body in bodies] for name, bodies in found.items()}


def kernels_of(sass: str, usage: str, arch: str) -> Kernels:
    """Return all kernels of an architecture, with their registers and instructions."""
    registers = registers_of(usage, arch)
    return {
        name: sorted(
            Code(count, body)
            for count, body in zip(registers.get(name, [0] * len(bodies)), bodies, strict=True)
        )
        for name, bodies in instructions_of(sass, arch).items()
    }


class Comparison(NamedTuple):
    """The differences between the kernels of two builds."""

    same: list[str]
    same_opcodes: list[str]
    different: list[str]
    renamed: list[tuple[str, str]]
    only_before: list[str]
    only_after: list[str]


def compare(before: Kernels, after: Kernels) -> Comparison:
    """Compare kernels with the same name first, and the remaining kernels by their instructions."""
    result = Comparison([], [], [], [], [], [])
    for name in sorted(before.keys() & after.keys()):
        # If several source files compile the same template kernel, this is treated as one kernel.
        old, new = set(before[name]), set(after[name])
        if old == new:
            result.same.append(name)
        elif {code.opcodes() for code in old} == {code.opcodes() for code in new}:
            result.same_opcodes.append(name)
        else:
            result.different.append(name)
    left: dict[frozenset[Code], list[str]] = defaultdict(list)
    for name in sorted(after.keys() - before.keys()):
        left[frozenset(after[name])].append(name)
    for name in sorted(before.keys() - after.keys()):
        if alike := left[frozenset(before[name])]:
            result.renamed.append((name, alike.pop(0)))
        else:
            result.only_before.append(name)
    result.only_after.extend(sorted(name for names in left.values() for name in names))
    return result


def change(before: list[Code], after: list[Code]) -> str:
    """Describe the change of a kernel on one line."""
    old, new = before[0], after[0]
    counts = [dict(code.opcodes()[1]) for code in (old, new)]
    changed = [
        f"{opcode} {counts[0].get(opcode, 0)} -> {counts[1].get(opcode, 0)}"
        for opcode in sorted(counts[0] | counts[1])
        if counts[0].get(opcode) != counts[1].get(opcode)
    ]
    return ", ".join([f"registers {old.registers} -> {new.registers}", *changed[:8]])


def find_cuobjdump() -> str | None:
    """Find the tool that lists machine code."""
    if found := os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump"):
        return found
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for tool in Path(folder).glob("**/bin/cuobjdump"):
            return str(tool)
    return None


def read(file: Path, arch: str, cuobjdump: str) -> Kernels:
    """Read the kernels of a file."""
    listings = [
        subprocess.run(
            [cuobjdump, option, file], capture_output=True, text=True, check=False
        ).stdout
        for option in ("-sass", "-res-usage")
    ]
    return kernels_of(listings[0], listings[1], arch)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--arch", default="sm_90", help="the architecture to compare (sm_90)")
    given = parser.parse_args()
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        print("same_machine_code: cuobjdump was not found; install nvidia-cuda-cuobjdump, or set "
              "CUOBJDUMP", file=sys.stderr)  # fmt: skip
        return 2
    sides = []
    for file in (given.before, given.after):
        kernels = read(file, given.arch, cuobjdump) if file.is_file() else {}
        if not kernels:
            print(f"same_machine_code: {file} has no machine code for {given.arch}",
                  file=sys.stderr)  # fmt: skip
            return 2
        sides.append(kernels)
    before, after = sides
    found = compare(before, after)
    for name in found.different:
        print(f"differs: {name}: {change(before[name], after[name])}")
    for label, names in (("only before", found.only_before), ("only after", found.only_after)):
        for name in names:
            print(f"{label}: {name}")
    print(
        f"{given.arch}: {len(before)} kernels before, {len(after)} after: {len(found.same)} the "
        "same, "
        f"{len(found.renamed)} the same with a new name, {len(found.same_opcodes)} with the same "
        f"opcodes and registers, {len(found.different)} different, {len(found.only_before)} only "
        f"before, {len(found.only_after)} only after"
    )
    return int(bool(found.different or found.only_before or found.only_after))


if __name__ == "__main__":
    sys.exit(main())
