"""A stand-in for the compiled modules: the same functions, right results, times by a formula."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlace import graphs

EDGE_S = 2e-11  # one GPU's time for an edge
BYTE_S = 1 / 25e9
LAUNCH_S = 4e-6


class UsageError(Exception):
    """As the compiled module's."""


class DeviceError(RuntimeError):
    """As the compiled module's."""


class Fake:
    """The functions of `_core` and `_cuda`, with switches for what may go wrong."""

    UsageError = UsageError
    EndpointKind = SimpleNamespace(gpu="gpu", network_switch="network_switch", host="host")
    ProtocolKind = SimpleNamespace(
        **{f"pcie{n}": f"pcie{n}" for n in (3, 4, 5, 6)},
        **{f"nvlink{n}": f"nvlink{n}" for n in (1, 2, 3, 4)},
    )
    Endpoint = Link = Protocol = Switch = SimpleNamespace

    def __init__(self) -> None:
        self.wrong: tuple[str, int, int, int] | None = None  # mechanism, gpus, device, vertex
        self.wrong_by = 1e-3
        self.interrupt: str | None = None  # the mechanism that Ctrl-C hits
        self.crash: str | None = None
        self.usage: str | None = None
        self.sleep_s = 0.0
        self.gpus = 4
        self.counters = True
        self.calls: list[tuple[Any, ...]] = []

    def Machine(self) -> SimpleNamespace:  # noqa: N802
        gpu = SimpleNamespace(
            issue=SimpleNamespace(), l1=SimpleNamespace(), l2=SimpleNamespace(),
            dram=SimpleNamespace(),
        )  # fmt: skip
        return SimpleNamespace(gpu=gpu, host=SimpleNamespace())

    def run_pagerank(self, node: str, machine: Any, *arguments: Any) -> dict[str, Any]:
        assert (machine is None) == (node == "host")
        return self._run(node, *arguments)

    def _run(
        self,
        node: str,
        gpus: int,
        mechanism: str,
        offsets: NDArray[np.uint64],
        columns: NDArray[np.uint32],
        out_degree: NDArray[np.uint32],
        boundaries: NDArray[np.uint64],
        damping: float,
        iterations: int,
        tolerance: float,
        split_ranges: int,
    ) -> dict[str, Any]:
        began = time.process_time()
        self.calls.append((node, gpus, mechanism, iterations, tolerance, split_ranges))
        for array, kind in (
            (offsets, np.uint64), (columns, np.uint32), (out_degree, np.uint32),
            (boundaries, np.uint64),
        ):  # fmt: skip
            assert array.dtype == kind
            assert array.flags.c_contiguous
        assert boundaries.shape == (gpus + 1,)
        time.sleep(self.sleep_s)
        if self.interrupt == mechanism:
            raise KeyboardInterrupt
        if self.crash == mechanism:
            raise DeviceError("GPU 1 has vanished")
        if self.usage is not None:
            raise UsageError(self.usage)

        graph = graphs.Graph("fake", len(out_degree), offsets.astype(np.int64), columns, out_degree)
        exact = graphs.pagerank_reference(
            graph, damping, iterations=iterations, tolerance=tolerance or None
        )
        ranks = np.tile(exact.ranks.astype(np.float32), (gpus, 1))
        if self.wrong is not None and self.wrong[:2] == (mechanism, gpus):
            ranks[self.wrong[2], self.wrong[3]] *= 1 + self.wrong_by

        compute = LAUNCH_S + len(columns) * EDGE_S / gpus
        sent = 4 * graph.rows * (gpus - 1)
        copy = 2e-6 + BYTE_S * sent / gpus if gpus > 1 else 0.0
        overhead = {"inline": 2.5, "infinite-bandwidth": 0.0}.get(mechanism, 1.08) - 1
        exposed, extra = {
            "bulk-copy": (copy, 0.0),
            "split": (copy / split_ranges, LAUNCH_S * (split_ranges - 1) / 4),
            "inline": (0.3 * copy, 0.0),
            "infinite-bandwidth": (0.0, 0.0),
        }[mechanism]
        epoch = compute + exposed + extra
        timeline = []
        for first in (0.0, epoch):
            for device in range(gpus):
                timeline.append(
                    {"device": device, "track": "kernel", "name": "rank_update",
                     "start_s": first, "end_s": first + compute + extra}
                )  # fmt: skip
                for peer in range(gpus if exposed else 0):
                    if peer != device:
                        timeline.append(
                            {"device": device, "track": "copy", "name": f"to GPU {peer}",
                             "start_s": first + compute - copy / 2, "end_s": first + epoch}
                        )  # fmt: skip
        done = exact.iterations
        known = mechanism != "infinite-bandwidth"
        return {
            "time_s": 0.0 if node == "host" else epoch * done,
            "copy_s": copy * done if mechanism == "bulk-copy" else 0.0,
            "iterations": done,
            "residual": exact.residual,
            "ranks": ranks,
            "wire": {
                "useful": 0.95 * sent * done if known else 0.0,
                "protocol": 0.0 if node == "host" or not known else overhead * sent * done,
                "wasted": sent * done - 0.95 * sent * done if known else 0.0,
            },
            "timeline": timeline,
            "accesses": len(columns) * done,
            "remote_transactions": sent // 128 * done,
            "cpu_s": max(1e-6, time.process_time() - began),
        }


class FakeCuda(Fake):
    """`_cuda`."""

    def device_info(self) -> dict[str, Any]:
        return {"gpus": self.gpus, "name": "Fake H200", "driver": "580.1", "cuda": "13.0"}

    def run_pagerank(self, gpus: Any, mechanism: Any, *arguments: Any) -> dict[str, Any]:
        *common, warmup, repeats = arguments
        assert mechanism != "infinite-bandwidth"
        assert warmup >= 0
        result = self._run("cuda", gpus, mechanism, *common)
        wire = result["wire"]
        sent = wire["useful"] + wire["protocol"] + wire["wasted"]
        times = [result["time_s"] * (1 + 0.01 * n) for n in range(repeats)]
        return result | {
            "wire": None,
            "cpu_s": None,
            "times_s": times,
            "time_s": sorted(times)[repeats // 2],
            "raw_tx_bytes": sent * repeats if self.counters else None,
            "data_tx_bytes": (sent - wire["protocol"]) * repeats if self.counters else None,
        }

    def rmat(self, scale: int, edge_factor: int, seed: int) -> tuple[Any, Any, Any]:
        made = graphs.rmat(scale, edge_factor, seed)
        return made.offsets.astype(np.uint64), made.columns, made.out_degree
