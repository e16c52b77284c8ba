"""The names of places and of methods in measurements of copies."""

from __future__ import annotations

HOST = -1  # the host as an end of a message; GPUs have numbers from 0
PLAIN = "memcpy"  # the method that copies with one call of CUDA, over one path
