"""Names of places and methods in measurements of copies."""

from __future__ import annotations

HOST = -1  # an end of a message; GPUs are numbers
PLAIN = "memcpy"  # one call of CUDA, over one path
