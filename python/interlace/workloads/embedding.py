"""Adds gradients to the rows of an embedding table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from interlace.base.errors import UserError
from interlace.workloads.base import Reference
from interlace.workloads.options import Option, Size
from interlace.workloads.updates import (
    MOST_ELEMENTS,
    DealtInputs,
    DealtWorkload,
    check_items,
    skewed,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_ROWS = 1 << 15
DEFAULT_ROW_BYTES = 128
ROW_BYTES = (32, 64, 128, 256, 512)
DEFAULT_BATCH = 1 << 14
FLOAT_BYTES = 4
# Gradients are multiples of 1/16 whose magnitude is at most 8/16. A float holds every sum of
# MOST_ADDED gradients exactly, so the order of the additions does not matter.
STEPS, LARGEST = 16, 8
MOST_ADDED = (1 << 24) // LARGEST


@dataclass(frozen=True, kw_only=True)
class EmbeddingInputs(DealtInputs):
    """The options of the table and of the batch."""

    size: Annotated[Size, Option("N", "rows of the table", DEFAULT_ROWS)] = None
    row_bytes: Annotated[
        int | None, Option("B", "bytes of a row: 32, 64, 128, 256 or 512", DEFAULT_ROW_BYTES)
    ] = None
    batch: Annotated[
        int | None, Option("N", "gradients that each iteration adds", DEFAULT_BATCH)
    ] = None


class Embedding(DealtWorkload):
    """An embedding table, float32: each iteration adds the same batch of gradients."""

    name = "embedding"
    place = 52
    summary = (
        "gradients added to an embedding table; --size ROWS, --row-bytes B, --batch N, --skew S"
    )
    takes = EmbeddingInputs
    values_are = "tables"
    element = "number"

    def __init__(
        self, rows: NDArray[np.uint32], gradients: NDArray[np.float32], table_rows: int,
        inputs: EmbeddingInputs,
    ) -> None:  # fmt: skip
        self.width = gradients.shape[1]
        super().__init__(
            f"rows-{table_rows}x{self.width * FLOAT_BYTES}", table_rows * self.width, inputs
        )
        self.rows, self.gradients, self.table_rows = rows, gradients, table_rows

    @classmethod
    def check_data(cls, inputs: EmbeddingInputs) -> None:
        super().check_data(inputs)
        if inputs.row_bytes is not None and inputs.row_bytes not in ROW_BYTES:
            raise UserError(f"--row-bytes {inputs.row_bytes}: give 32, 64, 128, 256 or 512")
        rows = DEFAULT_ROWS if inputs.size is None else inputs.size
        width = (inputs.row_bytes or DEFAULT_ROW_BYTES) // FLOAT_BYTES
        if rows * width > MOST_ELEMENTS:
            most = MOST_ELEMENTS // width
            raise UserError(f"--size {rows}: rows of {width} numbers; give at most {most} rows")
        batch = DEFAULT_BATCH if inputs.batch is None else inputs.batch
        check_items(
            inputs, "--batch", batch, MOST_ADDED,
            verb="add", noun="gradients", beyond="and such sums may not be exact",
        )  # fmt: skip

    @classmethod
    def load(cls, inputs: EmbeddingInputs, cuda: Any | None) -> Self:  # noqa: ARG003
        import numpy as np

        rows = DEFAULT_ROWS if inputs.size is None else inputs.size
        row_bytes = DEFAULT_ROW_BYTES if inputs.row_bytes is None else inputs.row_bytes
        batch = DEFAULT_BATCH if inputs.batch is None else inputs.batch
        random = np.random.default_rng(inputs.seed_or_default + 1)
        steps = random.integers(-LARGEST, LARGEST + 1, (batch, row_bytes // FLOAT_BYTES))
        gradients = (steps / STEPS).astype(np.float32)
        return cls(skewed(batch, rows, inputs), gradients, rows, inputs)

    @property
    def size(self) -> str:
        return (
            f"{self.table_rows:,} rows of {self.width * FLOAT_BYTES} B, "
            f"{self.rows.size:,} gradients, Zipf exponent {self.skew:g}"
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "rows": self.table_rows,
            "row_bytes": self.width * FLOAT_BYTES,
            "gradients": self.rows.size,
            "skew": self.skew,
        }

    def boundaries(self, gpus: int) -> Sequence[int]:
        return [self.table_rows * gpu // gpus * self.width for gpu in range(gpus + 1)]

    def arguments(self) -> tuple[Any, ...]:
        return self.table_rows, self.rows, self.gradients

    def reference(self, iterations: int) -> Reference:
        import numpy as np

        table = np.zeros((self.table_rows, self.width))
        np.add.at(table, self.rows, self.gradients.astype(np.float64))
        return Reference((iterations * table).ravel(), np.ones(table.size))
