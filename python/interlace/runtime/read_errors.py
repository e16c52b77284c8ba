"""Adds the file and the tensor to errors of reads."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from interlace.base.errors import DeviceError, UserError
from interlace.runtime.checkpoint_files import File

AT_BYTE = re.compile(r"\bbyte (\d+)\)?$")  # the last words of each error message of the engine


@contextmanager
def naming_tensors(files: Sequence[File]) -> Iterator[None]:
    """Add a tensor's name to errors of the engine, which name only the file and the byte."""
    try:
        yield
    except (UserError, DeviceError) as error:
        named = _tensor_at(files, str(error))
        if named is None:
            raise
        raise type(error)(f"{error}, in tensor {named!r}") from None


def _tensor_at(files: Sequence[File], said: str) -> str | None:
    at = AT_BYTE.search(said)
    file = next((one for one in files if said.startswith(one.name + " ")), None)
    if at is None or file is None:
        return None
    place = int(at[1]) - file.header.data_begin
    tensors = [entry for entry in file.header.tensors if entry.end > entry.begin]
    number = bisect_right(tensors, place, key=lambda entry: entry.begin) - 1
    return tensors[max(number, 0)].name if tensors else None
