"""The probes of `interlace doctor`. A probe collects facts and does not judge them.

A probe may hang or crash if a driver or a library is broken. Therefore `interlace.study.doctor`
starts `python -m interlace.study.doctor_probes NAME` for each probe, and waits until a deadline.
The process prints the probe's facts as JSON. All system files that a probe reads are below
`Host.root`, so that tests can provide their own /proc and /sys.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import platform
import re
import resource
import struct
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from interlace.base.installation import build, installed
from interlace.base.version import version
from interlace.model.mechanism_table import NCCL, NVSHMEM

Facts = dict[str, Any]

NVIDIA = "0x10de"
DISPLAY = "0x03"  # the PCI class code of GPUs
ACS = 0x0D  # the PCI Express extended capability "access control services"
# if one of these bits is set, the bridge sends traffic between devices below it to the processor
ACS_REDIRECTS = 0b1100
CAP_SYS_PTRACE = 19
# the dependencies that pyproject.toml lists
REQUIRED = ("msgspec", "numpy", "plotly", "rich", "scipy", "tomlkit", "typer", "zstandard")
OPTIONAL = ("torch", "cupy", "triton")
MODULES = ("_core", "_driver", "_cuda")
LIBRARIES = ("libinterlace.so", "libinterlace_preload.so")


class Host(NamedTuple):
    """The host that a probe sees: the file system below `root`, and the environment."""

    root: Path = Path("/")
    environment: Mapping[str, str] = os.environ

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        try:
            return self.at(path).read_text("utf-8", errors="replace").strip()
        except OSError:
            return None

    def listed(self, path: str) -> list[str]:
        try:
            return sorted(one.name for one in self.at(path).iterdir())
        except OSError:
            return []


# --- the system -----------------------------------------------------------------------------------


def system(host: Host) -> Facts:
    """Return facts about the kernel, about limits of a container, and about PCI.

    The facts about PCI say how PCI handles copies between GPUs.
    """
    release = host.text("/etc/os-release") or ""
    named = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    kernel_driver = re.search(
        r"\s(\d+\.\d+(\.\d+)?)\s", host.text("/proc/driver/nvidia/version") or ""
    )
    functions = _nvidia_functions(host)
    return {
        "system": named[1] if named else platform.system(),
        "kernel": host.text("/proc/sys/kernel/osrelease"),
        "glibc": _glibc(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "container": _container(host),
        "shm_bytes": _size_of(host.at("/dev/shm")),
        "locked_bytes": _locked(host),
        "ptrace_scope": _number(host.text("/proc/sys/kernel/yama/ptrace_scope")),
        "may_ptrace": _has_capability(host, CAP_SYS_PTRACE),
        "kernel_driver": kernel_driver[1] if kernel_driver else None,
        "device_files": [name for name in host.listed("/dev") if re.fullmatch(r"nvidia\d+", name)],
        "pci_gpus": functions,
        "iommu": _iommu(host, functions),
        "acs": _acs(host, functions),
    }


def _glibc() -> str | None:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ") or None
    except (ValueError, OSError):
        return None


def _container(host: Host) -> str | None:
    for file, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if host.at(file).exists():
            return kind
    named = host.environment.get("container") or host.environment.get("SINGULARITY_NAME")
    groups = host.text("/proc/1/cgroup") or ""
    found = re.search(r"docker|kubepods|containerd|lxc", groups)
    return named or (found[0] if found else None)


def _size_of(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _locked(host: Host) -> int | None:
    """Return the number of bytes that a process may lock. None means that there is no limit."""
    limits = host.text("/proc/self/limits") or ""
    found = re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE)
    if found is None:
        soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        return None if soft == resource.RLIM_INFINITY else soft
    return int(found[1]) if found[1].isdigit() else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _has_capability(host: Host, number: int) -> bool:
    status = host.text("/proc/self/status") or ""
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> number & 1)


def _nvidia_functions(host: Host) -> list[str]:
    """Return the PCI addresses of NVIDIA's GPUs."""
    folder = "/sys/bus/pci/devices"
    return [
        name
        for name in host.listed(folder)
        if host.text(f"{folder}/{name}/vendor") == NVIDIA
        and (host.text(f"{folder}/{name}/class") or "").startswith(DISPLAY)
    ]


def _iommu(host: Host, functions: list[str]) -> Facts:
    """Return whether there is an IOMMU, and how the IOMMU translates the accesses of each GPU."""
    types = {}
    for name in functions:
        kind = host.text(f"/sys/bus/pci/devices/{name}/iommu_group/type")
        if kind is not None:
            types[name] = kind
    return {"units": len(host.listed("/sys/class/iommu")), "types": types}


def _acs(host: Host, functions: list[str]) -> Facts:
    """Return the bridges above the GPUs that send copies between GPUs through the processor."""
    redirecting, unreadable = set(), set()
    for name in functions:
        path = host.at(f"/sys/bus/pci/devices/{name}")
        # The real path names every bridge above the device: .../0000:00:01.0/0000:01:00.0
        way = [part for part in path.resolve().parts if re.fullmatch(r"[0-9a-f]{4,}:.*\.\d", part)]
        for bridge in way[:-1]:
            control = _acs_control(host, bridge)
            if control is None:
                unreadable.add(bridge)
            elif control & ACS_REDIRECTS:
                redirecting.add(bridge)
    return {"redirecting": sorted(redirecting), "unreadable": sorted(unreadable)}


def _acs_control(host: Host, device: str) -> int | None:
    """Return the ACS control register of a bridge.

    0 means that the bridge has no such register. None means that this process cannot read it.
    """
    try:
        space = host.at(f"/sys/bus/pci/devices/{device}/config").read_bytes()
    except OSError:
        return None
    if len(space) < 4096:  # only root can read the extended capabilities
        return None
    at, seen = 0x100, 0
    while at and seen < 64:
        (head,) = struct.unpack_from("<I", space, at)
        if head & 0xFFFF == ACS:
            return int(struct.unpack_from("<H", space, at + 6)[0])
        at, seen = head >> 20 & 0xFFC, seen + 1
        if at < 0x100:
            break
    return 0


# --- the installation -----------------------------------------------------------------------------


def installation(host: Host) -> Facts:
    """Return the versions of Interlace and of the packages that it needs or can use."""
    settings = {
        name: value
        for name, value in sorted(host.environment.items())
        if name.startswith(("INTERLACE_", "CUDA_")) and value
    }
    return {
        "version": version(),
        "folder": str(Path(__file__).resolve().parents[1]),
        "build": build(),
        "required": {name: _imported(name) for name in REQUIRED},
        "optional": {name: _listed(name) for name in OPTIONAL},
        "libraries": {name: _loaded(name) for name in LIBRARIES},
        "settings": settings,
    }


def _listed(name: str) -> str | None:
    for known in (name, f"{name}-cuda13x", f"{name}-cuda12x"):
        try:
            return metadata.version(known)
        except metadata.PackageNotFoundError:
            continue
    return None


def _imported(name: str) -> Facts:
    try:
        importlib.import_module(name)
    except Exception as error:  # a broken package can raise any exception
        return {"version": _listed(name), "problem": _sentence(error)}
    return {"version": _listed(name), "problem": None}


def _loaded(name: str) -> Facts:
    file = installed(name)
    if file is None:
        return {"file": None, "problem": "the file does not exist"}
    # This library must not be loaded here: it would take over the copies of this process.
    if name.endswith("_preload.so"):
        return {"file": str(file), "problem": None}
    try:
        ctypes.CDLL(str(file))
    except OSError as error:
        return {"file": str(file), "problem": _sentence(error)}
    return {"file": str(file), "problem": None}


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def module(name: str, _: Host) -> Facts:
    """Return whether a compiled module can be loaded."""
    found = importlib.util.find_spec("interlace")
    try:
        made = importlib.import_module(f"interlace.{name}")
    except ModuleNotFoundError as error:
        missing = error.name == f"interlace.{name}" and found is not None
        return {"there": not missing, "file": None, "problem": _sentence(error)}
    except ImportError as error:
        return {"there": True, "file": None, "problem": _sentence(error)}
    return {"there": True, "file": getattr(made, "__file__", None), "problem": None}


# --- GPUs and libraries ---------------------------------------------------------------------------


def gpus(_: Host) -> Facts:
    """Return the facts that the driver reports."""
    made = build()
    major, _dot, minor = str(made.get("cuda") or "0.0").partition(".")
    runtime = 1000 * int(major) + 10 * int(minor.partition(".")[0] or 0)
    core = importlib.import_module("interlace._core")
    found: Facts = core.report_driver(runtime, int(made.get("least_capability") or 0))
    return found


def nccl(host: Host) -> Facts:
    """Find the NCCL that the mechanism `nccl` loads, unless the program itself has loaded another
    NCCL.
    """
    from interlace.nodes.peers import package_files

    named = host.environment.get("INTERLACE_NCCL")
    files = [named] if named else [*package_files("nvidia.nccl", "libnccl.so.2"), "libnccl.so.2"]
    return _first(files, named, "ncclGetVersion")


def nvshmem(host: Host) -> Facts:
    """Find the NVSHMEM that the mechanism `nvshmem` loads."""
    from interlace.nodes.peers import package_files

    named = host.environment.get("INTERLACE_NVSHMEM")
    files = [named] if named else package_files("nvidia.nvshmem", "libnvshmem_host.so.3")
    return _first(files, named, None)


def _first(files: list[str], named: str | None, ask: str | None) -> Facts:
    """Return the first library that can be loaded, and the version that this library reports."""
    problem = None
    for file in files:
        try:
            library = ctypes.CDLL(file)
        except OSError as error:
            if "/" in file or named is not None:
                problem = problem or _sentence(error)
            continue
        number = ctypes.c_int(0)
        if ask is not None and hasattr(library, ask):
            getattr(library, ask)(ctypes.byref(number))
        value = number.value
        said = f"{value // 10000}.{value % 10000 // 100}.{value % 100}" if value else None
        return {"file": file, "version": said, "named": named is not None, "problem": None}
    return {"file": None, "version": None, "named": named is not None, "problem": problem}


# --- folders --------------------------------------------------------------------------------------


def folders(host: Host) -> Facts:
    """Return the folders to which Interlace writes, and whether it may write there."""
    stated = host.environment.get("XDG_CONFIG_HOME", "")
    home = host.environment.get("HOME", "")
    config = Path(stated) if Path(stated).is_absolute() else Path(home or "/") / ".config"
    runtime = host.environment.get("XDG_RUNTIME_DIR", "")
    return {
        "profiles": _folder(config / "interlace" / "profiles"),
        "shared memory": _folder(host.at("/dev/shm")),
        "sockets": _folder(Path(runtime) if Path(runtime).is_absolute() else host.at("/tmp")),
    }


def _folder(path: Path) -> Facts:
    """Return whether this process can write to the folder `path`.

    If `path` does not exist, the answer is for the nearest existing folder that would contain it.
    """
    at = path
    while not at.exists() and at != at.parent:
        at = at.parent
    return {"path": str(path), "writable": at.is_dir() and os.access(at, os.W_OK | os.X_OK)}


PROBES: dict[str, Callable[[Host], Facts]] = {
    "installation": installation,
    "system": system,
    "folders": folders,
    **{name: partial(module, name) for name in MODULES},
    "gpus": gpus,
    NCCL: nccl,
    NVSHMEM: nvshmem,
}

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]](Host())))
