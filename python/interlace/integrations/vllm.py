"""The plug-in for vLLM: `vllm serve MODEL --load-format interlace --sleep-mode-backend interlace`.

vLLM calls `register` in every process (entry point `vllm.general_plugins`).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

LOAD_FORMAT = "interlace"
SLEEP_BACKEND = "interlace"


def register() -> None:
    """Make the load format and the sleep-mode backend known to vLLM."""
    from vllm.model_executor.model_loader import register_model_loader

    register_model_loader(LOAD_FORMAT)(_loader())
    # ImportError: this vLLM is too old and has no such factory. ValueError: this is a second call.
    with suppress(ImportError, ValueError):
        from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory

        SleepModeBackendFactory.register_backend(
            SLEEP_BACKEND, "interlace.integrations.vllm_sleep", "InterlaceBackend"
        )


def _loader() -> type[Any]:
    """Return the loader's class.

    The class is defined inside this function, because importing vLLM takes long.
    """
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
    from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight

    from interlace.integrations.weights import stream_weights

    class InterlaceModelLoader(DefaultModelLoader):
        """vLLM's default loader, which reads safetensors files with Interlace."""

        counter_before_loading_weights: float

        def __init__(self, load_config: Any) -> None:
            own = copy.copy(load_config)
            own.load_format = "safetensors"  # with this format, vLLM's loader finds the same files
            super().__init__(own)

        def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
            if getattr(self, "_encoder_only_lm_prefixes", None) is not None:
                return super()._get_weights_iterator(source)  # type: ignore[no-any-return]
            _, files, use_safetensors, _ = self._prepare_weights(
                source.model_or_path,
                source.subfolder,
                source.revision,
                source.fall_back_to_pt,
                source.allow_patterns_overrides,
            )
            if not use_safetensors:
                return super()._get_weights_iterator(source)  # type: ignore[no-any-return]
            # vLLM computes from this time how long loading the weights took.
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            unused = source.is_unused_weight

            def wanted(name: str) -> bool:
                return not (
                    should_skip_weight(name, self.local_expert_ids)
                    or (unused is not None and unused(name))
                )

            return (
                (source.prefix + name, tensor) for name, tensor in stream_weights(files, wanted)
            )

    return InterlaceModelLoader
