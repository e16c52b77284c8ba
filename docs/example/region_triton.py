"""A Triton kernel publishes chunks, and an agent sends them while the kernel still runs.

python docs/example/region_triton.py
"""

import torch
import triton
import triton.language as tl

import interlace


@triton.jit(do_not_specialize=["begin", "end", "count"])
def grow(front, back, begin, end, chunks, counters, count, size: tl.constexpr, most: tl.constexpr):
    first = begin + tl.program_id(0).to(tl.int64) * size
    last = tl.minimum(first + size, end)
    i = first + tl.arange(0, size)
    tl.store(back + i, tl.load(front + i, mask=i < end) * 1.5 + 1.0, mask=i < end)
    tl.debug_barrier()  # all stores of the block come before its additions
    c = tl.arange(0, most)
    low = tl.maximum(first, tl.load(chunks + 3 * c, mask=c < count, other=0))
    high = tl.minimum(last, tl.load(chunks + 3 * c + 1, mask=c < count, other=0))
    tl.atomic_add(counters + c, high - low, mask=high > low, sem="release", scope="gpu")


def launch(d, begin, end):
    with torch.cuda.device(group.ordinal(d)), torch.cuda.stream(streams[d]):
        arrays = data.front(d), data.back(d), data.chunks_on(d), data.counters(d)
        front, back, chunks, counters = (torch.from_dlpack(a) for a in arrays)
        count = len(data.chunks(d))
        assert count <= 256, "the kernel looks at 256 chunks at most"
        grid = (triton.cdiv(max(end - begin, 1), 1024),)
        grow[grid](front, back, begin, end, chunks, counters, count, size=1024, most=256)


group = interlace.Group.local()
n = 1 << 24
data = interlace.Region(group, n, "float32", mechanism="polling", chunk_bytes=1 << 20)
streams = {d: torch.cuda.Stream(group.ordinal(d)) for d in group.local_devices}
start = torch.arange(n, dtype=torch.float32) % 1000
for d in group.local_devices:
    torch.from_dlpack(data.front(d)).copy_(start)
    launch(d, 0, 0)  # writes nothing; compiles and loads the kernel before any wait
    torch.cuda.synchronize(group.ordinal(d))

for _ in range(6):
    start = start * 1.5 + 1.0
    for d in group.local_devices:
        data.begin(d, streams[d])
        launch(d, *data.part(d))
        data.exchange(d, streams[d])

for d in group.local_devices:
    group.synchronize(d, streams[d])  # raises an error if the kernel published wrong elements
    assert torch.equal(torch.from_dlpack(data.front(d)).cpu(), start)
    print(f"device {d}: all {n} elements are right")
data.close()
