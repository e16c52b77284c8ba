"""Interlace moves data between the GPUs of a node while they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlace.base.errors import DeviceError, ModelError, UserError
    from interlace.runtime.copying import all_gather, all_reduce, all_to_all, copy
    from interlace.runtime.loading import load, save
    from interlace.runtime.regions import DeviceArray, Group, Region
    from interlace.tuning.region_tuning import TunedRegion, region_options, tune_region
    from interlace.tuning.search import Candidate, Impossible, tune, tune_space

__all__ = [
    "Candidate",
    "DeviceArray",
    "DeviceError",
    "Group",
    "Impossible",
    "ModelError",
    "Region",
    "TunedRegion",
    "UserError",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "copy",
    "load",
    "region_options",
    "save",
    "tune",
    "tune_region",
    "tune_space",
]
_COPYING = ("all_gather", "all_reduce", "all_to_all", "copy")
_REGIONS = ("DeviceArray", "Group", "Region")
_REGION_TUNING = ("TunedRegion", "region_options", "tune_region")
_LOADING = ("load", "save")
_ERRORS = ("DeviceError", "ModelError", "UserError")


def __getattr__(name: str) -> Any:
    # On demand: the command line starts without them.
    if name in _REGIONS:
        from interlace.runtime import regions

        return getattr(regions, name)
    if name in _REGION_TUNING:
        from interlace.tuning import region_tuning

        return getattr(region_tuning, name)
    if name in _COPYING:
        from interlace.runtime import copying

        return getattr(copying, name)
    if name in _ERRORS:
        from interlace.base import errors

        return getattr(errors, name)
    if name in _LOADING:
        from interlace.runtime import loading

        return getattr(loading, name)
    if name in __all__:
        from interlace.tuning import search as tuning

        return getattr(tuning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
