"""Finds the part of a tensor that an index such as [2:5, ..., 0] selects, and the part's bytes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from interlace.base.errors import UserError

PAGE = 4096  # smaller gaps are read as well, because the disk and the page cache read whole pages


class _Steps(NamedTuple):
    """The indices of one dimension that are selected."""

    start: int
    number: int
    step: int
    kept: bool  # whether the result keeps the dimension


class Part(NamedTuple):
    """Where the bytes of a part are in the tensor.

    A reader puts the runs of bytes into a buffer, in this order and without gaps.
    """

    runs: list[int]  # the offset in the tensor at which each run begins
    run_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # the strides of the part in the buffer, in elements


def part_of(index: Any, shape: Sequence[int], width: int, gap: int = PAGE) -> Part:
    """Return the part of a tensor that an index selects.

    The elements of the tensor have `width` bytes. Slices and numbers mean the same as in Python,
    but steps must be positive. The part also has the bytes of gaps of less than `gap` bytes.
    Raises UserError for a bound beyond the tensor.
    """
    steps = _steps_of(index, shape)
    kept = tuple(one.number for one in steps if one.kept)
    if 0 in kept or 0 in shape:
        return Part([], 0, kept, (0,) * len(kept))
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    # Consider the first and the last element that the dimensions k, k + 1, ... select. spans[k] is
    # the number of elements of the tensor from the first through the last.
    spans = [1] * (len(shape) + 1)
    for k in reversed(range(len(shape))):
        spans[k] = (steps[k].number - 1) * steps[k].step * strides[k] + spans[k + 1]
    # each selected index of the dimensions before `single` begins a run of its own
    single = 0
    for k, one in enumerate(steps):
        unused = one.step * strides[k] - spans[k + 1]
        if one.number > 1 and unused * width >= gap:
            single = k + 1
    begin = sum(one.start * stride for one, stride in zip(steps, strides, strict=True))
    apart = [
        [k * one.step * stride for k in range(one.number)]
        for one, stride in zip(steps[:single], strides, strict=False)
    ]
    runs = [(begin + sum(offsets)) * width for offsets in product(*apart)]
    in_buffer = [
        spans[single] * prod(s.number for s in steps[k + 1 : single]) for k in range(single)
    ]
    in_buffer += [
        one.step * stride for one, stride in zip(steps[single:], strides[single:], strict=True)
    ]
    places = [stride for one, stride in zip(steps, in_buffer, strict=True) if one.kept]
    return Part(runs, spans[single] * width, kept, tuple(places))


def rows_of(name: str, rows: slice, shape: Sequence[int]) -> tuple[int, int]:
    """Return the first row of a slice, and the row after the slice's last row.

    Raises UserError if the slice does not fit the tensor.
    """
    if not shape:
        # The tests of safetensors search the message for the words "0-d" and "step 1".
        raise UserError(f"tensor {name!r} is 0-d, so a plan cannot have rows of it")
    for bound in (rows.start, rows.stop):
        if bound is None:
            continue
        if not isinstance(bound, int):
            raise UserError(f"tensor {name!r}: {rows} has bounds that are not whole numbers")
        if not -shape[0] <= bound <= shape[0]:
            raise UserError(f"tensor {name!r}: {rows} is out of range for {shape[0]} rows")
    try:
        begin, end, step = rows.indices(shape[0])
    except (TypeError, ValueError) as error:
        raise UserError(f"tensor {name!r}: invalid prefetch plan slice {rows}: {error}") from None
    if step != 1:
        raise UserError(f"tensor {name!r}: {rows} has step {step}; slices of a plan have step 1")
    return begin, max(begin, end)


def _steps_of(index: Any, shape: Sequence[int]) -> list[_Steps]:
    given = list(index) if isinstance(index, tuple) else [index]
    if isinstance(index, list):
        if index:
            # safetensors also refuses lists, and its tests compare this message.
            raise UserError("Non empty lists are not implemented")
        given = [slice(0, 0)]
    dots = sum(one is Ellipsis for one in given)
    if dots > 1:
        raise UserError("Only one ellipsis (...) is allowed in slice index")
    whole = slice(None)
    if len(given) - dots > len(shape):
        raise UserError(
            f"Error during slicing {_shown(given)} with shape {list(shape)}: more slicing indexes "
            "than dimensions in tensor"
        )
    missing = [whole] * (len(shape) - (len(given) - dots))
    place = next((k for k, one in enumerate(given) if one is Ellipsis), None)
    every = [*given, *missing] if place is None else [*given[:place], *missing, *given[place + 1 :]]
    return [_steps(one, k, size, every[: len(given)], shape)
            for k, (one, size) in enumerate(zip(every, shape, strict=True))]  # fmt: skip


def _steps(one: Any, k: int, size: int, given: list[Any], shape: Sequence[int]) -> _Steps:
    def out(asked: int) -> UserError:
        return UserError(
            f"Error during slicing {_shown(given)} with shape {list(shape)}: index {asked} out of "
            f"bounds for tensor dimension #{k} of size {size}"
        )

    if not isinstance(one, slice):
        try:
            number = operator.index(one)
        except TypeError:
            number = None
        if number is None or isinstance(one, bool):
            raise UserError(
                f"Unsupported slice index at position {k}: expected slice, int, or ellipsis"
            )
        if number < -size:
            raise UserError(f"Invalid index {number} for dimension {k} of size {size}")
        if number >= size:
            raise out(number)
        return _Steps(number % size, 1, 1, kept=False)
    try:
        start, stop, step = (
            None if bound is None else operator.index(bound)
            for bound in (one.start, one.stop, one.step)
        )
    except TypeError:
        raise UserError(f"Unsupported slice index at position {k}: {one}") from None
    step = 1 if step is None else step
    if step < 1:
        raise UserError(f"Slice step must be a positive integer, got {step}")
    begin = 0 if start is None else start + size if start < 0 else start
    end = size if stop is None else stop + size if stop < 0 else stop
    if begin < 0 or (begin >= size and (start is not None and end > begin)):
        raise out(begin if start is None or start >= 0 else start)
    if end > size or end < 0:
        raise out(end - 1 if end > 0 else stop or 0)
    return _Steps(begin, max(0, -(-(end - begin) // step)), step, kept=True)


def _shown(given: Sequence[Any]) -> str:
    def text(one: Any) -> str:
        if not isinstance(one, slice):
            return "..." if one is Ellipsis else str(one)
        bounds = "" if one.start is None else str(one.start), "" if one.stop is None else one.stop
        step = "" if one.step in (None, 1) else f":{one.step}"
        return f"{bounds[0]}:{bounds[1]}{step}"

    return f"[{', '.join(map(text, given))}]"
