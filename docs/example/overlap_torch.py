"""Compute a moving average of a ring of numbers on several GPUs, by any mechanism of regions.

python docs/example/overlap_torch.py                                      # copies after the kernel
python docs/example/overlap_torch.py --mechanism polling --ordinals 0,0   # two devices on one GPU
"""

import argparse
import os
import time

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # read when CUDA starts

import torch
import triton
import triton.language as tl

import interlace

MOST_CHUNKS = 256


# --- the kernel -----------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["begin", "end", "chunk_count"])
def average(
    front, back, begin, end, size, reach,
    peers, peer_count: tl.constexpr,
    chunks, chunk_count, counters, flags, launches, publishes: tl.constexpr, raises: tl.constexpr,
    most: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    first = begin + tl.program_id(0).to(tl.int64) * block
    i = first + tl.arange(0, block)
    inside = i < end
    total = tl.zeros((block,), tl.float32)
    for k in range(-reach, reach + 1):
        total += tl.load(front + (i + k + size) % size, mask=inside, other=0.0)
    value = total / (2 * reach + 1)
    tl.store(back + i, value, mask=inside)

    for p in tl.static_range(peer_count):  # inline: store to the other GPUs, too
        other = tl.load(peers + p).to(tl.pointer_type(tl.float32))
        tl.store(other + i, value, mask=inside)

    if publishes:  # polling, copy-engine: count the elements that this block has stored
        tl.debug_barrier()  # all stores of the block come before its additions
        c = tl.arange(0, most)
        own = c < chunk_count
        chunk_begin = tl.load(chunks + 3 * c, mask=own, other=0)
        chunk_end = tl.load(chunks + 3 * c + 1, mask=own, other=0)
        low = tl.maximum(first, chunk_begin)
        high = tl.minimum(tl.minimum(first + block, end), chunk_end)
        mine = high > low
        before = tl.atomic_add(counters + c, high - low, mask=mine, sem="acq_rel", scope="gpu")

        if raises:  # copy-engine: the block that completes a chunk raises its flag
            target = (tl.load(launches) + 1) * (chunk_end - chunk_begin)
            complete = mine & (before + (high - low) == target)
            one = tl.full((most,), 1, tl.int32)
            tl.atomic_xchg(flags + c, one, mask=complete, sem="release", scope="sys")


# --- the program ----------------------------------------------------------------------------------

parser = argparse.ArgumentParser()
parser.add_argument("--mechanism", default="bulk-copy")
parser.add_argument(
    "--ordinals", help="the GPU of each device, such as 0,1 or 0,0; default: each GPU once"
)
parser.add_argument("--elements", type=int, default=1 << 24)
parser.add_argument("--reach", type=int, default=64, help="neighbours on each side")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--chunk-bytes", type=int, default=1 << 20)
asked = parser.parse_args()
ordinals = [int(word) for word in asked.ordinals.split(",")] if asked.ordinals else None

group = interlace.Group.local(ordinals)
devices = group.local_devices
shared = len({group.ordinal(d) for d in devices}) < len(devices)
ring = interlace.Region(
    group,
    asked.elements,
    "float32",
    mechanism=asked.mechanism,
    chunk_bytes=asked.chunk_bytes,
    agent_threads=512 if shared else 16384,
    name="ring",
)
streams = {d: torch.cuda.Stream(group.ordinal(d)) for d in devices}

# Front and back swap at every exchange. The fronts of this epoch are the backs of the next epoch.
addresses = {}
for d in devices:
    here = [ring.backs(d)[p] for p in devices if p != d]
    after = [ring.front(p).pointer for p in devices if p != d]
    gpu = f"cuda:{group.ordinal(d)}"
    addresses[d] = [torch.tensor(a or [0], dtype=torch.int64, device=gpu) for a in (here, after)]


def launch(d, epoch, begin, end):
    front, back = torch.from_dlpack(ring.front(d)), torch.from_dlpack(ring.back(d))
    tracked = asked.mechanism in ("polling", "copy-engine")
    waits = asked.mechanism == "copy-engine"
    count = len(ring.chunks(d)) if tracked else 0
    assert count <= MOST_CHUNKS, f"{count} chunks; use a larger --chunk-bytes"
    nothing = addresses[d][0]  # stands for arrays that this mechanism does not have
    chunks = torch.from_dlpack(ring.chunks_on(d)) if tracked else nothing
    counters = torch.from_dlpack(ring.counters(d)) if tracked else nothing
    flags = torch.from_dlpack(ring.flags(d)) if waits else nothing
    launches = torch.from_dlpack(ring.launches(d)) if waits else nothing
    with torch.cuda.device(group.ordinal(d)), torch.cuda.stream(streams[d]):
        average[(triton.cdiv(max(end - begin, 1), 1024),)](
            front, back, begin, end, asked.elements, asked.reach,
            addresses[d][epoch % 2],
            peer_count=len(devices) - 1 if asked.mechanism == "inline" else 0,
            chunks=chunks, chunk_count=count, counters=counters, flags=flags, launches=launches,
            publishes=tracked, raises=waits, most=MOST_CHUNKS, block=1024,
        )  # fmt: skip


start = torch.arange(asked.elements, dtype=torch.float32) % 1000
for d in devices:
    torch.from_dlpack(ring.front(d)).copy_(start)
    launch(d, 0, 0, 0)  # no elements: this launch only compiles and loads the kernel
    torch.cuda.synchronize(group.ordinal(d))

began = time.perf_counter()
for epoch in range(asked.epochs):
    for d in devices:
        begin, end = ring.part(d)
        ring.begin(d, streams[d])
        launch(d, epoch, begin, end)
        ring.exchange(d, streams[d])
for d in devices:
    group.synchronize(d, streams[d])  # raises an error if a wait has passed its deadline
each = (time.perf_counter() - began) / asked.epochs

# --- the check ------------------------------------------------------------------------------------

expected, width = start.double(), 2 * asked.reach + 1
for _ in range(asked.epochs):
    around = torch.cat([expected[-asked.reach :], expected, expected[: asked.reach]])
    sums = torch.cat([torch.zeros(1, dtype=torch.float64), around.cumsum(0)])
    expected = (sums[width:] - sums[:-width]) / width
for d in devices:
    error = (torch.from_dlpack(ring.front(d)).cpu().double() - expected).abs().max().item()
    assert error < 1e-2, f"device {d}: the largest error is {error}"
    print(f"device {d}: all {asked.elements} elements are right")
print(f"{asked.mechanism}: {each * 1e6:.0f} us an epoch")
ring.close()
