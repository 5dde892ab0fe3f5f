"""Learned weights: how many times as often rows like this one come in the target as in D1.

A classifier that tells target rows from rows of D1 with probability p knows the ratio of the two
laws, ``p / (1 - p)`` times the ratio of their numbers of rows. Boosted trees and a linear model are
averaged, with the weight that suits rows left out, and the log-odds of the average are corrected by
a logistic regression on rows left out. That takes away what models only seem to know: without any
shift, 400 rows of 8 features each, E|w_hat - w| / 2 is 0.02 with it and 0.07 without.
benchmarks/choices/shift.py compares models, corrections and clips under shifts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from locuscore._inputs.encoder import Encoder
from locuscore._inputs.opinion_models import boosted_classes, folds_of, linear_classes, log_loss
from locuscore._protocols import FloatArray, Rows
from locuscore._shared.checks import one_per_row
from locuscore._shared.frames import column_names, n_rows, take_rows
from locuscore._shared.kept import Kept
from locuscore._shared.seeds import spawn_seeds
from locuscore._shared.threads import few_threads

CLIP = 30.0  # weights lie between its inverse and it; the mean over D1 is about 1
FEWEST_ROWS = 30  # of D1, and of the target
MOST_ROWS = 2**53  # that an archive can speak of
MOST_TARGET_ROWS = 10_000  # or as many as D1 has: more teach little and take time
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)  # of boosted trees beside a linear model
LARGEST_ODDS = 1e6
LARGEST_SIGNAL = 1e100  # a linear model squares them
HARDLY_SHRUNK = 1e6  # strength of the correction: two numbers from all rows


@dataclass(frozen=True, eq=False)
class DensityRatio:
    """The learned ratio of the law of target rows to that of D1, between 1 / CLIP and CLIP.

    `share` is that of the boosted model in the average; one of no share is None. `slope` and
    `start` correct the logarithm of the odds, and `start` includes the numbers of rows.
    """

    ARCHIVE = Kept(
        "DensityRatio",
        fields=("encoder", "boosted", "linear"),
        single=("share", "slope", "start", "n_source", "n_target"),
    )

    encoder: Encoder
    boosted: Any
    linear: Any
    share: float
    slope: float
    start: float
    n_source: int
    n_target: int

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return the ratio that an archive holds, if its parts are what it computes with."""
        found = cls(**parts)
        numbers = (found.share, found.slope, found.start)
        if not isinstance(found.encoder, Encoder):
            raise ValueError("learned weights have no encoder")
        if not all(
            isinstance(number, float) and abs(number) < LARGEST_SIGNAL for number in numbers
        ):
            raise ValueError("learned weights are corrected by something that is no number")
        if found.slope < 0:
            raise ValueError("learned weights fall where the odds of the target rise")
        counts = (found.n_source, found.n_target)
        if not all(type(n) is int and FEWEST_ROWS <= n <= MOST_ROWS for n in counts):
            raise ValueError("learned weights come from an impossible number of rows")
        if not 0 <= found.share <= 1:
            raise ValueError("learned weights average their models by an impossible share")
        for model, share in ((found.boosted, found.share), (found.linear, 1 - found.share)):
            classes = getattr(model, "classes_", None)
            if (model is None and share) or (model is not None and not _are_two(classes)):
                raise ValueError("learned weights lack a model of two classes")
        return found

    @property
    def words(self) -> str:
        """Where the weights come from, and how far they can go."""
        return (
            f"The ratio was learned by telling {self.n_target} target rows from {self.n_source} "
            f"rows of D1, and was clipped to lie between 1/{CLIP:g} and {CLIP:g}."
        )

    def __call__(self, X: Rows) -> FloatArray:
        """The ratio at each row."""
        S = _squarable(self.encoder.transform(X))
        p = np.zeros(len(S))
        for model, share in ((self.boosted, self.share), (self.linear, 1 - self.share)):
            if share:
                told = np.asarray(model.predict_proba(S))[:, 1]
                p += share * one_per_row(told, len(S), "learned weights")
        limit = np.log(CLIP)
        return np.exp(np.clip(self.slope * _log_odds(p) + self.start, -limit, limit))


def learn_ratio(source: Rows, target: Rows, seed: int) -> DensityRatio:
    """Learn the ratio from rows of D1 and of the target, both of one kind and without labels."""
    if not column_names(source):
        raise ValueError(
            "weights are learned from the columns of X, and these rows have none; pass known "
            "weights to Shifted(weights), an array or a function of X."
        )
    for rows, name in ((source, "D1"), (target, "the target")):
        check_enough(rows, name)
    n, n_target = n_rows(source), n_rows(target)
    target_seed, fold_seed, own_seed = spawn_seeds(seed, 3)
    most = max(n, MOST_TARGET_ROWS)
    if n_target > most:
        some = np.random.default_rng(target_seed).choice(n_target, most, replace=False)
        target = take_rows(target, np.sort(some))
    encoder = Encoder().fit(source)
    S = _squarable(np.vstack([encoder.transform(source), encoder.transform(target)]))
    codes = np.repeat([0, 1], [n, len(S) - n])
    folds = folds_of(len(S), fold_seed)
    with few_threads(len(S)):
        linear = linear_classes(S, codes, folds, 2)
        boosted = boosted_classes(S, codes, folds, own_seed, 2)
    first = linear if boosted is None else boosted  # of two classes there is always one

    def average(share: float) -> FloatArray:
        return share * first.out_of_fold + (1 - share) * linear.out_of_fold

    share = min(SHARES, key=lambda one: log_loss(codes, average(one)))
    # By rows left out, so that it sees how sure the models are of rows they do not know.
    correction = LogisticRegression(C=HARDLY_SHRUNK)
    correction.fit(_log_odds(average(share)[:, 1])[:, None], codes)
    # A slope below zero is chance: nothing tells the rows apart, and all weigh the same.
    slope = max(float(correction.coef_[0, 0]), 0.0)
    start = float(correction.intercept_[0] + np.log(n / (len(S) - n))) if slope else 0.0
    return DensityRatio(
        encoder,
        first.model if share else None,
        linear.model if share < 1 else None,
        share,
        slope,
        start,
        n,
        n_target,
    )


def check_enough(rows: Rows, name: str) -> None:
    """Raise if rows are too few to learn weights from."""
    if n_rows(rows) < FEWEST_ROWS:
        raise ValueError(
            f"{name} has {n_rows(rows)} rows, and weights are learned from {FEWEST_ROWS} at least; "
            "pass more rows, or known weights to Shifted(weights)."
        )


def _log_odds(p: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(p, 1 / LARGEST_ODDS, 1 - 1 / LARGEST_ODDS)), dtype=np.float64)


def _squarable(S: FloatArray) -> FloatArray:
    return np.clip(S, -LARGEST_SIGNAL, LARGEST_SIGNAL)


def _are_two(classes: Any) -> bool:
    return isinstance(classes, np.ndarray) and classes.tolist() == [0, 1]
