"""The plug-in for SGLang: `SGLANG_PLUGINS=interlace python -m sglang.launch_server ...`.

SGLang calls `register` in every process (entry point `sglang.srt.plugins`). SGLang also loads
plug-ins that the user did not name. Therefore `register` changes nothing unless the variable
SGLANG_PLUGINS contains "interlace". SGLang does not let a plug-in add a load format. Interlace
therefore reads the safetensors files of the load formats `auto` and `safetensors`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

NAME = "interlace"
# Functions of SGLang that read a list of safetensors files.
READERS = (
    "sglang.srt.model_loader.weight_utils.buffered_multi_thread_safetensors_weights_iterator",
    "sglang.srt.model_loader.weight_utils.safetensors_weights_iterator",
)


def register() -> None:
    """Make SGLang read with Interlace if SGLANG_PLUGINS contains "interlace"."""
    if NAME not in (name.strip() for name in os.environ.get("SGLANG_PLUGINS", "").split(",")):
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for reader in READERS:
        HookRegistry.register(reader, _read, HookType.AROUND)


def _read(
    _original: Callable[..., Any], hf_weights_files: list[str], *_: Any, **_options: Any
) -> Iterator[tuple[str, Any]]:
    from interlace.integrations.weights import stream_weights

    return stream_weights(hf_weights_files)
