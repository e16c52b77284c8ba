"""Figures of FinePack with several rows: for all programs, for one program, for an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from interlace.model.mechanism_table import CONFIG_PACKET, FINEPACK, GPS, INLINE, WRITE_COMBINING
from interlace.model.mechanisms import BASELINE, BOUND
from interlace.reproduce.finepack_measures import (
    FOUR,
    Measure,
    fewer,
    gain,
    mean,
    packed,
    small_share,
    speedup,
)
from interlace.reproduce.rows import FigureRow, row
from interlace.reproduce.runs import Results


class Figure(NamedTuple):
    """A value that each program has, and the figure that the paper states for all programs."""

    key: str
    figure: str  # the figure or the section of the paper
    quantity: str  # the meaning of the value, with its unit
    published: float | None
    of: Measure  # a function that computes the value for a program
    note: str = ""
    average: bool = False  # whether the mean is the arithmetic mean instead of the geometric mean
    on: str = ""  # names the machine in the row; empty for the machine with four GPUs

    def over_all(
        self, results: Mapping[str, Results], varied: str = "", note: str = ""
    ) -> FigureRow:
        """Return the row with the mean over the programs.

        `varied` names an experiment, and `note` explains the experiment.
        """
        if self.average:
            quantity = f"{self.quantity}, average"
            ours: float | None = sum(self.of(r) for r in results.values()) / len(results)
        else:
            quantity, ours = self.quantity, mean(results, self.of)
        key, text = _joined("-", self.key, varied), _joined(", ", varied, self.on)
        return row(key, self.figure, _joined(": ", text, quantity), self.published,
                   simulated=ours, note=note or self.note)  # fmt: skip

    def of_one(self, name: str, results: Results, varied: str = "", note: str = "") -> FigureRow:
        """Return the row of a single program, for which the paper has no number."""
        key, text = _joined("-", self.key, name, varied), _joined(", ", varied, self.on, name)
        return row(key, self.figure, f"{text}: {self.quantity}", simulated=self.of(results),
                   note=note)  # fmt: skip


def _joined(by: str, *words: str) -> str:
    return by.join(word for word in words if word)


_ALL = (
    Figure("stores-under-32B", "Fig. 4", "fraction of the stores that are smaller than 32 B", 0.63,
           small_share, average=True),
    Figure("vs-one-gpu", "Fig. 9",
           "speedup of FinePack over one GPU, x", 2.4, speedup(FOUR, FINEPACK)),
    Figure("opportunity", "Fig. 9", "speedup of infinite bandwidth over one GPU, x", 3.4,
           speedup(FOUR, BOUND)),
    Figure("captured", "Fig. 9", "fraction of the opportunity that FinePack captures", 0.71,
           gain(FOUR, FINEPACK, BOUND)),
    Figure("vs-inline", "Fig. 9", "speedup of FinePack over peer-to-peer stores, x", 3.0,
           gain(FOUR, FINEPACK, INLINE)),
    Figure("vs-bulk-copy", "Fig. 9", "speedup of FinePack over bulk DMA, x", 1.4,
           gain(FOUR, FINEPACK, BASELINE)),
    Figure("bulk-copy-vs-inline", "Fig. 9", "speedup of bulk DMA over peer-to-peer stores, x", 2.1,
           gain(FOUR, BASELINE, INLINE)),
    Figure("bytes-vs-inline", "Fig. 10",
           "bytes of peer-to-peer stores divided by FinePack's bytes, x", 2.7,
           fewer(INLINE), "the paper's abstract says 3, and its text says 2.7"),
    Figure("bytes-vs-bulk-copy", "Fig. 10", "bytes of bulk DMA divided by FinePack's bytes, x", 1.3,
           fewer(BASELINE)),
    Figure("bytes-vs-write-combining", "Fig. 10",
           "bytes of write combining divided by FinePack's bytes, x",
           1 / (1 - 0.24), fewer(WRITE_COMBINING),
           'the paper says "a 24% reduction of data on the wire versus write combining alone"'),
    Figure("stores-per-packet", "Fig. 11", "stores in a packet", 42, packed, average=True),
    Figure("vs-gps", "Sec. VI-B",
           "speedup of FinePack over GPS, x", 1 / 1.178, gain(FOUR, FINEPACK, GPS),
           'the paper says "17.8% slower"'),
    Figure("bytes-vs-gps", "Sec. VI-B", "bytes of GPS divided by FinePack's bytes, x", None,
           fewer(GPS)),
    Figure("vs-config-packet", "Sec. VI-B",
           "bytes with configuration packets divided by FinePack's bytes, x",
           1.18, fewer(CONFIG_PACKET),
           'the paper computes "approximately 18% less efficient" for packets of 32 to 64 stores'),
    Figure("16-vs-inline", "Sec. VI-B", "speedup of FinePack over peer-to-peer stores, x", 3.0,
           gain(16, FINEPACK, INLINE), on="16 GPUs"),
    Figure("16-vs-bulk-copy", "Sec. VI-B", "speedup of FinePack over bulk DMA, x", 1.9,
           gain(16, FINEPACK, BASELINE), on="16 GPUs"),
    Figure("16-vs-one-gpu", "Sec. VI-B", "speedup of FinePack over one GPU, x", None,
           speedup(16, FINEPACK), on="16 GPUs"),
    Figure("16-opportunity", "Sec. VI-B", "speedup of infinite bandwidth over one GPU, x", None,
           speedup(16, BOUND), on="16 GPUs"),
)  # fmt: skip
FIGURES = {one.key: one for one in _ALL}
