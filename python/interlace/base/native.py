"""The compiled modules."""

from __future__ import annotations

import importlib
from typing import Any

from interlace.base.errors import UserError


def load_core() -> Any:
    """The module without CUDA. Raises UserError if it cannot be loaded."""
    try:
        return importlib.import_module("interlace._core")
    except ImportError as error:
        raise UserError(
            f"the compiled part of Interlace cannot be loaded ({error}); install it anew with "
            "./quickstart"
        ) from None
