"""Reads and checks machine files."""

from __future__ import annotations

import os
from typing import Any

from interlace.base import toml_files
from interlace.base.errors import UserError
from interlace.machine.schema import FORMAT, Machine
from interlace.machine.shipped import find_machine
from interlace.machine.validation import machine_of, problems_between


def parse_machine(text: str, name: str, where: str, *, sources: bool = False) -> Machine:
    """Return the machine that the text of a file describes. `where` names the file in errors.

    With `sources`, also read the comments of the file.
    """
    document = toml_files.parse(text, where, "machine", FORMAT)
    for key in ("name", "sources"):
        if key in document:
            raise UserError(
                f"{where}: {key} is not a known key; the name of the file is the name of the "
                "machine"
            )
    machine = machine_of(document, name, where, _comments(text) if sources else {})
    for problem in problems_between(machine):
        raise UserError(f"{where}: {problem.sentence}")
    return machine


def load_machine(name_or_path: str | os.PathLike[str], *, sources: bool = False) -> Machine:
    """Read a machine. `name_or_path` is the name of a shipped machine or the path of a file.

    With `sources`, also read the comments. Reading with comments takes several times as long as
    reading without comments.
    """
    return read_machine(name_or_path, sources=sources)[0]


def read_machine(
    name_or_path: str | os.PathLike[str], *, sources: bool = False
) -> tuple[Machine, str]:
    """Read a machine like `load_machine`. Also return the text of the file."""
    path = find_machine(os.fspath(name_or_path))
    text = toml_files.read_text(path, "machine")
    return parse_machine(text, path.stem, str(path), sources=sources), text


# --- comments -------------------------------------------------------------------------------------


class _Comments:
    """The comment of each key.

    The comment is on the line of the key, or on the lines directly above the key.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.above: list[str] = []
        self.first = True  # whether no key of the section has been read yet

    def gap(self) -> None:
        """Note an empty line.

        A comment above an empty line belongs to no key. If such a comment is at the top of the
        file, it belongs to the file as a whole.
        """
        if self.first and self.above:
            self.found[""] = " ".join(self.above)
        self.above = []

    def key(self, path: str, comment: str) -> None:
        """Note a key or a table, with the comment on its line."""
        if self.first:
            self.gap()
        self.first = False
        words = [*self.above, comment] if comment else self.above
        if words:
            self.found[path] = " ".join(words)
        self.above = []


def _comments(text: str) -> dict[str, str]:
    """Return the comments of a document that tomllib has read.

    The result is empty if tomlkit cannot read the document.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    comments = _Comments()
    try:
        _walk(tomlkit.parse(text).body, "", comments)
    except (TOMLKitError, ValueError, TypeError, RecursionError):
        return {}
    return comments.found


def _words(comment: str) -> str:
    """Return the text of a comment, with single spaces and without number signs."""
    return " ".join(comment.lstrip("# \t").split())


def _walk(body: list[Any], table: str, comments: _Comments) -> None:
    from tomlkit.items import AoT, Comment, Table, Whitespace

    for key, item in body:
        if isinstance(item, Comment):
            comments.above.append(_words(item.trivia.comment))
            continue
        if isinstance(item, Whitespace):
            if "\n" in item.value:
                comments.gap()
            continue
        if key is None:
            continue
        path = f"{table}.{key.key}" if table else key.key
        if isinstance(item, AoT):
            for index, one in enumerate(item.body):
                comments.key(f"{path}.{index}", _words(one.trivia.comment))
                _walk(one.value.body, f"{path}.{index}", comments)
        elif isinstance(item, Table):
            if not item.is_super_table():
                comments.key(path, _words(item.trivia.comment))
            _walk(item.value.body, path, comments)
        else:
            comments.key(path, _words(item.trivia.comment))
