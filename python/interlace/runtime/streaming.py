"""Yields the tensors of a checkpoint one after another, while threads read the next tensors.

for name, tensor in interlace.stream("model", "cuda:0"):
    parameters[name].copy_(tensor)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from interlace.base.errors import UserError
from interlace.runtime import reading
from interlace.runtime.arrivals import Arrivals, every
from interlace.runtime.checkpoint_files import File, Paths, close_files, open_files
from interlace.runtime.placement import Device, Devices
from interlace.runtime.reading import How, Wanted, threads_of

AHEAD = 2 << 30


def stream(
    paths: Paths,
    device: Device | Mapping[str, Device] = "cpu",
    *,
    framework: str | None = None,
    threads: int | None = None,
    ahead: int = AHEAD,
    only: Callable[[str], bool] | None = None,
) -> Iterator[tuple[str, Any]]:
    """Load the tensors of safetensors files one after another.

    While the caller works on a tensor, threads read the next tensors. This function checks the
    headers of all files before it returns.

    Args:
        paths: As for `load`.
        device: As for `load`.
        framework: As for `load`.
        threads: As for `load`.
        ahead: The largest number of bytes for tensors that are being read or that wait for the
            caller. The number does not include tensors that the caller holds. Reading waits when
            this limit is reached. A tensor that is larger than the limit is read alone.
        only: A function of a tensor's name. It returns whether to read the tensor.

    Returns:
        An iterator over names and tensors, in the order of the files. Reading stops at `close()`,
        or when the caller leaves a `for` loop early.

    Raises:
        UserError: A file is damaged or missing; the message names the file and the tensor.
        DeviceError: A disk or a GPU failed.

    Example::

        import numpy

        interlace.save({"a": numpy.zeros(3), "b": numpy.ones(2)}, "model.safetensors")
        sums = {name: tensor.sum() for name, tensor in interlace.stream("model.safetensors")}
        assert sums == {"a": 0, "b": 2}
    """
    if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
        raise UserError(f"ahead={ahead!r}: give at least 1 byte")
    files = open_files(paths)
    devices = Devices(device, framework)
    wanted = [
        Wanted(number, entry, devices.of(file.name, entry.name))
        for number, file in enumerate(files)
        for entry in file.header.tensors
        if only is None or only(entry.name)
    ]
    reading.refuse_unknown(devices.framework, files, wanted)
    how = How(threads_of(threads))
    arrivals = Arrivals(files, wanted, devices.framework, how, ahead=ahead)
    return _handed_out(arrivals, files)


def _handed_out(arrivals: Arrivals, files: list[File]) -> Iterator[tuple[str, Any]]:
    try:
        yield from every(arrivals.next)
    finally:
        arrivals.close()
        close_files(files)
