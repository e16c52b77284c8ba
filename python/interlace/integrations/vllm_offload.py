"""Moves vLLM's key-value cache to and from host memory.

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
      "kv_connector_extra_config": {"spec_name": "InterlaceSpec", "cpu_bytes_to_use": 64000000000,
        "spec_module_path": "interlace.integrations.vllm_offload"}}'

InterlaceSpec is an offloading spec of vLLM. vLLM decides which blocks move, and when. Interlace
copies the blocks. Each batch of vLLM becomes one call of `interlace.copy_blocks`.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from interlace.runtime.blocks import copy_blocks


def swap_blocks(sources: Any, destinations: Any, sizes: Any, **_: Any) -> None:
    """Copy blocks in PyTorch's current stream.

    The lists are tensors of addresses and of sizes in bytes. vLLM also passes whether the sources
    may be read in any order. This function ignores this value and reads the sources in stream
    order.
    """
    copy_blocks(destinations, sources, sizes=sizes)


class InterlaceSpec(CPUOffloadingSpec):  # type: ignore[misc]
    """vLLM's offloading to host memory, with the copies of Interlace."""

    def create_worker(self, kv_caches: Any) -> Any:
        """Make vLLM's worker. vLLM's own copies still move memory that is not page-locked."""
        worker = super().create_worker(kv_caches)
        region = worker._mmap_region
        if region is None or region.is_pinned:
            for handler in (
                worker._store_handler,
                worker._load_handler,
                worker._expedited_load_handler,
            ):
                handler._swap_blocks_batch = swap_blocks
        return worker
