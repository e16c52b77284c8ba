"""What measurements of copies call a place and a way to copy."""

from __future__ import annotations

HOST = -1  # as an end of a message; GPUs have their numbers
PLAIN = "memcpy"  # one call of CUDA, over one path
