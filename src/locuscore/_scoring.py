"""What a fitted Locus says of new rows: bounds, levels, probabilities, and any score."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from locuscore._inputs.frames import as_array, as_rows, like_rows, n_rows, numbered
from locuscore._inputs.losses import Loss, check_support
from locuscore._inputs.predictor import check_predictor, realised_losses
from locuscore._inputs.schema import Schema
from locuscore._inputs.signals import Signals
from locuscore._inputs.unseen import unseen_said_once
from locuscore._laws.calibration import conformal_rank, too_few_rows
from locuscore._laws.distribution import Floor, LossDistribution, Support
from locuscore._laws.loss_model import LossModel
from locuscore._laws.scores import (
    LawFunction,
    Score,
    bounds,
    exceedances,
    probabilities,
    score_function,
)
from locuscore._protocols import FloatArray, GammaModel, LossEngine, Rows
from locuscore._rules.route import Routing, route_by_cost
from locuscore._rules.rule import FlagRule, check_rule
from locuscore._shared.checks import LocusWarning, check_alpha, check_tau, one_tau


class RowScores:
    """The methods of `Locus` that read its laws; fitting is in `Locus` itself."""

    predictor_: Any
    loss_: Loss
    engine_: LossEngine
    gamma_: GammaModel | None
    support_: Support
    floor_: Floor
    signals_: Signals
    schema_: Schema
    tails_: FloatArray
    n_features_in_: int

    @property
    def loss_model_(self) -> LossModel:
        """Laws of the loss at given signals, before calibration."""
        return LossModel(self.engine_, self.gamma_, self.support_, self.floor_)

    def predict(self, X: Rows) -> Any:
        """Return g(X): the wrapper can stand where the predictor stood."""
        check_is_fitted(self)
        check_predictor(self.predictor_)
        X = self._check_rows(X)
        return getattr(self.predictor_, "predict", self.predictor_)(X)

    def losses(self, X: Rows, y: ArrayLike) -> Any:
        """Realised losses of the predictor on labelled rows."""
        check_is_fitted(self)
        check_predictor(self.predictor_)
        X = self._check_rows(X)
        z = realised_losses(self.loss_, self.predictor_, X, y)
        return like_rows(X, check_support(z, self.support_), ["loss"])

    def loss_bound(self, X: Rows, alpha: float | Sequence[float] | FloatArray = 0.1) -> Any:
        """Upper bound U_alpha(x) on the loss of each row.

        ``U = sup{z : P(Z > z | x) >= level(alpha)}``; at most a share alpha of new losses exceed
        it (Theorem 1). One alpha gives shape (n,), a sequence of m gives (n, m); a frame gives a
        series or a frame with its index. Infinite, with a warning, where D2 has too few rows for
        alpha.
        """
        check_is_fitted(self)
        alphas = check_alpha(alpha)
        self._warn_if_too_few(float(alphas.min()))
        function = bounds(self.tails_, np.atleast_1d(alphas))
        return self._per_row(X, function, alphas.ndim, numbered("bound", alphas))

    def exceedance(self, X: Rows, tau: float | Sequence[float] | FloatArray) -> Any:
        """Smallest alpha whose bound is at most tau: a level to rank and to threshold.

        ``(1 + #{tails <= P(Z > tau | x)}) / (n2 + 1)``. Accepting rows where it is at most alpha
        is accepting rows with ``loss_bound <= tau``, so ``P(Z > tau and accepted) <= alpha``
        (Theorem 3). Not the probability of a loss above tau: where losses have atoms it may be
        far below; see `probability`. Zero where tau is the top of the support. Shapes as in
        `loss_bound`.
        """
        check_is_fitted(self)
        taus = check_tau(tau)
        function = exceedances(self.tails_, np.atleast_1d(taus), self.support_.high)
        return self._per_row(X, function, taus.ndim, numbered("exceedance", taus))

    def probability(self, X: Rows, tau: float | Sequence[float] | FloatArray) -> Any:
        """Estimate of ``P(Z > tau | x)``, how likely a loss above tau is: for costs and people.

        The average of the loss model's draws, also where `gamma` is set: an envelope is cautious
        by design and no estimate. A function of D1 alone, and an estimate without a guarantee:
        as good as the engine. To rank or threshold with one, see `exceedance` and `certify`.
        Shapes as in `loss_bound`.
        """
        check_is_fitted(self)
        taus = check_tau(tau)
        function = probabilities(np.atleast_1d(taus))
        return self._per_row(X, function, taus.ndim, numbered("probability", taus))

    def route_by_cost(
        self,
        X: Rows,
        tau: float,
        review_cost: ArrayLike,
        exceedance_cost: ArrayLike,
        *,
        X_val: Rows | None = None,
        y_val: ArrayLike | None = None,
        delta: float = 0.05,
    ) -> Routing:
        """Review the rows that are expected to cost more if accepted, by `probability`.

        Accept exactly when ``probability(X, tau) * exceedance_cost <= review_cost``. Costs are
        numbers or one each per row. With labelled rows `X_val`, `y_val` that had no part in
        `fit`, the result has an exact interval for the share above tau among the accepted. See
        `locuscore.route_by_cost`.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("route_by_cost needs both X_val and y_val, or neither.")
        tau = one_tau(tau)
        labelled: dict[str, Any] = {}
        if X_val is not None and y_val is not None:
            labelled = {
                "probability_cal": as_array(self.probability(X_val, tau)),
                "losses_cal": as_array(self.losses(X_val, y_val)),
                "tau": tau,
                "delta": delta,
            }
        p = as_array(self.probability(X, tau))
        return route_by_cost(p, review_cost, exceedance_cost, **labelled)

    def loss_dist(self, X: Rows) -> LossDistribution:
        """Predictive law of the loss at each row, before calibration: a function of D1 alone.

        Holds the draws of all rows in memory; for many rows prefer `loss_bound`, `exceedance`
        and `probability`, which work in blocks.
        """
        check_is_fitted(self)
        X = self._check_rows(X)
        if not n_rows(X):
            raise ValueError("loss_dist needs at least one row; got an empty X.")
        with unseen_said_once(self.schema_, X):
            return self.loss_model_.dist(np.vstack([S for _, S in self.signals_.blocks(X)]))

    def scores(self, X: Rows, score: Score) -> Any:
        """Evaluate any score of this estimator: bound, exceedance or raw tail probability.

        `Score.tail(tau)` is ``loss_dist(X).sf(tau)``, in blocks: a function of D1 alone.
        """
        check_is_fitted(self)
        if score.kind == "bound" and score.alpha is not None:
            self._warn_if_too_few(score.alpha)
        function = score_function([score], self.tails_, self.support_.high)
        at = np.array(score.alpha if score.kind == "bound" else score.tau)
        return self._per_row(X, function, 0, numbered(score.kind, at))

    def joint_scores(
        self, X: Rows, scores: Sequence[Score]
    ) -> tuple[FloatArray | None, FloatArray]:
        """Several scores as an array (n, m), in one pass over the laws and without warnings.

        Also g(X), if the signals hold it as one number per row, so that nobody asks g twice.
        """
        check_is_fitted(self)
        X = self._check_rows(X)
        function = score_function(scores, self.tails_, self.support_.high)
        out, said = np.empty((n_rows(X), len(scores))), []
        with unseen_said_once(self.schema_, X):
            for start, S in self.signals_.blocks(X):
                said.append(self.signals_.predictions(S, self.n_features_in_))
                for rows, dist in self.loss_model_.blocks(S, start):
                    out[rows] = function(dist)
        found = [part for part in said if part is not None]
        return (np.concatenate(found) if found else None), out

    def accepts(self, X: Rows, rule: FlagRule) -> Any:
        """Whether the rule accepts each row; its score is computed here, so it is the right one."""
        check_rule(rule)
        values = as_array(self.scores(X, rule.score))
        return like_rows(as_rows(X), rule.accepts(values, rule.score), ["accepted"])

    def _check_rows(self, X: Rows, reset: bool = False) -> Rows:
        if reset:
            self.__dict__.pop("tails_", None)  # a fit that fails must not leave old and new mixed
        X = as_rows(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self.schema_ = Schema.of(X)
        if reset and not n_rows(X):
            raise ValueError("Found array with 0 sample(s): fit needs labelled rows.")
        if not X.shape[1]:
            raise ValueError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        return X

    def _warn_if_too_few(self, alpha: float) -> None:
        n = len(self.tails_)
        if conformal_rank(n, alpha) > n:
            warnings.warn(too_few_rows(n, alpha, self.support_.high), LocusWarning, stacklevel=3)

    def _per_row(
        self,
        X: Rows,
        function: LawFunction,
        ndim: int,
        names: Sequence[str],
    ) -> Any:
        """Evaluate a function of the law, (rows,) -> (rows, m), over all blocks."""
        X = self._check_rows(X)
        out = np.empty((n_rows(X), len(names)))
        with unseen_said_once(self.schema_, X):
            for start, S in self.signals_.blocks(X):
                for rows, dist in self.loss_model_.blocks(S, start):
                    out[rows] = function(dist)
        return like_rows(X, out if ndim else out[:, 0], names)
