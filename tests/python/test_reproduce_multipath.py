"""Tests `interlace reproduce multipath`: rows must match runs, and simulations must be right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlace.base.errors import UserError
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.reproduce import multipath
from interlace.reproduce import multipath_inputs as given
from interlace.reproduce.multipath import GRAPHS, PATHS, STREAMS, Sent, Simulated
from interlace.reproduce.multipath_inputs import MIB, Sizes
from interlace.study.plan import Message, make
from study_helpers import Run

TINY = Sizes(
    put=(2 * MIB, 8 * MIB, 32 * MIB), mpi=(2 * MIB, 8 * MIB), windows=(1, 4), chunks=(1, 8),
    jacobi=(2 * MIB,), kernel_scale=1, ring_columns=256, ring_iterations=2,
    # Graphs of the first two sizes have the same number of nodes.
    graph=(2 * MIB, 4 * MIB, 32 * MIB),
)  # fmt: skip
NEEDED = (
    "put-v100-4-chunks", "put-a100-4-chunks", "put-graph-v100", "put-graph-a100", "host-path-gain",
    "jacobi-v100", "jacobi-a100", "graph-instantiation-ms",
)  # fmt: skip


@pytest.fixture(autouse=True)
def core() -> Any:
    return pytest.importorskip("interlace._core")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, in_this_process: None) -> None:  # noqa: ARG001
    """Use few sizes, and do the work in this process."""
    monkeypatch.setattr(given, "QUICK", TINY)
    monkeypatch.setattr(given, "OUTSTANDING_BYTES", 64 * MIB)
    monkeypatch.setattr(given, "VERIFIED_BYTES", 8 * MIB)
    monkeypatch.setattr(multipath, "PAPER_CHUNKED", 32 * MIB)
    monkeypatch.setattr(multipath, "_kernel", fake_kernel)


def fake_kernel(name: str, quick: bool) -> multipath.Kernel:  # noqa: ARG001
    """Simulate small grids, because simulating kernels on large grids takes long."""
    return multipath.Kernel((1 << 20, 1 << 21), (1e-3, 2e-3))


@pytest.mark.usefixtures("tiny")
def test_rows_follow_from_the_runs(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    ran = run("reproduce", "multipath", "--quick", "--jobs", "1", "--json", file)
    assert ran.code == 0, ran.err
    document: dict[str, Any] = json.loads(file.read_text())
    rows = {one["key"]: one for one in document["rows"]}
    assert len(rows) == len(document["rows"])  # all keys are different
    assert set(NEEDED) <= set(rows)
    assert document["inputs"]["put"] == list(TINY.put)
    for one in rows.values():
        assert one["simulated"] is not None or one["key"].startswith("jacobi-implied")
        assert one["measured"] is None
        if isinstance(one["published"], float):
            assert one["ratio"] == pytest.approx(one["simulated"] / one["published"])

    def rate(machine: str, paths: str, executor: str, size: str) -> float:
        found = [
            one
            for one in document["runs"]
            if (one["machine"], one["mechanism"], one["data"]) == (machine, executor, size)
            and one["workload"] == "put"
            and one["config"]["paths"] == paths
        ]
        assert len(found) == 1
        return 1 / float(found[0]["time_s"])

    for short, machine in multipath.MACHINES.items():
        direct = rate(machine, "1", "streams", "32 MiB")
        for key, executor in ((f"put-{short}", "streams"), (f"put-graph-{short}", "graphs")):
            best = max(rate(machine, paths, executor, "32 MiB") for paths in ("3", "3h"))
            assert rows[key]["simulated"] == pytest.approx(best / direct)
        # The direct path and the two relayed paths have the same rate. The path through the host
        # adds less than this rate.
        assert 2 < rows[f"put-{short}-without-host"]["simulated"] < 3
        assert 2 < rows[f"put-{short}-4-chunks-without-host"]["simulated"] < 3
        busy = [
            rows[f"put-{short}-4-chunks-{key}-busy"]["simulated"] for key in ("direct", "staged")
        ]
        assert 0.6 < busy[1] < busy[0] <= 1
        assert 1 <= rows[f"host-path-gain-{short}"]["simulated"] < 4 / 3
    # Graphs that overlap could use more copy engines than the three of this machine.
    overlapping = "put-graph-a100-overlapping"
    assert rows[overlapping]["simulated"] < rows[f"{overlapping}-many-engines"]["simulated"]
    verified = [one for one in document["runs"] if one["max_error"] is not None]
    assert 0 < len(verified) < len(document["runs"])
    assert all(one["max_error"] == 0 for one in verified)


def direct_rate(name: str) -> float:
    """Return the payload bytes per second of the link between two GPUs, from the machine file."""
    link = next(link for link in load_machine(name).link if link.ends == ("gpu*", "gpu*"))
    return float(link.copy_GB_per_s) * 1e9 if name.startswith("beluga") else 100e9 * 256 / 272


@pytest.mark.parametrize("name", multipath.MACHINES.values())
def test_large_puts_fill_their_links(name: str) -> None:
    on = Simulated(load_machine(name))
    size = 64 * MIB
    direct = multipath._put(on, on.plan((0, 1), size, PATHS["1"]), size, STREAMS)
    assert direct == pytest.approx(direct_rate(name), rel=0.02)
    two = multipath._put(on, on.plan((0, 1), size, PATHS["2"], 8), size, STREAMS)
    # The staged path of each message begins one chunk later than the direct path. It therefore
    # carries 8 parts while the direct path carries 9 parts.
    assert two == pytest.approx((1 + 8 / 9) * direct, rel=0.05)
    assert two < 2 * direct_rate(name)


def test_transfers_say_what_links_carried() -> None:
    on = Simulated(load_machine("beluga-4x-v100"))
    size = 64 * MIB
    plan = on.plan((0, 1), size, PATHS["3h"], 4)
    result = on.send([plan], 3, window=2, executor=GRAPHS, overlap=True, warm=False)
    carried = {one["link"]: one["payload"] for one in result["links"]}
    by_path = dict(zip(plan.path_names, (path.bytes for path in plan.plan.paths), strict=True))
    assert carried["gpu0 -> gpu1"] == 3 * by_path["direct"]
    assert carried["gpu0 -> gpu2"] == carried["gpu2 -> gpu1"] == 3 * by_path["gpu2"]
    assert carried["gpu0 -> host"] == carried["host -> gpu1"] == 3 * by_path["host"]
    phases = result["times"][0]
    assert phases[0]["instantiation_s"] == pytest.approx(13.2e-6 * len(plan.plan.steps))
    # A window of 2 makes 2 graphs. The third message launches one of these graphs again.
    assert phases[2]["instantiation_s"] == 0
    with pytest.raises(UserError, match="unknown executor 'threads'"):
        on.send([plan], 1, window=1, executor="threads")


def test_wrong_bytes_end_the_run() -> None:
    class Wrong:
        @staticmethod
        def simulate_transfers(*_: Any, **__: Any) -> dict[str, Any]:
            return {"wrong_bytes": 3}

    on = Simulated(load_machine("beluga-4x-v100"))
    on.core = Wrong()
    with pytest.raises(multipath.RunFailure, match="3 bytes arrived with a wrong value"):
        on.send([], 1, window=1)


@pytest.mark.parametrize("executor", [STREAMS, GRAPHS])
def test_jacobi_over_plans_is_right(core: Any, executor: str) -> None:
    """Check that the values and halos of four GPUs equal the reference, bit for bit."""
    on = Simulated(load_machine("narval-4x-a100"))
    columns = 4096
    plans = [
        [one.plan for one in multipath._ring_plans(on, 4 * columns, distance, "2", 2)]
        for distance in (3, 1)
    ]
    result = core.simulate_halo_jacobi(on.described, 4, columns, 3, 3, *plans, executor=executor)
    assert result["wrong"] == 0
    assert result["compute_s"] > 0
    assert result["exchange_s"] > 0
    with pytest.raises(UserError, match="gpu0 is not for one row from a device to its neighbour"):
        core.simulate_halo_jacobi(on.described, 4, columns, 3, 3, *reversed(plans))


def test_ring_paths_share_no_link_where_there_are_two() -> None:
    on = Simulated(load_machine("beluga-4x-v100"))
    for distance in (1, 3):
        plans = multipath._ring_plans(on, 64 * MIB, distance, "2", 8)
        result = on.send(plans, 1, window=1, moves=False)
        one = on.send(plans[:1], 1, window=1, moves=False)
        assert result["time_s"] == pytest.approx(one["time_s"], rel=1e-3)
        assert len(result["links"]) == 12  # each link is used by one message


def test_the_kernel_grows_with_its_columns() -> None:
    kernel = multipath.Kernel((10, 20), (3.0, 5.0))
    assert kernel.time(20) == 5
    assert kernel.time(110) == 23


def test_one_host_link_is_shared() -> None:
    machine = multipath.one_host_link("beluga-4x-v100")
    core = Simulated(machine).core
    assert core.validate_machine(to_core(machine, core)) == []
    plan = make(machine, [Message("host", "gpu0", 64 * MIB)], paths="direct")
    assert [path.bytes for path in plan.plan.paths if path.bytes] == [64 * MIB]
    carried = Simulated(machine).send([plan], 1, window=1)["links"]
    assert [one["link"] for one in carried] == ["plx -> gpu0", "host -> plx"]


def test_gains_compare_the_same_messages() -> None:
    sent = {
        ("3", STREAMS): {1: Sent(1, 4, 9, 30.0), 2: Sent(2, 4, 9, 20.0)},
        ("1", STREAMS): {1: Sent(1, 1, 1, 10.0), 2: Sent(2, 1, 1, 10.0)},
    }
    assert multipath._gains(sent, ("3", STREAMS), ("1", STREAMS)) == {1: 3, 2: 2}


def test_the_implied_share_gives_the_speedup() -> None:
    share = multipath._implied_share(1.26, 1.9)
    assert share is not None
    assert 1 / (share + (1 - share) / 1.9) == pytest.approx(1.26)
    assert multipath._implied_share(1.26, 1.0) is None


def test_rows_name_their_machines() -> None:
    assert set(multipath.MACHINES.values()) | set(multipath.OTHERS) <= {
        load_machine(name).name for name in (*multipath.MACHINES.values(), *multipath.OTHERS)
    }
    assert msgspec.json.encode(multipath.inputs(True))
