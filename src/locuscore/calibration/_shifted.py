"""Shifted: new rows come from another mix of x than the rows given to `fit`."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from locuscore._inputs.schema import Schema
from locuscore._protocols import FloatArray, IntArray, Part, Rows
from locuscore._shared.checks import LocusWarning, check_between, check_same_order
from locuscore._shared.frames import as_array, as_rows, n_rows
from locuscore.calibration._choice import Choice
from locuscore.calibration._density_ratio import check_enough, learn_ratio
from locuscore.calibration._weighted import Reader, WeightedCalibration
from locuscore.calibration._weights import WeightColumn, check_weights

FEW_ROWS = 30  # of equal weight: with fewer, the coverage varies by more than five points


@dataclass(frozen=True, eq=False, repr=False)
class Shifted(Choice):
    """New rows come from another mix of x, the target; losses given x are distributed alike.

    A row of D2 counts by its weight, which says how many times as often such rows come among new
    rows as among those of `fit`, up to a factor that all rows share. Each new row has a level of
    its own, from its own weight. See `WeightedCalibration` for the theorem.

    With known weights ``P(Z <= U) >= 1 - alpha`` for new rows of the target. With learned ones it
    is at least ``1 - alpha - E|w_hat - w| / 2``, where both weights are divided by their mean over
    the rows of `fit`. A row that alone weighs more than alpha of all has an infinite bound.

    Parameters
    ----------
    weights
        A function of X that gives one positive number per row; the name of a column with these
        numbers; or an array of them, one per row given to `fit`. Then weights of new rows are
        passed with them (``weights=``). None to learn them from unlabelled rows of the target,
        ``fit(X, y, target=X_unlabelled)``, and from those of D1. New rows must be independent of
        these target rows: a bound for a target row itself is not covered by the promise.

        A weight of zero says that no new row is like this one. Among the rows of `fit` it is
        allowed; a new row of weight zero is refused as a bad row.
    largest_weight
        No weight can be larger. It is needed only to certify rules on the rows of D2
        (`Locus.certify` without X and y), and only possible with known weights.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.calibration import Shifted
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * rng.normal(size=2000)
    >>> more_large = Shifted(lambda X: X[:, 0])  # new rows have the density 2 x
    >>> locus = Locus(lambda X: 0 * X[:, 0], calibration=more_large, random_state=0).fit(X, y)
    >>> print(f"{locus.calibration_.effective_size:.0f} of {locus.calibration_.n}")
    379 of 499
    """

    weights: Any = None
    largest_weight: float | None = None

    def check(self, X: Rows, clusters: IntArray | None, target: Rows | None) -> None:
        """Raise if weights or target rows are missing, or not those of these rows."""
        if clusters is not None:
            raise ValueError(
                "Shifted weighs single rows and cannot keep clusters together; leave out clusters, "
                "or use another calibration."
            )
        if self.weights is None:
            if self.largest_weight is not None:
                raise ValueError(
                    "largest_weight is for certificates by known weights; Shifted has none, and "
                    "learns them."
                )
            self._target(X, target)
            return
        if target is not None:
            raise ValueError(
                "fit was given a target sample, and Shifted the weights that could be learned from "
                "it; leave out one of them."
            )
        if self.largest_weight is not None:
            check_between(self.largest_weight, "largest_weight", 0.0, np.inf)
        check_same_order(X=X, weights=self.weights)
        self._known(X)  # before anything is learned

    def calibrate(
        self, fit: Part, cal: Part, target: Rows | None, seed: int
    ) -> WeightedCalibration:
        """Weigh the rows of D2; weights that are learned come from D1 and the target alone."""
        if self.weights is None:
            ratio = learn_ratio(fit.X, self._target(fit.X, target), seed)
            reader: Reader | None = ratio
            weights, of_fit = check_weights(ratio(cal.X), n_rows(cal.X), None), None
        else:
            reader = self._reader
            weights = self._known(cal.X, cal.positions)
            of_fit = self._known(fit.X, fit.positions)
        largest = None if self.largest_weight is None else float(self.largest_weight)
        found = WeightedCalibration.of(cal, weights, reader, largest, of_fit)
        if found.effective_size < FEW_ROWS:
            warnings.warn(
                f"the weights leave the {found.n} calibration rows with the worth of "
                f"{found.effective_size:.3g} rows of equal weight: new rows are unlike almost all "
                "of them, and bounds vary widely from sample to sample, or are infinite. Label "
                "some rows of the target, or calibrate for a mix that is closer.",
                LocusWarning,
                stacklevel=5,
            )
        return found

    @property
    def _reader(self) -> Reader | None:
        """What tells the known weights of new rows; None for an array, or learned ones."""
        if isinstance(self.weights, str):
            return WeightColumn(self.weights)
        return self.weights if callable(self.weights) else None

    def _known(self, X: Rows, positions: IntArray | None = None) -> FloatArray:
        """Weights of rows at these positions among those given to `fit`; None for all."""
        reader = self._reader
        told = as_array(self.weights) if reader is None else reader(X)
        if reader is None and positions is not None:
            told = told[positions]
        return check_weights(told, n_rows(X), self.largest_weight)

    @staticmethod
    def _target(X: Rows, target: Rows | None) -> Rows:
        """The target rows as rows like X."""
        if target is None:
            raise ValueError(
                "Shifted learns its weights from unlabelled rows of the target; pass them to fit, "
                "target=X_unlabelled, or known weights to Shifted(weights)."
            )
        try:
            rows = Schema.of(X).conform(as_rows(target))
        except (TypeError, ValueError) as error:
            raise type(error)(f"target must be rows like X: {error}") from None
        check_enough(rows, "target")
        return rows
