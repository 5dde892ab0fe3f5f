"""Every engine through the same laws, and broken twins that each law must catch."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from locuscore.draws import NormalDraws, RankedDraws, StepDraws
from locuscore.engines import Bagged, FlexCode, Forest, Gaussian, QuantileGrid, Scale
from locuscore.testing._contracts import check_engine


def boosted(**parameters):
    return HistGradientBoostingRegressor(max_iter=20, **parameters)


def small_scale(**parameters):
    return Scale(boosted(loss="poisson"), cv=3, **parameters)


ENGINES = {
    "Forest": Forest(n_trees=20),
    "Scale": small_scale(),
    "Gaussian": Gaussian(boosted(), boosted()),
    "QuantileGrid": QuantileGrid((0.2, 0.5, 0.8, 0.95), boosted(loss="quantile", quantile=0.5)),
    "Bagged": Bagged(small_scale(), n_draws=3),
    "FlexCode": FlexCode(LinearRegression(), n_basis=4, cv=2),
    "Gaussian, linear": Gaussian(LinearRegression(), LinearRegression()),
}


@pytest.mark.parametrize("name", ENGINES)
def test_our_engines_keep_the_contract(name):
    check_engine(ENGINES[name])


class Sample(BaseEstimator):
    """A sound engine to break: the losses of D1 sorted, cut into two groups by the first signal."""

    def fit(self, S, z):
        self.cut_ = np.median(S[:, 0])
        self.low_, self.high_ = (np.sort(z[part]) for part in self._parts(S, z))
        self.scale_ = (np.std(z) or np.abs(z).max()) * 0.1
        return self

    def _parts(self, S, z):
        return np.argsort(S[:, 0])[: len(z) // 2], np.argsort(S[:, 0])[len(z) // 2 :]

    def points(self, S):
        return np.where(S[:, :1] <= self.cut_, self.low_, self.high_)[:, None, :]

    def law(self, points, top, scale):
        return StepDraws(points, top, scale)

    def predict_draws(self, S):
        points = self.points(S)
        return self.law(points, points.max(axis=(1, 2)), np.full(len(S), self.scale_))


class LowerInverse(Sample):
    class Law(StepDraws):
        def isf(self, level):
            return super().isf(np.minimum(np.asarray(level) + 1e-6, 1.0))

    def law(self, points, top, scale):
        return self.Law(points, top, scale)


class EndsEarly(Sample):
    class Law(StepDraws):
        def sf(self, z):
            return np.where(z >= self.top[:, None], 0.0, super().sf(z))

        def isf(self, level):
            return np.minimum(super().isf(level), self.top[:, None])

    def law(self, points, top, scale):
        return self.Law(points, top, scale)


class TwoDraws(Sample):
    """The same points shared out to two draws; sound as long as its law is."""

    Law = StepDraws

    def law(self, points, top, scale):
        return self.Law(points.reshape(len(points), 2, -1), top, scale)


class FirstDrawForAll(TwoDraws):
    class Law(StepDraws):
        def average(self):
            return StepDraws(self.points[:, :1], self.top, self.scale)


class AlwaysTheLargest(TwoDraws):
    class Law(StepDraws):
        def envelope(self, rank):
            return super().envelope(np.ones_like(rank))


class OneOrderForAllRows(Sample):
    """Takes levels that each row has for itself for shared ones."""

    class Law(StepDraws):
        def joint_isf(self, level):
            return super().joint_isf(level if level.ndim == 1 else level[0])

    def law(self, points, top, scale):
        return self.Law(points, top, scale)


class ShortByAnUlp(TwoDraws):
    class Law(StepDraws):
        def envelope(self, rank):
            return ShortByAnUlp.Envelope(self, rank)

    class Envelope(RankedDraws):
        def joint_isf(self, level):
            return np.nextafter(super().joint_isf(level), -np.inf)


class WeighsNothing(Sample):
    class Law(StepDraws):
        floats_per_row = 0

    def law(self, points, top, scale):
        return self.Law(points, top, scale)


class Bare(TwoDraws):
    """Laws of somebody who has read the protocol alone."""

    def law(self, points, top, scale):
        draws = super().law(points, top, scale)
        return SimpleNamespace(shape=draws.shape, sf=draws.sf, isf=draws.isf)


class RandomAfterFit(Sample):
    def points(self, S):
        return super().points(S) * np.random.default_rng().uniform(0.9, 1.1)


class DependsOnBatch(Sample):
    def points(self, S):
        return super().points(S) * (1 + S[:, 0].mean())


class NotScaled(Sample):
    """An absolute offset, as in ``log(z + 0.1)``."""

    def points(self, S):
        return super().points(S) + 0.1


class NotMonotone(Sample):
    class Law(StepDraws):
        def sf(self, z):
            return np.clip(super().sf(z) + 0.1 * np.sin(20 * np.asarray(z)), 0.0, 1.0)

    def law(self, points, top, scale):
        return self.Law(points, top, scale)


class MissingBecomesNaN(Sample):
    def points(self, S):
        return super().points(S) + 0.0 * S[:, 1].reshape(-1, 1, 1)


class ForgetsItself(Sample):
    def fit(self, S, z):
        super().fit(S, z)


class ChangesItsArguments(Sample):
    def fit(self, S, z):
        z.sort()
        return super().fit(S, z)


class OneColumnTooMany(Sample):
    def predict_draws(self, S):
        return super().predict_draws(np.vstack([S, S[:1]]))


class ZeroScale(Sample):
    def predict_draws(self, S):
        scale = np.where(S[:, :1] > 0.5, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return NormalDraws(np.zeros((len(S), 1)), scale / scale)


class LosesItselfInAPickle(Sample):
    def __getstate__(self):
        state = self.__dict__.copy()
        if "low_" in state:
            state["low_"] = state["low_"] * 2
        return state


class RandomInFit(Sample):
    """Reads no seed, so that a clone is another engine."""

    def points(self, S):
        return super().points(S) * self.factor_

    def fit(self, S, z):
        self.factor_ = np.random.default_rng().uniform(0.5, 2.0)
        return super().fit(S, z)


class LearnsFromQueries(Sample):
    """Adapts to the rows it is asked about, so D2 changes its laws (here: rows below zero)."""

    def fit(self, S, z):
        self.lowest_ = 0.0
        return super().fit(S, z)

    def points(self, S):
        self.lowest_ = min(self.lowest_, float(S.min()))
        return super().points(S) * (1 - self.lowest_)


class Refuses(Sample):
    def fit(self, S, z):
        if np.isnan(S).any():
            raise ValueError("missing signals are not accepted")
        return super().fit(S, z)


TWINS = {
    LowerInverse: "contract 1, upper inverse",
    EndsEarly: "contract 4, no law ends early",
    FirstDrawForAll: "draws, what a family overrides: average",
    AlwaysTheLargest: "draws, what a family overrides: envelope",
    OneOrderForAllRows: "draws, what a family overrides: joint_isf.*one set per row",
    ShortByAnUlp: "contract 2, rounding is guarded once",
    WeighsNothing: "draws, what a family overrides: floats_per_row",
    RandomAfterFit: "contract 5, nothing is random after fit",
    DependsOnBatch: "contract 6, rows are independent",
    LearnsFromQueries: "contract 7, D2 is held out",
    NotScaled: "contract 8, scale",
    NotMonotone: "contract 9, monotone",
    MissingBecomesNaN: "missing values",
    ForgetsItself: "protocol",
    ChangesItsArguments: "protocol",
    OneColumnTooMany: "protocol",
    ZeroScale: "protocol",
    LosesItselfInAPickle: "contract 10, round trip",
    RandomInFit: "contract 8, scale",
}


@pytest.mark.parametrize("engine", [Sample, TwoDraws, Bare])
def test_the_engines_that_twins_break_are_sound(engine):
    check_engine(engine())


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_engine_is_caught_by_name(twin):
    with pytest.raises(AssertionError, match=TWINS[twin]):
        check_engine(twin())


def test_an_engine_may_refuse_missing_values():
    check_engine(Refuses())
