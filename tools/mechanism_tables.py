"""Generates C++, Python and documentation from the tables of mechanisms and of remote loads.

    python tools/mechanism_tables.py [--check]

The script reads src/kernel/mechanisms.toml and src/kernel/remote_loads.toml. These two files list
the generated files. With --check, the script writes nothing. Instead, it names the files that are
out of date, and ends with exit code 1 if there are any. The generated files are committed, so no
build needs Python.
"""

from __future__ import annotations

import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MECHANISMS = "src/kernel/mechanisms.toml"
REMOTE_LOADS = "src/kernel/remote_loads.toml"
PALETTE = ("BLACK", "ORANGE", "SKY", "GREEN", "YELLOW", "BLUE", "VERMILION", "PURPLE", "GREY")
NODES = ("sim", "cuda")

ROW_KEYS = {
    "name", "enumerator", "sentence", "traits", "parameters", "variants", "only_if_named", "colour",
    "sim", "cuda", "not_on_sim", "not_on_cuda", "region_kernel", "region_moves",
}  # fmt: skip
PARAMETER_KEYS = {"meaning", "least", "most", "multiple", "default", "commands", "tried"}
VARIANT_KEYS = {"meaning", "names", "tried"}
TREATMENT_KEYS = {"name", "sentence", "parts", "options"}
STEPS = ("bypass", "fine", "coalesce", "cache")  # in the order of the fields of remote_load_options
FLAGS = ("decide", "watch", "each_page", "pack")

Table = dict[str, Any]


class WrongTable(Exception):  # noqa: N818 (an answer, not an error)
    """A table is not valid. The message gives the reason."""


# --- reading --------------------------------------------------------------------------------------


def _check_keys(row: Table, known: set[str], needed: tuple[str, ...], where: str) -> None:
    for key in row:
        if key not in known:
            raise WrongTable(
                f"{where}: unknown key {key!r}; the known keys are {', '.join(sorted(known))}"
            )
    for key in needed:
        if key not in row:
            raise WrongTable(f"{where}: {key} is missing")


def _check_row(row: Table, table: Table) -> None:
    where = f"{MECHANISMS}: mechanism {row.get('name', '?')}"
    _check_keys(row, ROW_KEYS, ("name", "sentence", "colour"), where)
    for trait in row.get("traits", ()):
        if trait not in table["traits"]:
            raise WrongTable(f"{where}: unknown trait {trait!r}")
    for family in row.get("parameters", ()):
        for name in family:
            if name not in table["parameters"]:
                raise WrongTable(f"{where}: unknown parameter {name!r}")
    if row.get("variants", next(iter(table["variants"]))) not in table["variants"]:
        raise WrongTable(f"{where}: unknown variants {row['variants']!r}")
    if row["colour"] not in PALETTE:
        raise WrongTable(f"{where}: unknown colour {row['colour']!r}")
    for node in NODES:
        if (node in row) == (f"not_on_{node}" in row):
            raise WrongTable(f"{where}: give {node} or not_on_{node}, and not both")
    if ("region_kernel" in row) != ("region_moves" in row):
        raise WrongTable(f"{where}: give region_kernel and region_moves, or neither")


def _parsed(text: str, where: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongTable(f"{where}: {error}") from None


def read_mechanisms(text: str) -> Table:
    """Return the table of mechanisms. Raise WrongTable with a message that names the wrong row."""
    table = _parsed(text, MECHANISMS)
    for name, row in table["parameters"].items():
        where = f"{MECHANISMS}: parameter {name}"
        _check_keys(row, PARAMETER_KEYS, ("meaning", "least", "tried"), where)
    for name, row in table["variants"].items():
        _check_keys(row, VARIANT_KEYS, ("meaning", "names"), f"{MECHANISMS}: variants {name}")
    for row in table["mechanism"]:
        _check_row(row, table)
    names = [row["name"] for row in table["mechanism"]]
    if len(set(names)) != len(names):
        raise WrongTable(f"{MECHANISMS}: two rows have the same name")
    for trait in ("baseline", "bound"):
        if sum(trait in row.get("traits", ()) for row in table["mechanism"]) != 1:
            raise WrongTable(f"{MECHANISMS}: one mechanism must be the {trait}")
    return table


def read_remote_loads(text: str) -> Table:
    """Return the table of treatments of remote loads. Raise WrongTable with a message that names
    the wrong row.
    """
    table = _parsed(text, REMOTE_LOADS)
    for row in table["treatment"]:
        where = f"{REMOTE_LOADS}: treatment {row.get('name', '?')}"
        _check_keys(row, TREATMENT_KEYS, ("name", "sentence"), where)
        _check_keys(row.get("options", {}), {*STEPS, *FLAGS, "pages"}, (), where)
    return table


# --- words ----------------------------------------------------------------------------------------


def _enumerator(row: Table) -> str:
    return str(row.get("enumerator", row["name"].replace("-", "_")))


def _constant(row: Table) -> str:
    return str(row["name"].replace("-", "_").upper())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tuple(words: list[str]) -> str:
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def _comment(text: str, mark: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent + mark, subsequent_indent=indent + mark)


def _made_of(source: str, mark: str) -> str:
    return f"{mark}Generated by tools/mechanism_tables.py from {source}; do not edit."


# --- C++ ------------------------------------------------------------------------------------------


def _cpp_parameter(name: str, row: Table) -> str:
    fields = [f".name = {_quoted(name)}", f".least = {row['least']}U"]
    for key in ("most", "multiple"):
        if key in row:
            fields.append(f".{key} = {row[key]}U")
    if "default" in row:
        fields.append(f".initial = {row['default']}U")
    first, last = row["tried"]
    fields += [f".first_tried = {first}U", f".last_tried = {last}U"]
    return f"    {{{', '.join(fields)}}},"


def _cpp_row(row: Table, table: Table) -> list[str]:
    fields = [f".value = mechanism::{_enumerator(row)}", f".name = {_quoted(row['name'])}"]
    fields += [f".{name} = true" for name in table["traits"] if name in row.get("traits", ())]
    families = f"families_of_{_enumerator(row)}" if "parameters" in row else "{}"
    fields.append(f".families = {families}")
    if "variants" in row:
        fields.append(f".variants = mechanism_variants::{row['variants']}")
    for node in NODES:
        if f"not_on_{node}" in row:
            fields.append(f".not_on_{node} = {_quoted(row[f'not_on_{node}'])}")
    if "region_kernel" in row:
        fields.append(".of_regions = true")
    return ["    {" + fields[0] + ",", *(f"     {field}," for field in fields[1:-1]),
            f"     {fields[-1]}}},"]  # fmt: skip


def _cpp_families(row: Table) -> list[str]:
    """Return the arrays to which the spans in a row's families refer."""
    lists, spans = [], []
    for number, family in enumerate(row["parameters"]):
        name = f"parameters_of_{_enumerator(row)}_{number}"
        values = ", ".join(f"mechanism_parameter::{word}" for word in family)
        lists.append(f"inline constexpr std::array {name}{{{values}}};")
        spans.append(f"parameter_list({name})")
    return [
        *lists,
        f"inline constexpr std::array families_of_{_enumerator(row)}{{{', '.join(spans)}}};",
    ]


def cpp_mechanisms(table: Table) -> str:
    """Return the text of include/interlace/kernel/mechanism_table.hpp."""
    rows = table["mechanism"]
    lines = [
        _made_of(MECHANISMS, "// "), "#pragma once", "", "#include <array>", "#include <cstdint>",
        "#include <limits>", "#include <span>", "", "// clang-format off", "",
        "namespace interlace::kernel {", "", "// The ways in which stores reach the other devices.",
        "enum class mechanism : std::uint8_t {",
    ]  # fmt: skip
    for row in rows:
        lines += [*_comment(row["sentence"], "// ", "  "), f"  {_enumerator(row)},"]
    lines += ["};", "", "// The parameters of mechanisms.",
              "enum class mechanism_parameter : std::uint8_t {"]  # fmt: skip
    for name, row in table["parameters"].items():
        lines += [*_comment(row["meaning"], "// ", "  "), f"  {name},"]
    lines += ["};", "", "// The kinds of named options of mechanisms.",
              "enum class mechanism_variants : std::uint8_t {", "  none,"]  # fmt: skip
    for name, row in table["variants"].items():
        lines += [*_comment(row["meaning"], "// ", "  "), f"  {name},"]
    lines += [
        "};", "", "struct mechanism_parameter_row {", '  const char* name = "";',
        "  std::uint64_t least = 0;",
        "  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();",
        "  std::uint64_t multiple = 1;",
        "  // The default value. With 0, the parameter applies only if the user names it.",
        "  std::uint64_t initial = 0;",
        "  std::uint64_t first_tried = 0;  // first power of 2 that a search tries",
        "  std::uint64_t last_tried = 0;   // last power of 2 that a search tries", "};", "",
        "using parameter_list = std::span<const mechanism_parameter>;", "",
        "struct mechanism_row {", "  mechanism value{};", '  const char* name = "";',
    ]  # fmt: skip
    for name, meaning in table["traits"].items():
        lines += [*_comment(meaning, "// ", "  "), f"  bool {name} = false;"]
    lines += [
        "  std::span<const parameter_list> families;  // each family is a list of parameters",
        "  mechanism_variants variants = mechanism_variants::none;",
        "  // Why a node does not have the mechanism. Messages put this text after the name of the",
        "  // mechanism. Null means that the node has the mechanism.",
        *(f"  const char* not_on_{node} = nullptr;" for node in NODES),
        "  bool of_regions = false;  // whether regions of a group have the mechanism", "};", "",
        f"inline constexpr std::array<mechanism_parameter_row, {len(table['parameters'])}> "
        "mechanism_parameters{{",
        *(_cpp_parameter(name, row) for name, row in table["parameters"].items()), "}};", "",
    ]  # fmt: skip
    for name, row in table["variants"].items():
        words = ", ".join(map(_quoted, row["names"]))
        lines.append(f"inline constexpr std::array {name}_names{{{words}}};")
    lines.append("")
    for row in rows:
        if "parameters" in row:
            lines += _cpp_families(row)
    lines += [
        "", "// Indexed by the enum.",
        f"inline constexpr std::array<mechanism_row, {len(rows)}> mechanism_rows{{{{",
        *(line for row in rows for line in _cpp_row(row, table)), "}};", "",
        "}  // namespace interlace::kernel",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def cpp_simulated(table: Table) -> str:
    """Return the text of src/sim/mechanism/table.hpp."""
    rows = table["mechanism"]
    lines = [
        _made_of(MECHANISMS, "// "), "#pragma once", "", "#include <array>", "",
        '#include "sim/mechanism/region_mechanism.hpp"', "", "// clang-format off", "",
        "namespace interlace::sim {", "",
        "// Each function is defined in the file of the same name.",
        *(f"const region_mechanism& {_enumerator(row)}();" for row in rows if "sim" in row), "",
        "// Indexed by kernel::mechanism; null: the mechanism is not simulated.",
        f"inline constexpr std::array<const region_mechanism& (*)(), {len(rows)}> "
        "simulated_mechanisms{{",
        *(f"    {_enumerator(row) if 'sim' in row else 'nullptr'}," for row in rows), "}};", "",
        "}  // namespace interlace::sim",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def cpp_measured(table: Table) -> str:
    """Return the text of src/cuda/mechanism/table.hpp."""
    rows = table["mechanism"]
    nodes = [
        f"make_{_enumerator(row)}"
        if "cuda" in row and "needs_processes" not in row.get("traits", ())
        else "nullptr"
        for row in rows
    ]
    regions = [
        f"region_by_{_enumerator(row)}" if "region_kernel" in row else "nullptr" for row in rows
    ]
    lines = [
        _made_of(MECHANISMS, "// "), "#pragma once", "", "#include <array>", "#include <memory>",
        "", '#include "cuda/mechanism/node_mechanism.hpp"',
        '#include "cuda/mechanism/region_mechanism.hpp"', "", "// clang-format off", "",
        "namespace interlace::cuda {", "",
        "// Each function is defined in the file of its mechanism.",
        *(f"std::unique_ptr<node_mechanism> {it}(const node_parts& of);" for it in nodes
          if it != "nullptr"),
        *(f"const region_mechanism& {it}();" for it in regions if it != "nullptr"), "",
        "// Indexed by kernel::mechanism. Null: a node of GPUs does not have the mechanism.",
        f"inline constexpr std::array<std::unique_ptr<node_mechanism> (*)(const node_parts&), "
        f"{len(rows)}> node_mechanisms{{{{",
        *(f"    {it}," for it in nodes), "}};", "",
        "// Indexed by kernel::mechanism. Null: regions of a group do not have the mechanism.",
        f"inline constexpr std::array<const region_mechanism& (*)(), {len(rows)}> "
        "region_mechanisms{{",
        *(f"    {it}," for it in regions), "}};", "",
        "}  // namespace interlace::cuda",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _cpp_options(options: Table) -> str:
    steps = [f".{name} = true" for name in STEPS if options.get(name)]
    fields = [f".steps = {{{', '.join(steps)}}}"]
    fields += [f".{name} = true" for name in FLAGS if options.get(name)]
    if "pages" in options:
        fields.append(f".pages = page_moves::{options['pages']}")
    return f"{{{', '.join(fields)}}}"


def cpp_remote_loads(table: Table) -> str:
    """Return the text of src/kernel/remote_load_table.hpp."""
    rows = table["treatment"]
    lines = [
        _made_of(REMOTE_LOADS, "// "), "#pragma once", "", "#include <array>", "",
        '#include "interlace/kernel/remote_loads.hpp"', "", "// clang-format off", "",
        "namespace interlace::kernel {", "", "struct remote_load_row {",
        '  const char* name = "";', "  remote_load_options options;", "};", "",
        f"inline constexpr std::array<remote_load_row, {len(rows)}> remote_load_rows{{{{",
    ]  # fmt: skip
    for row in rows:
        options = _cpp_options(row.get("options", {}))
        lines.append(f"    {{.name = {_quoted(row['name'])}, .options = {options}}},")
    return "\n".join([*lines, "}};", "", "}  // namespace interlace::kernel"]) + "\n"


# --- Python ---------------------------------------------------------------------------------------


def _py_text(field: str, text: str) -> list[str]:
    """Return a field with a string, in lines of at most the allowed length."""
    line = f"        {field}={_quoted(text)},"
    if len(line) <= 100:
        return [line]
    words = [text]
    if len(_quoted(text)) > 88:
        words = textwrap.wrap(text, 86, drop_whitespace=False, break_long_words=False)
    return [f"        {field}=(", *(f"            {_quoted(word)}" for word in words), "        ),"]


def _py_row(row: Table, table: Table) -> list[str]:
    lines = ["    Mechanism(", f"        name={_constant(row)},",
             *_py_text("sentence", row["sentence"]),
             f"        colour={_quoted(row['colour'])},"]  # fmt: skip
    lines += [f"        {name}=True," for name in table["traits"] if name in row.get("traits", ())]
    if "parameters" in row:
        families = [_tuple(list(map(_quoted, family))) for family in row["parameters"]]
        lines.append(f"        families={_tuple(families)},")
    if "variants" in row:
        lines.append(f"        variants={row['variants'].upper()},")
    for field in ("only_if_named", "not_on_sim", "not_on_cuda"):
        if field in row:
            lines += _py_text(field, row[field])
    if "region_kernel" in row:
        lines.append("        of_regions=True,")
    return [*lines, "    ),"]


def _py_whole(value: int) -> str:
    return f"{value:#x}" if value >= 1 << 17 else str(value)


def _py_parameter(name: str, row: Table) -> str:
    fields = [f"name={_quoted(name)}", f"least={row['least']}"]
    for key in ("most", "multiple", "default"):
        if key in row:
            fields.append(f"{key}={_py_whole(row[key])}")
    for key in ("commands", "tried"):
        if key in row:
            fields.append(f"{key}=({', '.join(map(_py_whole, row[key]))})")
    return "\n".join([f"{name.upper()} = Parameter(", *(f"    {it}," for it in fields), ")"])


def py_mechanisms(table: Table) -> str:
    """Return the text of python/interlace/model/mechanism_table.py."""
    rows = table["mechanism"]
    lines = [
        '"""The mechanisms: their names, and a row for each mechanism.',
        "",
        _made_of(MECHANISMS, ""),
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import NamedTuple",
        "",
        *(f"{_constant(row)} = {_quoted(row['name'])}" for row in rows),
        "",
        "",
        "class Parameter(NamedTuple):",
        '    """A parameter of a mechanism whose value is a number."""',
        "",
        "    name: str",
        "    least: int",
        "    most: int = (1 << 64) - 1",
        "    multiple: int = 1",
        "    # The default value. With 0, the parameter applies only if the user names it.",
        "    default: int = 0",
        "    # Narrower limits for command-line options; (0, 0) if there are none.",
        "    commands: tuple[int, int] = (0, 0)",
        "    tried: tuple[int, int] = (0, 0)  # the first and last power of 2 that a search tries",
        "",
        "",
        "class Variants(NamedTuple):",
        '    """A parameter of a mechanism whose value is one of these names."""',
        "",
        "    names: tuple[str, ...]  # the first name is the default",
        "    tried: tuple[str, ...] = ()  # the names that a study tries",
        "",
        "",
        "class Mechanism(NamedTuple):",
        '    """A mechanism: a row of the table."""',
        "",
        "    name: str",
        "    sentence: str",
        "    colour: str  # the colour in charts, from the palette of show/page.py",
    ]
    for name, meaning in table["traits"].items():
        lines += [*_comment(meaning, "# ", "    "), f"    {name}: bool = False"]
    lines += [
        "    families: tuple[tuple[str, ...], ...] = ()  # the parameters of each family",
        "    variants: Variants | None = None",
        '    # Why a study leaves the mechanism out. The help puts this text after "which".',
        "    only_if_named: str | None = None",
        "    # Why a node does not have the mechanism. Messages put this text after the name of",
        "    # the mechanism. None means that the node has the mechanism.",
        *(f"    not_on_{node}: str | None = None" for node in NODES),
        "    of_regions: bool = False  # whether regions of a group have the mechanism",
        "",
        "",
        *(_py_parameter(name, row) for name, row in table["parameters"].items()),
        f"PARAMETERS = ({', '.join(name.upper() for name in table['parameters'])})",
        "",
    ]
    for name, row in table["variants"].items():
        tried = list(map(_quoted, row.get("tried", ())))
        lines += [
            f"{name.upper()} = Variants(",
            f"    names={_tuple(list(map(_quoted, row['names'])))},",
            *([f"    tried={_tuple(tried)},"] if tried else []),
            ")",
        ]
    lines += ["", "ROWS = (", *(line for row in rows for line in _py_row(row, table)), ")"]
    return "\n".join(lines) + "\n"


def py_remote_loads(table: Table) -> str:
    """Return the text of python/interlace/model/remote_load_table.py."""
    rows = table["treatment"]
    return "\n".join(
        [
            '"""The treatments of remote loads of unified arrays on a simulated machine, by name.',
            "",
            _made_of(REMOTE_LOADS, ""),
            '"""',
            "",
            *(f"{_constant(row)} = {_quoted(row['name'])}" for row in rows),
            "",
            "TREATMENTS = (",
            *(f"    {_constant(row)}," for row in rows),
            ")",
            "",
        ]
    )


# --- documentation --------------------------------------------------------------------------------


def _whole(value: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << 17 and value % (1 << shift) == 0:
            return f"{value >> shift} {unit}"
    return str(value)


def _range(row: Table) -> str:
    text = f"from {_whole(row['least'])}" if "most" in row else f"{row['least']} or more"
    if "most" in row:
        text += f" to {_whole(row['most'])}"
    if "multiple" in row:
        text += f", a multiple of {row['multiple']}"
    if "commands" in row:
        least, most = row["commands"]
        text += f"; commands take {_whole(least)} to {_whole(most)}"
    return text


def _names(rows: list[Table], trait: str) -> str:
    return ", ".join(f"`{row['name']}`" for row in rows if trait in row.get("traits", ()))


def _configured(row: Table) -> str:
    families = (map("`{}`".format, family) for family in row.get("parameters", ()))
    words = ", or ".join(map(" and ".join, families))
    if "variants" in row:
        words += f"{'; ' if words else ''}{row['variants']}"
    return words or "-"


def _on_nodes(row: Table) -> list[str]:
    """Describe what a mechanism does on the host node, the simulated node and the real node."""
    host = "-" if "needs_processes" in row.get("traits", ()) else "copies at the exchange"
    return [host, *(str(row.get(node, "-")) for node in NODES)]


def documentation(table: Table, loads: Table) -> str:
    """Return the text of docs/reference/mechanisms.md."""
    rows = table["mechanism"]
    lines = [
        "# Mechanisms",
        "",
        f"<!-- {_made_of(f'{MECHANISMS} and {REMOTE_LOADS}', '')} -->",
        "",
        "A mechanism is the way in which a kernel's stores reach the other GPUs that subscribe to",
        "the stored elements. Commands (`--mechanisms`) and regions (`mechanism`) take its name.",
        "",
        "| mechanism | what it does | parameters |",
        "|---|---|---|",
        *(f"| `{row['name']}` | {row['sentence']} | {_configured(row)} |" for row in rows),
        "",
        "## Parameters",
        "",
        "| parameter | meaning | range | default | values that a search tries |",
        "|---|---|---|---|---|",
    ]
    for name, row in table["parameters"].items():
        first, last = map(_whole, row["tried"])
        default = _whole(row["default"]) if "default" in row else "-"
        lines.append(
            f"| `{name}` | {row['meaning']} | {_range(row)} | {default} | {first} to {last}, by "
            "factors of 2 |"
        )
    lines += ["", "| option | meaning | values, the default first |", "|---|---|---|"]
    for name, row in table["variants"].items():
        values = ", ".join(f"`{word}`" for word in row["names"])
        lines.append(f"| {name} | {row['meaning']} | {values} |")
    lines += ["", "## Traits", "", "| trait | meaning | mechanisms |", "|---|---|---|"]
    for name, meaning in table["traits"].items():
        lines.append(f"| {name} | {meaning} | {_names(rows, name)} |")
    lines += [
        "",
        "## On each node",
        "",
        "The table says how each node implements a mechanism. `-` means that the node does not",
        "have the mechanism.",
        "",
        "| mechanism | `host` | `sim` | `cuda` |",
        "|---|---|---|---|",
        *(f"| `{r['name']}` | {' | '.join(_on_nodes(r))} |" for r in rows),
        "",
        "## Mechanisms of regions",
        "",
        "A program with its own kernels uses regions of a group ([Regions](../how-to/regions.md)).",
        "These regions have the following mechanisms.",
        "",
        "| mechanism | what the kernel does | what moves the data |",
        "|---|---|---|",
    ]
    for row in rows:
        if "region_kernel" in row:
            cells = row["name"], row["region_kernel"], row["region_moves"]
            lines.append("| `{}` | {} | {} |".format(*cells))
    lines += [
        "",
        "## Remote loads",
        "",
        "`interlace locality --mechanism` takes the name of a treatment: the way in which a",
        "simulated machine handles loads and stores of unified arrays on other GPUs. The parts are",
        "structures in `src/sim`.",
        "",
        "| treatment | what it does | parts |",
        "|---|---|---|",
    ]
    for row in loads["treatment"]:
        parts = ", ".join(f"`{part}`" for part in row.get("parts", ())) or "-"
        lines.append(f"| `{row['name']}` | {row['sentence']} | {parts} |")
    return "\n".join(lines) + "\n"


# --- the files ------------------------------------------------------------------------------------


def made(root: Path = ROOT) -> dict[str, str]:
    """Return the text of each generated file by its path."""
    table = read_mechanisms((root / MECHANISMS).read_text(encoding="utf-8"))
    loads = read_remote_loads((root / REMOTE_LOADS).read_text(encoding="utf-8"))
    return {
        "include/interlace/kernel/mechanism_table.hpp": cpp_mechanisms(table),
        "src/kernel/remote_load_table.hpp": cpp_remote_loads(loads),
        "src/sim/mechanism/table.hpp": cpp_simulated(table),
        "src/cuda/mechanism/table.hpp": cpp_measured(table),
        "python/interlace/model/mechanism_table.py": py_mechanisms(table),
        "python/interlace/model/remote_load_table.py": py_remote_loads(loads),
        "docs/reference/mechanisms.md": documentation(table, loads),
    }


def main() -> int:
    """Write the files that are out of date. With --check, only name them."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        files = made()
    except WrongTable as error:
        print(f"mechanism_tables: {error}", file=sys.stderr)
        return 1
    stale = []
    for name, text in files.items():
        path = ROOT / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(name, "is not current; run tools/mechanism_tables.py" if check else "is written")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
