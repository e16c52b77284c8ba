"""Tests `interlace locality`.

The tests verify the results of the unified programs, and compare the programs' counts with those of
MGPUSim. Wrong input must be refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlace.data.ciphers import encrypt
from interlace.model.mechanism_table import INLINE
from interlace.model.remote_load_table import FINEPACK
from interlace.study import locality
from interlace.workloads import unified
from study_helpers import Run


def rows(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return {(row["program"], row["gpus"]): row for row in document["rows"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, Any]]:
    """Run every program on one and on four GPUs, with MGPUSim's sizes."""
    from interlace.cli import main as cli

    out = tmp_path_factory.mktemp("locality") / "rows.json"
    assert cli.run(["locality", "--json", str(out)]) == 0
    return rows(out)


def test_counts_beside_mgpusim(found: dict[tuple[str, int], dict[str, Any]]) -> None:
    for (program, gpus), (accesses, reads, writes, _) in locality.MGPUSIM.items():
        loads = found[program, gpus]["loads"]
        assert loads["vector_accesses"] == pytest.approx(accesses, rel=0.002), program
        assert loads["remote_stores"] == writes, program
        # Nearly all of the 483 reads in MGPUSim are reads of instructions and arguments.
        if program == "fir":
            assert loads["requests"] <= reads
        else:
            assert loads["requests"] == pytest.approx(reads, rel=0.1), program


def test_loads_add_up(found: dict[tuple[str, int], dict[str, Any]]) -> None:
    for (program, gpus), row in found.items():
        loads = row["loads"]
        words = sum((k + 1) * count for k, count in enumerate(loads["remote_by_words"]))
        assert 4 * words == loads["remote_useful_bytes"], program
        assert sum(loads["remote_by_words"]) == loads["remote_loads"], program
        assert loads["l2_hits"] <= loads["l2_loads"]
        assert loads["mean_wait_s"] > 0
        assert loads["mean_in_links_s"] <= loads["mean_latency_s"]
        assert (row["link_bytes"] > loads["walk_wire_bytes"]) == (gpus > 1)
        assert row["link_bytes"] >= loads["wire_bytes"] + loads["walk_wire_bytes"]
        looked_up = loads["tlb_hits"] + loads["tlb_misses"]
        assert looked_up == loads["vector_accesses"] + loads["scalar_accesses"], program
        assert 0 < loads["walks"] <= loads["l2_tlb_misses"] <= loads["tlb_misses"]
        assert loads["walk_wire_bytes"] == 32 * loads["walks"]  # one flit in each direction
        assert loads["mean_walk_s"] > 600e-9


def test_four_gpus_are_slower_where_they_are_in_mgpusim(
    found: dict[tuple[str, int], dict[str, Any]],
) -> None:
    for program in {program for program, _ in locality.MGPUSIM}:
        ours = found[program, 4]["time_s"] > found[program, 1]["time_s"]
        theirs = locality.MGPUSIM[program, 4][3] > locality.MGPUSIM[program, 1][3]
        assert ours == theirs, program


def test_classes(found: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Check that all programs except three have the class that the paper gives them (Table 2)."""
    classes = {program: found[program, 4]["locality"] for program in unified.PROGRAMS}
    assert classes == {
        **locality.PUBLISHED,
        # Only three passes cross the borders between the keys of two GPUs.
        "bs": locality.LOCAL,
        # Here, the S-box is on a page of one GPU, and loads of the S-box hit in the L1.
        "aes": locality.CACHED,
        # Lanes read the levels of 32 vertices in the order of these vertices, so most reads hit.
        "bfs": locality.CACHED,
    }
    for program, published in locality.PUBLISHED.items():
        assert found[program, 4]["published"] == published
    assert all(found[program, 1]["remote_share"] == 0 for program in unified.PROGRAMS)


def test_counts_where_a_peer_simulator_has_them(
    found: dict[tuple[str, int], dict[str, Any]],
) -> None:
    """MGPUSim counts 1,520 remote reads in sc, for a result of 512 x 512 pixels."""
    loads = found["sc", 4]["loads"]
    assert loads["requests"] == pytest.approx(1520, rel=0.1)
    assert loads["remote_stores"] > 0.7 * (loads["remote_stores"] + loads["local_stores"])


def test_blocks_fill_gpus_one_after_another(run: Run, tmp_path: Path) -> None:
    """128 blocks take the compute units of two of four GPUs."""
    remote = {}
    for blocks in ("contiguous", "filled"):
        out = tmp_path / "rows.json"
        done = run("locality", "bs", "-g", 4, "--blocks", blocks, "--json", out)
        assert (done.code, done.err) == (0, "")
        remote[blocks] = rows(out)["bs", 4]["remote_share"]
    assert remote["contiguous"] < 0.02  # local
    assert remote["filled"] > 0.5


def test_placements(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = run(
        "locality", "mm", "--gpus", "4", "--pages", "gpu1", "--blocks", "round-robin",
        "--json", out,
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "pages gpu1, blocks round-robin" in done.out
    assert "  mm, 4 GPUs, direct: L1 TLBs hit in " in done.out
    loads = rows(out)["mm", 4]["loads"]
    assert loads["remote_loads"] == 3 * loads["local_loads"]
    assert loads["remote_stores"] == 3 * loads["local_stores"]
    assert rows(out)["mm", 4]["mgpusim"] is None


def test_what_becomes_of_remote_loads(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = run("locality", "atax", "-g", 4, "-m", "direct,bypass,dualopt", "--json", out)
    assert (done.code, done.err) == (0, "")
    document = json.loads(out.read_text(encoding="utf-8"))
    direct, bypass, dualopt = document["rows"]
    assert [row["mechanism"] for row in document["rows"]] == ["direct", "bypass", "dualopt"]
    assert direct["decisions"] == []
    assert bypass["over_direct"] > 2  # the paper has 3.2; in the paper, no set of the L1 stalls
    assert dualopt["decisions"][0]["made"]
    assert dualopt["decisions"][0]["choice"] == "coalesced"
    assert dualopt["decisions"][0]["loads"] == 20000
    assert dualopt["loads"]["wire_bytes"] < direct["loads"]["wire_bytes"] / 2
    pieces, packets = (dualopt["loads"][f"coalesced_{it}"] for it in ("pieces", "packets"))
    assert packets < pieces <= 10 * packets
    assert "atax, 4 GPUs, dualopt: coalesced after" in done.out


class Gpus:
    """A `_cuda` with two GPUs that compute in the same way as the host."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.spoiled = False

    def device_info(self) -> dict[str, Any]:
        return {"gpus": 2, "name": "Fake H200", "driver": "580.1", "cuda": "13.0"}

    def run_matrix_transpose(
        self, gpus: int, pages: str, blocks: str, warmup: int, repeats: int, *arrays: Any
    ) -> dict[str, Any]:
        core = pytest.importorskip("interlace._core")
        self.asked.append((gpus, pages, blocks, warmup, repeats))
        ran = core.run_matrix_transpose("host", None, gpus, pages, blocks, "direct", *arrays)
        if self.spoiled:
            ran["values"][0] += 1
        return {"time_s": [2e-6 / gpus] * repeats, "values": ran["values"]}


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    pytest.importorskip("interlace._core")
    fake = Gpus()
    monkeypatch.setitem(sys.modules, "interlace._cuda", fake)
    return fake


def test_programs_are_measured_on_real_gpus(gpus: Gpus, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = run("locality", "mt", "--measure", "--json", out)
    assert (done.code, done.err) == (0, "")
    assert [one[0] for one in gpus.asked] == [1, 2]
    assert "The same programs, measured on 2x Fake H200" in done.out
    document = json.loads(out.read_text(encoding="utf-8"))
    assert (document["measured_on"], document["driver"]) == ("2x Fake H200", "580.1")
    one, two = document["measured"]
    assert (one["gpus"], one["median_s"], one["speedup"]) == (1, 2e-6, 1)
    assert (two["gpus"], two["median_s"], two["speedup"]) == (2, 1e-6, 2)
    assert len(two["time_s"]) == locality.MEASURED_REPEATS
    assert two["max_error"] == 0


def test_wrong_results_of_real_gpus_are_an_error(gpus: Gpus, run: Run) -> None:
    gpus.spoiled = True
    done = run("locality", "mt", "-g", "1,2", "--measure")
    assert done.code == 1
    assert "mt on 1 GPUs: 1 of 1048576 elements differ from the reference" in done.err


def test_measuring_wants_as_many_real_gpus(gpus: Gpus, run: Run) -> None:
    done = run("locality", "mt", "-g", 4, "--measure")
    assert done.code == 2
    assert "--gpus 4: 2x Fake H200 has 2 GPUs" in done.err
    assert gpus.asked == []


def test_pages_that_move_may_begin_where_arrays_have_them(run: Run, tmp_path: Path) -> None:
    moved = []
    for words in ((), ("--pages", "own")):
        out = tmp_path / "rows.json"
        done = run("locality", "sc", "-g", 4, "-m", "griffin", *words, "--json", out)
        assert (done.code, done.err) == (0, "")
        moved.append(rows(out)["sc", 4]["loads"]["migrated_pages"])
    # By default, all pages begin on the first GPU. With `--pages own`, nearly all reads of each GPU
    # are local from the start, so mostly pages of the result move.
    assert moved[0] > 1.5 * moved[1]
    assert moved[1] > 0


def test_programs_that_others_have_not_printed_are_predicted(run: Run) -> None:
    done = run("locality", "fir", "sc", "-g", 4)
    assert done.code == 0
    beside, predicted = done.out.split(
        "Interlace's predictions of MGPUSim's figures for the same sizes:"
    )
    assert "  fir, 4 GPUs: accesses of the vector L1 339,968 and 339,968" in beside
    assert "  sc, 4 GPUs: " in predicted
    assert "fir" not in predicted


def test_pages_that_move(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = run("locality", "mm", "-g", 4, "-m", "direct,page-migration", "--json", out)
    assert (done.code, done.err) == (0, "")
    direct, moved = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert direct["loads"]["migrated_pages"] == 0
    # The pages are those of three matrices of 64 pages each. All pages begin on the first GPU, and
    # each page moves at most once.
    assert 3 * 16 < moved["loads"]["migrated_pages"] <= 3 * 64
    assert moved["loads"]["vector_accesses"] == direct["loads"]["vector_accesses"]
    assert moved["over_direct"] > 0


def test_pages_that_move_on(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = run("locality", "mm", "st", "-g", 4, "-m", "page-migration,griffin", "--json", out)
    assert (done.code, done.err) == (0, "")
    found = {
        (row["program"], row["mechanism"]): row
        for row in json.loads(out.read_text(encoding="utf-8"))["rows"]
    }
    for program in ("mm", "st"):
        once, griffin = (found[program, how] for how in ("page-migration", "griffin"))
        assert griffin["time_s"] < once["time_s"] / 1.5, program
        loads = griffin["loads"]
        assert 0 < loads["migrated_again"] < loads["migrated_pages"]
        assert loads["migration_batches"] < loads["migrated_pages"] / 2
        assert loads["delayed_touches"] > 0
        assert loads["vector_accesses"] == once["loads"]["vector_accesses"]
        assert once["loads"]["migrated_again"] == once["loads"]["migration_batches"] == 0
        assert f"{program}, 4 GPUs, griffin: {loads['migrated_pages']:,} pages in " in done.out


def test_aes_reference() -> None:
    """Check the values of FIPS 197, appendix C.3."""
    text = np.array([[0x11 * k for k in range(16)]] * 2, np.uint8)
    cipher = encrypt(text, np.arange(32, dtype=np.uint8))
    assert cipher[1].tobytes().hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_references() -> None:
    it = unified.problem("spmv", 1)
    wrong = it.expected.astype(np.float32)
    assert it.wrong(wrong) == 0
    wrong[7] += 1
    assert it.wrong(wrong) == 1
    wrong[8] = np.nan
    assert it.wrong(wrong) == 2
    assert it.wrong(wrong[:-1]) > 0
    offsets, columns, _, _ = it.arguments
    assert len(columns) == 4096 * 4096 // 100
    assert offsets[-1] == len(columns)


def test_speed_beside_mgpusim(run: Run, tmp_path: Path) -> None:
    assert set(locality.MGPUSIM_SPEED) == set(locality.MGPUSIM)
    out = tmp_path / "rows.json"
    done = run("locality", "mm", "-g", 4, "--json", out)
    loads, seconds = (rows(out)["mm", 4][key] for key in ("loads", "cpu_s"))
    accesses, remote = locality.MGPUSIM_SPEED["mm", 4]
    assert (
        f"{loads['vector_accesses'] / seconds / accesses:.0f} times MGPUSim's accesses" in done.out
    )
    assert f"{loads['requests'] / seconds / remote:.0f} times its remote transactions" in done.out
    assert "times MGPUSim" not in run("locality", "km", "-g", 4).out


@pytest.mark.parametrize("name", list(unified.PROGRAMS))
def test_problems_are_seeded_and_of_both_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(unified.SIZES, name, 128)
    one, again, large = (unified.problem(name, scale) for scale in (1, 1, 4))
    assert np.array_equal(one.expected, again.expected)
    assert large.expected.size > one.expected.size
    assert one.sizes != large.sizes
    assert one.wrong(one.expected.astype(np.float32)) == 0
    assert one.error(one.expected.astype(np.float32)) < 1e-7


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ((0.01, 1.0, 1.0), locality.LOCAL),
        ((0.0, 0.0, 0.0), locality.LOCAL),
        ((0.5, 0.06, 0.39), locality.FINE),
        ((0.5, 0.2, 0.0), locality.CACHED),
        ((0.5, 0.1, 0.4), locality.CACHED),
    ],
)
def test_the_flow_chart(shares: tuple[float, float, float], named: str) -> None:
    assert locality.classify(*shares, locality.THRESHOLDS) == named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fire",), "there is no program 'fire' (did you mean fir?)"),
        (("-m", INLINE), "there is no mechanism 'inline'"),
        (("-m", FINEPACK), "packets of protocol pcie4 carry 64 bytes on machine 4x-r9nano"),
        (
            ("fir", "-m", "dualopt", "--machine", "4x-volta-nvlink2"),
            "the machine has no hardware for remote loads; add a table "
            "[gpu.dualopt], as in 4x-r9nano, or use direct",
        ),
        (
            ("fir", "-m", "griffin", "--machine", "4x-volta-nvlink2"),
            "the machine has no hardware for griffin; add tables [gpu.tlb] and "
            "[gpu.griffin], as in 4x-r9nano, or use another mechanism",
        ),
        (("--times", "2"), "--times 2: give 1 or 4"),
        (("--gpus", "8"), "--gpus 8: machine 4x-r9nano has 4 GPUs"),
        (
            ("fir", "--gpus", "4", "--pages", "gpu4"),
            "pages cannot be placed on gpu4; give gpu0 to gpu3",
        ),
        (
            ("fir", "--blocks", "greedy"),
            "unknown placement 'greedy' of blocks; give contiguous, round-robin or filled",
        ),
    ],
)
def test_what_cannot_be_run(run: Run, words: tuple[str, ...], said: str) -> None:
    done = run("locality", *words)
    assert done.code == 2
    assert said in done.err
