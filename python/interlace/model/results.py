"""The results of a study: its rows, and the file that stores them."""

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
    """The beginning of a results file: format, command, version, commit and date."""

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
    """Counts of kernels' stores to other devices, and counts of the packets with these stores."""

    stores: int  # stores to other devices; `inline` sends each of them as one packet
    bytes: int
    sizes: list[
        int
    ]  # entry k is the number of stores of at least 2^k bytes and fewer than 2^(k + 1)
    packets: int
    wire_bytes: int
    overwritten_bytes: int  # bytes that a later store overwrote before they were sent
    flushes: int
    subpackets: int
    subheader_bytes: int
    reasons: dict[str, int]  # maps a reason to the number of flushes for this reason


class Sim(msgspec.Struct, frozen=True):
    """The cost of simulating a row: CPU seconds, and memory of the row's process (1 MB = 1e6 B)."""

    accesses: int  # pairs of a warp's instruction and a cache line
    remote_transactions: int
    cpu_s: float
    peak_rss_mb: float
    stores: Stores | None = None  # None if the run counted no stores
    # The number of iterations that were simulated. The other iterations ran only for their results,
    # and their time is taken from the last two simulated iterations. The field is unset if all
    # iterations were simulated.
    timed_iterations: int | UnsetType = UNSET
    inside: Inside | UnsetType = UNSET


class Measured(msgspec.Struct, frozen=True):
    """The repeats of a measured row. NVLink's counters count the bytes of one run, and are null
    without NVML.
    """

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
        """Return the observations inside the run, or None if the run was not observed."""
        return self.sim.inside or None if self.sim else None


class Study(Head, frozen=True):
    """The content of a study's results file."""

    driver: str | None
    machine: dict[str, Any]
    data: dict[str, Any]
    notes: list[str]
    rows: list[StudyRow]
    # configurations that were slower than the configuration of the same mechanism in `rows`
    candidates: list[StudyRow]


class Timelines(msgspec.Struct, frozen=True):
    """The first epochs of each row with the largest number of GPUs."""

    gpus: int
    # a mechanism with its configuration, and its events; the first event begins at time 0
    rows: list[tuple[str, list[Event]]]


def without_inside(study: Study) -> Study:
    """Return the study without the observations inside its runs. These observations are long."""

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
    """The beginning of a benchmark's results file, with the name of the benchmark."""

    format: int
    benchmark: str
    command: str
    version: str
    commit: str | None
    date: str


class BenchmarkFile(BenchmarkHead):
    """The beginning of a benchmark's results file, with the name of the benchmark."""

    driver: str | None
    machine: dict[str, Any]


def json_text(document: msgspec.Struct | Mapping[str, Any]) -> str:
    """Return the text of a results file with this content."""
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
    # an installed package can lie in a folder inside another project's checkout
    if not top or not (Path(top) / "python" / "interlace" / "model" / "results.py").is_file():
        return stated
    found = ask("rev-parse", "HEAD")
    if found and ask("status", "--porcelain", "--untracked-files=no"):
        return f"{found}-dirty"
    return found or stated
