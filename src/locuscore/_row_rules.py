"""Which rules a fitted Locus makes, and how it applies them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from locuscore._inputs.predictor import check_predictor
from locuscore._inputs.unseen import unseen_said_once
from locuscore._inputs.used_rows import Reuse, UsedRows, check_fresh, check_reference
from locuscore._laws.scores import ProbabilityScore, Score, check_score
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._row_scores import NOTHING_GIVEN, Given, RowScores
from locuscore._rules.certify import certify_threshold
from locuscore._rules.certify_clusters import certify_clusters
from locuscore._rules.route import Routing, route_by_cost
from locuscore._rules.rule import FlagRule, check_rule, tau_rule, with_rows_of_fit
from locuscore._rules.thresholds import ties_heavily
from locuscore._shared.checks import one_alpha, one_tau
from locuscore._shared.frames import as_array, as_rows, like_rows, n_rows


class RowRules(RowScores):
    """The methods of `Locus` that make rules and apply them."""

    calibration_signals_: FloatArray
    calibration_losses_: FloatArray
    calibration_clusters_: IntArray | None
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
        clusters: ArrayLike | None = None,
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

        Rows X, y that are clearly those of `fit` are refused. With `allow_rows_used_in_fit` they
        give a heuristic rule, since they prove nothing. `groups` and `weights` go with X, as in
        `loss_bound`.

        If `fit` was given clusters, whole clusters certify, by `certify_clusters`, and X needs
        `clusters` of its own; new clusters must be independent of those of `fit`. Without
        `reference`, the thresholds for D2 are those of `reference_signals_`.
        """
        check_is_fitted(self)
        chosen = Score.tail(one_tau(tau)) if of is None else check_score(of)
        other = None if reference is None else as_array(self.scores(reference, chosen))
        if (X is None) != (y is None):
            raise ValueError("certify needs both X and y, or neither to use the calibration rows.")
        self._check_clusters(X, clusters)
        if X is not None and y is not None:
            if chosen.alpha is not None:
                self._warn_if_too_few(chosen.alpha)
            values, z = self._scores_and_losses(X, y, chosen, Given(groups, weights))
        elif not hasattr(self, "calibration_losses_"):
            raise ValueError("a loaded Locus has no calibration rows; pass labelled rows X and y.")
        else:
            model, z = self.loss_model_, self.calibration_losses_
            values = chosen.before_calibration(model, self.calibration_signals_)
            check_reference(self.used_rows_, self.schema_, reference)
            known = chosen.before_calibration(model, self.reference_signals_)
            clusters = self.calibration_clusters_
            is_wanted = other is None and (clusters is not None or ties_heavily(known))
            other = known if is_wanted else other
        settings: dict[str, Any] = {"of": chosen, "reference": other, "starts": starts}
        if clusters is None:
            rule = certify_threshold(values, z, tau, eta, delta, **settings)
        else:
            rule = certify_clusters(values, z, clusters, tau, eta, delta, **settings)
        if X is None or y is None or self.used_rows_ is None:
            return rule
        reuse = Reuse(self.used_rows_, self.schema_, "y").add(as_rows(X), as_array(y))
        found = reuse.verdict
        check_fresh(found, allow_rows_used_in_fit)
        return with_rows_of_fit(rule, found.n_found, found.n, were_used=found.outcome == "used")

    def _check_clusters(self, X: Rows | None, clusters: ArrayLike | None) -> None:
        """Raise unless fresh rows have clusters where the rows of `fit` had, and D2 its own."""
        if X is None and clusters is not None:
            raise ValueError(
                "clusters go with fresh rows X and y; those of the calibration rows are known from "
                "fit(X, y, clusters=...)."
            )
        if X is not None and clusters is None and self.calibration_.n_clusters is not None:
            raise ValueError(
                "this Locus was fitted with clusters, so fresh rows need theirs; pass clusters=, "
                "one label per row (a different one for each row if they are independent)."
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
