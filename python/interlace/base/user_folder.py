"""Finds folders that only their user may enter. Processes of one user share files there.

The folders do not depend on TMPDIR. The candidates are XDG_RUNTIME_DIR, /run/user/UID,
/tmp/interlace-UID and ~/.cache/interlace. A folder is used only if it belongs to this user alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

RUNTIME = Path("/run/user")
SHARED = Path("/tmp")


def own_folders(*, make: bool = True) -> Iterator[int]:
    """Yield a descriptor of each folder, the best folder first.

    The generator closes a descriptor when the caller asks for the next one.

    Args:
        make: Whether to make missing folders that this program may make.
    """
    for place, ours in _places():
        with suppress(OSError), ExitStack() as opened:
            if ours and make:
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            # O_NOFOLLOW, because another user could put a link in place of the folder.
            flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if ours else 0)
            folder = os.open(place, flags)
            opened.callback(os.close, folder)
            if is_own(os.fstat(folder)):
                yield folder


def _places() -> Iterator[tuple[Path, bool]]:
    """Yield each candidate folder, and whether this program may make the folder."""
    user = os.geteuid()
    stated = os.environ.get("XDG_RUNTIME_DIR", "")
    if stated.startswith("/"):
        yield Path(stated), False
    yield RUNTIME / str(user), False
    yield SHARED / f"interlace-{user}", True
    with suppress(RuntimeError):  # the system does not know this user's home
        yield Path.home() / ".cache" / "interlace", True


def is_own(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user, and no other user may use it."""
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
