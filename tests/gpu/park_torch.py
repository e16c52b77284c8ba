"""Checks parked memory of PyTorch on real GPUs: allocators, graphs, streams, and failing calls.

    python tests/gpu/park_torch.py

The script prints a line for each check. The exit code is 0 if all checks pass, and 77 if there is
no GPU.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

import interlace
from interlace.base.errors import DeviceError, UserError
from interlace.runtime import parking

MIB = 1 << 20
GPU = "cuda:0"


def free_bytes() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info(0)[0])


def random(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator(device=GPU).manual_seed(seed)
    return torch.randn(*shape, device=GPU, generator=generator)


def refused(error: type[Exception], call: Callable[..., Any], *arguments: Any) -> str:
    try:
        call(*arguments)
    except error as found:
        return str(found)
    raise AssertionError(f"no {error.__name__}")


def graph_survives() -> None:
    """Check that a graph from before a park gives the same results after the park, even with new
    weights.
    """
    with interlace.parkable("graph"):
        weights = [random(1024, 1024, seed=k) for k in range(8)]
    given = random(64, 1024, seed=99)
    result = torch.empty(64, 1024, device=GPU)

    def work() -> None:
        value = given
        for weight in weights:
            value = torch.tanh(value @ weight)
        result.copy_(value)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    before = result.clone()
    for to in ("host", "host"):
        interlace.park("graph", to)
        interlace.resume("graph")
        result.zero_()
        graph.replay()
        assert torch.equal(result, before)
    weights[0].mul_(2)
    work()
    changed = result.clone()
    assert not torch.equal(changed, before)
    interlace.park("graph")
    interlace.resume("graph")
    result.zero_()
    graph.replay()
    assert torch.equal(result, changed)


def memory_is_free() -> None:
    """Check that the GPU's memory is free while a pool is parked, and that the addresses stay."""
    with interlace.parkable("free"):
        tensors = [random(64 * MIB, seed=k) for k in range(4)]
    wanted = [tensor.cpu() for tensor in tensors]
    addresses = [tensor.data_ptr() for tensor in tensors]
    interlace.park(
        "free"
    )  # the first park of a process makes streams, which take memory of the GPU
    interlace.resume("free")
    before = free_bytes()
    report = interlace.park("free")
    assert report.bytes == 4 * 256 * MIB, report
    assert free_bytes() - before >= report.gpu_bytes, (free_bytes(), before)
    interlace.resume("free")
    assert addresses == [tensor.data_ptr() for tensor in tensors]
    assert all(torch.equal(tensor.cpu(), one) for tensor, one in zip(tensors, wanted, strict=True))
    assert interlace.park("free", keep_pool=False).locked_bytes == 0
    interlace.resume("free")
    again = interlace.park("free", keep_pool=False)
    assert again.locked_bytes >= report.bytes, again
    interlace.resume("free")
    assert torch.equal(tensors[3].cpu(), wanted[3])


def pools_are_apart() -> None:
    """Check that each nested pool is parked separately, and that tensors outside of the pool
    stay.
    """
    outside = random(MIB, seed=1)
    with interlace.parkable("outer"):
        one = random(8 * MIB, seed=2)
        with interlace.parkable("inner"):
            two = random(8 * MIB, seed=3)
        three = random(1000, seed=4)
    names = {name: parking._pools(tensor) for name, tensor in
             {"one": one, "two": two, "three": three}.items()}  # fmt: skip
    assert names == {"one": ["outer"], "two": ["inner"], "three": ["outer"]}, names
    assert "not in parkable memory" in refused(UserError, interlace.park, outside)
    kept = two.cpu()
    interlace.park("outer")
    assert torch.equal(two.cpu(), kept)
    assert torch.equal(outside, random(MIB, seed=1))
    assert "is parked" in refused(UserError, interlace.parkable("outer").__enter__)
    interlace.park(two, "drop")
    interlace.resume([one, two])
    assert torch.equal(one, random(8 * MIB, seed=2))
    assert torch.equal(three, random(1000, seed=4))
    two.zero_()
    assert float(two.sum()) == 0


def streams_are_waited_for() -> None:
    """Check that a park waits for work on another stream, without a wait in the program."""
    with interlace.parkable("streams"):
        tensor = torch.zeros(64 * MIB, device=GPU)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(200):
            tensor.add_(1)
    interlace.park("streams")
    interlace.resume("streams")
    assert float(tensor.min()) == float(tensor.max()) == 200


def full_gpu_stays_parked() -> None:
    """Check that a pool stays parked while the GPU has too little memory, and comes back later."""
    with interlace.parkable("full"):
        tensors = [random(128 * MIB, seed=k) for k in range(4)]
    interlace.park("full")
    blocks = []
    try:
        while True:
            blocks.append(torch.empty(256 * MIB, dtype=torch.uint8, device=GPU))
    except torch.OutOfMemoryError:
        pass
    text = refused(DeviceError, interlace.resume, "full")
    assert "stays parked" in text, text
    assert interlace.parked_memory()["full"].parked
    blocks.clear()
    torch.cuda.empty_cache()
    interlace.resume("full")
    assert all(torch.equal(tensor, random(128 * MIB, seed=k)) for k, tensor in enumerate(tensors))


def free_segments_are_left_out() -> None:
    """Check that segments without tensors are not copied, and that parked tensors can be freed."""
    with interlace.parkable("segments"):
        one = random(32 * MIB, seed=6)
        two = random(32 * MIB, seed=7)
    del two
    assert interlace.park("segments").bytes == 128 * MIB
    interlace.resume("segments")
    assert torch.equal(one, random(32 * MIB, seed=6))
    interlace.park("segments")
    del one
    torch.cuda.empty_cache()
    if interlace.parked_memory()["segments"].parked:
        interlace.resume("segments")
    with interlace.parkable("segments"):
        three = random(32 * MIB, seed=8)
    interlace.park("segments")
    interlace.resume("segments")
    assert torch.equal(three, random(32 * MIB, seed=8))


def captures_are_refused() -> None:
    """Check that a park during a capture is refused, and that the capture goes on."""
    with interlace.parkable("capture"):
        tensor = random(MIB, seed=9)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor.add_(1)
        assert "captured" in refused(UserError, interlace.park, "capture")
    graph.replay()
    assert torch.equal(tensor, random(MIB, seed=9) + 1)


def other_threads_park() -> None:
    """Check that two threads can park two pools at the same time."""
    tensors = {}
    for k, name in enumerate(("left", "right")):
        with interlace.parkable(name):
            tensors[name] = random(64 * MIB, seed=k)
    torch.cuda.synchronize()
    failed: list[BaseException] = []

    def cycle(name: str) -> None:
        try:
            for _ in range(5):
                interlace.park(name)
                interlace.resume(name)
        except BaseException as error:  # the main thread shows the error
            failed.append(error)

    threads = [threading.Thread(target=cycle, args=(name,)) for name in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed, failed
    for k, name in enumerate(tensors):
        assert torch.equal(tensors[name], random(64 * MIB, seed=k))


def another_gpu_keeps_it() -> None:
    """Check that contents go to another GPU and back."""
    if torch.cuda.device_count() < 2:
        print("another_gpu_keeps_it: left out, because there is only one GPU")
        return
    with interlace.parkable("moving"):
        tensor = random(64 * MIB, seed=10)
    before = torch.cuda.mem_get_info(1)[0]
    interlace.park("moving", "gpu:1")
    assert before - torch.cuda.mem_get_info(1)[0] >= 256 * MIB
    interlace.resume("moving")
    assert torch.equal(tensor, random(64 * MIB, seed=10))


CHECKS = (
    graph_survives, memory_is_free, pools_are_apart, streams_are_waited_for, captures_are_refused,
    free_segments_are_left_out, other_threads_park, another_gpu_keeps_it, full_gpu_stays_parked,
)  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("there is no GPU")
        return 77
    wrong = 0
    for check in CHECKS:
        try:
            check()
            print(f"ok: {check.__name__}", flush=True)
        except Exception as error:
            wrong += 1
            print(f"WRONG: {check.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(CHECKS) - wrong} of {len(CHECKS)} checks are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
