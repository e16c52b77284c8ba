"""Interlace moves data between the GPUs of a node while they compute."""

from __future__ import annotations

# The command line imports this module before it can handle Ctrl-C. The module therefore imports
# nothing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlace.base.errors import DeviceError, ModelError, UserError
    from interlace.runtime.copying import all_gather, all_reduce, all_to_all, copy
    from interlace.runtime.loading import load, save
    from interlace.runtime.parking import park, parkable, parked_memory, prepare_park, resume
    from interlace.runtime.partitions import PartitionedArray
    from interlace.runtime.regions import DeviceArray, Group, Region
    from interlace.runtime.safe_open import PrefetchLoader, TensorSlice, safe_open
    from interlace.runtime.streaming import stream
    from interlace.tuning.region_tuning import TunedRegion, region_options, tune_region
    from interlace.tuning.search import Candidate, Impossible, tune, tune_space

    __version__: str

# The module that defines each public name. A name is imported when it is first used, so that the
# command line starts without loading all modules.
_HOMES = {
    "Candidate": "tuning.search",
    "DeviceArray": "runtime.regions",
    "DeviceError": "base.errors",
    "Group": "runtime.regions",
    "Impossible": "tuning.search",
    "ModelError": "base.errors",
    "PartitionedArray": "runtime.partitions",
    "PrefetchLoader": "runtime.safe_open",
    "Region": "runtime.regions",
    "TensorSlice": "runtime.safe_open",
    "TunedRegion": "tuning.region_tuning",
    "UserError": "base.errors",
    "all_gather": "runtime.copying",
    "all_reduce": "runtime.copying",
    "all_to_all": "runtime.copying",
    "copy": "runtime.copying",
    "copy_blocks": "runtime.blocks",
    "load": "runtime.loading",
    "park": "runtime.parking",
    "parkable": "runtime.parking",
    "parked_memory": "runtime.parking",
    "prepare_park": "runtime.parking",
    "region_options": "tuning.region_tuning",
    "resume": "runtime.parking",
    "safe_open": "runtime.safe_open",
    "save": "runtime.loading",
    "stream": "runtime.streaming",
    "tune": "tuning.search",
    "tune_region": "tuning.region_tuning",
    "tune_space": "tuning.search",
}

__all__ = [
    "Candidate",
    "DeviceArray",
    "DeviceError",
    "Group",
    "Impossible",
    "ModelError",
    "PartitionedArray",
    "PrefetchLoader",
    "Region",
    "TensorSlice",
    "TunedRegion",
    "UserError",
    "__version__",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "copy",
    "copy_blocks",
    "load",
    "park",
    "parkable",
    "parked_memory",
    "prepare_park",
    "region_options",
    "resume",
    "safe_open",
    "save",
    "stream",
    "tune",
    "tune_region",
    "tune_space",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from interlace.base.version import version

        return version()
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"interlace.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return only the public names, for completion and `help(interlace)`."""
    return sorted(__all__)
