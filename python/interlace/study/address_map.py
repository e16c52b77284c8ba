"""Reads map files. A map file names the owner of each address and the GPU that ran each kernel."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from interlace.base import toml_files
from interlace.base.errors import UserError
from interlace.machine.devices import MAX_GPUS

MAX_FILE_BYTES = 16 << 20
LEAST_PAGE = 4096

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Gpu = Annotated[int, Meta(ge=0, lt=MAX_GPUS)]


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The addresses from `begin` up to, but not including, `begin + bytes`.

    Either one GPU owns all of these addresses, or the GPUs own the pages in turn.
    """

    begin: Annotated[int, Meta(ge=0)]
    bytes: Annotated[int, Meta(ge=1)]
    gpu: Gpu | None = None
    page_bytes: Annotated[int, Meta(ge=LEAST_PAGE, le=1 << 62)] | None = None


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The GPU that a CUDA context uses.

    The names of kernel files and the output of mem_trace contain the context's id.
    """

    id: Number
    gpu: Gpu


class Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The GPU that ran the kernels with the numbers `first` to `last`."""

    first: Number
    last: Number
    gpu: Gpu


class AddressMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a map file."""

    gpus: Annotated[int, Meta(ge=1, le=MAX_GPUS)]
    range: tuple[Range, ...]
    context: tuple[Context, ...] = ()
    kernels: tuple[Kernels, ...] = ()


class Places(NamedTuple):
    """The owner of each address and the GPU of each kernel, as the conversion needs them."""

    file: str
    gpus: int
    # begin, end, owner, and the bytes of a page; 0 bytes mean that one GPU owns the whole range
    ranges: list[tuple[int, int, int, int]]
    contexts: dict[int, int]
    kernels: list[Kernels]

    def gpu_of(self, kernel: str) -> int:
        """Return the GPU that ran a kernel.

        The name of the kernel's file contains the id of a context or the number of the kernel.
        """
        found = re.search(r"ctx_(?:0x)?([0-9a-f]+)", kernel)
        if found is not None and int(found[1], 16) in self.contexts:
            return self.contexts[int(found[1], 16)]
        number = re.match(r"kernel-(\d{1,18})", kernel)
        for of in self.kernels if number else ():
            if number is not None and of.first <= int(number[1]) <= of.last:
                return of.gpu
        if self.gpus == 1:
            return 0
        raise UserError(
            f"{self.file} does not say on which GPU {kernel} ran; add [[context]] with id and gpu, "
            "or [[kernels]] with first, last and gpu"
        )


def load_map(file: Path) -> Places:
    """Read a map file. A UserError names the file, and the key or the line."""
    text = toml_files.read_text(file, "map", MAX_FILE_BYTES)
    document = toml_files.parse_any(text, str(file), "map")
    try:
        found = msgspec.convert(document, AddressMap)
    except msgspec.ValidationError as error:
        raise UserError(f"{file}: {_sentence(str(error))}") from None
    ranges: list[tuple[int, int, int, int]] = []
    for index, one in enumerate(found.range):
        key = f"range[{index}]"
        if (one.gpu is None) == (one.page_bytes is None):
            raise UserError(
                f"{file}: {key} needs either gpu or page_bytes; give page_bytes if the GPUs own "
                "the pages of the range in turn"
            )
        if one.page_bytes is not None and one.page_bytes & (one.page_bytes - 1):
            raise UserError(f"{file}: {key}.page_bytes is {one.page_bytes}; give a power of two")
        end = one.begin + one.bytes
        if end >= 1 << 64:
            raise UserError(
                f"{file}: {key} ends after the last address of 64 bits; give a smaller begin or "
                "fewer bytes"
            )
        ranges.append((one.begin, end, one.gpu or 0, one.page_bytes or 0))
    _check_gpus(file, found)
    order = sorted(range(len(ranges)), key=lambda index: ranges[index])
    for before, after in pairwise(order):
        if ranges[before][1] > ranges[after][0]:
            raise UserError(
                f"{file}: range[{before}] and range[{after}] overlap from address "
                f"{ranges[after][0]:#x} on; only one GPU can own an address"
            )
    contexts = {one.id: one.gpu for one in found.context}
    if len(contexts) != len(found.context):
        raise UserError(
            f"{file}: two [[context]] tables have the same id; a context has only one GPU"
        )
    return Places(str(file), found.gpus, ranges, contexts, list(found.kernels))


def _check_gpus(file: Path, found: AddressMap) -> None:
    given: dict[str, list[int | None]] = {
        "range": [one.gpu for one in found.range],
        "context": [one.gpu for one in found.context],
        "kernels": [one.gpu for one in found.kernels],
    }
    for name, gpus in given.items():
        for index, gpu in enumerate(gpus):
            if gpu is not None and gpu >= found.gpus:
                raise UserError(
                    f"{file}: {name}[{index}].gpu is {gpu}, but gpus is {found.gpus}; give 0 to "
                    f"{found.gpus - 1}"
                )
    for index, of in enumerate(found.kernels):
        if of.last < of.first:
            raise UserError(f"{file}: kernels[{index}].last is smaller than kernels[{index}].first")


def _sentence(message: str) -> str:
    """Turn a message of msgspec into a sentence that begins with the key."""
    reason, _, path = message.partition(" - at `$")
    key = path.rstrip("`").lstrip(".")
    reason = reason[:1].lower() + reason[1:].replace("`", "")
    return f"{key}: {reason}" if key else reason
