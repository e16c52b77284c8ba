"""Compares `interlace.load` and `interlace.save` in host memory with safetensors' own reader."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interlace
from interlace import _core
from interlace.base.errors import UserError
from interlace.runtime import placement, reading, safetensors_header, tensor_memory

reference = pytest.importorskip("safetensors.numpy")

DTYPES = list(tensor_memory.NUMPY.values())


def array(seed: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    raw = random.integers(0, 2 if dtype == "bool" else 256, (*shape, np.dtype(dtype).itemsize))
    return raw.astype(np.uint8).view(dtype).reshape(shape)


def model(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    made = {f"layer.{k}.{t}": array(seed + k, t, (k, 7, 3)) for k, t in enumerate(DTYPES)}
    made["scalar"] = array(seed, "float32", ())
    # This tensor is so large that it is loaded in several pieces.
    made["wide"] = array(seed, "float16", (1 << 19, 3))
    made["ünïcode \n"] = array(seed, "uint8", (0, 5))
    return made


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return set(one) == set(other) and all(
        (a := one[name]).dtype == (b := other[name]).dtype
        and a.shape == b.shape
        and a.tobytes() == b.tobytes()
        for name in one
    )


def load(paths: Any, device: Any = "cpu", **options: Any) -> dict[str, Any]:
    return interlace.load(paths, device, framework="numpy", **options)


def refusal(action: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        action(*arguments, **options)
    return str(caught.value)


def test_as_safetensors_reads_and_writes_it(tmp_path: Path) -> None:
    tensors, file = model(), tmp_path / "m.safetensors"
    interlace.save(tensors, file, metadata={"format": "np"})
    assert file.read_bytes() == reference.save(tensors, metadata={"format": "np"})
    read = load(file)
    assert equal(read, tensors)
    assert equal(read, reference.load_file(file))
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 9), max_size=3)),
        max_size=6,
    ),
    st.booleans(),
    st.integers(1, 5),
)
def test_any_tensors_come_back(
    tmp_path: Path, specs: dict[str, tuple[str, list[int]]], checksums: bool, threads: int
) -> None:
    tensors = {name: array(k, t, tuple(s)) for k, (name, (t, s)) in enumerate(specs.items())}
    file = tmp_path / "any.safetensors"
    interlace.save(tensors, file, checksums=checksums, threads=threads)
    assert equal(reference.load_file(file), tensors)
    read = load(file, verify=checksums, threads=threads)
    assert equal(read, tensors)
    for tensor in read.values():
        assert tensor.flags.aligned


def test_a_file_that_safetensors_laid_out_unaligned(tmp_path: Path) -> None:
    file = tmp_path / "u.safetensors"
    text = b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
    text += b'"b":{"dtype":"F64","shape":[2],"data_offsets":[3,19]}}'
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(range(19)))
    read = load(file)
    assert equal(read, reference.load_file(file))
    assert read["b"].ctypes.data % 8 == 0


def test_several_files_and_a_folder(tmp_path: Path) -> None:
    parts = [{f"{n}.{k}": array(k, "int32", (50, k)) for k in range(9)} for n in "ab"]
    for number, part in enumerate(parts):
        interlace.save(part, tmp_path / f"m-{number}.safetensors")
    (tmp_path / "config.json").write_text("{}")
    every = parts[0] | parts[1]
    files = sorted(tmp_path.glob("*.safetensors"))
    assert equal(load(files), every)
    assert equal(load(str(tmp_path)), every)
    assert "tensor 'a.0' is in" in refusal(load, [files[0], _copy(files[0])])
    assert "is given twice" in refusal(load, [files[1], files[1]])


def _copy(file: Path) -> Path:
    other = file.with_name("copy.safetensors")
    other.write_bytes(file.read_bytes())
    return other


def test_the_memory_lives_as_long_as_a_tensor(tmp_path: Path) -> None:
    interlace.save(model(), tmp_path / "m.safetensors")
    read = load(tmp_path / "m.safetensors")
    kept = read["wide"]
    base = weakref.ref(kept.base)
    expected = kept.tobytes()
    del read
    gc.collect()
    assert kept.tobytes() == expected
    del kept
    gc.collect()
    assert base() is None


def test_progress_is_told(tmp_path: Path) -> None:
    tensors, told = model(), []
    size = sum(t.nbytes for t in tensors.values())
    file = tmp_path / "m.safetensors"
    interlace.save(tensors, file, progress=lambda *now: told.append(now))
    assert told[-1] == (size, size)
    load(file, progress=lambda *now: told.append(now), threads=1)
    assert told[-1] == (size, size)

    def stop(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(file, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        interlace.save(tensors, file, progress=stop)
    assert equal(load(file), tensors)  # the file is unchanged
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_damage_is_found(tmp_path: Path) -> None:
    tensors, file = model(), tmp_path / "m.safetensors"
    interlace.save(tensors, file, checksums=True)
    assert equal(load(file, verify=True), tensors)
    entry = safetensors_header.lay_out({"wide": ("F16", (1 << 19, 3))}, {})[1][0]
    whole = bytearray(file.read_bytes())
    data_begin = 8 + int.from_bytes(whole[:8], "little")
    at = whole.index(tensors["wide"].tobytes()[:64], data_begin) + entry.end - 1
    whole[at] ^= 16
    file.write_bytes(whole)
    load(file)
    text = refusal(load, file, verify=True)
    good = _core.crc32c(tensors["wide"].tobytes())
    assert text.startswith(f"{file}: tensor 'wide' is damaged; the CRC-32C of its bytes is ")
    assert text.endswith(f"but {good:08x} was saved")
    interlace.save(tensors, file)
    assert "has no checksums to verify" in refusal(load, file, verify=True)
    interlace.save(tensors | {"more": tensors["wide"]}, file)
    file.write_bytes(
        file.read_bytes().replace(b'{"', b'{"__metadata__":{"interlace.crc32c":"[]"},"', 1)
    )
    whole = file.read_bytes()
    text_bytes = int.from_bytes(whole[:8], "little") + len(
        b'"__metadata__":{"interlace.crc32c":"[]"},'
    )
    file.write_bytes(text_bytes.to_bytes(8, "little") + whole[8:])
    assert "is not a checksum for each tensor" in refusal(load, file, verify=True)


@pytest.mark.parametrize("ring", [5, (1,), ("a", "b"), (3, 4096.0), "ab"])
def test_a_ring_of_another_form_is_refused(tmp_path: Path, ring: Any) -> None:
    interlace.save(model(), tmp_path / "m.safetensors")
    said = refusal(load, tmp_path / "m.safetensors", ring=ring)
    assert said == f"ring={ring!r}: give the number of slots and the bytes of a slot"


def test_files_that_cannot_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    assert refusal(load, file) == f"{file} cannot be read: No such file or directory"
    assert refusal(load, []) == "no file to load was given"
    assert refusal(load, tmp_path) == f"there is no *.safetensors in the folder {tmp_path}"
    assert "null" in refusal(load, "a\0b")
    assert refusal(load, "x" * 5000).endswith(" cannot be opened: File name too long")
    os.mkfifo(file)
    assert refusal(load, file) == f"{file} is not a regular file; give a regular file"
    file.unlink()
    assert "is not a regular file" in refusal(load, "/dev/null")
    interlace.save(model(), file)
    whole = file.read_bytes()
    for size in (0, 5, 100, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert str(file) in refusal(load, file)
    file.write_bytes(whole + b"\0")
    assert "1 bytes after the last tensor" in refusal(load, file)


def test_a_file_that_is_cut_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.safetensors"
    interlace.save(model(), file)
    begin = reading.reader_of

    def cut_first(*arguments: Any) -> Any:
        os.truncate(file, 4321)
        return begin(*arguments)

    monkeypatch.setattr(reading, "reader_of", cut_first)
    said = refusal(load, file)
    assert said.startswith(
        f"{file} was truncated while it was read: it ends at byte 4321, in tensor '"
    )


def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    interlace.save(model(), file)
    assert "'tpu' is not a device" in refusal(load, file, "tpu")
    assert "'cuda:x' is not a device" in refusal(load, file, "cuda:x")
    assert "'cuda:' is not a device" in refusal(load, file, "cuda:")
    assert "True is not a device" in refusal(load, file, True)
    assert "NumPy has no arrays on GPUs" in refusal(load, file, "cuda:0")
    assert "the mapping from names to devices is empty" in refusal(load, file, {})
    assert "no device for tensor" in refusal(load, file, {"layer.1": "cpu"})
    assert "there is no framework 'jax'" in refusal(interlace.load, file, framework="jax")
    assert "CuPy has no arrays in the host's memory" in refusal(
        interlace.load, file, framework="cupy"
    )
    assert "direct=True works only for tensors on GPUs" in refusal(load, file, direct=True)
    for most in (8191, True, "1G"):
        message = f"max_host_bytes={most!r}: give a number of at least 8192"
        assert refusal(load, file, max_host_bytes=most) == message
    for most in (-1, False, 2.5):
        message = f"max_device_bytes={most!r}: give 0 or more bytes"
        assert refusal(load, file, max_device_bytes=most) == message
    assert "exclude each other" in refusal(load, file, max_host_bytes=8192, ring=(2, 4096))
    assert "threads=0" in refusal(load, file, threads=0)
    assert "threads=True" in refusal(load, file, threads=True)
    for ring, message in (
        ((0, 4096), "give at least 1 slot"),
        ((1, 4095), "give slots of at least 4096 bytes"),
        ((1025, 1 << 30), "give slots of at most 1 TiB in all"),
    ):
        assert refusal(load, file, ring=ring) == f"ring={ring}: {message}"
    assert "pin_memory=True needs torch" in refusal(load, file, pin_memory=True)


def test_a_ring_keeps_to_its_bound() -> None:
    assert reading.bounded_ring((16, 8 << 20), None) == (16, 8 << 20)
    assert reading.bounded_ring((16, 8 << 20), 1 << 30) == (16, 8 << 20)
    assert reading.bounded_ring((16, 8 << 20), 100 << 20) == (12, 8 << 20)
    assert reading.bounded_ring((16, 8 << 20), 10 << 20) == (2, 5 << 20)
    assert reading.bounded_ring((16, 8 << 20), 8192) == (2, 4096)
    for most in range(8192, 1 << 28, 999_999):
        slots, size = reading.bounded_ring((16, 8 << 20), most)
        assert most // 2 < slots * size + reading.LEAST_SLOT * slots
        assert slots * size <= most or (slots, size) == (16, 8 << 20)


def test_a_bound_of_device_memory_makes_fewer_allocations() -> None:
    mib = 1 << 20
    entries = [safetensors_header.Entry(f"{k}", "U8", (s,), 0, s) for k, s in enumerate([mib] * 40)]
    wanted = [reading.Wanted(0, one, 0) for one in entries]
    small = reading._batches(wanted, 3 * mib)
    assert reading._beyond(small, "cupy") == {
        0: 12 * mib
    }  # the file has 12 tensors of 3 MiB, and 2 of 2 MiB
    how = reading.How(1, most_device=11 * mib)
    batches, left = reading._bounded(small, wanted, "cupy", how)
    assert (len(batches), left.most_device) == (1, 11 * mib)
    batches, left = reading._bounded(small, wanted, "cupy", how._replace(most_device=13 * mib))
    assert (batches, left.most_device) == (small, mib)
    assert tensor_memory.taken_by("torch", 3 * mib) == 20 * mib
    assert tensor_memory.taken_by("torch", 10 * mib + 1) == 12 * mib
    assert tensor_memory.taken_by("cupy", 1) == 2 * mib


def test_a_large_model_needs_few_allocations() -> None:
    size = 100 << 20
    entries = [
        safetensors_header.Entry(f"{k}", "U8", (size,), k * size, (k + 1) * size)
        for k in range(160)
    ]
    batches = reading._batches([reading.Wanted(0, one, 0) for one in entries], reading.BLOCK)
    # There must be few allocations, because each allocation of the driver delays the copies.
    assert len(batches) == 16
    assert max(len(batch) for batch in batches) == 10


def test_memory_is_made_while_earlier_memory_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interlace.save({f"{k}": np.full(100, k) for k in range(6)}, tmp_path / "m.safetensors")
    monkeypatch.setattr(reading, "BLOCK", 800)
    make, done = reading.reader_of, []

    class Watched:
        def __init__(self, *arguments: Any) -> None:
            self.reader = make(*arguments)

        def add(self, segments: Any) -> None:
            done.append("add")
            self.reader.add(segments)

        def wait(self, batch: int) -> Any:
            done.append(batch)
            return self.reader.wait(batch)

        def close(self) -> None:
            self.reader.close()

    monkeypatch.setattr(reading, "reader_of", Watched)
    assert [int(one[0]) for one in load(tmp_path / "m.safetensors").values()] == list(range(6))
    assert done == ["add", "add", 0, "add", 1, "add", 2, "add", 3, "add", 0, 1, 2, 3, 4, 5]


def test_rings_by_cores_and_gpus() -> None:
    assert reading.default_ring(1, 1) == (3, 4 << 20)
    assert reading.default_ring(4, 1) == (4, 4 << 20)
    assert reading.default_ring(8, 1) == (8, 8 << 20)
    assert reading.default_ring(16, 1) == (4, 32 << 20)
    assert reading.default_ring(4, 2) == (8, 16 << 20)


def test_the_longest_prefix_counts(tmp_path: Path) -> None:
    devices = placement.Devices({"a": "cpu", "a.b": "cpu", "": "cpu"}, "numpy")
    devices._gpus = {"a": 1, "a.b": 2, "": 3}
    names = {"a.c": 1, "a": 1, "a.b": 2, "a.b.c.d": 2, "a.bc": 1, "ab": 3, "": 3}
    assert {name: devices.of("f", name) for name in names} == names
    file = tmp_path / "m.safetensors"
    interlace.save(model(), file)
    assert equal(load(file, {"layer.1": "cpu", "": "cpu"}), model())


def test_more_dimensions_than_numpy_has(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    head, _ = safetensors_header.lay_out({"x": ("U8", (1,) * 65)}, {})
    file.write_bytes(head + b"a")
    expected = f"{file}: tensor 'x': it has 65 dimensions, which is more than NumPy has"
    assert refusal(load, file) == expected


def test_what_numpy_has_not(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    head, _ = safetensors_header.lay_out({"x": ("BF16", (2,))}, {})
    file.write_bytes(head + b"abcd")
    expected = f"{file}: tensor 'x': NumPy has no BF16; install torch, which has this dtype"
    assert refusal(load, file) == expected


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (np.zeros((3, 4))[:, 1], "tensor 'x' is not contiguous"),
        (np.zeros(3, ">i4"), "a safetensors file cannot hold NumPy's >i4"),
        (np.zeros(3, "complex128"), "a safetensors file cannot hold NumPy's <c16 (complex128)"),
        (np.array([object()]), "a safetensors file cannot hold NumPy's |O (object)"),
        ([1.0, 2.0], "tensor 'x' is a list; give tensors of PyTorch, CuPy or NumPy"),
    ],
)
def test_tensors_that_cannot_be_saved(tmp_path: Path, tensor: Any, message: str) -> None:
    assert message in refusal(interlace.save, {"x": tensor}, tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paths", [5, None, b"x", [None]])
def test_what_is_no_path(paths: Any) -> None:
    with pytest.raises(interlace.UserError, match=r"load takes the path of a file or a folder"):
        interlace.load(paths)


def test_tensors_without_names(tmp_path: Path) -> None:
    with pytest.raises(interlace.UserError, match=r"save takes tensors by name, .* not a list"):
        interlace.save([1, 2], tmp_path / "a.safetensors")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, file = model(), tmp_path / "m.safetensors"
    save = interlace.save
    assert refusal(save, tensors, tmp_path) == f"{tmp_path} is a folder; give the name of a file"
    missing = tmp_path / "gone" / "m.safetensors"
    assert (
        refusal(save, tensors, missing) == f"{missing} cannot be written: No such file or directory"
    )
    assert "cannot have the name '__metadata__'" in refusal(save, {"__metadata__": tensors}, file)
    assert "cannot have the name 3" in refusal(save, {3: tensors["scalar"]}, file)
    assert "half a surrogate" in refusal(save, {"\ud800": tensors["scalar"]}, file)
    assert "is not a text" in refusal(save, tensors, file, metadata={"a": 1})
    assert "metadata is a list; give a mapping from names to texts" in refusal(
        save, tensors, file, metadata=[1]
    )
    key = {"interlace.crc32c": ""}
    assert "is reserved for checksums=True" in refusal(save, tensors, file, metadata=key)
    free = os.statvfs(tmp_path)
    little = os.statvfs_result((*free[:4], 0, *free[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: little)
    assert f"{file} cannot be written: it needs " in refusal(save, tensors, file)
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, file, write, left = model(), tmp_path / "m.safetensors", os.pwrite, [10**9]

    def short(descriptor: int, data: bytes, offset: int) -> int:
        part = data[: min(7, left[0])]
        left[0] -= len(part)
        return write(descriptor, part, offset)

    monkeypatch.setattr(os, "pwrite", short)
    interlace.save(tensors, file)
    assert equal(load(file), tensors)
    file.unlink()
    left[0] = 20
    expected = f"{file} cannot be written: No space left on device"
    assert refusal(interlace.save, tensors, file) == expected
    assert list(tmp_path.iterdir()) == []


def test_tensors_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    own = pytest.importorskip("safetensors.torch")
    tensors = {}
    for dtype, name in tensor_memory.TORCH.items():
        raw = torch.randint(0, 2 if dtype == "BOOL" else 256, (6, 8, 16), dtype=torch.uint8)
        if hasattr(torch, name):
            tensors[dtype] = raw.view(getattr(torch, name))
    tensors["scalar"] = torch.tensor(2.5, dtype=torch.bfloat16)
    tensors["empty"] = torch.empty((3, 0), dtype=torch.float8_e4m3fn)
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    own.save_file(tensors, theirs)
    interlace.save(tensors, ours)
    assert ours.read_bytes() == theirs.read_bytes()
    read, expected = interlace.load(ours), own.load_file(theirs)
    assert set(read) == set(expected)
    for name, tensor in expected.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
        if tensor.numel():
            flat = (t.reshape(-1).view(torch.uint8) for t in (read[name], tensor))
            assert torch.equal(*flat)
    assert "is not contiguous" in refusal(interlace.save, {"x": tensors["F32"][:, :2]}, ours)
    assert "sparse_coo" in refusal(interlace.save, {"x": torch.eye(3).to_sparse()}, ours)
    assert "resolve_conj" in refusal(interlace.save, {"x": tensors["C64"].conj()}, ours)
    if not torch.cuda.is_available():
        assert (
            refusal(interlace.load, ours, "cuda")
            == "'cuda' does not exist; there is no GPU on this computer"
        )
