"""Packages that tests fetch. The tests were checked with these versions.

The packages stay in build/fetched. A test that needs one of them is skipped, visibly, if there is
no network or if INTERLACE_TEST_FETCHED is not set. `./check --long` sets this variable.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

FETCHED = Path(__file__).resolve().parents[2] / "build" / "fetched"
TORCH = "torch==2.11.0"
WANTED = bool(os.environ.get("INTERLACE_TEST_FETCHED"))
NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|Connect(ion)?Timeout|ReadTimeoutError|ProxyError|"
    "Temporary failure|Network is unreachable|Could not (resolve|connect)"
)
needs_fetching = pytest.mark.skipif(
    not WANTED,
    reason="this test fetches packages; ./check --long runs it (INTERLACE_TEST_FETCHED=1)",
)

# Before pip saves a source package, it asks the build backend for the package's name. This backend
# answers from the package's own PKG-INFO, so pip builds nothing.
BACKEND = """
from email import message_from_string
from pathlib import Path

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    told = message_from_string(Path("PKG-INFO").read_text(encoding="utf-8"))
    made = Path(folder) / f"{told['Name'].replace('-', '_')}-{told['Version']}.dist-info"
    made.mkdir()
    text = f"Metadata-Version: 2.1\\nName: {told['Name']}\\nVersion: {told['Version']}\\n"
    (made / "METADATA").write_text(text, encoding="utf-8")
    return made.name
"""
BACKENDS = ("maturin.py", "setuptools/__init__.py", "setuptools/build_meta.py")


def _pip(*words: str, **environment: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pip", *words, "--no-input", "--disable-pip-version-check", "-q"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if ended.returncode and NO_NETWORK.search(ended.stdout + ended.stderr):
        pytest.skip("there is no network")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def source(name: str, version: str, sha256: str) -> Path:
    """Return the folder of a package's sources. The archive must have the hash `sha256`."""
    folder = FETCHED / f"{name}-{version}"
    if folder.is_dir():
        return folder
    work = FETCHED / f"{name}.part"
    shutil.rmtree(work, ignore_errors=True)
    for file in BACKENDS:
        path = work / "backend" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BACKEND, encoding="utf-8")
    _pip(
        *("download", "--no-deps", "--no-build-isolation", "--no-binary", name),
        *("--dest", str(work), f"{name}=={version}"),
        PYTHONPATH=str(work / "backend"),
    )
    (archive,) = work.glob("*.tar.gz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == sha256
    with tarfile.open(archive) as packed:
        packed.extractall(work, filter="data")
    (unpacked,) = (one for one in work.iterdir() if (one / "PKG-INFO").is_file())
    unpacked.rename(folder)
    shutil.rmtree(work)
    return folder


def packages(name: str, *requirements: str) -> Path:
    """Return a folder with installed packages, for use in PYTHONPATH."""
    folder = FETCHED / f"{name}-{hashlib.sha256(' '.join(requirements).encode()).hexdigest()[:8]}"
    if not folder.is_dir():
        part = FETCHED / f"{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        _pip("install", "--target", str(part), *requirements)
        part.rename(folder)
    return folder


def torch() -> Any:
    """Return the folder of PyTorch. If PyTorch is not installed, fetch it first."""
    if WANTED and importlib.util.find_spec("torch") is None:
        sys.path.append(str(packages("torch", TORCH)))
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (os.environ.get("PYTHONPATH"), sys.path[-1]))
        )
    return pytest.importorskip("torch")
