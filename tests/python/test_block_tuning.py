"""Tests `interlace tune blocks` without a GPU: the times that it fits, its file and its output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlace.base.errors import UserError
from interlace.tuning import block_tuning
from interlace.tuning.block_tuning import SIZES, WAYS, Time, batch_sizes, default_path, fitted
from study_helpers import Run

MODEL = "NVIDIA H200"


class Gpu:
    model = MODEL
    waited = 0

    @contextmanager
    def memory(self, size: int) -> Iterator[tuple[int, int]]:
        yield 1 << 40, (1 << 40) + size

    @contextmanager
    def stream(self) -> Iterator[Any]:
        yield SimpleNamespace(device=SimpleNamespace(index=0), cuda_stream=1)

    def wait(self, _stream: Any) -> None:
        self.waited += 1


def test_two_batches_give_the_start_and_the_time_of_a_block() -> None:
    assert fitted((16, 20e-6), (1016, 120e-6)) == Time(18400, 100000)
    assert fitted((1, 2e-6), (2, 1e-6)) == Time(2000, 0)  # noise must not make a time negative
    assert fitted((1, 1e-6), (2, 9e-6)) == Time(0, 8000000)
    for size in SIZES:
        few, many = batch_sizes(size)
        assert 1 <= few < many <= 1024


def test_the_profile_is_where_batches_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run
) -> None:
    asked = []

    def copy_blocks(to: Any, source: Any, *, sizes: int, stream: Any, only: str) -> str:
        assert len(to) == len(source) == len(set(to.tolist()))
        assert (
            int(to.max()) + sizes <= (1 << 40) + 2 * block_tuning.SPREAD * block_tuning.MOST_BYTES
        )
        assert stream.device.index == 0
        if only == "driver-batch" and to[0] < source[0]:
            raise UserError("the driver has no cuMemcpyBatchAsync")
        asked.append(only)
        return only

    monkeypatch.setattr(block_tuning, "_Gpu", Gpu)
    monkeypatch.setattr(block_tuning, "copy_blocks", copy_blocks)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    code, output, _ = run("tune", "blocks", "-n", "1")
    assert code == 0
    path = tmp_path / "interlace" / "profiles" / "blocks-nvidia-h200.json"
    assert default_path(MODEL) == path
    assert str(path) in output
    found = json.loads(path.read_text())
    assert (found["kind"], found["format"]) == ("interlace block profile", 1)
    assert found["machine"] == {"model": MODEL}
    for name, ways in (("host-to-gpu", WAYS), ("gpu-to-host", ("kernel", "copies"))):
        assert [one["bytes"] for one in found["directions"][name]] == list(SIZES)
        assert {tuple(one["ways"]) for one in found["directions"][name]} == {tuple(ways)}
    assert set(asked) == set(WAYS)


def test_without_a_driver_one_sentence_says_so(run: Run) -> None:
    try:
        block_tuning._Gpu()
    except UserError:
        code, _, error = run("tune", "blocks")
        assert code == 2
        assert "tune blocks measures" in error
    else:
        pytest.skip("there is a GPU")
