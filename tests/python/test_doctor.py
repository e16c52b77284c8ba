"""Tests what `interlace doctor` finds on healthy and broken machines, with and without GPUs.

The probes see a /proc and a /sys that the test has made. The report of the driver is invented.
tests/cpp/machine/driver_report_test.cpp tests the real report.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interlace.cli import doctor as command
from interlace.cli import main as cli
from interlace.model.mechanism_table import NCCL, NVSHMEM
from interlace.study import doctor, doctor_probes
from interlace.study.doctor import NO, NOTE, WORKS, Answer, Finding
from interlace.study.doctor_probes import Host

ROOT = Path(__file__).resolve().parents[2]


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


# --- a machine of the test ------------------------------------------------------------------------


def config_space(acs_control: int | None) -> bytes:
    """Return the configuration space of a bridge. Another capability precedes its ACS
    capability.
    """
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)
    if acs_control is not None:
        struct.pack_into("<IHH", space, 0x148, 0x000D | 1 << 16, 0x5F, acs_control)
    return bytes(space)


def machine(root: Path, *, acs_control: int | None = 0b11101) -> Host:
    """Make the files of a node with two GPUs. The first GPU is below a bridge."""
    write(root / "etc/os-release", 'NAME="X"\nPRETTY_NAME="Debian GNU/Linux 12"\n')
    write(root / "proc/sys/kernel/osrelease", "6.1.0\n")
    write(root / "proc/sys/kernel/yama/ptrace_scope", "1\n")
    write(root / "proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n")
    write(root / "proc/self/limits", "Max locked memory         8388608    8388608    bytes\n")
    write(
        root / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue\n",
    )
    write(root / ".dockerenv", "")
    write(root / "dev/nvidia0", "")
    (root / "dev/shm").mkdir()
    (root / "sys/class/iommu/dmar0").mkdir(parents=True)
    tree, flat = root / "sys/devices/pci0000:00", root / "sys/bus/pci/devices"
    flat.mkdir(parents=True)
    for way in ("0000:00:01.0", "0000:00:01.0/0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        is_gpu = "01:00" in way or "02:00" in way
        write(tree / way / "vendor", "0x10de\n" if is_gpu else "0x8086\n")
        write(tree / way / "class", "0x030200\n" if is_gpu else "0x060400\n")
        write(tree / way / "config", config_space(acs_control if "00:01.0" in way[-7:] else None))
        if is_gpu:
            write(tree / way / "iommu_group/type", "DMA-FQ\n" if "02:00" in way else "identity\n")
        (flat / way.rpartition("/")[2]).symlink_to(tree / way)
    return Host(root, {})


def test_the_system_is_read(tmp_path: Path) -> None:
    found = doctor_probes.system(machine(tmp_path))
    assert found["system"] == "Debian GNU/Linux 12"
    assert (found["kernel"], found["kernel_driver"]) == ("6.1.0", "580.159.04")
    assert (found["container"], found["device_files"]) == ("docker", ["nvidia0"])
    assert (found["ptrace_scope"], found["may_ptrace"]) == (1, False)
    assert found["locked_bytes"] == 8388608
    assert found["pci_gpus"] == ["0000:01:00.0", "0000:02:00.0"]
    assert found["iommu"] == {
        "units": 1,
        "types": {"0000:01:00.0": "identity", "0000:02:00.0": "DMA-FQ"},
    }
    assert found["acs"] == {"redirecting": ["0000:00:01.0"], "unreadable": []}
    assert found["shm_bytes"] > 0


@pytest.mark.parametrize("control", [None, 0b10001])
def test_acs_that_redirects_nothing(tmp_path: Path, control: int | None) -> None:
    found = doctor_probes.system(machine(tmp_path, acs_control=control))
    assert found["acs"] == {"redirecting": [], "unreadable": []}


def test_only_root_sees_acs(tmp_path: Path) -> None:
    host = machine(tmp_path)
    write(tmp_path / "sys/devices/pci0000:00/0000:00:01.0/config", config_space(4)[:64])
    assert doctor_probes.system(host)["acs"]["unreadable"] == ["0000:00:01.0"]


def test_nothing_of_the_system_can_be_read(tmp_path: Path) -> None:
    found = doctor_probes.system(Host(tmp_path / "nowhere", {}))
    assert found["kernel"] is None
    assert found["pci_gpus"] == []
    assert found["shm_bytes"] is None
    lines = doctor._system(Answer(found))
    assert {line.state for line in lines} <= {WORKS, NOTE}


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    write(tmp_path / "file", "")
    host = Host(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "file"), "HOME": str(tmp_path)})
    found = doctor_probes.folders(host)
    assert found["profiles"]["writable"] is False
    lines = doctor._folders(Answer(found))
    assert lines[0].state == NOTE
    assert lines[0].text.endswith("cannot be written")


def test_a_library_that_a_variable_names_and_is_none(tmp_path: Path) -> None:
    write(tmp_path / "libnccl.so.2", "no library")
    file = str(tmp_path / "libnccl.so.2")
    found = doctor_probes.nccl(Host(tmp_path, {"INTERLACE_NCCL": file}))
    assert found["named"]
    assert "libnccl.so.2" in found["problem"]
    assert doctor_probes.nvshmem(Host(tmp_path, {"INTERLACE_NVSHMEM": file}))["problem"]


# --- findings -------------------------------------------------------------------------------------


def gpu(capability: int = 90) -> dict[str, Any]:
    return {
        "name": "NVIDIA H200",
        "bus_id": "0000:1b:00.0",
        "memory_bytes": 150_000_000_000,
        "capability": capability,
        "mig": False,
        "kernels": "",
    }


def report(count: int, **more: Any) -> dict[str, Any]:
    return {
        "present": True,
        "driver": "580.159",
        "cuda": "13.0",
        "problem": "",
        "installed": count,
        "gpus": [gpu()] * count,
        "lost": [],
        "peer_access": [[True] * count] * count,
        "copies": "",
        "kernels": "",
        "reductions": "",
        **more,
    }


NO_DRIVER = "no NVIDIA driver was found (no libcuda.so.1)"


def answers(tmp_path: Path, said: dict[str, Any], **more: Answer) -> dict[str, Answer]:
    """Return the facts of a healthy installation on a machine whose driver gives the report
    `said`.
    """
    there = Answer({"there": True, "file": "/x/_core.so", "problem": None})
    absent = {"file": None, "version": None, "named": False, "problem": None}
    return {
        "installation": Answer(
            {
                "version": "1.2.3",
                "folder": "/x",
                "build": {
                    "cuda": "13.0",
                    "compiler": "GNU 12.2.0",
                    "built": "with CUDA 13.0 for sm_90",
                },
                "required": {"numpy": {"version": "2.1", "problem": None}},
                "optional": {"torch": "2.9", "cupy": None},
                "libraries": {
                    name: {"file": f"/x/{name}", "problem": None}
                    for name in doctor_probes.LIBRARIES
                },
                "settings": {"CUDA_VISIBLE_DEVICES": "0,1"},
            }
        ),
        "system": Answer(doctor_probes.system(machine(tmp_path / "root"))),
        "folders": Answer({"profiles": {"path": "/home/x/.config", "writable": True}}),
        **dict.fromkeys(doctor_probes.MODULES, there),
        "gpus": Answer(said),
        NCCL: Answer({**absent, "file": "/x/libnccl.so.2", "version": "2.27.7"}),
        NVSHMEM: Answer(absent),
        **more,
    }


def states(found: list[Finding], topic: str = doctor.FEATURES) -> dict[str, str]:
    return {one.name: one.state for one in found if one.topic == topic}


def text_of(found: list[Finding], name: str) -> str:
    return next(one.text for one in found if one.name == name)


FEATURES = [
    "simulated machines",
    "copy",
    "load and save on GPUs",
    "interlace run",
    "collectives: all_gather, all_to_all",
    "collectives: all_reduce",
    "studies and regions on GPUs",
]


def test_everything_works(tmp_path: Path) -> None:
    found = doctor.findings(answers(tmp_path, report(2)))
    assert states(found) == dict.fromkeys(FEATURES, WORKS)
    assert doctor.broken(found) == []
    assert text_of(found, "interlace") == "1.2.3, built by GNU 12.2.0, with CUDA 13.0 for sm_90"
    assert text_of(found, "GPU 1") == (
        "NVIDIA H200 at 0000:1b:00.0, compute capability 9.0, 150.0 GB"
    )
    assert text_of(found, "peer access") == "between all 2 GPUs"
    assert text_of(found, "NCCL") == "2.27.7, /x/libnccl.so.2"
    assert "0000:02:00.0" in text_of(found, "IOMMU")
    assert "0000:00:01.0" in text_of(found, "ACS")
    assert "ptrace_scope 1" in text_of(found, "ptrace")
    assert states(found, doctor.LIBRARIES) == {"NCCL": WORKS, "NVSHMEM": NO}


def test_without_a_gpu_nothing_is_broken(tmp_path: Path) -> None:
    none = dict.fromkeys(("problem", "copies", "kernels", "reductions"), NO_DRIVER)
    found = doctor.findings(answers(tmp_path, report(0, present=False, **none)))
    assert states(found) == {name: WORKS if "simulated" in name else NO for name in FEATURES}
    assert text_of(found, "copy") == NO_DRIVER
    assert doctor.broken(found) == []


def test_an_old_driver(tmp_path: Path) -> None:
    said = "the NVIDIA driver is for CUDA 12.2, and kernels need a driver for CUDA 13.0"
    found = doctor.findings(answers(tmp_path, report(2, kernels=said, reductions=said)))
    assert [name for name, state in states(found).items() if state == NO] == FEATURES[-2:]
    assert text_of(found, "studies and regions on GPUs") == said
    assert doctor.broken(found) == []


def test_no_peer_access(tmp_path: Path) -> None:
    access = [[True, False, True], [True, True, True], [True, True, True]]
    found = doctor.findings(answers(tmp_path, report(3, peer_access=access)))
    assert states(found, doctor.GPUS)["peer access"] == NOTE
    said = text_of(found, "peer access")
    assert said.startswith(
        "not between GPUs 1-0: the driver sends a copy between such GPUs through host memory"
    )
    assert text_of(found, "copy") == said


def test_a_build_without_cuda(tmp_path: Path) -> None:
    made = answers(tmp_path, report(2))
    installation = dict(made["installation"].facts or {})
    how = "without CUDA, since INTERLACE_CUDA was OFF"
    installation["build"] = {"cuda": None, "compiler": "GNU 12.2.0", "built": how}
    made["installation"] = Answer(installation)
    made["_cuda"] = Answer({"there": False, "file": None, "problem": "No module named"})
    found = doctor.findings(made)
    assert [name for name, state in states(found).items() if state == NO] == FEATURES[-2:]
    assert states(found, doctor.INSTALLATION)["_cuda"] == NO
    assert doctor.broken(found) == []
    assert text_of(found, "interlace") == f"1.2.3, built by GNU 12.2.0, {how}"
    assert text_of(found, FEATURES[-1]) == f"this Interlace was built {how}"


def test_a_driver_that_hangs_is_broken_and_the_rest_is_said(tmp_path: Path) -> None:
    hung = Answer(None, "it did not answer within 15 s")
    found = doctor.findings(answers(tmp_path, report(2), gpus=hung))
    assert [one.name for one in doctor.broken(found)] == ["driver"]
    assert states(found)["simulated machines"] == WORKS
    assert text_of(found, "copy") == "the probe of the driver failed: it did not answer within 15 s"


@pytest.mark.parametrize(
    ("name", "answer", "ill"),
    [
        ("_core", Answer({"there": True, "file": None, "problem": "undefined symbol"}), "_core"),
        ("_driver", Answer({"there": False, "file": None, "problem": "No module"}), "_driver"),
        ("_cuda", Answer(None, "it was ended by SIGSEGV"), "_cuda"),
        (NCCL, Answer(None, "it was ended by SIGSEGV"), "NCCL"),
        ("system", Answer(None, "it did not answer within 15 s"), "probe system"),
        ("installation", Answer(None, "x"), "probe installation"),
        ("folders", Answer(None, "it did not answer within 15 s"), "probe folders"),
    ],
)
def test_half_of_an_installation(tmp_path: Path, name: str, answer: Answer, ill: str) -> None:
    found = doctor.findings(answers(tmp_path, report(2), **{name: answer}))
    assert [one.name for one in doctor.broken(found)] == [ill]


def test_a_driver_that_does_not_start_and_a_lost_gpu(tmp_path: Path) -> None:
    said = "the NVIDIA driver does not start (cuInit failed: CUDA_ERROR_UNKNOWN)"
    found = doctor.findings(answers(tmp_path, report(0, problem=said, copies=said)))
    assert [one.text for one in doctor.broken(found)] == [said]
    lost = report(1, lost=["CUDA device 1 does not answer: x"])
    assert [one.name for one in doctor.broken(doctor.findings(answers(tmp_path / "b", lost)))] == [
        "lost GPU"
    ]


def test_every_dependency_is_looked_at() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.split(r"[<>=]", one)[0] for one in project["dependencies"]]
    assert sorted(names) == sorted(doctor_probes.REQUIRED)


# --- probes in processes of their own -------------------------------------------------------------


def test_probes_that_hang_crash_or_talk_do_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBES", dict.fromkeys(("hangs", "dies", "talks", "answers")))
    program = (
        "import os, signal, sys, time\n"
        "name = sys.argv[1]\n"
        "if name == 'hangs': time.sleep(100)\n"
        "if name == 'dies': os.kill(os.getpid(), signal.SIGKILL)\n"
        "if name == 'talks': sys.exit('no such thing')\n"
        "print('a library said this'); print('{\"x\": 1}')\n"
    )
    began = time.monotonic()
    found = doctor.ask_all(3.0, [sys.executable, "-c", program])
    assert time.monotonic() - began < 10
    assert found == {
        "hangs": Answer(None, "it did not answer within 3 s"),
        "dies": Answer(None, "it was ended by SIGKILL"),
        "talks": Answer(None, "no such thing"),
        "answers": Answer({"x": 1}),
    }


def test_the_command_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "doctor.json"
    code = cli.run(["doctor", "--json", str(file)])
    out = capsys.readouterr().out
    document = json.loads(file.read_text())
    assert code == (1 if document["broken"] else 0)
    assert set(document["facts"]) == set(doctor_probes.PROBES)
    assert [one["name"] for one in document["findings"] if one["topic"] == "features"] == FEATURES
    assert document["format"] == doctor.FORMAT
    assert "what Interlace can do on this machine" in out
    for one in document["findings"]:
        assert one["name"] in out
    assert document["facts"]["_core"]["problem"] is None
    assert text_of([Finding(**one) for one in document["findings"]], "simulated machines") == ""


def test_the_exit_code_says_that_something_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ill = answers(tmp_path, report(2), gpus=Answer(None, "it was ended by SIGSEGV"))
    monkeypatch.setattr(command, "ask_all", lambda: ill)
    assert cli.run(["doctor"]) == 1
    assert "BROKEN: driver: it was ended by SIGSEGV" in capsys.readouterr().out
    assert cli.run(["doctor", "--json", str(tmp_path / "no" / "file")]) == 2


def test_it_does_without_the_packages_of_the_command_line() -> None:
    code = "import sys; sys.modules['typer'] = None; from interlace.cli.start import main; main()"

    def ended(word: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", code, word]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    done = ended("doctor")
    assert done.returncode in (0, 1), done.stderr
    assert "works   simulated machines: \n" in done.stdout
    other = ended("study")
    assert other.returncode == 2
    assert other.stderr.startswith("interlace: the command line cannot be loaded (")
    assert other.stderr.endswith("); see interlace doctor\n")


def test_import_never_fails_for_want_of_a_gpu() -> None:
    code = (
        "import sys\n"
        "for name in ('_core', '_driver', '_cuda'): sys.modules[f'interlace.{name}'] = None\n"
        "import interlace\n"
        "[getattr(interlace, name) for name in interlace.__all__]\n"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
