"""The environment variables that a user may set, and the paths and flags that C programs need."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlace.base.errors import UserError
from interlace.base.installation import installed
from interlace.model.results import Head
from interlace.model.run import core_errors
from interlace.runtime import preload

FORMAT = 1  # the format version of the JSON file
PREFIX = "INTERLACE_"
DEFAULT, ENVIRONMENT = "default", "environment"


class Variable(NamedTuple):
    """An environment variable that users may set."""

    used_by: str
    default: str | None  # None means that there is no default, or that `meaning` states the default
    meaning: str
    # a function that raises UserError for an invalid value
    check: Callable[[str], None] = lambda _: None


def _library_file(name: str, value: str) -> None:
    # A name without a slash is valid, because the loader searches all library folders for it.
    if "/" in value and not Path(value).is_file():
        raise UserError(f"{name}={value!r} is not a file; give a library, or leave it unset")


def _absolute(name: str, value: str) -> None:
    if not Path(value).is_absolute():
        raise UserError(
            f"{name}={value!r} is not an absolute path; give an absolute path, or leave the "
            "variable unset"
        )


# Variables that other files read. The compiled module knows the variables of copies, and preload.py
# knows the variables of `interlace run`.
OTHERS = {
    "INTERLACE_CUFFT": Variable(
        "study hit",
        None,
        "the path of cuFFT's libcufft.so.12; unset: the file that the dynamic linker finds, or "
        "else the file of the CUDA toolkit",
        partial(_library_file, "INTERLACE_CUFFT"),
    ),
    "INTERLACE_NCCL": Variable(
        "mechanism nccl",
        None,
        "the path of NCCL's libnccl.so.2; unset: the library that is already loaded, or else the "
        "file of the Python package, or else the file that the dynamic linker finds",
        partial(_library_file, "INTERLACE_NCCL"),
    ),
    "INTERLACE_NVSHMEM": Variable(
        "mechanism nvshmem",
        None,
        "the path of NVSHMEM's libnvshmem_host.so.3; unset: the file of the Python package",
        partial(_library_file, "INTERLACE_NVSHMEM"),
    ),
    "INTERLACE_CUDA": Variable(
        "quickstart, pip install",
        "AUTO",
        "ON, OFF or AUTO; AUTO: the build has CUDA if it finds an nvcc of CUDA 13",
    ),
    "INTERLACE_COMMIT": Variable(
        "files of results", None, "the commit that files of results name if git does not know it"
    ),
    "CXX": Variable("build-workload", "g++", "the C++ compiler, with options"),
    "CUDA_VISIBLE_DEVICES": Variable(
        "everything on GPUs",
        None,
        "the GPUs that the process may use; no other GPU relays copies",
    ),
    "CUDA_DEVICE_MAX_CONNECTIONS": Variable(
        "the number of devices that share a GPU",
        None,
        "hardware queues of a process on a GPU, 1 to 32; unset: 8, or 32 with --share-gpu",
    ),
    "NO_COLOR": Variable("tables", None, "if this variable has any value, tables have no colours"),
    "XDG_CONFIG_HOME": Variable(
        "profiles",
        "~/.config",
        "the folder that contains interlace/profiles, where tune writes profiles",
        partial(_absolute, "XDG_CONFIG_HOME"),
    ),
    "XDG_RUNTIME_DIR": Variable(
        "regions of several processes, and measurements",
        "/tmp",
        "the folder for the sockets over which processes find each other, and for the lock that "
        "measurements take",
    ),
}
# `interlace run` sets these variables for its own library.
INTERNAL = (preload.COUNTERS,)


def variables(core: Any) -> dict[str, Variable]:
    """Return all variables by name. `core` knows the variables of copies."""

    def of_copies(name: str, value: str) -> None:
        with core_errors():
            core.check_copy_settings({name: value})
        if name == "INTERLACE_COPY_PROFILE" and "/" in value:
            try:
                text = Path(value).read_text("utf-8")
            except (OSError, ValueError) as error:
                raise UserError(f"{name}={value!r} cannot be read: {error}") from None
            with core_errors():
                core.copy_choice(text, value, "gpu-to-gpu", 1)

    def of_run(name: str, value: str) -> None:
        preload.check_environment({name: value})

    return {
        **{
            name: Variable("copies", standard, meaning, partial(of_copies, name))
            for name, standard, meaning in core.copy_settings()
        },
        **{
            name: Variable(
                "interlace run", setting.standard, setting.meaning, partial(of_run, name)
            )
            for name, setting in preload.SETTINGS.items()
        },
        **OTHERS,
    }


class Setting(msgspec.Struct, frozen=True):
    """A variable with its current value."""

    name: str
    used_by: str
    value: str | None
    source: str  # where the value comes from: default or environment
    default: str | None
    meaning: str


class Settings(Head, frozen=True):
    """The content of the JSON file with the settings of all variables."""

    variables: list[Setting]


def settings_of(known: Mapping[str, Variable], environment: Mapping[str, str]) -> list[Setting]:
    """Return the setting of each variable.

    If a value is invalid, raises UserError. Its message names the variable.
    """
    found, wrong = [], []
    for name, variable in known.items():
        value = environment.get(name) or None  # a variable with an empty value counts as unset
        if value is not None:
            try:
                variable.check(value)
            except UserError as error:
                wrong.append(str(error))
        found.append(
            Setting(
                name,
                variable.used_by,
                variable.default if value is None else value,
                DEFAULT if value is None else ENVIRONMENT,
                variable.default,
                variable.meaning,
            )
        )
    if wrong:
        raise UserError("; ".join(wrong))
    return found


def unknown_names(known: Mapping[str, Variable], environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that seems to be misspelt.

    Such a variable is set and unknown, and has a name that resembles the name of a variable of
    Interlace.
    """
    told = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known or name in INTERNAL:
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        told.append(
            f"{name} is set, but there is no such variable; the most similar one is {close[0]}"
        )
    return told


def compiler_words(*, flags: bool, libraries: bool, kernels: bool, gpus: bool) -> str:
    """Return compiler flags: `flags` for the headers, `libraries` for libinterlace.so, `kernels`
    for programs with kernels, and `gpus` for programs with kernels that nvcc compiles.
    """
    words = []
    if flags:
        words.append(f"-I{_file('include/interlace/copy.h').parents[1]}")
    if libraries:
        folder = _file("libinterlace.so").parent
        words += [f"-L{folder}", f"-Wl,-rpath,{folder}", "-linterlace"]
    if kernels or gpus:
        words.append(f"-L{_file('lib/libinterlace_core.a').parent}")
        if gpus:
            _file("lib/libinterlace_cuda.a", "built with CUDA, ")
            words.append("-linterlace_cuda")
        words += ["-linterlace_core", "-lpthread", "-ldl"]
    return " ".join(words)


def cmake_prefix() -> Path:
    """Return the folder in which CMake's find_package(interlace) looks."""
    return _file("lib/cmake/interlace/interlaceConfig.cmake").parents[3]


def _file(name: str, how: str = "") -> Path:
    found = installed(name)
    if found is None:
        raise UserError(
            f"this installation has no {name}; install Interlace anew, {how}with ./quickstart"
        )
    return found
