"""Computes the storage that the hardware of simulated mechanisms would need in a GPU.

The number of bits follows from the description of the machine. The storage includes the remote
write queue and the de-packetizer of FinePack (HPCA 2023, section IV-B) and the queue of GPS (MICRO
2021). If the machine describes DualOpt (PACT 2022, Table 1), the storage also includes DualOpt's
structures. The result is compared with the data bits of the caches. Logic, ports, and the area of a
fully associative search are not counted.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from interlace.base.errors import UserError
from interlace.machine.devices import MAX_GPUS
from interlace.machine.schema import DualOpt, Gpu, Machine
from interlace.model.results import Head, provenance

FORMAT = 1
ADDRESS_BITS = 64  # the bits of a base address register, from FinePack's Table III
SUBHEADER_LENGTH_BITS = 10  # from FinePack's Table II
RESPONSE_ID_BITS = 16  # DualOpt, Fig. 9


class Part(msgspec.Struct, frozen=True):
    """The storage of one structure in a GPU, in bits."""

    structure: str
    what: str
    count: int  # the number of structures of this kind in a GPU
    bits_each: int
    bits: int
    of_caches: (
        float  # the bits of all these structures divided by the data bits of the L1 and L2 caches
    )


class Figure(NamedTuple):
    """A figure of a paper, and a note that says what follows from the paper's parameters."""

    published: str
    source: str
    note: str


PUBLISHED = (
    Figure(
        "with 4 GPUs: 48 kB for the queues of each GPU, which is 0.3 % of 16 MB of caches",
        "FinePack, section IV-B",
        "three destinations with 64 lines of 128 B need 24 KiB; 48 kB would serve six destinations",
    ),
    Figure(
        "with 4 GPUs: 192 entries of 144 bytes for each GPU",
        "FinePack, Table III",
        "three destinations with 64 entries each; an entry has 128 B and 128 byte enables, without "
        "a tag",
    ),
    Figure(
        "with 16 GPUs: 120 kB for the queues of each GPU",
        "FinePack, section VI-B",
        "fifteen destinations with 64 lines of 128 B need 120 KiB",
    ),
    Figure(
        "less than 0.05 % of the area of the caches of a GA100",
        "FinePack, section VI-B",
        "the paper gives an area, and an area does not follow from bits; the L2 of a GA100 alone "
        "has 40 MB",
    ),
    Figure(
        "512 entries of 135 bytes",
        "GPS (MICRO 2021), Table 1",
        "128 B of data and 7 more bytes",
    ),
)
OF_DUALOPT = (
    Figure(
        "964.99, 202.94, 697 and 37234 um2; 0.43, 0.27, 0.1 and 31.9 mW",
        "DualOpt, Table 4",
        "the bitmasks, the bypass, the MSHRs and the CoDec in 28 nm, in this order; areas and "
        "power do not follow from bits",
    ),
    Figure(
        "0.032 % of the hardware",
        "DualOpt, section 6.4",
        "the paper gives an area, without the RDMA cache, because this cache is part of the L2",
    ),
    Figure(
        "a 3-bit count of up to 10 responses in a packet",
        "DualOpt, section 4.1.3",
        "3 bits cannot hold the number 10; simulated packets have 4 bits",
    ),
)
# Each entry has the name of a scheme, and four properties: whether the scheme runs unchanged
# programs, the granularity of its transfers, whether it needs no replicas, and whether its hardware
# is simple.
NEEDS = (
    ("CARVE", "yes", "line", "no", "no"),
    ("Griffin", "yes", "page or line", "yes", "no"),
    ("PROACT", "no", "fine", "no", "yes"),
    ("GPS", "no", "fine", "no", "no"),
    ("DualOpt", "yes", "fine or line", "yes", "yes"),
)


class Cost(Head, frozen=True):
    """The content of the JSON file of `interlace cost`."""

    machine: str
    gpus: int
    parts: list[Part]
    published: list[dict[str, str]]
    # the needs of schemes for remote loads; empty unless the machine describes DualOpt
    needs: list[dict[str, str]]


def _bits_for(most: int) -> int:
    """Return the number of bits of a register that counts from 0 to `most`."""
    return most.bit_length()


def _dualopt_parts(gpu: Gpu, added: DualOpt, destinations: int) -> list[tuple[str, str, int, int]]:
    """Return DualOpt's structures, each as (name, contents, number of structures, bits of one
    structure).
    """
    units = gpu.compute_units
    pieces = gpu.l2.line_bytes // added.granularity_bytes
    piece_bits = 8 * added.granularity_bytes
    lines = added.rdma_cache_KiB * 1024 // gpu.l2.line_bytes
    sets = lines // added.rdma_cache_ways
    # A tag is an address without the bits that select a byte of the line. If the number of sets is
    # a power of two, a tag also lacks the bits that select the set.
    tag = ADDRESS_BITS - (gpu.l2.line_bytes.bit_length() - 1)
    tag -= sets.bit_length() - 1 if sets & (sets - 1) == 0 else 0
    watched = added.monitored_accesses
    most = round(watched / added.remote_threshold) if added.remote_threshold else watched
    counters = sum(map(_bits_for, (added.warm_up_accesses, most, watched, watched)))
    counters += _bits_for(watched * pieces)
    return [
        ("DualOpt: bitmasks", "one bit for each piece of a line", units, pieces),
        ("DualOpt: bypass", "first and last local address", units, 2 * ADDRESS_BITS),
        (
            "DualOpt: MSHRs",
            "one bit for each piece of a line",
            units * gpu.l1.outstanding_lines,
            pieces,
        ),
        (
            "DualOpt: CoDec",
            "response IDs, data, valid bits",
            destinations * added.buffer_pieces_per_destination,
            RESPONSE_ID_BITS + piece_bits + 1,
        ),
        ("DualOpt: CoDec", "timers", destinations, _bits_for(added.timeout_clocks)),
        ("DualOpt: RDMA cache", "tags, valid and dirty bits", lines, tag + 2),
        ("DualOpt: decision engine", "counters", 1, counters),
        *_engines_past_dualopt(gpu, added, pieces),
    ]


def _engines_past_dualopt(gpu: Gpu, added: DualOpt, pieces: int) -> list[tuple[str, str, int, int]]:
    """Return the structures that only dualopt-adaptive needs, and the structures that dualopt-pages
    adds to the TLBs.
    """
    choice = 2  # two bits can hold one of three choices
    turn, agreeing = added.looking_compute_units - 1, added.agreeing_windows
    found = [
        (
            "dualopt-adaptive",
            "a counter of loads, a counter of windows in a row that favour another choice, and the "
            "index of the compute unit that still uses its L1",
            1,
            choice + sum(map(_bits_for, (added.monitored_accesses, agreeing, turn))),
        )
    ]
    if not isinstance(gpu.tlb, UnsetType):
        counts = (added.page_loads, added.page_loads, added.page_loads * pieces)
        counters = choice + sum(map(_bits_for, counts))
        found.append(
            ("dualopt-pages", "the counters and the choice of a page", gpu.tlb.l2_entries, counters)
        )
    return found


def parts(machine: Machine, gpus: int) -> list[Part]:
    """Return the structures of one GPU of a machine."""
    gpu, queue = machine.gpu, machine.gpu.remote_write_queue
    line = gpu.l2.line_bytes
    line_bits = line.bit_length() - 1
    destinations = gpus - 1
    offset_bits = 8 * queue.subheader_bytes - SUBHEADER_LENGTH_BITS
    # The base register holds the address bits above the window. If windows grow, there is no base
    # register, and a tag holds these bits.
    tag = ADDRESS_BITS - line_bits if queue.window == "growing" else max(0, offset_bits - line_bits)
    windows = queue.windows_per_destination
    entry = line * 8 + line + tag + 1 + _bits_for(windows - 1)
    registers = windows * (ADDRESS_BITS + _bits_for(queue.payload_bytes))
    if queue.window == "growing":
        registers += windows * ADDRESS_BITS  # for each window, the end of its stores
    configuration = sum(map(_bits_for, (ADDRESS_BITS, offset_bits, 6, queue.payload_bytes)))
    unpacked = line * 8 + line + ADDRESS_BITS - line_bits + 1
    l1 = gpu.l1.size_KiB * 1024 * 8
    l2 = gpu.l2.size_KiB * 1024 * 8
    caches = gpu.compute_units * l1 + l2
    found = [
        ("remote write queue", "data", destinations * queue.lines_per_destination, line * 8),
        ("remote write queue", "byte enables", destinations * queue.lines_per_destination, line),
        (
            "remote write queue",
            "tags, valid bits, windows",
            destinations * queue.lines_per_destination,
            entry - line * 9,
        ),
        ("remote write queue", "base and payload registers", destinations, registers),
        (
            "remote write queue",
            "counters of entries",
            destinations,
            _bits_for(queue.lines_per_destination),
        ),
        ("remote write queue", "configuration registers", 1, configuration),
        ("de-packetizer", "data, byte enables, addresses", queue.unpacked_lines, unpacked),
        ("queue of GPS", "data, tags, valid bits", gpu.gps.queue_lines, line * 8 + 56),
        *(
            []
            if isinstance(gpu.dualopt, UnsetType)
            else _dualopt_parts(gpu, gpu.dualopt, destinations)
        ),
        ("L1", "data", gpu.compute_units, l1),
        ("L2", "data", 1, l2),
    ]
    return [
        Part(structure, what, count, each, count * each, count * each / caches)
        for structure, what, count, each in found
    ]


def cost_of(machine: Machine, gpus: int) -> Cost:
    """Return the storage that one of the machine's GPUs needs.

    Raises UserError if there are too many or too few GPUs.
    """
    if not 2 <= gpus <= MAX_GPUS:
        raise UserError(
            f"{gpus} GPUs: the queue exists with 2 to {MAX_GPUS} GPUs; give such a number with "
            "--gpus"
        )
    loads = not isinstance(machine.gpu.dualopt, UnsetType)
    words = ("scheme", "programs_as_they_are", "transfers", "no_replicas", "simple_hardware")
    return Cost(
        format=FORMAT,
        **provenance(),
        machine=machine.name,
        gpus=gpus,
        parts=parts(machine, gpus),
        published=[one._asdict() for one in PUBLISHED + (OF_DUALOPT if loads else ())],
        needs=[dict(zip(words, row, strict=True)) for row in NEEDS] if loads else [],
    )
