"""Copies batches of blocks: thousands of small pieces of memory, all copied by one call.

    interlace.copy_blocks(on_gpu, pinned, dst_rows=rows, src_rows=slots)
    interlace.copy_blocks(addresses_on_gpu, addresses_in_host_memory, sizes=4096)

This module calls the functions of interlace/copy.h in libinterlace.so.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any, NamedTuple

import numpy as np

from interlace.base.errors import UserError
from interlace.runtime import copying
from interlace.runtime.copying import Array
from interlace.runtime.regions import stream_number

WAYS = ("nothing", "kernel", "driver-batch", "copies", "staged")  # values of interlace_blocks_way
PAGEABLE = ("refuse", "stage")
NUMBERS = {"int64": 8, "uint64": 8, "int32": 4, "uint32": 4}
NUMPY_NUMBERS = {np.dtype(name): width for name, width in NUMBERS.items()}


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


# Packs the bytes of a _Blocks. Passing bytes to the library takes half as long as passing a
# structure of ctypes.
_MEMBERS = struct.Struct("@PNPNN PNPNN PNN iIii")
assert _MEMBERS.size == ctypes.sizeof(_Blocks)
_Nothing = ctypes.c_char * 0


class _Numbers(NamedTuple):
    """A list of rows, addresses or sizes."""

    address: int
    length: int
    width: int
    gpu: int | None
    owner: Any  # the object that keeps the numbers' memory alive


def _numbers(given: Any, which: str) -> _Numbers:
    if isinstance(given, (list, tuple, range)):
        given = np.asarray(given, np.int64)
    if isinstance(given, np.ndarray):
        flags, width = given.flags, NUMPY_NUMBERS.get(given.dtype)
        if width is not None and flags.c_contiguous:
            # The buffer protocol gives the address in a quarter of the time that the array's
            # interface needs.
            if flags.writeable:
                memory: Any = given
                address = ctypes.addressof(_Nothing.from_buffer(memory))
            else:
                address = given.__array_interface__["data"][0]
            return _Numbers(address, given.size, width, None, given)
    array = copying.array_of(given, which)
    if array.dtype not in NUMBERS:
        raise UserError(
            f"the {which} are {array.dtype or 'of no dtype'}; give an array of int32 or int64"
        )
    width = NUMBERS[array.dtype]
    return _Numbers(array.address, array.bytes // width, width, array.gpu, given)


def _rows_of(given: Any, which: str) -> int:
    shape = getattr(given, "shape", None)
    if shape is None:
        shape = getattr(given, "__cuda_array_interface__", {}).get("shape")
    if not shape:
        raise UserError(f"the {which} has no rows; give an array of two or more dimensions")
    return int(shape[0])


def _side(array: Array, stride: int, numbers: _Numbers | None) -> tuple[int, int, int, int, int]:
    if numbers is None:
        return array.address, stride, 0, 8, array.bytes
    return array.address, stride, numbers.address, numbers.width, array.bytes


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

    The call enqueues the batch in the way with the shortest predicted time: as one kernel that
    reads or writes the host's memory over the link, as one batch of the driver, or as plain copies.
    With several GPUs, kernels on other GPUs can copy parts of a large batch over their own links.
    The host does not wait, and spends no time in Python for each block. The batch runs after all
    earlier work of its stream and before all later work. Blocks are copied in any order. If
    destinations overlap, each byte of the overlap comes from one of the blocks that cover it. A
    stream that is being captured receives the batch as a node of its graph.

    Args:
        dst: The destination. Without `sizes`, `dst` is an array, and each row along the first
            dimension is a block. With `sizes`, `dst` is an array of addresses: int64 or uint64, in
            the host's memory.
        src: The source, in the same form as `dst`. The rows of `src` and `dst` have equal sizes.
        dst_rows: The row of `dst` for each block: an array of int32 or int64, or a list. None means
            rows 0, 1, 2 and so on. If `dst_rows` and `src_rows` are on the GPU, the GPU reads them
            when the batch runs. In this case, rows outside of the array are not detected.
        src_rows: The row of `src` for each block, in the same form as `dst_rows`.
        sizes: The bytes of each block: a number, or an array of int64. Give `sizes` only with
            addresses.
        stream: As for `copy`. With arrays, None means the current stream of the GPU, in the
            framework that made the array on the GPU. With addresses, None means PyTorch's current
            stream if PyTorch is imported, and otherwise the default stream.
        most_thread_blocks: The largest number of thread blocks of the kernel. This number limits
            how many multiprocessors the kernel uses. 0 means the smallest number that is as fast
            as any larger number.
        pageable: "refuse" raises UserError for host memory that is not page-locked. "stage" copies
            such memory through page-locked memory, and the call waits for the copies.
        only: The way that the call must take, for comparisons: "kernel", "driver-batch" or
            "copies". None means the way with the shortest predicted time.

    Returns:
        The way that the call took: "kernel", "driver-batch", "copies" or "staged". For an empty
        batch, the result is "nothing".

    Raises:
        UserError: The arrays and lists do not fit each other, a block lies outside of its array or
            allocation, or memory is not page-locked.
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
        raise UserError(f"only is {only!r}; give one of {', '.join(WAYS[1:4])}")
    # these are the last members of _Blocks
    how = most_thread_blocks, pageable == "stage", 0 if only is None else WAYS.index(only)
    if sizes is not None:
        if dst_rows is not None or src_rows is not None:
            raise UserError("rows and sizes exclude each other; give sizes only with addresses")
        return _copy_addresses(dst, src, sizes, stream, how)
    to, source = copying.array_of(dst, "destination"), copying.array_of(src, "source")
    if not to.writable:
        raise UserError("the destination is read-only")
    if to.dtype and source.dtype and to.dtype != source.dtype:
        raise UserError(
            f"the destination is {to.dtype} and the source is {source.dtype}; give arrays of one "
            "dtype, because a copy converts nothing"
        )
    counts = _rows_of(dst, "destination"), _rows_of(src, "source")
    rows = [
        None if given is None else _numbers(given, which)
        for given, which in ((dst_rows, "dst_rows"), (src_rows, "src_rows"))
    ]
    lists = [one for one in rows if one is not None]
    blocks = {one.length for one in lists} or set(counts)
    if len(blocks) > 1:
        to_count, from_count = (one.length for one in lists) if lists else counts
        raise UserError(
            f"the number of blocks is {to_count} in the destination and {from_count} in the "
            "source; give equal numbers of blocks"
        )
    count = blocks.pop()
    on_gpu = {one.gpu is not None for one in lists}
    if len(on_gpu) > 1:
        raise UserError(
            "one list of rows is on a GPU and the other list is not; put both on the GPU, or none"
        )
    if count == 0 or to.bytes == 0 or source.bytes == 0:
        if count != 0 and to.bytes != source.bytes:
            raise UserError("the rows of the destination and of the source have different sizes")
        return WAYS[0]
    stride, other = to.bytes // max(counts[0], 1), source.bytes // max(counts[1], 1)
    if stride != other:
        raise UserError(
            f"a row of the destination has {stride} bytes and a row of the source has {other}; "
            "give rows of one size"
        )
    if to.gpu is None and source.gpu is None:
        raise UserError("both arrays are in the host's memory; one of them must be on a GPU")
    end = source if to.gpu is None else to
    assert end.gpu is not None
    for one in lists:
        if one.gpu not in (None, end.gpu):
            raise UserError(
                f"a list of rows is on GPU {one.gpu}; it has to be on GPU {end.gpu}, where "
                "the rows are"
            )
    if stream is None:
        gpu, number = end.gpu, copying.current_stream(end)
    else:
        named = copying.gpu_of_stream(stream)
        gpu, number = end.gpu if named is None else named, stream_number(stream)
    sides = *_side(to, stride, rows[0]), *_side(source, stride, rows[1])
    way = _enqueue((*sides, 0, stride, count, True in on_gpu, *how), gpu, number)
    if pageable == "refuse":
        copying.keep_until_done(
            [given for array, given in ((to, dst), (source, src)) if array.gpu is None], number, gpu
        )
    return way


def _refuse_lists(to: _Numbers, source: _Numbers, size: _Numbers | None) -> None:
    for one, which in ((to, "destinations"), (source, "sources"), (size, "sizes")):
        if one is None:
            continue
        if one.width != 8 or one.gpu is not None:
            raise UserError(f"the {which} must be numbers of 8 bytes in the host's memory")
        if one.length != to.length:
            raise UserError(
                f"the lists of a batch have {min(to.length, one.length)} and "
                f"{max(to.length, one.length)} numbers; give lists of one length"
            )


def _copy_addresses(dst: Any, src: Any, sizes: Any, stream: Any, how: tuple[int, int, int]) -> str:
    to, source = _numbers(dst, "destinations"), _numbers(src, "sources")
    one_size = isinstance(sizes, (int, np.integer))
    size = None if one_size else _numbers(sizes, "sizes")
    count, form = to.length, to[1:4]
    if form != (count, 8, None) or source[1:4] != form or (size is not None and size[1:4] != form):
        _refuse_lists(to, source, size)
    if size is None and sizes < 0:
        raise UserError(f"a block has {sizes} bytes; give 0 or more")
    if count == 0:
        return WAYS[0]
    gpu = None if stream is None else copying.gpu_of_stream(stream)
    if gpu is None:
        ends = (ctypes.c_uint64.from_address(one.address).value for one in (to, source))
        gpu = next((place for end in ends if (place := copying.place_of(end, 1)) >= 0), 0)
    if stream is not None:
        number = stream_number(stream)
    elif (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
        number = int(torch.cuda.current_stream(gpu).cuda_stream)
    else:
        number = 0
    bytes_of_all = (0, int(sizes)) if size is None else (size.address, 0)
    sides = 0, 1, to.address, 8, 0, 0, 1, source.address, 8, 0
    return _enqueue((*sides, *bytes_of_all, count, False, *how), gpu, number)


def _enqueue(members: tuple[int, ...], gpu: int, stream: int) -> str:
    way, library = ctypes.c_int(), copying._library()
    result = library.interlace_copier_copy_blocks_async(
        None, gpu, _MEMBERS.pack(*members), _MEMBERS.size, stream, ctypes.byref(way)
    )
    if result != 0:
        copying.check(library, result)
    return WAYS[way.value]
