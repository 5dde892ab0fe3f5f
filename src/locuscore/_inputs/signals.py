"""The float matrix an engine sees: encoded x, g(x), the spread of g's members."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.frames import column_names, n_rows, take_rows
from locuscore._inputs.predictor import has_members, is_classifier, own_signals
from locuscore._inputs.unseen import count_categories
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import BadRowsError
from locuscore._shared.numeric import row_blocks

MOST_ROWS_AT_ONCE = 65_536
SignalChoice = Literal["all", "x"] | Callable[[Rows], Any]


@dataclass(frozen=True)
class Signals:
    """A fitted map from rows to floats: `embed` of the rows, and `listen`, what g says of them."""

    embed: Callable[[Rows], Any]
    listen: Callable[[Rows], FloatArray] | None = None

    def __call__(self, X: Rows) -> FloatArray:
        values = np.asarray(self.embed(X), dtype=np.float64)
        if values.ndim != 2 or len(values) != n_rows(X):
            raise ValueError(
                f"signals must give one row of numbers per row of X, shape ({n_rows(X)}, d); "
                f"got {values.shape}."
            )
        infinite = np.isinf(values)
        if infinite.any():
            names = column_names(X) if values.shape[1] == X.shape[1] else range(values.shape[1])
            columns = [names[j] for j in np.flatnonzero(infinite.any(axis=0))]
            raise BadRowsError(
                f"infinity in the columns {columns}",
                np.flatnonzero(infinite.any(axis=1)),
                "engines need finite or missing values. Replace it, for instance by NaN.",
            )
        return values if self.listen is None else np.hstack([values, self.listen(X)])

    def blocks(self, X: Rows) -> Iterator[tuple[int, FloatArray]]:
        """Signals of consecutive rows, with the position of the first."""
        for rows in row_blocks(n_rows(X), X.shape[1], MOST_ROWS_AT_ONCE):
            part = take_rows(X, rows)
            try:
                S = self(part)
            except BadRowsError as error:
                error.move(rows.start)
                raise
            count_categories(self.embed, part, S)
            yield rows.start, S

    def predictions(self, S: FloatArray, n_features: int) -> FloatArray | None:
        """Return g(x) from the signals of rows with so many features, where it stands in them."""
        said = S[:, n_features:]
        listens = isinstance(self.listen, Listener) and self.listen.repeats(said.shape[1])
        return said[:, 0] if listens else None


@dataclass(frozen=True)
class Listener:
    """What the predictor says of each row, as finite floats; text by codes learned on D1."""

    predictor: Any
    encoder: Encoder

    def __call__(self, X: Rows) -> FloatArray:
        values = self.encoder.transform(own_signals(self.predictor, X))
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad) and not self.encoder.codes_:
            raise BadRowsError(
                f"the predictor returned NaN or infinity for {len(bad)} rows out of {len(values)}",
                bad,
                "a prediction that is no number has no loss to bound. Leave those rows out.",
            )
        return values

    def repeats(self, width: int) -> bool:
        """Whether the first of the numbers said is the predictor's one output, as a number."""
        own = 2 if has_members(self.predictor) else 1
        return width == own and not is_classifier(self.predictor) and not self.encoder.codes_


def fit_signals(choice: SignalChoice, predictor: Any, X: Rows) -> Signals:
    """Learn the encoding of X on D1.

    ``"all"``: encoded x and what g says of itself; ``"x"``: encoded x alone, as in the paper; a
    function of X: its output alone, for instance the last hidden layer of a network.
    """
    if callable(choice):
        return Signals(choice)
    if choice not in ("all", "x"):
        raise ValueError(f"signals must be 'all', 'x' or a function of X; got {choice!r}.")
    embed = Encoder().fit(X).transform
    if choice == "x" or predictor is None:
        return Signals(embed)
    said = own_signals(predictor, take_rows(X, slice(0, 1)))
    if said.dtype.kind in "OUS":  # one row shows the kind; the levels of text need all of them
        said = own_signals(predictor, X)
    return Signals(embed, Listener(predictor, Encoder().fit(said)))
