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
from locuscore.report._laws import Block
from locuscore.report._words import shortened

SHOWN = 25  # rows at either end
MOST_FEATURES = 40  # columns of the table


@dataclass(frozen=True)
class Entry:
    """One row: its place in the order of risk, its label, its cells and its signals."""

    key: tuple[float, float, int]
    label: str
    cells: dict[str, Any]
    features: list[Any]
    signals: FloatArray
    read: Any = None  # what calibration reads of the row


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
        bound, tail = block.bounds[:, 0], block.tail
        order = np.lexsort((np.arange(len(bound)), tail, bound))
        low = self._entering(order[:SHOWN], block, self._low, 1)
        # From the end of the order, but the first of rows that tie comes first.
        falling = np.lexsort((np.arange(len(bound)), -tail, -bound))
        high = self._entering(falling[:SHOWN], block, self._high, -1)
        self._low = sorted(self._low + low, key=lambda entry: entry.key)[:SHOWN]
        self._high = sorted(self._high + high, key=lambda entry: _down(entry.key))[:SHOWN]
        self.n_seen += len(bound)

    @property
    def riskiest(self) -> list[Entry]:
        """Largest first; never a row that is among the safest as well."""
        return self._high[: math.ceil(self.n_seen / 2)]

    @property
    def safest(self) -> list[Entry]:
        """Smallest first."""
        return self._low[: self.n_seen // 2]

    def _entering(
        self, candidates: IntArray, block: Block, kept: list[Entry], sign: int
    ) -> list[Entry]:
        """Those of some rows that belong among the kept ones."""
        bound, tail = block.bounds[:, 0], block.tail
        if len(kept) == SHOWN:
            worst = kept[-1].key[:2]
            better = [
                (sign * bound[i], sign * tail[i]) < (sign * worst[0], sign * worst[1])
                for i in candidates
            ]
            candidates = candidates[np.array(better, dtype=bool)]
        return self._entries(np.asarray(candidates), block) if len(candidates) else []

    def _entries(self, at: IntArray, block: Block) -> list[Entry]:
        source = block.source
        outputs = source.outputs.take(at)
        rows, labels = outputs.X, _labels(source.outputs.X, at, self.n_seen)
        names = column_names(rows)[:MOST_FEATURES]
        features = list(zip(*(_listed(rows, name) for name in names), strict=True))
        has_predictor = self.scorer.locus.predictor_ is not None
        predictions = self._predictions(outputs.predictions) if has_predictor else {}
        found = []
        for k, i in enumerate(at):
            cells = {name: values[k] for name, values in predictions.items()}
            cells |= {"bound": float(block.bounds[i, 0]), "loss": float(block.losses[i])}
            if block.score is not None and self.scorer.rule is not None:
                score, rule = block.score[[i]], self.scorer.rule
                if rule.score != Score.bound(self.scorer.alphas[0]):  # that is the bound again
                    cells["score"] = float(score[0])
                cells["flag"] = "accept" if rule.accepts(score, rule.score)[0] else "flag"
            key = (float(block.bounds[i, 0]), float(block.tail[i]), self.n_seen + int(i))
            entry = None if source.entries is None else source.entries[i]
            signals = source.signals[i].copy()
            found.append(Entry(key, labels[k], cells, list(features[k]), signals, entry))
        return found

    def _predictions(self, known: np.ndarray) -> dict[str, list[Any]]:
        columns = self.scorer.prediction_columns(known)
        return {name: values.tolist() for name, values in columns.items()}


def _down(key: tuple[float, float, int]) -> tuple[float, float, int]:
    return -key[0], -key[1], key[2]


def _labels(rows: Rows, at: IntArray, first: int) -> list[str]:
    """Index labels of a pandas frame, positions in the stream otherwise."""
    frame = as_frame(rows)
    index = None if frame is None else nw.maybe_get_index(frame)
    if index is None:
        return [str(first + int(i)) for i in at]
    return [_label(index[int(i)]) for i in at]


def _label(value: Any) -> str:
    """An index label; the parts of one of several levels side by side."""
    return shortened(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


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
