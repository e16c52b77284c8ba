"""Runs `python -m interlace.nodes.ranks` as the process of a rank, but with the fake `_cuda`."""

from __future__ import annotations

import sys

from fake_core import FakeCuda

if __name__ == "__main__":
    sys.modules["interlace._cuda"] = FakeCuda()  # type: ignore[assignment]
    from interlace.nodes import ranks

    sys.exit(ranks.main(sys.argv[1:]))
