"""Tests the reader of the compiled modules: batches, the end of a reader, and exceptions in
callbacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlace.base.errors import UserError
from interlace.base.native import load_core

BYTES = 300_000


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    contents = np.random.default_rng(1).bytes(BYTES)
    (tmp_path / "data").write_bytes(contents)
    descriptor = os.open(tmp_path / "data", os.O_RDONLY)
    yield descriptor, contents
    os.close(descriptor)


def made(descriptor: int, **changed: Any) -> Any:
    arguments = {"files": [(descriptor, "data")], "threads": 3, "checksums": False}
    return load_core().Reader(**arguments | {"progress": None} | changed)


def segment(into: np.ndarray[Any, Any], offset: int) -> tuple[int, int, int, int, int, int]:
    return (0, offset, into.nbytes, into.ctypes.data, -1, 0)


def test_batches_arrive_in_any_order(file: tuple[int, bytes]) -> None:
    descriptor, contents = file
    reader = made(descriptor, checksums=True)
    parts = [np.empty(BYTES // 10, np.uint8) for _ in range(10)]
    batches = [reader.add([segment(p, k * p.nbytes)]) for k, p in enumerate(parts)]
    assert batches == list(range(10))
    for k in reversed(range(10)):
        own = contents[k * BYTES // 10 : (k + 1) * BYTES // 10]
        assert reader.wait(k) == [load_core().crc32c(own)]
        assert reader.done(k)
        assert parts[k].tobytes() == own
    reader.close()


def test_nothing_is_possible_after_the_end(file: tuple[int, bytes]) -> None:
    reader = made(file[0])
    with pytest.raises(UserError, match="there is no batch 0; the reader has 0 batches"):
        reader.wait(0)
    reader.close()
    reader.close()
    for call in (lambda: reader.add([]), lambda: reader.wait(0), lambda: reader.done(0)):
        with pytest.raises(UserError, match="the reader is closed"):
            call()


def test_an_exception_of_progress_stops_it(file: tuple[int, bytes]) -> None:
    def stop(_done: int) -> None:
        raise KeyboardInterrupt

    reader = made(file[0], progress=stop)
    into = np.empty(BYTES, np.uint8)
    batch = reader.add([segment(into, 0)])
    with pytest.raises(KeyboardInterrupt):
        reader.wait(batch)
    with pytest.raises(UserError, match="the transfer was stopped"):
        reader.wait(batch)


def test_a_reader_may_be_dropped_with_work_left(file: tuple[int, bytes]) -> None:
    into = np.empty(BYTES, np.uint8)
    for _ in range(50):
        made(file[0]).add([segment(into, 0)])
