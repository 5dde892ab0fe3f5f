"""Fits with a second opinion of each kind, which several test files share."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from locuscore import Locus, cost, pinball
from locuscore.engines import Forest

FEW = Forest(n_trees=5, min_samples_leaf=10)
COSTS = [[0, 1, 4], [2, 0, 1], [8, 3, 0]]
NAMES = np.array(["low", "middle", "high"])


def first(X):
    """A predictor that misses a wave."""
    return np.asarray(X)[:, 0]


def waves(n=200, seed=0):
    """Rows of three numbers, and targets that are the first of them plus a wave and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, X[:, 0] + 2 * np.sin(6 * X[:, 1]) + (0.1 + 0.4 * X[:, 2]) * rng.normal(size=n)


def labels(y):
    return NAMES[np.digitize(y, [0.0, 1.5])]


def classifier(seed=100):
    """Logistic regression that was trained on other rows; it cannot follow the wave."""
    X, y = waves(200, seed)
    return LogisticRegression().fit(X, labels(y))


def of_errors(X, y, predictor=first, **settings):
    return Locus(predictor, **{"engine": FEW, "random_state": 0} | settings).fit(X, y)


def of_classes(X, y, **settings):
    given = {"engine": FEW, "random_state": 0, "loss": "zero_one"} | settings
    return Locus(classifier(), **given).fit(X, labels(y))


def of_sizes(X, y, **settings):
    given = {"engine": FEW, "random_state": 0} | settings
    return Locus(**given).fit_losses(X, np.abs(y - first(X)))


KINDS = {
    "error": of_errors,
    "squared error": lambda X, y, **more: of_errors(X, y, loss="squared", **more),
    "pinball": lambda X, y, **more: of_errors(X, y, loss=pinball(0.8), **more),
    "class": of_classes,
    "class, log": lambda X, y, **more: of_classes(X, y, loss="log", **more),
    "class, cost": lambda X, y, **more: of_classes(X, y, loss=cost(COSTS, NAMES), **more),
    "size": of_sizes,
}


def opinion_of(locus):
    """The part that was learned; None where there is no opinion."""
    return None if locus.signals_.opinion is None else locus.signals_.opinion.part


def kind_of(locus):
    return type(opinion_of(locus)).__name__


def split_columns(S, locus):
    """Signals without the opinion's columns, and these."""
    width = opinion_of(locus).WIDTH
    return S[:, :-width], S[:, -width:]
