"""Encrypts independent blocks with AES-256."""

from __future__ import annotations

import numpy as np

from interlace.data.ciphers import encrypt
from interlace.workloads.unified.program import Problem, wide

NAME = "aes"
PLACE = 8  # the program's place in tables
EXTENT = 65536  # the number of bytes in the message


def make(extent: int, generator: np.random.Generator) -> Problem:
    count = extent
    text = generator.integers(0, 256, count).astype(np.uint8)
    key = generator.integers(0, 256, 32).astype(np.uint8)
    expected = wide(encrypt(text.reshape(-1, 16), key).reshape(-1))
    return Problem("aes", f"{count} bytes", "run_aes", (text, key), expected, np.zeros(count))
