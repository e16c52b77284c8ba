"""Decides the device of each tensor of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlace.base.errors import UserError
from interlace.runtime import tensor_memory

Device = Any  # "cpu", "cuda", "cuda:1", 1, torch.device, cupy.cuda.Device


class Devices:
    """Assigns a device to each tensor: one device to all tensors, or a device by the tensor's name.
    A mapping gives the device of each prefix of names.
    """

    def __init__(self, device: Device | Mapping[str, Device], framework: str | None) -> None:
        by_prefix = dict(device) if isinstance(device, Mapping) else {"": device}
        if not by_prefix:
            raise UserError("the mapping from names to devices is empty")
        gpus = {prefix: tensor_memory.gpu_of(one) for prefix, one in by_prefix.items()}
        any_gpu = any(gpu is not None for gpu in gpus.values())
        mixed = any_gpu and None in gpus.values()
        self.framework = tensor_memory.framework_named(
            "torch" if mixed and framework is None else framework, gpu=any_gpu
        )
        if mixed and self.framework != "torch":
            raise UserError("tensors on the host and on GPUs at once need torch")
        count = tensor_memory.count_gpus(self.framework) if any_gpu else 0
        for prefix, gpu in gpus.items():
            if gpu == -1 and count:
                gpus[prefix] = tensor_memory.current_gpu(self.framework)
            elif gpu is not None and not 0 <= gpu < count:
                are = "is 1 GPU" if count == 1 else f"are {count} GPUs" if count else "is no GPU"
                raise UserError(
                    f"{by_prefix[prefix]!r} does not exist; there {are} on this computer"
                )
        self._gpus = gpus

    def of(self, file: str, name: str) -> int | None:
        prefix = name
        while prefix not in self._gpus:
            if not prefix:
                raise UserError(
                    f"{file}: the mapping has no device for tensor {name!r}; add a device for its "
                    "name, or for '', which stands for all other tensors"
                )
            prefix = prefix.rpartition(".")[0]
        return self._gpus[prefix]
