"""Finds out which features work on this computer, and why other features do not.

Probes (doctor_probes.py) collect facts. Each probe runs in its own process with a deadline. If a
driver hangs or crashes, the report says so, and the command still ends. `findings` turns the facts
into sentences and collects no facts itself.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from interlace.base.installation import built_without_cuda
from interlace.model.mechanism_table import NCCL, NVSHMEM
from interlace.study.doctor_probes import MODULES, PROBES

FORMAT = 1  # the version of the format of the JSON file
DEADLINE_S = 15.0  # all probes together may take at most this many seconds
LEAST_SHM = 1 << 30  # bytes; NCCL keeps its buffers in shared memory

WORKS, NOTE, NO, BROKEN = "works", "note", "no", "BROKEN"
FEATURES, INSTALLATION, GPUS, SYSTEM, LIBRARIES, FOLDERS = (
    "features",
    "installation",
    "driver and GPUs",
    "system",
    "libraries of others",
    "folders",
)


class Answer(NamedTuple):
    """The outcome of a probe: its facts, or a sentence that says why the probe failed."""

    facts: dict[str, Any] | None
    problem: str = ""

    def get(self, name: str, otherwise: Any = None) -> Any:
        return otherwise if self.facts is None else self.facts.get(name, otherwise)


class Finding(NamedTuple):
    """One line of the report.

    `state` is "works", "note", "no" or "BROKEN". "BROKEN" means that the parts of a feature are
    installed but do not work.
    """

    topic: str
    name: str
    state: str
    text: str


def ask_all(deadline_s: float = DEADLINE_S, command: Iterable[str] = ()) -> dict[str, Answer]:
    """Return the answers of all probes. The call ends shortly after the deadline at the latest."""
    words = [*command] or [sys.executable, "-P", "-m", "interlace.study.doctor_probes"]
    with ThreadPoolExecutor(len(PROBES)) as threads:
        waiting = {name: threads.submit(_ask, [*words, name], deadline_s) for name in PROBES}
        return {name: one.result() for name, one in waiting.items()}


def _ask(words: list[str], deadline_s: float) -> Answer:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Answer(None, f"it could not be started: {error.strerror}")
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        # Do not wait until the process ends: inside a driver call, it may survive the signal.
        process.kill()
        return Answer(None, f"it did not answer within {deadline_s:g} s")
    return _answer(process.returncode, out, err)


def _answer(code: int, out: str, err: str) -> Answer:
    if code < 0:
        try:
            named = signal.Signals(-code).name
        except ValueError:
            named = f"signal {-code}"
        return Answer(None, f"it was ended by {named}")
    last = (err.strip().splitlines() or [""])[-1]
    try:
        found = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        found = None
    if code != 0 or not isinstance(found, dict):
        return Answer(None, last or f"it ended with code {code} and no answer")
    return Answer(found)


# --- findings -------------------------------------------------------------------------------------


def findings(answers: Mapping[str, Answer]) -> list[Finding]:
    """Return all lines of the report, features first."""
    found = [
        *_features(answers),
        *_installation(answers),
        *_gpus(answers),
        *_system(answers["system"]),
        *_libraries(answers),
        *_folders(answers["folders"]),
    ]
    return [
        *found,
        *(
            Finding(INSTALLATION, f"probe {name}", BROKEN, answer.problem)
            for name, answer in answers.items()
            if answer.facts is None and name not in (*MODULES, "gpus", NCCL, NVSHMEM)
        ),
    ]


def broken(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings about features whose parts are installed but do not work."""
    return [one for one in found if one.state == BROKEN]


def _problem_of_module(answer: Answer) -> str:
    """Return why a compiled module cannot be used, or an empty text if it can be used."""
    if answer.facts is None:
        return answer.problem
    return str(answer.get("problem") or "")


def _feature(name: str, reasons: Iterable[str], text: str = "") -> Finding:
    reason = next((one for one in reasons if one), "")
    return Finding(FEATURES, name, NO if reason else WORKS, reason or text)


def _features(answers: Mapping[str, Answer]) -> list[Finding]:
    core, driver, cuda = (_problem_of_module(answers[name]) for name in MODULES)
    gpus = answers["gpus"]
    if core:
        core = f"the module _core cannot be loaded: {core}"
    no_report = gpus.problem and f"the probe of the driver failed: {gpus.problem}"
    libraries = answers["installation"].get("libraries", {})
    library, preload = (
        (libraries.get(name) or {}).get("problem")
        for name in ("libinterlace.so", "libinterlace_preload.so")
    )
    if library:
        library = f"libinterlace.so: {library}"
    build = answers["installation"].get("build", {})
    no_cuda = (
        built_without_cuda(build.get("built", ""))
        if cuda and not answers["_cuda"].get("there", True)
        else cuda
    )
    no_nvcc = ""
    if not build.get("cuda"):
        no_nvcc = (
            f"{built_without_cuda(build.get('built', ''))}; its kernels need nvcc at build time"
        )
    copies = [core, no_report, gpus.get("copies", ""), library or ""]
    peers = _peers(gpus)
    several = "" if len(gpus.get("gpus", [])) > 1 else "it needs at least 2 GPUs"
    return [
        _feature("simulated machines", [core]),
        _feature("copy", copies, peers.text),
        _feature("load and save on GPUs", [*copies, driver]),
        _feature(
            "interlace run", [*copies, f"libinterlace_preload.so: {preload}" if preload else ""]
        ),
        _feature("collectives: all_gather, all_to_all", [*copies, several]),
        _feature(
            "collectives: all_reduce", [*copies, no_nvcc, gpus.get("reductions", ""), several]
        ),
        _feature(
            "studies and regions on GPUs", [core, no_report, no_cuda, gpus.get("kernels", "")]
        ),
    ]


def _peers(gpus: Answer) -> Finding:
    """Say which GPUs can access each other's memory, and how other pairs of GPUs copy."""
    access = gpus.get("peer_access", [])
    count = len(access)
    if count < 2:
        return Finding(GPUS, "peer access", NOTE, "one GPU: every copy is one plain copy")
    missing = [
        f"{one}-{other}"
        for one in range(count)
        for other in range(one)
        if not (access[one][other] and access[other][one])
    ]
    if not missing:
        return Finding(GPUS, "peer access", WORKS, f"between all {count} GPUs")
    pairs = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    return Finding(
        GPUS,
        "peer access",
        NOTE,
        f"not between GPUs {pairs}: the driver sends a copy between such GPUs through host memory "
        "as one plain copy, and studies and regions do not use such GPUs together",
    )


def _installation(answers: Mapping[str, Answer]) -> list[Finding]:
    facts = answers["installation"]
    build = facts.get("build", {})
    found = []
    if facts.facts is not None:
        how = f"built by {build.get('compiler', 'an unknown compiler')}"
        how += f", {build['built']}" if build.get("built") else ""
        found.append(Finding(INSTALLATION, "interlace", WORKS, f"{facts.get('version')}, {how}"))
        found.append(Finding(INSTALLATION, "folder", WORKS, str(facts.get("folder"))))
    for name in MODULES:
        problem = _problem_of_module(answers[name])
        if not problem:
            found.append(Finding(INSTALLATION, name, WORKS, str(answers[name].get("file"))))
        elif name == "_cuda" and not answers[name].get("there", True):
            state = BROKEN if build.get("cuda") else NO
            found.append(Finding(INSTALLATION, name, state, "not built; kernels on GPUs need it"))
        else:
            found.append(Finding(INSTALLATION, name, BROKEN, f"{problem}; install Interlace anew"))
    for name, one in facts.get("libraries", {}).items():
        problem = one.get("problem")
        text = f"{problem}; install Interlace anew" if problem else one.get("file")
        found.append(Finding(INSTALLATION, name, BROKEN if problem else WORKS, str(text)))
    for name, one in facts.get("required", {}).items():
        problem = one.get("problem")
        text = f"{problem}; install it with pip" if problem else one.get("version") or "unknown"
        found.append(Finding(INSTALLATION, name, BROKEN if problem else WORKS, str(text)))
    for name, known in facts.get("optional", {}).items():
        found.append(Finding(INSTALLATION, name, WORKS if known else NO, known or "not installed"))
    for name, value in facts.get("settings", {}).items():
        found.append(Finding(INSTALLATION, name, NOTE, value))
    return found


def _gpus(answers: Mapping[str, Answer]) -> list[Finding]:
    gpus, system = answers["gpus"], answers["system"]
    kernel = system.get("kernel_driver")
    installed = system.get("pci_gpus", [])
    found = [
        Finding(
            GPUS,
            "NVIDIA GPUs on PCI",
            WORKS if installed else NO,
            ", ".join(installed) or "this system lists no PCI devices",
        ),
        Finding(
            GPUS,
            "kernel module",
            WORKS if kernel else NO,
            kernel or "no NVIDIA kernel module is loaded",
        ),
    ]
    if kernel and installed and not system.get("device_files"):
        found.append(
            Finding(
                GPUS,
                "/dev/nvidia*",
                BROKEN,
                "the kernel module is loaded, but no device file is here; start the container with "
                "access to GPUs (docker run --gpus all)",
            )
        )
    if gpus.facts is None:
        core = _problem_of_module(answers["_core"])
        state = NO if core else BROKEN  # without the module _core, no probe can ask the driver
        return [*found, Finding(GPUS, "driver", state, gpus.problem)]
    problem = str(gpus.get("problem") or "")
    versions = f"{gpus.get('driver') or 'unknown version'}, CUDA {gpus.get('cuda') or 'unknown'}"
    if not problem:
        found.append(Finding(GPUS, "driver", WORKS, versions))
    else:
        # The machine has a GPU and the driver's library, but the library does not work.
        state = BROKEN if gpus.get("present") and (installed or kernel) else NO
        hidden = "hides all GPUs" in problem
        found.append(Finding(GPUS, "driver", NOTE if hidden else state, problem))
    for number, one in enumerate(gpus.get("gpus", [])):
        capability = one["capability"]
        text = (
            f"{one['name']} at {one['bus_id']}, compute capability {capability // 10}."
            f"{capability % 10}, {one['memory_bytes'] / 1e9:.1f} GB"
        )
        if one["mig"]:
            text += ", one instance of a GPU that is split (MIG), without peer access"
        found.append(Finding(GPUS, f"GPU {number}", WORKS, text))
    found += [Finding(GPUS, "lost GPU", BROKEN, sentence) for sentence in gpus.get("lost", [])]
    return [*found, _peers(gpus)] if gpus.get("gpus") else found


def _system(facts: Answer) -> list[Finding]:
    if facts.facts is None:
        return []
    container = facts.get("container")
    found = [
        Finding(SYSTEM, name, WORKS, str(facts.get(key) or "unknown"))
        for name, key in (
            ("system", "system"),
            ("kernel", "kernel"),
            ("glibc", "glibc"),
            ("Python", "python"),
        )
    ]
    found.append(
        Finding(SYSTEM, "container", NOTE if container else WORKS, container or "none seen")
    )
    shm = facts.get("shm_bytes")
    if shm is None:
        said = "missing: the copies of several processes do not see each other's messages"
        found.append(Finding(SYSTEM, "/dev/shm", NOTE, said))
    elif shm < LEAST_SHM:
        said = (
            f"{shm / 1000000.0:.0f} MB, which is little for NCCL; docker run --shm-size=8g gives "
            "more"
        )
        found.append(Finding(SYSTEM, "/dev/shm", NOTE, said))
    else:
        found.append(Finding(SYSTEM, "/dev/shm", WORKS, f"{shm / 1e9:.1f} GB"))
    locked = facts.get("locked_bytes")
    said = "unlimited" if locked is None else f"{locked / 1e6:.1f} MB; the driver's page-locked "
    said += (
        ""
        if locked is None
        else "memory does not count toward this limit, but the memory of network libraries does"
    )
    found.append(Finding(SYSTEM, "locked memory", WORKS if locked is None else NOTE, said))
    scope = facts.get("ptrace_scope")
    restricted = scope is not None and scope > 0 and not facts.get("may_ptrace")
    said = "not restricted"
    if restricted:
        said = (
            f"restricted (ptrace_scope {scope}): CMA and single-copy transfers of MPI or UCX, and "
        )
        said += "debuggers, are limited; Interlace's own processes do not need ptrace"
    found.append(Finding(SYSTEM, "ptrace", NOTE if restricted else WORKS, said))
    return [*found, _iommu(facts.get("iommu", {})), _acs(facts.get("acs", {}))]


def _iommu(facts: Mapping[str, Any]) -> Finding:
    translated = [name for name, kind in facts.get("types", {}).items() if kind != "identity"]
    if not facts.get("units"):
        return Finding(SYSTEM, "IOMMU", WORKS, "off, or not visible here")
    if not translated:
        return Finding(
            SYSTEM, "IOMMU", WORKS, "on; it passes the accesses of GPUs without translation"
        )
    return Finding(
        SYSTEM,
        "IOMMU",
        NOTE,
        f"it translates addresses of {', '.join(translated)}: on a machine that is not virtual, "
        "copies between GPUs over PCIe may be slow or wrong; put iommu=pt on the kernel's command "
        "line to avoid this (NVLink is not affected)",
    )


def _acs(facts: Mapping[str, Any]) -> Finding:
    if redirecting := facts.get("redirecting"):
        return Finding(
            SYSTEM,
            "ACS",
            NOTE,
            f"bridges {', '.join(redirecting)} send copies between GPUs through the processor, "
            "which makes them slow over PCIe; switch ACS off in the firmware or with setpci "
            "(NVLink is not affected)",
        )
    if facts.get("unreadable"):
        said = "unknown, because only root can read it; run interlace doctor as root"
        return Finding(SYSTEM, "ACS", NOTE, said)
    return Finding(SYSTEM, "ACS", WORKS, "no bridge above a GPU redirects copies")


def _libraries(answers: Mapping[str, Answer]) -> list[Finding]:
    found = []
    for mechanism in (NCCL, NVSHMEM):
        name = mechanism.upper()
        answer = answers[mechanism]
        variable = f"INTERLACE_{name}"
        if answer.facts is None:
            found.append(Finding(LIBRARIES, name, BROKEN, answer.problem))
        elif answer.get("file"):
            version = answer.get("version") or "version unknown until it runs"
            found.append(Finding(LIBRARIES, name, WORKS, f"{version}, {answer.get('file')}"))
        elif answer.get("problem"):
            named = f"{variable}: " if answer.get("named") else ""
            found.append(Finding(LIBRARIES, name, BROKEN, f"{named}{answer.get('problem')}"))
        else:
            said = f"not installed: the mechanism {mechanism} needs it (pip install "
            said += f"nvidia-{mechanism}-cu13)"
            found.append(Finding(LIBRARIES, name, NO, said))
    return found


def _folders(facts: Answer) -> list[Finding]:
    return [
        Finding(
            FOLDERS,
            name,
            WORKS if one["writable"] else NOTE,
            one["path"] if one["writable"] else f"{one['path']} cannot be written",
        )
        for name, one in (facts.facts or {}).items()
    ]


def to_json(answers: Mapping[str, Answer], found: Iterable[Finding]) -> dict[str, Any]:
    """Return the findings, and the facts from which they follow, as data for JSON."""
    lines = list(found)
    return {
        "format": FORMAT,
        "broken": len(broken(lines)),
        "findings": [one._asdict() for one in lines],
        "facts": {
            name: answer.facts if answer.facts is not None else {"probe_failed": answer.problem}
            for name, answer in answers.items()
        },
    }
