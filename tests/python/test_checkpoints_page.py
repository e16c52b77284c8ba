"""Tests the page on checkpoints: its code runs in host memory, and the messages that the page shows
are those of the program.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import interlace

if importlib.util.find_spec("interlace._core") is None:
    pytest.skip("the compiled module is not built", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/checkpoints.md").read_text(encoding="utf-8")
# Other tests run the pieces of code that need other programs.
CODE = [
    code
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if not re.search(r"^(from|import) (?!interlace)", code, re.MULTILINE)
]
MESSAGES = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
HOST = ', framework="numpy")'


def in_host_memory(code: str) -> str:
    """Return the page's code, changed so that it uses host memory in place of GPUs."""
    code = re.sub(r"((?:load|stream)\(.*)\)(:?)$", rf"\1{HOST}\2", code, flags=re.MULTILINE)
    code = code.replace('"pt", "cuda:0"', '"np"')
    return re.sub(r'"cuda:\d"', '"cpu"', code)


def said(code: str) -> str:
    with pytest.raises(interlace.UserError) as caught:
        exec(code, {"interlace": interlace})
    return str(caught.value)


def matches(message: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, message.split("..."))), text) is not None


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = {"model.layers.0.w": np.ones(3, np.float32), "head": np.zeros(2, np.float32)}
    (tmp_path / "model").mkdir()
    interlace.save(weights, "model.safetensors")
    interlace.save(weights, "model/part.safetensors")
    names = {"interlace": interlace}
    for code in CODE:
        exec(in_host_memory(code), names)
        tensors = names["tensors"]
        assert isinstance(tensors, dict)
        assert set(tensors) == set(weights)

    missing, damaged, cut = MESSAGES
    one, verified = in_host_memory(CODE[1]), in_host_memory(CODE[4]).splitlines()[-1]
    assert matches(f"...{missing}", said(one.replace(', "": "cpu"', "")))
    file = Path("copy.safetensors")
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)
    assert matches(damaged, said(verified))
    file.write_bytes(whole[:-2])
    assert matches(cut, said(verified))
