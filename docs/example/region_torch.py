"""Compute the largest eigenvalue of a matrix.

Each GPU has some rows of the matrix. The vector is a region.

python docs/example/region_torch.py                         # one process
torchrun --nproc-per-node 4 docs/example/region_torch.py    # a process for each GPU
"""

import os

import torch
import torch.distributed as dist

import interlace

if "RANK" in os.environ:
    dist.init_process_group("gloo")
    group = interlace.Group.join(dist, ordinal=int(os.environ["LOCAL_RANK"]))
else:
    group = interlace.Group.local()

n = 2048
matrix = torch.rand(n, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
matrix = matrix + matrix.T
vector = interlace.Region(group, n, "float32", mechanism="bulk-copy", name="vector")
rows, streams = {}, {}


def multiply(d, front, out):
    torch.mv(rows[d], front / front.norm(), out=out)


for d in group.local_devices:
    gpu = torch.device("cuda", group.ordinal(d))
    begin, end = vector.part(d)
    rows[d] = matrix[begin:end].float().to(gpu)
    streams[d] = torch.cuda.Stream(gpu)
    front = torch.from_dlpack(vector.front(d)).fill_(1.0)
    with torch.cuda.stream(streams[d]):
        multiply(d, front, front[begin:end].clone())  # loads the kernels before any wait
    torch.cuda.synchronize(gpu)

for _ in range(30):
    for d in group.local_devices:
        begin, end = vector.part(d)
        with torch.cuda.stream(streams[d]):
            vector.begin(d, streams[d])
            back = torch.from_dlpack(vector.back(d))
            multiply(d, torch.from_dlpack(vector.front(d)), back[begin:end])
            vector.exchange(d, streams[d])

expected = torch.linalg.eigvalsh(matrix)[-1].item()
for d in group.local_devices:
    group.synchronize(d, streams[d])  # raises an error if a deadline has passed
    value = torch.from_dlpack(vector.front(d)).norm().item()
    print(f"device {d}: {value:.3f}, and {expected:.3f} in float64 on the CPU")
    assert abs(value - expected) < 1e-4 * expected
vector.close()
if dist.is_initialized():
    dist.destroy_process_group()
