"""What a fitted Locus says about new rows: bounds, levels, probabilities, and any score."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from locuscore._inputs.fold_signals import FoldSignals
from locuscore._inputs.losses import Loss
from locuscore._inputs.outputs import Outputs, realised_losses
from locuscore._inputs.predictor import check_asked_predictor
from locuscore._inputs.schema import Schema
from locuscore._inputs.signals import Signals
from locuscore._inputs.unseen import unseen_said_once
from locuscore._laws.distribution import Floor, LossDistribution, Support
from locuscore._laws.loss_model import LossModel
from locuscore._laws.scores import ProbabilityScore, RowLaws, Score
from locuscore._protocols import Calibration, FittedEngine, FloatArray, GammaModel, Rows
from locuscore._shared.checks import (
    BadRowsError,
    LocusWarning,
    check_alpha,
    check_same_order,
    check_tau,
)
from locuscore._shared.frames import (
    as_frame,
    as_rows,
    frames_seen_once,
    like_rows,
    n_rows,
    numbered,
)
from locuscore._shared.progress import many_rows
from locuscore._shared.rows import kind_of_rows
from locuscore._shared.shown import Shown
from locuscore._shared.targets import as_targets


@dataclass(frozen=True, eq=False, repr=False)
class Given(Shown):
    """What the caller passes with new rows for the calibration; at most one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Given, Locus
    >>> from locuscore.calibration import ByGroup
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> town = np.where(X[:, 0] < 0.5, "north", "south")
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), calibration=ByGroup(town), random_state=0)
    >>> locus = locus.fit(X, y)
    >>> [len(block) for block in locus.blocks(X[:2], Given(groups=town[:2]))]
    [2]
    """

    groups: Any = None
    weights: Any = None

    def if_needed(self, scores: Sequence[Score]) -> "Given | None":
        """Itself, or None if nothing was passed and none of the scores is calibrated."""
        is_passed = self.groups is not None or self.weights is not None
        return self if is_passed or any(score.is_calibrated for score in scores) else None

    def entries(self, calibration: Calibration, n: int) -> np.ndarray | None:
        """Entries of n rows as passed; None where the calibration reads the rows themselves."""
        value = self.asked(calibration)
        return None if value is None else calibration.entries(value, n)

    def asked(self, calibration: Calibration) -> Any:
        """What the calibration asks for, as passed; None where it reads the rows themselves."""
        passed = {name: value for name, value in vars(self).items() if value is not None}
        asks = calibration.asks
        if set(passed) - {asks}:
            names = " and ".join(f"{name}=" for name in passed)
            what = "takes nothing beside the rows" if asks is None else f"asks for {asks}="
            raise ValueError(f"got {names}, but the calibration of this Locus {what}.")
        if asks is None:
            return None
        if not passed:
            raise ValueError(
                f"the calibration of this Locus was given {asks} as an array, so it cannot tell "
                f"them from the rows; pass {asks}=, one per row."
            )
        return passed[asks]


NOTHING_GIVEN = Given()


@dataclass(frozen=True, eq=False, repr=False)
class RowBlock:
    """Consecutive rows on their way through a `Locus`, as `Locus.blocks` gives them.

    `start` is the position of the first row. `outputs` holds the rows and what the predictor says
    about them, `signals` what the engine sees, and `entries` what the calibration reads about each
    row; None if it treats all rows alike, or if no calibrated score was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus
    >>> from locuscore.engines import Scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=400)
    >>> locus = Locus(lambda X: X[:, 0], engine=Scale(), random_state=0).fit(X, y)
    >>> [(block.start, len(block.signals)) for block in locus.blocks(X[:5])]
    [(0, 5)]
    """

    start: int
    outputs: Outputs
    signals: FloatArray
    entries: np.ndarray | None
    locus: "RowScores"

    def __len__(self) -> int:
        return len(self.signals)

    def __repr__(self) -> str:
        n, width = self.signals.shape
        return f"RowBlock(rows {self.start:,} to {self.start + n:,}, {width:,} signals)"

    def laws(self) -> Iterator[RowLaws]:
        """The laws of the rows, few enough at a time to bound memory."""
        for rows, law in self.locus.loss_model_.blocks(self.signals):
            entries = None if self.entries is None else self.entries[rows]
            yield RowLaws(rows, law, self.locus.calibration_, entries)

    def losses(self, y: ArrayLike) -> FloatArray:
        """Realised losses of the predictor, given the true values; it is not asked again."""
        return self.locus._losses(self.outputs, y)


class RowScores:
    """The methods of `Locus` that read its laws; fitting is in `Locus` itself."""

    predictor_: Any
    loss_: Loss
    engine_: FittedEngine
    gamma_: GammaModel | None
    support_: Support
    floor_: Floor
    signals_: Signals | FoldSignals
    schema_: Schema
    calibration_: Calibration
    n_features_in_: int

    @property
    def loss_model_(self) -> LossModel:
        """Laws of the loss at given signals, before calibration."""
        return LossModel(self.engine_, self.gamma_, self.support_, self.floor_)

    @property
    def tails_(self) -> FloatArray:
        """``P(Z >= z | x)`` of the rows of D2, ascending."""
        return self.calibration_.tails

    def predict(self, X: Rows) -> Any:
        """Return g(X), so that a `Locus` can replace its predictor."""
        check_is_fitted(self)
        check_asked_predictor(self.predictor_)
        X = self._check_rows(X)
        return getattr(self.predictor_, "predict", self.predictor_)(X)

    def losses(self, X: Rows, y: ArrayLike) -> Any:
        """Realised losses of the predictor on labelled rows."""
        check_is_fitted(self)
        check_asked_predictor(self.predictor_)
        X = self._check_rows(X)
        z = self._losses(self.signals_.outputs(self.predictor_, X), y)
        return like_rows(X, z, ["loss"])

    def losses_of(self, predictions: ArrayLike, y: ArrayLike) -> FloatArray:
        """Realised losses of predictions that were made before, as a log of them has.

        A loss of class probabilities cannot be computed from the class that was predicted, and is
        refused: log the losses themselves.

        Examples
        --------
        >>> import numpy as np
        >>> from locuscore import Locus
        >>> X = np.random.default_rng(0).normal(size=(100, 1))
        >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, X[:, 0] + 1)
        >>> locus.losses_of([2.0, 5.0], [3.0, 3.0])
        array([1., 2.])
        """
        check_is_fitted(self)
        if self.loss_.reads == "probabilities":
            raise TypeError(
                f"the loss {self.loss_.name} reads class probabilities, and a prediction is one "
                "class; pass the losses themselves."
            )
        made, n = as_targets(predictions), len(as_targets(y))
        if len(made) != n:
            raise ValueError(f"there are {len(made)} predictions, but {n} true values.")
        outputs = Outputs(self.predictor_, np.arange(len(made)), _answers={"predict": (made,)})
        return self._losses(outputs, y)

    def loss_bound(
        self,
        X: Rows,
        alpha: float | Sequence[float] | FloatArray = 0.1,
        *,
        groups: Any = None,
        weights: Any = None,
    ) -> Any:
        """Upper bound U_alpha(x) on the loss of each row.

        ``U = sup{z : P(Z > z | x) >= level(alpha)}``. A new loss exceeds it with probability at
        most alpha (Theorem 1). One alpha gives shape (n,), a sequence of m gives (n, m); a frame
        gives a series or a frame with its index. With too few rows in D2 for alpha the bound is
        infinite, and there is a warning. `groups` and `weights`, one per row, are for calibrations
        that were given them as arrays.
        """
        check_is_fitted(self)
        alphas = check_alpha(alpha)
        self._warn_if_too_few(float(alphas.min()))
        scores = [Score.bound(float(share)) for share in np.atleast_1d(alphas)]
        given = Given(groups, weights)
        return self._per_row(X, scores, alphas.ndim, numbered("bound", alphas), given)

    def exceedance(
        self,
        X: Rows,
        tau: float | Sequence[float] | FloatArray,
        *,
        groups: Any = None,
        weights: Any = None,
    ) -> Any:
        """Smallest alpha whose bound is at most tau: a level to rank and to threshold.

        It is ``(1 + #{tails <= P(Z > tau | x)}) / (n2 + 1)``. It is at most alpha exactly when
        ``loss_bound <= tau``, so accepting these rows gives ``P(Z > tau and accepted) <= alpha``
        (Theorem 3). It is not the probability of a loss above tau, and may be far below it where
        losses have atoms; see `probability`. It is zero where tau is the top of the support.
        Shapes, `groups` and `weights` are as in `loss_bound`.
        """
        check_is_fitted(self)
        taus = check_tau(tau)
        scores = [Score.exceedance(float(value)) for value in np.atleast_1d(taus)]
        given = Given(groups, weights)
        return self._per_row(X, scores, taus.ndim, numbered("exceedance", taus), given)

    def probability(self, X: Rows, tau: float | Sequence[float] | FloatArray) -> Any:
        """Estimate ``P(Z > tau | x)``, the probability of a loss above tau.

        Use it for costs and for reading. It is the average of the loss model's draws, even if
        `gamma` is set, because an envelope is cautious by design and not an estimate. It is a
        function of D1 alone, is only as good as the engine, and has no guarantee. To rank or
        threshold with a guarantee, see `exceedance` and `certify`. Shapes are as in `loss_bound`.
        """
        check_is_fitted(self)
        taus = check_tau(tau)
        scores = [ProbabilityScore(float(value)) for value in np.atleast_1d(taus)]
        return self._per_row(X, scores, taus.ndim, numbered("probability", taus))

    def loss_dist(self, X: Rows) -> LossDistribution:
        """Predictive distribution of the loss at each row, before calibration.

        It is a function of D1 alone, and holds the draws of all rows in memory; with `CrossFit` it
        is the cross-fitted distribution, whose survival is the exceedance. For many rows prefer
        `loss_bound`, `exceedance` and `probability`, which work in blocks.
        """
        check_is_fitted(self)
        X = self._check_rows(X)
        if not n_rows(X):
            raise ValueError("loss_dist needs at least one row; got an empty X.")
        with unseen_said_once(self.schema_, X):
            return self.loss_model_.dist(self.row_signals(X))

    def row_signals(self, X: Rows) -> FloatArray:
        """The float matrix (n, d) that the engine sees of new rows; see `fit_signals_` for D1."""
        return np.vstack([block.signals for block in self.blocks(X, None)])

    def scores(self, X: Rows, score: Score, *, groups: Any = None, weights: Any = None) -> Any:
        """Evaluate any score of this estimator: bound, exceedance or raw tail probability.

        `Score.tail(tau)` is ``loss_dist(X).sf(tau)``, in blocks: a function of D1 alone. `groups`
        and `weights` are those of `loss_bound`.
        """
        check_is_fitted(self)
        if score.alpha is not None:
            self._warn_if_too_few(score.alpha)
        names = numbered(score.kind, np.array(score.value()))
        return self._per_row(X, [score], 0, names, Given(groups, weights))

    def joint_scores(
        self, X: Rows, scores: Sequence[Score], *, groups: Any = None, weights: Any = None
    ) -> tuple[Any, FloatArray]:
        """Predictions g(X), to rounding, and several scores (n, m), in one pass over the rows.

        It gives no warnings. The predictions are None without a predictor or without rows.
        `groups` and `weights` are those of `loss_bound`.
        """
        check_is_fitted(self)
        X = self._check_rows(X)
        predictions, out = [], np.empty((n_rows(X), len(scores)))
        given = Given(groups, weights).if_needed(scores)
        with unseen_said_once(self.schema_, X), many_rows(n_rows(X)) as advance:
            for block in self.blocks(X, given):
                self._evaluate(block, scores, out)
                advance(len(block))
                if self.predictor_ is not None:
                    # A copy, since a predictor may answer every batch in the same buffer.
                    predictions.append(np.array(block.outputs.mean_of_members))
        return (np.concatenate(predictions) if predictions else None), out

    def blocks(self, X: Rows, given: Given | None = NOTHING_GIVEN) -> Iterator[RowBlock]:
        """Go through rows a few at a time; the predictor is asked about each row once at most.

        `given` is what the caller passes with the rows for the calibration; None where no score of
        the rows is calibrated.
        """
        return self._blocks(self.signals_.outputs(self.predictor_, X), given)

    def _blocks(self, outputs: Outputs, given: Given | None) -> Iterator[RowBlock]:
        calibration = self.calibration_
        if given is not None:
            check_same_order(X=outputs.X, groups=given.groups, weights=given.weights)
        known = None if given is None else given.entries(calibration, len(outputs))
        reads = None if given is None or known is not None else calibration.reads
        for start, part, S in self.signals_.blocks(outputs):
            if known is not None:
                entries: np.ndarray | None = known[start : start + len(part)]
            else:
                entries = None if reads is None else _read(reads, part.X, start)
            yield RowBlock(start, part, S, entries, self)

    def _check_rows(self, X: Rows, reset: bool = False) -> Rows:
        if reset:
            # A fit that fails must not leave old and new mixed.
            self.__dict__.pop("calibration_", None)
        X = as_rows(X)
        is_table = kind_of_rows(X) is None
        if reset:
            self.schema_ = Schema.of(X)
        self.schema_.check_kind(X)
        if is_table and (reset or not self._has_known_columns(X)):
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = len(self.schema_.names)
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if reset and not n_rows(X):
            raise ValueError("Found array with 0 sample(s): fit needs labelled rows.")
        if is_table and not X.shape[1]:
            raise ValueError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        return X

    def _has_known_columns(self, X: Rows) -> bool:
        """Whether the columns are those of fit; where not, scikit-learn finds the words."""
        names = getattr(self, "feature_names_in_", None)
        frame = as_frame(X)
        if frame is None:
            return names is None and X.shape[1] == self.n_features_in_
        return names is not None and frame.columns == names.tolist()

    def _warn_if_too_few(self, alpha: float) -> None:
        text = self.calibration_.too_few(alpha, self.support_.high)
        if text is not None:
            warnings.warn(text, LocusWarning, stacklevel=3)

    def _losses(self, outputs: Outputs, y: ArrayLike) -> FloatArray:
        return self.support_.check(realised_losses(self.loss_, outputs, y))

    def _per_row(
        self,
        X: Rows,
        scores: Sequence[Score],
        ndim: int,
        names: Sequence[str],
        given: Given | None = None,
    ) -> Any:
        """Evaluate scores over all blocks, one column each; only the first where `ndim` is 0."""
        with frames_seen_once():
            X = self._check_rows(X)
            out = np.empty((n_rows(X), len(names)))
            given = None if given is None else given.if_needed(scores)
            n_unknown = 0
            with unseen_said_once(self.schema_, X), many_rows(n_rows(X)) as advance:
                for block in self.blocks(X, given):
                    self._evaluate(block, scores, out)
                    advance(len(block))
                    if block.entries is not None:
                        n_unknown += self.calibration_.n_unknown(block.entries)
            if n_unknown:
                warnings.warn(
                    f"{n_unknown:,} of {len(out):,} rows are of a group without calibration rows, "
                    "one that fit has not seen or a missing one: they have no finite bound.",
                    LocusWarning,
                    stacklevel=3,
                )
            return like_rows(X, out if ndim else out[:, 0], names)

    def _evaluate(self, block: RowBlock, scores: Sequence[Score], out: FloatArray) -> None:
        for laws in block.laws():
            at = slice(block.start + laws.rows.start, block.start + laws.rows.stop)
            out[at] = laws.scores(scores)


def _read(reads: Callable[[Rows], np.ndarray], X: Rows, start: int) -> np.ndarray:
    """What a calibration reads about the rows of a block; bad ones are counted from the first."""
    try:
        return reads(X)
    except BadRowsError as error:
        error.move(start)
        raise
