"""Runs the commands of the tutorials and writes their output into the pages.

    python tools/tutorials.py [PAGE...]

Each page is its own script. A block ```console has commands. Each command follows `$ `, and its
output follows the command. A line `...` stands for lines that the page leaves out. Inside a line,
`...` stands for text that differs from run to run. If a sentence ends in "as `NAME`:", the block
below it becomes a file. Two comments control the run. After <!-- not run: REASON -->, the next
block is not run. <!-- stand-in: driver --> (or regions) gives the page a PyTorch whose GPUs are
host memory. The commands of a page find the checkout at ~/interlace.

tests/python/test_tutorials.py runs the pages with the same functions and compares the output. If an
output changes, run this tool and check the difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/tutorials"
LEFT_OUT = "..."
COLUMNS = 100
TIMEOUT_S = 300

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"as `([^`]+)`:\n+\Z")
# Only slow machines print lines of progress.
_PROGRESS = re.compile(r": \d+ of \d+ \w+, \d+ s gone, about \d+ s left$")
_STAND_IN = re.compile(r"<!-- stand-in: (driver|regions) -->")
_NOT_RUN = re.compile(r"<!-- not run: ([^>]*) -->\n+\Z")


@dataclass
class Command:
    """A command of a page, and the output that the page shows. The first line is line 0."""

    text: str
    first: int
    end: int
    shown: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A block of a page: the word after its fence, its text, and the settings in the words above
    it.
    """

    language: str
    text: str
    line: int  # the number of the first line inside the block
    file: str = ""
    not_run: str = ""

    def commands(self) -> Iterator[Command]:
        lines = self.text.splitlines()
        at = 0
        while at < len(lines):
            if not lines[at].startswith("$ "):
                raise ValueError(
                    f"a block begins with {lines[at]!r}, not with a command after '$ '"
                )
            first = at
            while lines[at].endswith("\\"):
                at += 1
            at += 1
            text = "\n".join(lines[first:at])[2:]
            begin = at
            while at < len(lines) and not lines[at].startswith("$ "):
                at += 1
            shown = [line.rstrip() for line in lines[begin:at]]
            yield Command(text, self.line + begin, self.line + at, shown)


def pages() -> list[Path]:
    """Return all tutorials."""
    return sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")


def blocks_of(text: str) -> list[Block]:
    """Return all blocks of a page, from top to bottom."""
    found = []
    for match in _BLOCK.finditer(text):
        before = text[: match.start()]
        file = _FILE.search(before)
        skipped = _NOT_RUN.search(before)
        found.append(
            Block(
                match[2],
                match[3],
                before.count("\n") + 1,
                file[1] if file else "",
                skipped[1] if skipped else "",
            )
        )
    return found


def matches(shown: list[str], printed: list[str]) -> bool:
    """Return whether a command printed the output that its page shows."""
    pattern = "".join(
        "(?:.*\n)*" if line == LEFT_OUT else ".*".join(map(re.escape, line.split(LEFT_OUT))) + "\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def stand_in_of(page: Path) -> str:
    """Return the stand-in that a page asks for: driver, regions, or none."""
    asked = _STAND_IN.search(page.read_text(encoding="utf-8"))
    return asked[1] if asked else ""


def stand_in(name: str, folder: Path) -> dict[str, str]:
    """Return the environment of a stand-in. The libraries of the stand-in go to `folder`."""
    if name == "":
        return {}
    environment = {"PYTHONPATH": str(ROOT / "tests/python/stand_ins" / name)}
    if name == "regions":
        return environment
    compiler = os.environ.get("CXX", "g++")
    for source, library in (("fake_driver", "libcuda.so.1"), ("fake_nvml", "libnvidia-ml.so.1")):
        words = [compiler, "-std=c++20", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
        words += [f"-Wl,-soname,{library}", "-o", str(folder / library)]
        words += [f"-I{ROOT}/src", str(ROOT / f"tests/cpp/preload/{source}.cpp")]
        words += ["-pthread", "-ldl"]
        subprocess.run(words, check=True)
    return {
        **environment,
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_SEED": "1",
        "INTERLACE_COPY_TRAFFIC": str(folder / "traffic"),  # a folder that no other process shares
        # Otherwise copies would race with the start of the engine, and counts would differ.
        "INTERLACE_PRELOAD_START": "wait",
    }


class Shell:
    """Runs the blocks of a page in a folder, as a reader would in one terminal."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "interlace").symlink_to(ROOT)
        self.here = folder
        self._place = folder / ".place"
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "COLUMNS": str(COLUMNS),
            **(environment or {}),
        }
        # Packages that a page installs stay in the folder of the page. Other packages are not used.
        packages = str(folder / ".packages")
        paths = (packages, self._environment.get("PYTHONPATH", ""))
        self._environment |= {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PIP_TARGET": packages,
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def save(self, block: Block) -> None:
        path = self.here / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def run(self, command: str) -> list[str]:
        """Return the lines that a command prints to standard output and to standard error."""
        script = f"{command}\nstatus=$?\npwd >'{self._place}'\nexit $status"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.here,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self.here = Path(self._place.read_text(encoding="utf-8").rstrip("\n"))
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        return [line for line in lines if not _PROGRESS.search(line)]


def steps(page: Path, shell: Shell) -> Iterator[tuple[Command, list[str]]]:
    """Save the files of a page and run its commands in order. Yield each command with its
    output.
    """
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.file:
            shell.save(block)
        elif block.language == "console" and not block.not_run:
            for command in block.commands():
                yield command, shell.run(command.text)


def updated(shown: list[str], printed: list[str]) -> list[str]:
    """Return the printed output, cut as on the page: the lines that `...` stands for are left out.

    Before and after each `...`, the result has as many lines as the page had.
    """
    if LEFT_OUT not in shown:
        return printed
    first = shown.index(LEFT_OUT)
    last = len(shown) - 1 - shown[::-1].index(LEFT_OUT)
    if first != last:
        return shown  # with several cuts, only a person knows which lines belong between them
    after = len(shown) - 1 - last
    return [*printed[:first], LEFT_OUT, *(printed[-after:] if after else [])]


def main(chosen: list[Path]) -> int:
    stale = 0
    for page in chosen:
        lines = page.read_text(encoding="utf-8").splitlines()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as built:
            shell = Shell(Path(folder), stand_in(stand_in_of(page), Path(built)))
            changes = [
                (command, printed)
                for command, printed in steps(page, shell)
                if not matches(command.shown, printed)
            ]
        for command, printed in reversed(changes):
            now = updated(command.shown, printed)
            if now == command.shown:
                stale += 1
                print(f"{page.name}, line {command.first}: change the output of {command.text!r}")
                print("\n".join(f"  {line}" for line in printed))
            lines[command.first : command.end] = now
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{page.name}: {len(changes)} outputs differed")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or pages()))
