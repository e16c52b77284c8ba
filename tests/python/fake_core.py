"""A stand-in for the compiled modules. Its functions return correct results. A formula gives the
times.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlace.base.errors import DeviceError, UserError
from interlace.data import graphs
from interlace.model.mechanism_table import (
    BULK_COPY,
    COPY_ENGINE,
    DEVICE_LAUNCH,
    INFINITE_BANDWIDTH,
    INLINE,
    MULTI_PATH,
    NCCL,
    NVSHMEM,
    POLLING,
    PROACT_HARDWARE,
    SERIAL_COPY,
    SPLIT,
    UNIFIED_MEMORY,
)
from interlace.model.mechanisms import BEHIND_KERNELS

ENTRY_S = 2e-11  # the time that one GPU takes for an edge or a matrix entry
BYTE_S = 1 / 25e9
LAUNCH_S = 4e-6
PENALTIES = {
    "all-gather": 2e-6,
    "send-receive": 1e-6,
    "none": 1e-6,
}  # the additional times of the variants

REAL: Any = None  # the real search of `tune`, which does not depend on the node
with contextlib.suppress(ImportError):
    REAL = importlib.import_module("interlace._core")


def only_read(
    result: dict[str, Any],
    boundaries: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    columns: NDArray[np.uint32],
) -> dict[str, Any]:
    """Set the elements that a device neither owns nor reads to NaN."""
    for device, values in enumerate(result["values"]):
        first, last = int(boundaries[device]), int(boundaries[device + 1])
        read = {int(c) for c in columns[int(offsets[first]) : int(offsets[last])]}
        for row in range(values.size):
            if not first <= row < last and row not in read:
                values[row] = np.nan
    return result


class Described(SimpleNamespace):
    """A struct of a machine. Its values are found by key."""

    def __init__(self) -> None:
        super().__init__(values={})

    def __getitem__(self, key: str) -> Any:
        return self.values.get(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.values[key] = value


def with_halo(result: dict[str, Any], boundaries: NDArray[np.uint64], halo: int) -> dict[str, Any]:
    """Set the elements that a device does not receive to NaN."""
    for device, values in enumerate(result["values"]):
        values[: max(0, int(boundaries[device]) - halo)] = np.nan
        values[int(boundaries[device + 1]) + halo :] = np.nan
    return result


class Asked(NamedTuple):
    """The arguments of a run of any workload, without the workload's data."""

    node: str
    mechanism: str
    boundaries: NDArray[np.uint64]
    iterations: int
    tolerance: float
    how: tuple[int, int, int, str]  # ranges, bytes of a chunk, threads of an agent, and variant


def run_faked(core: Fake, name: str, asked: Asked, data: tuple[Any, ...]) -> dict[str, Any]:
    """Make a run of a workload. The test file of the workload defines the result."""
    result: dict[str, Any] = importlib.import_module(f"test_{name}").faked(core, asked, *data)
    return result


class Fake:
    """The functions of `_core` and `_cuda`, with switches that make the functions fail."""

    __spec__ = ModuleSpec("interlace._core", None)  # this module has no file

    EndpointKind = SimpleNamespace(gpu="gpu", network_switch="network_switch", host="host")
    Endpoint = staticmethod(lambda kind, index: SimpleNamespace(kind=kind, index=index))
    Machine = Link = Protocol = Switch = Described

    @staticmethod
    def copy_settings() -> list[tuple[str, str, str]]:
        return [
            ("INTERLACE_COPY_STAGING", "256M", "memory"),
            ("INTERLACE_COPY_GRAPHS", "128", "kept"),
        ]

    def __init__(self) -> None:
        self.wrong: tuple[str, int, int, int] | None = None  # mechanism, GPUs, device and element
        self.wrong_by = 1e-3
        # The parts of an iteration. Each pair has two shares of a part: its share of the sent
        # bytes, and its share of the time before the exchange.
        self.exchanges: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
        self.interrupt: str | None = None  # the mechanism whose run gets a Ctrl-C
        self.crash: str | None = None
        self.usage: str | None = None
        self.no_place_for_bulk = False  # true if agents that make bulk copies do not fit on a GPU
        self.bulk_s = 0.0  # the additional time of agents that make bulk copies
        self.sleep_s = 0.0
        self.gpus = 4
        self.most_managed = 1 << 30  # the largest number of elements in unified memory
        self.counters = True
        self.calls: list[tuple[Any, ...]] = []

    def tune_space(self, **region: Any) -> Any:
        return REAL.tune_space(**region)

    def TuneFamily(self, *words: Any) -> Any:  # noqa: N802
        return REAL.TuneFamily(*words)

    def TuneSpace(self, families: Any) -> Any:  # noqa: N802
        return REAL.TuneSpace(families)

    def tune_in_rounds(self, *search: Any, **rules: Any) -> Any:
        return REAL.tune_in_rounds(*search, **rules)

    def simulate_overlap(
        self,
        machine: Any,
        peers: int,
        size: int,
        mechanism: str,
        chunk_bytes: int,
        agent_threads: int,
        rounds: int,
    ) -> float:
        assert machine["gpu.count"] > peers
        if self.crash == mechanism:
            raise DeviceError("gpu1 does not have element 7")
        kernel = 1e-13 * size + 1e-14 * size * rounds
        transfer = peers * size / 50e9
        return {
            SERIAL_COPY: kernel + transfer,
            POLLING: max(kernel, transfer) + chunk_bytes / 50e9,
            DEVICE_LAUNCH: max(kernel, transfer, size / chunk_bytes * 1e-6) + 1e-3 / agent_threads,
            INFINITE_BANDWIDTH: kernel,
        }[mechanism]

    def store_goodput(self, machine: Any, size: int) -> float:
        assert machine.links
        return size / (size + 24)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if not name.startswith("run_"):
            raise AttributeError(name)
        return partial(self.run_workload, name.removeprefix("run_"))

    def run_workload(
        self, name: str, node: str, machine: Any, mechanism: str, boundaries: NDArray[np.uint64],
        iterations: int, tolerance: float, *rest: Any, whole: bool = True,
        threads: int = 1,
    ) -> dict[str, Any]:  # fmt: skip
        assert (whole and threads == 1) or node == "sim"
        assert (machine is None) == (node == "host")
        asked = Asked(node, mechanism, boundaries, iterations, tolerance, rest[:4])
        return run_faked(self, name, asked, rest[4:])

    def run(
        self,
        asked: Asked,
        exact: NDArray[np.float64],
        done: int,
        residual: float,
        entries: int,
        kernel: str,
        *,
        elements: int | None = None,
    ) -> dict[str, Any]:
        began = time.process_time()
        node, mechanism, boundaries, iterations, tolerance, how = asked
        split_ranges, chunk_bytes, agent_threads, variant = how
        assert 32 <= agent_threads <= 65536
        gpus = boundaries.size - 1
        self.calls.append((node, gpus, mechanism, iterations, tolerance, *how))
        assert boundaries.dtype == np.uint64
        assert boundaries[0] == 0
        assert boundaries[-1] == (exact.size if elements is None else elements)
        time.sleep(self.sleep_s)
        if self.interrupt == mechanism:
            raise KeyboardInterrupt
        if self.crash == mechanism:
            raise DeviceError("GPU 1 has vanished")
        if self.usage is not None:
            raise UserError(self.usage)
        if variant == "bulk" and self.no_place_for_bulk:
            raise UserError(f"an agent of {agent_threads} threads leaves no place")

        values = np.tile(exact.astype(np.float32), (gpus, 1))
        if self.wrong is not None and self.wrong[:2] == (mechanism, gpus):
            values[self.wrong[2], self.wrong[3]] *= 1 + self.wrong_by

        compute = LAUNCH_S + entries * ENTRY_S / gpus
        sent = 4 * exact.size * (gpus - 1)
        copy = 2e-6 + BYTE_S * sent / gpus if gpus > 1 else 0.0
        overhead = {INLINE: 2.5, INFINITE_BANDWIDTH: 0.0}.get(mechanism, 1.08) - 1
        elided = mechanism.endswith("-without-transfers")
        mechanism = mechanism.removesuffix("-without-transfers")
        exposed, extra = {
            BULK_COPY: (copy, 0.0),
            SPLIT: (copy / split_ranges, LAUNCH_S * (split_ranges - 1) / 4),
            INLINE: (0.3 * copy, 0.0),
            POLLING: (
                0.2 * copy,
                1e-14 * agent_threads + 1e-13 * chunk_bytes + (variant == "bulk") * self.bulk_s,
            ),
            DEVICE_LAUNCH: (0.25 * copy, 1e-14 * agent_threads + 1e-13 * chunk_bytes),
            COPY_ENGINE: (0.4 * copy, 1e-13 * chunk_bytes),
            MULTI_PATH: (0.5 * copy, 0.0),
            NCCL: (0.9 * copy, PENALTIES.get(variant, 0.0)),
            NVSHMEM: (0.95 * copy, 0.0),
            UNIFIED_MEMORY: (3 * copy, PENALTIES.get(variant, 0.0)),
            PROACT_HARDWARE: (0.1 * copy, 1e-13 * chunk_bytes),
            SERIAL_COPY: ((gpus - 1) * gpus * copy, 0.0),
            INFINITE_BANDWIDTH: (0.0, 0.0),
        }[mechanism]
        if elided:
            tracked = (POLLING, DEVICE_LAUNCH, COPY_ENGINE)
            on_gpus = node == "cuda"
            assert mechanism in (*tracked, BULK_COPY if on_gpus else PROACT_HARDWARE)
            if on_gpus:
                values[:] = np.nan  # no device has received values
            exposed, sent = 0.0, 0
        epoch = compute + exposed + extra
        # On GPUs, this time comes from separate runs, which have events between the parts of an
        # iteration.
        copied = exposed / 3 if node == "cuda" else exposed
        timeline = []
        for first in (0.0, epoch):
            for device in range(gpus):
                timeline.append(
                    {"device": device, "track": "kernel", "name": kernel,
                     "start_s": first, "end_s": first + compute + extra}
                )  # fmt: skip
                for peer in range(gpus if exposed else 0):
                    if peer != device:
                        timeline.append(
                            {"device": device, "track": "copy", "name": f"to GPU {peer}",
                             "start_s": first + compute - copy / 2, "end_s": first + epoch}
                        )  # fmt: skip
        known = mechanism != INFINITE_BANDWIDTH
        return {
            "time_s": 0.0 if node == "host" else epoch * done,
            "copy_s": copied * done if mechanism in BEHIND_KERNELS else 0.0,
            "iterations": done,
            "residual": residual,
            "values": values,
            "wire": {
                "useful": 0.95 * sent * done if known else 0.0,
                "protocol": 0.0 if node == "host" or not known else overhead * sent * done,
                "wasted": sent * done - 0.95 * sent * done if known else 0.0,
            },
            "timeline": timeline,
            "work": self._work(gpus, kernel, entries, exact.size, done) if node == "host" else [],
            "sent_bytes": [part * sent for part, _ in self.exchanges] * done
            if node == "host"
            else [],
            "epoch_s": [part * epoch for _, part in self.exchanges] * done
            if node == "cuda"
            else [],
            "accesses": entries * done,
            "remote_transactions": sent // 128 * done,
            "cpu_s": max(1e-6, time.process_time() - began),
        }

    @staticmethod
    def _work(
        gpus: int, kernel: str, entries: int, elements: int, done: int
    ) -> list[dict[str, Any]]:
        """Return the work of an iteration: the iteration launches the kernel and a small second
        kernel on each GPU.
        """
        update = {
            "loaded_bytes": 12 * (entries // gpus), "stored_bytes": 4 * (elements // gpus),
            "touched_bytes": 16 * (entries // gpus), "fp32": entries // gpus, "fp64": 0,
            "integer": 10 * (entries // gpus), "special": 0,
        }  # fmt: skip
        fold = {
            "loaded_bytes": 64, "stored_bytes": 32, "touched_bytes": 96, "fp32": 4, "fp64": 7,
            "integer": 2, "special": 1,
        }  # fmt: skip
        return [
            {"device": device, "name": name, **counts}
            for _ in range(done)
            for device in range(gpus)
            for name, counts in ((kernel, update), ("fold", fold))
        ]


class FakeCuda(Fake):
    """A stand-in for `_cuda`."""

    def __init__(self) -> None:
        super().__init__()
        self.overlaps: list[tuple[Any, ...]] = []
        self.nccl: str | None = None  # the version of NCCL, if the library exists
        self.nccl_files: list[str] = []  # the library files that a caller offered
        self.rate = 3.5e11  # bytes per second of the copies in an exchange
        self.rates: list[int] = []  # for each measurement of the rate, the number of GPUs
        self.of_gpu = {
            "read_bytes_per_s": 4e12, "write_bytes_per_s": 2e12, "fp32_per_s": 3e13,
            "fp64_per_s": 1e13, "integer_per_s": 1.5e13, "together_per_s": 3e13,
            "cache_bytes": 96,
        }  # fmt: skip
        self.gpu_rates_measured = 0
        # the rank of this process and the number of ranks, as soon as the ranks have met
        self.rank: tuple[int, int] | None = None
        self.copies: list[tuple[Any, ...]] = []  # the requests for measurements
        self.collectives: list[tuple[Any, ...]] = []
        self.relay_costs: list[tuple[Any, ...]] = []
        self.wrong_bytes: dict[str, int] = {}  # maps a method to the number of wrong bytes
        # the measured copies, each with true if the host measured the time
        self.streams: list[tuple[Any, bool]] = []
        self.kernels: list[tuple[Any, ...]] = []

    def nccl_version(self, candidates: list[str]) -> str:
        self.nccl_files = candidates
        if self.nccl is None:
            raise UserError("NCCL cannot be loaded (tried libnccl.so.2)")
        return self.nccl

    def make_nvshmem_id(self, candidates: list[str]) -> bytes:
        if candidates == ["broken"]:
            raise UserError("NVSHMEM cannot be loaded (tried broken)")
        return b"\x01\x00id"

    def join_nvshmem(self, candidates: list[str], rank: int, ranks: int, common: bytes) -> str:
        assert common == b"\x01\x00id"
        if candidates == [f"fails on {rank}"]:
            raise DeviceError("NVSHMEM cannot start")
        if candidates == [f"dies on {rank}"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if candidates[0].startswith(("fails", "dies")):
            time.sleep(60)  # as if the call waited for a process that never starts
        self.rank = rank, ranks
        return "3.4.5"

    def leave_nvshmem(self) -> None:
        assert self.rank is not None
        self.rank = None

    def measure_copies(
        self,
        messages: list[tuple[int, int]],
        size: int,
        methods: list[str],
        warmup: int,
        repeats: int,
    ) -> list[tuple[str, list[float], list[float], int]]:
        self.copies.append((messages, size, methods, warmup, repeats))
        if self.crash in methods:
            raise DeviceError("cuMemcpyAsync failed: CUDA_ERROR_UNKNOWN")
        found = []
        for method in methods:
            time_s = self.copy_time_s(messages, size, method)
            times = [time_s * (1 + 0.001 * (k % 3)) for k in range(repeats)]
            wrong = self.wrong_bytes.get(method, 0)
            found.append((method, times, [2e-6 * len(messages)] * repeats, wrong))
        return found

    def measure_streams(
        self, copies: list[tuple[int, int, int, int]], *, by_host: bool, repeats: int
    ) -> list[float]:
        """Return the times of copies. Copies on different streams are in flight together."""
        self.streams.append((copies, by_host))
        assert all(max(a, b) < self.gpus for a, b, _, _ in copies)
        if self.crash == "streams":
            raise DeviceError("a copy of 8 bytes from GPU 0 to GPU 1 left 8 bytes wrong")
        total: dict[int, int] = {}
        for _, _, size, stream in copies:
            total[stream] = total.get(stream, 0) + size
        time_s = max(total.values()) / 400e9 + (6e-6 if by_host else 2e-6)
        return [time_s * (1 + 0.01 * k) for k in range(repeats)]

    def measure_stores(
        self,
        gpus: int,
        senders: int,
        element_bytes: int,
        elements: int,
        together: int,
        lanes: int,
        shift: int,
        epochs: int,
        repeats: int,
    ) -> tuple[list[float], int]:
        self.kernels.append(("stores", gpus, senders, element_bytes, elements, together))
        assert lanes <= together
        assert shift < elements
        assert senders <= gpus <= self.gpus
        assert epochs > 0
        assert elements & (elements - 1) == 0
        everything = senders * (gpus - 1) * element_bytes * elements
        payload = everything * lanes // together if lanes else everything
        return [everything / senders / 300e9] * repeats, payload

    def measure_copy_kernel(
        self, size: int, blocks: int, epochs: int, repeats: int
    ) -> tuple[list[float], int]:
        self.kernels.append(("copy", size, blocks))
        assert epochs > 0
        return [size / min(360e9, blocks * 45e9)] * repeats, size

    def measure_loads(
        self, element_bytes: int, elements: int, epochs: int, repeats: int
    ) -> tuple[list[float], int]:
        self.kernels.append(("loads", element_bytes, elements))
        assert epochs > 0
        return [elements / 8.7e9] * repeats, elements * element_bytes

    def measure_store_wire(
        self,
        element_bytes: int,
        elements: int,
        together: int,
        lanes: int,
        shift: int,
        epochs: int,
        repeats: int,
    ) -> list[float] | None:
        self.kernels.append(("wire", element_bytes, elements, together))
        assert epochs > 0
        assert lanes <= together
        assert shift < elements
        size = (lanes or together or 32) * element_bytes
        return [1 + 40 / size] * repeats if self.counters else None

    def of_one(self, name: str, value: float, repeats: int, *arguments: Any) -> list[float]:
        self.kernels.append((name, *arguments))
        return [value] * repeats

    def measure_busy_clock(self, repeats: int) -> list[float]:
        return self.of_one("busy clock", 1980, repeats)

    def measure_chain(self, kind: str, warps: int, repeats: int) -> list[float]:
        return self.of_one("chain", 4 * warps, repeats, kind, warps)

    def measure_load_loop(self, memory: str, unroll: int, warps: int, repeats: int) -> list[float]:
        return self.of_one("load loop", 33, repeats, memory, unroll, warps)

    def measure_load_chain(self, memory: str, size: int, repeats: int) -> list[float]:
        return self.of_one("load chain", 280, repeats, memory, size)

    def measure_peer_load_chain(self, size: int, repeats: int) -> list[float]:
        return self.of_one("peer load chain", 1700, repeats, size)

    def measure_small_kernels(self, instructions: int, kernels: int, repeats: int) -> list[float]:
        time_s = 1e-6 + 2e-9 * instructions
        return self.of_one("small kernels", time_s, repeats, instructions, kernels)

    def measure_blocks(self, repeats: int) -> list[float]:
        return self.of_one("blocks", 6e-10, repeats)

    def measure_exchange(self, sums: int, repeats: int) -> list[float]:
        return self.of_one("exchange", 2e-6, repeats, sums)

    def measure_gather(self, registers: int, size: int, repeats: int) -> list[float]:
        return self.of_one("gather", 6.4e12 / registers, repeats, registers, size)

    def measure_sectors(self, size: int, repeats: int) -> list[float]:
        return self.of_one("sectors", 1e11, repeats, size)

    def measure_reads(self, size: int, repeats: int) -> list[float]:
        return self.of_one("reads", 5e12, repeats, size)

    def measure_fresh_load_chain(self, size: int, repeats: int) -> list[float]:
        return self.of_one("fresh load chain", 400, repeats, size)

    def measure_line_loads(self, lines: int, offset: int, repeats: int) -> list[float]:
        return self.of_one("line loads", 2.0 * lines, repeats, lines, offset)

    def measure_cached_copies(self, size: int, repeats: int) -> list[float]:
        return self.of_one("cached copies", 3e12, repeats, size)

    def measure_writes(self, size: int, repeats: int) -> list[float]:
        return self.of_one("writes", 4e12, repeats, size)

    def measure_fresh_reads(self, size: int, repeats: int) -> list[float]:
        return self.of_one("fresh reads", 5e12, repeats, size)

    def measure_fft(self, planes: bool, length: int, repeats: int) -> tuple[int, list[float]]:
        return 2, self.of_one("fft", 1e-5, repeats, planes, length)

    def measure_collective(
        self, pattern: str, gpus: int, size: int, methods: list[str], warmup: int, repeats: int
    ) -> list[tuple[str, list[float], list[float], int]]:
        self.collectives.append((pattern, gpus, size, methods, warmup, repeats))
        if self.crash in methods:
            raise DeviceError("ncclAllGather failed: CUDA_ERROR_UNKNOWN")
        found = []
        for k, method in enumerate(methods):
            time_s = (gpus - 1) * size / 350e9 + 1e-6 * k
            wrong = self.wrong_bytes.get(method, 0)
            found.append((method, [time_s] * repeats, [1e-6] * repeats, wrong))
        return found

    def measure_relay_cost(
        self,
        size: int,
        to: int,
        method: str,
        kernels: list[int],
        window_s: float,
        warmup: int,
        repeats: int,
    ) -> dict[str, Any]:
        """Return the costs of relays: kernels run at 4/5 of their rate, and messages take 1/4
        longer.
        """
        self.relay_costs.append((size, to, method, kernels, window_s, warmup, repeats))
        if self.crash == "relay":
            raise DeviceError("a kernel beside copies ran into its deadline")
        rates = [2e12 if f"gpu{gpu}" in method else 2.5e12 for gpu in kernels]
        return {
            "alone_bytes_per_s": [[2.5e12] * repeats for _ in kernels],
            "beside_bytes_per_s": [[rate] * repeats for rate in rates],
            "message_alone_s": [size / 150e9] * repeats,
            "message_beside_s": [size / 120e9] * repeats,
            "relayed": size >= 1 << 20,
            "wrong": self.wrong_bytes.get("relay", 0),
        }

    def copy_time_s(self, messages: list[tuple[int, int]], size: int, method: str) -> float:
        """Return the time of a copy.

        GPU paths make host copies three times as fast, and the host path makes GPU copies 1.5 times
        as fast. Each chunk costs time.
        """
        of_host = any(-1 in pair for pair in messages)
        direct = 10e-6 + len(messages) * size / (50e9 if of_host else 400e9)
        if method == "memcpy":
            return direct
        words = dict(word.split("=") for word in method.split() if "=" in word)
        executor = words.get("INTERLACE_COPY", method)
        relays = words.get("INTERLACE_COPY_RELAYS", "gpu0,gpu1,gpu2,gpu3,host")
        chunks = int(words.get("INTERLACE_COPY_CHUNKS", "8"))
        gain = 1.0
        if of_host and "gpu" in relays:
            gain = 3.0
        if not of_host and "host" in relays:
            gain = 1.5
        call = 20e-6 if executor == "graphs" else 2e-6 * chunks
        fill = 1 + 1 / chunks
        return 10e-6 + call + (direct - 10e-6) / gain * (fill if gain > 1 else 1)

    def device_info(self) -> dict[str, Any]:
        return {"gpus": self.gpus, "name": "Fake H200", "driver": "580.1", "cuda": "13.0"}

    def run_workload(
        self, name: str, mechanism: str, boundaries: NDArray[np.uint64], iterations: int,
        tolerance: float, *rest: Any, share_gpu: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        how, (warmup, repeats), data = rest[:4], rest[4:6], rest[6:]
        assert mechanism != INFINITE_BANDWIDTH
        assert share_gpu == (boundaries.size - 1 > self.gpus), (
            "share_gpu must be true if there are more devices than GPUs, and false otherwise"
        )
        if mechanism == UNIFIED_MEMORY and boundaries[-1] > self.most_managed:
            raise UserError("unified-memory would take too much")
        assert warmup >= 0
        asked = Asked("cuda", mechanism, boundaries, iterations, tolerance, how)
        result = run_faked(self, name, asked, data)
        wire = result["wire"]
        sent = wire["useful"] + wire["protocol"] + wire["wasted"]
        times = [result["time_s"] * (1 + 0.01 * n) for n in range(repeats)]
        if mechanism == NVSHMEM:
            assert self.rank is not None
            rank, ranks = self.rank
            assert ranks == boundaries.size - 1
            times = [one * (1 - 0.1 * rank) for one in times]  # so that rank 0 is the slowest rank
            sent /= ranks
            result["wire"]["protocol"] /= ranks
            result["values"] = result["values"][rank : rank + 1]
        return result | {
            "wire": None,
            "cpu_s": None,
            "times_s": times,
            "time_s": sorted(times)[repeats // 2],
            "remarks": ["runs on plain streams"] if mechanism == MULTI_PATH else [],
            "raw_tx_bytes": sent * repeats if self.counters and not share_gpu else None,
            "data_tx_bytes": (sent - wire["protocol"]) * repeats
            if self.counters and not share_gpu
            else None,
        }

    def measure_exchange_rate(self, gpus: int, bytes: int, repeats: int) -> dict[str, float]:  # noqa: A002
        assert 2 <= gpus <= self.gpus
        assert bytes > 0
        assert repeats > 0
        self.rates.append(gpus)
        return {"copies_bytes_per_s": self.rate, "stores_bytes_per_s": 0.9 * self.rate}

    def measure_device_rates(self, repeats: int) -> dict[str, float]:
        assert repeats > 0
        self.gpu_rates_measured += 1
        return self.of_gpu

    def measure_overlap(
        self,
        *,
        peers: int,
        bytes: int,  # noqa: A002
        mechanism: str,
        chunk_bytes: int,
        agent_threads: int,
        split_ranges: int,
        variant: str,
        rounds: int,
        epochs: int,
        warmup: int,
        repeats: int,
        deliver: bool,
    ) -> dict[str, Any]:
        asked = peers, bytes, mechanism, chunk_bytes, agent_threads, rounds, deliver, variant
        self.overlaps.append(asked)
        assert peers < self.gpus
        assert epochs > 0
        assert warmup >= 0
        assert 32 <= agent_threads <= 65536
        if self.crash == mechanism:
            raise DeviceError("GPU 1 did not get element 7")
        if variant == "bulk":
            assert mechanism.startswith(POLLING)
            if agent_threads > 8192:
                raise UserError(f"an agent of {agent_threads} threads leaves no place")
        if mechanism == COPY_ENGINE and bytes // chunk_bytes > 250:
            raise UserError(f"chunks of {chunk_bytes} bytes are too small")
        remarks = ["its stores took the host's path"] if mechanism == INLINE else []
        moved = not mechanism.endswith("-without-transfers")
        tracked = 1.01 if not moved and mechanism != "bulk-copy-without-transfers" else 1.0
        mechanism = mechanism.removesuffix("-without-transfers")
        kernel = max(bytes / 4e12, 2e-15 * bytes * rounds) + 5e-6
        transfer = peers * bytes / 400e9
        epoch = {
            BULK_COPY: kernel + transfer,
            SPLIT: max(kernel, transfer) + min(kernel, transfer) / split_ranges,
            INLINE: max(kernel, transfer * 1.25),
            POLLING: (0.97 if variant == "bulk" else 1)
            * (max(kernel, transfer) + chunk_bytes / 400e9 + 1e-3 / agent_threads),
            DEVICE_LAUNCH: kernel + transfer + 1e-3 / agent_threads,
            COPY_ENGINE: max(kernel, transfer) + chunk_bytes / 400e9,
            NCCL: kernel + 0.9 * transfer + PENALTIES.get(variant, 0.0),
        }[mechanism]
        seconds = epoch if deliver and moved else tracked * kernel
        drift = 1 + 0.001 * len(self.overlaps)
        return {
            "epoch_s": [seconds * drift * (1 + 0.01 * n) for n in range(repeats)],
            "remarks": remarks if deliver else [],
        }

    def rmat(self, scale: int, edge_factor: int, seed: int) -> tuple[Any, Any, Any]:
        made = graphs.rmat(scale, edge_factor, seed)
        return made.offsets.astype(np.uint64), made.columns, made.out_degree
