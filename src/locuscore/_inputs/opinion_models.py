"""The models of a second opinion, and what they say of rows they have not seen.

D1 is divided into five parts, of whole clusters where rows come in clusters. Each row of D1 is
shown what a model says that was learned without its part; a new row is shown what one model of all
of D1 says. How long to boost is decided by the rows left out, too.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.folds import Folds, make_folds

N_FOLDS = 5
STEP = 5  # rounds of boosting between two comparisons
MORE_ROUNDS = (60, 240)  # go on if the best number of rounds is near the first of these
NEAR = 0.75
LEAVES = 15
RATE_OF_NUMBERS, RATE_OF_CLASSES = 0.15, 0.1  # of learning
MOST_BOOSTED = 6  # classes; each needs trees of its own, and more classes need many rows
FEWEST_PER_CLASS = 500

Error = Callable[[np.ndarray, FloatArray], float]  # target and prediction -> a sum over rows
Stages = Callable[[Any, FloatArray], Iterator[FloatArray]]  # predictions after each round


@dataclass(frozen=True, eq=False)
class Learned:
    """A model of all rows, and what models that were learned without them say of each, (n, k)."""

    model: Any
    out_of_fold: FloatArray


def folds_of(n: int, seed: int, clusters: IntArray | None = None) -> Folds:
    """Rows to learn from and rows left out, five times, see `make_folds`."""
    return make_folds(n, N_FOLDS, seed, clusters)


def boosted_numbers(S: FloatArray, target: FloatArray, folds: Folds, seed: int) -> Learned:
    """Boosted trees for a number, by squared error."""
    from locuscore._shared.boosting import BoostedTrees  # noqa: PLC0415 - when first used

    def stages(fitted: Any, rows: FloatArray) -> Iterator[FloatArray]:
        for prediction in fitted.staged_predict(rows):
            yield prediction[:, None]

    return _boosted(
        _trees(BoostedTrees, RATE_OF_NUMBERS, seed), S, target, folds, stages, _squared_error
    )


def boosted_classes(
    S: FloatArray, codes: IntArray, folds: Folds, seed: int, width: int
) -> Learned | None:
    """Boosted trees for a class, by log loss; None where classes are many and rows are few."""
    n_classes = len(np.unique(codes))
    if n_classes > MOST_BOOSTED and len(codes) < FEWEST_PER_CLASS * n_classes:
        return None
    from locuscore._shared.boosting import BoostedClasses  # noqa: PLC0415 - when first used

    def stages(fitted: Any, rows: FloatArray) -> Iterator[FloatArray]:
        for p in fitted.staged_predict_proba(rows):
            yield spread_out(p, fitted.classes_, width)

    trees = _trees(BoostedClasses, RATE_OF_CLASSES, seed)
    return _boosted(trees, S, codes, folds, stages, log_loss)


def linear_classes(S: FloatArray, codes: IntArray, folds: Folds, width: int) -> Learned:
    """Logistic regression on standardised signals."""
    from sklearn.impute import SimpleImputer  # noqa: PLC0415 - when first used
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    model = make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler(), LogisticRegression()
    )
    found = np.empty((len(S), width))
    with warnings.catch_warnings():
        # An opinion that has not converged is one all the same, and is weighed by held-out rows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for kept, out in folds:
            one = clone(model).fit(S[kept], codes[kept])
            found[out] = spread_out(one.predict_proba(S[out]), one.classes_, width)
        return Learned(model.fit(S, codes), found)


def spread_out(p: FloatArray, classes: IntArray, width: int) -> FloatArray:
    """Probabilities of all classes, where a model has seen some of them."""
    full = np.zeros((len(p), width))
    full[:, classes] = p
    return full


def log_loss(codes: np.ndarray, p: FloatArray) -> float:
    """Sum of ``-log p`` of the classes that came."""
    chosen = p[np.arange(len(codes)), codes]
    return -float(np.sum(np.log(np.maximum(chosen, 1e-6))))


def _trees(kind: Any, rate: float, seed: int) -> Any:
    return kind(learning_rate=rate, max_leaf_nodes=LEAVES, early_stopping=False, random_state=seed)


def _squared_error(target: np.ndarray, prediction: FloatArray) -> float:
    return float(np.sum((target - prediction[:, 0]) ** 2))


def _boosted(
    model: Any, S: FloatArray, target: np.ndarray, folds: Folds, stages: Stages, error: Error
) -> Learned:
    """As many rounds as have the smallest error on the rows left out."""
    models = [clone(model).set_params(warm_start=True) for _ in folds]
    best = 0
    for n_rounds in MORE_ROUNDS:
        errors = np.zeros(n_rounds // STEP)
        for one, (kept, out) in zip(models, folds, strict=True):
            one.set_params(max_iter=n_rounds).fit(S[kept], target[kept])
            for place, prediction in enumerate(stages(one, S[out]), start=1):
                if place % STEP == 0:
                    errors[place // STEP - 1] += error(target[out], prediction)
        best = STEP * (int(np.argmin(errors)) + 1)
        if best < NEAR * n_rounds:
            break
    parts = [
        next(islice(stages(one, S[out]), best - 1, None))
        for one, (_, out) in zip(models, folds, strict=True)
    ]
    found = np.empty((len(S), parts[0].shape[1]))
    for (_, out), part in zip(folds, parts, strict=True):
        found[out] = part
    return Learned(clone(model).set_params(max_iter=best).fit(S, target), found)
