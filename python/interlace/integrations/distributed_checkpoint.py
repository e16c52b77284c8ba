"""Reads and writes PyTorch's distributed checkpoints (DCP) with Interlace.

    from torch.distributed import checkpoint
    from interlace.integrations.distributed_checkpoint import InterlaceReader, InterlaceWriter

    checkpoint.save(state, storage_writer=InterlaceWriter("folder", save_distributed=True))
    checkpoint.load(state, storage_reader=InterlaceReader("folder"))

Interlace reads and writes the files of DCP's HuggingFaceStorageWriter. These are safetensors files.
Their metadata say where each shard begins.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import hf_storage, metadata
from torch.distributed.checkpoint._hf_utils import (
    CUSTOM_METADATA_KEY,
    DCP_VERSION_KEY,
    FORMAT_KEY,
    FORMAT_VALUE,
    HF_DCP_VERSION,
    SAVED_OFFSETS_KEY,
    SUFFIX,
    _gen_file_name,
    _HFStorageInfo,
)
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from interlace.base.errors import UserError
from interlace.runtime import reading, slices, tensor_memory
from interlace.runtime.checkpoint_files import File, open_each
from interlace.runtime.loading import save
from interlace.runtime.read_errors import naming_tensors
from interlace.runtime.reading import How, Segment, threads_of
from interlace.runtime.safetensors_header import BITS, Entry


class InterlaceReader(hf_storage.HuggingFaceStorageReader):
    """Reads a checkpoint. Each rank reads the bytes of its own shards directly into its tensors."""

    def read_metadata(self) -> Any:
        """Return which tensors the folder has, and which file has each part of a tensor."""
        files = open_each(sorted(Path(self.path).glob("*" + SUFFIX)))
        if not files:
            raise UserError(f"there is no *{SUFFIX} in the folder {self.path}")
        chunks: dict[str, list[Any]] = {}
        types: dict[str, Any] = {}
        storage = {}
        for file in files:
            offsets = _offsets_of(file)
            for entry in file.header.tensors:
                offset = torch.Size(offsets.get(entry.name, [0] * len(entry.shape)))
                shape = torch.Size(entry.shape)
                dtype = getattr(torch, tensor_memory.TORCH.get(entry.dtype, ""), None)
                if dtype is None or types.setdefault(entry.name, dtype) != dtype:
                    raise UserError(
                        f"{file.name}: tensor {entry.name!r} cannot be read as {entry.dtype}; "
                        "either this PyTorch lacks this dtype, or other parts of the tensor have "
                        "another dtype"
                    )
                chunk = metadata.ChunkStorageMetadata(offsets=offset, sizes=shape)
                chunks.setdefault(entry.name, []).append(chunk)
                index = metadata.MetadataIndex(fqn=entry.name, offset=offset)
                storage[index] = _HFStorageInfo(file.name, shape, dtype)
        tensors = {
            name: metadata.TensorStorageMetadata(
                properties=metadata.TensorProperties(dtype=types[name]),
                size=_size_of(parts),
                chunks=parts,
            )
            for name, parts in chunks.items()
        }
        found = metadata.Metadata(state_dict_metadata=tensors, storage_data=storage)
        found.storage_meta = metadata.StorageMeta(load_id=self.load_id)
        return found

    def read_data(self, plan: Any, planner: Any) -> Any:
        """Read the items of this rank's plan."""
        per_file: dict[str, list[Any]] = {}
        for item in plan.items:
            name = self.storage_data[item.storage_index].relative_path
            per_file.setdefault(str(Path(self.path) / name), []).append(item)
        files = open_each(map(Path, per_file))
        filled: list[
            tuple[Any, Any, Any]
        ] = []  # each entry has the item, its tensor, and the place of the tensor's bytes
        segments: list[Segment] = []
        gpus: set[int] = set()
        for number, (file, items) in enumerate(zip(files, per_file.values(), strict=True)):
            entries = {entry.name: entry for entry in file.header.tensors}
            for item in items:
                target = planner.resolve_tensor(item).detach()
                place = _place_of(target)
                segments += _segments(file, number, entries, item, place, len(filled))
                filled.append((item, target, place))
                if place.is_cuda:
                    gpus.add(place.device.index)
        for gpu in gpus:
            tensor_memory.synchronize("torch", gpu)
        with naming_tensors(files):
            reading.move_from(files, segments, gpus, How(threads_of(None)))
        for item, target, place in filled:
            if place is not target:
                target.copy_(place)
            planner.commit_tensor(item, target)
        return _done(None)


class InterlaceWriter(hf_storage.HuggingFaceStorageWriter):
    """Writes a checkpoint. Each file is complete and on the disk, or absent."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Write the items of this rank's plan."""
        if not plan.items:
            return _done([])
        files = plan.storage_data.get("fqn_to_index_mapping")
        shard = plan.storage_data.get("shard_index")
        highest = max(files.values()) if files is not None else 1
        results = []
        for number, items in self._split_by_storage_plan(files, plan.items).items():
            name = _gen_file_name(number, highest, shard)
            results += _write(Path(self.path) / name, name, items, planner)
        return _done(results)


def _write(path: Path, name: str, items: list[Any], planner: Any) -> list[Any]:
    tensors: dict[str, Any] = {}
    offsets: dict[str, Any] = {}
    results = []
    for item in items:
        fqn = item.index.fqn
        if item.type == WriteItemType.BYTE_IO:
            raise UserError(
                f"{path}: {fqn!r} is not a tensor, and safetensors files hold only tensors"
            )
        if fqn in tensors:
            raise UserError(
                f"{path}: this rank has several parts of tensor {fqn!r}, but a file can have only "
                "one part of a tensor"
            )
        tensor = planner.resolve_data(item).detach().contiguous()
        tensors[fqn] = tensor
        if item.tensor_data is not None:
            offsets[fqn] = {SAVED_OFFSETS_KEY: list(item.tensor_data.chunk.offsets)}
        size = tensor.numel() * tensor.element_size()
        results.append(WriteResult(item.index, size, _StorageInfo(name, 0, size)))
    texts = {
        CUSTOM_METADATA_KEY: json.dumps(offsets),
        DCP_VERSION_KEY: str(HF_DCP_VERSION),
        FORMAT_KEY: FORMAT_VALUE,
    }
    save(tensors, path, metadata=texts)
    return results


def _done(result: Any) -> Any:
    future: Any = Future()
    future.set_result(result)
    return future


def _offsets_of(file: File) -> dict[str, list[int]]:
    """Return where the part of each tensor in this file begins, by the tensor's name."""
    text = file.header.metadata.get(CUSTOM_METADATA_KEY)
    if text is None:
        return {}
    shapes = {entry.name: entry.shape for entry in file.header.tensors}
    try:
        found = {name: noted[SAVED_OFFSETS_KEY] for name, noted in json.loads(text).items()}
        for name, offset in found.items():
            if len(offset) != len(shapes[name]) or not all(
                type(k) is int and k >= 0 for k in offset
            ):
                raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UserError(
            f"{file.name}: its metadata, {CUSTOM_METADATA_KEY}, does not say where each part begins"
        ) from None
    return found


def _size_of(parts: list[Any]) -> Any:
    ends = [[a + b for a, b in zip(part.offsets, part.sizes, strict=True)] for part in parts]
    if len({len(end) for end in ends}) != 1:
        raise UserError("parts of one tensor have different numbers of dimensions")
    return torch.Size(max(end) for end in zip(*ends, strict=True))


def _place_of(target: Any) -> Any:
    """Return contiguous memory for the bytes of a target, if possible the target's own memory."""
    if target.is_contiguous() and target.device.type in ("cpu", "cuda"):
        return target
    on_gpu = target.device.type == "cuda"
    return torch.empty(target.shape, dtype=target.dtype, device=target.device if on_gpu else "cpu")


def _segments(
    file: File, number: int, entries: dict[str, Entry], item: Any, place: Any, tensor: int
) -> list[Segment]:
    """Return the bytes of the file that an item of a plan needs, and their destination."""
    entry = entries[item.storage_index.fqn]
    index = tuple(
        slice(begin, begin + size)
        for begin, size in zip(item.storage_offsets, item.lengths, strict=True)
    )
    width = BITS[entry.dtype] // 8
    if not width:
        raise UserError(
            f"{file.name}: tensor {entry.name!r}: DCP cannot take parts of {entry.dtype}"
        )
    wanted = getattr(torch, tensor_memory.TORCH[entry.dtype])
    if place.dtype != wanted or list(place.shape) != list(item.lengths):
        raise UserError(
            f"{file.name}: tensor {entry.name!r} is {wanted} of shape {list(item.lengths)}, but "
            f"the tensor to load into is {place.dtype} of shape {list(place.shape)}"
        )
    part = slices.part_of(index, entry.shape, width, gap=1)
    begin = file.header.data_begin + entry.begin
    gpu = place.device.index if place.is_cuda else -1
    return [
        (number, begin + run, part.run_bytes, place.data_ptr() + k * part.run_bytes, gpu, tensor)
        for k, run in enumerate(part.runs)
    ]
