"""Which rules a fitted Locus makes, and how it applies them."""

import warnings
from collections.abc import Collection, Hashable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from locuscore._inputs.predictor import check_asked_predictor
from locuscore._inputs.unseen import unseen_said_once
from locuscore._inputs.used_rows import (
    RowLabels,
    UsedRows,
    check_fresh,
    check_reference,
    look_up,
)
from locuscore._laws.scores import ProbabilityScore, Score, check_score
from locuscore._protocols import FloatArray, IntArray, Rows
from locuscore._row_plans import RowPlans
from locuscore._row_scores import NOTHING_GIVEN, Given
from locuscore._rules.group_rule import (
    AnyRule,
    GroupRule,
    Rule,
    check_by,
    check_rule,
    check_same_calibration,
    with_each_rule,
)
from locuscore._rules.groups import certify_groups
from locuscore._rules.held_out import Asked, HeldOut
from locuscore._rules.route import Routing, route_by_cost
from locuscore._rules.rule import FlagRule, made_with, tau_rule, with_rows_of_fit
from locuscore._shared.checks import LocusWarning, check_same_order, one_alpha, one_tau
from locuscore._shared.frames import as_array, as_rows, column, like_rows, n_rows
from locuscore._shared.labels import column_or_labels, label_codes, read_labels
from locuscore._shared.targets import as_targets


class RowRules(RowPlans):
    """The methods of `Locus` that make rules and apply them."""

    calibration_signals_: FloatArray
    calibration_losses_: FloatArray
    calibration_inputs_: Rows
    calibration_rows_: IntArray
    fit_rows_: IntArray
    n_labelled_: int
    calibration_clusters_: IntArray | None
    reference_signals_: FloatArray
    used_rows_: UsedRows | None
    unit_: str

    def tau_rule(self, tau: float, alpha: float) -> FlagRule:
        """Accept when the bound at alpha is at most tau (Theorem 3), with this fit's n, k, level.

        See `locuscore.tau_rule`.
        """
        check_is_fitted(self)
        rule = tau_rule(tau, alpha, **self.calibration_.rule_facts(one_alpha(alpha)))
        return self._made_here(rule)

    @property
    def calibration_digest_(self) -> str | None:
        """Tells the calibration from others; None for a kind that has none."""
        return getattr(self.calibration_, "digest", None)

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
        clusters: ArrayLike | str | None = None,
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
        Without fresh rows, `reference` and `starts`, the start is planned on D1: rows of D1 have
        tails from the trees that have not seen them, samples as large as D2 are drawn from them,
        and the start that accepts most on average is taken. Where more than a twentieth of the
        tails of `reference_signals_` are equal, these are the thresholds. Start and thresholds are
        functions of D1 alone.

        If new rows come from another mix than those of `fit` (`calibration.Shifted`), D2 certifies
        by known weights, see `certify_weighted`; learned weights certify nothing. Rows X, y are
        new rows in this respect too: they must be drawn from the target, and are not weighted. For
        labelled rows like those of `fit`, call `certify_weighted` with their weights.

        Rows X, y that are clearly those of `fit` are refused. With `allow_rows_used_in_fit` they
        give a heuristic rule, since they prove nothing. `groups` and `weights` go with X, as in
        `loss_bound`.

        If `fit` was given clusters, whole clusters certify, by `certify_clusters`, and X needs
        `clusters` of its own, labels or the name of a column; new clusters must be independent of
        those of `fit`. Without `reference`, the thresholds for D2 are those of
        `reference_signals_`.
        """
        asked = self._asked(tau, eta, delta, of, reference, starts)
        clusters = clusters if X is None else column_or_labels(as_rows(X), clusters)
        self._check_fresh_rows(X, y, clusters, "certify")
        if X is None or y is None:
            rule = self._held_out(asked.of).certify(asked, self.calibration_.certifies_by)
            check_reference(self.used_rows_, self.schema_, reference)
            return self._made_here(rule)
        if asked.of.alpha is not None:
            self._warn_if_too_few(asked.of.alpha)
        values, z = self._scores_and_losses(X, y, asked.of, Given(groups, weights))
        rule = asked.certified(values, z, clusters)
        if clusters is not None:
            self._warn_of_large_clusters(label_codes(clusters, len(z), "clusters")[1])
        labels = RowLabels(as_targets(y), z)
        return self._on_fresh_rows(rule, X, labels, allow_rows_used_in_fit)

    def certify_groups(
        self,
        by: Any,
        tau: float,
        eta: float,
        delta: float,
        X: Rows | None = None,
        y: ArrayLike | None = None,
        *,
        of: Score | None = None,
        pool: Collection[Hashable] = (),
        allow_rows_used_in_fit: bool = False,
        groups: Any = None,
        weights: Any = None,
    ) -> GroupRule:
        """Certify a threshold per group: ``P(Z > tau | accepted, group) <= eta`` in all at once.

        Without X and y, the calibration rows D2 certify the raw tail probability, and with fresh
        labelled rows any score, as in `certify`; what breaks that guarantee breaks this one. The
        division of delta over the groups and `pool` are those of `certify_groups`.

        Parameters
        ----------
        by
            The name of the column that holds a row's group, or its position in an array; the rule
            reads the groups of new rows from it. Or a function of X, or an array with one label per
            row of X (without X, per row given to `fit` or `recalibrate`); groups of new rows are
            then passed as ``groups=``.
        tau, eta, delta, X, y, of, allow_rows_used_in_fit, groups, weights
            As in `certify`.
        pool
            Groups that share one rule, see `certify_groups`.
        """
        asked, column_of = self._asked(tau, eta, delta, of), _column_of(by)
        if X is None or y is None:
            self._check_fresh_rows(X, y, None, "certify_groups")
            return self._certify_groups_held_out(by, asked, pool)
        if asked.of.alpha is not None:
            self._warn_if_too_few(asked.of.alpha)
        if self.calibration_.n_clusters is not None:
            raise ValueError(
                "this Locus was fitted with clusters, and certify_groups takes rows as "
                "independent; certify by clusters with certify(..., X, y, clusters=...)."
            )
        X = as_rows(X)
        labels = by if column_of is None and not callable(by) else _labels(by, X)
        check_same_order(X=X, groups=labels)
        labels = read_labels(labels, n_rows(X))
        values, z = self._scores_and_losses(X, y, asked.of, Given(groups, weights))
        options: Any = {"of": asked.of, "pool": pool, "by": column_of}
        rule = certify_groups(values, z, labels, *asked.claim, **options)
        known = RowLabels(as_targets(y), z)
        return self._on_fresh_rows(rule, X, known, allow_rows_used_in_fit)

    def _certify_groups_held_out(
        self, by: Any, asked: Asked, pool: Collection[Hashable]
    ) -> GroupRule:
        """Certify on D2, where its rows are independent draws that count alike."""
        rows = self._held_out(asked.of)
        if self.calibration_.certifies_by != "rows":
            raise ValueError(
                "certify_groups takes rows as independent draws from the population of new "
                "rows, and the calibration rows of this Locus have clusters or weights; pass "
                "fresh labelled rows X and y that are."
            )
        options: Any = {"of": asked.of, "pool": pool, "by": _column_of(by)}
        options["reference"] = rows.known_where_tied
        labels = self._calibration_labels(by)
        rule = certify_groups(rows.score, rows.losses, labels, *asked.claim, **options)
        return with_each_rule(rule, self._made_here)

    def _asked(
        self,
        tau: float,
        eta: float,
        delta: float,
        of: Score | None,
        reference: Rows | None = None,
        starts: Sequence[float] | None = None,
    ) -> Asked:
        """What is to be certified; by default of the raw tail at tau."""
        check_is_fitted(self)
        chosen = Score.tail(one_tau(tau)) if of is None else check_score(of)
        other = None if reference is None else as_array(self.scores(reference, chosen))
        return Asked(chosen, (tau, eta, delta), other, starts)

    def _held_out(self, score: Score) -> HeldOut:
        """The rows of D2, if they can certify."""
        if not hasattr(self, "calibration_losses_"):
            raise ValueError(self._no_rows())
        if self.calibration_.no_certificate is not None:
            raise ValueError(self.calibration_.no_certificate)
        return HeldOut(
            scores=lambda S: score.before_calibration(self.loss_model_, S),
            signals=self.calibration_signals_,
            losses=self.calibration_losses_,
            clusters=self.calibration_clusters_,
            weights=self.calibration_.row_weights,
            # A Locus that was loaded and calibrated again has no rows of D1.
            reference_signals=getattr(self, "reference_signals_", None),
            fit_signals=getattr(self, "fit_signals_", None),
            left_out=lambda: self._left_out(score),
        )

    def _made_here(self, rule: FlagRule) -> FlagRule:
        """The rule with its calibration, and in the unit of the losses."""
        return made_with(rule, self.calibration_digest_, self.unit_)

    def _on_fresh_rows(
        self, rule: AnyRule, X: Rows, labels: RowLabels, allow_used: bool
    ) -> AnyRule:
        """The rule with what made it: the calibration, and rows that may be those of `fit`."""
        rule = with_each_rule(rule, self._made_here)
        if self.used_rows_ is None:
            return rule
        found = look_up(self.used_rows_, self.schema_, as_rows(X), labels)
        check_fresh(found, allow_used)
        seen, were_used = (found.n_found, found.n), found.outcome == "used"
        return with_each_rule(rule, lambda part: with_rows_of_fit(part, *seen, were_used=were_used))

    def _calibration_labels(self, by: Any) -> Any:
        """Groups of the rows of D2, by a column, a function, or the labels of all rows of `fit`.

        After `recalibrate`, of all rows that were given to it.
        """
        if _column_of(by) is not None or callable(by):
            return _labels(by, self.calibration_inputs_)
        labels = read_labels(by, self.n_labelled_, "by")
        return [labels[i] for i in self.calibration_rows_]

    def _check_fresh_rows(
        self, X: Rows | None, y: ArrayLike | None, clusters: Any, method: str
    ) -> None:
        """Raise unless fresh rows have labels, and clusters where the rows of `fit` had."""
        if (X is None) != (y is None):
            raise ValueError(
                f"{method} needs both X and y, or neither to use the calibration rows."
            )
        if X is None and clusters is not None:
            raise ValueError(
                "clusters go with fresh rows X and y; those of the calibration rows are known from "
                "fit(X, y, clusters=...)."
            )
        if X is not None and clusters is None and self.calibration_.n_clusters is not None:
            raise ValueError(
                "this Locus was fitted with clusters, so fresh rows need theirs; pass clusters= or "
                "--clusters COLUMN, one label per row (a different one for each row if they are "
                "independent)."
            )
        check_same_order(X=X, clusters=clusters)

    def _warn_of_large_clusters(self, clusters: IntArray) -> None:
        text = self.calibration_.too_large(np.bincount(clusters))
        if text is not None:
            warnings.warn(text, LocusWarning, stacklevel=3)

    def _no_rows(self) -> str:
        """Why there are no calibration rows that could certify."""
        why = "a loaded Locus has no calibration rows"
        if not self.calibration_.holds_rows_out:
            why = "all rows of fit had a part in the loss model, so none of them can certify"
        return f"{why}; pass labelled rows X and y."

    def accepts(self, X: Rows, rule: Rule, *, groups: Any = None, weights: Any = None) -> Any:
        """Whether the rule accepts each row; the score it needs is computed here.

        `groups` and `weights` are those of `loss_bound`. A `GroupRule` without a column takes
        `groups` too: one label per row, the same for the rule and the calibration.
        """
        check_is_fitted(self)
        check_same_calibration(check_rule(rule), self.calibration_digest_)
        X = as_rows(X)
        labels = rule.labels(X, groups)
        groups = self.groups_for_calibration(rule, groups)
        values = as_array(self.scores(X, rule.score, groups=groups, weights=weights))
        return like_rows(X, rule.accepts(values, rule.score, labels), ["accepted"])

    def groups_for_calibration(self, rule: Rule | None, groups: Any) -> Any:
        """Groups that were passed with rows, or None where only the rule asks for them."""
        for_rule = rule is not None and rule.asks == "groups"
        return None if for_rule and self.calibration_.asks != "groups" else groups

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
        allow_rows_used_in_fit: bool = False,
    ) -> Routing:
        """Review the rows that are expected to cost more if accepted, by `probability`.

        A row is accepted exactly when ``probability(X, tau) * exceedance_cost <= review_cost``.
        Each cost is one number, or one number per row. With labelled rows `X_val`, `y_val` that
        `fit` has not seen, the result has an exact interval for the share above tau among the
        accepted. Rows that are clearly those of `fit` are refused, unless
        `allow_rows_used_in_fit`: their interval proves nothing. See `locuscore.route_by_cost`.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("route_by_cost needs both X_val and y_val, or neither.")
        tau = one_tau(tau)
        labelled: dict[str, Any] = {}
        if X_val is not None and self.calibration_.n_clusters is not None:
            raise ValueError(
                "this Locus was fitted with clusters, and the interval from X_val and y_val takes "
                "rows as independent; leave them out."
            )
        if X_val is not None and y_val is not None:
            p_cal, z_cal = self._scores_and_losses(X_val, y_val, ProbabilityScore(tau))
            labelled = {"probability_cal": p_cal, "losses_cal": z_cal, "tau": tau, "delta": delta}
            if self.used_rows_ is not None:
                labels = RowLabels(as_targets(y_val), z_cal)
                found = look_up(self.used_rows_, self.schema_, as_rows(X_val), labels)
                check_fresh(found, allow_rows_used_in_fit)
        p = as_array(self.probability(X, tau))
        return route_by_cost(p, review_cost, exceedance_cost, **labelled)

    def _scores_and_losses(
        self, X: Rows, y: ArrayLike, score: Score, given: Given = NOTHING_GIVEN
    ) -> tuple[FloatArray, FloatArray]:
        """One score and the loss of each labelled row; the predictor is asked once per row."""
        check_is_fitted(self)
        check_asked_predictor(self.predictor_)
        X = self._check_rows(X)
        outputs = self.signals_.outputs(self.predictor_, X)
        z, values = self._losses(outputs, y), np.empty((n_rows(X), 1))
        with unseen_said_once(self.schema_, X):
            for block in self._blocks(outputs, given.if_needed([score])):
                self._evaluate(block, [score], values)
        return values[:, 0], z


def _labels(by: Any, X: Rows) -> Any:
    """Groups of rows, by a column or a function of them."""
    return by(X) if callable(by) else column(X, by)


def _column_of(by: Any) -> str | int | None:
    """The column that tells the groups of new rows; None if a function or labels do."""
    return check_by(by) if isinstance(by, str | Integral) else None
