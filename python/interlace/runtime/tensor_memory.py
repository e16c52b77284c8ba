"""Converts between tensors of PyTorch, CuPy or NumPy and the bytes in their memory."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from interlace.base.errors import UserError
from interlace.runtime.safetensors_header import BITS

FRAMEWORKS = ("torch", "cupy", "numpy")

# Maps the name of a dtype in a safetensors file to its name in NumPy and CuPy.
NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
# The same for PyTorch, which has additional dtypes. An element of float4_e2m1fn_x2 is two numbers.
TORCH = {
    **NUMPY,
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",
}
PACKED = "F4"


def framework_named(name: str | None, *, gpu: bool) -> str:
    """Return the framework that makes the tensors: `name`, or the first installed framework.

    Only PyTorch and CuPy can make tensors on GPUs.
    """
    if name is not None and name not in FRAMEWORKS:
        raise UserError(f"there is no framework {name!r}; give one of {', '.join(FRAMEWORKS)}")
    if name == "numpy" and gpu:
        raise UserError("NumPy has no arrays on GPUs; use torch or cupy")
    if name == "cupy" and not gpu:
        raise UserError("CuPy has no arrays in the host's memory; use torch or numpy")
    if name is not None:
        if importlib.util.find_spec(name) is None:
            raise UserError(f"{name} is not installed")
        return name
    for found in ("torch", "cupy") if gpu else ("torch",):
        if importlib.util.find_spec(found) is not None:
            return found
    if gpu:
        raise UserError("tensors on GPUs need torch or cupy, and neither is installed")
    return "numpy"


def gpu_of(device: object) -> int | None:
    """Return the number of the GPU for "cuda:1", for 1, or for a device of PyTorch or CuPy.

    Return None for "cpu", and -1 for "cuda" (the current GPU).
    """
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return device
    if type(device).__module__.startswith("cupy") and isinstance(getattr(device, "id", None), int):
        return int(device.id)  # type: ignore[attr-defined]
    kind, _, number = str(device).partition(":")
    if kind == "cpu" and number in ("", "0"):
        return None
    if kind == "cuda" and not number and ":" not in str(device):
        return -1
    if kind == "cuda" and number.isascii() and number.isdigit():
        return int(number)
    raise UserError(f"{device!r} is not a device; give cpu, cuda, or cuda:0 and so on")


PAGE = 2 << 20  # the driver allocates a GPU's memory in units of this size
LEAST_LARGE, LARGE = (
    10 << 20,
    20 << 20,
)  # for an allocation below the first number of bytes, PyTorch allocates the second number


def taken_by(framework: str, size: int) -> int:
    """Return the most GPU memory that the framework's allocator can take for `size` bytes."""
    if framework == "torch" and PAGE // 2 < size < LEAST_LARGE:
        return LARGE
    return -(-size // PAGE) * PAGE


class Memory:
    """Memory on a device that a framework allocated. Tensors are views of this memory."""

    def __init__(self, framework: str, size: int, gpu: int | None, *, pinned: bool = False) -> None:
        self.framework = framework
        self._module: Any = importlib.import_module(framework)
        if framework == "torch":
            device = "cpu" if gpu is None else f"cuda:{gpu}"
            self._bytes = self._module.empty(
                size, dtype=self._module.uint8, device=device, pin_memory=pinned
            )
            self.address = int(self._bytes.data_ptr())
        elif framework == "cupy":
            with self._module.cuda.Device(gpu):
                self._bytes = self._module.empty(size, dtype="uint8")
            self.address = int(self._bytes.data.ptr)
        else:
            self._bytes = self._module.empty(size, dtype="uint8")
            self.address = int(self._bytes.ctypes.data)

    def tensor(self, offset: int, size: int, dtype: str, shape: Sequence[int]) -> Any:
        """Return a tensor of the `size` bytes from `offset` on. It keeps the memory alive."""
        part = self._bytes[offset : offset + size]
        if self.framework == "torch":
            if dtype == PACKED:
                shape = (*shape[:-1], shape[-1] // 2)
            return part.view(getattr(self._module, TORCH[dtype])).view(tuple(shape))
        return part.view(NUMPY[dtype]).reshape(tuple(shape))

    def strided(
        self, dtype: str, shape: Sequence[int], strides: Sequence[int], elements: int
    ) -> Any:
        """Return the part of this memory with this shape and these strides, as a contiguous tensor.

        `strides` are in elements.
        """
        flat = self.tensor(0, elements * BITS[dtype] // 8, dtype, (elements,))
        if self.framework == "torch":
            return flat.as_strided(tuple(shape), tuple(strides)).contiguous()
        spread = self._module.lib.stride_tricks.as_strided(
            flat, tuple(shape), [stride * flat.itemsize for stride in strides]
        )
        return self._module.ascontiguousarray(spread)


def why_not(framework: str, dtype: str, shape: Sequence[int]) -> str | None:
    """Return why a framework cannot represent a tensor of a file, or None if it can."""
    if framework == "torch":
        torch: Any = importlib.import_module("torch")
        if dtype not in TORCH or not hasattr(torch, TORCH[dtype]):
            return f"this PyTorch ({torch.__version__}) has no {dtype}"
        if dtype == PACKED and (not shape or shape[-1] % 2):
            return (
                f"PyTorch packs two numbers of {dtype} along the "
                "last dimension, which has an odd length"
            )
        return None
    if dtype not in NUMPY:
        name = "NumPy" if framework == "numpy" else "CuPy"
        return f"{name} has no {dtype}; install torch, which has this dtype"
    try:
        importlib.import_module(framework).empty((0,) * len(shape))
    except ValueError:
        name = "NumPy" if framework == "numpy" else "CuPy"
        return f"it has {len(shape)} dimensions, which is more than {name} has"
    return None


def count_gpus(framework: str) -> int:
    """Return the number of GPUs that the framework sees."""
    module: Any = importlib.import_module(framework)
    if framework == "torch":
        return int(module.cuda.device_count())
    try:
        return int(module.cuda.runtime.getDeviceCount())
    except module.cuda.runtime.CUDARuntimeError:
        return 0


def current_gpu(framework: str) -> int:
    """Return the number of the framework's current GPU, for the device "cuda"."""
    module: Any = importlib.import_module(framework)
    return int(module.cuda.current_device() if framework == "torch" else module.cuda.Device().id)


def synchronize(framework: str, gpu: int) -> None:
    """Wait for the framework's current stream of a GPU."""
    module: Any = importlib.import_module(framework)
    if framework == "torch":
        module.cuda.current_stream(gpu).synchronize()
    else:
        with module.cuda.Device(gpu):
            module.cuda.get_current_stream().synchronize()


class Bytes(NamedTuple):
    """The bytes of a tensor to be written, as address, dtype and shape."""

    address: int
    size: int
    gpu: int | None
    dtype: str
    shape: tuple[int, ...]
    framework: str


def bytes_of(name: str, tensor: Any) -> Bytes:
    """Return the bytes of a contiguous tensor.

    Raises UserError for any other tensor. The message names the tensor.
    """
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _of_torch(name, tensor)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(tensor, cupy.ndarray):
        return _of_array(name, tensor, "cupy", int(tensor.data.ptr), int(tensor.device.id))
    if isinstance(tensor, np.ndarray):
        return _of_array(name, tensor, "numpy", int(tensor.ctypes.data), None)
    raise UserError(
        f"tensor {name!r} is a {type(tensor).__name__}; give tensors of PyTorch, CuPy or NumPy"
    )


def _of_torch(name: str, tensor: Any) -> Bytes:
    text = str(tensor.dtype).removeprefix("torch.")
    dtype = next((key for key, value in TORCH.items() if value == text), None)
    if dtype is None:
        raise UserError(f"tensor {name!r}: a safetensors file cannot hold {text}")
    if str(tensor.layout) != "torch.strided" or tensor.device.type not in ("cpu", "cuda"):
        raise UserError(
            f"tensor {name!r} is {str(tensor.layout).removeprefix('torch.')} on {tensor.device}; "
            "give a dense tensor in the host's or a GPU's memory"
        )
    if tensor.is_conj() or tensor.is_neg():
        raise UserError(
            f"tensor {name!r} is a lazy conjugate or a lazy negative; use "
            "tensor.resolve_conj().resolve_neg()"
        )
    if not tensor.is_contiguous():
        raise UserError(f"tensor {name!r} is not contiguous; use tensor.contiguous()")
    shape = tuple(int(extent) for extent in tensor.shape)
    if dtype == PACKED:
        shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
    size = int(tensor.numel()) * int(tensor.element_size())
    gpu = None if tensor.device.type == "cpu" else int(tensor.device.index)
    return Bytes(int(tensor.data_ptr()), size, gpu, dtype, shape, "torch")


def _of_array(name: str, array: Any, framework: str, address: int, gpu: int | None) -> Bytes:
    dtype = next((key for key, value in NUMPY.items() if value == array.dtype.name), None)
    if dtype is None or not array.dtype.isnative:
        raise UserError(
            f"tensor {name!r}: a safetensors file cannot hold NumPy's {array.dtype.str} "
            f"({array.dtype.name})"
        )
    if not array.flags.c_contiguous:
        raise UserError(f"tensor {name!r} is not contiguous; use numpy.ascontiguousarray")
    shape = tuple(int(extent) for extent in array.shape)
    return Bytes(address, prod(shape) * array.dtype.itemsize, gpu, dtype, shape, framework)
