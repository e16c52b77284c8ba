"""The shared parts of workloads whose kernels update a partitioned array."""

from __future__ import annotations

from interlace.model.mechanisms import OF_UPDATES, UPDATE_DEFAULTS
from interlace.workloads.base import Workload


class UpdateWorkload(Workload):
    """A workload that updates a partitioned array. A GPU has the elements that it owns."""

    defaults = UPDATE_DEFAULTS

    def refuses(self, mechanism: str) -> str | None:
        if mechanism not in OF_UPDATES:
            return f"moves regions, and {self.name} updates a partitioned array"
        return None
