"""Cheap engines, and the quickest fit, that several test files share."""

import numpy as np
from sklearn.base import BaseEstimator

from locuscore import Locus
from locuscore.draws import NormalDraws
from locuscore.draws._lazy import LazyDraws


def at_once(draws):
    """The laws of all rows, where many are made only when they are asked for."""
    return draws.make(np.arange(draws.shape[0])) if isinstance(draws, LazyDraws) else draws


class ConstantNormal(BaseEstimator):
    """One normal law for all rows, and `n_draws` copies of it."""

    def __init__(self, n_draws=1):
        self.n_draws = n_draws

    def fit(self, S, z):
        self.location_, self.scale_ = float(np.mean(z)), float(np.std(z)) or 1.0
        return self

    def predict_draws(self, S):
        shape = (len(S), self.n_draws)
        return NormalDraws(np.full(shape, self.location_), np.full(shape, self.scale_))


class FirstSignalNormal(BaseEstimator):
    """A normal law around the first signal; writes down what it was given."""

    def __init__(self, seen=None, n_draws=1):
        self.seen = seen
        self.n_draws = n_draws

    def __sklearn_clone__(self):  # the list is shared with the test
        return type(self)(self.seen, self.n_draws)

    def fit(self, S, z):
        self._note("fit", S)
        self.scale_ = float(np.std(z)) or 1.0
        return self

    def predict_draws(self, S):
        self._note("predict_draws", S)
        location = np.repeat(np.nan_to_num(S[:, [0]]), self.n_draws, axis=1)
        return NormalDraws(location, np.full(location.shape, self.scale_))

    def _note(self, method, S):
        if self.seen is not None:
            self.seen.append((method, np.array(S)))


def zeros(X):
    return np.zeros(X.shape[0])


def quick(predictor=zeros, **settings):
    """A Locus that fits in no time, for tests of everything but its scores."""
    small = {"engine": ConstantNormal(), "signals": ["x", "predictor"], "random_state": 0}
    return Locus(predictor, **small | settings)
