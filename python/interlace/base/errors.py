"""The exceptions of Interlace's functions and commands."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(Exception):
    """The user's input cannot be used.

    The message is one sentence that names the file, line or option and says what to do. The
    command line prints the message to standard error and ends with exit code 2.
    """


class ModelError(RuntimeError):
    """A kernel, a mechanism or an order of calls broke a promise of the model."""


class DeviceError(RuntimeError):
    """A device, the driver or the operating system failed, or a deadline passed."""


def unknown(kind: str, name: str, known: Sequence[str]) -> UserError:
    """Return the error for an unknown name. Its message lists the known names."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f" (did you mean {close[0]}?)" if close else ""
    choice = "" if len(known) == 1 else "one of "
    return UserError(f"there is no {kind} {name!r}{hint}; give {choice}{', '.join(known)}")
