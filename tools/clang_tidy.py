"""Runs clang-tidy on the sources in src/ that a build compiles.

    python tools/clang_tidy.py JOBS BUILD...

Each BUILD has a compile_commands.json. If several builds compile a source, or generate the same
source, it is checked as the first BUILD compiles it. clang-tidy spends nearly all its time on
headers. Therefore sources that have the same flags are checked together, as one file that includes
them. One file includes whole folders of src/, and at most MOST_TOGETHER sources, unless a folder
alone has more. If this file has no finding, its sources have none. If it has a
finding, each source is checked alone, and the script reports only the results of these checks. It
therefore does not report names that clash only in the common file. The static analyzer skips
included sources unless the name of the file that includes them contains UnifiedSource.

The check of unused names looks only at a file itself, not at what it includes. It therefore checks
sources alone, and only sources in which a using-declaration or a namespace alias declares a name
that occurs nowhere else.

A group without findings is checked again only after a change of one of its sources, its flags, any
header, the settings or the tool. The exit code is 0 if nothing was found, and 1 otherwise.
"""

import hashlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "tidy"
UNUSED_NAMES = "-*,misc-unused-using-decls,misc-unused-alias-decls"
NAMES = re.compile(r"^\s*(using\s+(?!namespace\b)[^=;]*;|namespace\s+\w+\s*=)", re.MULTILINE)
COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
MOST_TOGETHER = 100  # more would leave some of the processors idle at the end
INCLUDED = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
# The analyzer gives up on a function after max-nodes states. This limit is a quarter of the
# default, and halves the time. The states inside the standard library would take a sixth of
# what is left.
ANALYZER = [
    f"--extra-arg={word}"
    for setting in ("max-nodes=60000", "c++-stdlib-inlining=false")
    for word in ("-Xclang", "-analyzer-config", "-Xclang", setting)
]
NOISE = (" warnings generated.", " warning generated.")


class Group(NamedTuple):
    """Sources whose compile commands differ only in file names.

    The file `mark` exists if a check of these sources found nothing.
    """

    name: str
    sources: list[Path]
    directory: str
    command: list[str]
    mark: Path


def groups_of(builds: list[Path]) -> list[Group]:
    """Return all sources, also the generated sources, in groups that share a command. The largest
    group comes first.
    """
    commands: dict[Path, tuple[str, tuple[str, ...]]] = {}
    generated: dict[tuple[str, bytes], Path] = {}
    for build in builds:
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
            for source in compiled(Path(entry["file"])):
                folders = (ROOT / "src", build.resolve() / "workloads")
                if source.suffix == ".cpp" and any(map(source.is_relative_to, folders)):
                    if source.is_relative_to(folders[1]):
                        made = (source.name, source.read_bytes())
                        if generated.setdefault(made, folders[1]) != folders[1]:
                            continue
                    # A source of two targets is checked as the first target compiles it.
                    flags = flags_of(shlex.split(entry["command"]))
                    commands.setdefault(source, (entry["directory"], flags))
    # for each command, the sources of each folder
    members: dict[tuple[str, tuple[str, ...]], dict[str, list[Path]]] = {}
    for source in sorted(commands):
        ours = source.is_relative_to(ROOT / "src")
        folder = source.relative_to(ROOT / "src").parts[0] if ours else "workloads"
        members.setdefault(commands[source], {}).setdefault(folder, []).append(source)

    common = hashlib.sha256(
        b"".join(map(digest, [ROOT / ".clang-tidy", Path(__file__), *headers()]))
    )
    common.update(
        subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    )
    found = []
    together = [
        (how, part) for how, folders in members.items() for part in packed(folders.values())
    ]
    for number, ((directory, flags), sources) in enumerate(together):
        key = common.copy()
        key.update(repr(flags).encode() + b"".join(map(digest, sources)))
        mark = WORK / key.hexdigest()
        found.append(Group(f"UnifiedSource_{number}", sources, directory, list(flags), mark))
    return sorted(found, key=lambda group: -len(group.sources))


def packed(folders: Iterable[list[Path]]) -> list[list[Path]]:
    """Return the sources of all folders in as few lists as the limit MOST_TOGETHER allows."""
    lists: list[list[Path]] = []
    for sources in sorted(folders, key=len, reverse=True):
        for one in lists:
            if len(one) + len(sources) <= MOST_TOGETHER:
                one += sources
                break
        else:
            lists.append(list(sources))
    return lists


def compiled(file: Path) -> list[Path]:
    """Return the sources that `file` includes if it is a unity file of cmake, and otherwise only
    `file`.
    """
    if file.suffix != ".cxx":
        return [file]
    return [Path(name) for name in INCLUDED.findall(file.read_text(encoding="utf-8"))]


def flags_of(command: list[str]) -> tuple[str, ...]:
    """Return the compiler and its flags, without the names of its input and output files."""
    kept = []
    words = iter(command)
    for word in words:
        if word in ("-o", "-c", "-MT", "-MF"):
            next(words)
        elif word == "-include":
            forced = next(words)
            # Another compiler made the precompiled header for its own use.
            if not forced.endswith("cmake_pch.hxx"):
                kept += [word, forced]
        # A definition NAME_EXPORTS only says which module is built.
        elif not word.endswith("_EXPORTS"):
            kept.append(word)
    return tuple(kept)


def headers() -> list[Path]:
    return sorted(path for top in ("src", "include") for path in (ROOT / top).rglob("*.hpp"))


def digest(path: Path) -> bytes:
    return hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes()).digest()


def may_have_unused_names(text: str) -> bool:
    """Return whether a declaration in `text` names something that occurs nowhere else in it."""
    code = COMMENT_OR_STRING.sub(" ", text)
    declared = [
        name
        for declaration in NAMES.findall(code)
        for name in re.findall(r"(\w+)\s*[,;=]", declaration)
    ]
    return any(len(re.findall(rf"\b{name}\b", code)) <= declared.count(name) for name in declared)


def tidy(source: Path, *options: str) -> tuple[bool, str]:
    """Return whether clang-tidy finds nothing, and the output of clang-tidy."""
    done = subprocess.run(
        ["clang-tidy", "--quiet", *ANALYZER, *options, "-p", str(WORK), str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if not line.endswith(NOISE)]
    return done.returncode == 0, "\n".join(lines)


def main() -> int:
    jobs = int(sys.argv[1])
    builds = [Path(build) for build in sys.argv[2:]]
    WORK.mkdir(parents=True, exist_ok=True)
    groups = [group for group in groups_of(builds) if not group.mark.exists()]
    entries = []
    for group in groups:
        unit = WORK / f"{group.name}.cpp"
        include = '#include "{}"  // NOLINT(bugprone-suspicious-include)\n'
        unit.write_text("".join(map(include.format, group.sources)))
        for file in (unit, *group.sources):
            command = [*group.command, "-c", str(file)]
            entries.append({"directory": group.directory, "file": str(file), "arguments": command})
    (WORK / "compile_commands.json").write_text(json.dumps(entries, indent=1))

    clean = True
    with ThreadPoolExecutor(jobs) as pool:
        whole = [pool.submit(tidy, WORK / f"{group.name}.cpp") for group in groups]
        parts = [
            [
                pool.submit(tidy, source, f"--checks={UNUSED_NAMES}")
                for source in group.sources
                if may_have_unused_names(source.read_text(encoding="utf-8"))
            ]
            for group in groups
        ]
        for group, together, some in zip(groups, whole, parts, strict=True):
            content, said = together.result()
            if not content or not all(part.result()[0] for part in some):
                alone = list(pool.map(tidy, group.sources))
                for passed, output in alone:
                    if not passed:
                        print(output)
                if all(passed for passed, _ in alone):
                    print(f"sources that have findings only together (slower to check):\n{said}")
                    content = True
                else:
                    content = False
            if content:
                group.mark.touch()
            clean = clean and content
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
