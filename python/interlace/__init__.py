"""Interlace moves data between the GPUs of a node while they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlace.tuning import Candidate, Impossible, tune, tune_space

__all__ = ["Candidate", "Impossible", "tune", "tune_space"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # loaded when it is wanted: the command line starts without it
        from interlace import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
