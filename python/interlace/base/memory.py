"""The memory that this process may use."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def memory_bytes() -> int:
    """Return the smallest of the machine's memory, the limits of control groups and the ulimit."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *_cgroup_limits()]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            limits.append(soft)
    return min(limits)


def _cgroup_limits() -> list[int]:
    """Return the limits of this process's control group and of all groups that contain this group.

    The group can belong to version 1 or version 2 of control groups.
    """
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        place = root / group.lstrip("/")
        # In a container, the process's own group can appear as the root. The path of the group then
        # names folders that do not exist inside the container.
        for folder in (place, *place.parents):
            with suppress(OSError, ValueError):  # "max" means no limit
                found.append(int((folder / name).read_text()))
            if folder == root:
                break
    return found
