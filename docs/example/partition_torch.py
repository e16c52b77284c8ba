"""Count keys in a histogram whose bins are divided among the GPUs.

Each GPU has some of the keys, and owns some of the bins. On a machine with one GPU, two devices
share this GPU.

python docs/example/partition_torch.py                         # one process
torchrun --nproc-per-node 4 docs/example/partition_torch.py    # a process for each GPU
"""

import os

import torch
import torch.distributed as dist

import interlace

if "RANK" in os.environ:
    dist.init_process_group("gloo")
    group = interlace.Group.join(dist, ordinal=int(os.environ["LOCAL_RANK"]))
else:
    several = torch.cuda.device_count() > 1
    group = interlace.Group.local(None if several else [0, 0])

bins, keys_of_a_gpu, epochs = 10_000, 1 << 20, 5
counts = interlace.PartitionedArray(
    group, bins, "int64", "add", mechanism="packed", name="counts", checks=True
)
keys, ones, streams = {}, {}, {}
for d in group.local_devices:
    gpu = torch.device("cuda", group.ordinal(d))
    chance = torch.Generator(gpu).manual_seed(d)
    keys[d] = torch.randint(bins, (keys_of_a_gpu,), device=gpu, generator=chance)
    ones[d] = torch.ones_like(keys[d])
    streams[d] = torch.cuda.Stream(gpu)
    torch.cuda.synchronize(gpu)

for _ in range(epochs):
    for d in group.local_devices:
        counts.begin(d, streams[d])
        counts.update(d, keys[d], ones[d], streams[d])
        counts.exchange(d, streams[d])

for d in group.local_devices:
    counts.check(d, streams[d])  # waits; raises an error if a key has no bin
total = 0
for d in group.local_devices:
    begin, end = counts.part(d)
    own = torch.from_dlpack(counts.array(d))
    print(f"device {d}: {own.sum().item()} keys in the bins {begin} to {end - 1}")
    total += own.sum().item()
if dist.is_initialized():
    sums = [None] * group.devices
    dist.all_gather_object(sums, total)
    total = sum(sums)
assert total == epochs * keys_of_a_gpu * group.devices
counts.close()
if dist.is_initialized():
    dist.destroy_process_group()
