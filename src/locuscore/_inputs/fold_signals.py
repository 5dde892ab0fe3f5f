"""The signals of several folds side by side, as a cross-fitted loss model sees them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.outputs import Outputs
from locuscore._inputs.signals import Signals, signal_blocks
from locuscore._inputs.unseen import count_categories
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._shared.frames import column_names
from locuscore._shared.kept import Kept


@dataclass(frozen=True, eq=False)
class FoldSignals:
    """What `Signals` is for one loss model, for those of k folds: each has its own columns.

    All folds have the same columns but for the second opinion, which some may lack. For a reader
    the columns of one meaning are one.
    """

    ARCHIVE = Kept("FoldSignals", fields=("folds",))

    folds: Sequence[Signals]

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the signals that an archive holds, if they are some."""
        folds = parts["folds"]
        if (
            not isinstance(folds, list)
            or len(folds) < 2
            or not all(isinstance(fold, Signals) for fold in folds)
        ):
            raise ValueError("the signals of its folds are none")
        return cls(folds)

    def __call__(self, outputs: Outputs) -> FloatArray:
        return np.hstack([fold(outputs) for fold in self.folds])

    def blocks(self, outputs: Outputs) -> Iterator[tuple[int, Outputs, FloatArray]]:
        """Position, outputs and signals of consecutive rows, few enough to bound memory."""
        encoder, n_features = self.encoder, len(column_names(outputs.source))
        for start, part, S in signal_blocks(self, outputs, len(self.folds)):
            if encoder is not None and encoder.codes_:
                # A category is new only if no fold has a code for it.
                begins = np.cumsum([0, *self._widths(S.shape[1])])[:-1]
                codes = [S[:, begin : begin + n_features] for begin in begins]
                count_categories(encoder, part.X, np.fmax.reduce(codes))
            yield start, part, S

    def outputs(self, predictor: Any, X: Rows) -> Outputs:
        """Rows to ask the predictor about, for these signals or for losses."""
        return self._fullest.outputs(predictor, X)

    @property
    def encoder(self) -> Encoder | None:
        """The categories that any fold knows; each fold has codes of its own."""
        known = [fold.encoder for fold in self.folds if fold.encoder is not None]
        if not known:
            return None
        merged = Encoder()
        merged.codes_ = {}
        merged.texts_, merged.reduction_ = known[0].texts_, known[0].reduction_
        for one in known:
            for j, codes in one.codes_.items():
                merged.codes_.setdefault(j, {}).update(codes)
        return merged

    @property
    def output_encoder(self) -> Encoder | None:
        """Of what the predictor says, that of the first fold; None without it."""
        return self.folds[0].output_encoder

    @property
    def opinion(self) -> Any:
        """The second opinion of the first fold that has one; None where no fold has."""
        return self._fullest.opinion

    def players(self, width: int) -> IntArray:
        """What each column belongs to: columns of all folds with one meaning are one player."""
        pairs = zip(self.folds, self._widths(width), strict=True)
        return np.concatenate([fold.players(own) for fold, own in pairs])

    def names(self, predictor: Any, features: list[str], width: int) -> list[str]:
        """A name for each of the `players`, given those of the columns of X."""
        own = dict(zip(map(id, self.folds), self._widths(width), strict=True))
        return self._fullest.names(predictor, features, own[id(self._fullest)])

    def words(self, S: FloatArray, outputs: Outputs) -> Sequence[str | None]:
        """What the second opinion of one fold says of each row, in one clause; None without it."""
        widths = self._widths(S.shape[1])
        at = next(f for f, fold in enumerate(self.folds) if fold is self._fullest)
        begin = sum(widths[:at])
        return self._fullest.words(S[:, begin : begin + widths[at]], outputs)

    def summary(self, n_features: int) -> str:
        """What the columns are, and how many, in words."""
        return f"{self._fullest.summary(n_features)}, in each of {len(self.folds)} folds"

    @property
    def _fullest(self) -> Signals:
        """The first fold with a second opinion, or the first fold."""
        return next((fold for fold in self.folds if fold.opinion is not None), self.folds[0])

    def _widths(self, width: int) -> list[int]:
        """Number of columns of each fold, of so many in all."""
        own = [fold.opinion_width + fold.n_vectors for fold in self.folds]
        shared = (width - sum(own)) // len(self.folds)
        return [shared + more for more in own]

    def x_width(self, n_features: int) -> int:
        """Number of columns that are x itself in the first fold, if it has so many."""
        return self.folds[0].x_width(n_features)
