"""Compares parts of tensors, and the bytes that an index needs, with NumPy's own indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace.base.errors import UserError
from interlace.runtime import slices


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    index: list[Any] = []
    for size in shape:
        if draw(st.booleans()):
            index.append(draw(st.integers(-size, size - 1)))
        else:
            bounds = sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size))))
            start, stop = (draw(st.sampled_from([bound, bound - size, None])) for bound in bounds)
            start = None if start is not None and start >= size else start
            stop = None if stop == 0 and bounds[1] == size else stop
            index.append(slice(start, stop, draw(st.sampled_from([None, 1, 2, 3]))))
    begin, end = sorted(draw(st.tuples(*[st.integers(0, len(shape))] * 2)))
    dots = draw(st.sampled_from([[...], index[begin:end]]))
    return shape, tuple(index[:begin] + dots + index[end:])


@settings(max_examples=300, deadline=None)
@given(cases(), st.sampled_from([1, 16, 4096]))
def test_as_numpy_indexes(case: tuple[tuple[int, ...], Any], gap: int) -> None:
    shape, index = case
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    expected = array[index]
    part = slices.part_of(index, shape, 4, gap)
    raw = array.tobytes()
    pieces = [raw[run : run + part.run_bytes] for run in part.runs]
    assert all(len(piece) == part.run_bytes for piece in pieces)
    assert part.runs == sorted(part.runs)
    buffer = np.frombuffer(b"".join(pieces), np.int32)
    found = np.lib.stride_tricks.as_strided(buffer, part.shape, [4 * s for s in part.strides])
    assert part.shape == expected.shape
    assert np.array_equal(found, expected)
    if gap == 1:  # a gap of 1 reads nothing between the parts
        assert buffer.size == expected.size


def test_gaps_decide_what_is_read() -> None:
    rows, columns = 100, 8192
    halves = slices.part_of((slice(None), slice(0, columns // 2)), (rows, columns), 2)
    assert (len(halves.runs), halves.run_bytes) == (rows, columns)
    most = slices.part_of((slice(None), slice(0, columns - 100)), (rows, columns), 2)
    assert (len(most.runs), most.run_bytes) == (1, 2 * (rows * columns - 100))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((0, 0, 0), "more slicing indexes than dimensions in tensor"),
        ((..., ...), "Only one ellipsis"),
        (slice(4, 5), "[4:5] with shape [4, 6]: index 4 out of bounds for tensor dimension #0 of"),
        ((0, slice(None, 7)), "[0, :7] with shape [4, 6]: index 6 out of bounds for tensor"),
        (-5, "Invalid index -5 for dimension 0 of size 4"),
        (slice(None, None, 0), "Slice step must be a positive integer, got 0"),
        (slice(None, None, -1), "Slice step must be a positive integer, got -1"),
        ("a", "Unsupported slice index at position 0: expected slice, int, or ellipsis"),
        (True, "Unsupported slice index at position 0"),
        ((0, slice(0.5, None)), "Unsupported slice index at position 1"),
        ([1], "Non empty lists are not implemented"),
        (slice(-7, None), "index -7 out of bounds"),
    ],
)
def test_an_index_that_is_out(index: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        slices.part_of(index, (4, 6), 4)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (slice(0, 5), "slice(0, 5, None) is out of range for 4 rows"),
        (slice(0, 3, 2), "has step 2; slices of a plan have step 1"),
        (slice(0, 3, 0), "invalid prefetch plan slice"),
        (slice("a", 3), "bounds that are not whole numbers"),
    ],
)
def test_rows_that_are_out(rows: slice, message: str) -> None:
    with pytest.raises(UserError, match="tensor 'x'") as caught:
        slices.rows_of("x", rows, (4, 6))
    assert message in str(caught.value)
    assert slices.rows_of("x", slice(-3, None), (4,)) == (1, 4)
    assert slices.rows_of("x", slice(3, 1), (4,)) == (3, 3)
