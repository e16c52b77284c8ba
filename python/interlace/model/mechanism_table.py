"""The mechanisms: their names, and a row for each.

Made by tools/mechanism_tables.py of src/kernel/mechanisms.toml; do not edit.
"""

from __future__ import annotations

from typing import NamedTuple

BULK_COPY = "bulk-copy"
MULTI_PATH = "multi-path"
SPLIT = "split"
INLINE = "inline"
POLLING = "polling"
DEVICE_LAUNCH = "device-launch"
COPY_ENGINE = "copy-engine"
PROACT_HARDWARE = "proact-hardware"
SERIAL_COPY = "serial-copy"
WRITE_COMBINING = "write-combining"
FINEPACK = "finepack"
CONFIG_PACKET = "config-packet"
GPS = "gps"
NCCL = "nccl"
NVSHMEM = "nvshmem"
UNIFIED_MEMORY = "unified-memory"
INFINITE_BANDWIDTH = "infinite-bandwidth"


class Parameter(NamedTuple):
    """What a mechanism is configured by: a number."""

    name: str
    least: int
    most: int = (1 << 64) - 1
    multiple: int = 1
    default: int = 0  # 0: only if it is named
    commands: tuple[int, int] = (0, 0)  # what commands take, where that is less
    tried: tuple[int, int] = (0, 0)  # the first and last power of 2 that a search tries


class Variants(NamedTuple):
    """What a mechanism is configured by: one of these names."""

    names: tuple[str, ...]  # the first is the default
    tried: tuple[str, ...] = ()  # by a study


class Mechanism(NamedTuple):
    """A row of the table."""

    name: str
    sentence: str
    colour: str  # in charts, of the palette of show/page.py
    # what all others are compared with
    baseline: bool = False
    # no way to move data, but what would be reached if that took no time
    bound: bool = False
    # a library or driver of others, measured beside ours
    peer: bool = False
    # takes a process for each GPU, so that no node of one process has it
    needs_processes: bool = False
    # a study runs it unless told otherwise, where the node has it
    by_default: bool = False
    # a search for the fastest mechanism tries it, where the node has it
    tuned: bool = False
    # a search measures it to the end, and picks it unless something is faster
    control: bool = False
    # blocks announce what they write of a region's chunks
    tracks_chunks: bool = False
    # a stream waits for each chunk, so that many small chunks cost too much
    waits_for_each_chunk: bool = False
    # copies start when the kernels before the exchange are done: both times are known
    copies_after_kernels: bool = False
    # kernels themselves store to the other devices
    stores_inline: bool = False
    # these stores go to the devices that read them, so that those of a trace can go this way
    stores_to_readers: bool = False
    # these stores wait in a queue of the GPU, which no GPU that exists has
    queues_stores: bool = False
    families: tuple[tuple[str, ...], ...] = ()  # names of parameters; alternatives
    variants: Variants | None = None
    only_if_named: str | None = None  # why a study leaves it out, after "which"
    # Why a node does not have it, after its name; None: the node has it.
    not_on_sim: str | None = None
    not_on_cuda: str | None = None
    of_regions: bool = False  # regions of a group have it


RANGES = Parameter(
    name="ranges",
    least=1,
    default=8,
    tried=(2, 32),
)
CHUNK_BYTES = Parameter(
    name="chunk_bytes",
    least=1,
    most=0x40000000,
    default=0x100000,
    commands=(4096, 0x10000000),
    tried=(4096, 0x1000000),
)
AGENT_THREADS = Parameter(
    name="agent_threads",
    least=32,
    most=65536,
    multiple=32,
    default=16384,
    tried=(32, 16384),
)
BULK_THREADS = Parameter(
    name="bulk_threads",
    least=32,
    most=8192,
    multiple=32,
    tried=(256, 8192),
)
PARAMETERS = (RANGES, CHUNK_BYTES, AGENT_THREADS, BULK_THREADS)

COLLECTIVE = Variants(
    names=("best-fitting", "all-gather", "broadcast", "send-receive"),
    tried=("all-gather", "broadcast", "send-receive"),
)
MEMORY_HINT = Variants(
    names=("none", "read-mostly", "preferred-location", "accessed-by"),
    tried=("none", "read-mostly", "preferred-location", "accessed-by"),
)
AGENT_COPY = Variants(
    names=("vectors", "bulk"),
)

ROWS = (
    Mechanism(
        name=BULK_COPY,
        sentence="The kernel runs to its end, then its output is copied to the others.",
        colour="GREY",
        baseline=True,
        by_default=True,
        tuned=True,
        control=True,
        copies_after_kernels=True,
        of_regions=True,
    ),
    Mechanism(
        name=MULTI_PATH,
        sentence=(
            "The copies of bulk-copy, of all GPUs as one batch of the copy engine, which plans them"
            " together over the paths of the machine."
        ),
        colour="YELLOW",
        copies_after_kernels=True,
        only_if_named="is for large transfers",
        not_on_sim=(
            "is measured on real GPUs; leave it out, and simulate such copies with interlace plan "
            "--simulate"
        ),
    ),
    Mechanism(
        name=SPLIT,
        sentence=(
            "The kernel is launched over ranges of its blocks; each is copied while the next runs."
        ),
        colour="ORANGE",
        by_default=True,
        tuned=True,
        control=True,
        families=(("ranges",),),
    ),
    Mechanism(
        name=INLINE,
        sentence="The kernel stores each result into the memory of all GPUs itself.",
        colour="BLUE",
        by_default=True,
        tuned=True,
        stores_inline=True,
        stores_to_readers=True,
        of_regions=True,
    ),
    Mechanism(
        name=POLLING,
        sentence=(
            "A kernel that runs beside it, the agent, stores each chunk to the others as soon as it"
            " is complete: with chunks of so many bytes and so many threads of the agent."
        ),
        colour="GREEN",
        by_default=True,
        tuned=True,
        tracks_chunks=True,
        families=(("chunk_bytes", "agent_threads"), ("chunk_bytes", "bulk_threads")),
        variants=AGENT_COPY,
        of_regions=True,
    ),
    Mechanism(
        name=DEVICE_LAUNCH,
        sentence=(
            "The block that completes a chunk launches a kernel of so many threads, which stores it"
            " to the others."
        ),
        colour="SKY",
        by_default=True,
        tuned=True,
        tracks_chunks=True,
        families=(("chunk_bytes", "agent_threads"),),
    ),
    Mechanism(
        name=COPY_ENGINE,
        sentence=(
            "Streams wait for each chunk, and a copy engine copies it as soon as it is complete."
        ),
        colour="PURPLE",
        by_default=True,
        tuned=True,
        tracks_chunks=True,
        waits_for_each_chunk=True,
        families=(("chunk_bytes",),),
        of_regions=True,
    ),
    Mechanism(
        name=PROACT_HARDWARE,
        sentence=(
            "Hardware that no GPU has: stores count for their chunk by themselves, and a unit that "
            "fetches a descriptor copies each complete one."
        ),
        colour="VERMILION",
        by_default=True,
        tuned=True,
        tracks_chunks=True,
        families=(("chunk_bytes",),),
        not_on_cuda="is hardware that no GPU has; name a machine to simulate it on",
    ),
    Mechanism(
        name=SERIAL_COPY,
        sentence=(
            "Bulk copies as plain cudaMemcpy calls make them: each waits for all before it that "
            "touch one of its GPUs."
        ),
        colour="YELLOW",
        not_on_cuda="is a baseline of simulated machines; take bulk-copy here",
    ),
    Mechanism(
        name=WRITE_COMBINING,
        sentence=(
            "As inline, but stores to a line wait in a queue of the GPU for others to the same "
            "line."
        ),
        colour="YELLOW",
        stores_inline=True,
        stores_to_readers=True,
        queues_stores=True,
        not_on_cuda="is hardware that no GPU has; name a machine to simulate it on",
    ),
    Mechanism(
        name=FINEPACK,
        sentence=(
            "As inline, but stores wait in a queue of the GPU until many of them fill one packet, "
            "in which each has only a short header."
        ),
        colour="GREEN",
        stores_inline=True,
        stores_to_readers=True,
        queues_stores=True,
        not_on_cuda="is hardware that no GPU has; name a machine to simulate it on",
    ),
    Mechanism(
        name=CONFIG_PACKET,
        sentence=(
            "The queue of finepack, but each store leaves as a packet of its own, after one that "
            "says what they have in common."
        ),
        colour="PURPLE",
        stores_inline=True,
        stores_to_readers=True,
        queues_stores=True,
        not_on_cuda="is hardware that no GPU has; name a machine to simulate it on",
    ),
    Mechanism(
        name=GPS,
        sentence=(
            "Stores wait in a queue of the GPU and leave as whole lines, to those GPUs that read "
            "their page in the first iteration."
        ),
        colour="SKY",
        stores_inline=True,
        queues_stores=True,
        not_on_cuda="is hardware that no GPU has; name a machine to simulate it on",
    ),
    Mechanism(
        name=NCCL,
        sentence="NVIDIA's collectives deliver at the exchange; the name is that of the fastest.",
        colour="VERMILION",
        peer=True,
        by_default=True,
        copies_after_kernels=True,
        variants=COLLECTIVE,
        not_on_sim=(
            "is measured on real GPUs and not simulated; leave it out, or take bulk-copy, which "
            "also moves everything at the exchange"
        ),
    ),
    Mechanism(
        name=NVSHMEM,
        sentence="A process for each GPU, and NVSHMEM's puts on streams at the exchange.",
        colour="YELLOW",
        peer=True,
        needs_processes=True,
        by_default=True,
        not_on_sim=(
            "is measured on real GPUs and not simulated; leave it out, or take bulk-copy, which "
            "also moves everything at the exchange"
        ),
    ),
    Mechanism(
        name=UNIFIED_MEMORY,
        sentence=(
            "One copy of the data, whose pages the driver moves; the name is that of the best hint."
        ),
        colour="YELLOW",
        peer=True,
        variants=MEMORY_HINT,
        only_if_named="is for small data",
        not_on_sim=(
            "is measured on real GPUs and not simulated; leave it out, or take bulk-copy, which "
            "also moves everything at the exchange"
        ),
    ),
    Mechanism(
        name=INFINITE_BANDWIDTH,
        sentence="Transfers take no time and no resources: the bound.",
        colour="BLACK",
        bound=True,
        by_default=True,
        not_on_cuda="is a bound that only simulated machines run; on real GPUs it is derived",
    ),
)
