"""One rank of a program that saves and loads a distributed checkpoint.

The arguments are, in this order: the rank, the number of ranks, a file by which the ranks meet, the
folder, the dimension in which tensors are cut, the writer or reader ("interlace" or "torch"), and
"save" or "load". With "load", the program compares every value.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import distributed
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from interlace.integrations.distributed_checkpoint import InterlaceReader, InterlaceWriter


def whole(name: str) -> Any:
    """Return the contents of a whole tensor."""
    values = {
        "weight": torch.arange(24 * 36, dtype=torch.float32).reshape(24, 36),
        "bias": torch.arange(12, dtype=torch.bfloat16),
        "deep": torch.arange(12 * 6 * 12, dtype=torch.int64).reshape(12, 6, 12),
        "same": torch.full((5,), 2.5),
    }
    return values[name]


def main() -> None:
    rank, count, meeting, folder, cut, kind, action = sys.argv[1:]
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=int(count)
    )
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    state = {}
    for name in ("weight", "bias", "deep", "same"):
        values = whole(name) if action == "save" else torch.zeros_like(whole(name))
        at = [Shard(min(int(cut), values.ndim - 1))] if name != "same" else [Replicate()]
        state[name] = distribute_tensor(values, mesh, at)
    if action == "save":
        theirs = checkpoint.HuggingFaceStorageWriter
        writer = InterlaceWriter if kind == "interlace" else theirs
        checkpoint.save(state, storage_writer=writer(folder, save_distributed=True))
    else:
        reader = InterlaceReader if kind == "interlace" else checkpoint.HuggingFaceStorageReader
        checkpoint.load(state, storage_reader=reader(folder))
        for name, tensor in state.items():
            assert torch.equal(tensor.full_tensor(), whole(name)), name
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    # The mesh keeps threads of Gloo. When the process exits normally, these threads sometimes end
    # it by std::terminate. An exit without destructors avoids this.
    os._exit(0)
