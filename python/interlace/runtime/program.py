"""Runs an unchanged program until it ends, and passes signals on to the program."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from interlace.base.activities import Activity, shown
from interlace.base.errors import UserError
from interlace.base.printable import printable
from interlace.runtime.preload import COUNTERS, Counted, make_counters, read_counters

NOT_EXECUTABLE = 126  # shells also use this exit code and the next exit code
NOT_FOUND = 127
PASSED_ON = ("SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
FROM_TERMINAL = ("SIGINT", "SIGQUIT")  # a terminal sends these signals to the program itself


class _Signals:
    """Passes the signals of this process on to the program while the program runs.

    Signals that this process ignores stay ignored.
    """

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.early: list[int] = []  # the signals that came before the program started
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        self.come, self.noted = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.woken_before = signal.set_wakeup_fd(self.noted, warn_on_full_buffer=False)
        for name in (*PASSED_ON, *FROM_TERMINAL):
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                handler = self._pass_on if name in PASSED_ON else self._leave
                self.before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.woken_before)
        os.close(self.come)
        os.close(self.noted)

    def begin(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        for number in self.early:
            self._pass_on(number, None)

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait until the program ends, and return its code in the form of Popen.returncode.

        A signal can arrive just before the wait begins. Such a signal does not interrupt the wait,
        and Python runs the handler only after the wait. Therefore each signal also writes a byte to
        a pipe, and this byte ends the wait.
        """
        try:
            ended = os.pidfd_open(child.pid)
        except OSError:  # a kernel before 5.3
            return child.wait()
        try:
            waiting = select.poll()
            for source in (ended, self.come):
                waiting.register(source, select.POLLIN)
            while all(source != ended for source, _ in waiting.poll()):
                with suppress(BlockingIOError):
                    os.read(self.come, 512)
        finally:
            os.close(ended)
        return child.wait()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.child is None:
            self.early.append(number)
        else:
            with suppress(ProcessLookupError):
                self.child.send_signal(number)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        pass


def find_program(name: str, environment: Mapping[str, str]) -> tuple[str | None, int, str]:
    """Return the path that a shell would execute. If there is none, return None, the exit code that
    a shell would give, and the reason.

    The path always contains a slash. A name without a slash would be looked up in PATH again.
    """
    if "/" in name:
        candidates = [name]
    else:
        folders = environment.get("PATH", os.defpath).split(os.pathsep)
        candidates = [f"{folder or '.'}/{name}" for folder in folders]
    refused = ""
    for file in candidates:
        try:
            mode = Path(file).stat().st_mode
        except OSError as error:
            if isinstance(error, PermissionError):
                refused = refused or f"{file}: Permission denied"
            continue
        if stat.S_ISDIR(mode):
            if "/" in name:
                refused = f"{file} is a directory, not a program"
        elif os.access(file, os.X_OK):
            return file, 0, ""
        else:
            refused = refused or f"{file} may not be executed; chmod +x makes it executable"
    if refused:
        return None, NOT_EXECUTABLE, refused
    if "/" in name:
        return None, NOT_FOUND, f"there is no program {name}"
    return None, NOT_FOUND, f"there is no program {name!r} in PATH"


def run_program(
    file: str, words: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str | None]:
    """Run a program until it ends.

    Return the exit code that a shell would give. If the program did not start, also return the
    reason.
    """
    with _Signals() as signals:
        try:
            child = subprocess.Popen(words, executable=file, env=environment, close_fds=False)
        except OSError as error:
            return NOT_EXECUTABLE, f"{file} cannot be executed: {error.strerror}"
        signals.begin(child)
        code = signals.wait(child)
    return (128 - code if code < 0 else code), None


class Ended(NamedTuple):
    """How a program that ran with the preload library ended."""

    code: int  # the exit code, as in a shell
    failed: str  # the reason why the program did not start; empty if it started
    elapsed_s: float
    counted: Counted | None  # None if the program did not start


def run_counted(
    file: str, words: Sequence[str], library: Path, *, sites: int = 0, calls: int = 0
) -> Ended:
    """Run a program with the library loaded first. When the program has ended, read the counters.

    The counters have at most `sites` call sites and `calls` calls.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="interlace-run-"))
    except OSError as error:
        raise _uncounted(tempfile.tempdir or "any folder of PATH", error) from None
    try:
        counters = folder / "counters"
        try:
            make_counters(counters, sites=sites, calls=calls)
        except OSError as error:
            raise _uncounted(str(folder.parent), error) from None
        others = os.environ.get("LD_PRELOAD", "")
        environment = {
            **os.environ,
            COUNTERS: str(counters),
            "LD_PRELOAD": f"{library}:{others}" if others else str(library),
        }
        sys.stdout.flush()
        began = time.monotonic()
        activity = Activity(f"interlace run -- {printable(' '.join(words))}")
        with shown(lambda: _with_copies(activity, counters)):
            code, failed = run_program(file, words, environment)
        elapsed_s = time.monotonic() - began
        counted = read_counters(counters) if failed is None else None
        return Ended(code, failed or "", elapsed_s, counted)
    finally:
        # The process may have no free file descriptor left. Neither unlink() nor rmdir() opens one.
        with suppress(OSError):
            (folder / "counters").unlink(missing_ok=True)
            folder.rmdir()


def _with_copies(activity: Activity, counters: Path) -> Activity:
    """Return the activity with the number of copies that the program's processes made so far."""
    try:
        counted = read_counters(counters)
    except OSError:  # the program has ended
        return activity
    lines = []
    for process in counted.processes:
        taken = [one for one in process.tallies if one.outcome in counted.taken_over]
        copies, size = sum(one.copies for one in process.tallies), sum(one.bytes for one in taken)
        lines.append(
            f"process {process.process} ({printable(process.name)}): {copies} copies; Interlace "
            f"took over {sum(one.copies for one in taken)} of them with {size} bytes; the engine "
            f"is {process.engine}"
        )
    activity.note = "\n".join(lines)
    return activity


def _uncounted(place: str, error: OSError) -> UserError:
    return UserError(
        f"the file of counters cannot be made in {place}: {error.strerror or error}; set TMPDIR to "
        "a folder with 8 MB of space"
    )
