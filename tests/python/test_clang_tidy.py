"""Tests which sources tools/clang_tidy.py checks."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

FOLDERS = {"d": 1, "a": 5, "c": 2, "b": 3}  # folders, with their numbers of sources
TOOL = Path(__file__).resolve().parents[2] / "tools" / "clang_tidy.py"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    specification = importlib.util.spec_from_file_location("clang_tidy", TOOL)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "headers", list)
    monkeypatch.setattr(module, "digest", lambda path: str(path).encode())
    monkeypatch.setattr(module.subprocess, "run", lambda *_args, **_named: _Version())
    return module


class _Version:
    stdout = b"1"


def test_sources_that_are_compiled_as_one_are_looked_at(tool: ModuleType, tmp_path: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    names = ["src/plan/a.cpp", "src/plan/b.cpp", "src/sim/c.cpp", "tests/cpp/plan/a_test.cpp"]
    sources = [tmp_path / name for name in names]
    together = build / "unity_0_cxx.cxx"
    together.write_text("".join(f'/* all */\n#include "{s}"\n' for s in (*sources[:2], sources[3])))
    entries = [
        {"directory": str(build), "file": str(file), "command": f"c++ -O2 -o {n}.o -c {file}"}
        for n, file in enumerate([together, sources[2], sources[3]])
    ]
    (build / "compile_commands.json").write_text(json.dumps(entries))
    groups = tool.groups_of([build])
    assert [group.sources for group in groups] == [sources[:3]]
    assert [group.command for group in groups] == [["c++", "-O2"]]


def test_folders_are_checked_together_up_to_a_number_of_sources(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "MOST_TOGETHER", 4)
    folders = [[Path(f"{name}/{n}.cpp") for n in range(count)] for name, count in FOLDERS.items()]
    found = tool.packed(folders)
    assert [[path.parts[0] for path in one] for one in found] == [
        list("aaaaa"),
        list("bbbd"),
        list("cc"),
    ]


def test_what_two_builds_generate_alike_is_checked_once(tool: ModuleType, tmp_path: Path) -> None:
    builds = [tmp_path / "build" / name for name in ("host", "cuda")]
    for build in builds:
        (build / "workloads").mkdir(parents=True)
        (build / "workloads" / "bindings.cpp").write_text("int same;\n")
        (build / "workloads" / "kernels.cpp").write_text(f"int of_{build.name};\n")
        entries = [
            {"directory": str(build), "file": str(file), "command": f"c++ -o {n}.o -c {file}"}
            for n, file in enumerate(sorted((build / "workloads").iterdir()))
        ]
        (build / "compile_commands.json").write_text(json.dumps(entries))
    checked = [source for group in tool.groups_of(builds) for source in group.sources]
    host, cuda = (build / "workloads" for build in builds)
    assert sorted(checked) == sorted(
        [host / "bindings.cpp", host / "kernels.cpp", cuda / "kernels.cpp"]
    )


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("using std::move;\nauto a = move(b);\n", False),
        ('using std::move;\n// move\nauto a = "move";\n', True),
        ("using a::b, a::c;\nint d = b;\n", True),
        ("namespace f = std::filesystem;\nf::path p;\n", False),
        ("namespace f = std::filesystem;\n", True),
        ("void g() {\n  using std::swap;\n}\nvoid h() {\n  using std::swap;\n}\n", True),
        ("using namespace std;\nusing number = int;\n", False),
    ],
)
def test_names_that_occur_only_where_they_are_declared_are_looked_at(
    tool: ModuleType, text: str, unused: bool
) -> None:
    assert tool.may_have_unused_names(text) is unused
