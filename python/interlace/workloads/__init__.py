"""The applications that a study runs: their input, how a node runs them, and what must come out."""

from __future__ import annotations

from interlace.base.errors import UserError
from interlace.workloads.als import Als
from interlace.workloads.base import Inputs, Reference, Workload, option_of
from interlace.workloads.ct import Ct
from interlace.workloads.diffusion import Diffusion
from interlace.workloads.eqwp import Eqwp
from interlace.workloads.halo_jacobi import HaloJacobi
from interlace.workloads.hit import Hit
from interlace.workloads.jacobi import Jacobi
from interlace.workloads.pagerank import Pagerank
from interlace.workloads.sssp import Sssp

__all__ = [
    "WORKLOADS",
    "Als",
    "Ct",
    "Diffusion",
    "Eqwp",
    "HaloJacobi",
    "Hit",
    "Inputs",
    "Jacobi",
    "Pagerank",
    "Reference",
    "Sssp",
    "Workload",
    "check_inputs",
]

WORKLOADS: dict[str, type[Workload]] = {
    workload.name: workload
    for workload in (Pagerank, Jacobi, Sssp, Als, Ct, Diffusion, Eqwp, Hit, HaloJacobi)
}


def check_inputs(workload: str, inputs: Inputs) -> None:
    """Raise UserError for inputs that this workload does not take, or that cannot be meant."""
    chosen = WORKLOADS[workload]
    for field in inputs.given():
        takers = [name for name, it in WORKLOADS.items() if field in it.options]
        if takers and field not in chosen.options:
            raise UserError(
                f"{option_of(field)} is for {' and '.join(takers)}; leave it out with {workload}"
            )
    chosen.check(inputs)
