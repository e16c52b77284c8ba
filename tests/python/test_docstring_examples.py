"""Tests examples in docstrings of public functions. Each example must run, or at least call
functions as their signatures allow.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

import pytest

import interlace

ON_THE_HOST = ("load", "safe_open", "save", "stream", "tune", "tune_space")
ON_GPUS = (
    "Group.local",
    "Group.join",
    "Region",
    "Region.over",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "copy",
    "copy_blocks",
    "park",
    "parkable",
    "parked_memory",
    "prepare_park",
    "resume",
    "tune_region",
)
# These examples need other processes, or kernels that the reader must write.
NOT_ALONE = ("Group.join", "tune_region")


def example(name: str) -> str:
    """Return the code after `Example::` in the docstring of a public name."""
    found: object = interlace
    for part in name.split("."):
        found = getattr(found, part)
    text = inspect.getdoc(found) or ""
    _, marker, code = text.partition("Example::\n")
    assert marker, f"the docstring of {name} has no example"
    return "import interlace\n" + textwrap.dedent(code)


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example(name), f"<example of {name}>", "exec"), {})


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(set(ON_GPUS) - set(NOT_ALONE)))
def test_an_example_runs_on_gpus(name: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or (name == "Group.local" and torch.cuda.device_count() < 2):
        pytest.skip("there are too few GPUs")
    exec(compile(example(name), f"<example of {name}>", "exec"), {})


@pytest.mark.parametrize("name", [*ON_THE_HOST, *ON_GPUS])
def test_an_example_fits_what_it_calls(name: str) -> None:
    calls = 0
    for node in ast.walk(ast.parse(example(name))):
        if not isinstance(node, ast.Call):
            continue
        words = ast.unparse(node.func).split(".")
        if words[0] != "interlace":
            continue
        function: object = interlace
        for word in words[1:]:
            function = getattr(function, word)
        assert callable(function)
        if not any(isinstance(argument, ast.Starred) for argument in node.args):
            keywords = {k.arg: None for k in node.keywords if k.arg is not None}
            inspect.signature(function).bind(*node.args, **keywords)
        calls += 1
    assert calls > 0


def test_every_public_function_has_an_example() -> None:
    functions = {name for name in interlace.__all__ if inspect.isfunction(getattr(interlace, name))}
    # The example of `tune_region` also shows `region_options`, the type of the value that it
    # returns.
    assert functions - {"region_options"} <= {*ON_THE_HOST, *ON_GPUS}
