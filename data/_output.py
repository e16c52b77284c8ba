"""Shared code of the scripts in this folder: deterministic files, and errors in one sentence."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


class ScriptError(Exception):
    """An input cannot be used. The message is one sentence."""


class Parser(argparse.ArgumentParser):
    """A parser that says in one sentence what is wrong with an option, and ends with exit code
    2.
    """

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help shows the options.\n")


def write_text(path: Path, text: str) -> None:
    """Write ASCII text. If the name ends in .gz, the text is gzip-packed. The file appears as a
    whole or not at all.

    The packed bytes have neither name nor time. The same text and zlib therefore give the same
    bytes. Raises OSError.
    """
    # The temporary file is next to the target, so that the last step is a rename. mkstemp makes the
    # file private.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw:
            if path.name.endswith(".gz"):
                with gzip.GzipFile("", "wb", compresslevel=9, fileobj=raw, mtime=0) as packed:
                    packed.write(text.encode("ascii"))
            else:
                raw.write(text.encode("ascii"))
        unfinished.chmod(0o644)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def run(main: Callable[[], None]) -> NoReturn:
    """Call main and exit with 0, with 2 and one sentence after an error, or with 130 after
    Ctrl-C.
    """
    try:
        main()
    except ScriptError as error:
        sentence = str(error)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sentence = f"{where}{error.strerror or error}; check the path and the space on the disk."
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        sys.exit(0)
    print(f"{Path(sys.argv[0]).name}: {sentence}", file=sys.stderr)
    sys.exit(2)
