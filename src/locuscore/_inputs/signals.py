"""The float matrix an engine sees: encoded x, and what the predictor says of each row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.outputs import Outputs, own_signal_names, own_signals
from locuscore._inputs.unseen import count_categories
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.blocks import row_blocks
from locuscore._shared.checks import BadRowsError
from locuscore._shared.frames import column_names, n_rows
from locuscore._shared.kept import Kept

MOST_ROWS_AT_ONCE = 65_536
SignalChoice = Literal["all", "x"] | Callable[[Rows], Any]


@dataclass(frozen=True)
class Signals:
    """A fitted map from rows, and what g says of them, to floats.

    `encoder` turns x into floats, unless the user's own `function` does. `output_encoder` turns
    what g says into floats, text by codes learned on D1; it is None where only x is used.
    """

    # A function cannot be kept; it is given again.
    ARCHIVE = Kept("Signals", fields=("encoder", "output_encoder"))

    encoder: Encoder | None = None
    function: Callable[[Rows], Any] | None = None
    output_encoder: Encoder | None = None

    def __call__(self, outputs: Outputs) -> FloatArray:
        values = self._of_rows(outputs.X)
        if self.output_encoder is None:
            return values
        return np.hstack([values, self._of_outputs(outputs, self.output_encoder)])

    def _of_rows(self, X: Rows) -> FloatArray:
        embed = self.function if self.encoder is None else self.encoder.transform
        values = np.asarray(X if embed is None else embed(X), dtype=np.float64)
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
        return values

    def _of_outputs(self, outputs: Outputs, encoder: Encoder) -> FloatArray:
        values = encoder.transform(own_signals(outputs))
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        # Text that fit has not seen becomes NaN, which engines take; a number must be one.
        if len(bad) and not encoder.codes_:
            raise BadRowsError(
                f"the predictor returned NaN or infinity for {len(bad)} rows out of {len(values)}",
                bad,
                "such a prediction has no loss to bound. Leave those rows out.",
            )
        return values

    def blocks(self, outputs: Outputs) -> Iterator[tuple[int, Outputs, FloatArray]]:
        """Position, outputs and signals of consecutive rows, few enough to bound memory."""
        for rows in row_blocks(len(outputs), outputs.X.shape[1], MOST_ROWS_AT_ONCE):
            part = outputs.take(rows)
            try:
                S = self(part)
            except BadRowsError as error:
                error.move(rows.start)
                raise
            count_categories(self.encoder, part.X, S)
            yield rows.start, part, S

    def outputs(self, predictor: Any, X: Rows) -> Outputs:
        """Rows to ask the predictor about, for these signals or for losses."""
        return Outputs.of(predictor, X, for_signals=self.output_encoder is not None)

    def names(self, predictor: Any, features: list[str], width: int) -> list[str]:
        """A name for each of so many signals, given those of the columns of X."""
        if self.encoder is None:
            return [f"signal {j}" for j in range(width)]
        if self.output_encoder is None:
            return features
        return features + own_signal_names(predictor, width - len(features))


def fit_signals(choice: SignalChoice, outputs: Outputs) -> Signals:
    """Learn the encoding of rows and of what g says about them, on D1.

    ``"all"``: encoded x and what g says about it; ``"x"``: encoded x alone, as in the paper; a
    function of X: its output alone, for instance the last hidden layer of a network.
    """
    if callable(choice):
        return Signals(function=choice)
    if choice not in ("all", "x"):
        raise ValueError(f"signals must be 'all', 'x' or a function of X; got {choice!r}.")
    encoder = Encoder().fit(outputs.X)
    if choice == "x" or outputs.predictor is None:
        return Signals(encoder)
    return Signals(encoder, output_encoder=Encoder().fit(own_signals(outputs)))
