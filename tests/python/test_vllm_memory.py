"""Tests the plug-ins for vLLM's sleep mode and offloading. vLLM is too large to run here.

The tests run stand-ins for the names that the plug-ins use. A contract test compares these names
with the source of vLLM.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from fetched import needs_fetching, source
from test_integrations import VLLM, modules, parameters

__all__ = ["modules"]  # a fixture


class Allocation:
    """A stand-in for vLLM's AllocationData."""

    def __init__(self, address: int, size: int, tag: str, gpu: int = 0) -> None:
        self.handle = (gpu, size, address, 7)
        self.tag = tag
        self.is_asleep = False


class Allocator:
    """A stand-in for vLLM's allocator. Its memory has a name instead of bytes."""

    def __init__(self, allocations: list[Allocation]) -> None:
        self.pointer_to_data = {one.handle[2]: one for one in allocations}
        self.memory = {one.handle[2]: f"{one.tag} {one.handle[2]}" for one in allocations}

    def get_instance(self) -> Allocator:
        return self

    def sleep(self, offload_tags: tuple[str, ...]) -> None:
        assert offload_tags == ()
        for address, data in self.pointer_to_data.items():
            data.is_asleep = True
            self.memory[address] = "gone"

    def wake_up(self, tags: list[str] | None) -> None:
        for address, data in self.pointer_to_data.items():
            if data.is_asleep and (tags is None or data.tag in tags or data.tag == "runtime"):
                data.is_asleep = False
                self.memory[address] = "undefined"


class Contents:
    """A stand-in for Interlace's allocator. It works on the memory of the stand-in for vLLM's
    allocator.
    """

    open: ClassVar[list[Contents]] = []

    def __init__(self, allocator: Allocator, ranges: list[tuple[int, int, int]]) -> None:
        self.allocator = allocator
        self.ranges = ranges
        self.kept = {address: allocator.memory[address] for address, _, _ in ranges}
        Contents.open.append(self)

    def restore(self, addresses: list[int]) -> None:
        for address in addresses:
            assert self.allocator.memory[address] == "undefined"
            self.allocator.memory[address] = self.kept[address]

    def close(self) -> None:
        Contents.open.remove(self)


@pytest.fixture
def sleeping(modules: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Allocator]:
    class CuMemBackend:
        def __init__(self) -> None:
            self._state = "RUNNING"

    allocator = Allocator(
        [
            Allocation(1 << 20, 100, "weights"),
            Allocation(2 << 20, 200, "kv_cache"),
            Allocation(3 << 20, 300, "weights", gpu=1),
            Allocation(4 << 20, 400, "runtime"),
        ]
    )
    modules(
        vllm__device_allocator__cumem={"CuMemAllocator": allocator},
        vllm__device_allocator__sleep_mode_backend={"CuMemBackend": CuMemBackend},
    )
    monkeypatch.delitem(sys.modules, "interlace.integrations.vllm_sleep", raising=False)
    module = importlib.import_module("interlace.integrations.vllm_sleep")
    monkeypatch.setattr(module, "Contents", lambda ranges: Contents(allocator, ranges))
    monkeypatch.setattr(Contents, "open", [])
    return module.InterlaceBackend(), allocator


def test_level_1_brings_back_all_but_the_cache(sleeping: tuple[Any, Allocator]) -> None:
    backend, allocator = sleeping
    before = dict(allocator.memory)
    for _ in range(2):
        backend.suspend()
        assert backend._state == "SUSPENDED"
        assert Contents.open[0].ranges == [
            (1 << 20, 100, 0),
            (3 << 20, 300, 1),
            (4 << 20, 400, 0),
        ]
        assert set(allocator.memory.values()) == {"gone"}
        backend.resume()
        assert backend._state == "RUNNING"
        assert allocator.memory == before | {2 << 20: "undefined"}
        assert Contents.open == []


def test_level_2_keeps_no_weights(sleeping: tuple[Any, Allocator]) -> None:
    backend, allocator = sleeping
    backend.suspend(2)
    backend.resume()
    assert list(allocator.memory.values()) == ["undefined"] * 3 + [f"runtime {4 << 20}"]


def test_tags_wake_one_after_the_other(sleeping: tuple[Any, Allocator]) -> None:
    backend, allocator = sleeping
    backend.suspend()
    backend.resume(["weights"])
    assert allocator.memory[1 << 20] == f"weights {1 << 20}"
    assert allocator.memory[2 << 20] == "gone"
    assert Contents.open == []
    backend.suspend()  # the memory of the cache is still parked
    backend.resume(["kv_cache"])
    assert allocator.memory[1 << 20] == "gone"
    assert len(Contents.open) == 1
    backend.resume()
    assert allocator.memory[3 << 20] == f"weights {3 << 20}"
    assert Contents.open == []


def test_memory_that_is_freed_asleep_is_not_brought_back(sleeping: tuple[Any, Allocator]) -> None:
    backend, allocator = sleeping
    backend.suspend()
    del allocator.pointer_to_data[1 << 20], allocator.memory[1 << 20]
    allocator.pointer_to_data[3 << 20] = Allocation(3 << 20, 300, "weights")
    allocator.memory[3 << 20] = "new"
    backend.resume()
    assert allocator.memory[3 << 20] == "new"
    assert allocator.memory[4 << 20] == f"runtime {4 << 20}"
    assert Contents.open == []


def test_too_little_host_memory_leaves_it_awake(
    sleeping: tuple[Any, Allocator], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, allocator = sleeping

    def refuse(_: Any) -> None:
        raise MemoryError("too little")

    monkeypatch.setattr(sys.modules[type(backend).__module__], "Contents", refuse)
    before = dict(allocator.memory)
    with pytest.raises(MemoryError):
        backend.suspend()
    assert (backend._state, allocator.memory) == ("RUNNING", before)


@pytest.mark.parametrize(("pinned", "own"), [(None, True), (True, True), (False, False)])
def test_batches_of_the_cache_are_copied_by_interlace(
    modules: Any, monkeypatch: pytest.MonkeyPatch, pinned: bool | None, own: bool
) -> None:
    copied: list[Any] = []

    class CPUOffloadingSpec:
        def create_worker(self, kv_caches: str) -> Any:
            region = None if pinned is None else SimpleNamespace(is_pinned=pinned)
            names = ("_store_handler", "_load_handler", "_expedited_load_handler")
            handlers = {
                name: SimpleNamespace(
                    _swap_blocks_batch=lambda *_, **__: copied.append("vLLM's own")
                )
                for name in names
            }
            return SimpleNamespace(kv_caches=kv_caches, _mmap_region=region, **handlers)

    modules(vllm__v1__kv_offload__cpu__spec={"CPUOffloadingSpec": CPUOffloadingSpec})
    monkeypatch.delitem(sys.modules, "interlace.integrations.vllm_offload", raising=False)
    module = importlib.import_module("interlace.integrations.vllm_offload")
    monkeypatch.setattr(
        module, "copy_blocks", lambda dst, src, *, sizes: copied.append((dst, src, sizes))
    )
    worker = module.InterlaceSpec().create_worker("caches")
    assert worker.kv_caches == "caches"
    for handler in (worker._store_handler, worker._load_handler, worker._expedited_load_handler):
        handler._swap_blocks_batch("from", "to", "bytes", is_src_access_order_any=True)
    assert copied == [("to", "from", "bytes") if own else "vLLM's own"] * 3


def members(file: Path, name: str) -> set[str]:
    """Return the names that a class or its methods assign to `self`, and the names of its fields
    and methods.
    """
    tree: Any = ast.parse(file.read_text(encoding="utf-8"))
    made = next(one for one in tree.body if getattr(one, "name", None) == name)
    found = {one.name for one in made.body if isinstance(one, ast.FunctionDef)}
    for one in ast.walk(made):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            found.add(one.target.id)
        elif isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
            found.add(one.attr)
    return found


@needs_fetching
def test_vllm_has_what_the_plug_ins_use() -> None:
    root = source(*VLLM) / "vllm"
    sleep = root / "device_allocator/sleep_mode_backend.py"
    cumem = root / "device_allocator/cumem.py"
    assert parameters(sleep, "SleepModeBackendFactory", "register_backend") == [
        "cls",
        "name",
        "module_path",
        "class_name",
    ]
    assert parameters(sleep, "CuMemBackend", "suspend") == ["self", "level"]
    assert parameters(sleep, "CuMemBackend", "resume") == ["self", "tags"]
    assert "_state" in members(sleep, "SleepModeBackend")
    assert 'offload_tags: tuple[str, ...] = ("runtime", "cudagraph")' in sleep.read_text("utf-8")
    assert parameters(cumem, "CuMemAllocator", "sleep") == ["self", "offload_tags"]
    assert parameters(cumem, "CuMemAllocator", "wake_up") == ["self", "tags"]
    assert {"get_instance", "pointer_to_data"} <= members(cumem, "CuMemAllocator")
    data = root / "device_allocator/__init__.py"
    assert {"handle", "tag", "is_asleep"} <= members(data, "AllocationData")
    assert "# py_device, py_size_or_aligned_size, py_ptr, py_handle" in data.read_text("utf-8")

    offload = root / "v1/kv_offload"
    worker = offload / "cpu/gpu_worker.py"
    assert parameters(offload / "cpu/spec.py", "CPUOffloadingSpec", "create_worker") == [
        "self",
        "kv_caches",
    ]
    assert {
        "_mmap_region", "_store_handler", "_load_handler", "_expedited_load_handler"
    } <= members(worker, "CPUOffloadingWorker")  # fmt: skip
    assert "_swap_blocks_batch" in members(worker, "SingleDirectionOffloadingHandler")
    text = worker.read_text("utf-8")
    call = text[text.index("self._swap_blocks_batch(\n") :]
    assert call.split()[1:5] == ["src,", "dst,", "sizes,",
                                 "is_src_access_order_any=is_src_access_order_any,"]  # fmt: skip
    assert "region.is_pinned = True" in text
    assert 'extra_config.get("spec_module_path")' in (offload / "factory.py").read_text("utf-8")
