"""Records the work and the waits of this process, which `interlace ps` shows.

The first entry starts a thread. The thread waits at a socket that only this user can open, and
answers each request with all entries. The thread uses no CPU time between requests. SIGQUIT prints
the same entries to standard error, unless the program itself uses SIGQUIT. A process that cannot
make a socket still works, but `interlace ps` does not show the process.
"""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import json
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from interlace.base.printable import printable
from interlace.base.user_folder import own_folders

FOLDER = "interlace-ps"
ENDING = ".socket"
ANSWER_BYTES = 1 << 20
PATIENCE_S = 1.0  # the longest wait for the answer of another process, in seconds


@dataclasses.dataclass
class Activity:
    """Something that a process does.

    Attributes:
        what: The name of the work, such as "pagerank on hgx-h200-4".
        since: When the work began, in seconds since 1970.
        done: The number of steps that are done.
        steps: The number of all steps, or 0 if the work has no steps.
        unit: The name of the steps, such as "runs".
        last: When the last step was done, in seconds since 1970.
        note: A remark, which may be empty.
    """

    what: str
    since: float = dataclasses.field(default_factory=time.time)
    done: int = 0
    steps: int = 0
    unit: str = ""
    last: float | None = None
    note: str = ""

    def step(self) -> None:
        """Add 1 to the number of finished steps."""
        self.done += 1
        self.last = time.time()


class _Told:
    """All activities and waits of this process, and the thread that reports them.

    Adding and removing an entry takes no lock, because the garbage collector can end an activity
    at any moment, even in the thread that reports.
    """

    def __init__(self) -> None:
        self.activities: dict[int, Callable[[], Activity]] = {}
        self.waits: dict[int, tuple[str, float]] = {}
        self.numbers = itertools.count()
        self.starting = threading.Lock()
        self.server: _Server | None = None

    def start(self) -> None:
        """Start the server, once in each process."""
        if self.server is None and self.starting.acquire(blocking=False):
            try:
                with suppress(OSError, RuntimeError):
                    self.server = _Server(self.answer)
            finally:
                self.starting.release()

    def answer(self) -> dict[str, Any]:
        return {
            "process": os.getpid(),
            "command": [printable(word) for word in sys.argv],
            "activities": [
                dataclasses.asdict(_described(describe)) for describe in _copied(self.activities)
            ],
            "waits": [{"for": who, "since": since} for who, since in _copied(self.waits)],
        }


def _copied(entries: dict[int, Any]) -> list[Any]:
    while True:
        with suppress(RuntimeError):  # another thread added or removed an entry during the loop
            return list(entries.values())


def _described(describe: Callable[[], Activity]) -> Activity:
    try:
        return describe()
    except Exception as error:  # the failure of one activity must not hide the other activities
        return Activity("unknown", note=f"{type(error).__name__}: {error}")


class _Server:
    """The socket of this process, and the thread that waits at the socket until the process ends.

    Raises OSError or RuntimeError if the socket or the thread cannot be made.
    """

    def __init__(self, answer: Callable[[], dict[str, Any]]) -> None:
        self._answer = answer
        self._process = os.getpid()
        with ExitStack() as undo:
            self._folder, self._name = _place(undo)
            self._listener = undo.enter_context(socket.socket(socket.AF_UNIX))
            _listen(self._listener, self._folder, self._name)
            undo.callback(self.remove_name)
            self._asked, self._signalled = socket.socketpair()
            undo.callback(self._asked.close)
            undo.callback(self._signalled.close)
            self._asked.setblocking(False)
            self._signalled.setblocking(False)
            threading.Thread(target=self._run, name="interlace-ps", daemon=True).start()
            undo.pop_all()
        atexit.register(self.remove_name)
        self._take_signal()

    def remove_name(self) -> None:
        if os.getpid() == self._process:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)

    def forget(self) -> None:
        """Close the parent's sockets in a child process after a fork."""
        for one in (self._listener, self._asked, self._signalled):
            with suppress(OSError):
                one.close()
        with suppress(OSError):
            os.close(self._folder)

    def _run(self) -> None:
        ready = select.poll()
        for one in (self._listener, self._asked):
            ready.register(one, select.POLLIN)
        while True:
            with suppress(Exception):  # an error in one answer must not prevent later answers
                for number, _ in ready.poll():
                    if number == self._asked.fileno():
                        self._print_if_asked(self._asked.recv(64))
                    else:
                        self._tell()

    def _print_if_asked(self, signals: bytes) -> None:
        if signal.SIGQUIT in signals and signal.getsignal(signal.SIGQUIT) is _ignore:
            text = "\n".join(lines_of([self._answer()])) + "\n"
            os.write(2, text.encode(errors="replace"))

    def _tell(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            connection.sendall(json.dumps(self._answer()).encode())

    def _take_signal(self) -> None:
        """Print the entries after each SIGQUIT from now on.

        Do nothing if the program itself uses SIGQUIT or the wake-up descriptor.
        """
        if threading.current_thread() is not threading.main_thread() or _is_caught(signal.SIGQUIT):
            return
        # When the signal comes, Python writes a byte to the wake-up descriptor, even if the main
        # thread is busy. This socket stays open until the process ends, so the byte
        # cannot go to another file that gets the same descriptor.
        before = signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            return
        signal.signal(signal.SIGQUIT, _ignore)


def _is_caught(number: int) -> bool:
    """Return whether the program handles or ignores a signal.

    The function also reads the kernel's record of handled signals, because a library can handle the
    signal without Python's knowledge.
    """
    if signal.getsignal(number) is not signal.SIG_DFL:
        return True
    with suppress(OSError), Path("/proc/self/status").open(encoding="ascii") as status:
        for line in status:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _ignore(*_: object) -> None:
    pass


_told = _Told()


@contextmanager
def shown(describe: Callable[[], Activity]) -> Iterator[None]:
    """Show an activity in `interlace ps` while the block runs.

    The thread that answers `interlace ps` calls `describe` for the current state of the activity.
    """
    with _entered(_told.activities, describe):
        yield


@contextmanager
def waiting_for(who: str) -> Iterator[None]:
    """Show in `interlace ps` that this process waits for `who` while the block runs."""
    with _entered(_told.waits, (who, time.time())):
        yield


@contextmanager
def _entered(entries: dict[int, Any], entry: Any) -> Iterator[None]:
    number = next(_told.numbers)
    entries[number] = entry
    _told.start()
    try:
        yield
    finally:
        entries.pop(number, None)


def _after_fork() -> None:
    """Forget the activities of the parent, because a child process has no reporting thread after a
    fork.

    The child shows nothing until it makes an entry of its own.
    """
    global _told
    if _told.server is not None:
        if signal.getsignal(signal.SIGQUIT) is _ignore:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        _told.server.forget()
    _told = _Told()


os.register_at_fork(after_in_child=_after_fork)


# --- asking ---------------------------------------------------------------------------------------


def ask_all() -> list[dict[str, Any]]:
    """Return the answers of this user's processes that have entries, sorted by process number."""
    answers = {}
    for parent in own_folders(make=False):
        with suppress(OSError), ExitStack() as opened:
            folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            opened.callback(os.close, folder)
            for name in os.listdir(folder):  # noqa: PTH208
                number = name.removesuffix(ENDING)
                if number != name and number.isdecimal():
                    answer = _ask(folder, name, int(number))
                    if answer is not None and any(
                        map(answer.get, ("activities", "waits", "silent"))
                    ):
                        answers[int(number)] = answer
    return [answers[number] for number in sorted(answers)]


def _ask(folder: int, name: str, process: int) -> dict[str, Any] | None:
    """Return the answer of a process, or None if the process has ended.

    If the process was killed and its socket is still there, remove the socket.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        try:
            connection.connect(_address(folder, name))
        except ConnectionRefusedError:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            return None
        except OSError:
            return None
        try:
            return _checked(json.loads(_received(connection)), process)
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
            return {
                "process": process,
                "command": [],
                "activities": [],
                "waits": [],
                "silent": True,
            }


def _received(connection: socket.socket) -> bytes:
    """Return everything that a process sends within PATIENCE_S.

    Raise OSError if the process takes longer.
    """
    end = time.monotonic() + PATIENCE_S
    text = b""
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        more = connection.recv(65536)
        text += more
        if not more:
            return text
        if len(text) > ANSWER_BYTES:
            raise ValueError
    raise TimeoutError


def _checked(answer: Any, process: int) -> dict[str, Any]:
    """Return the fields of an answer that this version of Interlace knows.

    The sender can be a different version of Interlace, or a different program. Raises ValueError,
    TypeError or KeyError if the answer does not have the expected form.
    """
    return {
        "process": process,
        "command": [str(word) for word in _list(answer["command"])],
        "activities": [
            {
                "what": str(one["what"]),
                "since": float(one["since"]),
                "done": int(one["done"]),
                "steps": int(one["steps"]),
                "unit": str(one["unit"]),
                "last": None if one["last"] is None else float(one["last"]),
                "note": str(one["note"]),
            }
            for one in _list(answer["activities"])
        ],
        "waits": [
            {"for": str(one["for"]), "since": float(one["since"])} for one in _list(answer["waits"])
        ],
    }


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def lines_of(answers: list[dict[str, Any]], now: float | None = None) -> list[str]:
    """Return lines that describe the activities and waits of processes.

    Each process has a line of its own. The lines of its activities and waits follow.
    """
    now = time.time() if now is None else now
    lines = []
    for answer in answers:
        if answer.get("silent"):
            lines.append(f"process {answer['process']} does not answer")
            continue
        lines.append(f"process {answer['process']}: {' '.join(answer['command'])}")
        for one in answer["activities"]:
            lines.append(f"  {_sentence(one, now)}")
            lines += [f"    {line}" for line in one["note"].splitlines()]
        lines += [
            f"  waits for {wait['for']}, for {duration(now - wait['since'])}"
            for wait in answer["waits"]
        ]
    return [printable(line) for line in lines]


def _sentence(one: dict[str, Any], now: float) -> str:
    text = f"{one['what']}, for {duration(now - one['since'])}"
    if one["steps"]:
        text += f": {one['done']} of {one['steps']} {one['unit']}"
        if one["last"] is not None:
            text += f", the last one {duration(now - one['last'])} ago"
    return text


def duration(seconds: float) -> str:
    """Return a length of time in words, such as "3 s", "2 min 5 s" or "1 h 4 min"."""
    if not math.isfinite(seconds):
        return "an unknown time"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


# --- the place of the sockets ---------------------------------------------------------------------


def _place(undo: ExitStack) -> tuple[int, str]:
    """Return a descriptor of the folder of sockets, and the name of this process's socket there."""
    for parent in own_folders():
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=parent)
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            folder = os.open(FOLDER, flags, dir_fd=parent)
            undo.callback(os.close, folder)
            return folder, f"{os.getpid()}{ENDING}"
    raise FileNotFoundError


def _listen(listener: socket.socket, folder: int, name: str) -> None:
    """Listen at a socket. The name of the socket appears only after the process listens."""
    hidden = f".{name}"
    with suppress(
        FileNotFoundError
    ):  # an earlier process with the same number was killed and left its socket
        os.unlink(hidden, dir_fd=folder)
    listener.bind(_address(folder, hidden))
    listener.listen(16)
    os.rename(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)


def _address(folder: int, name: str) -> str:
    """Return a path of the socket that the system accepts even if the path of the folder is too
    long for a socket's address.
    """
    return f"/proc/self/fd/{folder}/{name}"
