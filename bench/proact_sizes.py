#!/usr/bin/env python3
"""Shows how the figures of `interlace reproduce proact` change with the size of its inputs.

The inputs of that command are small, because the command must end within 45 minutes on two cores.
The means of its figures depend on a few cases on Volta (4 GPUs) and DGX-2 (16 GPUs). This script
runs these cases with inputs that have TIMES times as many rows or pixels. It also runs PageRank on
a graph whose vertices are in random order.

    bench/proact_sizes.py --times 1,4 --gpus 4,16 --jobs 2 --json FILE

"links" is the speedup that the GPUs would have if they only sent the bytes that `inline` puts on
the links. In this bound, all GPUs send the same number of bytes, at the full rate of their links.
The bytes of `polling` may be fewer, because its packets may have fewer header bytes.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from interlace.base.native import load_core
from interlace.base.statistics import geometric_mean
from interlace.machine.devices import connections
from interlace.machine.reading import load_machine
from interlace.model.mechanism_table import INLINE, POLLING, SERIAL_COPY
from interlace.model.mechanisms import BASELINE, BOUND
from interlace.model.results import provenance
from interlace.model.run import Case
from interlace.reproduce import proact
from interlace.reproduce import proact_inputs as given
from interlace.reproduce.proact_inputs import Sizes
from interlace.reproduce.runs import Results, Runner
from interlace.workloads import Workload
from interlace.workloads.pagerank import Pagerank, PagerankInputs

MACHINES = {4: "4x-volta-nvlink2", 16: "dgx-2"}
AGENT = proact._SMALL
SHUFFLED = "pagerank, shuffled"
LINKS = "links"
FIGURES = ("best of inline and polling", SERIAL_COPY, BASELINE, BOUND, LINKS)


def larger(sizes: Sizes, times: int) -> Sizes:
    """Return the options for inputs that have `times` as many rows or pixels as `sizes`.

    The sides of meshes and images are rounded to whole numbers.
    """
    return Sizes(
        pagerank_scale=sizes.pagerank_scale + (times.bit_length() - 1),
        jacobi_rows=sizes.jacobi_rows * times,
        sssp_side=round(sizes.sssp_side * times ** (1 / 3)),
        als_side=round(sizes.als_side * times ** (1 / 3)),
        ct_size=round(sizes.ct_size * times**0.5),
    )


def shuffled(sizes: Sizes) -> Workload:
    """Return PageRank's graph with its vertices in random order."""
    import numpy as np

    from interlace.data.graphs import Graph, rmat

    graph = rmat(sizes.pagerank_scale, given.EDGE_FACTOR, given.SEED)
    # maps a vertex to its new number
    order = np.random.default_rng(given.SEED).permutation(graph.rows)
    targets = order[np.repeat(np.arange(graph.rows), np.diff(graph.offsets))]
    sources = order[graph.columns]
    sorted_by = np.lexsort((sources, targets))
    offsets = np.zeros(graph.rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(targets, minlength=graph.rows), out=offsets[1:])
    degree = np.empty_like(graph.out_degree)
    degree[order] = graph.out_degree
    name = f"{graph.name}-shuffled"
    made = Graph(name, graph.rows, offsets, sources[sorted_by].astype(np.uint32), degree)
    inputs = PagerankInputs(seed=given.SEED, iterations=given.ITERATIONS)
    return Pagerank(made, name, f"{name}, seed {given.SEED}", inputs)


def cases(gpus: int) -> list[Case]:
    names = (SERIAL_COPY, BASELINE, BOUND, INLINE)
    return [
        *(Case(gpus, name) for name in names),
        Case(gpus, POLLING, AGENT),
        Case(1, BASELINE),
    ]


def sent_bytes_per_s(machine: str) -> float:
    """Return the sum of the bandwidths of all NVLinks that lead out of one GPU, in bytes per
    second.
    """
    links = [one for one in connections(load_machine(machine)) if "gpu0" in (one.a, one.b)]
    nvlinks = [one.link for one in links if one.link.protocol.startswith("nvlink")]
    return 1e9 * sum(link.bandwidth_GB_per_s for link in nvlinks)


def figures(gpus: int, results: Results) -> dict[str, float]:
    """Return each mechanism's speedup over one GPU."""
    best = results.fastest(gpus, (INLINE, POLLING))
    found = {FIGURES[0]: results.speedup(best)}
    found |= {name: results.speedup(Case(gpus, name)) for name in (SERIAL_COPY, BASELINE, BOUND)}
    wire = results.outcomes[Case(gpus, INLINE)].wire
    sent = (wire.useful or 0) + (wire.protocol or 0) + (wire.wasted or 0)
    sending_s = sent / gpus / sent_bytes_per_s(MACHINES[gpus])
    return found | {LINKS: results.time(Case(1, BASELINE)) / sending_s}


def rows_of(results: dict[tuple[int, int, str], dict[str, Results]]) -> list[dict[str, Any]]:
    """Return the figures of all workloads that have run, and the means if all of them have run."""
    rows: list[dict[str, Any]] = []
    for factor, gpus in dict.fromkeys((factor, gpus) for factor, gpus, _ in results):
        found_on = {
            name: found[MACHINES[gpus]]
            for (times, count, name), found in results.items()
            if (times, count) == (factor, gpus)
        }
        of = {name: figures(gpus, found) for name, found in found_on.items()}
        means = {
            "mean of the five": tuple(proact.LOADED),
            "mean, shuffled": (*(n for n in proact.LOADED if n != "pagerank"), SHUFFLED),
        }
        for mean, names in means.items():
            if set(names) <= set(found_on):
                of[mean] = {
                    kind: geometric_mean(of[name][kind] for name in names) or 0.0
                    for kind in FIGURES
                }
        for name, values in of.items():
            row = {"times": factor, "gpus": gpus, "workload": name, "speedups": values}
            if name in found_on:  # the means do not include this figure
                alone = found_on[name].outcomes[Case(1, BASELINE)]
                row["one_gpu_s"] = alone.time_s / alone.iterations
            rows.append(row)
    return rows


def main() -> None:
    loads = {**proact.LOADED, SHUFFLED: shuffled}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", default="1,4", help="powers of two, such as 1,4")
    parser.add_argument("--gpus", default="4,16", help="numbers of GPUs: 4, 16 or both")
    parser.add_argument(
        "--workloads", default=",".join(loads), help=f"some of: {', '.join(loads)}, in any order"
    )
    parser.add_argument("--jobs", type=int, default=2, help="cores that the simulations may use")
    parser.add_argument(
        "--json", type=Path, help="where to write all figures; the file grows with each workload"
    )
    asked = parser.parse_args()
    times = [int(word) for word in asked.times.split(",")]
    if any(one < 1 or one & (one - 1) for one in times):
        parser.error(f"--times {asked.times}: give powers of two")
    gpu_counts = [int(word) for word in asked.gpus.split(",")]
    if not set(gpu_counts) <= set(MACHINES):
        parser.error(f"--gpus {asked.gpus}: give 4, 16 or both")
    names = asked.workloads.split(",")
    if not set(names) <= set(loads):
        parser.error(f"--workloads {asked.workloads}: give some of {', '.join(loads)}")

    runner = Runner(load_core(), asked.jobs, lambda: None)
    sizes = {4: given.FOUR_GPUS, 16: given.SIXTEEN_GPUS}
    results: dict[tuple[int, int, str], dict[str, Results]] = {}
    command = shlex.join(sys.argv)
    for factor in times:
        for gpus in gpu_counts:
            # Only one workload runs at a time, because large workloads fill the memory.
            for name in names:
                started = time.monotonic()
                workload = loads[name](larger(sizes[gpus], factor))
                found: dict[str, Results] = {}
                runner.simulate(workload, [MACHINES[gpus]], cases(gpus), found)
                results[factor, gpus, name] = found
                of_this = figures(gpus, found[MACHINES[gpus]])
                shown = ", ".join(f"{kind} {value:.2f}x" for kind, value in of_this.items())
                took = time.monotonic() - started
                print(f"{factor}x {gpus} {name}: {shown} ({took:.0f} s)", file=sys.stderr)
                if asked.json:
                    head = {"format": 1, **provenance(), "command": command}
                    text = json.dumps({**head, "rows": rows_of(results)}, indent=1) + "\n"
                    asked.json.write_text(text, encoding="utf-8")

    print(f"{'rows':>4} {'GPUs':>4}  {'':<20}" + "".join(f"{name:>28}" for name in FIGURES))
    for row in rows_of(results):
        shown = "".join(f"{row['speedups'][kind]:>27.2f}x" for kind in FIGURES)
        print(f"{row['times']:>3}x {row['gpus']:>4}  {row['workload']:<20}{shown}")


if __name__ == "__main__":
    main()
