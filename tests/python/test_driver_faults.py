"""Tests what happens if one driver call of Interlace fails, or all calls from a certain call on.

The stand-in driver of tests/cpp/preload makes call number n fail, with and without earlier
successful calls. After each failure, there must be one sentence or a whole result. Nothing may be
incomplete or leak, and the same action must work again. A program under `interlace run` must see
only the failures of its own calls.

`./check` tests a sample of the calls. With INTERLACE_TEST_FAULTS=all, it tests all calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from interlace.base.installation import installed
from interlace.runtime import copying

ALL = os.environ.get("INTERLACE_TEST_FAULTS") == "all"
SAMPLE = 0 if ALL else 1  # the number of calls that fail in each way; 0 means all
WAYS = 3
PROGRAM = Path(__file__).resolve().parent / "fake_driver_faults.py"
ACTIONS = ("load", "save", "copy", "copy_blocks", "park", "parkable", "run", "run_taken_over")

if installed(copying.SHARED_OBJECT) is None:
    pytest.skip("the library is not built", allow_module_level=True)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_call_of_the_driver_may_fail(action: str, gpus: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(gpus),
        "INTERLACE_COPY_THRESHOLD": "64K",
        "INTERLACE_COPY_TRAFFIC": "none",
    }
    parts = len(os.sched_getaffinity(0)) if ALL else 1
    programs = []
    for part in range(parts):
        command = [sys.executable, str(PROGRAM), action, str(SAMPLE), f"{part}/{parts}"]
        if action.startswith("run"):
            command = [sys.executable, "-m", "interlace", "run", "--", *command]
        folder = tmp_path / str(part)
        folder.mkdir()
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            programs.append(
                subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=err)
            )
    findings: list[str] = []
    failures, calls, said = 0, 0, Counter[str]()
    try:
        for part, program in enumerate(programs):
            code = program.wait(timeout=4 * 3600 if ALL else 240)
            assert code == 0, (tmp_path / f"{part}/err").read_text()
            found = json.loads((tmp_path / f"{part}/out").read_text())
            findings += found["findings"]
            failures += found["failures"]
            calls = max(calls, found["calls"])
            said.update(found["said"])
    finally:
        for program in programs:
            program.kill()
    print(f"{action}: {calls} calls, {failures} failures", *said.items())
    assert findings == []
    assert failures >= (calls if ALL else WAYS)
