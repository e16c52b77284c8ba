"""Checks regions of several processes, on real GPUs.

python tests/gpu/regions_processes.py                 # starts the processes itself
torchrun --nproc-per-node 4 tests/gpu/regions_processes.py
mpirun -n 4 python tests/gpu/regions_processes.py

The script needs CuPy, and PyTorch for expandable segments. After every epoch, every rank compares
its replica with the values that a formula gives. With --shared-gpu, all processes use GPU 0. This
tests everything but speed. With --time, the ranks print the time of an epoch instead. Without a
launcher, --time measures one process and then several processes, and fails if the epochs of several
processes take more than 3 % longer. --json FILE writes these times.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MECHANISMS = ("bulk-copy", "inline", "polling", "copy-engine")
ELEMENTS = 200_003
TIMED_ELEMENTS = 32 << 20  # 128 MiB
TIMED_EPOCHS = 20
TIMED_RUNS = 9
THREADS = 128
LEAST_LEAK = 1 << 20  # bytes; the driver itself may keep less than this
MOST_LONGER = 1.03  # the largest allowed ratio of the time of several processes to that of one
LATE_S = 2  # time in which every process must report a missed deadline
SHARED_LATE_S = 10  # as LATE_S, but for processes that take turns on one GPU

# Each block writes and publishes one tile, in the part that its device owns. The documentation
# recommends this to authors of kernels that publish by themselves.
SOURCE = r"""
extern "C" __global__ void produce(
    unsigned int* back, const unsigned long long* peer_backs, int peers, int own,
    long long begin, long long end, const unsigned int* epoch, unsigned int offset,
    const long long* chunks, unsigned long long* counters, const unsigned long long* launches,
    unsigned int* flags, int count, int wrong) {
  const long long first = begin + (long long)blockIdx.x * blockDim.x;
  const long long last = min(end, first + (long long)blockDim.x);
  const long long i = first + threadIdx.x;
  if (i < last) {
    unsigned int value = (unsigned int)i * 2654435761u + (*epoch + offset) * 40503u;
    back[i] = value ^ (value >> 15);
    for (int p = 0; p < peers; ++p) {
      if (p != own) ((unsigned int*)peer_backs[p])[i] = back[i];
    }
  }
  if (wrong && blockIdx.x == 1) return;
  __syncthreads();
  for (int c = threadIdx.x; c < count; c += blockDim.x) {
    const long long low = max(first, chunks[3 * c]);
    const long long high = min(last, chunks[3 * c + 1]);
    if (high <= low) continue;
    const unsigned long long more = high - low;
    unsigned long long seen;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(seen) : "l"(counters + c), "l"(more) : "memory");
    const unsigned long long target = chunks[3 * c + 1] - chunks[3 * c];
    if (flags != nullptr && seen + more == (*launches + 1) * target) {
      asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(flags + c), "r"(1u) : "memory");
    }
  }
}
"""


def expected(epoch: int, elements: int) -> np.ndarray:
    i = np.arange(elements, dtype=np.uint32)
    value = i * np.uint32(2654435761) + np.uint32(epoch * 40503)
    return value ^ (value >> np.uint32(15))


class Device:
    """A device of this process: its stream, and the kernel that writes the device's part."""

    def __init__(self, region: Any, device: int, mechanism: str) -> None:
        import cupy

        self.cupy = cupy
        self.region, self.device, self.mechanism = region, device, mechanism
        self.ordinal = region.group.ordinal(device)
        with cupy.cuda.Device(self.ordinal):
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.kernel = cupy.RawKernel(SOURCE, "produce")
            self.epoch = cupy.zeros(1, dtype=cupy.uint32)
            self.begin, self.end = region.part(device)
            self.chunks = cupy.from_dlpack(region.chunks_on(device))
            self.counters = cupy.from_dlpack(region.counters(device))
            self.launches = cupy.from_dlpack(region.launches(device))
            self.count = len(self.chunks)
            self.backs = [
                cupy.zeros(region.group.devices, dtype=cupy.uint64),
                cupy.zeros(region.group.devices, dtype=cupy.uint64),
            ]
            self.known: dict[int, Any] = {}
            cupy.cuda.Device().synchronize()
            # Launches the kernel for no elements. This loads the kernel before anything waits.
            self.produce(cupy.zeros(1, dtype=cupy.uint32), self.backs[0], 0, 0, 0, 1, False)
            cupy.cuda.Device().synchronize()

    def produce(
        self, back: Any, backs: Any, begin: int, end: int, offset: int, blocks: int, wrong: bool
    ) -> None:
        flags = self.region.flags(self.device).pointer if self.mechanism == "copy-engine" else 0
        peers = self.region.group.devices if self.mechanism == "inline" else 0
        with self.stream:
            self.kernel(
                (blocks,),
                (THREADS,),
                (
                    back,
                    backs,
                    np.int32(peers),
                    np.int32(self.device),
                    np.int64(begin),
                    np.int64(end),
                    self.epoch,
                    np.uint32(offset),
                    self.chunks,
                    self.counters,
                    self.launches,
                    np.uint64(flags),
                    np.int32(self.count if end > begin else 0),
                    np.int32(wrong),
                ),
            )

    def peer_backs(self) -> Any:
        """Return a table in the device's memory. Each of the two buffers has its own table."""
        own = self.region.back(self.device).pointer
        if own not in self.known:
            values = self.region.backs(self.device)
            self.known[own] = self.backs[len(self.known)]
            # The stream is non-blocking, so a copy on the default stream might end after the kernel
            # that reads the table has started.
            self.known[own].set(np.array(values, dtype=np.uint64), stream=self.stream)
        return self.known[own]

    def run_epoch(self, offset: int, wrong: bool = False) -> None:
        cupy = self.cupy
        with cupy.cuda.Device(self.ordinal):
            backs = self.peer_backs()
            back = cupy.from_dlpack(self.region.back(self.device))
            self.region.begin(self.device, self.stream)
            blocks = max(1, -(-(self.end - self.begin) // THREADS))
            self.produce(back, backs, self.begin, self.end, offset, blocks, wrong)
            self.region.exchange(self.device, self.stream)

    def set_epoch(self, epoch: int) -> None:
        with self.cupy.cuda.Device(self.ordinal):
            self.epoch.set(np.array([epoch], dtype=np.uint32))
            self.cupy.cuda.Device().synchronize()

    def expect(self, epoch: int) -> None:
        self.region.group.synchronize(self.device, self.stream)
        with self.cupy.cuda.Device(self.ordinal):
            front = self.cupy.asnumpy(self.cupy.from_dlpack(self.region.front(self.device)))
        wrong = np.flatnonzero(front.view(np.uint32) != expected(epoch, len(front)))
        assert len(wrong) == 0, (
            f"{self.mechanism}, device {self.device}, epoch {epoch}: {len(wrong)} elements differ, "
            f"the first is {wrong[0]}"
        )


def check_epochs(group: Any, mechanism: str, own_memory: str, agent_copy: str = "vectors") -> None:
    """Check plain epochs, followed by a graph of two epochs that is launched three times."""
    import cupy

    import interlace

    options = {
        "mechanism": mechanism,
        "chunk_bytes": 16384,
        "agent_threads": 1024,
        "agent_copy": agent_copy,
    }
    if own_memory == "own":
        region = interlace.Region(group, ELEMENTS, "uint32", **options)
    else:
        fronts, backs = [], []
        for d in group.local_devices:
            for buffers in (fronts, backs):
                if own_memory == "cupy":
                    with cupy.cuda.Device(group.ordinal(d)):
                        buffers.append(cupy.full(ELEMENTS, 0xFFFFFFFF, dtype=cupy.uint32))
                else:
                    import torch

                    gpu = torch.device("cuda", group.ordinal(d))
                    buffers.append(torch.full((ELEMENTS,), -1, dtype=torch.int32, device=gpu))
                    torch.cuda.synchronize(gpu)
            cupy.cuda.Device(group.ordinal(d)).synchronize()
        region = interlace.Region.over(group, fronts, backs, **options)
    devices = [Device(region, d, mechanism) for d in group.local_devices]
    for epoch in range(5):
        for own in devices:
            own.run_epoch(epoch)
        for own in devices:
            own.expect(epoch)
    for epoch in range(5, 25):  # without comparisons between these epochs
        for own in devices:
            own.run_epoch(epoch)
    for own in devices:
        own.expect(24)
    graphs = []
    # If a graph of an earlier check is destroyed during a capture, the capture ends. So garbage is
    # collected before the capture.
    gc.collect()
    gc.disable()
    for own in devices:
        with cupy.cuda.Device(own.ordinal):
            own.peer_backs()
            own.stream.begin_capture(cupy.cuda.runtime.streamCaptureModeThreadLocal)
            own.run_epoch(0)
            own.run_epoch(1)
            graphs.append(own.stream.end_capture())
    gc.enable()
    for repetition in range(3):
        for own in devices:
            own.set_epoch(100 + 10 * repetition)
        for own, graph in zip(devices, graphs, strict=True):
            with cupy.cuda.Device(own.ordinal):
                graph.launch(own.stream)
        for own in devices:
            own.expect(101 + 10 * repetition)
    region.close()


def error_of(kind: str, action: Callable[[], object]) -> str:
    """Return the text of the error that the action raises. The text is empty if there is no
    error.
    """
    import interlace

    try:
        action()
    except getattr(interlace, kind) as e:
        return str(e)
    return ""


def check_refusals(group: Any) -> None:
    """Check that arguments that differ between ranks are an error on all ranks, and that the group
    goes on.
    """
    import interlace

    rank = group.local_devices[0]
    uneven: list[tuple[int, dict[str, Any], str]] = [
        (100 + rank, {}, "elements"),
        (100, {"chunk_bytes": 4096 * (1 + rank)}, "chunk_bytes"),
        (1000, {"mechanism": "polling", "chunk_bytes": 4 if rank == 1 else 4096}, "a chunk of 4"),
        (-1 if rank == 1 else 100, {}, "a length of a region's shape is -1"),
    ]
    for shape, options, part in uneven:
        text = error_of(
            "UserError",
            lambda n=shape, o=options: interlace.Region(group, n, "uint32", **o),  # type: ignore[misc]
        )
        assert part in text, (part, text)


def check_leaks(group: Any) -> None:
    """Check that closed regions leave no memory of the GPUs in use."""
    import cupy

    def free() -> list[int]:
        found = []
        for d in group.local_devices:
            with cupy.cuda.Device(group.ordinal(d)):
                cupy.get_default_memory_pool().free_all_blocks()
                found.append(cupy.cuda.runtime.memGetInfo()[0])
        return found

    before: list[int] = []
    for _ in range(3):  # the first round allocates memory that the process keeps
        for mechanism in MECHANISMS:
            check_epochs(group, mechanism, "own")
        gc.collect()
        before = before or free()
    after = free()
    assert all(a >= b - LEAST_LEAK for a, b in zip(after, before, strict=True)), (before, after)


def check_all(group: Any) -> int:
    import interlace

    checks = 0
    for mechanism in MECHANISMS:
        for memory in ("own", "cupy", "torch"):
            try:
                check_epochs(group, mechanism, memory)
            except Exception as e:
                raise AssertionError(f"{mechanism}, memory of {memory}: {e}") from e
            checks += 1
    try:
        check_epochs(group, "polling", "own", "bulk")
        checks += 1
    except interlace.UserError as e:  # a build without code for compute capability 9.0
        if "bulk copies need 9.0" not in str(e):
            raise
    if len(group.local_devices) == 1 and group.devices > 1:
        check_refusals(group)
        checks += 1
    return checks


def time_epochs(group: Any) -> dict[str, dict[int, float]]:
    """Return the time of an epoch in us, for each mechanism and device. Each time is the median of
    several runs of a graph of epochs.
    """
    import cupy

    import interlace

    found: dict[str, dict[int, float]] = {mechanism: {} for mechanism in MECHANISMS}
    for mechanism in MECHANISMS:
        options = {"mechanism": mechanism, "chunk_bytes": 4 << 20, "agent_threads": 16384}
        region = interlace.Region(group, TIMED_ELEMENTS, "uint32", **options)
        devices = [Device(region, d, mechanism) for d in group.local_devices]
        graphs, events, taken = [], [], []
        gc.collect()
        gc.disable()
        for own in devices:
            with cupy.cuda.Device(own.ordinal):
                for _ in range(2):  # makes the tables of both buffers before the capture
                    own.peer_backs()
                    own.run_epoch(0)
        for own in devices:
            own.expect(0)
        for own in devices:
            with cupy.cuda.Device(own.ordinal):
                events.append([cupy.cuda.Event(), cupy.cuda.Event()])
                own.stream.begin_capture(cupy.cuda.runtime.streamCaptureModeThreadLocal)
                for epoch in range(TIMED_EPOCHS):
                    own.run_epoch(epoch)
                graphs.append(own.stream.end_capture())
        gc.enable()
        for _ in range(TIMED_RUNS):
            # The graphs run twice, and only the second run is timed. In the first run, the devices
            # wait for each other, so a late host does not count. During the first run, a host with
            # several devices launches the second run on all of them.
            for own, graph in zip(devices, graphs, strict=True):
                with cupy.cuda.Device(own.ordinal):
                    graph.launch(own.stream)
            for own, graph, (begin, end) in zip(devices, graphs, events, strict=True):
                with cupy.cuda.Device(own.ordinal):
                    begin.record(own.stream)
                    graph.launch(own.stream)
                    end.record(own.stream)
            for own in devices:
                own.expect(TIMED_EPOCHS - 1)
            taken.append(
                [
                    1e3 * cupy.cuda.get_elapsed_time(begin, end) / TIMED_EPOCHS
                    for begin, end in events
                ]
            )
        for own, microseconds in zip(devices, np.median(taken, axis=0), strict=True):
            spread = np.ptp(taken, axis=0)[devices.index(own)]
            found[mechanism][own.device] = float(microseconds)
            print(
                f"device {own.device} of {group.devices}, {mechanism}: {microseconds:.1f} us an "
                f"epoch, spread {spread:.1f} us",
                flush=True,
            )
        region.close()
    return found


def together(of_ranks: list[dict[str, dict[int, float]]]) -> dict[str, list[float]]:
    """Return, for each mechanism, the times of an epoch in us on all devices, in their order."""
    merged = {
        mechanism: {d: us for found in of_ranks for d, us in found[mechanism].items()}
        for mechanism in MECHANISMS
    }
    return {mechanism: [of[d] for d in sorted(of)] for mechanism, of in merged.items()}


def watch(group: Any) -> None:
    """Check the group repeatedly until the check raises an error, for at most a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        group.check()
        time.sleep(0.001)


def expect_report(
    group: Any,
    mechanism: str,
    parts: tuple[str, ...],
    act: Callable[[Device], None],
    within: float,
) -> None:
    """Run some good epochs. Then `act` causes an error. All ranks must report the error within a
    time limit.
    """
    import interlace

    rank = group.local_devices[0]
    region = interlace.Region(group, ELEMENTS, "uint32", mechanism=mechanism, chunk_bytes=16384)
    own = Device(region, rank, mechanism)
    for epoch in range(2):
        own.run_epoch(epoch)
        own.expect(epoch)
    begin = time.monotonic()

    def run() -> None:
        act(own)
        watch(group)

    text = error_of("DeviceError", run)
    seconds = time.monotonic() - begin
    print(f"rank {rank} after {seconds:.2f} s: {text}", flush=True)
    assert all(part in text for part in parts), (parts, text)
    assert seconds < within, f"{seconds:.2f} s, and {within} s are allowed"
    region.close()


def die(group: Any, mechanism: str, within: float, ready: Callable[[], None]) -> None:
    """Rank 1 is killed while no rank stores to its memory."""

    def act(own: Device) -> None:
        ready()
        if own.device == 1:
            time.sleep(600)

    expect_report(group, mechanism, ("rank 1", "ended"), act, within)


def stay_away(group: Any, mechanism: str, within: float) -> None:
    """Rank 0 does not take part in one epoch."""

    def act(own: Device) -> None:
        if own.device != 0:
            own.run_epoch(2)
            group.synchronize(own.device, own.stream)

    expect_report(group, mechanism, ("rank 0", "whose counter is 2 and not 3"), act, within)


def publish_wrongly(group: Any, mechanism: str, within: float) -> None:
    """Rank 1 publishes too few elements."""

    def act(own: Device) -> None:
        own.run_epoch(2, wrong=own.device == 1)
        group.synchronize(own.device, own.stream)

    parts = ("rank 1 (GPU", "announced too little of chunk")
    expect_report(group, mechanism, parts, act, within)


def rank_main(
    task: str,
    rank: int,
    size: int,
    ordinal: int,
    deadline: float,
    shared: tuple[Any, Any, Any],
    mechanism: str,
    within: float,
) -> None:
    values, barrier, ready = shared

    def gather(own: bytes) -> list[bytes]:
        values[rank] = own
        barrier.wait(120)
        every = list(values)
        barrier.wait(120)
        return every

    try:
        import interlace

        group = interlace.Group.join(gather, rank, size, ordinal=ordinal, deadline=deadline)
        if task == "all":
            check_all(group)
        elif task == "time":
            values[rank] = time_epochs(group)
        elif task == "die":

            def tell() -> None:
                ready[rank] = 1

            die(group, mechanism, within, tell)
        elif task == "absent":
            stay_away(group, mechanism, within)
        else:
            publish_wrongly(group, mechanism, within)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def start(
    task: str, size: int, shared_gpu: bool, deadline: float, mechanism: str = ""
) -> list[Any]:
    """Run a task in `size` processes and return their results. Raise an error if a process fails or
    hangs.
    """
    # Processes that take turns on a GPU have longer deadlines, in proportion to their number.
    within = size * deadline + SHARED_LATE_S if shared_gpu else deadline + LATE_S
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        shared = (manager.list([b""] * size), manager.Barrier(size), manager.list([0] * size))
        processes = [
            context.Process(
                target=rank_main,
                args=(task, r, size, 0 if shared_gpu else r, deadline, shared, mechanism, within),
            )
            for r in range(size)
        ]
        for p in processes:
            p.start()
        try:
            if task == "die":
                while sum(shared[2]) < size and all(p.is_alive() for p in processes):
                    time.sleep(0.01)
                time.sleep(0.5)
                os.kill(processes[1].pid or 0, signal.SIGKILL)
            end = time.monotonic() + 600
            for p in processes:
                p.join(max(0.0, end - time.monotonic()))
            codes = [p.exitcode for p in processes]
            wanted = [-signal.SIGKILL if task == "die" and r == 1 else 0 for r in range(size)]
            assert codes == wanted, f"{task} {mechanism}: exit codes {codes}"
            return list(shared[0])
        finally:
            for p in processes:
                if p.is_alive():
                    p.kill()


def keep(file: str | None, times: dict[str, dict[str, list[float]]]) -> None:
    """Write the times of an epoch in us, together with the facts that a reader of the result
    needs.
    """
    if file is None:
        return
    import cupy

    from interlace.model.results import provenance

    document = {
        "format": 1,
        **provenance(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "bytes": 4 * TIMED_ELEMENTS,
        "epoch_us": times,
    }
    Path(file).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared-gpu", action="store_true")
    parser.add_argument(
        "--processes", type=int, default=0, help="default: the number of GPUs, at most 4"
    )
    parser.add_argument("--time", action="store_true", help="measure epochs, check less")
    parser.add_argument("--json", metavar="FILE", help="with --time: write the times to this file")
    arguments = parser.parse_args()
    if arguments.time and arguments.shared_gpu:
        parser.error(
            "--time and --shared-gpu exclude each other: processes take turns on a shared GPU by "
            "time slice, so their times say nothing"
        )
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

    if arguments.shared_gpu:  # gives each stream of the devices a hardware queue
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

    import interlace

    if "OMPI_COMM_WORLD_RANK" in os.environ or "RANK" in os.environ:
        if "RANK" in os.environ:
            import torch.distributed as dist

            dist.init_process_group("gloo")
            communicator: Any = dist
            local = int(os.environ["LOCAL_RANK"])

            def gather(own: Any) -> list[Any]:
                every: list[Any] = [None] * dist.get_world_size()
                dist.all_gather_object(every, own)
                return every
        else:
            from mpi4py import MPI

            communicator = MPI.COMM_WORLD
            gather = communicator.allgather
            local = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
        ordinal = 0 if arguments.shared_gpu else local
        group = interlace.Group.join(communicator, ordinal=ordinal)
        if arguments.time:
            found = together(gather(time_epochs(group)))
            if group.local_devices[0] == 0:
                keep(arguments.json, {f"{group.devices} processes": found})
            return 0
        checks = check_all(group)
        print(f"rank {group.local_devices[0]} of {group.devices}: {checks} checks passed")
        return 0

    import cupy

    size = arguments.processes or min(4, cupy.cuda.runtime.getDeviceCount())
    if arguments.shared_gpu:
        size = max(2, size)
    if size < 2:
        print("needs 2 GPUs, or --shared-gpu")
        return 77
    ordinals = [0] * size if arguments.shared_gpu else list(range(size))
    if arguments.time:
        print("one process:")
        for _ in range(2):  # a second try, because a host may be busy for a moment
            one = together([time_epochs(interlace.Group.local(ordinals))])
            print(f"{size} processes:", flush=True)
            several = together(start("time", size, arguments.shared_gpu, 30))
            longer = {m: sum(several[m]) / sum(one[m]) for m in MECHANISMS}
            print("several over one: " + ", ".join(f"{m} {x:.3f}" for m, x in longer.items()))
            if max(longer.values()) <= MOST_LONGER:
                break
        keep(arguments.json, {"one process": one, f"{size} processes": several})
        return int(max(longer.values()) > MOST_LONGER)
    local = interlace.Group.local(ordinals)
    checks = check_all(local)
    check_leaks(local)
    checks += 1
    start("all", size, arguments.shared_gpu, 30)
    checks += len(MECHANISMS) * 3 + 2
    for mechanism in MECHANISMS:
        start("die", size, arguments.shared_gpu, 3, mechanism)
        start("absent", size, arguments.shared_gpu, 3, mechanism)
        checks += 2
        if mechanism in ("polling", "copy-engine"):
            start("wrong", size, arguments.shared_gpu, 5, mechanism)
            checks += 1
    print(f"{checks} checks passed in one process and in {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
