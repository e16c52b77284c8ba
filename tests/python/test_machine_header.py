"""Tests `interlace topo MACHINE --header`: a C++ program must get each field of the machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlace.base.installation import installed
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.machine.schema import KEYS

core = pytest.importorskip("interlace._core")
ROOT = Path(__file__).resolve().parents[2]
gpp = shutil.which("g++")

# These machines together have protocols of both kinds, switches, a host, and most optional keys.
NAMES = ("4x-volta-nvlink2", "4x-r9nano", "dgx-2", "hgx-h200-4")


def interlace(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "interlace", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PROGRAM = """
#include <cstdio>
#include <string>
#include <type_traits>
#include "machine/keys.hpp"

using namespace interlace::machine;

template <class Owner>
void print(const std::string& where, Owner& owner) {
  for (const key& one : machine_keys()) {
    const auto at = field_in(one, owner);
    if (!at) continue;
    bool there = true;  // as _core has it: a table or key that a file would leave out is none
    if constexpr (std::is_same_v<Owner, machine>) there = has_table(one.table, owner);
    if constexpr (std::is_same_v<Owner, protocol>) there = applies(one, owner);
    const key_value value = there ? value_of(one, *at) : key_value{};
    std::printf("%s%s = ", where.c_str(), full_name(one).c_str());
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      std::printf("%lld", static_cast<long long>(*whole));
    }
    if (const auto* number = std::get_if<double>(&value)) std::printf("%.17g", *number);
    if (const auto* text = std::get_if<std::string>(&value)) std::printf("%s", text->c_str());
    if (value.index() == 0) std::printf("None");
    std::printf("\\n");
  }
}

void print(machine m) {
  std::printf("name = %s\\n", m.name.c_str());
  print("", m);
  for (auto& one : m.switches) print("switch ", one);
  for (auto& one : m.links) {
    std::printf("link %u %u %u %u\\n", unsigned(one.a.kind), one.a.index, unsigned(one.b.kind),
                one.b.index);
    print("link ", one);
    print("link ", one.protocol);
  }
}
"""


def printed(machine: Any) -> list[str]:
    """Return the lines that the program must print for a struct of _core."""
    found = [f"name = {machine.name}"]

    def add(where: str, owner: Any, *tables: str) -> None:
        for key in KEYS:
            if key.stored and key.table.partition(".")[0] in tables:
                value = owner[key.full if owner is machine else key.name]
                text = f"{value:.17g}" if isinstance(value, float) else str(value)
                found.append(f"{where}{key.full} = {text}")

    add("", machine, "", "gpu", "host")
    for switch in machine.switches:
        add("switch ", switch, "switch")
    kinds = [core.EndpointKind.gpu, core.EndpointKind.network_switch, core.EndpointKind.host]
    for link in machine.links:
        ends = [part for end in (link.a, link.b) for part in (kinds.index(end.kind), end.index)]
        found.append("link " + " ".join(map(str, ends)))
        add("link ", link, "link")
        add("link ", link.packets, "protocol")
    return found


@pytest.mark.skipif(
    installed("lib/libinterlace_core.a") is None or gpp is None, reason="needs g++ and the headers"
)
def test_a_program_has_the_machine_that_the_file_describes(tmp_path: Path) -> None:
    header, library = (
        installed("include/interlace/kernel.hpp"),
        installed("lib/libinterlace_core.a"),
    )
    assert header is not None
    names = [f"m{number}" for number in range(len(NAMES))]
    for name, machine in zip(names, NAMES, strict=True):
        done = interlace("topo", machine, "--header", tmp_path / f"{name}.hpp")
        assert done.returncode == 0, done.stderr
        assert f"wrote {tmp_path / name}.hpp" in done.stdout
    source = tmp_path / "all.cpp"
    source.write_text(
        "".join(f'#include "{name}.hpp"\n' for name in names) + PROGRAM + "int main() {\n"
        + "".join(f"  print({name}());\n" for name in names) + "}\n"
    )  # fmt: skip
    command = [
        gpp, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", f"-I{header.parents[1]}",
        f"-I{ROOT / 'src'}", source, library, "-o", tmp_path / "all",
    ]  # fmt: skip
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    ran = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True)
    expected = [line for name in NAMES for line in printed(to_core(load_machine(name), core))]
    assert ran.stdout.splitlines() == expected
    assert len(expected) > 1000


@pytest.mark.parametrize("name", ["4x.hpp", "Volta.hpp", "volta.h", "a-b.hpp"])
def test_a_name_that_cannot_be_a_function(tmp_path: Path, name: str) -> None:
    done = interlace("topo", "4x-volta-nvlink2", "--header", tmp_path / name)
    assert done.returncode == 2
    assert done.stderr == (
        f"interlace: --header {tmp_path / name}: the file's name also names a C++ "
        "function; give NAME.hpp with a NAME of lower-case letters, digits and _\n"
    )
    assert not (tmp_path / name).exists()
