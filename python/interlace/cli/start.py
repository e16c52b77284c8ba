"""The entry point. Ctrl-C ends the command with one line, even while modules are being loaded.

This module and its packages import only modules that Python has already loaded, so they are loaded
quickly. While they are being loaded, Ctrl-C ends the script `interlace` without a message
(python/launcher/interlace). While Python itself starts, Ctrl-C makes Python print a traceback. The
module does not import `signal`: importing `signal` takes longer than loading this module, because
`signal` imports `enum`.

If packages that the command line needs are missing, `interlace doctor` still names these packages.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built into Python; `signal` wraps it
import os
import sys

INTERRUPTED = 130  # as in interlace.base.interrupts, which would take long to import here


def _end(number: int, frame: object) -> None:  # noqa: ARG001
    os.write(2, b"interlace: interrupted\n")
    os._exit(INTERRUPTED)


def _without_packages(error: ImportError) -> int:
    if sys.argv[1:2] != ["doctor"]:
        text = f"interlace: the command line cannot be loaded ({error}); see interlace doctor\n"
        sys.stderr.write(text)
        return 2
    from interlace.study.doctor import ask_all, broken, findings

    found = findings(ask_all())
    for one in found:
        print(f"{one.state:<7} {one.name}: {one.text}")
    return 1 if broken(found) else 0


def main() -> None:
    """Load the command line, and run it."""
    # SIG_DFL: the script `interlace` has replaced Python's handler. SIG_IGN is not replaced: a
    # shell sets it so that Ctrl-C does not end a script's background jobs.
    early = _signal.getsignal(_signal.SIGINT) in (_signal.default_int_handler, _signal.SIG_DFL)
    if early:
        _signal.signal(_signal.SIGINT, _end)
    try:
        from interlace.cli.main import main as command_line
    except ImportError as error:
        sys.exit(_without_packages(error))

    if early:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        command_line()
    except KeyboardInterrupt:  # Ctrl-C came while the command line could not handle it
        _end(_signal.SIGINT, None)
