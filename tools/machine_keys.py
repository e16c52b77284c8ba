"""Writes the generated lists of the keys of machine files, for Python and for the documentation.

    python tools/machine_keys.py [--check]

The list of keys is in src/machine/keys.cpp, and the compiled module returns it. After a change of
that file, build, run this script, and commit python/interlace/machine/schema.py and
docs/reference/machine-files.md together with the change.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "python/interlace/machine/schema.py"
PAGE = ROOT / "docs/reference/machine-files.md"
BEGIN = "<!-- tools/machine_keys.py writes what follows -->"
END = "<!-- end of what tools/machine_keys.py writes -->"
WIDTH = 100

Row = dict[str, Any]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _quoted(words: list[str]) -> str:
    return "".join(f'"{word}", ' for word in words).rstrip()


# --- the Python file ------------------------------------------------------------------------------

_HEAD = '''\
"""The tables and keys of machine files: structs, and the list that readers and writers walk.

tools/machine_keys.py writes this file from src/machine/keys.cpp.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from interlace.machine.keys import Key, KeyTable, Rule

FORMAT = 1


class Table(msgspec.Struct, frozen=True):
    """A table of the file: all keys are required unless they have a default."""
'''

_MACHINE = '''

class Machine(Table, frozen=True, kw_only=True):
    """A machine file. `name` and `sources` are not keys of the file.

    `sources` maps a name of the file, such as "gpu.count", to the comment at this name. "link.0"
    stands for the comment above the first [[link]], and "" for the comment at the file's top.
    `sources` is empty if the comments were not read.
    """

    name: str
    format: Literal[1]
'''


def _type_of(key: Row) -> str:
    if key["choices"]:
        words = key["choices"]
        kind = f"Literal[{', '.join(words if key['type'] == 'whole' else map(repr, words))}]"
        return kind.replace("'", '"')
    kinds = {"whole": "int", "number": "float", "ends": "tuple[str, str]"}
    return kinds.get(key["type"], "str")


def _preset(key: Row) -> str:
    return f'"{key["preset"]}"' if key["type"] == "choice" else str(key["preset"])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="    # ", subsequent_indent="    # ", break_on_hyphens=False
    )


def _field(key: Row) -> list[str]:
    line = f"    {key['name']}: {_type_of(key)}"
    if key["need"] == "preset":
        line += f" = {_preset(key)}"
    elif key["need"] != "required":
        line += " | UnsetType = UNSET"
    if len(line) > WIDTH:
        words = _quoted(key["choices"])[:-1]
        return [f"    {key['name']}: Literal[", f"        {words}", "    ]"]
    return [line]


def _struct(table: Row, keys: list[Row], inner: list[Row]) -> list[str]:
    doc = textwrap.wrap(table["meaning"], WIDTH - 8, break_on_hyphens=False)
    lines = ["", "", f"class {table['title']}(Table, frozen=True, kw_only=True):"]
    if len(doc) == 1:
        lines += [f'    """{doc[0]}"""', ""]
    else:
        lines += [f'    """{doc[0]}', *(f"    {line}" for line in doc[1:]), '    """', ""]
    for key in keys:
        lines += [*_comment(key["meaning"]), *_field(key)]
    for one in inner:
        after = {"optional": " | UnsetType = UNSET", "preset": f" = {one['title']}()"}
        last = one["name"].rpartition(".")[2]
        lines.append(f"    {last}: {one['title']}{after.get(one['need'], '')}")
    return lines


def _key_row(key: Row) -> list[str]:
    words = [
        f'"{key["table"]}"', f'"{key["name"]}"', f'"{key["type"]}"', _number(key["in_struct"])
    ]  # fmt: skip
    if key["most"]:
        words += [_number(key["least"]), _number(key["most"])]
    if key["need"] != "required":
        words.append(f'need="{key["need"]}"')
    if key["choices"]:
        words.append(f"choices=({_quoted(key['choices'])})")
    words += ["above_least=True"] if key["above_least"] else []
    words += [] if key["stored"] else ["stored=False"]
    return textwrap.wrap(
        f"Key({', '.join(words)}),", WIDTH, initial_indent="    ", subsequent_indent=" " * 8,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def schema(keys: list[Row], tables: list[Row], rules: list[Row]) -> str:
    """Return the text of schema.py."""
    lines = _HEAD.splitlines()
    for table in sorted(tables, key=lambda one: one["name"].count("."), reverse=True):
        own = [key for key in keys if key["table"] == table["name"]]
        inner = [one for one in tables if one["name"].rpartition(".")[0] == table["name"]]
        lines += _struct(table, own, inner)
    lines += _MACHINE.splitlines()
    top = {"named": "dict[str, {}]", "list": "tuple[{}, ...]"}
    for key in keys:
        if not key["table"] and key["name"] != "format":
            lines += [*_comment(key["meaning"]), *_field(key)]
    for table in (one for one in tables if "." not in one["name"]):
        kind = top.get(table["need"], "{}").format(table["title"])
        lines.append(f"    {table['name']}: {kind}{' = ()' if table['name'] == 'switch' else ''}")
    lines += ["    sources: dict[str, str] = {}", "", "", "# fmt: off", "KEYS = ("]
    for key in keys:
        lines += _key_row(key)
    lines += [")", "", "TABLES = ("]
    lines += [f'    KeyTable("{one["name"]}", "{one["need"]}"),' for one in tables]
    lines += [")", "", "RULES = ("]
    for rule in rules:
        words = [f'"{rule["kind"]}"', f'"{rule["key"]}"']
        words += [f"({_quoted(rule['others'])})"] if rule["others"] else []
        words += [f"times={_number(rule['times'])}"] if rule["times"] != 1 else []
        lines += textwrap.wrap(
            f"Rule({', '.join(words)}),", WIDTH, initial_indent="    ",
            subsequent_indent=" " * 8, break_on_hyphens=False,
        )  # fmt: skip
    lines += [")", "# fmt: on"]
    return "\n".join(lines) + "\n"


# --- the page -------------------------------------------------------------------------------------


def _range(key: Row) -> str:
    if key["choices"]:
        return ", ".join(f"`{word}`" for word in key["choices"])
    if key["type"] == "text":
        return f"{_number(key['least'])} to {_number(key['most'])} characters"
    if key["type"] == "name":
        return f"a-z, 0-9 and _, a letter first; up to {_number(key['most'])} characters"
    if key["type"] == "ends":
        return "two names"
    if key["type"] == "protocol":
        return "a `[protocol.NAME]`"
    least, most = (f"{key[bound]:,.12g}" for bound in ("least", "most"))
    return f"more than {least}, up to {most}" if key["above_least"] else f"{least} to {most}"


def _default(key: Row) -> str:
    words = {
        "required": "required",
        "optional": "left out",
        "preset": f"`{_preset(key)}`",
        "pcie": "PCIe: required; NVLink: not allowed",
        "pcie_only": "left out; PCIe only",
        "nvlink_only": "left out; NVLink only",
    }
    return words[key["need"]]


_TYPES = {
    "whole": "whole number",
    "number": "number",
    "text": "string",
    "name": "string",
    "choice": "string",
    "protocol": "string",
    "ends": "list",
}

_RULES = {
    "power_of_two": "is a power of two",
    "power_of_two_of": "is {others} times a power of two",
    "same": "equals {others}",
    "divides": "divides {others}",
    "multiple": "is a multiple of {others}",
    "at_most": "is at most {times}{others}",
    "less": "is less than {others}",
    "at_least_together": "is at least {others}",
    "needs": "needs the table {others}",
}


def _header(table: Row) -> str:
    name = table["name"]
    return {"named": f"[{name}.NAME]", "list": f"[[{name}]]"}.get(table["need"], f"[{name}]")


def page(keys: list[Row], tables: list[Row], rules: list[Row]) -> str:
    """Return the generated part of docs/reference/machine-files.md."""
    lines: list[str] = []
    top = {"name": "", "meaning": "These keys stand above the first table.", "need": "required"}
    for table in [top, *tables]:
        lines += ["", f"### `{_header(table)}`" if table["name"] else "### Top of the file", ""]
        left_out = "This table may be left out. "
        missing = {"optional": left_out, "preset": left_out}
        lines += textwrap.wrap(missing.get(table["need"], "") + table["meaning"], WIDTH)
        lines += ["", "| key | type | unit | range | default | meaning |"]
        lines += ["|---|---|---|---|---|---|"]
        for key in keys:
            if key["table"] == table["name"]:
                lines.append(
                    f"| `{key['name']}` | {_TYPES[key['type']]} | {key['unit'] or '-'} | "
                    f"{_range(key)} | {_default(key)} | {key['meaning']} |"
                )
    lines += ["", "### Keys that go together", ""]
    lines += textwrap.wrap(
        "The rules compare sizes in bytes, even if the keys have other units. If a file leaves out "
        "a key of a rule, this rule does not apply.",
        WIDTH,
    )
    lines += ["", "| key | rule | why |", "|---|---|---|"]
    in_struct = {f"{key['table']}.{key['name']}": key["in_struct"] for key in keys}
    for rule in rules:
        between = " + " if rule["kind"] == "at_least_together" else " x "
        others = between.join(f"`{name}`" for name in rule["others"])
        times = ""
        if rule["times"] != 1:  # converts the factor to the units of the machine file
            units = [in_struct[name] for name in (rule["key"], rule["others"][0])]
            times = f"{rule['times'] * units[1] / units[0]:,.12g} x "
        said = _RULES[rule["kind"]].format(others=others, times=times)
        lines.append(f"| `{rule['key']}` | {said} | {rule['meaning']} |")
    return "\n".join(lines) + "\n\n"


def texts(core: Any) -> dict[Path, str]:
    """Return the text that each generated file must have."""
    rows = (core.machine_keys(), core.machine_tables(), core.machine_rules())
    old = PAGE.read_text(encoding="utf-8")
    before, _, rest = old.partition(BEGIN)
    _, _, after = rest.partition(END)
    return {SCHEMA: schema(*rows), PAGE: f"{before}{BEGIN}\n{page(*rows)}{END}{after}"}


def main() -> int:
    """Write the generated files. With --check, only say whether they are current. Return the exit
    code.
    """
    sys.path.insert(0, str(ROOT / "python"))
    core = importlib.import_module("interlace._core")
    stale = [
        (path, text)
        for path, text in texts(core).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'is stale' if '--check' in sys.argv else 'written'}")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
