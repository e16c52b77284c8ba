"""What measurements of copies call a place and a way to copy."""

from __future__ import annotations

HOST = -1
PLAIN = "memcpy"
