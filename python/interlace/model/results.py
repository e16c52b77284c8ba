"""The results of a study: its rows, and the file that has them."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from interlace.base.version import version
from interlace.model.inside import Inside
from interlace.model.limits import Limit
from interlace.model.mechanisms import Config, label
from interlace.model.run import Event

FORMAT = 1  # the format version of results files
BENCHMARK_FORMAT = 1  # the format version of benchmark files


class Head(msgspec.Struct, frozen=True):
    """The head of a results file: format, command, version, commit and date."""

    format: int
    command: str
    version: str
    commit: str | None
    date: str


class WireRow(msgspec.Struct, frozen=True):
    """Bytes on the wires of all devices in all iterations. None means unknown."""

    useful: int | None
    protocol: int | None
    wasted: int | None


class Stores(msgspec.Struct, frozen=True):
    """Stores of kernels to other devices, counted as stores of kernels and as packets."""

    stores: int  # stores to other devices; inline sends each store as one packet
    bytes: int
    sizes: list[int]  # the numbers of stores of 1, 2 to 3, 4 to 7, ... 128 bytes
    packets: int
    wire_bytes: int
    overwritten_bytes: int  # bytes that a later store overwrote before they were sent
    flushes: int
    subpackets: int
    subheader_bytes: int
    reasons: dict[str, int]  # the number of flushes for each reason


class Sim(msgspec.Struct, frozen=True):
    """The host's cost of a simulated row: CPU seconds, and MB (1e6 B) of the row's own process."""

    accesses: int  # pairs of a warp's instruction and a cache line
    remote_transactions: int
    cpu_s: float
    peak_rss_mb: float
    stores: Stores | None = None  # None if kernels made no remote loads
    # How many iterations were simulated. The other iterations repeat the last two, and ran only for
    # their results. It is unset if all iterations were simulated.
    timed_iterations: int | UnsetType = UNSET
    inside: Inside | UnsetType = UNSET


class Measured(msgspec.Struct, frozen=True):
    """The repeats of a measured row. NVLink counters are per run, and null without NVML."""

    times_s: list[float]
    copy_s: float
    raw_tx_bytes: float | None
    data_tx_bytes: float | None


class StudyRow(msgspec.Struct, frozen=True):
    """A row of a study. Times cover the whole run with all iterations."""

    workload: str
    data: str
    node: str
    machine: str
    gpus: int
    mechanism: str
    config: dict[str, Any]
    iterations: int
    time_s: float
    speedup: float
    opportunity: float | None
    captured: float | None
    derived: bool
    verified: bool
    max_error: float | None
    wire: WireRow
    overlap: float | None
    reachable: float | None = None
    sim: Sim | UnsetType = UNSET
    cuda: Measured | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET  # only for measured rows on one GPU

    @property
    def short_label(self) -> str:
        """Return the mechanism with its configuration, for a table."""
        return label(self.mechanism, Config.of(self.config), short=True)

    @property
    def inside(self) -> Inside | None:
        """Return the inside of the run, or None if it is not known."""
        return self.sim.inside or None if self.sim else None


class Study(Head, frozen=True):
    """The content of a study's results file."""

    driver: str | None
    machine: dict[str, Any]
    data: dict[str, Any]
    notes: list[str]
    rows: list[StudyRow]
    # configurations that were slower than the configuration in their row
    candidates: list[StudyRow]


class Timelines(msgspec.Struct, frozen=True):
    """The first epochs of each row that has the most GPUs."""

    gpus: int
    # a mechanism with its configuration, and its events from 0 s on
    rows: list[tuple[str, list[Event]]]


def without_inside(study: Study) -> Study:
    """Return the study without the insides of its runs, which are long."""

    def short(row: StudyRow) -> StudyRow:
        if not row.sim:
            return row
        return msgspec.structs.replace(row, sim=msgspec.structs.replace(row.sim, inside=UNSET))

    return msgspec.structs.replace(
        study,
        rows=[short(row) for row in study.rows],
        candidates=[short(row) for row in study.candidates],
    )


class BenchmarkHead(msgspec.Struct):
    """The head of a benchmark's results file. It also has the benchmark's name."""

    format: int
    benchmark: str
    command: str
    version: str
    commit: str | None
    date: str


class BenchmarkFile(BenchmarkHead):
    """The head of a benchmark's results file. It also has the benchmark's name."""

    driver: str | None
    machine: dict[str, Any]


def json_text(document: msgspec.Struct | Mapping[str, Any]) -> str:
    """Return the text of the results file."""
    return json.dumps(msgspec.to_builtins(document), indent=2, allow_nan=False) + "\n"


def provenance() -> dict[str, Any]:
    """Return the origin of a results file: command, version, commit and date."""
    return {
        "command": shlex.join(["interlace", *sys.argv[1:]]),
        "version": version(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit() -> str | None:
    """Return the commit of this package's checkout, with -dirty if files have changed.

    A copy of a checkout has no git repository. INTERLACE_COMMIT names the commit of such a copy.
    """
    git = shutil.which("git")
    stated = os.environ.get("INTERLACE_COMMIT") or None
    if git is None:
        return stated

    def ask(*words: str) -> str | None:
        folder = str(Path(__file__).resolve().parent)
        try:
            done = subprocess.run(
                [git, "-C", folder, *words], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    top = ask("rev-parse", "--show-toplevel")
    # an installed package may lie inside the checkout of another project
    if not top or not (Path(top) / "python" / "interlace" / "model" / "results.py").is_file():
        return stated
    found = ask("rev-parse", "HEAD")
    if found and ask("status", "--porcelain", "--untracked-files=no"):
        return f"{found}-dirty"
    return found or stated
