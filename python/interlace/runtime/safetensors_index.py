"""Strictly reads the indexes of checkpoints that have several files.

An index is a JSON object. Its `weight_map` is an object that maps the name of a tensor to the name
of a file in the folder of the index. All other keys of the index are ignored.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from interlace.base.errors import UserError
from interlace.base.native import load_core

ENDS = ".safetensors.index.json"
MOST_BYTES = 100_000_000  # headers of safetensors files have the same limit

# A download cache keeps the files of a repository in the folder `blobs`. For each version of the
# repository, a folder in `snapshots` has links to these files.
SNAPSHOTS, BLOBS = "snapshots", "blobs"


def read(path: Path) -> dict[str, Path]:
    """Return the file of each tensor, by the tensor's name. A UserError names the index.

    Every file must be a regular file in the index's folder, a link to such a file, or a link
    within a download cache.
    """
    try:
        with open(path, "rb", opener=_opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path} is not a regular file; give a regular file")
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > MOST_BYTES:
        raise UserError(f"{path} has more than the {MOST_BYTES} bytes that an index may have")
    try:
        named = load_core().parse_index(text)
    except UserError as error:
        raise UserError(f"{path}{error}") from None
    files = {name: _inside(path, name, tensor) for tensor, name in reversed(named)}
    return {tensor: files[name] for tensor, name in named}


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _inside(index: Path, name: str, tensor: str) -> Path:
    """Return the path of the file that an index names for a tensor. Raise UserError if the file
    may not be read.
    """
    path = index.parent / name
    folder = Path(os.path.realpath(index.parent))
    try:
        target = Path(os.path.realpath(path, strict=True))
    except OSError as error:
        raise UserError(
            f"{index}: the file {name!r} of tensor {tensor!r} cannot be read: {error.strerror}"
        ) from None
    blobs = folder.parent.parent / BLOBS
    cached = folder.parent.name == SNAPSHOTS and target.parent == blobs
    if not cached and folder not in target.parents:
        raise UserError(
            f"{index}: the file {name!r} of tensor {tensor!r} is a link to {target}, outside of "
            "the folder of the index"
        )
    return path
