"""Writes output files that are either complete or absent, and hashes input files.

A part is a file that is being written. It gets its name only after it is complete and on the disk.
Until then, a part has no name if the file system allows this, so a killed process leaves nothing.
On other file systems, a part has a hidden name and a lock. The next process that writes the same
file removes all parts that no process has locked.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from interlace.base.errors import UserError

STDOUT = Path("-")  # an output with this name goes to standard output
MOST_RESULTS_BYTES = 64 << 20  # the largest size of a file that is read as a whole


def check_writable(path: Path, option: str) -> None:
    """Raise UserError unless a file can be written at `path`.

    `option` is the option with which the user named the file. The check leaves no file. Writing can
    still fail later, for example if the disk is full.
    """
    if path == STDOUT:
        return
    try:
        if not path.name:
            raise UserError(f"{option} {path}: give the name of a file")
        if path.is_dir():
            raise UserError(f"{option} {path} is a directory; give the name of a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise UserError(f"{option} {path} cannot be written: Permission denied")
        if _is_special(path):
            return
        _refuse_strange_link(path)
        target = _target(path)
        if not target.parent.exists():
            raise UserError(f"{option} {path}: there is no directory {path.parent}")
        if not target.parent.is_dir():
            raise UserError(f"{option} {path}: {path.parent} is not a directory")
        _Part(target).discard()
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None] | None = None
) -> None:
    """Raise UserError unless all output files can be written and are different files.

    `outputs` and `inputs` map an option to its file. The outputs must also differ from `inputs`,
    the files that the command reads.
    """
    writes = {option: path for option, path in outputs.items() if path is not None}
    reads = {option: path for option, path in (inputs or {}).items() if path is not None}
    for option, path in writes.items():
        check_writable(path, option)
        for other, same in {**reads, **writes}.items():
            if (other in reads or other < option) and _are_one(path, same):
                raise UserError(f"{other} and {option} are both {path}; give two different names")


def _are_one(path: Path, other: Path) -> bool:
    """Return whether two paths name the same file. The file need not exist."""
    try:
        return path.samefile(other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def refuse_stdout(path: Path, option: str) -> None:
    """Raise UserError if `path` means standard output.

    Use this function if the file is binary, or if the command appends to the file.
    """
    if path == STDOUT:
        raise UserError(f"{option} {path}: this file cannot be standard output; give a file name")


def require_regular(path: Path) -> None:
    """Raise UserError if the path is a pipe or a device, because reading it might never end."""
    if _is_special(path):
        raise UserError(f"{path} is not a regular file; give the name of a regular file")


def read_results(path: Path, what: str) -> bytes:
    """Return the bytes of a results file. Such a file has at most MOST_RESULTS_BYTES.

    Raises UserError if the file is larger, cannot be read or is not a regular file. `what` is the
    name of the file in the message.
    """
    require_regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_RESULTS_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{what} cannot be read: {reason}") from None
    if len(data) > MOST_RESULTS_BYTES:
        raise UserError(f"{what} is larger than {MOST_RESULTS_BYTES >> 20} MiB; give another file")
    return data


def _target(path: Path) -> Path:
    """Return the path after all links are followed. Raise OSError if links lead in a circle."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return Path(os.path.realpath(path))


def make_folder(path: Path) -> None:
    """Make a folder and its parents. Raise UserError if the folder cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


class _Part:
    """A file that is being written and that will become `target`.

    Until the file is complete, it has no visible name.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._old = _status(target)
        with contextlib.ExitStack() as opened:
            self._folder = os.open(target.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, self._folder)
            _remove_dead_parts(self._folder, target.name)
            self._name: str | None = None
            self.descriptor = self._open()
            opened.pop_all()

    def _open(self) -> int:
        # The new file must never be readable by more people than the file that it replaces.
        mode = 0o666 if self._old is None else stat.S_IMODE(self._old.st_mode) & 0o777
        if Path("/proc/self/fd").is_dir():
            try:
                flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
                descriptor = os.open(self._target.parent, flags, mode)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                    raise
            else:
                _lock(descriptor)
                return descriptor
        while True:
            name = _part_name(self._target.name)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, mode, dir_fd=self._folder)
            _lock(descriptor)
            self._name = name
            if os.fstat(descriptor).st_nlink:
                return descriptor
            # another process removed the file before this process had locked it
            os.close(descriptor)

    def publish(self) -> None:
        """Write the file to the disk, and then give it its name.

        The new file replaces an older file with this name.
        """
        if self._old is not None:
            with contextlib.suppress(OSError):  # only root may change a file's owner
                os.fchown(self.descriptor, self._old.st_uid, self._old.st_gid)
            os.fchmod(self.descriptor, stat.S_IMODE(self._old.st_mode) & 0o777)
        os.fsync(self.descriptor)
        if self._name is None:
            name = _part_name(self._target.name)
            os.link(
                f"/proc/self/fd/{self.descriptor}",
                name,
                dst_dir_fd=self._folder,
                follow_symlinks=True,
            )
            self._name = name
        os.replace(self._name, self._target.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = None
        _sync(self._folder)

    def discard(self) -> None:
        """Close the part. Remove the part's file unless the file was published."""
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)
        os.close(self.descriptor)
        os.close(self._folder)


PART_ENDS = ".interlace-part"
MOST_LINKS = 40  # Linux follows at most this many links of a path


def _part_name(name: str) -> str:
    return f"{_beginning(name)}{secrets.token_hex(8)}{PART_ENDS}"


def _beginning(name: str) -> str:
    """Return the beginning of the names of all parts of a file.

    The beginning is short, because a name has at most 255 bytes.
    """
    return os.fsdecode(b"." + os.fsencode(name)[:80] + b".")


def _lock(descriptor: int) -> None:
    """Lock the part, to show that the process that writes it still runs.

    If the file system has no locks, the parts of killed processes stay.
    """
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_dead_parts(folder: int, name: str) -> None:
    """Remove the parts of a file that this user's killed processes left."""
    like = re.compile(rf"{re.escape(_beginning(name))}[0-9a-f]{{16}}{re.escape(PART_ENDS)}")
    try:
        with _readable(folder) as listed:
            names = os.listdir(listed)  # noqa: PTH208
    except OSError:  # a folder can allow new files without allowing a list of its files
        return
    for found in filter(like.fullmatch, names):
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(found, flags, dir_fd=folder)
            opened.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(found, dir_fd=folder)


def _refuse_strange_link(path: Path) -> None:
    """Raise UserError if another user made the link, in a folder where everybody may write.

    With fs.protected_symlinks, Linux enforces the same rule, but only if a process writes a file
    through the link.
    """
    for _ in range(MOST_LINKS):
        if not path.is_symlink():
            return
        if _is_strange(path.lstat(), path.parent.stat(), os.geteuid()):
            raise UserError(
                f"{path} is a link that another user made in a folder where everybody may write; "
                "remove the link, or give another name"
            )
        path = path.parent / path.readlink()


def _is_strange(link: os.stat_result, folder: os.stat_result, user: int) -> bool:
    everybody = stat.S_ISVTX | stat.S_IWOTH
    return folder.st_mode & everybody == everybody and link.st_uid not in (user, folder.st_uid)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _readable(folder: int) -> Iterator[int]:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync(folder: int) -> None:
    """Write the names in a folder to the disk, if the file system supports this."""
    try:
        with _readable(folder) as descriptor:
            os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOTSUP):
            raise


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the file system supports this."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[int]:
    """Yield the descriptor of a new file, which gets the name `path` after the block.

    After the block, the file's name and contents are on the disk. The new file has the permissions
    of the file that it replaces. If the block raises an exception, an older file at `path` stays as
    it was. Raises UserError for an OSError of the block or of the file system.
    """
    if _is_special(path):
        raise UserError(f"{path} is not a regular file; give the name of a regular file")
    try:
        _refuse_strange_link(path)
        part = _Part(_target(path))
        try:
            yield part.descriptor
            part.publish()
        finally:
            part.discard()
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def write_all(contents: Mapping[Path, str]) -> None:
    """Write each text to its file. A file is written as a whole or not at all.

    A device, a pipe or standard output receives its text directly. If the disk is full or a path
    cannot be written, the function writes all other files and then raises UserError. The message
    names all files that are missing.
    """
    missing: list[str] = []
    broken: BrokenPipeError | None = None
    for path, text in contents.items():
        try:
            if path == STDOUT:
                _write_stdout(text)
            elif _is_special(path):
                _write_special(path, text)
            else:
                with whole_file(path) as descriptor:
                    _write_text(descriptor, text)
        except UserError as error:
            missing.append(str(error))
        except BrokenPipeError as error:
            broken = error
    if missing:
        raise UserError("; ".join(missing))
    if broken is not None:
        raise broken


def _write_text(descriptor: int, text: str) -> None:
    with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
        file.write(text)


def show_and_write(show: Callable[[], None], texts: Mapping[Path, Callable[[], str]]) -> None:
    """Call `show`, which prints, and then write the files, even if printing failed.

    If one of the files is standard output, `show` is not called.

    Raises BrokenPipeError if the reader of standard output closed the pipe. Raises UserError if
    standard output or a file cannot be written.
    """
    lost: OSError | None = None
    try:
        if STDOUT not in texts:
            show()
        sys.stdout.flush()
    except OSError as error:
        lost = error
    write_all({path: text() for path, text in texts.items()})
    if isinstance(lost, BrokenPipeError):
        raise lost
    if lost is not None:
        raise output_lost(lost)


def output_lost(error: OSError) -> UserError:
    """Return the error for standard output that cannot be written."""
    return UserError(f"standard output cannot be written: {error.strerror or error}")


def _is_special(path: Path) -> bool:
    """Return whether the path is a device, a pipe or a socket, which a rename cannot replace."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_stdout(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_lost(error) from None


def _write_special(path: Path, text: str) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError | ValueError) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"{path} cannot be written: {reason}")


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes. Raise UserError if the file cannot be read."""
    require_regular(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
