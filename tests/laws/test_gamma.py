import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import reference
from helpers import assert_close, raises
from locuscore import KNNGamma, Locus
from locuscore.engines import Forest

PAPER = {
    "gamma_min": 0.15,
    "gamma_max": 0.9,
    "midpoint": 0.0,
    "slope": 1.0,
    "epsilon": 1e-6,
}


def test_defaults_are_the_papers():
    assert KNNGamma().get_params() == {"k": 50, "phi": "signals", **PAPER}


@pytest.mark.parametrize(
    "changes", [{}, {"midpoint": 0.5, "slope": 2.0}, {"gamma_min": 0.3, "gamma_max": 0.6}]
)
@pytest.mark.parametrize("k", [1, 5])
def test_gamma_equals_the_brute_force_reference(k, changes, rng):
    fit_rows = rng.normal(size=(40, 3)) * [1.0, 20.0, 0.1]
    rows = np.vstack([rng.normal(size=(6, 3)) * [1.0, 20.0, 0.1], 3 * fit_rows[:2]])
    parameters = {**PAPER, **changes}
    fast = KNNGamma(k=k, **parameters).fit(fit_rows).predict(rows)
    slow = reference.knn_gamma(rows.tolist(), fit_rows.tolist(), k, **parameters)
    assert_close(fast, slow, rtol=1e-9)


def test_gamma_is_small_where_data_are_scarce(rng):
    gamma = KNNGamma().fit(rng.normal(size=(500, 2)))
    centre, edge, far = gamma.predict(np.array([[0.0, 0.0], [2.5, 2.5], [50.0, 0.0]]))
    assert 0.9 > centre > edge > far
    assert_close(far, 0.15, atol=1e-6)


def test_a_fitted_row_is_no_neighbour_of_itself():
    """With k = 1 the reference radii would all be zero if it were."""
    gamma = KNNGamma(k=1).fit(np.arange(10.0)[:, None])
    assert gamma.q_lo_ > 0
    assert_close(gamma.q_lo_, gamma.q_hi_, rtol=1e-12)


def test_k_is_at_most_one_less_than_the_rows(rng):
    S = rng.normal(size=(4, 2))
    assert_close(KNNGamma(k=50).fit(S).predict(S), KNNGamma(k=3).fit(S).predict(S))


def test_missing_and_constant_signals_are_ignored(rng):
    S = rng.normal(size=(60, 2))
    plain = KNNGamma(k=5).fit(S).predict(S)
    useless = np.column_stack([S, np.full(60, 7.0), np.full(60, np.nan)])
    assert_close(KNNGamma(k=5).fit(useless).predict(useless), plain, rtol=1e-12)
    useless[3, 0] = np.nan
    useless[4, 1] = np.inf
    assert np.isfinite(KNNGamma(k=5).fit(useless).predict(useless)).all()


def test_gamma_does_not_depend_on_the_batch(rng):
    gamma = KNNGamma(k=5).fit(rng.normal(size=(80, 3)))
    S = rng.normal(size=(30, 3))
    together = gamma.predict(S)
    assert_close(np.concatenate([gamma.predict(S[i : i + 1]) for i in range(30)]), together, 1e-9)
    assert_close(gamma.predict(S[::-1])[::-1], together, rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"gamma_min": 0.0}, ["gamma_min", "gamma_max"]),
        ({"gamma_max": 1.0}, ["gamma_min", "gamma_max"]),
        ({"gamma_min": 0.8, "gamma_max": 0.2}, ["gamma_min", "gamma_max"]),
        ({"k": 0}, ["k ", "1"]),
        ({"slope": 0.0}, ["slope", "positive"]),
    ],
)
def test_bad_parameters_are_refused(changes, facts):
    with raises(ValueError, *facts):
        KNNGamma(**changes).fit(np.zeros((5, 1)))


def test_one_row_is_refused_and_fit_comes_first():
    with raises(ValueError, "2 rows"):
        KNNGamma().fit(np.zeros((1, 2)))
    with pytest.raises(NotFittedError):
        clone(KNNGamma()).predict(np.zeros((1, 2)))


def squares(X):
    return X[:, :2] ** 2


def fitted(rng, phi, engine=None, **settings):
    X = rng.uniform(size=(120, 3))
    y = 3 * X[:, 2] + 0.1 * X[:, 1] * rng.normal(size=120)  # a second opinion pays
    engine = Forest(n_trees=10, min_samples_leaf=10) if engine is None else engine
    settings = {"signals": ["all", squares]} | settings
    gamma = KNNGamma(k=5, phi=phi)
    locus = Locus(lambda X: X[:, 0], engine=engine, gamma=gamma, random_state=0, **settings)
    return locus.fit(X, y), X


@pytest.mark.parametrize(
    ("phi", "columns"),
    [
        ("signals", slice(None)),
        ("x", slice(0, 3)),
        ("predictor", slice(3, 4)),
        ("functions", slice(4, 6)),
    ],
)
def test_phi_is_a_part_of_the_signals(phi, columns, rng):
    locus, X = fitted(rng, phi)
    S = locus.row_signals(X)
    assert locus.fit_signals_.shape[1] > 6  # a second opinion comes last
    plain = KNNGamma(k=5).fit(locus.fit_signals_[:, columns])
    assert_close(locus.gamma_.predict(S), plain.predict(S[:, columns]), rtol=1e-12)


class Embedded(Forest):
    """A forest with an embedding: the first signal, in another unit."""

    def embed(self, S):
        return 7.0 * S[:, :1]


def test_phi_is_the_embedding_of_the_engine(rng):
    locus, X = fitted(rng, "engine", Embedded(n_trees=10, min_samples_leaf=10), signals="x")
    S = locus.row_signals(X)
    plain = KNNGamma(k=5).fit(locus.fit_signals_[:, :1])
    assert_close(locus.loss_model_.dist(S).gamma, plain.predict(S[:, :1]), rtol=1e-9)


def test_an_embedding_that_is_none_is_refused(rng):
    class Sums(Forest):
        def embed(self, S):
            return S.sum(axis=1)

    with raises(ValueError, "embed of Sums", "(90, d)", "(90,)"):
        fitted(rng, "engine", Sums(n_trees=10), calibration_size=30)
    with raises(ValueError, "Forest has none", "MDN", "phi='x'"):
        fitted(rng, "engine")


@pytest.mark.parametrize("phi", ["hidden", squares, None])
def test_an_unknown_phi_is_refused_before_anything_is_learned(phi, rng):
    class NeverFitted(Forest):
        def fit(self, S, z):
            raise AssertionError

    with raises(ValueError, "'functions'", "'engine'", repr(phi)):
        fitted(rng, phi, NeverFitted())
    with raises(ValueError, "'functions'"):
        KNNGamma(phi=phi).fit(np.zeros((5, 1)))


@pytest.mark.parametrize(("phi", "signals"), [("functions", "all"), ("x", "predictor")])
def test_a_part_that_is_not_there_is_named(phi, signals, rng):
    with raises(ValueError, repr(phi), "which are"):
        fitted(rng, phi, signals=signals)


def test_forged_columns_are_refused(rng):
    gamma = KNNGamma(k=5).fit(rng.normal(size=(9, 2)))
    gamma.end_ = "a"
    with raises(ValueError, "columns"):
        gamma.predict(np.zeros((1, 2)))
