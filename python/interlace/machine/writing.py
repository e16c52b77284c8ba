"""Writes machine files with their comments."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from interlace.base.errors import UserError
from interlace.machine.schema import Machine
from interlace.machine.validation import document_of, validate

if TYPE_CHECKING:
    from tomlkit.container import Container

_WIDTH = 100


def machine_text(machine: Machine) -> str:
    """Return the text of a machine's file, with the comments in `sources`.

    Raises UserError if Interlace could not read this text again.
    """
    import tomlkit

    if problems := validate(machine):
        raise UserError(f"{machine.name}: {problems[0].sentence}")
    document = document_of(machine)
    writer = _Writer(machine.sources, tomlkit.document())
    writer.top({key: document[key] for key in ("format", "title")})
    for key in ("gpu", "host", "protocol"):
        writer.table(writer.file, key, key, document[key])
    for key in ("switch", "link"):
        writer.tables(key, document[key])
    return tomlkit.dumps(writer.file)


class _Writer:
    """Appends tables and keys to the end of a document.

    `last` is the table or the document that receives the next text. Text between two tables belongs
    to the first table.
    """

    def __init__(self, sources: dict[str, str], file: Container) -> None:
        self.sources = sources
        self.file = self.last = file
        file.parsing(True)  # keep the order of keys, and keep empty lines

    def top(self, values: dict[str, Any]) -> None:
        """Add the keys that come before all tables."""
        self._comment(self.sources.get("", ""))
        if self.file.body:
            self._gap()
        self._keys(values, "")

    def table(self, parent: Container, key: str, path: str, values: dict[str, Any]) -> None:
        """Add a table and its subtables."""
        import tomlkit

        inner = {name: value for name, value in values.items() if isinstance(value, dict)}
        only_tables = bool(inner) and len(inner) == len(values)
        made = tomlkit.table(is_super_table=only_tables)
        made.value.parsing(True)
        if not only_tables:
            self._gap()
            self._comment(self.sources.get(path, ""))
        parent.append(key, made)
        if not only_tables:
            self.last = made.value
            self._keys(values, path)
        for name, value in inner.items():
            self.table(made.value, name, f"{path}.{name}", value)

    def tables(self, key: str, values: list[dict[str, Any]]) -> None:
        """Add a list of tables."""
        from tomlkit.container import Container
        from tomlkit.items import AoT, Table, Trivia

        made = []
        for index, value in enumerate(values):
            path = f"{key}.{index}"
            self._gap()
            self._comment(self.sources.get(path, ""))
            one = Table(Container(parsed=True), Trivia(), is_aot_element=True)
            made.append(one)
            self.last = one.value
            self._keys(value, path)
        if made:
            self.file.append(key, AoT(made, parsed=True))

    def _gap(self) -> None:
        import tomlkit

        self.last.append(None, tomlkit.nl())

    def _comment(self, text: str) -> None:
        import tomlkit

        for line in textwrap.wrap(text, _WIDTH - 4, break_on_hyphens=False, break_long_words=False):
            self.last.append(None, tomlkit.comment(line))

    def _keys(self, values: dict[str, Any], path: str) -> None:
        import tomlkit

        for key, value in values.items():
            if isinstance(value, dict):
                continue
            plain = int(value) if isinstance(value, float) and value.is_integer() else value
            item = tomlkit.item(plain)
            comment = self.sources.get(f"{path}.{key}" if path else key, "")
            text = f"{key} = {item.as_string()}"
            if comment and len(text) + 4 + len(comment) <= _WIDTH:
                item.comment(comment)
                item.trivia.comment_ws = "  "
            else:
                self._comment(comment)
            self.last.append(key, item)
