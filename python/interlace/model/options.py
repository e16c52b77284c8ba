"""Parses the values of command-line options. A wrong value raises UserError with one sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlace.base.errors import UserError, unknown
from interlace.model.mechanism_table import AGENT_THREADS, CHUNK_BYTES
from interlace.model.mechanisms import (
    BOUND,
    EVERY,
    GIB,
    KIB,
    MIB,
    ROW_OF,
    SIMULATED,
    short_size,
)

_SIZE = re.compile(r"(\d{1,9})([KMG])", re.ASCII)
SIZES = "give a size in bytes, or with K, M or G, such as 4096 or 256M"
_UNITS = {"K": KIB, "M": MIB, "G": GIB}


def whole(option: str, text: str | None, least: int | None = None) -> int | None:
    """Return the value of an option as a whole number, or None if the option was not given."""
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise UserError(f"{option} {text!r}: give a whole number") from None
    if least is not None and value < least:
        raise UserError(f"{option} {value}: give a number of at least {least}")
    return value


def number(option: str, text: str | None) -> float | None:
    """Return the value of an option as a number, or None if the option was not given."""
    try:
        return None if text is None else float(text)
    except ValueError:
        raise UserError(f"{option} {text!r}: give a number") from None


def _digits(text: str) -> list[int] | None:
    """Return the numbers of a list, or None if an element is not a whole number."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 9 for word in words):
        return None
    return [int(word) for word in words]


def whole_numbers(option: str, text: str, what: str) -> list[int]:
    """Return the numbers of a list such as 1,2,4 in ascending order, without duplicates."""
    found = _digits(text)
    if found is None:
        raise UserError(
            f"{option} {text!r}: give whole numbers of {what} with commas between them, "
            "such as 1,2,4"
        )
    if 0 in found:
        raise UserError(f"{option} {text!r}: the number of {what} must be at least 1, not 0")
    return sorted(set(found))


def size(text: str) -> int | None:
    """Return the number of bytes of a size such as 256K, or None if the text is not a size."""
    found = _SIZE.fullmatch(text.strip().upper())
    return int(found[1]) * _UNITS[found[2]] if found else None


def byte_count(option: str, text: str) -> int:
    """Return the bytes of a size: a whole number, or a number with a letter such as 256M."""
    found = size(text)
    if found is None and text.isascii() and text.isdigit() and len(text) <= 15:
        found = int(text)
    if found == 0:
        raise UserError(f"{option} {text!r}: give a size of at least 1 byte, such as 4096 or 256M")
    if found is None:
        raise UserError(f"{option} {text!r}: {SIZES}")
    return found


def size_between(option: str, text: str, least: str, most: str) -> int:
    """Return the bytes of a size such as 256M. Raise UserError unless it is in the range."""
    found = size(text)
    if found is None or not (size(least) or 0) <= found <= (size(most) or 0):
        raise UserError(f"{option} {text!r}: give a size from {least} to {most}, such as 256M")
    return found


def chunk_sizes(option: str, text: str) -> tuple[int, ...]:
    """Return the bytes of sizes in a list such as 64K,1M. The result ascends without duplicates."""
    found = {size(word) or 0 for word in text.split(",")}
    least, most = CHUNK_BYTES.commands
    if not all(least <= chunk <= most for chunk in found):
        raise UserError(
            f"{option} {text!r}: give sizes from {short_size(least)} to {short_size(most)} with "
            "commas between them, such as 64K,256K,1M"
        )
    return tuple(sorted(found))


def agent_threads(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 4096,16384 in ascending order, without duplicates."""
    found = _digits(text)
    warp, least, most = AGENT_THREADS.multiple, AGENT_THREADS.least, AGENT_THREADS.most
    if found is None or not all(n % warp == 0 and least <= n <= most for n in found):
        raise UserError(
            f"{option} {text!r}: give multiples of {warp} from {least} to {most} with commas "
            "between them, such as 4096,16384"
        )
    return tuple(sorted(set(found)))


def refuse_simulated(option: str, names: Sequence[str], *, bound: bool) -> None:
    """Raise UserError if `names` has a mechanism that no real GPU runs.

    `bound` says whether the bound is allowed. Real GPUs do not run the bound; it is derived from
    measurements.
    """
    for name in names:
        if name in SIMULATED and not (bound and name == BOUND):
            raise UserError(
                f"{option} {name}: real GPUs cannot run this mechanism; leave it out, or name a "
                "machine to simulate with --machine"
            )


def mechanism_names(
    option: str,
    text: str,
    *,
    measured: bool = False,
    simulated: bool = False,
    more: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the names in a list such as bulk-copy,inline, in the order of EVERY and of `more`.

    `measured` allows only mechanisms that real GPUs run. `simulated` allows only mechanisms that
    the simulator runs.
    """
    names = {word.strip() for word in text.split(",")}
    known = (*EVERY, *more)
    for name in sorted(names):
        if name not in known:
            raise unknown("mechanism", name, known)
        reason = ROW_OF[name].not_on_sim if name in ROW_OF else None
        if simulated and reason is not None:
            raise UserError(f"{option} {name}: it {reason}")
    for name in SIMULATED if measured else ():
        if name in names:
            what = "bound" if name == BOUND else "mechanism"
            raise UserError(f"{option} {name}: real GPUs cannot run this {what}; leave it out")
    return tuple(name for name in known if name in names)


MOST_BYTES = 16 << 30


def names_of(option: str, text: str, known: Sequence[str], kind: str) -> list[str]:
    """Return the names in a list, in the order of `known`."""
    wanted = [word.strip() for word in text.split(",")]
    for word in wanted:
        if word not in known:
            raise unknown(kind, word, tuple(known)) from None
    if len(set(wanted)) < len(wanted):
        raise UserError(f"{option} {text!r}: give each name only once")
    return [name for name in known if name in wanted]


def sizes_between(least: str, most: str, factor: str | None, standard: int) -> list[int]:
    """Return the sizes from `least` to `most`, each `factor` times as large as the size before."""
    first, last = byte_count("--begin", least), byte_count("--end", most)
    step = whole("--factor", factor, 2) or standard
    if last > MOST_BYTES:
        raise UserError(f"--end {most}: give at most 16G")
    if first > last:
        raise UserError(f"--begin {least} is more than --end {most}; give sizes that ascend")
    sizes = [first]
    while sizes[-1] * step <= last:
        sizes.append(sizes[-1] * step)
    return sizes
