"""Tests interlace.copy_blocks without a GPU: its calls of the library, and the calls that it
refuses."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import interlace
from interlace.base.errors import DeviceError, UserError
from interlace.runtime import blocks, copying
from study_helpers import Run

ROWS, BYTES = 32, 64


class Library:
    """A libinterlace.so that records the batches that it gets. The memory of GPUs is host
    memory.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, dict[str, Any]]] = []
        self.result, self.way = 0, 1

    def interlace_last_error(self) -> bytes:
        return b"why"

    def interlace_memory_place(self, _address: int, _size: int, place: Any) -> int:
        place._obj.value = 0
        return 0

    def interlace_stream_is_capturing(self, _gpu: int, _stream: int, answer: Any) -> int:
        answer._obj.value = 1  # the test itself holds no other reference to an array
        return 0

    def interlace_copier_copy_blocks_async(self, *given: Any) -> int:
        _copier, gpu, made, size, stream, way = given
        assert size == len(made) == ctypes.sizeof(blocks._Blocks)
        members = blocks._Blocks.from_buffer_copy(made)
        found = {name: getattr(members, name) for name, *_ in blocks._Blocks._fields_}
        for side in ("dst", "src"):
            given_side = found[side]
            found[side] = {name: getattr(given_side, name) for name, *_ in blocks._Side._fields_}
        self.batches.append((gpu, stream, found))
        way._obj.value = self.way
        return self.result


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(copying, "_library", lambda: made)
    return made


class OnGpu:
    """An array on a GPU that describes itself by __cuda_array_interface__."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values, self.shape = values, values.shape
        self.__cuda_array_interface__ = dict(values.__array_interface__)


@pytest.fixture
def cache() -> OnGpu:
    return OnGpu(np.zeros((ROWS, BYTES), np.uint8))


@pytest.fixture
def pool() -> np.ndarray[Any, Any]:
    return np.zeros((2 * ROWS, BYTES), np.uint8)


def test_the_package_offers_it() -> None:
    assert interlace.copy_blocks is blocks.copy_blocks


def test_rows_are_numbers_with_the_rows_size_as_stride(
    library: Library, cache: OnGpu, pool: np.ndarray[Any, Any]
) -> None:
    rows = np.array([3, 1, 2], np.int32)
    assert interlace.copy_blocks(cache, pool, dst_rows=rows, src_rows=[9, 8, 7], stream=77) == (
        "kernel"
    )
    ((gpu, stream, made),) = library.batches
    assert (gpu, stream) == (0, 77)
    assert made["dst"] == {
        "base": cache.values.ctypes.data,
        "stride": BYTES,
        "numbers": rows.ctypes.data,
        "number_bytes": 4,
        "extent": ROWS * BYTES,
    }
    assert (made["src"]["number_bytes"], made["src"]["extent"]) == (8, 2 * ROWS * BYTES)
    assert (made["count"], made["bytes"], made["numbers_on_gpu"]) == (3, BYTES, 0)
    library.way = 2
    assert interlace.copy_blocks(pool[:ROWS], cache, most_thread_blocks=4) == "driver-batch"
    made = library.batches[-1][2]
    assert (made["dst"]["numbers"], made["count"], made["most_thread_blocks"]) == (None, ROWS, 4)


def test_rows_on_the_gpu_stay_there(
    library: Library, cache: OnGpu, pool: np.ndarray[Any, Any]
) -> None:
    rows = OnGpu(np.arange(5))
    interlace.copy_blocks(cache, pool, dst_rows=rows, src_rows=rows)
    made = library.batches[0][2]
    assert (made["numbers_on_gpu"], made["dst"]["numbers"]) == (1, rows.values.ctypes.data)


def test_rows_on_another_gpu_are_refused(
    library: Library, cache: OnGpu, pool: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = OnGpu(np.arange(5))
    whole = copying.array_of
    monkeypatch.setattr(
        copying,
        "array_of",
        lambda x, w: whole(x, w)._replace(gpu=1) if x is rows else whole(x, w),
    )
    with pytest.raises(UserError, match="a list of rows is on GPU 1; it has to be on GPU 0"):
        interlace.copy_blocks(cache, pool, dst_rows=rows, src_rows=rows)
    assert library.batches == []


@pytest.mark.parametrize("sizes", [4096, np.full(4, 4096)])
def test_addresses_are_numbers(library: Library, sizes: Any) -> None:
    to, source = np.arange(1, 5, dtype=np.uint64) << 20, np.arange(1, 5, dtype=np.int64) << 12
    to = np.concatenate([to])
    real = np.zeros(4, np.uint64)
    to = real + real.ctypes.data  # the library may read from this address
    interlace.copy_blocks(to, source, sizes=sizes, pageable="stage", only="copies")
    made = library.batches[0][2]
    assert made["dst"] == {
        "base": None, "stride": 1, "numbers": to.ctypes.data, "number_bytes": 8, "extent": 0
    }  # fmt: skip
    assert (made["count"], made["stage_pageable"], made["only"]) == (4, 1, 3)
    if isinstance(sizes, int):
        assert (made["sizes"], made["bytes"]) == (None, 4096)
    else:
        assert (made["sizes"], made["bytes"]) == (sizes.ctypes.data, 0)


def test_nothing_needs_no_gpu(monkeypatch: pytest.MonkeyPatch, pool: np.ndarray[Any, Any]) -> None:
    monkeypatch.setattr(copying, "_library", lambda: pytest.fail("the library is asked"))
    none = np.empty(0, np.int64)
    assert interlace.copy_blocks(none, none, sizes=4096) == "nothing"
    assert interlace.copy_blocks(pool, pool, dst_rows=[], src_rows=[]) == "nothing"


WIDE = np.zeros((ROWS, 2 * BYTES), np.uint8)
FLAT = np.arange(4, dtype=np.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pageable": "swap"}, "pageable is 'swap'; give 'refuse' or 'stage'"),
        ({"most_thread_blocks": -1}, "most_thread_blocks is -1; give 0 or more"),
        ({"only": "staged"}, "only is 'staged'; give one of kernel, driver-batch, copies"),
        ({"sizes": 4, "dst_rows": [1]}, "rows and sizes exclude each other"),
        (
            {"dst_rows": [1, 2], "src_rows": [1]},
            "the number of blocks is 2 in the destination and 1 in the source",
        ),
        ({"dst_rows": np.zeros(2, np.float32)}, "the dst_rows are float32; give an array of int32"),
        ({"src": WIDE}, "a row of the destination has 64 bytes and a row of the source has 128"),
        (
            {"src": np.zeros((ROWS, BYTES), np.int8)},
            "the destination is uint8 and the source is int8",
        ),
        ({"dst": np.zeros((ROWS, BYTES), np.uint8)}, "both arrays are in the host's memory"),
        ({"src": bytearray(64)}, "the source has no rows"),
        ({"dst": FLAT, "src": FLAT[:2], "sizes": 4}, "the lists of a batch have 2 and 4 numbers"),
        ({"dst": FLAT, "src": FLAT, "sizes": -4}, "a block has -4 bytes; give 0 or more"),
        (
            {"dst": FLAT.astype(np.int32), "src": FLAT, "sizes": 4},
            "the destinations must be numbers of 8 bytes in the host's memory",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    library: Library, cache: OnGpu, change: dict[str, Any], message: str
) -> None:
    given = {"dst": cache, "src": np.zeros((ROWS, BYTES), np.uint8), **change}
    if given["dst"] is cache and "sizes" in change:
        given["dst"] = FLAT
    with pytest.raises(UserError) as raised:
        interlace.copy_blocks(given.pop("dst"), given.pop("src"), **given)
    assert message in str(raised.value)
    assert not library.batches


def test_what_the_library_says_is_the_error(
    library: Library, cache: OnGpu, pool: np.ndarray[Any, Any]
) -> None:
    for library.result, kind in ((1, UserError), (4, DeviceError), (5, MemoryError)):
        with pytest.raises(kind, match="why"):
            interlace.copy_blocks(cache, pool, dst_rows=[1], src_rows=[2])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sizes", "3K"), "--sizes '3K': give powers of two from 16 to 256M, such as 4K,64K"),
        (("--blocks", "0"), "--blocks '0': the number of blocks must be at least 1, not 0"),
        (("--directions", "up"), "--directions 'up': give to-gpu or to-host"),
        (("--beside-kernels", "few"), "--beside-kernels 'few': give whole numbers such as 0,4,16"),
        (("-n", "0"), "--repeats 0: give a number of at least 1"),
    ],
)
def test_wrong_options_of_the_benchmark(run: Run, words: tuple[str, ...], message: str) -> None:
    ran = run("bench", "blocks", *words)
    assert (ran.code, message in ran.err) == (2, True), ran.err


def test_the_table_and_the_page_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    from interlace.show.blocks_bench import page, print_blocks
    from interlace.study.blocks_bench import BesideRow, BlocksRow

    def row(method: str, median: float, slower: float | None, wrong: int = 0) -> BlocksRow:
        return BlocksRow(
            method=method, direction="to-gpu", block_bytes=4096, blocks=256, way=None,
            time_us=[median], median_us=median, best_us=median, host_ns=12.5, gb_per_s=9.75,
            in_a_row_us=None, slower=slower, wrong=wrong,
        )  # fmt: skip

    results: Any = SimpleNamespace(
        rows=[row("interlace", 40, 0.25), row("torch", 32, None, 3)],
        beside=[
            BesideRow(
                kernel="memory", direction="to-gpu", block_bytes=4096, method="interlace",
                most_thread_blocks=4, alone_ms=8, beside_ms=10, lost=0.2, gb_per_s=50,
            )
        ],
        link_gb_per_s={"to-gpu": 55.4}, repeats=5, machine={"name": "1 x H200"},
        benchmark="blocks", driver="580", version="1", date="now", command="bench blocks",
    )  # fmt: skip
    print_blocks(results)
    shown = " ".join(capsys.readouterr().out.split())
    assert "for 256 x 4 KiB to-gpu, where its time differs by +25.0 %" in shown
    assert "3 blocks wrong." in shown
    assert "20.0" in shown
    text = page(results)
    assert "256 blocks, to the GPU" in text
    assert '"x":["4 KiB"],"y":[9.75]' in text
    assert text.count("<tr") == 3  # one row for the header, and one for each method
