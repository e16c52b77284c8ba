"""Tests the plug-in for PyTorch's distributed checkpoint, in one process and in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fetched
import interlace
from interlace import UserError

torch = fetched.torch()
checkpoint = pytest.importorskip("torch.distributed.checkpoint.hf_storage")
plug_in = pytest.importorskip("interlace.integrations.distributed_checkpoint")
dcp = pytest.importorskip("torch.distributed.checkpoint")

RANK = Path(__file__).with_name("fake_dcp_rank.py")


def state() -> dict[str, Any]:
    return {
        "weight": torch.arange(60, dtype=torch.float32).reshape(6, 10),
        "step": torch.tensor(7),
        "half": torch.ones(4, 4, dtype=torch.float16),
        "across": torch.arange(20.0).reshape(4, 5).t(),  # this tensor is not contiguous
    }


def test_one_process(tmp_path: Path) -> None:
    saved = state()
    dcp.save(saved, storage_writer=plug_in.InterlaceWriter(str(tmp_path)), no_dist=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "model-00001-of-00001.safetensors",
        "model.safetensors.index.json",
    ]
    found = interlace.load(tmp_path, framework="torch")  # the folder is also an ordinary checkpoint
    assert all(torch.equal(found[name], saved[name]) for name in saved)
    for reader in (plug_in.InterlaceReader, checkpoint.HuggingFaceStorageReader):
        read = {name: torch.zeros_like(tensor) for name, tensor in saved.items()}
        dcp.load(read, storage_reader=reader(str(tmp_path)), no_dist=True)
        assert all(torch.equal(read[name], saved[name]) for name in saved)


def test_files_by_an_index(tmp_path: Path) -> None:
    saved = state()
    mapping = {"weight": 1, "step": 2, "half": 2, "across": 1}
    writer = plug_in.InterlaceWriter(str(tmp_path), fqn_to_index_mapping=mapping)
    dcp.save(saved, storage_writer=writer, no_dist=True)
    found = interlace.load(tmp_path, framework="torch")
    assert all(torch.equal(found[name], saved[name]) for name in saved)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_what_cannot_be_saved_or_loaded(tmp_path: Path) -> None:
    def save(values: dict[str, Any]) -> None:
        dcp.save(values, storage_writer=plug_in.InterlaceWriter(str(tmp_path)), no_dist=True)

    def load(values: dict[str, Any]) -> None:
        dcp.load(values, storage_reader=plug_in.InterlaceReader(str(tmp_path)), no_dist=True)

    with pytest.raises(dcp.CheckpointException, match="'text' is not a tensor"):
        save({"text": "abc"})
    with pytest.raises(UserError, match=r"there is no \*.safetensors in the folder"):
        plug_in.InterlaceReader(str(tmp_path)).read_metadata()
    save({"x": torch.zeros(3)})
    with pytest.raises(dcp.CheckpointException, match=r"is torch.float32 of shape \[3\], but the"):
        load({"x": torch.zeros(3, dtype=torch.int32)})
    file = tmp_path / "model-00001-of-00001.safetensors"
    interlace.save({"x": torch.zeros(3)}, file, metadata={"DCP_SHARDING_INFO": '{"x":{}}'})
    with pytest.raises(UserError, match="does not say where each part begins"):
        plug_in.InterlaceReader(str(tmp_path)).read_metadata()


def ranks(count: int, meeting: Path, *words: str) -> None:
    """Run the ranks of a program, and wait until they have ended."""
    started = [
        subprocess.Popen(
            [sys.executable, str(RANK), str(rank), str(count), str(meeting), *words],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        said = [one.communicate(timeout=300)[1] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0] * count, "\n".join(said)


@pytest.mark.parametrize(("writer", "reader"), [("interlace", "torch"), ("torch", "interlace")])
def test_several_ranks(tmp_path: Path, writer: str, reader: str) -> None:
    """Two ranks save tensors that are cut by rows, and three ranks load them cut by columns.

    Either the saving program or the loading program uses DCP's own code.
    """
    folder = tmp_path / "saved"
    ranks(2, tmp_path / "first", str(folder), "0", writer, "save")
    assert len(list(folder.glob("shard-*.safetensors"))) == 2
    ranks(3, tmp_path / "second", str(folder), "1", reader, "load")
