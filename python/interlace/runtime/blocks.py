"""Batches of blocks: thousands of small pieces of memory that one call copies.

    interlace.copy_blocks(on_gpu, pinned, dst_rows=rows, src_rows=slots)
    interlace.copy_blocks(addresses_on_gpu, addresses_in_host_memory, sizes=4096)

This module calls libinterlace.so (interlace/copy.h), as `interlace.runtime.copying` does.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np

from interlace.base.errors import UserError
from interlace.runtime import copying
from interlace.runtime.copying import Array
from interlace.runtime.regions import stream_number

WAYS = ("nothing", "kernel", "driver-batch", "copies", "staged")  # interlace_blocks_way
PAGEABLE = ("refuse", "stage")
NUMBERS = {"int64": 8, "uint64": 8, "int32": 4, "uint32": 4}
NUMPY_NUMBERS = {"<i8": 8, "<u8": 8, "<i4": 4, "<u4": 4}


class _Side(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("stride", ctypes.c_size_t),
        ("numbers", ctypes.c_void_p),
        ("number_bytes", ctypes.c_size_t),
        ("extent", ctypes.c_size_t),
    )


class _Blocks(ctypes.Structure):
    _fields_ = (
        ("dst", _Side),
        ("src", _Side),
        ("sizes", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("count", ctypes.c_size_t),
        ("numbers_on_gpu", ctypes.c_int),
        ("most_thread_blocks", ctypes.c_uint),
        ("stage_pageable", ctypes.c_int),
        ("only", ctypes.c_int),
    )


class _Numbers(NamedTuple):
    """A list of rows, addresses or sizes."""

    array: Array
    length: int
    width: int
    owner: Any  # this object keeps the memory alive


def _numbers(given: Any, which: str) -> _Numbers:
    if isinstance(given, (list, tuple, range)):
        given = np.asarray(given, np.int64)
    if isinstance(given, np.ndarray) and given.flags.c_contiguous:  # this takes half the time
        known = NUMPY_NUMBERS.get(given.dtype.str)
        if known is not None:
            address = given.__array_interface__["data"][0]
            array = Array(address, given.nbytes, None, given.dtype.str, "numpy", True, None, known)
            return _Numbers(array, given.size, known, given)
    array = copying.array_of(given, which)
    if array.dtype not in NUMBERS:
        raise UserError(
            f"the {which} are {array.dtype or 'of no dtype'}; give an array of int32 or int64"
        )
    width = NUMBERS[array.dtype]
    return _Numbers(array, array.bytes // width, width, given)


def _rows_of(given: Any, which: str) -> int:
    shape = getattr(given, "shape", None)
    if shape is None:
        shape = getattr(given, "__cuda_array_interface__", {}).get("shape")
    if not shape:
        raise UserError(f"the {which} has no rows; give an array of two or more dimensions")
    return int(shape[0])


def _side(array: Array, rows: int, numbers: _Numbers | None) -> _Side:
    made = _Side(array.address, array.bytes // max(rows, 1), None, 8, array.bytes)
    if numbers is not None:
        made.numbers, made.number_bytes = numbers.array.address, numbers.width
    return made


def copy_blocks(
    dst: Any,
    src: Any,
    *,
    dst_rows: Any = None,
    src_rows: Any = None,
    sizes: Any = None,
    stream: Any = None,
    most_thread_blocks: int = 0,
    pageable: str = "refuse",
    only: str | None = None,
) -> str:
    """Copy many blocks between the host's memory and a GPU, or inside a GPU, by one call.

    The call enqueues the batch by the way that is predicted to be the fastest: one kernel that
    reads or writes the host's memory over the link, one batch of the driver, or plain copies. The
    host does not wait, and spends no time in Python for each block. The batch runs after all
    earlier work of its stream and before all later work. Blocks have no order among themselves. If
    two destinations overlap, each byte comes from one of their blocks. A stream that is being
    captured receives the batch as a node of its graph.

    Args:
        dst: The destination. With `sizes`: an array of addresses (int64 or uint64, in the host's
            memory). Else an array whose rows, along the first dimension, are the blocks.
        src: The source, in the same form. Rows have the same number of bytes as those of `dst`.
        dst_rows: The row of `dst` for each block: an array of int32 or int64, or a list. None: rows
            0, 1, 2 and so on. If both lists are on the GPU, they are read when the batch runs, and
            rows outside of the array are not noticed.
        src_rows: The row of `src` for each block.
        sizes: The bytes of each block: a number, or an array of int64. Only with addresses.
        stream: As for `copy`. None is the current stream of the GPU in its array's framework; with
            addresses it is PyTorch's, if PyTorch is imported, else the default stream.
        most_thread_blocks: The most thread blocks of a kernel, which bounds the multiprocessors
            that it takes. 0: the fewest that are as fast as more.
        pageable: "refuse" raises UserError for host memory that is not page-locked. "stage" copies
            it through page-locked memory; the call then waits.
        only: "kernel", "driver-batch" or "copies": take this way, to compare. None: the fastest.

    Returns:
        The way: "kernel", "driver-batch", "copies", "staged", or "nothing" for an empty batch.

    Raises:
        UserError: The arrays and lists do not fit, a block lies outside of its array or allocation,
            or memory is not page-locked.
        DeviceError: The driver failed.

    Example::

        import torch

        pool = torch.empty(4096, 8192, dtype=torch.uint8, pin_memory=True)
        cache = torch.empty(1024, 8192, dtype=torch.uint8, device="cuda:0")
        interlace.copy_blocks(cache, pool, dst_rows=[5, 900, 17], src_rows=[4000, 3, 77])
        torch.cuda.synchronize()
    """
    if pageable not in PAGEABLE:
        raise UserError(f"pageable is {pageable!r}; give {' or '.join(map(repr, PAGEABLE))}")
    if most_thread_blocks < 0:
        raise UserError(f"most_thread_blocks is {most_thread_blocks}; give 0 or more")
    if only is not None and only not in WAYS[1:4]:
        raise UserError(f"there is no way {only!r}; there are {', '.join(WAYS[1:4])}")
    made = _Blocks(
        most_thread_blocks=most_thread_blocks,
        stage_pageable=pageable == "stage",
        only=0 if only is None else WAYS.index(only),
    )
    if sizes is not None:
        if dst_rows is not None or src_rows is not None:
            raise UserError("rows and sizes do not go together; sizes are for addresses")
        return _copy_addresses(made, dst, src, sizes, stream)
    to, source = copying.array_of(dst, "destination"), copying.array_of(src, "source")
    if not to.writable:
        raise UserError("the destination is read-only")
    if to.dtype and source.dtype and to.dtype != source.dtype:
        raise UserError(
            f"the destination is {to.dtype} and the source {source.dtype}; a copy converts nothing"
        )
    counts = _rows_of(dst, "destination"), _rows_of(src, "source")
    rows = [
        None if given is None else _numbers(given, which)
        for given, which in ((dst_rows, "dst_rows"), (src_rows, "src_rows"))
    ]
    lists = [one for one in rows if one is not None]
    blocks = {one.length for one in lists} or set(counts)
    if len(blocks) > 1:
        raise UserError(f"the two sides have {' and '.join(map(str, sorted(blocks)))} blocks")
    made.count = blocks.pop()
    on_gpu = {one.array.gpu is not None for one in lists}
    if len(on_gpu) > 1:
        raise UserError("one list of rows is on a GPU and the other is not")
    made.numbers_on_gpu = True in on_gpu
    if made.count == 0 or to.bytes == 0 or source.bytes == 0:
        if made.count != 0 and to.bytes != source.bytes:
            raise UserError("the rows of the destination and of the source have different sizes")
        return WAYS[0]
    made.dst, made.src = _side(to, counts[0], rows[0]), _side(source, counts[1], rows[1])
    if made.dst.stride != made.src.stride:
        raise UserError(
            f"a row of the destination has {made.dst.stride} bytes and a row of the source "
            f"{made.src.stride}; give rows of one size"
        )
    made.bytes = made.dst.stride
    if to.gpu is None and source.gpu is None:
        raise UserError("both arrays are in the host's memory; one has to be on a GPU")
    end = source if to.gpu is None else to
    assert end.gpu is not None
    for one in lists:
        if one.array.gpu not in (None, end.gpu):
            raise UserError(
                f"a list of rows is on GPU {one.array.gpu}; it has to be on GPU {end.gpu}, where "
                "the rows are"
            )
    if stream is None:
        gpu, number = end.gpu, copying.current_stream(end)
    else:
        named = copying.gpu_of_stream(stream)
        gpu, number = end.gpu if named is None else named, stream_number(stream)
    way = _enqueue(made, gpu, number)
    if pageable == "refuse":
        copying.keep_until_done(
            [given for array, given in ((to, dst), (source, src)) if array.gpu is None], number, gpu
        )
    return way


def _copy_addresses(made: _Blocks, dst: Any, src: Any, sizes: Any, stream: Any) -> str:
    to, source = _numbers(dst, "destinations"), _numbers(src, "sources")
    size = None if isinstance(sizes, (int, np.integer)) else _numbers(sizes, "sizes")
    for one, which in ((to, "destinations"), (source, "sources"), (size, "sizes")):
        if one is not None and (one.width != 8 or one.array.gpu is not None):
            raise UserError(f"the {which} must be numbers of 8 bytes in the host's memory")
    counts = sorted({one.length for one in (to, source, size) if one is not None})
    if len(counts) > 1:
        raise UserError(
            f"the lists of a batch have {' and '.join(map(str, counts))} numbers; give one of each "
            "for a block"
        )
    made.count = counts[0]
    if size is None and sizes < 0:
        raise UserError(f"a block has {sizes} bytes; give 0 or more")
    made.dst = _Side(None, 1, to.array.address, 8, 0)
    made.src = _Side(None, 1, source.array.address, 8, 0)
    if size is None:
        made.bytes = int(sizes)
    else:
        made.sizes = size.array.address
    if made.count == 0:
        return WAYS[0]
    named = None if stream is None else copying.gpu_of_stream(stream)
    if named is None:
        ends = (ctypes.c_uint64.from_address(one.array.address).value for one in (to, source))
        named = next((place for end in ends if (place := copying.place_of(end, 1)) >= 0), 0)
    torch = sys.modules.get("torch")
    if stream is not None:
        number = stream_number(stream)
    elif torch is not None and torch.cuda.is_initialized():
        number = int(torch.cuda.current_stream(named).cuda_stream)
    else:
        number = 0
    return _enqueue(made, named, number)


def _enqueue(made: _Blocks, gpu: int, stream: int) -> str:
    way = ctypes.c_int()
    copying.call(
        "interlace_copier_copy_blocks_async",
        *(None, gpu, ctypes.byref(made), ctypes.sizeof(made), stream, ctypes.byref(way)),
    )
    return WAYS[way.value]
