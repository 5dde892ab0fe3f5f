"""A calibration may give every row another level; nothing else in the chain changes."""

import numpy as np
import pytest

from calibrations_for_tests import LevelPerRow
from helpers import assert_close
from locuscore import Locus, Score, Scorer, certify_threshold
from locuscore.engines import Bagged, Forest, Gaussian, QuantileGrid
from locuscore.report import report

ALPHAS = (0.5, 0.1)
ENGINES = [
    Forest(n_trees=12),
    Gaussian(),
    Bagged(Gaussian(), n_draws=3),
    QuantileGrid(),
]


def labelled(rng, n):
    X = rng.uniform(size=(n, 3))
    return X, X[:, 0] + X[:, 1] * rng.normal(size=n)


def fitted(rng, engine):
    X, y = labelled(rng, 300)
    locus = Locus(lambda X: X[:, 0], engine=engine, random_state=0).fit(X, y)
    locus.calibration_ = LevelPerRow(locus.tails_, 2)
    return locus, X, y


def one_by_one(locus, X, alpha):
    """The bound of each row by itself, from its own law and its own level."""
    dist = locus.loss_dist(X)
    return dist.isf(alpha ** (1.0 + X[:, 2]))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)
def test_bounds_and_exceedances(engine, rng):
    locus, X, _ = fitted(rng, engine)
    bounds = locus.loss_bound(X, ALPHAS)
    for j, alpha in enumerate(ALPHAS):
        assert_close(bounds[:, j], one_by_one(locus, X, alpha), rtol=1e-9)
        assert_close(locus.loss_bound(X, alpha), bounds[:, j], rtol=1e-9)
    assert len(np.unique(locus.calibration_.level(0.1, X[:, 2]))) == len(X)
    taus = np.quantile(bounds, [0.2, 0.8])
    found = locus.exceedance(X, taus)
    for j, alpha in enumerate(ALPHAS):
        for t, tau in enumerate(taus):
            near = np.isclose(bounds[:, j], tau, rtol=1e-6)
            assert_close((found[:, t] <= alpha)[~near], (bounds[:, j] <= tau)[~near])


def test_a_marginal_level_would_give_other_bounds(rng):
    locus, X, _ = fitted(rng, Forest(n_trees=12))
    dist = locus.loss_dist(X)
    assert not np.allclose(locus.loss_bound(X, 0.1), dist.isf(0.1))


def test_scorer_and_rule(rng):
    locus, X, _ = fitted(rng, Forest(n_trees=12))
    rule = locus.tau_rule(tau=0.8, alpha=0.1)
    out = Scorer(locus, rule, alphas=ALPHAS)(X)
    assert_close(out["bound_0.1"], one_by_one(locus, X, 0.1))
    assert_close(out["score"], out["bound_0.1"])
    assert_close(out["flag"], out["bound_0.1"] > 0.8)
    # Rows are cut into blocks with their entries.
    parts = [Scorer(locus, rule, alphas=ALPHAS)(X[i : i + 1])["bound_0.5"] for i in range(5)]
    assert_close(np.concatenate(parts), out["bound_0.5"][:5], rtol=1e-9)
    assert "own level" in Scorer(locus).card


def test_certify_on_fresh_rows(rng):
    locus, _, _ = fitted(rng, Forest(n_trees=12))
    X, y = labelled(rng, 400)
    rule = locus.certify(0.8, 0.3, 0.2, X, y, of=Score.bound(0.1))
    by_hand = certify_threshold(
        one_by_one(locus, X, 0.1), locus.losses(X, y), 0.8, 0.3, 0.2, of=Score.bound(0.1)
    )
    assert rule.threshold == by_hand.threshold


def test_report(rng):
    locus, _, _ = fitted(rng, Forest(n_trees=12))
    X_new, y_new = labelled(rng, 200)
    found = report(Scorer(locus, alphas=ALPHAS), X_new, y_new)
    covered = np.mean(locus.losses(X_new, y_new) <= locus.loss_bound(X_new, 0.1))
    by_alpha = {row["alpha"]: row for row in found.summary["coverage"]}
    assert_close(by_alpha[0.1]["covered"] / 200, covered, atol=1e-12)
    assert "median level" in found.summary["attribution"]["method"]
    assert "<html" in found.to_html()
