"""Mutates machine files and sweep files until the time is over.

    python tests/fuzz/fuzz_files.py [machines|sweeps] [--minutes M] [--seed S]

A finding is an exception that a reader should have reported as one sentence, or a file that changes
when it is read and written again. At the first finding, the script prints the text of the file and
ends with exit code 1. The same seed finds it again.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from file_checks import MACHINES, SWEEPS, check_machine, check_sweep
from mutations import mutated


def main() -> int:
    """Fuzz, and return the exit code."""
    parser = argparse.ArgumentParser(description="Fuzzes machine and sweep files.")
    parser.add_argument("files", nargs="?", choices=("machines", "sweeps"))
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    texts = []
    if asked.files != "sweeps":
        texts += [(check_machine, path.read_text(encoding="utf-8")) for path in MACHINES]
    if asked.files != "machines":
        many = max(1, len(texts))  # so that sweep files are chosen as often as machine files
        texts += [(check_sweep, path.read_text(encoding="utf-8")) for path in SWEEPS] * many
    end = time.monotonic() + 60 * asked.minutes
    tried = accepted = 0
    while time.monotonic() < end:
        random = Random(f"{asked.seed}.{tried}")
        check, text = random.choice(texts)
        text = mutated(text, random)
        try:
            accepted += check(text)
        except Exception:
            print(text)
            traceback.print_exc(file=sys.stdout)
            print(f"finding: seed {asked.seed}, file {tried}, {check.__name__}")
            return 1
        tried += 1
    print(f"{tried} files, {accepted} of them valid, no finding (seed {asked.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
