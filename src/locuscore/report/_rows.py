"""The riskiest and the safest rows of a stream, with what a reader wants to know of them."""

import math
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np

from locuscore import Score, Scorer
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.checks import is_missing
from locuscore._shared.frames import as_frame, column, column_names, n_rows
from locuscore._shared.readable import shortened
from locuscore._shared.rows import as_series
from locuscore.report._laws import Block

SHOWN = 25  # rows at either end
MOST_FEATURES = 40  # columns of the table


@dataclass(frozen=True)
class Entry:
    """One row: what orders it, smallest first, its label, its cells and its signals.

    `opinion` is what the second opinion says of it, and `read` what calibration reads of it.
    """

    key: tuple[float, float, int]
    label: str
    cells: dict[str, Any]
    features: list[Any]
    signals: FloatArray
    opinion: str | None = None
    read: Any = None


@dataclass
class Extremes:
    """Rows with the largest and the smallest bounds; of equal ones P(loss > tau) decides.

    Rows that tie in both keep the order of the stream.
    """

    scorer: Scorer
    n_seen: int = 0
    _high: list[Entry] = field(default_factory=list)
    _low: list[Entry] = field(default_factory=list)

    def add(self, block: Block) -> None:
        """See further rows."""
        self._low = self._first(self._low, block, 1)
        self._high = self._first(self._high, block, -1)
        self.n_seen += len(block)

    @property
    def riskiest(self) -> list[Entry]:
        """Largest first; never a row that is among the safest as well."""
        return self._high[: math.ceil(self.n_seen / 2)]

    @property
    def safest(self) -> list[Entry]:
        """Smallest first."""
        return self._low[: self.n_seen // 2]

    def _first(self, kept: list[Entry], block: Block, sign: int) -> list[Entry]:
        """The first of the kept rows and those of a block, from the smallest or the largest on."""
        keys = sign * np.column_stack([block.bounds[:, 0], block.tail])
        at = np.lexsort((keys[:, 1], keys[:, 0]))[:SHOWN]  # rows that tie stay in order
        if len(kept) == SHOWN:
            at = at[[tuple(keys[i]) < kept[-1].key[:2] for i in at]]
        entering = self._entries(at, block, keys) if len(at) else []
        return sorted(kept + entering, key=lambda entry: entry.key)[:SHOWN]

    def _entries(self, at: IntArray, block: Block, keys: FloatArray) -> list[Entry]:
        source = block.source
        outputs = source.outputs.take(at)
        rows, labels = outputs.X, _labels(source.outputs.X, at, self.n_seen)
        names = column_names(rows)[:MOST_FEATURES]
        columns = [_listed(rows, name) for name in names]
        has_predictor = self.scorer.locus.predictor_ is not None
        known = self.scorer.prediction_columns(outputs.mean_of_members) if has_predictor else {}
        predictions = {name: values.tolist() for name, values in known.items()}
        opinions = self.scorer.locus.signals_.words(source.signals[at], outputs)
        found = []
        for k, i in enumerate(at):
            cells = {name: values[k] for name, values in predictions.items()}
            cells |= {"bound": float(block.bounds[i, 0]), "loss": float(block.losses[i])}
            rule = self.scorer.rule
            if rule is not None and block.score is not None and block.accepted is not None:
                if rule.score != Score.bound(self.scorer.alphas[0]):  # that is the bound again
                    cells["score"] = float(block.score[i])
                cells["flag"] = "accept" if block.accepted[i] else "flag"
            key = (float(keys[i, 0]), float(keys[i, 1]), self.n_seen + int(i))
            entry = None if source.entries is None else source.entries[i]
            signals = source.signals[i].copy()
            features = [column[k] for column in columns]
            row = labels[k], cells, features, signals, opinions[k], entry
            found.append(Entry(key, *row))
        return found


def _labels(rows: Rows, at: IntArray, first: int) -> list[str]:
    """Index labels of pandas, positions in the stream otherwise."""
    indexed = as_frame(rows) if as_series(rows) is None else as_series(rows)
    index = None if indexed is None else nw.maybe_get_index(indexed)
    if index is None:
        return [str(first + int(i)) for i in at]
    # The parts of a label of several levels stand side by side.
    labels = (index[int(i)] for i in at)
    parts = (label if isinstance(label, tuple) else (label,) for label in labels)
    return [shortened(", ".join(map(str, part))) for part in parts]


def _listed(rows: Rows, name: Any) -> list[Any]:
    frame = as_frame(rows)
    if frame is not None:
        return frame[name].to_list()
    return column(rows, name).tolist() if n_rows(rows) else []


def cell(value: Any, *, as_text: bool) -> Any:
    """A value as JSON has it: a finite number, text, or null."""
    if is_missing(value):
        return None
    if as_text:
        return shortened(str(value))
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(value) if isinstance(value, int) else number


def is_number(values: list[Any]) -> bool:
    """Whether all values there are are numbers."""
    present = [value for value in values if not is_missing(value)]
    return all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in present)
