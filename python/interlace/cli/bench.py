"""`interlace bench`: microbenchmarks of this computer's GPUs."""

from __future__ import annotations

from collections.abc import Callable

from interlace.cli.bench_blocks import blocks_command
from interlace.cli.bench_collective import collective_command
from interlace.cli.bench_copy import copy_command
from interlace.cli.bench_load import load_command
from interlace.cli.bench_overlap import overlap_command
from interlace.cli.bench_park import park_command
from interlace.cli.bench_simulator import simulator_command
from interlace.cli.bench_updates import updates_command

COMMANDS: dict[str, Callable[..., None]] = {
    "blocks": blocks_command,
    "collective": collective_command,
    "copy": copy_command,
    "load": load_command,
    "overlap": overlap_command,
    "park": park_command,
    "simulator": simulator_command,
    "updates": updates_command,
}
