"""Prints the compute capabilities of the GPUs that can run kernels, such as "90 90".

The first line is empty if no GPU can run kernels. The second line says why a GPU or the driver
cannot be used. It is empty if there is no such reason. The script needs only Python. quickstart
runs it before it fetches a CUDA toolkit. CMake runs it before it chooses the GPUs for which it
compiles.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

LEAST_DRIVER = 13000
LEAST_CAPABILITY = 80
MAJOR, MINOR = 75, 76  # the numbers of CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR


def text(capability: int) -> str:
    """Return a compute capability in the form that people use, such as 9.0."""
    return f"{capability // 10}.{capability % 10}"


def usable(capabilities: list[int]) -> tuple[list[int], str]:
    """Return the capabilities of the GPUs before the first GPU that is too old.

    Also return a sentence about that GPU. The sentence is empty if there is no such GPU.
    """
    for gpu, capability in enumerate(capabilities):
        if capability < LEAST_CAPABILITY:
            least = text(LEAST_CAPABILITY)
            reason = f"GPU {gpu} has compute capability {text(capability)}, but {least} is needed"
            return capabilities[:gpu], reason
    return capabilities, ""


def find_gpus() -> tuple[list[int], str]:
    """Return the compute capabilities of the usable GPUs, and why other GPUs are unusable."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        if Path("/dev/nvidia0").exists():
            return [], "there is an NVIDIA device (/dev/nvidia0), but no libcuda.so.1"
        return [], ""
    count, version = ctypes.c_int(0), ctypes.c_int(0)
    error = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    cuda.cuDriverGetVersion(ctypes.byref(version))
    if error:
        return [], f"an NVIDIA driver is installed, but it does not answer (CUDA error {error})"
    if version.value < LEAST_DRIVER:
        had = f"{version.value // 1000}.{version.value % 1000 // 10}"
        needed = f"{LEAST_DRIVER // 1000}.{LEAST_DRIVER % 1000 // 10}"
        return [], f"the NVIDIA driver is for CUDA {had}, but {needed} is needed"

    def attribute(which: int, gpu: int) -> int:
        value = ctypes.c_int(0)
        cuda.cuDeviceGetAttribute(ctypes.byref(value), which, gpu)
        return value.value

    return usable(
        [10 * attribute(MAJOR, gpu) + attribute(MINOR, gpu) for gpu in range(count.value)]
    )


if __name__ == "__main__":
    found, reason = find_gpus()
    print(*found)
    print(reason)
