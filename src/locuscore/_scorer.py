"""Scorer: rows in, named columns out; the unit that is deployed."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from locuscore._calibration import conformal_rank, smallest_n
from locuscore._frames import Schema, as_batch, columns_like, n_rows, numbered
from locuscore._locus import Locus
from locuscore._predictor import predict
from locuscore._protocols import Rows
from locuscore._rules import FlagRule, Score
from locuscore._validation import LocusWarning, check_alpha


@dataclass(frozen=True)
class Scorer:
    """A fitted `Locus` with the alphas and the rule it is deployed with: rows in, columns out.

    Calling it on a pandas or polars frame, an Arrow table or record batch, or an array gives, in
    this order, ``prediction`` (``prediction_0, prediction_1, ...`` for several outputs; none
    without a predictor), ``bound_<alpha>`` for each alpha, and with a rule ``score``, what it
    thresholds, and ``flag``: true where the rule does not accept. A frame gives a frame of its kind
    with its index, an array a dict of arrays. Each row is scored by itself, so batching and
    sharding change numbers by rounding only; nothing is random, and threads may share a scorer.

    The batch must have the columns of `fit`, in the same order; it may be another kind of frame.
    Numeric predictions are given as floats. A bound is infinite where D2 has too few rows for its
    alpha, of which `Scorer` warns once, when made.

    Parameters
    ----------
    locus
        A fitted `Locus`.
    rule
        A `FlagRule` on a score of this estimator, or None.
    alphas
        One bound column for each.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=1000)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, y)
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1), alphas=(0.1, 0.05))
    >>> list(scorer(X[:3]))
    ['prediction', 'bound_0.1', 'bound_0.05', 'score', 'flag']
    """

    locus: Locus
    rule: FlagRule | None = None
    alphas: Sequence[float] = (0.1,)

    def __post_init__(self) -> None:
        check_is_fitted(self.locus)
        alphas = tuple(float(alpha) for alpha in np.atleast_1d(check_alpha(self.alphas)))
        if len(set(alphas)) < len(alphas):
            raise ValueError(f"each alpha is one column; got {alphas}.")
        object.__setattr__(self, "alphas", alphas)
        if self.rule is not None and self.rule.score.kind == "other":
            raise ValueError(
                f"the rule thresholds {self.rule.score}, which a Locus cannot compute; a Scorer "
                "needs a rule on its bound, exceedance or tail."
            )
        self._warn_if_too_few()

    @property
    def schema(self) -> Schema:
        """Kind of rows, names and types of the columns that a batch must have."""
        return self.locus.schema_

    @property
    def columns(self) -> list[str]:
        """Names of the columns a batch gives, in order; one prediction is assumed."""
        first = [] if self.locus.predictor_ is None else ["prediction"]
        last = [] if self.rule is None else ["score", "flag"]
        return [*first, *numbered("bound", np.array(self.alphas)), *last]

    @property
    def card(self) -> str:
        """What is guaranteed: the rule's card, or without a rule one sentence on the bounds."""
        if self.rule is not None:
            return str(self.rule)
        shares = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return (
            f"Over new rows exchangeable with the {len(self.locus.tails_)} calibration rows, the "
            f"loss exceeds its bound for at most the share alpha = {shares} (Theorem 1)."
        )

    def __call__(self, batch: Any) -> Any:
        """Score a batch of rows, possibly empty."""
        given, one_batch = as_batch(batch)
        X = self.schema.conform(given)
        columns = self._predictions(X) | self._scores(X)
        return columns_like(given, columns, one_batch=one_batch)

    def _predictions(self, X: Rows) -> dict[str, np.ndarray]:
        predictor = self.locus.predictor_
        if predictor is None:
            return {}
        classes = getattr(predictor, "classes_", None)
        if n_rows(X):
            values = predict(predictor, X)
        else:  # most predictors refuse to predict nothing
            values = np.empty(0, dtype=None if classes is None else np.asarray(classes).dtype)
        if classes is None and values.dtype.kind in "biuf":
            values = values.astype(np.float64)
        if values.ndim == 1:
            return {"prediction": values}
        return {f"prediction_{j}": column for j, column in enumerate(values.T)}

    def _scores(self, X: Rows) -> dict[str, np.ndarray]:
        wanted = [Score.bound(alpha) for alpha in self.alphas]
        if self.rule is not None:
            wanted.append(self.rule.score)
        values = self.locus.joint_scores(X, wanted)
        columns = dict(zip(numbered("bound", np.array(self.alphas)), values.T, strict=False))
        if self.rule is None:
            return columns
        score = values[:, -1]
        return columns | {"score": score, "flag": ~self.rule.accepts(score, self.rule.score)}

    def _warn_if_too_few(self) -> None:
        n, smallest = len(self.locus.tails_), min(self.alphas)
        if conformal_rank(n, smallest) > n:
            warnings.warn(
                f"{n} calibration rows are too few for alpha = {smallest:g}: its bound is the top "
                f"of the support for every row. At least {smallest_n(smallest)} are needed.",
                LocusWarning,
                stacklevel=4,
            )
