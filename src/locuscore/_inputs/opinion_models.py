"""The models of a second opinion: five, each learned without one fifth of D1.

A row of D1 is shown what the model says that was learned without it, a new row the mean of all
five. How long to boost is decided by the rows left out, too.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.boosting import BoostedClasses, BoostedTrees

N_FOLDS = 5
STEP = 5  # rounds of boosting between two comparisons
MORE_ROUNDS = (60, 240)  # go on if the best number of rounds is near the first of these
NEAR = 0.75
LEAVES = 15
RATE = {BoostedTrees: 0.15, BoostedClasses: 0.1}  # of learning
MOST_BOOSTED = 6  # classes; each needs trees of its own, and more classes need many rows
FEWEST_PER_CLASS = 500

Error = Callable[[np.ndarray, FloatArray], float]  # target and prediction -> a sum over rows
Predict = Callable[[Any, FloatArray], FloatArray]
Folds = list[tuple[IntArray, IntArray]]  # rows to learn from, rows left out


def folds_of(n: int, seed: int) -> Folds:
    """Rows to learn from and rows left out, five times."""
    return list(KFold(N_FOLDS, shuffle=True, random_state=seed).split(np.empty((n, 0))))


def held_out(
    models: list[Any], S: FloatArray, folds: Folds, predict: Predict, width: int
) -> FloatArray:
    """What each row of D1 is told by the model that was learned without it, (n, width)."""
    found = np.empty((len(S), width))
    for model, (_, out) in zip(models, folds, strict=True):
        found[out] = predict(model, S[out])
    return found


def boosted_numbers(S: FloatArray, target: FloatArray, folds: Folds, seed: int) -> list[Any]:
    """Boosted trees for a number, by squared error."""
    model = _trees(BoostedTrees, seed)
    return _boosted(model, S, target, folds, BoostedTrees.staged_predict, _squared_error)


def boosted_classes(S: FloatArray, codes: IntArray, folds: Folds, seed: int) -> list[Any]:
    """Boosted trees for a class, by log loss; none where classes are many and rows are few."""
    n_classes = len(np.unique(codes))
    if n_classes > MOST_BOOSTED and len(codes) < FEWEST_PER_CLASS * n_classes:
        return []
    model = _trees(BoostedClasses, seed)
    width = int(codes.max()) + 1

    def stages(fitted: Any, rows: FloatArray) -> Iterator[FloatArray]:
        for p in fitted.staged_predict_proba(rows):
            yield spread_out(p, fitted.classes_, width)

    return _boosted(model, S, codes, folds, stages, log_loss)


def linear_classes(S: FloatArray, codes: IntArray, folds: Folds) -> list[Any]:
    """Logistic regression on standardised signals."""
    model = make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler(), LogisticRegression()
    )
    with warnings.catch_warnings():
        # An opinion that has not converged is one all the same, and is weighed by held-out rows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [clone(model).fit(S[kept], codes[kept]) for kept, _ in folds]


def spread_out(p: FloatArray, classes: IntArray, width: int) -> FloatArray:
    """Probabilities of all classes, where a model has seen some of them."""
    full = np.zeros((len(p), width))
    full[:, classes] = p
    return full


def log_loss(codes: np.ndarray, p: FloatArray) -> float:
    """Sum of ``-log p`` of the classes that came."""
    chosen = p[np.arange(len(codes)), codes]
    return -float(np.sum(np.log(np.maximum(chosen, 1e-6))))


def _trees(kind: Any, seed: int) -> Any:
    return kind(
        learning_rate=RATE[kind], max_leaf_nodes=LEAVES, early_stopping=False, random_state=seed
    )


def _squared_error(target: np.ndarray, prediction: FloatArray) -> float:
    return float(np.sum((target - prediction) ** 2))


def _boosted(
    model: Any,
    S: FloatArray,
    target: np.ndarray,
    folds: Folds,
    stages: Callable[[Any, FloatArray], Iterator[FloatArray]],
    error: Error,
) -> list[Any]:
    """Five models with the number of rounds that has the smallest error on the rows left out."""
    models = [clone(model).set_params(warm_start=True) for _ in folds]
    errors = np.empty(0)
    for n_rounds in MORE_ROUNDS:
        errors = np.zeros(n_rounds // STEP)
        for one, (kept, out) in zip(models, folds, strict=True):
            one.set_params(max_iter=n_rounds).fit(S[kept], target[kept])
            for place, prediction in enumerate(stages(one, S[out]), start=1):
                if place % STEP == 0:
                    errors[place // STEP - 1] += error(target[out], prediction)
        if STEP * (int(np.argmin(errors)) + 1) < NEAR * n_rounds:
            break
    best = STEP * (int(np.argmin(errors)) + 1)
    for one in models:
        # Later rounds are left off: scikit-learn has no public way to use the first ones only.
        del one._predictors[best:]
        one.set_params(max_iter=best, warm_start=False)
    return models
