"""Tests tuned regions: measurements, the agreement of ranks, and results that are kept and
found."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import interlace
from fake_core import FakeCuda
from interlace.base.errors import UserError
from interlace.model.mechanism_table import BULK_COPY, COPY_ENGINE, INLINE, POLLING
from interlace.runtime.regions import Group
from interlace.tuning import profiles, region_tuning
from interlace.tuning.region_tuning import region_options, tune_region
from interlace.tuning.search import Candidate, Impossible
from study_helpers import Run

pytestmark = pytest.mark.usefixtures("cuda")

ELEMENTS = 1 << 20
SMALL = {"chunk_bytes": (65536, 262144), "agent_threads": (1024,), "bulk_threads": (512,)}


def one_process(devices: int = 2) -> Group:
    return Group(SimpleNamespace(devices=devices, local_devices=list(range(devices))))


def seconds(candidate: Candidate, repeats: int) -> list[float]:
    """Return the time of each repeat in seconds. The fastest candidate is polling with bulk copies
    and chunks of 256 KiB.
    """
    base = {BULK_COPY: 9e-4, INLINE: 8e-4, POLLING: 7e-4, COPY_ENGINE: 9.5e-4}
    time = base[candidate.mechanism] - 1e-9 * candidate.parameters.get("chunk_bytes", 0) / 1024
    if "bulk_threads" in candidate.parameters:
        time -= 1e-4
    return [time] * repeats


def test_the_package_offers_them() -> None:
    assert interlace.tune_region is tune_region
    assert interlace.region_options is region_options
    assert interlace.TunedRegion is region_tuning.TunedRegion


def test_options_of_candidates() -> None:
    assert region_options(Candidate(INLINE, {})) == {"mechanism": INLINE}
    assert region_options(Candidate(POLLING, {"chunk_bytes": 4096, "agent_threads": 64})) == {
        "mechanism": POLLING, "chunk_bytes": 4096, "agent_threads": 64,
    }  # fmt: skip
    assert region_options(Candidate(POLLING, {"chunk_bytes": 4096, "bulk_threads": 64})) == {
        "mechanism": POLLING, "chunk_bytes": 4096, "agent_threads": 64, "agent_copy": "bulk",
    }  # fmt: skip


def test_the_fastest_is_kept_and_found_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Candidate] = []

    def measure(candidate: Candidate, repeats: int) -> list[float]:
        asked.append(candidate)
        if candidate.mechanism == COPY_ENGINE:
            raise UserError("the copy-engine mechanism would wait for 999 chunks")
        return seconds(candidate, repeats)

    def tuned(**options: Any) -> region_tuning.TunedRegion:
        return tune_region(
            "a test", measure, one_process(), ELEMENTS, "float32", **SMALL, **options
        )

    found = tuned()
    assert found.options == {
        "mechanism": POLLING, "chunk_bytes": 262144, "agent_threads": 512, "agent_copy": "bulk",
    }  # fmt: skip
    assert {c.mechanism for c in asked} == {BULK_COPY, INLINE, POLLING, COPY_ENGINE}
    profile = profiles.load(found.path, "")
    assert profile.workload.part_bytes == 2 * ELEMENTS
    refused = [c.dropped for c in profile.search.candidates if c.mechanism == COPY_ENGINE]
    assert refused
    assert all("would wait for 999 chunks" in (why or "") for why in refused)

    asked.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuned() == found
    assert not asked
    assert tuned(again=True) == found
    assert asked

    capsys.readouterr()
    found.explain()
    text = capsys.readouterr().out
    assert "Picked polling (256 KiB, 512 threads, bulk)" in text
    assert run("tune", "--explain", found.path).out == text
    other = tune_region("another", measure, one_process(), ELEMENTS, "float32", **SMALL)
    assert other.path != found.path


def test_another_driver_is_warned_of(cuda: FakeCuda) -> None:
    words = ("a test", seconds, one_process(), ELEMENTS, "float32")
    found = tune_region(*words, **SMALL)
    assert cuda
    document = json.loads(found.path.read_text())
    document["machine"]["driver"] = "1.2"
    found.path.write_text(json.dumps(document))
    with pytest.warns(
        UserWarning, match=r"it has driver 1\.2, but this .* make it anew with again"
    ):
        assert tune_region(*words, **SMALL) == found
    found.path.write_text("{")
    with pytest.raises(UserError, match="is not a profile"):
        tune_region(*words, **SMALL)


class Ranks:
    """Two ranks in two threads of this process. The ranks gather as processes do."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=60)
        self.told: list[bytes] = [b"", b""]

    def group(self, rank: int) -> Group:
        def gather(own: bytes) -> Sequence[bytes]:
            self.told[rank] = own
            self.barrier.wait()
            every = list(self.told)
            self.barrier.wait()
            return every

        return Group(SimpleNamespace(devices=2, local_devices=[rank]), gather)

    def run(self, work: Callable[[int, Group], object]) -> list[Any]:
        found: list[Any] = [None, None]

        def call(rank: int) -> None:
            try:
                found[rank] = work(rank, self.group(rank))
            except BaseException as error:
                found[rank] = error

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


def region_like(group: Group, rank: int) -> None:
    """Make the first step of a region: a gather. The gather fails if a rank does not take part."""
    for n, one in enumerate(group.gather(b"o" + str(rank).encode())):
        if not one.startswith(b"o"):
            raise UserError(f"rank {n} cannot take part: {one[1:].decode()}")


@pytest.mark.parametrize("early", [True, False])
def test_ranks_agree(early: bool) -> None:
    asked: list[list[Candidate]] = [[], []]

    def work(rank: int, group: Group) -> object:
        def measure(candidate: Candidate, repeats: int) -> list[float]:
            asked[rank].append(candidate)
            impossible = rank == 1 and candidate.parameters.get("bulk_threads")
            if impossible and early:
                raise Impossible("it has no room here")
            region_like(group, rank)
            if impossible:
                raise Impossible("it has no room here")
            slow = 3 if rank == 1 and candidate.mechanism == POLLING else 1
            return [slow * s for s in seconds(candidate, repeats)]

        return tune_region("ranks", measure, group, ELEMENTS, "float32", **SMALL)

    first, second = Ranks().run(work)
    assert isinstance(first, region_tuning.TunedRegion), first
    assert first == second
    assert first.options == {"mechanism": INLINE}  # polling is slow on rank 1
    assert asked[0] == asked[1]
    search = profiles.load(first.path, "").search
    refused = {c.dropped for c in search.candidates if "bulk_threads" in c.parameters}
    assert refused == {"not possible: it has no room here"}
    asked = [[], []]
    assert Ranks().run(work) == [first, first]
    assert asked == [[], []]


def test_what_fails_on_a_rank_ends_all() -> None:
    def work(rank: int, group: Group) -> object:
        def measure(candidate: Candidate, repeats: int) -> list[float]:
            if rank == 1 and candidate.mechanism == INLINE:
                raise interlace.DeviceError("GPU 1 has vanished")
            region_like(group, rank)
            return seconds(candidate, repeats)

        return tune_region("ranks", measure, group, ELEMENTS, "float32", **SMALL)

    first, second = Ranks().run(work)
    assert str(first) == "rank 1 failed: DeviceError: GPU 1 has vanished"
    assert isinstance(second, interlace.DeviceError)


def test_boundaries_are_numbers_of_any_kind() -> None:
    words: dict[str, Any] = {"mechanisms": (BULK_COPY, INLINE), **SMALL}
    cut = np.array([0, 3 << 18, 1 << 20])
    found = tune_region(
        "cut",
        seconds,
        one_process(),
        ELEMENTS,
        "float32",
        boundaries=cut,
        **words,  # type: ignore[arg-type]
    )
    assert profiles.load(found.path, "").workload.part_bytes == 3 << 20
    words["mechanisms"] = (INLINE, BULK_COPY)
    again = tune_region(
        "cut", seconds, one_process(), ELEMENTS, "float32", boundaries=list(cut), **words
    )
    assert again == found
    with pytest.raises(UserError, match="1 boundaries for 2 devices"):
        tune_region("cut", seconds, one_process(), ELEMENTS, "float32", boundaries=[0])


def test_what_rank_0_cannot_write_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))

    def work(_: int, group: Group) -> object:
        return tune_region("ranks", seconds, group, ELEMENTS, "float32", **SMALL)

    first, second = Ranks().run(work)
    assert isinstance(first, UserError), first
    assert isinstance(second, UserError), second
    assert str(first) == str(second)


def test_what_cannot_be_tuned() -> None:
    def never(_: Candidate, __: int) -> list[float]:
        raise AssertionError

    with pytest.raises(UserError, match="a length of a region's shape is -1"):
        tune_region("x", never, one_process(), -1, "float32")
    with pytest.raises(UserError, match="give at least 2 devices"):
        tune_region("x", never, one_process(1), ELEMENTS, "float32")

    def impossible(_: Candidate, __: int) -> list[float]:
        raise Impossible("no")

    with pytest.raises(UserError):
        tune_region("x", impossible, one_process(), ELEMENTS, "float32", **SMALL)
