"""Tests that the table of mechanisms is the only place that spells the names of mechanisms.

In src/, include/ and python/, the test examines every string literal except docstrings. A literal
must not be the name of a mechanism, and must not contain a name that has a hyphen. In tests/python,
a literal may contain such a name but must not be a name, because longer texts are input or output
of commands.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from interlace.model.mechanism_table import PARAMETERS, ROWS
from interlace.model.mechanisms import PACKING, Config
from interlace.model.remote_load_table import TREATMENTS

ROOT = Path(__file__).resolve().parents[2]
NAMES = frozenset(row.name for row in ROWS)
# Names with a hyphen have no other meaning, so the test also finds them inside a longer text.
PLAIN = re.compile(r"(?<![\w-])(?:" + "|".join(sorted(n for n in NAMES if "-" in n)) + r")(?!-?\w)")

MADE = {
    "include/interlace/kernel/mechanism_table.hpp",
    "src/kernel/remote_load_table.hpp",
    "src/sim/mechanism/table.hpp",
    "src/cuda/mechanism/table.hpp",
    "python/interlace/model/mechanism_table.py",
    "python/interlace/model/remote_load_table.py",
}
# Maps a file to its words that are spelled like a mechanism but have another meaning.
OTHERS: dict[str, set[str]] = {
    "python/interlace/reproduce/papers.py": {"finepack"},  # the name of a paper
    # The name of a variant of a machine.
    "python/interlace/reproduce/dualopt.py": {"finepack"},
    # The word is a key of figures. It means the mechanism serial-copy there.
    "python/interlace/reproduce/proact.py": {"bulk-copy"},
    "python/interlace/show/updates_bench.py": {"split"},  # the name of a stage of updates in bins
    "python/interlace/study/design_space.py": {"split"},  # a key of sweep files
    "src/bench/all_reduces.cu": {"nccl"},  # the name of a library that is measured for comparison
    "src/bench/collectives.cu": {"nccl"},
    "src/bench/copies.cu": {"nccl"},
    "tests/python/test_als.py": {"packed"},  # the word means that a file is compressed
    "tests/python/test_collective_bench.py": {"nccl"},
    "tests/python/test_copy_bench.py": {"nccl"},
    "tests/python/test_jacobi.py": {"packed"},
    "tests/python/test_machines.py": {"gps"},
    "tests/python/test_reproduce_finepack.py": {"finepack"},
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<mark>\w*)\((?P<body>.*?)\)(?P=mark)")'
    r'|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'',
    re.DOTALL,
)
ENUMERATOR = re.compile(r"\bmechanism::(\w+)")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.MULTILINE)


def literals_of_cpp(text: str) -> Iterator[str]:
    """Return the string literals of a C++ source."""
    for found in TOKEN.finditer(INCLUDE.sub("", text)):
        if found["raw"] is not None:
            yield found["body"]
        elif found["text"] is not None:
            yield found["text"]


def literals_of_python(text: str) -> Iterator[str]:
    """Return the string literals of a Python source, without docstrings."""
    tree = ast.parse(text)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in documentation:
            yield text


def spelled(text: str) -> set[str]:
    """Return the names that a literal spells."""
    return ({text} & NAMES) | set(PLAIN.findall(text))


def sources(*folders: str) -> list[Path]:
    """Return the sources in these folders, except files that are generated from the table."""
    found = (
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".hpp", ".cpp", ".cu", ".cuh", ".h", ".c", ".py"}
    )
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in MADE)


def literals(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    return literals_of_python(text) if path.suffix == ".py" else literals_of_cpp(text)


def test_no_source_spells_a_name() -> None:
    wrong = []
    for path in sources("src", "include", "python"):
        name = path.relative_to(ROOT).as_posix()
        for text in literals(path):
            wrong += [f"{name}: {w!r} in {text!r}" for w in spelled(text) - OTHERS.get(name, set())]
    assert not wrong, "\n".join(wrong)


def test_no_test_spells_a_name() -> None:
    wrong = []
    for path in sources("tests/python"):
        if path == Path(__file__):
            continue
        name = path.relative_to(ROOT).as_posix()
        for text in literals(path):
            wrong += [f"{name}: {w!r}" for w in ({text} & NAMES) - OTHERS.get(name, set())]
    assert not wrong, "\n".join(wrong)


def test_what_is_excused_is_there() -> None:
    for name, words in OTHERS.items():
        found = {word for text in literals(ROOT / name) for word in spelled(text)}
        assert words <= found, name


def test_no_source_switches_over_all_mechanisms() -> None:
    for path in sources("src", "include"):
        name = path.relative_to(ROOT).as_posix()
        found = set(ENUMERATOR.findall(COMMENT.sub("", path.read_text(encoding="utf-8"))))
        assert 2 * len(found) <= len(NAMES), f"{name} has a case for each of {sorted(found)}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x = "split"; // "inline"', {"split"}),
        ('f("use bulk-copy here");', {"bulk-copy"}),
        ('f("the stores are split", \'"\', "a-bulk-copy-b");', set()),
        ('#include "split"\nconst char* t = R"(nccl)";', {"nccl"}),
        ('/* "gps" */ f("a\\"gps\\"", "gps");', {"gps"}),
    ],
)
def test_cpp_literals(text: str, expected: set[str]) -> None:
    assert {word for text in literals_of_cpp(text) for word in spelled(text)} == expected


def test_python_literals() -> None:
    text = 'def f():\n    """split"""\n    return f"{x} of bulk-copy", "gps", "gps2"  # "inline"\n'
    assert {w for text in literals_of_python(text) for w in spelled(text)} == {"bulk-copy", "gps"}


# --- files that are generated from the tables
# --------------------------------------------------------


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "mechanism_tables", ROOT / "tools/mechanism_tables.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_of_the_tables_is_current(tool: ModuleType) -> None:
    for name, text in tool.made().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, (
            f"{name}: run tools/mechanism_tables.py"
        )


def test_parameters_are_fields_of_a_configuration() -> None:
    assert {row.name for row in PARAMETERS} | {"variant", *PACKING} == set(Config._fields)


def test_treatments_have_no_name_of_their_own_twice() -> None:
    assert len(set(TREATMENTS)) == len(TREATMENTS)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "split"', 'name = "inline"', "two rows have the same name"),
        ('["baseline", "by_default"', '["by_default"', "one mechanism must be the baseline"),
        ('colour = "ORANGE"', 'colour = "PINK"', "mechanism split: unknown colour 'PINK'"),
        ('colour = "ORANGE"', 'color = "ORANGE"', "mechanism split: unknown key 'color'"),
        ('[["ranges"]]', '[["stripes"]]', "mechanism split: unknown parameter 'stripes'"),
        ('["by_default", "tuned", "control"]', '["shiny"]', "unknown trait 'shiny'"),
        ('variants = "collective"', 'variants = "hint"', "mechanism nccl: unknown variants 'hint'"),
        ('sim = "a copy engine', 'not_on_cuda = "a', "copy-engine: give sim or not_on_sim"),
        ('region_moves = "copies after the kernel"', "", "give region_kernel and region_moves"),
        ("[[mechanism]]", "[[mechanism]", "src/kernel/mechanisms.toml: "),
    ],
)
def test_a_wrong_table_is_refused(tool: ModuleType, old: str, new: str, message: str) -> None:
    text = (ROOT / tool.MECHANISMS).read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(tool.WrongTable, match=re.escape(message)):
        tool.read_mechanisms(text.replace(old, new, 1))
