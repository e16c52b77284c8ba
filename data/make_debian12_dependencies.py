#!/usr/bin/env python3
"""Make the dependency graph of Debian 12 from its package index.

    python data/make_debian12_dependencies.py              # reads this machine's apt lists
    python data/make_debian12_dependencies.py Packages.xz  # reads an index file

The index is `dists/bookworm/main/binary-amd64/Packages` of any Debian mirror, plain, gzip or xz.
Without a file the script reads the local apt lists. On Debian 12, `apt-get update` fetches these
lists.

Each package name in the index is a vertex. Vertices are numbered from 1 in byte order of the names.
If the index has several versions of a package, they share one vertex. This vertex has the relations
of all versions.

There is an edge i -> j if the Pre-Depends or Depends of package i require package j:

- Each comma-separated clause of Pre-Depends and Depends gives at most one edge. Version limits
  (`>= 2.36`) and qualifiers of architecture (`:any`) are ignored.
- Alternatives (`a
b
c`) stand for the first of them, from left to right, that resolves. apt
- A name resolves to the package of that name. If there is no such package, the name is virtual. It
  then resolves to the first package, in byte order, whose Provides lists the name.
- A clause in which nothing resolves gives no edge. The shipped graph has two such clauses.
- A clause that the package itself satisfies (by its Provides) gives no edge. Several clauses that
  lead to the same package give one edge.

The script ignores Recommends, Suggests, Conflicts and all other fields.

The output is Matrix Market, coordinate pattern general, entries sorted by row and column. The same
index gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from _output import Parser, ScriptError, run, write_text

FIELDS = ("Package", "Pre-Depends", "Depends", "Provides")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]+(?=$|[\s:(\[<])")
OUTPUT = "debian12-dependencies.mtx.gz"
GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
APT_HELPER = "/usr/lib/apt/apt-helper"


@dataclass
class Package:
    """The dependencies and provided names of one entry of the index."""

    clauses: list[list[str]] = field(default_factory=list)  # each clause is a list of alternatives
    provides: list[str] = field(default_factory=list)


@dataclass
class DependencyGraph:
    """The graph, and counts of the special cases in its clauses."""

    names: list[str]  # names[i] is the package of vertex i + 1
    edges: list[tuple[int, int]]  # 1-based, ascending, no duplicates
    virtual: int = 0  # number of clauses that a provider satisfies
    unresolved: int = 0  # number of clauses that no package satisfies
    own: int = 0  # number of clauses that their own package satisfies


def read_index(path: Path) -> bytes:
    """Read the text of an index file. The first bytes of the file show whether it is plain, gzip or
    xz.
    """
    data = path.read_bytes()
    try:
        if data.startswith(GZIP_MAGIC):
            return gzip.decompress(data)
        if data.startswith(XZ_MAGIC):
            return lzma.decompress(data)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise ScriptError(f"{path} cannot be unpacked ({error}); fetch it again.") from None
    return data


def read_apt_lists() -> bytes:
    """Read the text of the index of bookworm main amd64 from this machine's apt lists."""
    wanted = ("Created-By: Packages", "Codename: bookworm", "Component: main")
    files = _output_of(
        ["apt-get", "indextargets", "--format", "$(FILENAME)", *wanted, "Architecture: amd64"]
    )
    for name in files.decode().splitlines():
        if Path(name).exists():
            return _output_of([APT_HELPER, "cat-file", name])
    raise ScriptError(
        "the apt lists have no Debian 12 (bookworm) main amd64 index; run apt-get update on "
        "Debian 12 or name a Packages file."
    )


def _output_of(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise ScriptError(f"{command[0]} is not on this machine; name a Packages file.") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"exit code {error.returncode}"
        raise ScriptError(f"{command[0]} failed ({reason}); name a Packages file.") from None


def parse_index(text: str) -> dict[str, Package]:
    """Return the packages of an index by name. Raise ScriptError with the number of the wrong
    line.
    """
    packages: dict[str, Package] = {}
    for stanza, number in _stanzas(text):
        name = stanza.get("Package", "").strip()
        if not name:
            raise ScriptError(
                f"line {number}: the entry has no 'Package:' field; is this a Packages index?"
            )
        package = packages.setdefault(name, Package())
        for key in ("Pre-Depends", "Depends"):
            package.clauses += [
                [_name(alternative, name) for alternative in clause.split("|")]
                for clause in _clauses(stanza.get(key, ""))
            ]
        package.provides += [_name(p, name) for p in _clauses(stanza.get("Provides", ""))]
    if not packages:
        raise ScriptError("the index is empty; name another Packages file.")
    return packages


def _stanzas(text: str) -> Iterator[tuple[dict[str, str], int]]:
    """Yield, for each entry, the fields that the graph needs and the number of the entry's first
    line.
    """
    stanza: dict[str, str] = {}
    first = 0
    key = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            if first:
                yield stanza, first
            stanza, first, key = {}, 0, ""
            continue
        first = first or number
        if line[0] in " \t":
            if key in stanza:
                stanza[key] += line
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise ScriptError(f"line {number}: expected 'Field: value'; is this a Packages index?")
        if key in FIELDS:
            stanza[key] = value
    if first:
        yield stanza, first


def _clauses(value: str) -> Iterator[str]:
    return (clause for clause in value.split(",") if clause.strip())


def _name(relation: str, package: str) -> str:
    match = NAME.match(relation.strip())
    if match is None:
        raise ScriptError(
            f"package {package}: '{relation.strip()[:40]}' is not a relation to a package; "
            "correct the index."
        )
    return match.group()


def resolve(packages: dict[str, Package]) -> DependencyGraph:
    """Make the dependency graph by the rules in this file's docstring."""
    names = sorted(packages)
    vertex = {name: i for i, name in enumerate(names, start=1)}
    provider: dict[str, int] = {}
    for name in names:
        for virtual in packages[name].provides:
            provider.setdefault(virtual, vertex[name])
    graph = DependencyGraph(names, [])
    edges: set[tuple[int, int]] = set()
    for name in names:
        source = vertex[name]
        for clause in packages[name].clauses:
            chosen = next((a for a in clause if a in vertex or a in provider), None)
            if chosen is None:
                graph.unresolved += 1
                continue
            graph.virtual += chosen not in vertex
            target = vertex.get(chosen) or provider[chosen]
            if target == source:
                graph.own += 1
            else:
                edges.add((source, target))
    graph.edges = sorted(edges)
    return graph


def matrix_market(graph: DependencyGraph, digest: str) -> str:
    """Return the graph as Matrix Market text. `digest` is the SHA-256 of the index."""
    head = (
        "%%MatrixMarket matrix coordinate pattern general\n"
        "% Debian 12 (bookworm) main amd64: package i needs package j (Pre-Depends, Depends)\n"
        "% made by data/make_debian12_dependencies.py, which states the rules\n"
        f"% from the Packages index with SHA-256 {digest}\n"
        f"{len(graph.names)} {len(graph.names)} {len(graph.edges)}\n"
    )
    return head + "".join(f"{i} {j}\n" for i, j in graph.edges)


def main() -> None:
    """Run the command line."""
    parser = Parser(description="Make the dependency graph of Debian 12 from its package index.")
    parser.add_argument(
        "index", type=Path, nargs="?", help="Packages file; by default the apt lists are read"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / OUTPUT)
    parser.add_argument("--names", type=Path, help="also write the names; line i is vertex i")
    options = parser.parse_args()
    data = read_index(options.index) if options.index else read_apt_lists()
    try:
        packages = parse_index(data.decode())
    except UnicodeDecodeError:
        raise ScriptError(f"{options.index} is not text; name a Packages file.") from None
    except ScriptError as error:
        raise ScriptError(f"{options.index or 'apt list'}, {error}") from None
    graph = resolve(packages)
    write_text(options.output, matrix_market(graph, hashlib.sha256(data).hexdigest()))
    if options.names:
        write_text(options.names, "".join(f"{name}\n" for name in graph.names))
    print(
        f"{options.output}: {len(graph.names)} packages, {len(graph.edges)} edges; clauses: "
        f"{graph.virtual} through a provider, {graph.unresolved} unresolved, {graph.own} "
        "satisfied by the package itself",
        file=sys.stderr,
    )


if __name__ == "__main__":
    run(main)
