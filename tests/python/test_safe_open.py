"""Tests `interlace.safe_open` and `interlace.stream` in host memory, and the folders that these
functions read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace
from interlace import UserError
from interlace.runtime import arrivals, reading, safetensors_header, slices

Array = np.ndarray[Any, Any]
INDEX = "model.safetensors.index.json"


def tensors() -> dict[str, Array]:
    random = np.random.default_rng(5)
    return {
        "wide": random.standard_normal((300, 5000), np.float32),
        "deep": random.integers(0, 99, (5, 4, 3, 2), np.int64),
        "scalar": np.array(2.5),
        "empty": np.zeros((0, 7), np.int16),
    }


def shards(folder: Path, parts: dict[str, dict[str, Array]], **more: Any) -> Path:
    """Make a folder with several checkpoint files and their index. Return the folder."""
    folder.mkdir(exist_ok=True)
    for file, part in parts.items():
        interlace.save(part, folder / file, metadata={"format": "np", "file": file})
    named = {name: file for file, part in parts.items() for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {"a": 1}, "weight_map": named | more}))
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    interlace.save(tensors(), tmp_path / "m.safetensors", metadata={"format": "np"})
    return tmp_path / "m.safetensors"


def refusal(action: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        action(*arguments, **options)
    return str(caught.value)


def bytes_read() -> int:
    """Return how many bytes this process has read with system calls."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize("framework", ["np", "numpy", "pt", "torch"])
def test_what_a_file_has(file: Path, framework: str) -> None:
    if framework in ("pt", "torch"):
        pytest.importorskip("torch")
    expected = tensors()
    with interlace.safe_open(file, framework=framework) as f:
        assert f.keys() == sorted(expected)
        assert sorted(f.offset_keys()) == f.keys()
        assert f.metadata() == {"format": "np"}
        for name, values in expected.items():
            found = f.get_tensor(name)
            assert tuple(found.shape) == values.shape
            assert np.array_equal(np.asarray(found), values)
            meta, part = f.get_tensor_meta(name), f.get_slice(name)
            assert part.get_shape() == meta.shape == list(values.shape)
            assert part.get_dtype() == meta.dtype
            assert meta.data_offsets[1] - meta.data_offsets[0] == values.nbytes
        every = f.get_tensors()
        assert all(np.array_equal(np.asarray(every[name]), expected[name]) for name in expected)
        cut = np.asarray(f.get_slice("deep")[1:4, -1, ::2])
        assert np.array_equal(cut, expected["deep"][1:4, -1, ::2])
    assert refusal(f.keys) == "File is closed"
    assert refusal(f.get_tensor, "deep") == "File is closed"


def test_a_slice_reads_only_its_bytes(file: Path) -> None:
    wide = tensors()["wide"]
    row = wide[0].nbytes
    with interlace.safe_open(file, "np") as f:
        part = f.get_slice("wide")
        for index, most in (
            (np.s_[10:20], 10 * row),
            (np.s_[:, 1000:2000], 300 * 4000),
            (np.s_[7], row),
            (np.s_[::100, 5], 3 * 4),
            (np.s_[0:0], 0),
        ):
            before = bytes_read()
            itself = bytes_read() - before
            before = bytes_read()
            found = part[index]
            assert bytes_read() - before - itself == most
            assert np.array_equal(found, wide[index])
            assert found.flags.c_contiguous


def test_what_cannot_be_asked_for(file: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory: gone") as caught:
        interlace.safe_open("gone", "np")
    assert isinstance(caught.value, UserError)
    assert "no framework 'flax' here; give pt, np or cupy" in refusal(
        interlace.safe_open, file, "flax"
    )
    assert "backend 'x' is not one of" in refusal(interlace.safe_open, file, "np", backend="x")
    assert "'tpu' is not a device" in refusal(interlace.safe_open, file, "np", "tpu")
    assert "NumPy has no arrays on GPUs" in refusal(interlace.safe_open, file, "np", "cuda:0")
    with interlace.safe_open(file, "np") as f:
        assert refusal(f.get_tensor, "x") == f"{file} does not contain tensor 'x'"
        assert "out of bounds" in refusal(f.get_slice("wide").__getitem__, slice(0, 301))
        assert 'give framework="pt"' in refusal(f.prefetch)


def test_wrong_rows_of_a_plan_are_told_as_safetensors_tells_them() -> None:
    # The tests of safetensors compare these words. Those tests must be fetched, so few runs include
    # them.
    assert "is 0-d" in refusal(slices.rows_of, "scalar", slice(0, 1), ())
    assert "step 1" in refusal(slices.rows_of, "wide", slice(0, 3, 2), (3,))


def test_errors_are_those_of_safetensors_too(file: Path) -> None:
    theirs = pytest.importorskip("safetensors")
    with interlace.safe_open(file, "np") as f, pytest.raises(theirs.SafetensorError):
        f.get_tensor("x")


def test_a_folder_with_an_index(tmp_path: Path) -> None:
    every = tensors()
    parts = {
        "b.safetensors": {name: every[name] for name in ("wide", "scalar")},
        "a.safetensors": {name: every[name] for name in ("deep", "empty")},
    }
    folder = shards(tmp_path / "model", parts)
    interlace.save({"other": every["deep"]}, folder / "not-in-the-index.safetensors")
    for path in (folder, folder / INDEX):
        found = interlace.load(path, framework="numpy")
        assert set(found) == set(every)
        assert all(np.array_equal(found[name], every[name]) for name in every)
        with interlace.safe_open(path, "np") as f:
            assert f.keys() == sorted(every)
            assert f.metadata() == {"format": "np"}
            assert np.array_equal(f.get_slice("wide")[3:5], every["wide"][3:5])
            assert np.array_equal(f.get_tensor("deep"), every["deep"])
        streamed = dict(interlace.stream(path, framework="numpy"))
        assert list(streamed) == list(found)
        assert all(np.array_equal(streamed[name], every[name]) for name in every)


def test_a_download_cache_has_links(tmp_path: Path) -> None:
    parts = {"a.safetensors": tensors()}
    folder = shards(tmp_path / "snapshot", parts)
    (tmp_path / "repo" / "blobs").mkdir(parents=True)
    (tmp_path / "repo" / "snapshots").mkdir()
    blob = tmp_path / "repo" / "blobs" / "0123"
    (folder / "a.safetensors").rename(blob)
    kept = tmp_path / "repo" / "snapshots" / "rev"
    folder.rename(kept)
    (kept / "a.safetensors").symlink_to("../../blobs/0123")
    assert set(interlace.load(kept, framework="numpy")) == set(tensors())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", " is no index: it is not an object of JSON"),
        ("{", " is not JSON at byte 1: there is no"),
        ("{}", " is no index: it has no weight_map that names a file"),
        ('{"weight_map":[]}', ": its weight_map is not an object"),
        ('{"weight_map":{"x":1}}', ": tensor 'x' has no name of a file"),
        ('{"weight_map":{"x":"../m"}}', ": tensor 'x' is in the file '../m', which is not in the"),
        ('{"weight_map":{"x":"/etc/passwd"}}', ": tensor 'x' is in the file '/etc/passwd', which"),
        ('{"weight_map":{"x":"a/../../m"}}', ": tensor 'x' is in the file 'a/../../m', which is"),
        ('{"weight_map":{"x":""}}', ": tensor 'x' is in the file '', which is not in the folder"),
        ('{"weight_map":{"x":"m","x":"n"}}', ": tensor 'x' occurs twice"),
        ('{"weight_map":{},"weight_map":{}}', ": 'weight_map' occurs twice"),
        ('{"weight_map":{"x":"gone"}}', ": the file 'gone' of tensor 'x' cannot be read: No such"),
        ('{"weight_map":{"x":"out"}}', ": the file 'out' of tensor 'x' is a link to"),
        ('{"weight_map":{"x":"m.safetensors"}}', ": tensor 'x' is not in m.safetensors; no file"),
    ],
)
def test_an_index_that_lies(file: Path, text: str, message: str) -> None:
    folder = file.parent
    (folder.parent / "outside").write_bytes(file.read_bytes())
    (folder / "out").symlink_to(folder.parent / "outside")
    (folder / INDEX).write_text(text)
    for action in (interlace.load, interlace.stream):
        said = refusal(action, folder, framework="numpy")
        assert said.startswith(f"{folder / INDEX}{message}")
    assert refusal(interlace.safe_open, folder, "np").startswith(f"{folder / INDEX}{message}")


def test_tensors_of_several_files(tmp_path: Path) -> None:
    every = tensors()
    twice = {"a.safetensors": every, "b.safetensors": {"deep": every["deep"]}}
    said = refusal(interlace.load, shards(tmp_path / "twice", twice), framework="numpy")
    assert "tensor 'deep' is in" in said
    assert "b.safetensors" in said
    swapped = shards(
        tmp_path / "swapped",
        {"a.safetensors": {"x": every["deep"]}, "b.safetensors": {"y": every["deep"]}},
        x="b.safetensors",
    )
    said = refusal(interlace.load, swapped, framework="numpy")
    assert said.startswith(f"{swapped / INDEX}: tensor 'x' is not in b.safetensors; ")
    (swapped / f"second{INDEX}").write_text("{}")
    assert "has several indexes" in refusal(interlace.load, swapped, framework="numpy")


def test_a_stream_waits_for_its_caller(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, begin, begun = tensors(), reading.begin, []

    def counted(reader: Any, files: Any, batch: Any, framework: str) -> Any:
        begun.append([one.entry.name for one in batch])
        return begin(reader, files, batch, framework)

    monkeypatch.setattr(reading, "begin", counted)
    stream = interlace.stream(file, framework="numpy", ahead=1)
    found = {}
    for name, tensor in stream:
        assert len(begun) <= len(found) + 2  # the empty tensor takes no room
        found[name] = tensor
    assert list(found) == [entry for batch in begun for entry in batch]
    # The reader reads one tensor at a time, because there is no room for a second tensor.
    assert all(len(batch) == 1 for batch in begun[:-1])
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    only = interlace.stream(file, framework="numpy", only=lambda name: name == "deep")
    assert list(dict(only)) == ["deep"]
    assert refusal(interlace.stream, file, ahead=0) == "ahead=0: give at least 1 byte"


def held() -> tuple[int, int]:
    """Return the number of descriptors and the number of threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))  # noqa: PTH208


def test_a_stream_that_ends_early(file: Path) -> None:
    before = held()
    for _ in interlace.stream(file, framework="numpy", ahead=1):
        break
    stream = interlace.stream(file, framework="numpy", ahead=1)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert held() == before


def test_a_file_that_shrinks_while_it_is_streamed(file: Path) -> None:
    before = held()
    stream = interlace.stream(file, framework="numpy", ahead=1)
    os.truncate(file, 4321)
    assert "was truncated while it was read" in refusal(dict, stream)
    assert held() == before


def test_a_loader_hands_out_each_tensor_once(file: Path) -> None:
    expected = tensors()
    with interlace.safe_open(file, "np") as f:
        wanted = f._planned({"wide": slice(2, 4), "deep": None, "scalar": None})
        arrived = arrivals.Arrivals(f._files, wanted, "numpy", reading.How(2))
        loader = interlace.PrefetchLoader(arrived, wanted)
    assert len(loader) == 3
    assert loader.names() == [one.entry.name for one in wanted]
    with loader:
        assert np.array_equal(loader.take("wide"), expected["wide"][2:4])
        assert "was already delivered" in refusal(loader.take, "wide")
        assert "is not in the prefetch plan" in refusal(loader.take, "empty")
        found = dict(loader)
        assert set(found) == {"deep", "scalar"}
        assert dict(loader) == {}
    assert "closed" in refusal(loader.take, "wide")
    assert "closed" in refusal(dict, loader)


def test_a_tensor_beyond_the_bytes_that_wait(file: Path) -> None:
    with interlace.safe_open(file, "np") as f:
        wanted = f._planned(None)
        arrived = arrivals.Arrivals(f._files, wanted, "numpy", reading.How(1), ahead=1)
    last = wanted[-1].entry.name
    assert np.array_equal(arrived.take(last), tensors()[last])
    arrived.close()


def test_elements_that_are_not_whole_bytes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "f4.safetensors"
    head, _ = safetensors_header.lay_out({"x": ("F4", (4, 8)), "y": ("F4", (6,))}, {})
    file.write_bytes(head + bytes(range(19)))
    with interlace.safe_open(file, "pt") as f:
        rows = f.get_slice("x")[1:3]
        assert rows.shape == (2, 4)
        assert rows.view(torch.uint8).flatten().tolist() == list(range(4, 12))
        assert f.get_slice("x")[...].shape == (4, 4)
        said = refusal(f.get_slice("x").__getitem__, (slice(None), 1))
        assert "give a slice of the first dimension; elements of F4 are not whole bytes" in said
        assert "tensor 'y'" in refusal(f.get_slice("y").__getitem__, slice(0, 2))
