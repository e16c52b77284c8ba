"""Tests headers of safetensors files: which headers are accepted, and the messages about those that
are refused.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace.base.errors import UserError
from interlace.runtime import safetensors_header as headers
from interlace.runtime.safetensors_header import BITS, bytes_of, header_bytes_of, lay_out, parse

ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def parsed(document: Any, data: int) -> headers.Header:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse("m.safetensors", text, headers.PREFIX + len(text) + data)


def refusal(document: Any, data: int = 24) -> str:
    with pytest.raises(UserError) as caught:
        parsed(document, data)
    text = str(caught.value)
    assert text.startswith("m.safetensors")
    return text


def test_a_header_that_memory_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 90_000_000
    monkeypatch.setattr(headers, "memory_bytes", lambda: 500_000_000)
    with pytest.raises(UserError, match=r"needs about 0\.6 GB of memory and .* has 0\.5 GB"):
        header_bytes_of("m", size.to_bytes(8, "little"), 2 * size)


PEAK = """
import resource, sys
import interlace
from interlace.runtime import safetensors_header

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with interlace.safe_open(sys.argv[1], "np") as f:
    assert len(f.offset_keys()) > 100_000
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024)
"""


@pytest.mark.parametrize("entry", ['"model.layers.%d.w":{"dtype":"F32","shape":[1,2],', '"%d":{'])
def test_a_large_header_takes_little_memory(tmp_path: Path, entry: str) -> None:
    """Check that reading a header takes at most NEEDED bytes of memory for each byte of the
    header.
    """
    entries, size, end = [], 0, 0
    for number in range(10**6):
        text = entry % number
        own = 8 if "shape" in text else 0
        text += "" if own else '"dtype":"U8","shape":[0],'
        entries.append(f'{text}"data_offsets":[{end},{end + own}]}}')
        end, size = end + own, size + len(entries[-1]) + 1
        if size > 10_000_000:
            break
    header = ("{" + ",".join(entries) + "}").encode()
    file = tmp_path / "m.safetensors"
    with file.open("wb") as to:
        to.write(struct.pack("<Q", len(header)) + header)
        to.truncate(8 + len(header) + end)
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, str(file)], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) < headers.NEEDED * len(header)


def test_what_a_header_says() -> None:
    found = parsed(
        {
            "late": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
            "__metadata__": {"format": "pt"},
            "a.b": ENTRY,
            "empty": {"dtype": "I64", "shape": [4, 0], "data_offsets": [24, 24]},
        },
        26,
    )
    assert [entry.name for entry in found.tensors] == ["a.b", "empty", "late"]
    assert found.tensors[0] == ("a.b", "F32", (2, 3), 0, 24)
    assert found.tensors[1].shape == (4, 0)
    assert found.metadata == {"format": "pt"}
    assert parsed(b"{}   \n", 0).tensors == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "F31"}, "tensor 'x' has the dtype 'F31'; the dtype must be one of BOOL, "),
        ({"dtype": 4}, "has the dtype 4"),
        ({"shape": [2, -3]}, "has a shape that is not a list of whole numbers from 0"),
        ({"shape": [2, 3.0]}, "has a shape"),
        ({"shape": [2, True]}, "has a shape"),
        ({"shape": 6}, "has a shape"),
        ({"shape": [2, 2**64]}, "has a shape"),
        ({"shape": [2, 4]}, "has 24 bytes of data, and F32 of shape [2, 4] takes 32 bytes"),
        ({"shape": [2**40, 2**40, 0]}, "more elements than 64 bits can count"),
        ({"shape": [2**62]}, "more bits than 64 bits can count"),
        ({"dtype": "F4", "shape": [3]}, "does not end at a byte"),
        ({"data_offsets": [0]}, "data_offsets that are not two whole numbers"),
        ({"data_offsets": [0, 24, 48]}, "data_offsets that are not two whole numbers"),
        ({"data_offsets": [24, 0]}, "ends at byte 0 of the data, before it begins, at 24"),
        ({"data_offsets": [0, "24"]}, "data_offsets"),
        ({"strides": [3, 1]}, "has the key 'strides', which is none of dtype, shape, data_offsets"),
    ],
)
def test_a_tensor_that_lies(change: dict[str, Any], message: str) -> None:
    assert message in refusal({"x": ENTRY | change})


@pytest.mark.parametrize(
    ("document", "data", "message"),
    [
        ({"x": {"dtype": "F32", "shape": [6]}}, 24, "tensor 'x' has no data_offsets"),
        ({"x": [1]}, 24, "tensor 'x' is not an object"),
        ({"x": ENTRY}, 23, "is cut: its tensors take 24 bytes, but 23 bytes are there"),
        ({"x": ENTRY}, 25, "1 bytes after the last tensor belong to no tensor"),
        (
            {"x": ENTRY, "y": ENTRY | {"data_offsets": [20, 44]}},
            44,
            "tensor 'y' begins at byte 20 of the data, within 'x', which ends at 24",
        ),
        (
            {"x": ENTRY, "y": ENTRY | {"data_offsets": [32, 56]}},
            56,
            "bytes 24 to 32 of the data, before tensor 'y', belong to no tensor",
        ),
        (
            {"x": ENTRY | {"data_offsets": [8, 32]}},
            32,
            "bytes 0 to 8 of the data, before tensor 'x', belong to no tensor",
        ),
        ({"__metadata__": [], "x": ENTRY}, 24, "__metadata__ is not an object"),
        ({"__metadata__": {"a": 1}, "x": ENTRY}, 24, "something other than a text as 'a'"),
        (b'{"x":1,"x":2}', 0, "'x' occurs twice"),
        (b'{"x":{"dtype":"U8","dtype":"U8"}}', 0, "'dtype' occurs twice"),
        (b'{"x":-0}', 0, "tensor 'x' is not an object"),
        (b'{"x":NaN}', 0, "is not JSON at byte 13 of the file: a value is missing or not valid"),
        (b'{"\\ud800":1}', 0, "half a surrogate pair"),
        (b'{"__metadata__":{"a":"\\ud800"}}', 0, "half a surrogate pair"),
        (b'{"x":1', 0, "is not JSON at byte 14 of the file: there is no '}' where one belongs"),
        (b'{"x":1}}', 0, "is not JSON at byte 15 of the file: there is text after its end"),
        (b' {"x":1}', 0, "does not begin with {"),
        (b"[]", 0, "does not begin with {"),
        (b"", 0, "does not begin with {"),
        (b'{"\xff":1}', 0, "is not JSON at byte 10 of the file: it is not UTF-8"),
        (b'{"x":' + b"[" * 100_000, 0, "nested too deeply"),
        (b'{"x":' + b"9" * 100_000 + b"}", 0, "tensor 'x' is not an object"),
    ],
)
def test_a_header_that_lies(document: Any, data: int, message: str) -> None:
    assert message in refusal(document, data)


@pytest.mark.parametrize(
    ("prefix", "file_bytes", "message"),
    [
        (b"", 0, "it ends after 0 bytes, within the 8 bytes"),
        (b"\2\0\0", 3, "it ends after 3 bytes"),
        (
            struct.pack("<Q", 2**63),
            100,
            f"would have {2**63} bytes, and at most 100000000 are allowed",
        ),
        (
            struct.pack("<Q", 93),
            100,
            "is cut off: its header has 93 bytes, but only 92 bytes are there",
        ),
    ],
)
def test_a_length_that_lies(prefix: bytes, file_bytes: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        header_bytes_of("m.safetensors", prefix, file_bytes)
    assert header_bytes_of("m.safetensors", struct.pack("<Q", 92), 100) == 92


def test_bytes_beyond_64_bits_on_the_way_count() -> None:
    with pytest.raises(UserError, match="more elements"):
        bytes_of("U8", [2**33, 2**33, 0])
    assert bytes_of("U8", [0, 2**63, 2**63]) == 0
    assert bytes_of("F6_E2M3", [4]) == 3


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
    lambda name: name != headers.METADATA
)
WHOLE_BYTES = [dtype for dtype, bits in BITS.items() if bits % 8 == 0]
specs = st.dictionaries(
    names,
    st.tuples(st.sampled_from(WHOLE_BYTES), st.lists(st.integers(0, 5), max_size=4)),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(specs, st.dictionaries(names, names, max_size=3))
def test_what_is_laid_out_is_read_back(
    tensors: dict[str, tuple[str, list[int]]], metadata: dict[str, str]
) -> None:
    head, entries = lay_out(tensors, metadata)
    assert len(head) % 8 == 0
    length = header_bytes_of("m", head[:8], len(head))
    data = entries[-1].end if entries else 0
    found = parse("m", head[8:], len(head) + data)
    assert (length, found.data_begin) == (len(head) - 8, len(head))
    assert found.metadata == metadata
    assert {e.name: (e.dtype, list(e.shape)) for e in found.tensors} == tensors
    assert sorted(found.tensors) == sorted(entries)
    for entry in entries:
        assert entry.begin % (BITS[entry.dtype] // 8) == 0


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_damaged_header_is_refused_or_sound(data: st.DataObject) -> None:
    """Check that the reader refuses a mutated header. If it accepts the header, the tensors must
    fill the data, and safetensors must also accept the header.
    """
    deserialize = pytest.importorskip("safetensors").deserialize
    tensors = data.draw(specs.filter(bool))
    head, entries = lay_out(tensors, {"a": "b"})
    text = bytearray(head[8:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        piece = data.draw(
            st.sampled_from([b"0", b"-", b'"', b"[", b"}", b",", b"9", b"\\", b"\xff", b"1e3", b""])
        )
        text[at : at + data.draw(st.integers(0, 3))] = piece
    size = 8 + len(text) + entries[-1].end
    try:
        found = parse("m", bytes(text), size)
    except UserError:
        return
    end = 0
    for entry in found.tensors:
        assert entry.begin == end
        assert entry.end - entry.begin == bytes_of(entry.dtype, entry.shape)
        end = entry.end
    assert found.data_begin + end == size
    whole = len(text).to_bytes(8, "little") + bytes(text) + bytes(entries[-1].end)
    theirs = {name: (list(info["shape"]), len(info["data"])) for name, info in deserialize(whole)}
    assert theirs == {e.name: (list(e.shape), e.end - e.begin) for e in found.tensors}
