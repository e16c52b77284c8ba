"""Profiles: files of tuned configurations, with the measurements that led to each pick.

A profile belongs to a machine, to a workload with its sizes, and to a number of GPUs. Later runs
look for a profile with these properties in the user's folder of profiles.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from interlace.base.errors import UserError
from interlace.base.files import read_results
from interlace.model.mechanisms import ELEMENT_BYTES, MECHANISMS, Config, label
from interlace.model.results import Head, provenance
from interlace.nodes.nodes import Node
from interlace.tuning.search import Search, Tried
from interlace.workloads import Workload

FORMAT = 1  # the format version of profiles
KIND = "interlace profile"


class Machine(msgspec.Struct, frozen=True):
    """The machine on which a profile was measured.

    None means that the machine does not have the property.
    """

    node: str  # sim or cuda
    name: str
    gpus: int  # the number of GPUs in the machine
    model: str | None  # the GPUs' model
    driver: str | None
    cuda: str | None
    sha256: str | None  # the hash of the machine's file, if the machine is simulated

    @classmethod
    def of(cls, node: Node) -> Machine:
        """Return the machine of a node."""
        about = node.description()
        if node.name == "sim":
            text = json.dumps(about, sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()
            return cls(node.name, node.machine_name, node.gpus, None, None, None, digest)
        model, cuda = str(about["model"]), str(about["cuda"])
        return cls(node.name, node.machine_name, node.gpus, model, node.driver, cuda, None)

    @property
    def key(self) -> tuple[str, str]:
        """Return the properties that identify the machine. The driver is not one of them."""
        return self.node, self.model or self.name

    def differences(self, other: Machine) -> list[str]:
        """Return the differences between this machine and `other`, as parts of a sentence."""
        if self.node != other.node:
            return [f"the profile is for {self.name}, but this machine is {other.name}"]
        found = []
        if self.key != other.key:
            found.append(f"it has {self.key[1]}, but this machine has {other.key[1]}")
        if self.gpus != other.gpus:
            found.append(f"it has {self.gpus} GPUs, but this machine has {other.gpus}")
        if self.driver != other.driver:
            found.append(f"it has driver {self.driver}, but this machine has {other.driver}")
        if self.cuda != other.cuda:
            found.append(f"it has CUDA {self.cuda}, but this machine has {other.cuda}")
        if self.sha256 != other.sha256 and self.key == other.key:
            found.append(f"the description of {self.name} has changed")
        return found


class Subject(msgspec.Struct, frozen=True):
    """The workload of a profile, with the sizes on which its times depend."""

    kind: str
    data: str
    gpus: int  # the number of GPUs that took part
    peers: int  # the number of GPUs that receive from each GPU
    elements: int  # the number of elements of the region, which `boundaries` divides
    element_bytes: int
    part_bytes: int  # bytes of the largest part that a GPU sends as a whole
    parameters: dict[str, bool | int | str]

    @classmethod
    def of(cls, workload: Workload, gpus: int) -> Subject:
        """Return the workload and its sizes on a number of GPUs."""
        given = workload.parameters()
        return cls(
            kind=workload.name,
            data=workload.data_name,
            gpus=gpus,
            peers=gpus - 1,
            elements=int(workload.boundaries(gpus)[-1]),
            element_bytes=ELEMENT_BYTES,
            part_bytes=int(workload.largest_part(gpus)),
            # Parameters that are floats are left out, because they do not change the times.
            # The other parameters are sizes and choices of a kernel.
            parameters={k: v for k, v in given.items() if isinstance(v, bool | int | str)},
        )

    def __str__(self) -> str:
        return f"{self.kind}, {self.data} on {self.gpus} GPUs"


class Picked(msgspec.Struct, frozen=True):
    """The picked candidate, with its median and spread."""

    mechanism: str
    parameters: dict[str, int]
    median_s: float
    spread_s: float

    @classmethod
    def of(cls, tried: Tried) -> Picked:
        """Return the median and spread of a measured candidate."""
        assert tried.median_s is not None
        assert tried.spread_s is not None
        return cls(tried.mechanism, tried.parameters, tried.median_s, tried.spread_s)

    @property
    def config(self) -> Config:
        """Return the parameters as the configuration of a study."""
        return Config.of(self.parameters)

    @property
    def label(self) -> str:
        """Return the mechanism with its configuration."""
        return label(self.mechanism, self.config)


class Profile(Head, frozen=True, tag_field="kind", tag=KIND):
    """The content of a profile's file."""

    machine: Machine
    workload: Subject
    iterations: int
    warmup: int | None  # None for simulated runs
    repeats: int  # the number of samples of a candidate in a round
    pick: Picked
    best_control: Picked | None
    search: Search

    @classmethod
    def of(
        cls, machine: Machine, workload: Subject, search: Search, *,
        iterations: int, warmup: int | None, repeats: int,
    ) -> Profile:  # fmt: skip
        """Return the profile of a search that has just ended."""
        control = None if search.best_control is None else search.candidates[search.best_control]
        return cls(
            format=FORMAT,
            **provenance(),
            machine=machine,
            workload=workload,
            iterations=iterations,
            warmup=warmup,
            repeats=repeats,
            pick=Picked.of(search.picked),
            best_control=None if control is None else Picked.of(control),
            search=search,
        )

    def best(self, mechanism: str) -> Config | None:
        """Return the fastest configuration of a mechanism, or None if the mechanism was not
        measured.
        """
        found = self.search.best(mechanism)
        return None if found is None else Config.of(found.parameters)


# --- places -------------------------------------------------------------------------------


def folder() -> Path:
    """Return the user's folder of profiles. Raise UserError if the user has no known folder."""
    found = _known_folder()
    if found is None:
        raise UserError(
            "there is no folder for profiles: set HOME, or XDG_CONFIG_HOME to an absolute path"
        )
    return found


def _known_folder() -> Path | None:
    stated = os.environ.get("XDG_CONFIG_HOME", "")
    if Path(stated).is_absolute():
        return Path(stated) / "interlace" / "profiles"
    try:
        return Path.home() / ".config" / "interlace" / "profiles"
    except RuntimeError:  # HOME is not set, and the system does not know this user
        return None


def default_path(machine: Machine, subject: Subject) -> Path:
    """Return the file of the profile for a workload on a machine."""
    identity = json.dumps([machine.key, msgspec.to_builtins(subject)], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    words = (subject.kind, subject.data, f"{subject.gpus}x", machine.key[1])
    return folder() / f"{'-'.join(map(file_word, words))}-{digest}.json"


def file_word(text: str) -> str:
    """Return a text as a part of a file name. src/plan/copy_profile.cpp has the same rule."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:40].lower()


# --- reading --------------------------------------------------------------------------------------


def load(path: Path, option: str) -> Profile:
    """Read the profile in the file that `option` names.

    Raises UserError if the file is not a profile.
    """
    what = f"{option} {path}".strip()
    text = read_results(path, what)
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{what} is not a profile ({error}); make it anew") from None
    if not isinstance(document, Mapping) or document.get("kind") != KIND:
        raise UserError(f"{what} is not a profile; make one with interlace tune")
    if document.get("format") != FORMAT:
        raise UserError(
            f"{what} has the format {document.get('format')}, and this version reads {FORMAT}; "
            "make it anew with interlace tune"
        )
    try:
        profile = msgspec.convert(document, Profile)
        _check(profile)
    except (msgspec.ValidationError, ValueError) as error:
        raise UserError(f"{what} is damaged ({error}); make it anew with interlace tune") from None
    return profile


def _check(profile: Profile) -> None:
    """Raise ValueError if the profile breaks a rule that types cannot express."""
    search = profile.search
    for index in (search.pick, search.best_control):
        if index is not None and not 0 <= index < len(search.candidates):
            raise ValueError(f"there is no candidate {index}")
    for it in search.candidates:
        if it.mechanism not in MECHANISMS:
            raise ValueError(f"there is no mechanism {it.mechanism!r}")
        wrong = sorted(set(it.parameters) - set(Config._fields))
        if wrong or not all(0 < value < 2**32 for value in it.parameters.values()):
            raise ValueError(f"a configuration of {it.mechanism} cannot be")
        if it.samples and it.median_s is None:
            raise ValueError(f"a candidate of {it.mechanism} has samples and no median")
        if it.median_s is not None and not 0 < it.median_s < math.inf:
            raise ValueError(f"a median of {it.mechanism} is {it.median_s} s")
    named = {"pick": (search.pick, profile.pick),
             "best control": (search.best_control, profile.best_control)}  # fmt: skip
    for what, (index, picked) in named.items():
        tried = None if index is None else search.candidates[index]
        if tried is not None and (tried.median_s is None or tried.spread_s is None):
            raise ValueError(f"the {what} was not measured")
        if picked != (None if tried is None else Picked.of(tried)):
            raise ValueError(f"the {what} is not the candidate that it names")


class Use(msgspec.Struct, frozen=True):
    """A profile in use, with the differences between its machine and this machine."""

    path: Path
    profile: Profile
    differences: list[str]

    def sentence(self) -> str:
        """Return a sentence that names the profile."""
        on = f"on {self.profile.workload.gpus} GPUs"
        return f"Profile {self.path} ({on}): it picks {self.profile.pick.label}."

    def warning(
        self, remedy: str = "make it anew with interlace tune, or leave it out with --no-profile"
    ) -> str | None:
        """Return a sentence about the differences, with a remedy; None if there are no
        differences.
        """
        if not self.differences:
            return None
        differences = "; ".join(self.differences)
        return (
            f"the profile {self.path} was made on another machine: {differences}. This "
            f"profile is used nevertheless; {remedy}"
        )


def find(node: Node, workload: Workload, gpus: int) -> Use | None:
    """Return the user's profile for a workload on a number of this machine's GPUs.

    Return None if there is no such profile.
    """
    if _known_folder() is None:
        return None
    here, subject = Machine.of(node), Subject.of(workload, gpus)
    path = default_path(here, subject)
    try:
        if not path.is_file():
            return None
    except OSError as error:
        raise UserError(f"the profile {path} cannot be read: {error.strerror}") from None
    return _use(path, load(path, "the profile"), here, subject)


def given(path: Path, profile: Profile, node: Node, workload: Workload) -> Use:
    """Return the profile that the user named. Raise UserError if it is of another workload."""
    subject = Subject.of(workload, profile.workload.gpus)
    return _use(path, profile, Machine.of(node), subject)


def _use(path: Path, profile: Profile, here: Machine, subject: Subject) -> Use:
    if profile.workload != subject:
        theirs, ours = (msgspec.to_builtins(it) for it in (profile.workload, subject))
        wrong = [f"{k} is {theirs[k]} in the profile and {ours[k]} here" for k in ours
                 if ours[k] != theirs[k]]  # fmt: skip
        raise UserError(
            f"the profile {path} is of {profile.workload}, not of this workload "
            f"({'; '.join(wrong)}); make one with interlace tune, or leave it out with "
            "--no-profile"
        )
    return Use(path, profile, profile.machine.differences(here))
