"""The cores that this process may use."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def allowed_cores() -> int:
    """Return the number of cores that affinity and control groups allow, at least one."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(allowed, _quota(CGROUPS, OWN_CGROUP))))


def _quota(root: Path, own: Path) -> float:
    """Return the lowest CPU quota, in cores, of the process's control group and of all groups that
    contain this group.
    """
    least = math.inf
    with suppress(OSError, ValueError):
        # control groups of version 2 have one line, "0::/path"; version 1 has no such line
        lines = own.read_text(encoding="utf-8").splitlines()
        path = next((line[3:] for line in lines if line.startswith("0::")), "/")
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder != root and root not in folder.parents:
                break
            with suppress(OSError, ValueError):
                allowed, period = (folder / "cpu.max").read_text(encoding="ascii").split()
                if allowed != "max":
                    least = min(least, int(allowed) / int(period))
    return least if least > 0 else 1.0
