"""Tests `interlace tune`, its profiles, and the studies that use them.

The tests run the compiled search, not a fake.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace
from fake_core import Fake, FakeCuda
from interlace.base import table
from interlace.base.errors import UserError
from interlace.model.mechanism_table import (
    BULK_COPY,
    COPY_ENGINE,
    DEVICE_LAUNCH,
    INFINITE_BANDWIDTH,
    INLINE,
    NCCL,
    PACKED,
    POLLING,
    PROACT_HARDWARE,
    SERIAL_COPY,
    SPLIT,
    UNIFIED_MEMORY,
)
from interlace.model.mechanisms import KIB, MIB, PACKING
from interlace.tuning import profiles
from interlace.tuning.packing import Rates, first_choice, packing_axes
from interlace.tuning.search import Candidate, Search
from study_helpers import MACHINE, Run

pytest.importorskip("interlace._core")

FEW = ("--split", "2,8", "--chunks", "4K,64K", "--threads", "32,4096")


def tune_of(graph: Path, *words: object) -> list[object]:
    """Return the command line of a small search on a described machine."""
    return ["tune", "pagerank", "--data", graph, "--machine", MACHINE, *FEW, *words]


def measured(graph: Path, *words: object) -> list[object]:
    """Return the command line of a small search on the GPUs of this machine."""
    return ["tune", "pagerank", "--data", graph, *FEW, *words]


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# --- from Python ----------------------------------------------------------------------------------


def seconds(candidate: Candidate) -> float:
    if candidate.mechanism != POLLING:
        return {
            BULK_COPY: 2.0,
            SPLIT: 1.5,
            INLINE: 1.2,
            DEVICE_LAUNCH: 2.5,
            COPY_ENGINE: 3.0,
        }[candidate.mechanism]
    chunk, threads = (candidate.parameters[name] for name in ("chunk_bytes", "agent_threads"))
    octaves = abs(math.log2(chunk / (256 * KIB))) + abs(math.log2(threads / 2048))
    return 1 + 0.1 * octaves


def test_from_python() -> None:
    asked: list[tuple[Candidate, int]] = []

    def measure(candidate: Candidate, repeats: int) -> Sequence[float]:
        asked.append((candidate, repeats))
        if candidate.mechanism == COPY_ENGINE:
            raise interlace.Impossible("no copy engine is free")
        return [seconds(candidate) * (1 + 0.001 * n) for n in range(repeats)]

    found = interlace.tune(measure, space=interlace.tune_space(64 * MIB, peers=3), repeats=4)
    assert found.picked.mechanism == POLLING
    assert found.picked.parameters == {"chunk_bytes": 256 * KIB, "agent_threads": 2048}
    assert found.picked.finalist
    assert found.picked.median_s == pytest.approx(1.0015)
    assert found.best_control is not None
    assert found.candidates[found.best_control].mechanism == SPLIT
    assert {repeats for _, repeats in asked} == {4}
    kept = sum(len(one.times_s) for it in found.candidates for one in it.samples)
    refused = [it for it in found.candidates if it.mechanism == COPY_ENGINE]
    impossible = [it for it in refused if it.dropped == "not possible: no copy engine is free"]
    assert impossible
    assert kept == 4 * (len(asked) - len(impossible))
    assert all(it.samples or it.dropped for it in found.candidates)


def test_a_space_by_hand() -> None:
    space = {SPLIT: {"ranges": [2, 4]}, "mine": {"chunk_bytes": [64, 128, 256]}}
    found = interlace.tune(
        lambda it, n: [1 / it.parameters.get("chunk_bytes", 32)] * n, space=space, repeatable=True
    )
    assert (found.picked.mechanism, found.picked.parameters) == ("mine", {"chunk_bytes": 256})
    assert found.picked.samples[0].times_s == [1 / 256]
    best = found.best(SPLIT)
    assert best is not None
    assert best.control
    assert found.best(INLINE) is None


@pytest.mark.parametrize("times", [[], [0.0, 1.0, 1.0], [1.0, math.nan, 1.0], [1.0] * 4])
def test_times_that_cannot_be(times: list[float]) -> None:
    with pytest.raises(UserError, match="gave no 3 finite times above 0 s"):
        interlace.tune(lambda *_: times, space={INLINE: {}})


def test_spaces_that_cannot_be() -> None:
    with pytest.raises(UserError, match="must be above 0 and ascend"):
        interlace.tune(lambda *_: [1.0], space={SPLIT: {"ranges": [4, 2]}}, repeats=1)
    with pytest.raises(UserError, match="at least 2 devices"):
        interlace.tune_space(MIB, peers=0)
    with pytest.raises(UserError, match="nothing to try"):
        interlace.tune(lambda *_: [1.0], space={})


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_measuring_raises_comes_through(error: type[BaseException]) -> None:
    def measure(*_: object) -> list[float]:
        raise error

    with pytest.raises(error):
        interlace.tune(measure, space={INLINE: {}})


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_a_profile_has_everything(run: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    ran = run(*tune_of(graph, "--gpus", 2, "--out", out))
    assert (ran.code, ran.err) == (0, "")
    profile = profiles.load(out, "")
    assert profile.machine.node == "sim"
    assert profile.machine.name == MACHINE
    assert len(profile.machine.sha256 or "") == 64
    assert (profile.workload.kind, profile.workload.data) == ("pagerank", "forty")
    assert (profile.workload.gpus, profile.workload.peers) == (2, 1)
    assert profile.workload.elements == 40
    assert profile.workload.parameters == {
        "vertices": 40, "edges": 117, "dangling": 1, "subscribers": "everybody",
    }  # fmt: skip
    assert profile.repeats == 1
    search = profile.search
    assert {it.mechanism for it in search.candidates} == {
        BULK_COPY, SPLIT, INLINE, POLLING, DEVICE_LAUNCH, COPY_ENGINE,
    }  # fmt: skip
    fastest = min(it.median_s or math.inf for it in search.candidates)
    assert profile.pick.median_s == fastest == search.picked.median_s
    assert {(it.mechanism, it.parameters["chunk_bytes"]) for it in search.excluded} == {
        (POLLING, 64 * KIB), (DEVICE_LAUNCH, 64 * KIB), (COPY_ENGINE, 4 * KIB),
    }  # fmt: skip
    again = tmp_path / "again.json"
    assert run(*tune_of(graph, "--gpus", 2, "--out", again)).code == 0
    one, two = document(out), document(again)
    for it in (one, two):
        del it["command"], it["date"]
    assert one == two  # a repeated simulation gives the same times

    shown = run("tune", "--explain", out)
    assert shown.code == 0
    assert shown.out == ran.out
    assert f"Picked {profile.pick.label}: median " in shown.out
    assert profile.best_control is not None
    if search.picked.control:
        assert "It is a control, and no other candidate was faster." in shown.out
    else:
        assert f"The next control is {profile.best_control.label}: median " in shown.out
    assert "polling (64 KiB): left out: it gives the same chunk as 4 KiB" in shown.out
    assert shown.out.endswith(f"Profile: {out}\n")
    for it in search.candidates:
        if it.dropped and it.samples:
            assert f"dropped in round {it.dropped_round}: {it.dropped}" in shown.out


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("width", [60, 80, 140])
def test_reasons_are_whole_on_a_terminal(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(table, "terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    ran = run(*tune_of(graph, "--gpus", 2))
    head, _, _ = ran.out.partition("Picked ")
    assert "…" not in head
    assert all(len(line) <= width for line in head.splitlines()[1:])
    assert "above" in head


def test_a_measured_profile(run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    ran = run(*measured(graph, "--out", out, "--repeats", 2, "--warmup", 0))
    assert (ran.code, ran.err) == (0, "")
    profile = profiles.load(out, "")
    assert profile.machine == profiles.Machine(
        "cuda", "4x Fake H200", 4, "Fake H200", "580.1", "13.0", None
    )
    assert (profile.workload.gpus, profile.warmup, profile.repeats) == (4, 0, 2)
    controls = [it for it in profile.search.candidates if it.control and it.finalist]
    assert {it.mechanism for it in controls} == {BULK_COPY, SPLIT}
    finals = [{s.round for s in it.samples} for it in [*controls, profile.search.picked]]
    last = profile.search.rounds
    for rounds in finals:
        # Each control and the pick are measured until the last round.
        assert {last - 2, last - 1, last} <= rounds
    assert cuda.calls


def test_launched_kernels_are_tuned_on_gpus(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.json"
    assert run(*measured(graph, "--mechanisms", DEVICE_LAUNCH, "--out", out)).code == 0
    profile = profiles.load(out, "")
    assert {it.mechanism for it in profile.search.candidates} == {BULK_COPY, SPLIT, DEVICE_LAUNCH}
    best = profile.best(DEVICE_LAUNCH)
    assert best is not None
    # For this mechanism, the fake gives these parameters the shortest time.
    assert best.given() == {"chunk_bytes": 4 * KIB, "agent_threads": 32}
    assert {call[6:8] for call in cuda.calls if call[2] == DEVICE_LAUNCH} == {
        (4 * KIB, threads) for threads in (32, 4096)
    }
    # A study uses the profile in this file, unless an option says what to try.
    words = ("study", "pagerank", "--data", graph, "--gpus", 4, "--profile", out, "--json")
    for more, tried in (((), [best.given()]), (("--threads", "64"), None)):
        assert run(*words, tmp_path / "s.json", *more).code == 0
        rows = document(tmp_path / "s.json")["rows"]
        (row,) = (row for row in rows if row["mechanism"] == DEVICE_LAUNCH)
        if tried is None:
            assert {it["agent_threads"] for it in row["config"]["tried"]} == {64}
        else:
            assert row["config"]["tried"] == tried


def test_agents_that_copy_in_bulk_are_tuned_on_gpus(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.json"
    assert run(*measured(graph, "--mechanisms", POLLING, "--out", out)).code == 0
    tried = profiles.load(out, "").search.candidates
    found = [it.parameters for it in tried if it.mechanism == POLLING]
    for name in ("agent_threads", "bulk_threads"):
        assert {it[name] for it in found if name in it} == {32, 4096}
    assert {call[7:] for call in cuda.calls if call[2] == POLLING} == {
        (threads, how) for threads in (32, 4096) for how in ("", "bulk")
    }
    assert "polling (4 KiB, 32 threads, bulk)" in run("tune", "--explain", out).out
    simulated = tmp_path / "s.json"
    words = tune_of(graph, "--gpus", 2, "--mechanisms", POLLING, "--out", simulated)
    assert run(*words).code == 0
    tried = profiles.load(simulated, "").search.candidates
    assert not any("bulk_threads" in it.parameters for it in tried)


def test_a_study_takes_an_agent_that_copies_in_bulk_from_a_profile(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.json"
    cuda.bulk_s = -1e-6  # bulk copies are faster than copies by vectors
    assert run(*measured(graph, "--mechanisms", POLLING, "--out", out)).code == 0
    best = profiles.load(out, "").best(POLLING)
    assert best is not None
    assert best.given() == {"chunk_bytes": 4 * KIB, "bulk_threads": 32}
    cuda.calls.clear()
    words = ("study", "pagerank", "--data", graph, "--gpus", 4, "--profile", out, "--json")
    ran = run(*words, tmp_path / "s.json")
    assert (ran.code, "polling (4K, 32, bulk)" in ran.out) == (0, True)
    assert "\nbulk: the agent copies in bulk through shared memory.\n" in ran.out
    assert {call[6:] for call in cuda.calls if call[2] == POLLING} == {(4 * KIB, 32, "bulk")}
    # If the choice of a profile does not fit on this GPU, that is an error. The study does not make
    # another choice.
    cuda.no_place_for_bulk = True
    ran = run(*words, tmp_path / "t.json")
    assert (ran.code, ran.out) == (2, "")
    assert "leaves no place" in ran.err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        *(
            (name, "real GPUs cannot run this mechanism; leave it out, or name a machine to "
                   "simulate with --machine")
            for name in (PROACT_HARDWARE, SERIAL_COPY)
        ),
        (INFINITE_BANDWIDTH, "it moves no data, so leave it out"),
        *(
            (
                name,
                "it has no parameters to tune; leave it out, and measure it with the command "
                "interlace study",
            )
            for name in (NCCL, UNIFIED_MEMORY)
        ),
    ],
)  # fmt: skip
def test_what_gpus_cannot_pick(
    run: Run, cuda: FakeCuda, graph: Path, name: str, sentence: str
) -> None:
    ran = run(*measured(graph, "--mechanisms", f"inline,{name}"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"interlace: --mechanisms {name}: {sentence}\n"
    assert cuda.calls == []


@pytest.mark.usefixtures("core")
def test_proact_hardware_is_tuned_where_it_is(run: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    words = tune_of(graph, "--gpus", 2, "--mechanisms", PROACT_HARDWARE, "--out", out)
    assert run(*words).code == 0
    found = {it.mechanism for it in profiles.load(out, "").search.candidates}
    assert found == {BULK_COPY, SPLIT, PROACT_HARDWARE}
    ran = run(*tune_of(graph, "--mechanisms", SERIAL_COPY))
    assert (ran.code, ran.out) == (2, "")
    assert "--mechanisms serial-copy: it has no parameters to tune" in ran.err


def test_a_refused_candidate_is_no_end(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cuda.run_pagerank

    def refusing(mechanism: str, *arguments: Any) -> dict[str, Any]:
        if mechanism == POLLING:
            raise UserError("the agent has no room")
        return whole(mechanism, *arguments)

    monkeypatch.setattr(cuda, "run_pagerank", refusing)
    out = tmp_path / "p.json"
    ran = run(*measured(graph, "--out", out))
    assert ran.code == 0
    polling = [c for c in profiles.load(out, "").search.candidates if c.mechanism == POLLING]
    assert all(not it.samples for it in polling)
    assert {it.dropped for it in polling} == {"not possible: the agent has no room"}
    assert ": not possible: the agent has no room." in ran.out


@pytest.mark.parametrize("how", ["wrong", "crash", "interrupt"])
def test_what_ends_a_search_leaves_nothing(
    run: Run, core: Fake, graph: Path, tmp_path: Path, how: str
) -> None:
    setattr(core, how, (INLINE, 4, 1, 7) if how == "wrong" else INLINE)
    ran = run(*tune_of(graph, "--out", tmp_path / "p.json"))
    assert ran.out == ""
    if how == "interrupt":
        assert (ran.code, ran.err) == (130, "interlace: interrupted\n")
    else:
        assert ran.code == 1
        assert ran.err.startswith("interlace: ")
        assert ran.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["forty.mtx.gz"]


WRONG: list[tuple[list[str], str]] = [
    (["tune"], "tune needs the name of a workload; give one of pagerank, jacobi, sssp, als"),
    (["tune", "pgerank"], "there is no workload 'pgerank' (did you mean pagerank?); give one of "
                          "pagerank, jacobi, sssp, als"),
    (["--gpus", "1"], "--gpus 1: give a number of at least 2"),
    (["--gpus", "8"], "--gpus 8: 4x-volta-nvlink2 has 4 GPUs"),
    (["--mechanisms", INFINITE_BANDWIDTH],
     "--mechanisms infinite-bandwidth: it moves no data, so leave it out"),
    (["--repeats", "2"], "--repeats is for real GPUs; a simulated run always takes the same time, "
                         "so leave out either --repeats or --machine"),
    (["--out", "{folder}"], "--out {folder} is a directory; give the name of a file"),
    (["--explain", "{folder}/x"], "--explain prints a profile that exists; leave WORKLOAD out"),
    (["tune", "--explain", "{folder}/none"],
     "--explain {folder}/none cannot be read: No such file or directory"),
    (["tune", "--explain", "{graph}"], "--explain {graph} is not a profile"),
    (["tune", "--explain", "{folder}/list.json"],
     "--explain {folder}/list.json is not a profile; make one with interlace tune"),
    (["tune", "--explain", "{folder}/new.json"], "--explain {folder}/new.json has the format 99, "
     "and this version reads 1; make it anew with interlace tune"),
    (["tune", "--explain", "{folder}/half.json"],
     "--explain {folder}/half.json is damaged (Object missing required field"),
    (["study", "--mechanisms", "tuned"], "--mechanisms tuned: there is no profile of this workload "
     "on 2 GPUs of this machine; make one with interlace tune and --gpus 2"),
    (["study", "--mechanisms", "tuned", "--no-profile"],
     "--no-profile and --mechanisms tuned exclude each other; leave one out"),
    (["study", "--profile", "{folder}/list.json"],
     "--profile {folder}/list.json is not a profile; make one with interlace tune"),
]  # fmt: skip


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_input(
    run: Run, graph: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "new.json").write_text('{"kind": "interlace profile", "format": 99}')
    (tmp_path / "half.json").write_text('{"kind": "interlace profile", "format": 1}')
    names = {"graph": graph, "folder": tmp_path}
    on = ["pagerank", "--data", graph, "--machine", MACHINE]
    filled: list[object] = [word.format(**names) for word in words]
    if words[0] == "study":
        filled[1:1] = [*on, "--gpus", 2]
    elif words[0] != "tune":
        filled = ["tune", *on, *filled]
    ran = run(*filled)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"interlace: {sentence.format(**names)}")
    assert ran.err.count("\n") == 1


# --- later runs -----------------------------------------------------------------------------------


def configs(run: Run, tmp_path: Path, *words: object) -> tuple[dict[str, Any], str, list[str]]:
    """Run a study on two GPUs. Return the configurations in its rows, standard error, and its
    notes.
    """
    out = tmp_path / "study.json"
    ran = run("study", "pagerank", "--gpus", "2", "--json", out, *words)
    assert ran.code == 0, ran.err
    study = document(out)
    rows = [row for row in study["rows"] if row["gpus"] == 2]
    found = {row["mechanism"]: row["config"] for row in rows}
    return found, ran.err, [n for n in study["notes"] if n.startswith("Profile ")]


@pytest.mark.usefixtures("core")
def test_a_study_uses_the_profile_by_itself(run: Run, graph: Path, tmp_path: Path) -> None:
    on = ("--data", graph, "--machine", MACHINE)
    ran = run(*tune_of(graph, "--gpus", 2))
    assert ran.code == 0
    file = Path(ran.out.splitlines()[-1].removeprefix("Profile: "))
    assert file.parent == profiles.folder()
    profile = profiles.load(file, "")

    found, err, notes = configs(run, tmp_path, *on)
    assert err == ""
    assert notes == [f"Profile {file} (on 2 GPUs): it picks {profile.pick.label}."]
    for mechanism in (SPLIT, POLLING, COPY_ENGINE):
        best = profile.best(mechanism)
        assert best is not None
        assert found[mechanism]["tried"] == [best.given()]

    # An option overrides the profile for the mechanisms that have this option.
    found, _, _ = configs(run, tmp_path, *on, "--split", "3,5", "--threads", "96")
    assert found[SPLIT]["tried"] == [{"ranges": 3}, {"ranges": 5}]
    assert {it["agent_threads"] for it in found[POLLING]["tried"]} == {96}
    copied = profile.best(COPY_ENGINE)
    assert copied is not None
    assert found[COPY_ENGINE]["tried"] == [copied.given()]

    found, _, notes = configs(run, tmp_path, *on, "--no-profile")
    assert notes == []
    assert len(found[SPLIT]["tried"]) == 3

    found, _, _ = configs(run, tmp_path, *on, "--mechanisms", "tuned")
    assert list(found) == [profile.pick.mechanism]
    assert {name: found[profile.pick.mechanism].get(name) for name in profile.pick.parameters} == (
        profile.pick.parameters
    )
    ran = run("study", "pagerank", *on, "--gpus", "2", "--mechanisms", "bulk-copy,tuned")
    assert ran.out.splitlines()[-1] == notes_of(file, profile)

    other = graph.with_name("other.mtx.gz")  # there is no profile for this workload
    shutil.copy(graph, other)
    _, _, notes = configs(run, tmp_path, "--data", other, "--machine", MACHINE)
    assert notes == []


def notes_of(file: Path, profile: profiles.Profile) -> str:
    return f"Profile {file} (on 2 GPUs): it picks {profile.pick.label}."


def test_a_profile_of_another_machine(
    run: Run, cuda: FakeCuda, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*measured(graph, "--gpus", 2)).code == 0
    (file,) = profiles.folder().iterdir()
    assert configs(run, tmp_path, "--data", graph)[1] == ""

    about = {"gpus": 4, "name": "Fake H200", "driver": "590.2", "cuda": "13.1"}
    cuda.gpus = 8
    monkeypatch.setattr(cuda, "device_info", lambda: about | {"gpus": 8})
    found, err, notes = configs(run, tmp_path, "--data", graph)
    assert err == (
        f"interlace: the profile {file} was made on another machine: it has 4 GPUs, but this "
        "machine has 8; it has driver 580.1, but this machine has 590.2; it has CUDA 13.0, but "
        "this machine has 13.1. This profile is used "
        "nevertheless; make it anew with interlace tune, or leave it out with --no-profile\n"
    )
    assert len(notes) == 1
    assert len(found[SPLIT]["tried"]) == 1
    assert configs(run, tmp_path, "--data", graph, "--no-profile")[1] == ""

    # A study on other GPUs does not look for the profile, but --profile can name the profile.
    monkeypatch.setattr(cuda, "device_info", lambda: about | {"name": "Fake B200"})
    assert configs(run, tmp_path, "--data", graph)[2] == []
    _, err, notes = configs(run, tmp_path, "--data", graph, "--profile", file)
    assert "it has Fake H200, but this machine has Fake B200" in err
    assert len(notes) == 1
    _, err, _ = configs(run, tmp_path, "--data", graph, "--machine", MACHINE, "--profile", file)
    assert f"the profile is for 4x Fake H200, but this machine is {MACHINE}" in err


@pytest.mark.usefixtures("core")
def test_a_changed_description_is_named(run: Run, graph: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    shutil.copy(Path(__file__).resolve().parents[2] / "machines" / f"{MACHINE}.toml", mine)
    on = ("--data", graph, "--machine", mine)
    assert run("tune", "pagerank", *on, *FEW, "--gpus", 2).code == 0
    assert configs(run, tmp_path, *on)[1] == ""
    text = mine.read_text()
    assert "clock_MHz = " in text
    mine.write_text(text.replace("clock_MHz = 1", "clock_MHz = 2", 1))
    assert "the description of mine has changed" in configs(run, tmp_path, *on)[1]


@pytest.mark.usefixtures("core")
def test_a_broken_profile_is_one_error(run: Run, graph: Path) -> None:
    assert run(*tune_of(graph, "--gpus", 2)).code == 0
    (file,) = profiles.folder().iterdir()
    whole = document(file)
    study = ("study", "pagerank", "--data", graph, "--machine", MACHINE, "--gpus", "2")

    def told(text: str) -> str:
        file.write_text(text)
        ran = run(*study)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.count("\n") == 1
        return ran.err

    assert "is not a profile" in told(json.dumps(whole)[:-9])
    search = whole["search"]
    assert "there is no candidate 999" in told(
        json.dumps(whole | {"search": search | {"pick": 999}})
    )
    changed = [it | {"mechanism": "by-hand"} for it in search["candidates"]]
    assert "there is no mechanism 'by-hand'" in told(
        json.dumps(whole | {"search": search | {"candidates": changed}})
    )
    for changes, reason in (
        ({"median_s": 0}, "a median of "),
        ({"median_s": -1e-3}, "a median of "),
        ({"median_s": None, "samples": []}, "the pick was not measured"),
    ):
        changed = [*search["candidates"]]
        changed[search["pick"]] = changed[search["pick"]] | changes
        assert reason in told(json.dumps(whole | {"search": search | {"candidates": changed}}))
    for key, what in (("pick", "pick"), ("best_control", "best control")):
        for changes in ({"median_s": 0}, {"mechanism": "nosuch"}, {"parameters": {"ranges": 3}}):
            damaged = json.dumps(whole | {key: whole[key] | changes})
            assert f"the {what} is not the candidate that it names" in told(damaged)
    assert "the best control is not" in told(json.dumps(whole | {"best_control": None}))
    other = whole | {"workload": whole["workload"] | {"elements": 41}}
    assert "elements is 41 in the profile and 40 here" in told(json.dumps(other))
    file.unlink()
    assert run(*study).code == 0


@pytest.mark.usefixtures("core")
def test_numbers_that_the_modules_cannot_take(run: Run, graph: Path, tmp_path: Path) -> None:
    on = ["pagerank", "--data", graph, "--machine", MACHINE, "--gpus", 2]
    path = tmp_path / "p.json"
    assert run("tune", *on, "--out", path).code == 0
    text = path.read_text()
    for name in ("chunk_bytes", "ranges"):
        for number in (2**32, 2**64):
            path.write_text(re.sub(rf'"{name}": \d+', f'"{name}": {number}', text))
            ran = run("study", *on, "--profile", path)
            assert ran.code == 2
            assert "is damaged" in ran.err


@pytest.mark.usefixtures("core")
def test_a_user_without_a_home_has_no_profile(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    on = ["pagerank", "--data", graph, "--machine", MACHINE, "--gpus", 2]
    assert run("study", *on).code == 0
    ran = run("tune", *on)
    assert ran.code == 2
    assert ran.err == (
        "interlace: there is no folder for profiles: set HOME, or XDG_CONFIG_HOME to an absolute "
        "path\n"
    )


@pytest.mark.usefixtures("core")
def test_a_named_profile_is_of_this_workload(run: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    assert run(*tune_of(graph, "--gpus", 2, "--out", out)).code == 0
    words = ("study", "pagerank", "--data", graph, "--machine", MACHINE, "--profile", out)
    assert run(*words, "--gpus", "4").err == (
        f"interlace: --profile {out} is for 2 GPUs, but this study does not run on 2 GPUs; give "
        "--gpus\n"
    )
    ran = run("study", "jacobi", "--rows", 64, "--machine", MACHINE, "--profile", out)
    assert ran.code == 2
    assert f"the profile {out} is of pagerank, forty on 2 GPUs, not of this workload" in ran.err
    assert run(*words).code == 0


def test_the_pick_of_a_search_comes_before_its_finalists() -> None:
    found: Search = interlace.tune(
        lambda it, n: [1.0 if it.mechanism == SPLIT else 1 - 1e-9] * n,
        space={SPLIT: {"ranges": [2]}, INLINE: {}},
    )
    assert found.picked.mechanism == INLINE
    assert found.best(INLINE) == found.picked


# --- updates of partitioned arrays ----------------------------------------------------------------

COUNTING = ("histogram", "--size", 4096, "--keys", 30_000, "--skew", 0, "--iterations", 2)


def test_packing_is_tuned_from_the_rates_of_the_kernel(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    on = ("--machine", MACHINE)
    ran = run("tune", *COUNTING, *on, "--gpus", 2, "--out", out)
    assert (ran.code, ran.err) == (0, "")
    profile = profiles.load(out, "")
    search = profile.search
    assert {it.mechanism for it in search.candidates} == {BULK_COPY, INLINE, PACKED}
    packed = [it for it in search.candidates if it.mechanism == PACKED]
    first = [it for it in packed if it.samples and it.samples[0].round == 1]
    # Half of the keys are in bins of the other device: 7500 updates of 4 bytes from each device.
    assert [it.parameters for it in first] == [
        {"packet_bytes": 512, "queue_bytes": 1 << 16, "update_windows": windows, "combining": 2,
         "unpack_blocks": 32}
        for windows in (1, 2, 4)
    ]  # fmt: skip
    tried = [it for it in packed if it.samples]
    assert 30 < len(tried) < len(packed) / 4
    for name in PACKING:
        assert len({it.parameters[name] for it in tried}) > 1, name
    fastest = min(tried, key=lambda it: it.median_s or math.inf)
    assert fastest.median_s is not None
    assert fastest.median_s <= (first[0].median_s or 0)
    assert "packets of 512 B, queues of 64 KiB, 1 window, combining, 32 blocks" in ran.out

    path = tmp_path / "study.json"
    words = ("study", *COUNTING, *on, "--gpus", 2, "--profile", out, "--json", path)
    assert run(*words).code == 0
    rows = {row["mechanism"]: row for row in document(path)["rows"] if row["gpus"] == 2}
    assert all(row["verified"] for row in rows.values())
    assert fastest.parameters.items() <= rows[PACKED]["config"].items()


def test_parameters_of_packets_that_cannot_be_are_one_error(run: Run, tmp_path: Path) -> None:
    core = pytest.importorskip("interlace._core")
    keys = np.zeros(4, np.uint32)
    cut = np.array([0, 5, 10], np.uint64)

    def counted(mechanism: str, packing: dict[str, int]) -> None:
        core.run_histogram(
            "host", None, mechanism, cut, 1, 0.0, 1, 4096, 32, "", 10, keys, packing=packing
        )

    counted(PACKED, {"packet_bytes": 128, "queue_bytes": 256, "unpack_blocks": 1, "combining": 1})
    for mechanism, packing, why in (
        (PACKED, {"packet_bytes": 100}, "packets of 100 bytes are not possible"),
        (PACKED, {"queue_bytes": 300}, "a queue of 300 bytes has no room for a packet of 512"),
        (PACKED, {"combining": 3}, r"combining is 1 \(off\) or 2 \(on\), and not 3"),
        (PACKED, {"update_windows": 99}, "99 windows for each of 2 parts are not possible"),
        (PACKED, {"bins": 3}, "packed has no parameter 'bins'"),
        (PACKED, {"unpack_blocks": 0}, "unpack_blocks cannot be 0; give a number from 1"),
        (INLINE, {"packet_bytes": 128}, "inline packs no updates, and 'packet_bytes' is given"),
    ):
        with pytest.raises(UserError, match=why):
            counted(mechanism, packing)

    words = ("tune", *COUNTING, "--machine", MACHINE)
    for more, why in (
        (("--chunks", "4K"), "--chunks is for regions, and histogram updates a partitioned array"),
        (("--mechanisms", POLLING), "--mechanisms polling: it has no parameters to tune"),
    ):
        ran = run(*words, *more, "--out", tmp_path / "p.json")
        assert (ran.code, ran.out) == (2, "")
        assert why in ran.err
    assert list(tmp_path.iterdir()) == []


def test_the_first_packets_follow_from_the_rates() -> None:
    def chosen(pair_bytes: float, gpus: int) -> tuple[int, ...]:
        return tuple(first_choice(Rates(pair_bytes), gpus).values())

    assert chosen(0, 2) == (128, 4 * KIB, 1, 2, 32)  # no updates
    assert chosen(3000, 4) == (128, 8 * KIB, 1, 2, 32)  # an owner gets fewer than 32 packets
    assert chosen(32 * MIB, 2) == (512, 64 * MIB, 1, 2, 1024)
    assert chosen(1e12, 16) == (512, 1 << 30, 1, 2, 1024)
    for pair_bytes in (0, 100, 1e5, 1e8, 1e12):
        for gpus in (2, 4, 16):
            start = first_choice(Rates(pair_bytes), gpus)
            for windows in (1, 2, 4):
                for name, values in packing_axes(start, gpus, windows):
                    assert name == "update_windows" or min(start[name], values[-1]) in values
                    assert values == sorted(set(values))
    assert packing_axes(first_choice(Rates(0), 16), 16, 2) == []  # 32 packets are too many
