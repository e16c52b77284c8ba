"""Code that the scripts in this folder share: deterministic files, and errors in one sentence."""

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
    """A parser that describes a wrong option in one sentence, and then ends with exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help shows the options.\n")


def write_text(path: Path, text: str) -> None:
    """Write ASCII text. Either the whole file appears, or no file.

    If the name ends in .gz, the text is compressed with gzip. The compressed file contains neither
    its name nor the time, so the same text and the same zlib give the same bytes. Raises OSError.
    """
    # The temporary file is in the folder of the target, so that the last step is a rename. mkstemp
    # gives the temporary file private permissions.
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
    """Call main. Then exit with 0; or with 2 and one sentence after an error; or with 130 after
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
