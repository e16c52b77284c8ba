"""Checks partitioned arrays of PyTorch programs on real GPUs. All devices can share GPU 0.

    python tests/gpu/partitions_torch.py

The script prints a line for each check. The exit code is 0 if all checks pass, and 77 if there is
no GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

# Devices that share a GPU need a hardware queue for each of their streams.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

import torch

import interlace
from interlace.base.errors import ModelError, UserError

DEVICES = 3
ELEMENTS = 5000
UPDATES = 40_000
EPOCHS = 4
DTYPES = {"int32": torch.int32, "int64": torch.int64, "float32": torch.float32}

Case = tuple[interlace.Group, dict[int, Any]]


def new_case() -> Case:
    count = torch.cuda.device_count()
    group = interlace.Group.local([d % count for d in range(DEVICES)])
    return group, {d: torch.cuda.Stream(group.ordinal(d)) for d in group.local_devices}


def reference(operation: str, old: Any, elements: Any, values: Any) -> Any:
    """Return the elements after the updates of one device."""
    if operation == "add":
        return old.index_add(0, elements, values)
    if operation in ("min", "max"):
        return old.index_reduce(0, elements, values, f"a{operation}")
    found = old.clone().numpy()
    import numpy as np

    if operation == "store":
        found[elements.numpy()] = values.numpy()
    else:
        of = np.bitwise_or if operation == "or" else np.bitwise_xor
        of.at(found, elements.numpy(), values.numpy())
    return torch.from_numpy(found)


def updates_reach_their_owners(dtype: str, operation: str, mechanism: str) -> None:
    group, streams = new_case()
    chance = torch.Generator().manual_seed(3)
    expected = torch.zeros(ELEMENTS, dtype=DTYPES[dtype])
    with interlace.PartitionedArray(
        group, ELEMENTS, dtype, operation, mechanism=mechanism, boundaries=[0, 100, 3000, ELEMENTS]
    ) as array:
        given = {}
        for d in group.local_devices:
            elements = torch.randint(ELEMENTS, (UPDATES,), generator=chance)
            values = torch.randint(-50, 50, (UPDATES,), generator=chance)
            if operation == "store":  # every store to an element stores the same value
                values = elements * 3
            values = values.to(DTYPES[dtype])
            given[d] = [t.to(group.ordinal(d)) for t in (elements, values)]
            for _ in range(EPOCHS):
                expected = reference(operation, expected, elements, values)
        torch.cuda.synchronize()
        for _ in range(EPOCHS):
            for d in group.local_devices:
                array.begin(d, streams[d])
                array.update(d, *given[d], streams[d])
                array.exchange(d, streams[d])
        for d in group.local_devices:
            group.synchronize(d, streams[d])
        found = torch.cat([torch.from_dlpack(array.array(d)).cpu() for d in group.local_devices])
        assert torch.equal(found, expected), (found - expected).count_nonzero()


def triton_kernels_update_by_address() -> None:
    import triton
    import triton.language as tl

    @triton.jit
    def count(part, keys, n, begin, end, block: tl.constexpr):  # type: ignore[no-untyped-def]
        k = tl.program_id(0) * block + tl.arange(0, block)
        key = tl.load(keys + k, mask=k < n, other=-1)
        own = (key >= begin) & (key < end)
        target = part.to(tl.pointer_type(tl.int64)) + (key - begin)
        tl.atomic_add(target, tl.full((block,), 1, tl.int64), mask=own, scope="sys")

    group, streams = new_case()
    keys = {d: torch.randint(ELEMENTS, (UPDATES,), device=group.ordinal(d)) for d in streams}
    with interlace.PartitionedArray(group, ELEMENTS, "int64", "add") as array:
        grid = (triton.cdiv(UPDATES, 256),)
        for d in group.local_devices:  # loads the kernel before anything waits
            with torch.cuda.device(group.ordinal(d)):
                count[grid](array.parts(d)[d], keys[d], UPDATES, 0, 0, block=256)
        torch.cuda.synchronize()
        for d in group.local_devices:
            with torch.cuda.device(group.ordinal(d)), torch.cuda.stream(streams[d]):
                array.begin(d, streams[d])
                for owner, part in enumerate(array.parts(d)):
                    count[grid](part, keys[d], UPDATES, *array.part(owner), block=256)
                array.exchange(d, streams[d])
        for d in group.local_devices:
            group.synchronize(d, streams[d])
        found = torch.cat([torch.from_dlpack(array.array(d)).cpu() for d in group.local_devices])
        every = torch.cat([k.cpu() for k in keys.values()])
        assert torch.equal(found, torch.bincount(every, minlength=ELEMENTS))


def refused(error: type[Exception], call: Callable[..., Any], *arguments: Any) -> str:
    try:
        call(*arguments)
    except error as found:
        return str(found)
    raise AssertionError(f"no {error.__name__}")


def wrong_input_is_one_sentence() -> None:
    group, streams = new_case()
    for arguments, why in (
        (("float32", "or"), "is for integers"),
        (("float32", "multiply"), "there is no operation 'multiply'"),
        (("bfloat16", "add"), "a partitioned array of bfloat16 is not possible"),
    ):
        assert why in refused(UserError, interlace.PartitionedArray, group, 100, *arguments)
    with interlace.PartitionedArray(group, ELEMENTS, "int64", "add", checks=True) as array:
        keys = torch.full((10,), ELEMENTS + 7, device=group.ordinal(1))
        torch.cuda.synchronize()
        assert "call begin first" in refused(ModelError, array.update, 1, keys, keys, streams[1])
        for d in group.local_devices:
            array.begin(d, streams[d])
        on_host = torch.zeros(10, dtype=torch.int64)
        why = refused(UserError, array.update, 1, keys, on_host, streams[1])
        assert "the values of device 1 are not in the memory of GPU" in why, why
        why = refused(UserError, array.update, 1, keys, keys[:3], streams[1])
        assert "10 elements and 3 values" in why, why
        why = refused(UserError, array.update, 1, keys, keys.float(), streams[1])
        assert "the values are float32; give a tensor of int64" in why, why
        array.update(1, keys, keys, streams[1])
        for d in group.local_devices:
            array.exchange(d, streams[d])
        array.check(0, streams[0])
        why = refused(ModelError, array.check, 1, streams[1])
        assert f"updates element {ELEMENTS + 7} of a partitioned array of {ELEMENTS}" in why, why
        for d in group.local_devices:
            assert torch.from_dlpack(array.array(d)).count_nonzero().item() == 0


def checks() -> list[tuple[str, Callable[[], None]]]:
    found: list[tuple[str, Callable[[], None]]] = []
    for mechanism in ("inline", "packed"):
        for dtype in DTYPES:
            for operation in ("add", "min", "max", "or", "xor", "store"):
                if dtype == "float32" and operation in ("or", "xor"):
                    continue

                def one(
                    dtype: str = dtype, operation: str = operation, mechanism: str = mechanism
                ) -> None:
                    updates_reach_their_owners(dtype, operation, mechanism)

                found.append((f"{mechanism}, {operation} of {dtype}", one))
    found.append(("wrong input is one sentence", wrong_input_is_one_sentence))
    found.append(("Triton kernels update by address", triton_kernels_update_by_address))
    return found


def main() -> int:
    if not torch.cuda.is_available():
        print("skipped: there is no GPU")
        return 77
    failed = 0
    for name, check in checks():
        try:
            check()
            print(f"passed  {name}", flush=True)
        except ImportError as error:
            print(f"skipped {name}: {error}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
