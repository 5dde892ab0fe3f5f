"""skpro's regressors as engines: three of different kinds, and odd distributions."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.tree import DecisionTreeRegressor

import experiment
from helpers import assert_binomial, assert_close, raises
from locuscore import KNNGamma, Locus
from locuscore._laws.calibration import conformal_rank
from locuscore._laws.distribution import LossDistribution
from locuscore.engines import Bagged

pytestmark = pytest.mark.extra

KINDS = ("NGBoost", "Gaussian process", "bootstrap")
each = pytest.mark.parametrize("kind", KINDS)


def ngboost(dist="Normal"):
    from skpro.regression.ensemble import NGBoostRegressor

    tree = DecisionTreeRegressor(max_depth=2)
    return NGBoostRegressor(dist=dist, n_estimators=8, estimator=tree, verbose=False)


def regressor(kind):
    from skpro.regression.bootstrap import BootstrapRegressor
    from skpro.regression.gp import GaussianProcess

    if kind == "NGBoost":
        return ngboost()
    if kind == "Gaussian process":
        kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1.0)
        return GaussianProcess(kernel, normalize_y=True)
    return BootstrapRegressor(DecisionTreeRegressor(min_samples_leaf=3), n_bootstrap_samples=10)


def engine(of, **parameters):
    from locuscore.engines import FromSkpro

    return FromSkpro(regressor(of) if isinstance(of, str) else of, **parameters)


def data(rng, n):
    S = rng.uniform(size=(n, 2))
    return S, (0.1 + 3 * S[:, 0] ** 2) * np.abs(rng.normal(size=n))


@each
def test_the_contract(kind):
    from locuscore.testing import check_engine

    check_engine(engine(kind))


@each
def test_batches_clones_and_pickles_agree(kind, rng):
    S, z = data(rng, 200)
    new = rng.uniform(size=(20, 2))
    locus = Locus(None, engine=engine(kind), signals="x", random_state=0)
    expected = locus.fit_losses(S, z).loss_bound(new, 0.1)
    for size in (1, 7):
        parts = [locus.loss_bound(new[i : i + size], 0.1) for i in range(0, 20, size)]
        assert_close(np.concatenate(parts), expected, rtol=1e-9)
    assert_close(clone(locus).fit_losses(S, z).loss_bound(new, 0.1), expected)
    assert_close(pickle.loads(pickle.dumps(locus)).loss_bound(new, 0.1), expected)


@pytest.mark.parametrize("gamma", [None, KNNGamma(k=20)])
@each
def test_marginal_validity(kind, gamma, rng, monkeypatch):
    """Theorem 1; the pool is small because skpro builds empirical laws row by row."""
    of = engine(kind) if gamma is None else Bagged(engine(kind), n_draws=2)
    monkeypatch.setitem(experiment.CASES, "skpro", (of, gamma))
    pool = experiment.make_pool("skpro", "zero-inflated", rng, size=4000)
    for n, alpha in ((9, 0.1), (19, 0.3)):
        outcome = experiment.run(pool, n, alpha)
        probability = conformal_rank(n, alpha) / (n + 1)
        trials = len(outcome.z)
        assert_binomial((outcome.tail > outcome.level).sum(), trials, probability, "greater")
        assert_binomial(outcome.covered.sum(), trials, probability, "less")
        outcome.assert_one_event()


@each
def test_a_seed_repeats_a_fit_and_leaves_the_global_one_alone(kind, rng):
    S, z = data(rng, 100)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - must be left alone
    first, again = (engine(kind, random_state=5).fit(S, z).predict_draws(S) for _ in range(2))
    level = np.full((100, 1), 0.1)
    assert_close(first.isf(level), again.isf(level))
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002 - must be left alone


def test_the_laws_are_those_of_the_regressor(rng):
    S, z = data(rng, 200)
    fitted = engine("NGBoost", random_state=0).fit(S, z)
    import pandas as pd

    dist = fitted.regressor_.predict_proba(pd.DataFrame(S, columns=["s0", "s1"]))
    value = np.full((200, 1), 0.8)
    theirs = 1 - dist.cdf(value / fitted.losses_.unit).to_numpy()
    assert_close(fitted.predict_draws(S).sf(value), theirs, rtol=1e-9)


def laws(dist, unit=1.0, low=0.0, high=5.0):
    from locuscore.engines._skpro_laws import Losses, laws_of

    return laws_of(dist, Losses(low, high, unit, 1e-9))


def test_normal_and_log_normal_tails_keep_their_digits():
    from skpro.distributions import LogNormal, Normal

    location, scale = np.array([[0.0], [1.0]]), np.array([[1.0], [0.5]])
    z = np.array([[30.0], [15.0]])
    expected = stats.norm.sf(z, location, scale)
    assert (expected < 1e-100).all()
    assert_close(laws(Normal(location, scale)).sf(z), expected, rtol=1e-12)
    far = np.array([[1e9], [1e9]])
    draws = laws(LogNormal(location, scale), unit=4.0)
    assert_close(draws.sf(far), stats.lognorm.sf(far / 4, scale, scale=np.exp(location)), rtol=1e-9)
    assert_close(draws.sf(np.array([[-1.0], [0.0]])), 1.0)


@pytest.mark.parametrize("unit", [1.0, 8.0])
def test_empirical_laws_are_steps_of_their_points(unit):
    import pandas as pd
    from skpro.distributions import Empirical

    sample = np.array([[0.0, 5.0], [1.0, 5.0], [1.0, 6.0], [4.0, 7.0]])  # points, rows
    index = pd.MultiIndex.from_product([range(4), [10, 11]])
    draws = laws(Empirical(pd.DataFrame({"y": sample.ravel()}, index=index)), unit)
    assert draws.shape == (2, 1)
    assert_close(np.sort(draws.points[:, 0]), unit * np.sort(sample.T, axis=1))
    dist = LossDistribution(draws)
    assert_close(dist.isf(0.5), unit * np.array([1.0, 6.0]))
    assert_close(dist.tail(unit * 1.0) - dist.sf(unit * 1.0), [0.495, 0.0], atol=1e-12)


def test_heavy_tails_keep_their_digits():
    from skpro.distributions import Cauchy, TDistribution

    z, location, scale = np.array([[1e7], [1e8]]), np.array([[0.0], [1.0]]), 2.0
    tails = {
        "t": (TDistribution(location, scale, 2.0), stats.t(2, location, scale)),
        "cauchy": (Cauchy(location, scale), stats.cauchy(location, scale)),
    }
    for dist, exact in tails.values():
        assert_close(laws(dist).survival(z), exact.sf(z), rtol=1e-9)


def odd_distributions():
    import pandas as pd
    from skpro.distributions import Empirical, Exponential, Gamma, Laplace, TDistribution, Uniform

    column = np.array([[1.0], [2.0], [4.0]])
    index = pd.MultiIndex.from_product([range(3), range(3)])
    points = pd.DataFrame({"y": [0.0, 1.0, 2.0, 1.0, 1.0, 3.0, 4.0, 1.5, 2.0]}, index=index)
    weights = pd.Series(np.tile([0.5, 0.25, 0.25], 3), index=index)
    return {
        "t": TDistribution(column, 1.0, 3.0),
        "laplace": Laplace(column, 1.0),
        "exponential": Exponential(column),
        "gamma": Gamma(column, column),
        "uniform, which ends": Uniform(column - 1, column),
        "weighted steps": Empirical(points, weights),
    }


@pytest.mark.parametrize(
    "name",
    ["t", "laplace", "exponential", "gamma", "uniform, which ends", "weighted steps"],
)
@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_any_other_family_gets_a_tail_and_the_upper_inverse(name, unit):
    dist = odd_distributions()[name]
    draws = laws(dist, unit)
    z = unit * np.array([[0.7], [1.3], [3.0]])
    mixed = 1 - dist.cdf(z / unit).to_numpy()
    assert_close(draws.sf(z), mixed, atol=1.01e-3)
    assert (draws.sf(np.full((3, 1), 1e6)) > 0).all()
    law = LossDistribution(draws)
    # Levels the law takes, and levels between: survival is below just after, not before.
    levels = [draws.sf(unit * np.full((3, 1), value))[:, 0] for value in (0.5, 1.0, 1.99, 2.5)]
    for wanted in [*levels, np.full(3, 0.1), np.full(3, 1e-9)]:
        level = np.clip(wanted, 1e-12, 0.999)
        place = law.isf(level)
        assert (law.sf(place) < level).all()
        assert (law.sf(place - 1e-9 * (1 + np.abs(place))) >= level * (1 - 1e-9)).all()


def test_a_family_without_a_ppf_of_its_own_is_not_looped_over():
    from skpro.distributions.base import BaseDistribution

    class Square(BaseDistribution):
        """P(Z <= z) = z ** 2 on (0, 1)."""

        def __init__(self, n):
            self.n = n
            super().__init__(index=range(n), columns=["y"])

        def _cdf(self, x):
            return np.clip(x, 0, 1) ** 2

    draws = laws(Square(2000))
    place = draws.isf(np.full((2000, 1), 0.75))
    assert_close(place, np.full((2000, 1), 0.5), rtol=2e-3)


def test_a_family_that_would_be_sampled_is_refused():
    from skpro.distributions.base import BaseDistribution

    class NoLaw(BaseDistribution):
        def __init__(self):
            super().__init__(index=[0], columns=["y"])

    with raises(TypeError, "NoLaw", "cdf"):
        laws(NoLaw())


def test_families_on_the_positive_axis_say_why_they_refuse_zeros(rng):
    S, z = data(rng, 80)
    z[:3] = 0.0
    with raises(ValueError, "3 of 80", "positive"):
        engine(ngboost("LogNormal")).fit(S, z)
    positive = engine(ngboost("LogNormal"), random_state=0).fit(S, z + 0.1)
    assert np.isfinite(LossDistribution(positive.predict_draws(S)).isf(0.1)).all()


@pytest.mark.parametrize("kind", ["Gaussian process"])
def test_missing_signals_are_refused_by_column(kind, rng):
    S, z = data(rng, 60)
    fitted = engine(kind).fit(S, z)
    S[3, 1] = np.nan
    for call in (lambda: engine(kind).fit(S, z), lambda: fitted.predict_draws(S)):
        with raises(ValueError, "missing values", "columns 1"):
            call()


def test_a_regressor_that_takes_missing_signals_gets_them(rng):
    S, z = data(rng, 60)
    S[::5, 1] = np.nan
    law = LossDistribution(engine("bootstrap").fit(S, z).predict_draws(S))
    assert np.isfinite(law.isf(0.1)).all()


@each
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_losses(kind, value, rng):
    S = rng.uniform(size=(40, 2))
    locus = Locus(None, engine=engine(kind), signals="x").fit_losses(S, np.full(40, value))
    assert_close(locus.loss_bound(S, 0.2), np.full(40, value), atol=1e-6)


def test_what_is_no_regressor_is_refused(rng):
    with raises(TypeError, "fit and predict_proba"):
        engine(DecisionTreeRegressor()).fit(*data(rng, 20))
    with pytest.raises(NotFittedError):
        engine("NGBoost").predict_draws(np.zeros((1, 1)))
