"""Which rules a fitted Locus makes, and how it applies them."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from locuscore._inputs.predictor import check_predictor
from locuscore._inputs.unseen import unseen_said_once
from locuscore._inputs.used_rows import Reuse, UsedRows, check_fresh, check_reference
from locuscore._laws.scores import ProbabilityScore, Score, check_score
from locuscore._protocols import FloatArray, Rows, RowWeights
from locuscore._row_scores import NOTHING_GIVEN, Given, RowScores
from locuscore._rules.certify import certify_threshold
from locuscore._rules.route import Routing, route_by_cost
from locuscore._rules.rule import FlagRule, check_rule, tau_rule, with_rows_of_fit
from locuscore._rules.thresholds import ties_heavily
from locuscore._rules.weighted import certify_weighted
from locuscore._shared.checks import one_alpha, one_tau
from locuscore._shared.frames import as_array, as_rows, like_rows, n_rows

MOST_REFERENCE_ROWS = 1_000


class RowRules(RowScores):
    """The methods of `Locus` that make rules and apply them."""

    fit_signals_: FloatArray
    calibration_signals_: FloatArray
    calibration_losses_: FloatArray
    reference_signals_: FloatArray
    used_rows_: UsedRows | None

    def tau_rule(self, tau: float, alpha: float) -> FlagRule:
        """Accept when the bound at alpha is at most tau (Theorem 3), with this fit's n, k, level.

        See `locuscore.tau_rule`.
        """
        check_is_fitted(self)
        return tau_rule(tau, alpha, **self.calibration_.rule_facts(one_alpha(alpha)))

    def certify(
        self,
        tau: float,
        eta: float,
        delta: float,
        X: Rows | None = None,
        y: ArrayLike | None = None,
        *,
        of: Score | None = None,
        reference: Rows | None = None,
        starts: Sequence[float] | None = None,
        allow_rows_used_in_fit: bool = False,
        groups: Any = None,
        weights: Any = None,
    ) -> FlagRule:
        """Certify a threshold: ``P(Z > tau | accepted) <= eta`` with confidence ``1 - delta``.

        Without X and y, the calibration rows D2 certify the raw tail probability
        ``P(Z > tau | x)`` of the loss model. This is valid because the score is a function of D1
        alone: given D1, the rows of D2 are fresh for it. D2 must be independent of D1 and of new
        rows. Choosing tau, eta or delta from D2's losses breaks the guarantee, and so do several
        calls that each spend the same delta. `loss_bound` and `exceedance` take their level from
        D2, so D2 cannot certify them.

        With fresh labelled rows X, y, independent of D1 and D2, `of` may be any score of this
        estimator. `reference` (unlabelled rows) and `starts` are those of `certify_threshold`.
        Without fresh rows and without `reference`, the tails of `reference_signals_` are the
        reference if more than a twentieth of them are equal; they too are functions of D1 alone.

        If new rows come from another mix than those of `fit` (`calibration.Shifted`), D2 certifies
        by known weights, see `certify_weighted`; learned weights certify nothing. Rows X, y are
        new rows in this respect too: they must be drawn from the target, and are not weighted. For
        labelled rows like those of `fit`, call `certify_weighted` with their weights.

        Rows X, y that are clearly those of `fit` are refused. With `allow_rows_used_in_fit` they
        give a heuristic rule, since they prove nothing. `groups` and `weights` go with X, as in
        `loss_bound`.
        """
        check_is_fitted(self)
        chosen = Score.tail(one_tau(tau)) if of is None else check_score(of)
        other = None if reference is None else as_array(self.scores(reference, chosen))
        if (X is None) != (y is None):
            raise ValueError("certify needs both X and y, or neither to use the calibration rows.")
        if X is not None and y is not None:
            if chosen.alpha is not None:
                self._warn_if_too_few(chosen.alpha)
            values, z = self._scores_and_losses(X, y, chosen, Given(groups, weights))
        elif not hasattr(self, "calibration_losses_"):
            raise ValueError("a loaded Locus has no calibration rows; pass labelled rows X and y.")
        elif self.calibration_.no_certificate is not None:
            raise ValueError(self.calibration_.no_certificate)
        else:
            model, z = self.loss_model_, self.calibration_losses_
            values = chosen.before_calibration(model, self.calibration_signals_)
            check_reference(self.used_rows_, self.schema_, reference)
            known = chosen.before_calibration(model, self.reference_signals_)
            if self.calibration_.row_weights is not None:
                if starts is not None:
                    raise ValueError("starts are for rows that count alike; leave them out.")
                return self._certify_weighted(chosen, tau, eta, delta, values, other)
            other = known if other is None and ties_heavily(known) else other
        rule = certify_threshold(
            values, z, tau, eta, delta, of=chosen, reference=other, starts=starts
        )
        if X is None or y is None or self.used_rows_ is None:
            return rule
        reuse = Reuse(self.used_rows_, self.schema_, "y").add(as_rows(X), as_array(y))
        found = reuse.verdict
        check_fresh(found, allow_rows_used_in_fit)
        return with_rows_of_fit(rule, found.n_found, found.n, were_used=found.outcome == "used")

    def _certify_weighted(
        self,
        score: Score,
        tau: float,
        eta: float,
        delta: float,
        values: FloatArray,
        reference: FloatArray | None,
    ) -> FlagRule:
        """Certify on D2 by its weights; thresholds are scores of D1, unless they are given."""
        by = cast(RowWeights, self.calibration_.row_weights)
        weights = None
        if reference is None and by.of_fit is not None:
            n = len(self.fit_signals_)
            some = np.linspace(0, n - 1, min(n, MOST_REFERENCE_ROWS)).astype(np.int64)
            S, weights = self.fit_signals_[some], by.of_fit[some]
            reference = score.before_calibration(self.loss_model_, S)
        return certify_weighted(
            values,
            self.calibration_losses_,
            by.weights,
            tau,
            eta,
            delta,
            of=score,
            largest_weight=by.largest,
            reference=reference,
            reference_weights=weights,
        )

    def accepts(self, X: Rows, rule: FlagRule, *, groups: Any = None, weights: Any = None) -> Any:
        """Whether the rule accepts each row; the score it needs is computed here.

        `groups` and `weights` are those of `loss_bound`.
        """
        check_rule(rule)
        values = as_array(self.scores(X, rule.score, groups=groups, weights=weights))
        return like_rows(as_rows(X), rule.accepts(values, rule.score), ["accepted"])

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

        A row is accepted exactly when ``probability(X, tau) * exceedance_cost <= review_cost``.
        Each cost is one number, or one number per row. With labelled rows `X_val`, `y_val` that
        `fit` has not seen, the result has an exact interval for the share above tau among the
        accepted. See `locuscore.route_by_cost`.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("route_by_cost needs both X_val and y_val, or neither.")
        tau = one_tau(tau)
        labelled: dict[str, Any] = {}
        if X_val is not None and y_val is not None:
            p_cal, z_cal = self._scores_and_losses(X_val, y_val, ProbabilityScore(tau))
            labelled = {"probability_cal": p_cal, "losses_cal": z_cal, "tau": tau, "delta": delta}
        p = as_array(self.probability(X, tau))
        return route_by_cost(p, review_cost, exceedance_cost, **labelled)

    def _scores_and_losses(
        self, X: Rows, y: ArrayLike, score: Score, given: Given = NOTHING_GIVEN
    ) -> tuple[FloatArray, FloatArray]:
        """One score and the loss of each labelled row; the predictor is asked once per row."""
        check_is_fitted(self)
        check_predictor(self.predictor_)
        X = self._check_rows(X)
        outputs = self.signals_.outputs(self.predictor_, X)
        z, values = self._losses(outputs, y), np.empty((n_rows(X), 1))
        with unseen_said_once(self.schema_, X):
            for block in self._blocks(outputs, given.if_needed([score])):
                self._evaluate(block, [score], values)
        return values[:, 0], z
