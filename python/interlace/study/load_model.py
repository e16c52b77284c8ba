"""The checkpoint that `interlace bench load` writes and loads.

The checkpoint has the shapes of a transformer with 8 billion parameters: 32 layers, hidden size
4096, feed-forward size 14336, a vocabulary of 128256, and 32 heads of size 128, which share 8 heads
of keys and values. A smaller checkpoint has fewer layers. If not even one layer fits, all sizes are
halved until one layer fits.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from math import prod
from typing import Any

LAYERS, HIDDEN, FORWARD, KEYS, VOCABULARY = 32, 4096, 14336, 1024, 128256
ELEMENT = 2  # the bytes of an element
STEP = 4096  # each tensor begins this many bytes after the previous tensor, in the random bytes

Tensors = dict[str, Any]
Shapes = Mapping[str, tuple[int, ...]]


def shapes(most: int) -> tuple[dict[str, tuple[int, ...]], int, int]:
    """Return the shapes of the tensors of the largest checkpoint that fits in `most` bytes.

    Also return the number of layers, and how often all sizes were halved.
    """
    halvings = 0
    while True:
        hidden, forward, keys, vocabulary = (
            max(1, n >> halvings) for n in (HIDDEN, FORWARD, KEYS, VOCABULARY)
        )
        layer = {
            "input_layernorm": (hidden,),
            "mlp.down_proj": (hidden, forward),
            "mlp.gate_proj": (forward, hidden),
            "mlp.up_proj": (forward, hidden),
            "post_attention_layernorm": (hidden,),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, hidden),
            "self_attn.q_proj": (hidden, hidden),
            "self_attn.v_proj": (keys, hidden),
        }
        rest = {
            "lm_head": (vocabulary, hidden),
            "model.embed_tokens": (vocabulary, hidden),
            "model.norm": (hidden,),
        }
        room = most - ELEMENT * sum(map(prod, rest.values()))
        layers = min(LAYERS, room // (ELEMENT * sum(map(prod, layer.values()))))
        if layers > 0:
            break
        halvings += 1
    made = dict(rest)
    for number in range(layers):
        made |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return {f"{name}.weight": shape for name, shape in made.items()}, layers, halvings


def shards(of: Shapes, count: int) -> list[list[str]]:
    """Return the names of the tensors for each of `count` files of about the same size."""
    names: list[list[str]] = [[] for _ in range(count)]
    total, done = bytes_of(of), 0
    for name, shape in of.items():
        names[min(count * done // max(total, 1), count - 1)].append(name)
        done += size_of(shape)
    return names


def size_of(shape: tuple[int, ...]) -> int:
    """Return the number of bytes of a tensor."""
    return ELEMENT * prod(shape)


def bytes_of(of: Shapes) -> int:
    """Return the bytes of all tensors."""
    return sum(map(size_of, of.values()))


def random_bytes(of: Shapes, seed: int = 0) -> bytearray:
    """Return the random bytes that all tensors share.

    Each tensor begins `STEP` bytes after the beginning of the previous tensor.
    """
    import numpy as np

    most = max(map(size_of, of.values()))
    return bytearray(np.random.default_rng(seed).bytes(most + STEP * len(of)))


def tensors_of(of: Shapes, data: bytearray, framework: str) -> Tensors:
    """Make tensors in host memory from these bytes. Each tensor begins at a different offset."""
    import numpy as np

    made: Tensors = {}
    for number, (name, shape) in enumerate(of.items()):
        begin = STEP * number
        if framework == "torch":
            torch: Any = importlib.import_module("torch")
            flat = torch.frombuffer(data, dtype=torch.bfloat16, count=prod(shape), offset=begin)
            made[name] = flat.view(shape)
        else:
            made[name] = np.frombuffer(data, np.float16, prod(shape), begin).reshape(shape)
    return made
