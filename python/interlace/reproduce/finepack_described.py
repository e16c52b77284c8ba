"""The programs as the FinePack paper describes them, beside our programs.

If one of our programs fits the description, the rows about this program also have its figures.

Apart from the gains of FinePack, the paper says this about its programs:

- "On average over 63% of inter-GPU transfers initiated by P2P stores carry a payload smaller than
  32B" (section II).
- Section V says who sends to whom (`RECEIVERS`).
- Peer-to-peer stores "achieve considerable speedups in regular applications (Jacobi, diffusion)
  where the store granularity is 128B but performs poorly for others resulting in a net slowdown
  over a single GPU" (section VI-A).
- CT's stores "exhibit minimal spatial locality" (section VI-A).

`fits` checks the statements about single programs. A program has several kernels, one for each
experiment. `choose` takes the first kernel that fits. Nothing else decides; in particular, no
figure of FinePack decides. The statements about all programs together do not decide either. Their
rows show whether the chosen programs fit these statements.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlace.base.statistics import geometric_mean
from interlace.model.mechanism_table import INLINE
from interlace.model.run import Case
from interlace.reproduce.finepack_experiments import SHOWN, TO_ALL, replaced
from interlace.reproduce.finepack_figures import FIGURES
from interlace.reproduce.finepack_measures import FOUR, small_share
from interlace.reproduce.rows import FigureRow, row
from interlace.reproduce.runs import Results

PEER_TO_PEER = Case(FOUR, INLINE)
OWN = "own"  # the kernel that all other figures of this paper use
KERNELS = (OWN, "lane-by-lane", "to-all", "whole-lines", "whole-lines-to-all")
READERS = "the readers"
RECEIVERS = {  # which GPUs receive values: (in the paper's words, in our programs)
    "jacobi": ("peer-to-peer", "neighbours"),
    "pagerank": ("peer-to-peer", READERS),
    "sssp": ("many-to-many", f"{READERS}; to-all: all"),
    "als": ("all-to-all", f"{READERS}; to-all: all"),
    "ct": ("all-to-all", READERS),
    "eqwp": ("peer-to-peer", "neighbours"),
    "diffusion": ("peer-to-peer", "neighbours"),
    "hit": ("all-to-all", "all"),
}
# programs that store 128 B at a time to peers, and that are then faster than on one GPU
WHOLE_LINES = ("jacobi", "diffusion")
SCATTERED = ("ct",)  # programs whose stores have minimal spatial locality
DESCRIBED = "as-described"
NOTE = (
    "each program uses the first kernel that fits the paper's description of its stores, receivers "
    "and peer-to-peer speedup; no figure of FinePack decides"
)


def fits(name: str, kernel: str, over_one_gpu: float, under_32: float) -> bool:
    """Return whether a program with this kernel fits the paper's description.

    `over_one_gpu` is the speedup of peer-to-peer stores over one GPU. `under_32` is the fraction of
    stores that are smaller than 32 bytes.
    """
    if name in TO_ALL and not kernel.endswith("to-all"):
        return False
    if name in SCATTERED and under_32 <= 0.5:
        return False
    if name in WHOLE_LINES:
        return over_one_gpu > 1 and under_32 == 0
    return over_one_gpu < 1


def kernels_of(own: Results, varied: Mapping[str, Results]) -> dict[str, Results]:
    """Return the results of a program by kernel. The kernel OWN comes first."""
    return {
        kernel: own if kernel == OWN else replaced(own, varied[kernel])
        for kernel in KERNELS
        if kernel == OWN or kernel in varied
    }


def choose(name: str, results: Mapping[str, Results]) -> str | None:
    """Return the first kernel that fits, or None if no kernel fits."""
    for kernel, r in results.items():
        if fits(name, kernel, r.speedup(PEER_TO_PEER), small_share(r)):
            return kernel
    return None


def rows_of(
    own: Mapping[str, Results], varied: Mapping[str, Mapping[str, Results]]
) -> list[FigureRow]:
    """Return rows that compare the paper's description of each program with the simulated kernels.

    Further rows have the values of the paper's figures over all programs. For these rows, each
    program runs its chosen kernel.
    """
    rows = []
    chosen = {}
    for name, r in own.items():
        results = kernels_of(r, varied[name])
        paper, ours = RECEIVERS[name]
        text = f"{name}: GPUs that receive values"
        rows.append(row(f"described-receivers-{name}", "Sec. V", text, paper, simulated=ours))
        for kernel, of_kernel in results.items():
            rows += _of_kernel(name, kernel, of_kernel)
        fitting = choose(name, results)
        text = f"{name}: first kernel that fits the description"
        shown = fitting or f"none; {OWN}"
        rows.append(row(f"described-kernel-{name}", "Sec. V", text, simulated=shown, note=NOTE))
        chosen[name] = results[fitting or OWN]
    stores = geometric_mean(r.speedup(PEER_TO_PEER) for r in chosen.values())
    text = f"{DESCRIBED}: speedup of peer-to-peer stores over one GPU, x"
    return [
        *rows,
        row(
            f"described-stores-{DESCRIBED}", "Fig. 9", text, "under 1", simulated=stores, note=NOTE
        ),
        *(FIGURES[key].over_all(chosen, DESCRIBED, NOTE) for key in SHOWN["both"]),
    ]


def _of_kernel(name: str, kernel: str, r: Results) -> list[FigureRow]:
    """Return rows with the two values that `fits` compares, for one kernel of a program."""
    size = "0" if name in WHOLE_LINES else "most" if name in SCATTERED else None
    return [
        row(f"described-under-32B-{name}-{kernel}", "Fig. 4",
            f"{name}, {kernel}: fraction of the stores that are smaller than 32 B", size,
            simulated=small_share(r)),
        row(f"described-stores-{name}-{kernel}", "Fig. 9",
            f"{name}, {kernel}: speedup of peer-to-peer stores over one GPU, x",
            "over 1" if name in WHOLE_LINES else "under 1", simulated=r.speedup(PEER_TO_PEER)),
    ]  # fmt: skip
