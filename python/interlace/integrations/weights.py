"""Streams the weights of a model, for programs that serve models with PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from interlace.runtime.streaming import stream


def stream_weights(
    files: list[str], only: Callable[[str], bool] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of files, on PyTorch's current GPU or, if there is no GPU, in host
    memory.
    """
    device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
    ordered = sorted(files, key=_natural)
    return stream(ordered, device, framework="torch", only=only)


def _natural(file: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in names as numbers: part 9, then part 10."""
    return [
        (int(part), "") if part.isdigit() else (0, part)
        for part in re.split(r"(\d+)", Path(file).name)
    ]
