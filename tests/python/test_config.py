"""Tests that `interlace config` lists exactly the variables that the sources read.

The tests also check the values of these variables.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from interlace.base.errors import UserError
from interlace.base.installation import installed
from interlace.runtime import environment, preload
from study_helpers import Run

core = pytest.importorskip("interlace._core")

ROOT = Path(__file__).resolve().parents[2]
OURS = re.compile(r"INTERLACE_[A-Z_]*[A-Z]")


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment.variables(core):
        if name != "XDG_CONFIG_HOME":  # the tests set this variable themselves
            monkeypatch.delenv(name, raising=False)


def read_by_sources() -> set[str]:
    """Return all variables that are read by getenv, by os.environ, by the tables of settings, or by
    the build.
    """
    found: set[str] = set()
    for file in (ROOT / "src").rglob("*.[ch]pp"):
        text = file.read_text("utf-8")
        found |= set(re.findall(r'getenv\("(\w+)"\)', text))
        found |= set(re.findall(r'"(INTERLACE_(?:COPY|PRELOAD)\w*)"', text))
    for file in (ROOT / "python").rglob("*.py"):
        text = file.read_text("utf-8")
        found |= set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', text))
        found |= set(re.findall(r'"(\w+)" in os\.environ', text))
    builds = (ROOT / "pyproject.toml").read_text("utf-8")
    return found | set(re.findall(r'env = "(\w+)"', builds))


def test_everything_that_is_read_is_listed() -> None:
    # These variables are not Interlace's. HOME is the folder of the user. `interlace run` sets
    # LD_PRELOAD for the programs that it starts. SGLANG_PLUGINS belongs to SGLang.
    read = read_by_sources() - {"HOME", "LD_PRELOAD", "SGLANG_PLUGINS"}
    assert {"INTERLACE_COPY", "INTERLACE_NCCL", "INTERLACE_CUFFT", "INTERLACE_COMMIT"} <= read
    assert set(environment.variables(core)) | set(environment.INTERNAL) == read


def test_each_has_a_documented_member() -> None:
    members = (ROOT / "include/interlace/copy.hpp").read_text("utf-8")
    described = set(re.findall(r"// (INTERLACE_COPY\w*):", members))
    assert described == {name for name, _, _ in core.copy_settings()}
    members = (ROOT / "src/preload/settings.hpp").read_text("utf-8")
    described = set(re.findall(r"// (INTERLACE_PRELOAD\w*):", members))
    assert described == {*preload.SETTINGS, *environment.INTERNAL}


def test_defaults_are_taken_by_what_reads_them() -> None:
    for name, variable in environment.variables(core).items():
        if variable.default is not None and name not in environment.OTHERS:
            variable.check(variable.default)
    text = (ROOT / "src/preload/settings.hpp").read_text("utf-8")
    units = {20: "M", 10: "K", 30: "G"}
    sizes = re.findall(r"uint64_t (\w+)_bytes = std::uint64_t\{(\d+)\} << (\d+)U;", text)
    found = {f"INTERLACE_PRELOAD_{n.upper()}": f"{v}{units[int(s)]}" for n, v, s in sizes}
    sizes = {
        name: one.standard
        for name, one in preload.SETTINGS.items()
        if not one.words and one.standard != "auto"
    }
    assert found == sizes
    start = preload.SETTINGS["INTERLACE_PRELOAD_START"].standard
    assert f"start_mode start = start_mode::{start};" in text


def test_the_list(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLACE_COPY", "graphs")
    monkeypatch.setenv("INTERLACE_PRELOAD_AFTER", "1G")
    monkeypatch.setenv("INTERLACE_COPY_STAGING", "")  # an empty variable counts as unset
    file = tmp_path / "config.json"
    ran = run("config", "--json", file)
    assert ran.code == 0
    assert ran.err == ""
    found = {one["name"]: one for one in json.loads(file.read_text())["variables"]}
    assert found["INTERLACE_COPY"]["value"] == "graphs"
    assert found["INTERLACE_COPY"]["source"] == "environment"
    assert found["INTERLACE_COPY"]["default"] == "auto"
    assert found["INTERLACE_PRELOAD_AFTER"]["value"] == "1G"
    assert found["INTERLACE_COPY_STAGING"]["value"] == "256M"
    assert found["INTERLACE_COPY_STAGING"]["source"] == "default"
    assert found["INTERLACE_NCCL"]["value"] is None
    assert all(one["meaning"] and one["used_by"] for one in found.values())
    for name in found:
        assert re.search(rf"^ *{name} ", ran.out, re.MULTILINE), name


def test_a_name_that_does_not_exist(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLACE_COPY_TRESHOLD", "1M")
    monkeypatch.setenv("INTERLACE_PRELOAD_COUNTERS", "/tmp/x")
    ran = run("config")
    assert ran.code == 0
    assert ran.err == (
        "interlace: INTERLACE_COPY_TRESHOLD is set, but there is "
        "no such variable; the most similar one is "
        "INTERLACE_COPY_THRESHOLD\n"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INTERLACE_COPY", "fast"),
        ("INTERLACE_COPY_GRAPHS", "0"),
        ("INTERLACE_COPY_RELAYS", "gpu"),
        ("INTERLACE_COPY_CHUNKS", "0"),
        ("INTERLACE_COPY_PROFILE", "mine"),
        ("INTERLACE_COPY_PROFILE", "/nowhere/profile.json"),
        ("INTERLACE_PRELOAD_START", "soon"),
        ("INTERLACE_PRELOAD_THRESHOLD", "2MB"),
        ("INTERLACE_NCCL", "/nowhere/libnccl.so.2"),
        ("XDG_CONFIG_HOME", "relative"),
    ],
)
def test_values_that_mean_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    ran = run("config", "--json", tmp_path / "config.json")
    assert ran.code == 2
    assert f"{name}='{value}'" in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "config.json").exists()


def test_all_that_is_wrong_is_named() -> None:
    wrong = {"INTERLACE_COPY": "fast", "INTERLACE_COPY_GRAPHS": "0"}
    with pytest.raises(UserError, match=r"INTERLACE_COPY='fast'.*; INTERLACE_COPY_GRAPHS='0'"):
        environment.settings_of(environment.variables(core), wrong)


def test_what_compilers_need(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    if installed("libinterlace.so") is None:
        pytest.skip("the library is not built")
    flags = run("config", "--cflags").out.split()
    assert len(flags) == 1
    assert (Path(flags[0].removeprefix("-I")) / "interlace/copy.h").is_file()
    folder, rpath, name = run("config", "--libs").out.split()
    assert (Path(folder.removeprefix("-L")) / "libinterlace.so").is_file()
    assert rpath == f"-Wl,-rpath,{folder.removeprefix('-L')}"
    assert name == "-linterlace"
    if installed("lib/libinterlace_core.a") is not None:
        folder, *names = run("config", "--kernel-libs").out.split()
        assert (Path(folder.removeprefix("-L")) / "libinterlace_core.a").is_file()
        assert names == ["-linterlace_core", "-lpthread", "-ldl"]
        prefix = Path(run("config", "--prefix").out.strip())
        assert (prefix / "lib/cmake/interlace/interlaceConfig.cmake").is_file()
    assert run("config", "--prefix", "--libs").code == 2
    assert run("config", "--cflags", "--json", "x.json").code == 2
    monkeypatch.setattr(environment, "installed", lambda _: None)
    ran = run("config", "--libs")
    assert ran.code == 2
    assert "has no libinterlace.so" in ran.err
    for option, file in (
        ("--cuda-libs", "libinterlace_core.a"),
        ("--prefix", "interlaceConfig.cmake"),
    ):
        ran = run("config", option)
        assert ran.code == 2
        assert file in ran.err
