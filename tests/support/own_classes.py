"""Classes as somebody else would write them, which say how they are kept in an archive."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge

from locuscore import Kept
from locuscore.draws import NormalDraws


@dataclass(frozen=True)
class Spread:
    """A part of `Constant` that occurs nowhere else."""

    ARCHIVE = Kept("constant.Spread", single=("value",))

    value: float


class Constant(BaseEstimator):
    """The losses of D1 as one normal law, moved by a model."""

    ARCHIVE = Kept("Constant", fields=("model_", "spread_"), single=("floor_",), holds=(Spread,))

    def __init__(self, times=1.0, model=None):
        self.times = times
        self.model = model

    def fit(self, S, z):
        self.model_ = Ridge().fit(S, z)
        self.spread_ = Spread(float(np.std(z)))
        self.floor_ = 1e-3
        return self

    def predict_draws(self, S):
        centre = self.model_.predict(S)[:, None]
        scale = np.full_like(centre, self.times * self.spread_.value + self.floor_)
        return NormalDraws(centre, scale)


class Packed(Constant):
    """The same, in a format of its own."""

    ARCHIVE = Kept("Packed", fields=("table",), single=("floor",))

    def to_parts(self):
        table = np.append(self.model_.coef_, [self.model_.intercept_, self.spread_.value])
        return {"table": table, "floor": self.floor_}

    @classmethod
    def from_parts(cls, parts):
        if parts["table"].ndim != 1:
            raise ValueError("its table has one row")
        result = cls(parts["times"])
        *coefficients, start, spread = parts["table"]
        result.model_ = Ridge()
        result.model_.coef_, result.model_.intercept_ = np.array(coefficients), start
        result.spread_, result.floor_ = Spread(float(spread)), parts["floor"]
        return result


class Half(BaseEstimator):
    """A gamma that is one half everywhere."""

    ARCHIVE = Kept("Half", single=("value_",))

    def fit(self, S):
        self.value_ = 0.5
        return self

    def predict(self, S):
        return np.full(len(S), self.value_)


@dataclass(frozen=True)
class FirstColumn:
    """A predictor."""

    ARCHIVE = Kept("FirstColumn", single=("times",))

    times: float = 1.0

    def __call__(self, X):
        return self.times * X[:, 0]
