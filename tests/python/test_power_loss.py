"""Tests a loss of power at any moment of a command. Later commands read what is left on the disk.

A preloaded library (tests/faults/journal.hpp) records the file operations of a command. From this
record, the test computes the folders that a file system may keep. Contents may be missing until the
command forces them to the disk (fsync of the file). Names may be missing until the command forces
them to the disk (fsync of the folder). A write may have ended in the middle. In each of these
folders, a results file must be the old file, the new file, or absent. After the end of the command,
it must be the new file. A sweep must continue from the runs that exist.

`./check` tests a sample of these folders. With INTERLACE_TEST_FAULTS=all, it tests all of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fault_commands import COMMANDS, call, forked, prepare, run_child

ALL = os.environ.get("INTERLACE_TEST_FAULTS") == "all"
SEED = 1
RANDOM = 12 if ALL else 3  # the number of random folders for each moment
SAMPLE = 3  # for each command, the number of folders in which the command runs again
WRITERS = [name for name in COMMANDS if name not in ("load", "info")]
GROWING = "sweep.runs.jsonl"  # this file gets a line for each complete run
PART = re.compile(r"\..*\.interlace-part")
CHILD = "--child"

pytest.importorskip("interlace._core")


@pytest.mark.parametrize("command", WRITERS)
def test_every_folder_is_read_well(command: str, faults_library: Path, tmp_path: Path) -> None:
    printed = run_child(__file__, [CHILD, command], faults_library, tmp_path)
    found = re.findall(r"^(\d+) folders of (\d+) operations", printed, re.MULTILINE)
    folders, operations = map(int, found[-1])
    assert folders > 2
    assert operations > 2


# --- the disk -------------------------------------------------------------------------------------


@dataclass(eq=False)
class File:
    number: int


@dataclass(eq=False)
class Operation:
    what: str
    file: File | None = None
    folder: int = 0
    name: str = ""
    to_folder: int = 0
    to_name: str = ""
    offset: int = 0
    size: int = 0
    data: bytes = b""
    durable_from: int | None = None  # the number of the operation that forces the part to the disk


@dataclass
class Journal:
    root: int
    operations: list[Operation] = field(default_factory=list)
    # Maps the number of an inode to the file that now has this inode.
    files: dict[int, File] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        with path.open("rb") as records:
            while line := records.readline():
                words = line.decode().rstrip("\n").split(" ", 4)
                self._add(words, records.read(int(words[3])) if words[0] == "write" else b"")
        self._find_durable()

    def _add(self, words: list[str], data: bytes) -> None:
        what = words[0]
        if what == "new":
            self.files[int(words[1])] = File(int(words[1]))
            return
        done = Operation(what)
        if what in ("write", "size"):
            done.file = self._file(int(words[1]))
            done.offset, done.size = (int(words[2]), len(data)) if data else (0, int(words[2]))
            done.data = data
        elif what in ("name", "folder"):
            done.folder, done.file, done.name = int(words[1]), self._file(int(words[2])), words[3]
        elif what == "rename":
            done.folder, done.to_folder = int(words[1]), int(words[2])
            done.file = self._file(int(words[3]))
            done.name, done.to_name = words[4].split("/")
        elif what == "gone":
            done.folder, done.name = int(words[1]), words[2]
        else:
            assert what == "sync", what
            done.folder = int(words[1])
        self.operations.append(done)

    def _file(self, number: int) -> File:
        return self.files.setdefault(number, File(number))

    def _find_durable(self) -> None:
        for at, sync in enumerate(self.operations):
            if sync.what != "sync":
                continue
            for earlier in self.operations[:at]:
                if earlier.durable_from is not None or earlier.what == "sync":
                    continue
                of_contents = earlier.what in ("write", "size")
                assert of_contents or earlier.to_folder in (0, earlier.folder)
                number = earlier.file.number if of_contents and earlier.file else earlier.folder
                if number == sync.folder:
                    earlier.durable_from = at


class Disk:
    """The contents of the disk: the contents of files, and the names in one folder."""

    def __init__(self, root: int, names: dict[str, File], contents: dict[File, bytes]) -> None:
        self.root = root
        self.names = dict(names)
        self.contents = {file: bytearray(data) for file, data in contents.items()}

    def apply(self, done: Operation, size: int | None = None) -> None:
        """Apply an operation, or only the first `size` bytes of a write."""
        if done.what in ("write", "size"):
            assert done.file is not None
            data = self.contents.setdefault(done.file, bytearray())
            if done.what == "size":
                del data[done.size :]
                data.extend(bytes(done.size - len(data)))
                return
            data.extend(bytes(max(0, done.offset + done.size - len(data))))
            kept = done.data if size is None else done.data[:size]
            data[done.offset : done.offset + len(kept)] = kept
            return
        if done.what == "sync":
            return
        if done.folder == self.root:
            if done.what == "gone" or done.what == "rename":
                self.names.pop(done.name, None)
            elif done.file is not None:
                self.names[done.name] = done.file
        if done.what == "rename" and done.to_folder == self.root and done.file is not None:
            self.names[done.to_name] = done.file

    def folder(self) -> dict[str, bytes]:
        return {name: bytes(self.contents.get(file, b"")) for name, file in self.names.items()}


def _choices(pending: list[Operation], seed: str) -> Iterator[dict[Operation, int | None]]:
    """Yield sets of operations that may have reached the disk although nothing forced them. Each
    operation has the number of bytes that were written.
    """
    contents = [done for done in pending if done.what in ("write", "size")]
    names = [done for done in pending if done not in contents]
    for some in ([], pending, contents, names):
        yield dict.fromkeys(some)
    generator = random.Random(seed)
    for _ in range(RANDOM if pending else 0):
        drawn: dict[Operation, int | None] = {}
        for done in pending:
            draw = generator.random()
            if draw < 0.5:
                drawn[done] = None
            elif draw < 0.7 and done.what == "write":
                drawn[done] = generator.randrange(done.size + 1)
        yield drawn


# --- in a process with the library ----------------------------------------------------------------


def _run_with_journal(command: str, library: ctypes.CDLL, journal: Path) -> int:
    library.journal_begin(os.fsencode(journal), os.fsencode(Path.cwd()))
    code = call(command)
    library.journal_end()
    return code


def _contents(names: set[str]) -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in names}


def _rows(file: Path) -> object:
    """Return the results of a sweep, without the values that differ between two runs."""
    rows = json.loads(file.read_text())["rows"]
    return [{key: value for key, value in row.items() if key != "cpu_s"} for row in rows]


def _try(command: str, path: str, inputs: set[str], replaces: bool) -> tuple[int, int]:
    before = _contents({file.name for file in Path().iterdir()})
    root = Path().stat().st_ino
    known = {name: File(Path(name).stat().st_ino) for name in before}
    library = ctypes.CDLL(path)
    record = Path("../journal")
    code, said = forked(lambda: _run_with_journal(command, library, record))
    assert code == 0, said
    after = _contents({file.name for file in Path().iterdir()})
    journal = Journal(root, files={file.number: file for file in known.values()})
    journal.read(record)

    def disk() -> Disk:
        return Disk(root, known, {known[name]: data for name, data in before.items()})

    whole = disk()
    for done in journal.operations:
        whole.apply(done)
    assert whole.folder() == after, "the journal lacks an operation of the command"
    end = len(journal.operations)
    folders: dict[tuple[tuple[str, bytes], ...], str] = {}
    for at in range(end + 1):
        past = journal.operations[:at]
        pending = [
            done
            for done in past
            if done.what != "sync" and (done.durable_from is None or done.durable_from >= at)
        ]
        for number, extra in enumerate(_choices(pending, f"{SEED} {command} {at}")):
            state = disk()
            for done in past:
                if done not in pending:
                    state.apply(done)
                elif done in extra:
                    state.apply(done, extra[done])
            found = state.folder()
            where = f"{command}, operation {at} of {end}, choice {number}"
            for name, data in found.items():
                if PART.fullmatch(name) or name == GROWING:
                    continue
                old, new = before.get(name), after.get(name)
                assert data in (old, new), f"{where}: {name} is neither old nor new"
                assert at < end or data == new, f"{where}: {name} is not the new one"
            missing = (set(after) if at == end else set(before)) - set(found)
            assert not missing, f"{where}: {missing} is not there"
            folders.setdefault(tuple(sorted(found.items())), where)
    generator = random.Random(f"{SEED} {command} {replaces}")
    tried = list(folders.items())
    for found_items, where in tried if ALL else generator.sample(tried, min(SAMPLE, len(tried))):
        for file in Path().iterdir():
            file.unlink()
        for name, data in found_items:
            Path(name).write_bytes(data)
        code, said = forked(lambda: call(command))
        assert code == 0, f"{where}: {said}"
        left = {file.name for file in Path().iterdir()} - set(after)
        assert all(PART.fullmatch(name) for name in left), f"{where}: {left} are left"
        if command == "sweep":
            Path("../new.json").write_bytes(after["out.json"])
            assert _rows(Path("out.json")) == _rows(Path("../new.json")), where
    for file in Path().iterdir():
        if file.name not in inputs:
            file.unlink()
    return len(folders), end


def _main(command: str, path: str) -> None:
    inputs = prepare(command)
    assert call(command) == 0  # this call loads all modules
    results = {file.name for file in Path().iterdir()} - inputs
    folders, operations = _try(command, path, inputs, True)
    assert results
    more, others = _try(command, path, inputs, False)
    print(f"{folders + more} folders of {operations + others} operations", flush=True)


if __name__ == "__main__" and sys.argv[1:2] == [CHILD]:
    _main(sys.argv[2], sys.argv[3])
