"""The part of Triton that docs/example/overlap_torch.py uses. Blocks run one by one, on NumPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from triton import language


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


class _Kernel:
    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        def launch(*arguments: Any, **named: Any) -> None:
            bound = inspect.signature(self._function).bind(*arguments, **named)
            for name, value in bound.arguments.items():
                if hasattr(value, "array"):
                    bound.arguments[name] = language.Pointer(value.array.reshape(-1), 0)
            # Blocks run in an unusual order. The order must not matter to a kernel.
            for block in np.random.default_rng(grid[0]).permutation(grid[0]):
                language.program = int(block)
                self._function(*bound.args, **bound.kwargs)

        return launch


def jit(*, do_not_specialize: list[str]) -> Callable[[Callable[..., None]], _Kernel]:
    def decorate(function: Callable[..., None]) -> _Kernel:
        assert set(do_not_specialize) <= set(inspect.signature(function).parameters)
        return _Kernel(function)

    return decorate
