"""Tests configurations of mechanisms: their names, and which configurations are tried."""

from __future__ import annotations

import pytest

from interlace.model.mechanism_table import (
    BULK_COPY,
    COPY_ENGINE,
    DEVICE_LAUNCH,
    INLINE,
    POLLING,
    SPLIT,
)
from interlace.model.mechanisms import GIB, KIB, MIB, Config, Tuning, label, size_text
from interlace.model.run import Case
from interlace.show.study import legend
from interlace.workloads import jacobi
from interlace.workloads.jacobi import Jacobi, JacobiInputs

CHUNKS = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
TUNING = Tuning((2, 4), CHUNKS, (4096, 16384))


@pytest.mark.parametrize(
    ("mechanism", "config", "long", "short"),
    [
        (BULK_COPY, Config(), BULK_COPY, BULK_COPY),
        (SPLIT, Config(ranges=8), "split (8 ranges)", "split (8 ranges)"),
        (
            POLLING,
            Config(chunk_bytes=256 * KIB, agent_threads=16384),
            "polling (256 KiB, 16384 threads)",
            "polling (256K, 16K)",
        ),
        (
            POLLING,
            Config(chunk_bytes=MIB, agent_threads=96),
            "polling (1 MiB, 96 threads)",
            "polling (1M, 96)",
        ),
        (
            POLLING,
            Config(chunk_bytes=MIB, bulk_threads=4096),
            "polling (1 MiB, 4096 threads, bulk)",
            "polling (1M, 4K, bulk)",
        ),
        (COPY_ENGINE, Config(chunk_bytes=4 * MIB), "copy-engine (4 MiB)", "copy-engine (4M)"),
    ],
)
def test_labels(mechanism: str, config: Config, long: str, short: str) -> None:
    assert label(mechanism, config) == long
    assert label(mechanism, config, short=True) == short
    assert str(Case(2, mechanism, config)) == f"{long} on 2 GPUs"
    assert Config.of({**config.given(), "tried": [], "warmup": 2}) == config


def test_sizes() -> None:
    assert [size_text(n) for n in (96, 1000, 4 * KIB, 1536 * KIB, 256 * MIB, GIB)] == [
        "96 B", "1000 B", "4 KiB", "1536 KiB", "256 MiB", "1 GiB",
    ]  # fmt: skip


def test_a_legend_says_what_is_shown() -> None:
    assert legend([BULK_COPY, SPLIT]) == []
    assert legend([COPY_ENGINE, COPY_ENGINE]) == [
        "The number after copy-engine is (chunk bytes). K is 2^10, and M is 2^20."
    ]


def chunks(tuning: Tuning, mechanism: str, part: int) -> list[int]:
    found = dict.fromkeys(config.chunk_bytes for config in tuning.configs(mechanism, part))
    return [chunk for chunk in found if chunk is not None]


@pytest.mark.parametrize(
    ("part", "polled", "copied"),
    [
        # 100 MiB have 400 chunks of 256 KiB. These are too many chunks to wait for.
        (100 * MIB, CHUNKS, CHUNKS[2:]),
        (60 * MIB, CHUNKS, CHUNKS[1:]),
        (4 * MIB + 1, CHUNKS, CHUNKS[1:]),
        (MIB, CHUNKS, CHUNKS[1:]),  # chunks grow and shrink, so chunks of 4 MiB still cut the part
        # Chunks of 4 MiB would be the same as chunks of 1 MiB.
        (128 * KIB, CHUNKS[:3], CHUNKS[1:3]),
        (32 * KIB, CHUNKS[:2], CHUNKS[1:2]),
        (8 * KIB, CHUNKS[:1], CHUNKS[1:2]),
        (4, CHUNKS[:1], CHUNKS[1:2]),
        (0, CHUNKS[:1], CHUNKS[1:2]),
        # 8 GiB have too many chunks even of the largest size. The node reports this.
        (8 * GIB, CHUNKS, CHUNKS[3:]),
    ],
)
def test_no_chunk_is_tried_twice(
    part: int, polled: tuple[int, ...], copied: tuple[int, ...]
) -> None:
    assert chunks(TUNING, POLLING, part) == list(polled)
    assert chunks(TUNING, COPY_ENGINE, part) == list(copied)
    assert len(TUNING.configs(POLLING, part)) == 2 * len(polled)
    assert TUNING.configs(SPLIT, part) == [Config(ranges=2), Config(ranges=4)]
    assert TUNING.configs(INLINE, part) == [Config()]


def test_agents_also_copy_in_bulk() -> None:
    tuning = Tuning((2,), (MIB,), (4096, 8192, 16384), bulk_agents=True)
    vectors = [Config(chunk_bytes=MIB, agent_threads=n) for n in (4096, 8192, 16384)]
    bulk = [
        Config(chunk_bytes=MIB, bulk_threads=n) for n in (4096, 8192)
    ]  # only these sizes fit in shared memory
    assert tuning.configs(POLLING, 8 * MIB) == vectors + bulk
    assert tuning.configs(DEVICE_LAUNCH, 8 * MIB) == vectors
    assert [config.arguments() for config in (vectors[0], bulk[0])] == [
        (1, MIB, 4096, ""),
        (1, MIB, 4096, "bulk"),
    ]
    large = Tuning((2,), (MIB,), (16384,), bulk_agents=True)
    assert large.configs(POLLING, 8 * MIB) == vectors[2:]


def test_small_chunks_alone_leave_one_to_copy() -> None:
    small = Tuning((2,), (4 * KIB, 64 * KIB), (4096,))
    assert chunks(small, COPY_ENGINE, MIB) == [64 * KIB]
    every = Tuning((2,), (4 * KIB, 64 * KIB), (4096,), least_copied=0, most_waits=None)
    assert chunks(every, COPY_ENGINE, MIB) == [4 * KIB, 64 * KIB]


def test_a_halo_is_a_small_part() -> None:
    system = jacobi.generate(1 << 12, 8, 1)
    assert Jacobi(system, "", JacobiInputs()).largest_part(2) == 4 << 11
    assert Jacobi(system, "", JacobiInputs(halo=True)).largest_part(2) == 4 * 8
