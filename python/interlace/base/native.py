"""The compiled modules: `_core` for the simulator, `_driver` for copies, `_cuda` for kernels."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from interlace.base.errors import UserError
from interlace.base.installation import built, built_without_cuda


def load_core() -> Any:
    """Load the module that needs no CUDA. Raises UserError if it cannot be loaded."""
    try:
        return importlib.import_module("interlace._core")
    except ImportError as error:
        raise UserError(
            f"the compiled part of Interlace cannot be loaded ({error}); install "
            "Interlace anew with ./quickstart"
        ) from None


def load_driver() -> Any:
    """Load the module that loads and saves on GPUs. Raise UserError if this fails.

    The module's functions need the NVIDIA driver, but no CUDA runtime.
    """
    try:
        return importlib.import_module("interlace._driver")
    except ImportError as error:
        raise UserError(
            f"the part of Interlace for checkpoints on GPUs cannot be loaded ({error}); install "
            "Interlace anew with ./quickstart"
        ) from None


def load_cuda() -> Any:
    """Load the module that runs kernels on GPUs. Raise UserError if it does not exist."""
    try:
        return importlib.import_module("interlace._cuda")
    except ImportError as error:
        if importlib.util.find_spec("interlace._cuda") is None:
            raise UserError(
                f"{built_without_cuda(built())}; kernels on GPUs need CUDA; copies, load, save and "
                "interlace run still work"
            ) from None
        raise UserError(
            f"the part of Interlace for kernels on GPUs cannot be loaded ({error})"
        ) from None
