"""Probabilities of a loss above tau: for costs and for people, where a level would mislead."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from experiment import LOSSES
from helpers import assert_close, raises
from locuscore import KNNGamma, Locus, cost, route_by_cost
from locuscore.engines import Ensemble, Forest, Gaussian, Scale

N_DECILES = 10
MATRIX = [[0, 50, 400], [100, 0, 300], [1000, 700, 0]]


@pytest.fixture(scope="module")
def costs():
    """The cost example of docs/classification.md: the fit, new rows and their costs."""
    X, y = make_classification(
        9000,
        n_features=10,
        n_informative=6,
        n_classes=3,
        weights=[0.6, 0.3, 0.1],
        flip_y=0.01,
        class_sep=1.5,
        random_state=0,
    )
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=2000, random_state=0)
    X_cal, X_new, y_cal, y_new = train_test_split(X_rest, y_rest, train_size=4000, random_state=0)
    g = RandomForestClassifier(100, random_state=0).fit(X_train, y_train)
    locus = Locus(g, loss=cost(MATRIX), random_state=0).fit(X_cal, y_cal)
    return locus, X_new, y_new, locus.losses(X_new, y_new)


def cost_per_row(routing, bad):
    return float(np.mean(np.where(routing.accepted, 10.0 * bad, 1.0)))


def test_costs_are_decided_by_the_probability(costs):
    locus, X, _, z = costs
    routing = locus.route_by_cost(X, 0, review_cost=1, exceedance_cost=10)
    said, real = routing.expected_cost / len(X), cost_per_row(routing, z > 0)
    assert 0.7 < routing.accepted.mean() < 0.9
    assert abs(said - real) < 0.1
    assert real < 0.45


def test_a_level_read_as_a_probability_is_noticed(costs):
    """What the probability is for: by the exceedance everything is accepted, at four times said."""
    locus, X, _, z = costs
    level = locus.exceedance(X, 0)
    assert level.mean() < 0.02
    assert np.mean(z > 0) > 0.07
    routing = route_by_cost(level, 1, 10)
    assert routing.accepted.all()
    assert cost_per_row(routing, z > 0) > 4 * routing.expected_cost / len(X)


def test_routing_with_labelled_rows(costs):
    locus, X, y, z = costs
    routing = locus.route_by_cost(X[:500], 0, 1, 10, X_val=X[500:], y_val=y[500:], delta=0.1)
    same = route_by_cost(
        locus.probability(X[:500], 0),
        1,
        10,
        probability_cal=locus.probability(X[500:], 0),
        losses_cal=z[500:],
        tau=0,
        delta=0.1,
    )
    assert (routing.accepted == same.accepted).all()
    assert routing.exceedance == same.exceedance
    with raises(ValueError, "X_val", "y_val"):
        locus.route_by_cost(X, 0, 1, 10, X_val=X)


def test_shapes_are_those_of_the_exceedance(costs):
    locus, X, _, _ = costs
    assert locus.probability(X[:5], 0).shape == (5,)
    both = locus.probability(X[:5], [0, 100])
    assert both.shape == locus.exceedance(X[:5], [0, 100]).shape == (5, 2)
    assert (both[:, 0] == locus.probability(X[:5], 0)).all()
    assert (both[:, 1] <= both[:, 0]).all()
    assert (locus.probability(X[:5], 1000) == 0).all()  # the top of the support
    assert (locus.probability(X[:5], -1) == 1).all()


@pytest.mark.extra
def test_a_frame_gives_a_series_with_its_index():
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(300, 2)), columns=["a", "b"], index=np.arange(300) + 7)
    locus = Locus(engine=Scale(), random_state=0).fit_losses(X, rng.exponential(size=300))
    p = locus.probability(X, 0.5)
    assert p.index.equals(X.index)
    assert p.name == "probability_0.5"
    assert list(locus.probability(X, [0.5, 1]).columns) == ["probability_0.5", "probability_1"]


def fitted(loss, rng, n=4000, gamma=None, engine=None):
    """A default fit on losses whose law is known given x."""
    generate, support = LOSSES[loss]
    S = rng.uniform(size=(n, 2))
    # A level needs many rows in D2 to be right by decile.
    shown = {"signals": "x", "calibration_size": 0.25, "random_state": 0}
    locus = Locus(engine=engine, support=support, gamma=gamma, **shown)
    return locus.fit_losses(S, generate(rng, S))


@pytest.mark.parametrize("engine", [Forest(30), Ensemble([Forest(30), Gaussian()])])
def test_gamma_plays_no_part(engine):
    rng = np.random.default_rng(0)
    S = rng.uniform(size=(200, 2))
    z = (0.2 + S[:, 0] ** 2) * rng.exponential(size=200)
    plain, careful = (
        Locus(engine=engine, gamma=gamma, random_state=0).fit_losses(S, z)
        for gamma in (None, KNNGamma(k=20))
    )
    assert_close(careful.probability(S, 0.5), plain.probability(S, 0.5), rtol=1e-12)
    assert (careful.loss_dist(S).sf(0.5) != plain.loss_dist(S).sf(0.5)).any()


def test_it_is_a_function_of_the_fitting_rows_alone(rng):
    S, z = rng.uniform(size=(400, 2)), rng.exponential(size=400)
    held_out = np.arange(300, 400)
    other = np.where(np.arange(400) < 300, z, z + 5)
    one, two = (
        Locus(calibration_size=held_out, random_state=0).fit_losses(S, losses)
        for losses in (z, other)
    )
    assert (one.probability(S, 1.0) == two.probability(S, 1.0)).all()
    assert (one.exceedance(S, 1.0) != two.exceedance(S, 1.0)).any()


def test_rare_losses_are_not_called_as_likely_as_the_tail_is_heavy(rng):
    """A bound keeps 1 % on its tail; a probability must be able to be far below that."""
    S = rng.uniform(size=(4000, 2))
    z = (rng.uniform(size=4000) < 0.4 * (S[:, 0] > 0.5)).astype(float)
    shown = {"signals": "x", "calibration_size": 0.25, "random_state": 0}
    locus = Locus(support={0.0, 1.0}, **shown).fit_losses(S, z)
    safe = np.column_stack([rng.uniform(0, 0.4, 500), rng.uniform(size=500)])
    assert locus.probability(safe, 0).mean() < 0.007
    assert locus.loss_dist(safe).sf(0).mean() > 0.012


def decile_errors(p, bad):
    """Mean probability less the share of losses above tau, by decile of the probability."""
    parts = np.array_split(np.argsort(p, kind="stable"), N_DECILES)
    return np.array([(p[part].mean() - bad[part].mean(), bad[part].mean()) for part in parts]).T


def check_deciles(p, bad, n_fit):
    """Within 0.02, or within sampling error: of the held-out rows, and of as much of D1."""
    error, share = decile_errors(p, bad)
    spread = np.sqrt(share * (1 - share) * N_DECILES * (1 / len(p) + 1 / n_fit))
    assert (np.abs(error) <= np.maximum(0.02, 3 * spread)).all(), np.round(error, 3)


@pytest.fixture(scope="module", params=LOSSES)
def held_out(request):
    """A default fit, 20,000 further rows of the same kind, and whether each is above a tau."""
    rng = np.random.default_rng(1)
    locus = fitted(request.param, rng)
    S = rng.uniform(size=(20_000, 2))
    z = LOSSES[request.param][0](rng, S)
    tau = 0.7 if request.param == "continuous" else 0.0
    return locus, S, z > tau, tau


def test_probabilities_are_right_by_decile(held_out):
    locus, S, bad, tau = held_out
    check_deciles(locus.probability(S, tau), bad, len(locus.fit_rows_))


def test_a_level_is_right_only_without_atoms(held_out):
    locus, S, bad, tau = held_out
    level = locus.exceedance(S, tau)
    if tau > 0:  # no loss is exactly tau
        return check_deciles(level, bad, len(locus.fit_rows_))
    with pytest.raises(AssertionError):
        check_deciles(level, bad, len(locus.fit_rows_))
