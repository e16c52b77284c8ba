"""Tests packets of updates with a decoder that was written only from their description."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import _core
from interlace.base.errors import ModelError

OFFSETS = (2, 3, 4, 5, 6, 8)
Updates = list[tuple[int, int]]


def decoded(packet: bytes) -> tuple[int, Updates]:
    """Return the tag and the updates of a packet."""
    base, count, offset_bytes, value_bytes, tag = struct.unpack_from("<QIBBH", packet)
    values = packet[16 : 16 + count * value_bytes]
    offsets = packet[16 + len(values) : 16 + len(values) + count * offset_bytes]
    padding = packet[16 + len(values) + len(offsets) :]
    assert len(packet) % 16 == 0
    assert len(padding) < 16
    assert not any(padding)

    def numbers(of: bytes, size: int) -> list[int]:
        return [int.from_bytes(of[k : k + size], "little") for k in range(0, len(of), size)]

    elements = [base + offset for offset in numbers(offsets, offset_bytes)]
    return tag, list(zip(elements, numbers(values, value_bytes), strict=True))


@st.composite
def packets(draw: st.DrawFn) -> tuple[int, Updates, int, int, int]:
    offset_bytes = draw(st.sampled_from(OFFSETS))
    value_bytes = draw(st.sampled_from((4, 8)))
    base = draw(st.integers(0, 2**63 - 1))
    last = min(2 ** (8 * offset_bytes) - 1, 2**63 - 1)
    update = st.tuples(st.integers(base, base + last), st.integers(0, 2 ** (8 * value_bytes) - 1))
    return (
        base, draw(st.lists(update, max_size=40)), offset_bytes, value_bytes,
        draw(st.integers(0, 2**16 - 1)),
    )  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(packets())
def test_a_plain_decoder_reads_packets(made: tuple[int, Updates, int, int, int]) -> None:
    base, updates, offset_bytes, value_bytes, tag = made
    packet = _core.encode_updates(base, updates, offset_bytes, value_bytes, tag)
    assert decoded(packet) == (tag, updates)
    assert _core.decode_updates(packet, 2**64 - 1) == updates


@settings(max_examples=200, deadline=None, derandomize=True)
@given(packets(), st.data())
def test_a_changed_packet_is_refused_or_read_alike(
    made: tuple[int, Updates, int, int, int], data: st.DataObject
) -> None:
    packet = bytearray(_core.encode_updates(*made))
    place = data.draw(st.integers(0, len(packet) - 1))
    packet[place] ^= data.draw(st.integers(1, 255))
    changed = bytes(packet[: data.draw(st.integers(len(packet) - 1, len(packet)))])
    try:
        updates = _core.decode_updates(changed, 2**64 - 1)
    except ModelError:
        return
    assert decoded(changed)[1] == updates


def test_refusals_say_what_does_not_fit() -> None:
    with pytest.raises(ModelError, match="cannot have element 65538 in offsets of 2 bytes"):
        _core.encode_updates(1, [(65538, 0)], 2, 4, 0)
    with pytest.raises(ModelError, match="values of 4 bytes, but a value needs more"):
        _core.encode_updates(0, [(1, 2**32)], 2, 4, 0)
    with pytest.raises(ModelError, match="outside of the array of 5"):
        _core.decode_updates(_core.encode_updates(0, [(5, 1)], 2, 4, 0), 5)
    with pytest.raises(ModelError, match="shorter than its header"):
        _core.decode_updates(b"short", 5)
