"""The figures that the text of the multi-path paper states, beside our figures.

The paper is Sojoodi et al., "Accelerating Intra-Node GPU-to-GPU Communication Through Multi-Path
Transfers with CUDA Graphs" (2026).

`interlace plan` makes the plans. Each copy of a plan is simulated on the paper's two machines, on
streams or in a graph. "1", "2" and "3" are the numbers of GPU paths that carry a message: the
direct path, and paths through one or two other GPUs. "3h" adds the path through the host. The
baseline is one copy on the direct path. The costs of the host's calls are in the machine files.
Most of these costs were measured on an H200 node. None of them was fitted to the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from interlace.base.native import load_core
from interlace.machine.compiled import to_core
from interlace.machine.reading import load_machine
from interlace.machine.schema import Machine, Switch
from interlace.model.mechanisms import size_text
from interlace.model.run import RunFailure, core_errors
from interlace.nodes.nodes import CudaNode
from interlace.reproduce import multipath_inputs as given
from interlace.reproduce.multipath_inputs import CONTROL_S, Sizes
from interlace.reproduce.rows import FigureRow, Run, row
from interlace.reproduce.runs import Runner
from interlace.study.plan import Message, Planned, make

TITLE = (
    "Multi-path transfers with CUDA graphs (2026): published figures, figures simulated on the "
    "paper's machines, and figures measured on the GPUs of this computer"
)
UNVERIFIED = (
    f"runs with more than {given.VERIFIED_BYTES >> 20} MiB in flight moved no real bytes; in every "
    "run the order and completeness of the copies were checked."
)

MACHINES = {"v100": "beluga-4x-v100", "a100": "narval-4x-a100"}
OTHERS = ("dgx-2", "hgx-h200-4")
PATHS = {
    "1": "direct",
    "2": "direct,gpu2",
    "3": "direct,gpu2,gpu3",
    "3h": "direct,gpu2,gpu3,host",
}
STREAMS, GRAPHS = "streams", "graphs"
SENDERS = (
    ("1", STREAMS), ("2", STREAMS), ("2", GRAPHS), ("3", STREAMS), ("3", GRAPHS), ("3h", STREAMS),
    ("3h", GRAPHS),
)  # fmt: skip
RING = 4  # the number of GPUs in Jacobi's ring
# The paper says "for a 128MB message size, where we use three GPU paths and four chunks per path".
PAPER_CHUNKS = 4
PAPER_CHUNKED = 128 * given.MIB
MANY_ENGINES = 128  # enough copy engines for all copies of all messages in flight


def _sizes(quick: bool) -> Sizes:
    return given.QUICK if quick else given.FULL


def inputs(quick: bool) -> dict[str, Any]:
    """Return the sizes and parameters of the runs."""
    return {
        **_sizes(quick)._asdict(),
        "control_s": CONTROL_S,
        "outstanding": given.OUTSTANDING,
        "outstanding_bytes": given.OUTSTANDING_BYTES,
        "jacobi_rows": given.JACOBI_ROWS,
    }


def steps(quick: bool, node: CudaNode | None) -> int:  # noqa: ARG001 (nothing is measured)
    """Return how many times `reproduce` calls the runner's tick."""
    return len(_put_work(quick)) + len(_later_work(quick, {}))


# --- messages -------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """Messages of one size that one executor sends over the same paths."""

    bytes: int
    chunks: int  # the number of chunks on each staged path
    copies: int  # the number of copies that make up a message
    bytes_per_s: float
    # the time of one message alone, from the call until its last byte has arrived, in seconds
    single_s: float = 0.0
    predicted_s: float = 0.0  # the planner's prediction of single_s
    verified: bool = False


class Simulated:
    """A machine that plans and simulates messages."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.core = load_core()
        self.described = to_core(machine, self.core)

    def plan(self, pair: tuple[int, int], size: int, paths: str | None, chunks: int = 0) -> Planned:
        """Plan a message from one GPU to another."""
        start, end = (f"gpu{gpu}" for gpu in pair)
        return make(self.machine, [Message(start, end, size)], paths=paths, chunks=chunks)

    def send(self, plans: Sequence[Planned], messages: int, **how: Any) -> dict[str, Any]:
        """Simulate the transfers. Raise RunFailure if a byte arrives wrong."""
        with core_errors():
            result: dict[str, Any] = self.core.simulate_transfers(
                self.described, [one.plan for one in plans], messages, **how
            )
        if result["wrong_bytes"]:
            raise RunFailure(
                f"{result['wrong_bytes']} bytes arrived with a wrong value on {self.machine.name}"
            )
        return result


def _put(on: Simulated, plan: Planned, size: int, executor: str, *, overlap: bool = False) -> float:
    """Return the bandwidth of puts in bytes per second. The number of puts in flight is fixed."""
    outstanding = max(1, min(given.OUTSTANDING, given.OUTSTANDING_BYTES // size))
    messages = max(4, 2 * outstanding)
    result = on.send(
        [plan], messages, window=outstanding, sliding=True, executor=executor, overlap=overlap,
        moves=False,
    )  # fmt: skip
    return messages * size / float(result["time_s"])


def _tuned_put(name: str, sender: tuple[str, str], quick: bool) -> dict[int, Sent]:
    """Return the puts of each size, with the number of chunks that has the highest bandwidth."""
    paths, executor = sender
    sizes = _sizes(quick)
    on = Simulated(load_machine(name))
    found = {}
    for size in sizes.put:
        best: tuple[float, int, Planned] | None = None
        for chunks in (1,) if paths == "1" else sizes.chunks:
            plan = on.plan((0, 1), size, PATHS[paths], chunks)
            rate = _put(on, plan, size, executor)
            if best is None or rate > best[0]:
                best = rate, chunks, plan
        assert best is not None  # `sizes.chunks` has at least one number
        rate, chunks, plan = best
        verified = size <= given.VERIFIED_BYTES
        alone = on.send([plan], 1, window=1, executor=executor, moves=verified)
        found[size] = Sent(
            size, chunks, len(plan.plan.steps), rate, alone["time_s"], plan.plan.predicted_s,
            verified,
        )  # fmt: skip
    return found


def _mpi(
    machine: Machine, sender: tuple[str, str], both: bool, chunks: dict[int, int], quick: bool
) -> dict[tuple[int, int], Sent]:
    """Return the bandwidth of the OSU tests by window and size.

    If `both` is set, messages go in both directions, and the bandwidth is the sum of both
    directions.
    """
    paths, executor = sender
    sizes = _sizes(quick)
    on = Simulated(machine)
    found = {}
    pairs = [(0, 1), (1, 0)] if both else [(0, 1)]
    for size in sizes.mpi:
        plans = [on.plan(pair, size, PATHS[paths], chunks[size]) for pair in pairs]
        for window in sizes.windows:
            verified = window * size * len(pairs) <= given.VERIFIED_BYTES
            result = on.send(
                plans, 2 * window, window=window, executor=executor, handshake_s=2 * CONTROL_S,
                acknowledgement_s=CONTROL_S, moves=verified,
            )  # fmt: skip
            first, second = (
                max(one["end_s"] for times in result["times"] for one in times[part])
                for part in (slice(0, window), slice(window, 2 * window))
            )
            copies = len(plans[0].plan.steps)
            rate = len(pairs) * window * size / (second - first)
            found[window, size] = Sent(size, chunks[size], copies, rate, verified=verified)
    return found


# --- Jacobi ---------------------------------------------------------------------------------------


def _ring_plans(on: Simulated, size: int, distance: int, paths: str, chunks: int) -> list[Planned]:
    """Plan a message from each GPU to the GPU that is `distance` places further in a ring."""
    plans = []
    for gpu in range(RING):
        end = (gpu + distance) % RING
        # The opposite GPU comes first, because the ring does not use its direct path.
        others = [(gpu + 2) % RING, (gpu - distance) % RING]
        allowed = ["direct", *(f"gpu{other}" for other in others[: int(paths) - 1])]
        plans.append(on.plan((gpu, end), size, ",".join(allowed), chunks))
    return plans


def _iteration(on: Simulated, plans: Sequence[Planned], executor: str, moves: bool) -> float:
    """Return the seconds from the end of an exchange to the end of the next exchange."""
    result = on.send(plans, 2, window=1, executor=executor, handshake_s=2 * CONTROL_S, moves=moves)
    first, second = (max(times[k]["end_s"] for times in result["times"]) for k in range(2))
    return float(second - first)


def _exchange(
    name: str, sender: tuple[str, str], chunks: dict[int, int], quick: bool
) -> dict[int, float]:
    """Return the seconds of Jacobi's exchange by size.

    Each GPU first sends to one neighbour, and then to the other neighbour.
    """
    paths, executor = sender
    on = Simulated(load_machine(name))
    by_size = {}
    for size in _sizes(quick).jacobi:
        moves = RING * size <= given.VERIFIED_BYTES
        by_size[size] = sum(
            _iteration(on, _ring_plans(on, size, distance, paths, chunks[size]), executor, moves)
            for distance in (RING - 1, 1)
        )
    return by_size


def _exchange_planned(name: str, quick: bool) -> dict[int, float]:
    """Return the seconds of Jacobi's exchange by size. Its four messages are planned together."""
    on = Simulated(load_machine(name))
    allowed = ",".join(["direct", *(f"gpu{gpu}" for gpu in range(RING))])
    by_size = {}
    for size in _sizes(quick).jacobi:
        by_size[size] = 0.0
        for distance in (RING - 1, 1):
            ring = [Message(f"gpu{g}", f"gpu{(g + distance) % RING}", size) for g in range(RING)]
            plan = make(on.machine, ring, paths=allowed)
            by_size[size] += _iteration(on, [plan], STREAMS, RING * size <= given.VERIFIED_BYTES)
    return by_size


class Kernel(NamedTuple):
    """The seconds of Jacobi's kernel for two numbers of columns."""

    columns: tuple[int, int]
    seconds: tuple[float, float]

    def time(self, columns: int) -> float:
        """Return the seconds for `columns` columns, extrapolated linearly."""
        (few, many), (short, long) = self.columns, self.seconds
        return long + (long - short) / (many - few) * (columns - many)


def _halo_jacobi(on: Simulated, *arguments: Any, **options: Any) -> dict[str, Any]:
    with core_errors():
        result: dict[str, Any] = on.core.simulate_halo_jacobi(on.described, *arguments, **options)
    if result["wrong"]:
        raise RunFailure(
            f"{result['wrong']} points of Jacobi's grid have a wrong value on {on.machine.name}"
        )
    return result


def _kernel(name: str, quick: bool) -> Kernel:
    on = Simulated(load_machine(name))
    grids = 2 * given.JACOBI_ROWS * 4  # the bytes of one column in both grids
    least = _sizes(quick).kernel_scale * on.machine.gpu.l2.size_KiB * 1024 // grids
    columns = (least, 2 * least)
    seconds = [
        float(_halo_jacobi(on, 1, count, given.JACOBI_ROWS, 1, [], [])["compute_s"])
        for count in columns
    ]
    return Kernel(columns, (seconds[0], seconds[1]))


class Ring(NamedTuple):
    """The seconds of a Jacobi iteration on four GPUs that is simulated in full and verified."""

    columns: int
    compute_s: float
    exchange_s: float


def _ring(name: str, quick: bool) -> Ring:
    sizes = _sizes(quick)
    on = Simulated(load_machine(name))
    size = sizes.ring_columns * 4
    before, after = (
        [one.plan for one in _ring_plans(on, size, distance, "2", 4)] for distance in (RING - 1, 1)
    )
    result = _halo_jacobi(
        on, RING, sizes.ring_columns, given.JACOBI_ROWS, sizes.ring_iterations, before, after,
        handshake_s=2 * CONTROL_S,
    )  # fmt: skip
    return Ring(sizes.ring_columns, result["compute_s"], result["exchange_s"])


# --- graphs ---------------------------------------------------------------------------------------


class Phases(NamedTuple):
    """The seconds that a message in a graph takes, and the seconds of each phase of the graph.

    `first` is for the first use of the graph, and `later` is for later uses.
    """

    nodes: int
    first: dict[str, float]
    later: dict[str, float]
    streams_s: float  # the seconds of a later message on streams


PHASES = ("creation", "construction", "instantiation", "launch")


def _graphs(name: str, quick: bool) -> dict[int, Phases]:
    """Return the latency of messages over two paths.

    A message of 512 MiB has 16 chunks on the staged path, so its graph has as many nodes as the
    paper states. Smaller messages have proportionally fewer chunks.
    """
    on = Simulated(load_machine(name))
    sizes = _sizes(quick).graph
    found = {}
    for size in sizes:
        chunks = max(1, (given.GRAPH_NODES // 2 - 1) * size // sizes[-1])
        plan = on.plan((0, 1), size, PATHS["2"], chunks)
        uses = []
        for executor in (GRAPHS, STREAMS):
            result = on.send(
                [plan], 2, window=1, executor=executor, warm=False,
                moves=size <= given.VERIFIED_BYTES,
            )  # fmt: skip
            for one in result["times"][0]:
                phases = {phase: one[f"{phase}_s"] for phase in PHASES}
                uses.append({**phases, "latency": one["end_s"] - one["begin_s"]})
        first, later, _, streams = uses
        found[size] = Phases(len(plan.plan.steps), first, later, streams["latency"])
    return found


# --- other machines, and experiments --------------------------------------------------------------


class Choice(NamedTuple):
    """The speedup of puts if the planner chooses the paths, compared with the direct path alone."""

    gain: float
    paths: str


def _planner_choice(name: str, quick: bool) -> Choice:
    """Return the speedup for large messages if the planner chooses the paths and the chunks."""
    on = Simulated(load_machine(name))
    best = Choice(0.0, "")
    for size in _sizes(quick).put:
        if size < given.LARGE:
            continue
        plan = on.plan((0, 1), size, None)
        direct = on.plan((0, 1), size, PATHS["1"])
        gain = _put(on, plan, size, STREAMS) / _put(on, direct, size, STREAMS)
        used = [
            path_name
            for path_name, path in zip(plan.path_names, plan.plan.paths, strict=True)
            if path.bytes
        ]
        if gain > best.gain:
            best = Choice(gain, ", ".join(used))
    return best


def _overlapping(name: str, engines: int | None, chunks: dict[int, int], quick: bool) -> float:
    """Return the largest speedup, over one path, of puts by overlapping graphs of three paths.

    The function tries only large messages. `engines` replaces the number of copy engines of the
    machine.
    """
    machine = load_machine(name)
    if engines is not None:
        copy = msgspec.structs.replace(machine.gpu.copy, engines=engines)
        gpu = msgspec.structs.replace(machine.gpu, copy=copy)
        machine = msgspec.structs.replace(machine, gpu=gpu)
    on = Simulated(machine)
    gains = []
    for size in _sizes(quick).put:
        if size < given.LARGE:
            continue
        plan = on.plan((0, 1), size, PATHS["3"], chunks[size])
        direct = on.plan((0, 1), size, PATHS["1"])
        rate = _put(on, plan, size, GRAPHS, overlap=True)
        gains.append(rate / _put(on, direct, size, STREAMS))
    return max(gains)


class PaperChunks(NamedTuple):
    """Puts with the paper's size and chunks: the speedup over one path, by number of paths."""

    gains: dict[str, float]
    direct_busy: float  # with three paths: the fraction of time in which the direct link is busy
    staged_busy: float  # the mean of the same fraction over the links of staged paths


def _paper_chunks(name: str) -> PaperChunks:
    on = Simulated(load_machine(name))
    direct = _put(on, on.plan((0, 1), PAPER_CHUNKED, PATHS["1"]), PAPER_CHUNKED, STREAMS)
    gains = {}
    for paths in ("3", "3h"):
        plan = on.plan((0, 1), PAPER_CHUNKED, PATHS[paths], PAPER_CHUNKS)
        gains[paths] = _put(on, plan, PAPER_CHUNKED, STREAMS) / direct
    plan = on.plan((0, 1), PAPER_CHUNKED, PATHS["3"], PAPER_CHUNKS)
    result = on.send([plan], 8, window=8, moves=False)
    busy = {one["link"]: one["busy_s"] / result["time_s"] for one in result["links"]}
    of_direct = busy.pop("gpu0 -> gpu1")
    return PaperChunks(gains, of_direct, sum(busy.values()) / len(busy))


def one_host_link(name: str) -> Machine:
    """Return the machine with one PCIe link between a switch and the host. All GPUs share it."""
    machine = load_machine(name)
    links = []
    for link in machine.link:
        if "host" not in link.ends:
            links.append(link)
            continue
        links += [
            msgspec.structs.replace(link, ends=ends) for ends in (("gpu*", "plx"), ("plx", "host"))
        ]
    switch = Switch(name="plx", latency_ns=0)
    return msgspec.structs.replace(
        machine, name=f"{name}, one host link", link=tuple(links), switch=(switch,)
    )


# --- the runs -------------------------------------------------------------------------------------


Mpi = dict[tuple[int, int], Sent]


class Found(NamedTuple):
    """All results on one machine. The keys called sender are pairs (paths, executor)."""

    put: dict[tuple[str, str], dict[int, Sent]]
    mpi: dict[tuple[str, str], Mpi]
    both: dict[tuple[str, str], Mpi]
    both_one_link: dict[tuple[str, str], Mpi]  # as in `both`, on the machine with one host link
    exchange: dict[tuple[str, str], dict[int, float]]
    planned: dict[int, float]  # the seconds of the exchange if its four messages have one plan
    # Maps the number of copy engines to the speedup of puts by graphs that overlap.
    overlapping: dict[int | None, float]
    paper_chunks: PaperChunks
    kernel: Kernel
    ring: Ring


# A job has the keys of a result, and the call that computes the result.
Job = tuple[tuple[Any, ...], Callable[[], Any]]

MPI_SENDERS = tuple(sender for sender in SENDERS if sender[0] != "2")
JACOBI_SENDERS = tuple(sender for sender in SENDERS if sender[0] != "3h")
HOST_SENDERS = (("3", STREAMS), ("3h", STREAMS))


def _put_work(quick: bool) -> list[Job]:
    return [
        (("put", short, sender), partial(_tuned_put, name, sender, quick))
        for short, name in MACHINES.items()
        for sender in SENDERS
    ]


def _later_work(quick: bool, puts: dict[tuple[Any, ...], dict[int, Sent]]) -> list[Job]:
    """Return the runs that reuse a chunk count: the fastest count for puts of the same size."""
    work: list[Job] = []
    for short, name in MACHINES.items():

        def chunks(sender: tuple[str, str], short: str = short) -> dict[int, int]:
            sent = puts.get(("put", short, sender), {})
            return {size: one.chunks for size, one in sent.items()}

        work += [
            (("kernel", short), partial(_kernel, name, quick)),
            (("ring", short), partial(_ring, name, quick)),
        ]
        for both in (True, False):
            work += [
                (
                    ("both" if both else "mpi", short, sender),
                    partial(_mpi, load_machine(name), sender, both, chunks(sender), quick),
                )
                for sender in MPI_SENDERS
            ]
        work += [
            (
                ("both_one_link", short, sender),
                partial(_mpi, one_host_link(name), sender, True, chunks(sender), quick),
            )
            for sender in HOST_SENDERS
        ]
        work += [
            (("exchange", short, sender), partial(_exchange, name, sender, chunks(sender), quick))
            for sender in JACOBI_SENDERS
        ]
        work += [
            (("planned", short), partial(_exchange_planned, name, quick)),
            (("paper_chunks", short), partial(_paper_chunks, name)),
        ]
        work += [
            (
                ("overlapping", short, engines),
                partial(_overlapping, name, engines, chunks(("3", GRAPHS)), quick),
            )
            for engines in (None, MANY_ENGINES)
        ]
    work.append((("graphs",), partial(_graphs, MACHINES["a100"], quick)))
    work += [
        (("choice", name), partial(_planner_choice, name, quick))
        for name in (*MACHINES.values(), *OTHERS)
    ]
    return work


def _run(runner: Runner, work: Sequence[Job]) -> dict[tuple[Any, ...], Any]:
    keys = [key for key, _ in work]
    return dict(zip(keys, runner.map([call for _, call in work], keys), strict=True))


def reproduce(runner: Runner, node: CudaNode | None, quick: bool) -> list[FigureRow]:  # noqa: ARG001
    """Return all rows, in the order of the paper's figures."""
    puts = _run(runner, _put_work(quick))
    later = _run(runner, _later_work(quick, puts))
    found = {}
    for short in MACHINES:

        def of(what: str, short: str = short) -> dict[Any, Any]:
            return {
                key[2]: value
                for key, value in {**puts, **later}.items()
                if key[0] == what and key[1:2] == (short,) and len(key) == 3
            }

        found[short] = Found(
            of("put"), of("mpi"), of("both"), of("both_one_link"), of("exchange"),
            later["planned", short], of("overlapping"),
            later["paper_chunks", short], later["kernel", short], later["ring", short],
        )  # fmt: skip
        runner.runs += _records(short, found[short])
    choices = {key[1]: value for key, value in later.items() if key[0] == "choice"}
    return [
        *_fig_6(found, choices),
        *_fig_7_to_10(found),
        *_fig_12(found),
        *_fig_13_14(later["graphs",]),
    ]


def _records(short: str, of: Found) -> Iterable[Run]:
    """Return a record of each message for the results file."""
    for workload, sent in (("put", of.put), ("mpi", of.mpi), ("mpi-both", of.both)):
        for (paths, executor), results in sent.items():
            for key, one in results.items():
                window = key[0] if isinstance(key, tuple) else given.OUTSTANDING
                yield Run(
                    node="sim",
                    machine=MACHINES[short],
                    workload=workload,
                    data=size_text(one.bytes),
                    gpus=2,
                    mechanism=executor,
                    config={"paths": paths, "chunks": one.chunks, "window": window},
                    iterations=1,
                    time_s=one.bytes / one.bytes_per_s,
                    max_error=0.0 if one.verified else None,
                    remote_transactions=one.copies,
                )


# --- figures --------------------------------------------------------------------------------------


def _gains(
    sent: dict[tuple[str, str], dict[Any, Sent]], sender: tuple[str, str], over: tuple[str, str]
) -> dict[Any, float]:
    return {key: one.bytes_per_s / sent[over][key].bytes_per_s for key, one in sent[sender].items()}


DIRECT = ("1", STREAMS)


def _put_gain(of: Found, executor: str, paths: Sequence[str]) -> float:
    """Return the largest speedup over one path that any large message has."""
    return max(
        gain
        for way in paths
        for size, gain in _gains(of.put, (way, executor), DIRECT).items()
        if size >= given.LARGE
    )


def _fig_6(found: dict[str, Found], choices: dict[str, Choice]) -> list[FigureRow]:
    """Fig. 6: the bandwidth of puts."""
    rows = []
    # these values are compared with the rows that have the paper's number of chunks
    by_streams = {"v100": 2.85, "a100": 2.75}
    by_graphs = {"v100": 2.95, "a100": 2.85}
    for short, of in found.items():
        for executor, figure in ((STREAMS, None), (GRAPHS, by_graphs[short])):
            key = f"put-{short}" if executor == STREAMS else f"put-graph-{short}"
            rows.append(
                row(key, "Fig. 6",
                    f"{short}, {executor}: largest speedup of puts over one path, x", figure,
                    simulated=_put_gain(of, executor, ("3", "3h")),
                    note=(
                        'the largest speedup among messages of 32 MiB and more on three GPU paths, '
                        'with or without the host path; the paper says "optionally including a '
                        'host-staging path". Chunk counts are tuned. For streams, compare the '
                        'published figure with the put-*-4-chunks rows, which have the number of '
                        'chunks that the paper names for 128 MB'
                    ))
            )  # fmt: skip
            rows.append(
                row(f"{key}-without-host", "Fig. 6",
                    f"{short}, {executor}, without the host path: largest speedup of puts over one "
                    "path, x",
                    simulated=_put_gain(of, executor, ("3",)))
            )  # fmt: skip
    for short, of in found.items():
        chunked = of.paper_chunks
        text = f"{short}, streams, {size_text(PAPER_CHUNKED)} in {PAPER_CHUNKS} chunks on each path"
        rows += [
            row(f"put-{short}-4-chunks" + ("-without-host" if paths == "3" else ""), "Fig. 6",
                f"{text}, paths {paths}: speedup of puts over one path, x",
                by_streams[short] if paths != "3" else None, simulated=gain, note=CHUNKS)
            for paths, gain in chunked.gains.items()
        ]  # fmt: skip
        rows += [
            row(f"put-{short}-4-chunks-{key}-busy", "Fig. 6",
                f"{text}, paths 3: fraction of the time in which {key} links are "
                "busy", simulated=busy)
            for key, busy in (("direct", chunked.direct_busy), ("staged", chunked.staged_busy))
        ]  # fmt: skip
    for short, of in found.items():
        rows += [
            row(f"put-graph-{short}-overlapping" + ("" if engines is None else "-many-engines"),
                "Fig. 6",
                f"{short}, overlapping graphs, three GPU paths"
                + ("" if engines is None else f", {engines} copy engines")
                + ": speedup of puts over one path, x",
                simulated=gain, note=OVERLAP)
            for engines, gain in of.overlapping.items()
        ]  # fmt: skip
    host = {short: max(_gains(of.put, ("3h", STREAMS), ("3", STREAMS)).values())
            for short, of in found.items()}  # fmt: skip
    rows.append(
        row("host-path-gain", "Fig. 6",
            "speedup of three GPU paths with the host path over three GPU paths alone, x",
            1.15, simulated=max(host.values()), note='the paper says "up to 15%"')
    )  # fmt: skip
    rows += [
        row(
            f"host-path-gain-{short}",
            "Fig. 6",
            f"{short}: speedup of three GPU paths with the host path over three GPU paths alone, x",
            simulated=gain,
        )
        for short, gain in host.items()
    ]
    for short, of in found.items():
        rows += [
            row(f"put-{short}-{size // given.MIB}M", "Fig. 6",
                f"{short}, 3h, streams: speedup of a {size_text(size)} put over one path, x",
                simulated=gain)
            for size, gain in _gains(of.put, ("3h", STREAMS), DIRECT).items()
        ]  # fmt: skip
        rows += [
            row(f"put-graph-{short}-{size // given.MIB}M", "Fig. 6",
                f"{short}, 3h, graphs: speedup of a {size_text(size)} put over one path, x",
                simulated=gain)
            for size, gain in _gains(of.put, ("3h", GRAPHS), DIRECT).items()
        ]  # fmt: skip
    for short, of in found.items():
        over = [
            one.single_s / one.predicted_s
            for sender, sent in of.put.items()
            if sender[1] == STREAMS
            for one in sent.values()
        ]
        rows.append(
            row(f"over-predicted-{short}", "Fig. 6",
                f"{short}: largest ratio of a message's simulated time to the time that the "
                "planner predicts, x",
                simulated=max(over))
        )  # fmt: skip
    rows += [
        row(f"put-planned-{name}", "Fig. 6",
            f"{name}: speedup of puts over the planner's paths, compared with one path, x",
            simulated=choice.gain, note=f"paths that the planner uses on {name}: {choice.paths}")
        for name, choice in choices.items()
    ]  # fmt: skip
    return rows


CHUNKS = (
    'the paper says "for a 128MB message size, where we use three GPU paths and four chunks per '
    'path". The other rows use the number of chunks that is fastest here, up to 64. More chunks '
    "help because the second leg of a staged path is idle during its first chunk, and the first "
    "leg is idle during its last chunk"
)
OVERLAP = (
    "in the other rows each graph waits for the previous graph, because section 4.5 allows one "
    "transfer in a direction at a time. Overlapping graphs occupy several copy engines with copies "
    "over one link, so other copies wait for an engine while their links are idle"
)


def _most(gains: dict[tuple[int, int], float], window: int) -> float:
    return max(gain for (of_window, _), gain in gains.items() if of_window == window)


def _host_gain(sent: dict[tuple[str, str], Mpi], window: int) -> float:
    """Return the speedup that the additional path through the host gives the largest messages."""
    gains = _gains(sent, ("3h", STREAMS), ("3", STREAMS))
    return gains[window, max(size for _, size in gains)]


def _graph_gain(sent: dict[tuple[str, str], Mpi], window: int, *, large: bool) -> float:
    """Return the speedup of graphs over streams with three paths.

    The result is the largest speedup of large messages, or the smallest speedup of small messages.
    """
    gains = _gains(sent, ("3", GRAPHS), ("3", STREAMS))
    chosen = [
        gain for (of_window, size), gain in gains.items()
        if of_window == window and (size >= given.GRAPHS_HELP_FROM) == large
    ]  # fmt: skip
    return max(chosen) if large else min(chosen)


def _fig_7_to_10(found: dict[str, Found]) -> list[FigureRow]:
    """Fig. 7 to 10: the OSU bandwidth tests, in one direction and in both directions."""
    rows = []
    figures = {("v100", False): "Fig. 7", ("a100", False): "Fig. 8", ("v100", True): "Fig. 9",
               ("a100", True): "Fig. 10"}  # fmt: skip
    for (short, both), figure in figures.items():
        of = found[short]
        sent = of.both if both else of.mpi
        start = f"mpi-both-{short}" if both else f"mpi-{short}"
        what = f"{short}, {'both directions' if both else 'one direction'}"
        windows = sorted({window for window, _ in sent[DIRECT]})
        for window in windows:
            for executor in (STREAMS, GRAPHS):
                key = f"{start}-w{window}" + ("-graph" if executor == GRAPHS else "")
                gain = _most(_gains(sent, ("3", executor), DIRECT), window)
                rows.append(
                    row(key, figure, f"{what}, window {window}, three paths, {executor}: "
                        "largest speedup over one path, x", simulated=gain)
                )  # fmt: skip
        last = windows[-1]
        rows.append(
            row(f"{start}-graph-from-8M", figure,
                f"{what}, window {last}: largest speedup of graphs over streams from 8 MiB "
                "on, x", "above 1",
                simulated=_graph_gain(sent, last, large=True),
                note='the paper says "for messages larger than 8MB, enabling CUDA Graph enhances '
                'performance even further". ' + STARTS)
        )  # fmt: skip
        rows.append(
            row(f"{start}-graph-below-8M", figure,
                f"{what}, window {last}: smallest speedup of graphs over streams below 8 "
                "MiB, x", "below 1",
                simulated=_graph_gain(sent, last, large=False),
                note='the paper says "the graph launch overhead becomes significant"')
        )  # fmt: skip
        for window in (windows[0], last):
            rows.append(
                row(f"{start}-host-w{window}", figure,
                    f"{what}, window {window}: speedup of the largest messages by the host path, "
                    "x", "below 1" if both else "about 1", simulated=_host_gain(sent, window),
                    note=HOST_BOTH if both else "")
            )  # fmt: skip
        if both:
            rows.append(
                row(f"{start}-host-one-link", figure,
                    f"{what}, window {last}, one PCIe link for all GPUs: speedup of the largest "
                    "messages by the host path, x", "below 1",
                    simulated=_host_gain(of.both_one_link, last), note=HOST_BOTH)
            )  # fmt: skip
    return rows


STARTS = (
    "Here the copies of a graph start after its launch has returned and the previous graph has "
    "ended. Copies on streams start with the first call and follow each other without a gap"
)
HOST_BOTH = (
    'the paper says "enabling the host path consistently degrades performance", as "both '
    'directions share the same PCIe link to the host". In the machine files each GPU has a link of '
    "its own, so the two messages use different links. If all GPUs have one link, the two messages "
    "share it. On a100 the planner leaves out the host path, because three paths occupy all copy "
    "engines"
)


def _implied_share(speedup: float, gain: float) -> float | None:
    """Return the fraction of an iteration that must be computation.

    The fraction follows from the speedup of the whole iteration and the speedup of its exchange.
    """
    if gain <= 1:
        return None
    return 1 - (1 - 1 / speedup) / (1 - 1 / gain)


def _fig_12(found: dict[str, Found]) -> list[FigureRow]:
    """Fig. 12: speedups of Jacobi."""
    rows = []
    published = {
        "v100": {("2", STREAMS): 1.26, ("2", GRAPHS): 1.28, ("3", STREAMS): 1.2,
                 ("3", GRAPHS): None},
        "a100": {("2", STREAMS): 1.15, ("2", GRAPHS): 1.16, ("3", STREAMS): 1.08,
                 ("3", GRAPHS): None},
    }  # fmt: skip
    keys = {("2", STREAMS): "jacobi", ("2", GRAPHS): "jacobi-graph",
            ("3", STREAMS): "jacobi-3paths", ("3", GRAPHS): "jacobi-graph-3paths"}  # fmt: skip
    for short, of in found.items():
        single = of.exchange[DIRECT]
        compute = {size: of.kernel.time(size // 4) for size in single}

        def speedup(
            exchange: dict[int, float], compute: dict[int, float] = compute,
            single: dict[int, float] = single,
        ) -> float:  # fmt: skip
            return max((compute[k] + single[k]) / (compute[k] + exchange[k]) for k in single)

        for sender, key in keys.items():
            rows.append(
                row(f"{key}-{short}", "Fig. 12",
                    f"{short}, {sender[0]} GPU paths, {sender[1]}: speedup of Jacobi over one "
                    "path, x",
                    published[short][sender], simulated=speedup(of.exchange[sender]), note=SPLIT)
            )  # fmt: skip
        rows.append(
            row(f"jacobi-planned-{short}", "Fig. 12",
                f"{short}, four messages planned together: speedup of Jacobi over one path, x",
                simulated=speedup(of.planned))
        )  # fmt: skip
        large = max(single)
        gain = single[large] / of.exchange["2", STREAMS][large]
        target = published[short]["2", STREAMS]
        assert target is not None
        points = given.JACOBI_ROWS * large // 4
        size = size_text(large)
        rows += [
            row(f"jacobi-compute-ms-{short}", "Fig. 12",
                f"{short}, {size} messages: time of the computation in an iteration, ms",
                simulated=compute[large] * 1e3),
            row(f"jacobi-exchange-ms-{short}", "Fig. 12",
                f"{short}, {size} messages: time of the exchange in an iteration over one path, "
                "ms",
                simulated=single[large] * 1e3),
            row(f"jacobi-exchange-gain-{short}", "Fig. 12",
                f"{short}, {size} messages, 2 GPU paths, streams: speedup of the exchange alone, x",
                simulated=gain),
            row(f"jacobi-compute-share-{short}", "Fig. 12",
                f"{short}, {size} messages, one path: fraction of an iteration that is computation",
                simulated=compute[large] / (compute[large] + single[large])),
            row(f"jacobi-implied-share-{short}", "Fig. 12",
                f"{short}: fraction of computation with which a speedup of the exchange of "
                f"{gain:.3g} x would give the published {target} x",
                simulated=_implied_share(target, gain)),
            row(f"jacobi-kernel-rate-{short}", "Fig. 12",
                f"{short}: bandwidth of a kernel that moves 8 bytes for each point, divided by "
                "the memory's bandwidth",
                simulated=8 * points / compute[large]
                / (load_machine(MACHINES[short]).gpu.dram.bandwidth_GB_per_s * 1e9)),
            row(f"jacobi-ring-ms-{short}", "Fig. 12",
                f"{short}, rows of {size_text(4 * of.ring.columns)}: time of an iteration that is "
                "simulated in full, ms", simulated=(of.ring.compute_s + of.ring.exchange_s) * 1e3),
        ]  # fmt: skip
    return rows


SPLIT = (
    "the largest speedup of all sizes. Kernels and exchanges follow each other, as in the MPI "
    "program. The speedup depends on the fraction of time that is computation, which the paper "
    "does not give"
)


def _fig_13_14(graphs: dict[int, Phases]) -> list[FigureRow]:
    """Fig. 13 and 14: the costs of a graph's phases."""
    most = max(graphs.values(), key=lambda one: one.nodes)
    costs = (
        "the cost of each node was measured on an H200 node with CUDA 13.0; no figure of the paper "
        "was used"
    )
    rows = [
        row("graph-instantiation-ms", "Fig. 13",
            f"a100: time to instantiate a graph with {most.nodes} nodes (the paper's graph has "
            "34), ms", 3.0,
            simulated=most.first["instantiation"] * 1e3, note=costs)
    ]  # fmt: skip
    by_nodes = {one.nodes: one for one in graphs.values()}
    for one in by_nodes.values():
        rows += [
            row(f"graph-{phase}-us-{one.nodes}-nodes", "Fig. 13",
                f"a100, {one.nodes} nodes: time of the {phase} in the first use, us",
                simulated=one.first[phase] * 1e6, note=costs)
            for phase in PHASES
        ]  # fmt: skip
    rows += [
        row("graph-dominant-first", "Fig. 14", "longest phase of a graph in its first use",
            "instantiation", simulated=max(PHASES, key=lambda phase: most.first[phase])),
        row("graph-dominant-later", "Fig. 14", "longest phase of a graph in later uses", "launch",
            simulated=max(PHASES, key=lambda phase: most.later[phase])),
    ]  # fmt: skip
    for size, one in graphs.items():
        name = f"{size // given.MIB}M"
        rows += [
            row(f"graph-share-first-{name}", "Fig. 14",
                f"a100, {size_text(size)}: fraction of the latency that the graph's phases take in "
                "the first use",
                simulated=sum(one.first[phase] for phase in PHASES) / one.first["latency"]),
            row(f"graph-share-later-{name}", "Fig. 14",
                f"a100, {size_text(size)}: fraction of the latency that the graph's phases take in "
                "later uses",
                simulated=sum(one.later[phase] for phase in PHASES) / one.later["latency"]),
            row(f"graph-over-streams-{name}", "Fig. 14",
                f"a100, {size_text(size)}, two paths: latency on streams divided by the latency in "
                "a graph, x",
                simulated=one.streams_s / one.later["latency"]),
        ]  # fmt: skip
    return rows
