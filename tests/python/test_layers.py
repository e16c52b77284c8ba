"""Tests the layer rule. docs/explanation/architecture.md has the tables of this rule.

For each folder of src/ and include/, the rule says which headers of the project its files may
include. For each package of python/interlace, it says which modules the package may import. Public
headers (in include/) must not include private headers. The rule applies to every #include, even if
an #if excludes it. The rule also applies to every import, even inside a function or only for types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# maps a layer to the other layers that it may include
LAYERS: dict[str, frozenset[str]] = {
    "c-interface": frozenset(),  # the headers for C, which include no other layer
    "base": frozenset(),
    "machine": frozenset({"base"}),
    "plan": frozenset({"base", "machine"}),
    "kernel": frozenset({"base"}),
    "tune": frozenset({"base", "kernel"}),
    "checkpoint": frozenset({"base"}),
    "workload": frozenset({"base", "kernel"}),
    "host": frozenset({"base", "machine", "plan", "kernel"}),
    "sim": frozenset({"base", "machine", "plan", "kernel"}),
    "cuda": frozenset({"base", "machine", "plan", "kernel", "checkpoint", "c-interface"}),
    "preload": frozenset({"base", "cuda"}),
    "ucx": frozenset({"c-interface"}),
    "run": frozenset(
        {"base", "machine", "plan", "kernel", "workload", "host", "sim", "cuda", "preload"}
    ),
    "bench": frozenset(
        {"base", "machine", "plan", "kernel", "workload", "host", "sim", "cuda", "preload", "run"}
    ),
    "python": frozenset(
        {"base", "machine", "plan", "kernel", "tune", "checkpoint", "run", "bench"}
    ),
}

# Inside sim: maps a folder to the folders of sim that it may include. A file directly in src/sim
# connects the folders and may include all of them. The folders may not include such a file.
SIM_FOLDERS: dict[str, frozenset[str]] = {
    "engine": frozenset(),
    "fabric": frozenset({"engine"}),
    "trace": frozenset({"engine"}),
    "gpu": frozenset({"engine", "fabric", "trace"}),
    "remote": frozenset({"engine", "fabric", "gpu", "trace"}),
    "tasks": frozenset({"engine", "fabric", "gpu", "remote", "trace"}),
    "mechanism": frozenset({"engine", "fabric", "gpu", "remote", "tasks", "trace"}),
    "transfer": frozenset({"engine", "fabric"}),
}

# A public header is usually in the folder of its layer in include/interlace. This table has the
# layers of the headers that are directly in include/interlace.
PUBLIC: dict[str, str] = {
    "kernel.hpp": "kernel",
    "copy.h": "c-interface",
    "copy.hpp": "plan",
    "copy_device.cuh": "cuda",
    "park.h": "c-interface",
    "early_launch.cuh": "cuda",
    "kernel_device.cuh": "cuda",
    "updates_device.cuh": "cuda",
    "host_updates_device.cuh": "cuda",
    "replicas.hpp": "kernel",
    "tune.hpp": "tune",
    "region.hpp": "kernel",
    "region_device.cuh": "cuda",
    "partition.hpp": "kernel",
    "partition_device.cuh": "cuda",
    "update_packer.cuh": "cuda",
}

# Public headers that the build generates.
GENERATED = frozenset({"interlace/version.hpp"})

# Layers that compile without a CUDA toolkit, and the headers that they may not include for this
# reason.
PURE = frozenset(
    {"base", "plan", "kernel", "tune", "checkpoint", "workload", "host", "sim", "ucx"}
    | {"c-interface"}
)
CUDA_HEADER = re.compile(r"^(cuda|nvml|nvtx|cub/|thrust/|cooperative_groups|cufft|cusparse|nccl)")

# The project does not use streams; src/base/cut_text.hpp gives the reason. This pattern finds
# headers with streams.
STREAM_HEADER = re.compile(r"^([a-z]*stream|streambuf|ios|iosfwd|iomanip|locale|regex)$")

# An #include in <...> of one of these folders means a header of the project. `cuda` is missing,
# because <cuda/...> can also be libcu++.
OUR_FOLDERS = {*LAYERS, "interlace"} - {"cuda"}

# The packages of python/interlace, from low to high. A package imports only from itself and from
# lower packages. `interlace` itself is the public interface. It imports from all packages, and no
# package imports from it.
PACKAGES = (
    "base",
    "machine",
    "model",
    "data",
    "workloads",
    "nodes",
    "runtime",
    "integrations",
    "tuning",
    "study",
    "show",
    "reproduce",
    "cli",
)
# Plug-ins use only these packages, which other programs use, too. No module of the project imports
# a plug-in.
ONLY = {"integrations": {"base", "runtime", "integrations"}}
# Every package may import these modules.
COMPILED = frozenset({"interlace._core", "interlace._cuda", "interlace._driver"})

SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".c", ".inl"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def layer_of(file: Path, root: Path) -> tuple[str, str | None] | None:
    """Return two things for a file of the project: its layer, and its folder in sim. Return None if
    the file has no layer.
    """
    parts = file.relative_to(root).parts
    if parts[:2] == ("include", "interlace"):
        if len(parts) == 3:
            layer = PUBLIC.get(parts[2])
            return (layer, None) if layer else None
        parts = parts[1:]
    elif parts[0] != "src":
        return None
    if len(parts) < 3 or parts[1] not in LAYERS:
        return None
    folder = parts[2] if parts[1] == "sim" and len(parts) > 3 else None
    return parts[1], folder


def resolve(name: str, quoted: bool, includer: Path, root: Path) -> Path | None:
    """Return the project's file that an #include names. Return None if the #include names another
    header.
    """
    folders = [root / "src", root / "include"]
    for folder in [includer.parent, *folders] if quoted else folders:
        file = (folder / name).resolve()
        if file.is_file() and file.is_relative_to(root):
            return file
    return None


def is_public(file: Path, root: Path) -> bool:
    return file.is_relative_to(root / "include")


def allowed(source: tuple[str, str | None], target: tuple[str, str | None]) -> bool:
    if source[0] != target[0]:
        return target[0] in LAYERS[source[0]]
    if source[0] != "sim" or source[1] is None or source[1] == target[1]:
        return True
    return target[1] is not None and target[1] in SIM_FOLDERS.get(source[1], frozenset())


def describe(place: tuple[str, str | None]) -> str:
    return "/".join(part for part in place if part)


def violations(root: Path) -> list[str]:
    """Return one line for each include that breaks the rule."""
    root = root.resolve()
    found: list[str] = []
    files = (f for top in ("src", "include") for f in sorted((root / top).rglob("*")))
    for file in files:
        if file.suffix not in SUFFIXES or not file.is_file():
            continue
        where = file.relative_to(root).as_posix()
        source = layer_of(file, root)
        if source is None:
            found.append(f"{where}: belongs to no layer; enter it in {Path(__file__).name}")
            continue
        if source[0] == "sim" and source[1] is not None and source[1] not in SIM_FOLDERS:
            found.append(f"{where}: sim/{source[1]} is not a folder of sim; enter it in the table")
            continue
        # A comment keeps its line breaks, so that the line numbers stay right.
        text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), file.read_text("utf-8"))
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name, quoted = match[2], match[1] == '"'
            target_file = resolve(name, quoted, file, root)
            if name in GENERATED:
                continue
            if target_file is None:
                if source[0] in PURE and CUDA_HEADER.match(name):
                    found.append(f"{where}:{line}: {source[0]} may not include CUDA's <{name}>")
                elif STREAM_HEADER.match(name):
                    found.append(f"{where}:{line}: <{name}> has streams; use C's stdio")
                elif quoted or name.split("/")[0] in OUR_FOLDERS:
                    found.append(f"{where}:{line}: there is no {name} in src/ or include/")
                continue
            target = layer_of(target_file, root)
            if target is None:
                found.append(f"{where}:{line}: {name} belongs to no layer")
            elif is_public(file, root) and not is_public(target_file, root):
                found.append(f"{where}:{line}: a public header includes a private one, {name}")
            elif not allowed(source, target):
                rule = f"{describe(source)} may not include {describe(target)}"
                found.append(f"{where}:{line}: {rule} ({name})")
    return found


def test_no_include_breaks_the_layer_rule() -> None:
    assert violations(ROOT) == []


def test_the_table_has_no_cycle() -> None:
    for table in (LAYERS, SIM_FOLDERS):
        done: set[str] = set()
        while len(done) < len(table):
            ready = {name for name, uses in table.items() if name not in done and uses <= done}
            assert ready, f"these include each other: {sorted(table.keys() - done)}"
            done |= ready


def plant(root: Path, **files: str) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


TREE = {
    "include/interlace/kernel.hpp": '#include "interlace/base/limits.hpp"\n',
    "include/interlace/kernel_device.cuh": "#include <cuda_runtime.h>\n#include <cuda/atomic>\n",
    "include/interlace/base/limits.hpp": "",
    "include/interlace/sim/gpu/recorder.hpp": '#include "interlace/kernel.hpp"\n',
    "src/base/ids.hpp": "#include <vector>\n",
    "src/plan/plan.hpp": '#include "base/ids.hpp"\n#include "plan/share.hpp"\n',
    "src/plan/share.hpp": "",
    "src/workload/spmv.hpp": "#include <interlace/kernel.hpp>\n",
    "src/sim/engine/time.hpp": "",
    "src/sim/fabric/link.hpp": '#include "sim/engine/time.hpp"\n',
    "src/sim/remote/q.hpp": '#include "sim/fabric/link.hpp"\n',
    "src/sim/gpu/l2.hpp": '#include "sim/fabric/link.hpp"\n#include "tlb.hpp"\n',
    "src/sim/gpu/tlb.hpp": "",
    "src/sim/sim.hpp": '#include "sim/gpu/l2.hpp"\n#include "plan/plan.hpp"\n',
    "src/cuda/region/agent.cuh": "#include <interlace/kernel_device.cuh>\n",
    "src/run/run.cpp": '#include "sim/sim.hpp"\n#include "cuda/region/agent.cuh"\n',
}


def test_a_tree_that_keeps_the_rule_passes(tmp_path: Path) -> None:
    plant(tmp_path, **TREE)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("src/base/log.hpp", '#include "plan/plan.hpp"', "base may not include plan"),
        ("src/plan/cut.cpp", '\n  #  include "sim/sim.hpp"', ":2: plan may not include sim"),
        ("src/plan/fast.cpp", "#include <cuda_runtime.h>", "plan may not include CUDA's"),
        ("src/plan/show.cpp", "#include <sstream>", ":1: <sstream> has streams; use C's stdio"),
        ("src/kernel/atomic.hpp", "#include <cuda/atomic>", "kernel may not include CUDA's"),
        ("src/workload/fft.hpp", '#include "host/node.hpp"', "there is no host/node.hpp"),
        ("src/workload/sort.hpp", "#include <sim/sim.hpp>", "workload may not include sim"),
        ("src/sim/cheat.hpp", '#include "../cuda/region/agent.cuh"', "sim may not include cuda"),
        ("src/sim/engine/q.hpp", '#include "sim/gpu/l2.hpp"', "sim/engine may not include sim/gpu"),
        ("src/sim/gpu/cu.hpp", '#include "sim/sim.hpp"', "sim/gpu may not include sim"),
        ("src/sim/gpu/w.hpp", '#include "sim/remote/q.hpp"', "sim/gpu may not include sim/remote"),
        ("src/sim/fabric/p.hpp", '#include "sim/remote/q.hpp"', "may not include sim/remote"),
        ("src/sim/power/p.hpp", "", "sim/power is not a folder of sim"),
        ("src/python/core.cpp", '#include "sim/sim.hpp"', "python may not include sim"),
        ("src/preload/take.cpp", '#include "plan/plan.hpp"', "preload may not include plan"),
        ("src/stray.hpp", "", "belongs to no layer"),
        ("include/interlace/new.hpp", "", "belongs to no layer"),
        ("include/interlace/base/a.hpp", '#include "base/ids.hpp"', "includes a private one"),
        (
            "include/interlace/sim/gpu/a.hpp",
            '#include "interlace/sim/remote/b.hpp"',
            "there is no interlace/sim/remote/b.hpp",
        ),
        ("include/interlace/kernel/a.hpp", "#include <cuda.h>", "kernel may not include CUDA's"),
        ("src/sim/gpu/x.hpp", '#include "gone.hpp"', "there is no gone.hpp"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, text: str, message: str) -> None:
    plant(tmp_path, **TREE)
    plant(tmp_path, **{file: text})
    found = violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(file)
    assert message in found[0]


def test_a_commented_include_does_not_count(tmp_path: Path) -> None:
    plant(tmp_path, **TREE)
    include = '#include "sim/sim.hpp"\n'
    plant(tmp_path, **{"src/base/a.hpp": f"// {include}/*\n{include}*/\n"})
    assert violations(tmp_path) == []


# --- Python ---------------------------------------------------------------------------------------


def modules(root: Path) -> dict[str, Path]:
    """Return the file of each module of the project, by the module's dotted name."""
    found = {}
    for file in sorted((root / "python" / "interlace").rglob("*.py")):
        parts = file.relative_to(root / "python").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(name: str, file: Path, known: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """Return line and module of each import of a module of the project, wherever the import is in
    the file.
    """
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = name if file.stem == "__init__" else name.rpartition(".")[0]
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            base = ".".join(filter(None, (package if node.level else "", node.module or "")))
            inner = [f"{base}.{alias.name}" for alias in node.names]
            # A name that is imported from a package is either a module of this package, or a name
            # that the package defines.
            found = [one if one in known or one in COMPILED else base for one in inner]
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            argument = node.args[0]
            if called in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                found = [str(argument.value)]
        else:
            continue
        for target in dict.fromkeys(found):
            if target.partition(".")[0] == "interlace" and target not in COMPILED:
                yield node.lineno, target


def package_of(module: str) -> str:
    """Return the package of a module. Return "" for `interlace` itself and for modules directly in
    it.
    """
    return module.split(".")[1] if module.count(".") else ""


def import_violations(root: Path) -> list[str]:
    """Return one line for each import that breaks the rule, and one for each group of modules that
    import each other.
    """
    known = modules(root)
    found: list[str] = []
    graph: dict[str, set[str]] = {}
    for name, file in known.items():
        where = file.relative_to(root).as_posix()
        is_face = name in ("interlace", "interlace.__main__")
        package = package_of(name)
        if not is_face and package not in PACKAGES:
            found.append(f"{where}: belongs to no package; enter it in {Path(__file__).name}")
            continue
        for line, target in imports(name, file, known):
            graph.setdefault(name, set()).add(target)
            if target not in known:
                found.append(f"{where}:{line}: there is no module {target}")
            elif is_face:
                continue
            elif target in ("interlace", "interlace.__main__"):
                found.append(
                    f"{where}:{line}: {package} may not import the public interface, {target}"
                )
            elif (
                PACKAGES.index(package_of(target)) > PACKAGES.index(package)
                or package_of(target) not in ONLY.get(package, PACKAGES)
                or (package_of(target) in ONLY and package != package_of(target))
            ):
                rule = f"{package} may not import {package_of(target)}"
                found.append(f"{where}:{line}: {rule} ({target})")
    return found + [f"these import each other: {', '.join(one)}" for one in circles(graph)]


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other in a cycle."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in graph.get(todo.pop(), set()) - seen:
                seen.add(target)
                todo.append(target)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach.get(other, set())))
        for name in graph
    }
    return [list(group) for group in sorted(groups) if group]


def test_no_import_breaks_the_layer_rule() -> None:
    assert import_violations(ROOT) == []


def test_the_documents_have_the_packages_in_order() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    assert re.findall(r"^\| `interlace\.(\w+)` \|", text, re.MULTILINE) == list(PACKAGES)


PYTHON_TREE = {
    "python/interlace/__init__.py": "from interlace.cli.main import main\n",
    "python/interlace/__main__.py": "import interlace.cli.main\n",
    "python/interlace/base/__init__.py": "",
    "python/interlace/base/errors.py": "import sys\nfrom interlace import _core\n",
    "python/interlace/model/run.py": "from interlace.base import errors\n",
    "python/interlace/workloads/__init__.py": "from .base import Workload\n",
    "python/interlace/workloads/base.py": "from ..model.run import Case\n",
    "python/interlace/integrations/b.py": "from interlace.base import errors\n",
    "python/interlace/show/table.py": "from interlace.workloads import Workload\n",
    "python/interlace/cli/main.py": (
        "import importlib\n\n\ndef main():\n    from interlace.show import table\n"
        '    importlib.import_module("interlace._cuda")\n'
    ),
}


def test_python_that_keeps_the_rule_passes(tmp_path: Path) -> None:
    plant(tmp_path, **PYTHON_TREE)
    assert import_violations(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("base/a.py", "import interlace.model.run", ":1: base may not import model"),
        ("model/a.py", "from interlace.show import table", "model may not import show"),
        (
            "model/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from interlace.workloads import Workload",
            ":3: model may not import workloads (interlace.workloads)",
        ),
        (
            "study/a.py",
            "def f():\n    from interlace.cli.main import main",
            ":2: study may not import cli (interlace.cli.main)",
        ),
        ("study/a.py", "from ..show import table", "study may not import show"),
        (
            "study/a.py",
            'import importlib\nimportlib.import_module("interlace.show.table")',
            ":2: study may not import show",
        ),
        (
            "cli/a.py",
            "from interlace import main",
            "may not import the public interface, interlace",
        ),
        ("cli/a.py", "import interlace.gone", "there is no module interlace.gone"),
        ("cli/a.py", "from interlace.gone import one", "there is no module interlace.gone"),
        (
            "integrations/a.py",
            "from interlace.model import run",
            "integrations may not import model (interlace.model.run)",
        ),
        (
            "show/a.py",
            "import interlace.integrations.b",
            "show may not import integrations (interlace.integrations.b)",
        ),
        ("utils/a.py", "", "belongs to no package"),
        ("stray.py", "", "belongs to no package"),
        (
            "model/case.py",
            "def f():\n    from interlace.model import case",
            "these import each other: interlace.model.case",
        ),
        (
            "workloads/a.py",
            "import interlace.workloads.base\nfrom interlace.workloads import Workload",
            None,
        ),
    ],
)
def test_a_planted_import_is_found(
    tmp_path: Path, file: str, text: str, message: str | None
) -> None:
    plant(tmp_path, **PYTHON_TREE)
    plant(tmp_path, **{f"python/interlace/{file}": text})
    found = import_violations(tmp_path)
    if message is None:
        assert found == []
        return
    assert len(found) == 1
    assert message in found[0]


def test_planted_circles_are_found(tmp_path: Path) -> None:
    plant(tmp_path, **PYTHON_TREE)
    plant(
        tmp_path,
        **{
            "python/interlace/data/a.py": "from interlace.data import b\n",
            "python/interlace/data/b.py": "def f():\n    import interlace.data.c\n",
            "python/interlace/data/c.py": "from interlace.data.a import x\n",
            "python/interlace/data/d.py": "from interlace.data.a import x\n",
            "python/interlace/workloads/base.py": "from interlace.workloads import Workload\n",
        },
    )
    assert import_violations(tmp_path) == [
        "these import each other: interlace.data.a, interlace.data.b, interlace.data.c",
        "these import each other: interlace.workloads, interlace.workloads.base",
    ]
