"""Finds problems of single keys in a machine file: their names, types and values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from interlace.machine.keys import Key, KeyTable
from interlace.machine.schema import KEYS, TABLES

LONGEST_VALUE = 40  # a message shows at most this many characters of a value


class Problem(NamedTuple):
    """A problem in a file: a sentence without the file's name, and the keys that it concerns."""

    sentence: str
    keys: tuple[str, ...] = ()


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a hint at the known word that is most similar to `word`. The hint may be empty."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def give_one_of(names: Sequence[str]) -> str:
    """Return the last clause of the error about an unknown name: the names that exist."""
    return f"give one of {', '.join(names)}" if names else "there is none"


@cache
def keys_of(table: str) -> dict[str, Key]:
    """Return the keys of a table without its subtables, by name."""
    return {key.name: key for key in KEYS if key.table == table}


@cache
def tables_in(table: str) -> dict[str, KeyTable]:
    """Return the tables directly below a table, by the last part of their names."""
    depth = f"{table}." if table else ""
    return {
        name: one
        for one in TABLES
        if one.name.startswith(depth) and "." not in (name := one.name.removeprefix(depth))
    }


def problems_of(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a file's single keys: unknown keys first, missing keys last."""
    yield from _problems_of_table("", document, "")


def _problems_of_table(table: str, value: Any, where: str) -> Iterator[Problem]:
    """Yield the problems of a table. In messages, `where` precedes the name of a key."""
    if not isinstance(value, dict):
        yield Problem(f"{where.rstrip('.: ')} must be a table, not {_kind(value)}", (table,))
        return
    keys, tables = keys_of(table), tables_in(table)
    for name in value:
        if name not in keys and name not in tables:
            hint = did_you_mean(name, [*keys, *tables])
            yield Problem(f"{where}{_shown(name)} is not a known key{hint}")
    for name, key in keys.items():
        if name in value:
            yield from _problems_of_value(key, value[name], where + name)
    for name, one in tables.items():
        if name not in value:
            continue
        inner = value[name]
        if one.need == "list":
            yield from _problems_of_list(one, inner)
        elif one.need == "named":
            yield from _problems_of_named(one, inner)
        else:
            yield from _problems_of_table(one.name, inner, f"{where}{name}.")
    needs = {name: one.need for name, one in keys.items()}
    needs |= {name: one.need for name, one in tables.items()}
    for name, need in needs.items():
        if name not in value and (need in ("required", "named") or name == "link"):
            yield Problem(f"{where}{name} is missing", (f"{table}.{name}",))


def _problems_of_list(table: KeyTable, value: Any) -> Iterator[Problem]:
    if not isinstance(value, list | tuple):
        yield Problem(f"{table.name} must be a list of tables, not {_kind(value)}")
        return
    for index, one in enumerate(value):
        yield from _problems_of_table(table.name, one, f"{table.name} {index + 1}: ")


def _problems_of_named(table: KeyTable, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(f"{table.name} must be a table, not {_kind(value)}")
        return
    for name, one in value.items():
        yield from _problems_of_table(table.name, one, f"{table.name}.{_shown(name)}.")


# --- values ---------------------------------------------------------------------------------------

_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number with a fraction"),
    (str, "a string"),
    (dict, "a table"),
    ((list, tuple), "a list"),
)
_WANTED = {"whole": "a whole number", "number": "a number", "ends": "a list"}


def _kind(value: Any) -> str:
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "a date or a time")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def number_text(value: float) -> str:
    """Return a limit as it is shown in messages, such as 1000000000 or 0.1."""
    return f"{value:.12g}"


def _is(value: Any, type_: str) -> bool:
    if type_ == "ends":
        return isinstance(value, list | tuple)
    if type_ in ("whole", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return type_ == "number" or isinstance(value, int) or value.is_integer()
    return isinstance(value, str)


def _problems_of_value(key: Key, value: Any, where: str) -> Iterator[Problem]:
    def problem(sentence: str) -> Problem:
        return Problem(f"{where} {sentence}", (key.full,))

    if not _is(value, key.type):
        wanted = _WANTED.get(key.type, "a string")
        is_number = key.type == "whole" and isinstance(value, float)
        kind = _kind(value) if not is_number or math.isfinite(value) else str(value)
        yield problem(f"must be {wanted}, not {kind}")
    elif key.type == "ends":
        if len(value) != 2:
            entries = "1 entry" if len(value) == 1 else f"{len(value)} entries"
            yield problem(f"has {entries}; it must have 2")
        for end in value:
            if not isinstance(end, str):
                yield problem(f"must be a string, not {_kind(end)}")
    elif key.choices:
        if str(value if isinstance(value, str) else int(value)) not in key.choices:
            shown = _shown(repr(value))
            yield problem(f"is {shown}; it must be {_choices(key)}")
    elif key.type in ("whole", "number"):
        if not (value > key.least if key.above_least else value >= key.least):
            words = "more than" if key.above_least else "at least"
            yield problem(f"is {_shown(value)}; it must be {words} {number_text(key.least)}")
        elif value > key.most:
            yield problem(f"is {_shown(value)}; it must be at most {number_text(key.most)}")
    elif key.most and not key.least <= len(value) <= key.most:
        yield problem(f"has {len(value)} characters; it must have 1 to {number_text(key.most)}")
    elif key.type == "name" and not _is_name(value):
        yield problem(
            f"is {_shown(repr(value))}; it must begin with a letter and have only lower-case "
            "letters, digits and _"
        )


def _is_name(value: str) -> bool:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return value[0] in letters and set(value) <= {*letters, *"0123456789_"}


def _choices(key: Key) -> str:
    """Return the allowed values of a key as words of a message."""
    *words, last = [f'"{it}"' if key.type == "choice" else it for it in key.choices]
    return f"{', '.join(words)} or {last}" if words else last
