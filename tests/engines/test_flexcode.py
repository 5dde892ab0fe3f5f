"""FlexCode: the series beside its slow transcription, atoms, what is chosen, odd and bad input."""

import math

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

from archives_for_tests import forged, small_scorer
from helpers import assert_close, raises
from locuscore import ArchiveError, Locus, Scorer
from locuscore._laws.distribution import LossDistribution
from locuscore.engines import FlexCode
from locuscore.engines._flexcode import MARGINAL_SHARE
from locuscore.engines._loss_cells import LossCells


def small(**parameters):
    model = ExtraTreesRegressor(10, min_samples_leaf=5)
    return FlexCode(**{"model": model, "n_basis": 6, "cv": 2, "random_state": 0} | parameters)


def rows_and_losses(rng, n=300):
    S = rng.uniform(size=(n, 3))
    return S, (0.2 + 2 * S[:, 0]) * np.abs(rng.normal(size=n))


def slow_density(coefficients, rest, u):
    """``f(u) = rest + sum_j beta_j sqrt(2) cos(pi j u)``; beta_j is j times what is regressed."""
    terms = [
        (j + 1) * c * math.sqrt(2) * math.cos(math.pi * (j + 1) * u)
        for j, c in enumerate(coefficients)
    ]
    return rest + sum(terms)


def slow_proper(mass, total):
    """Halve c until ``sum(max(mass - c, 0))`` is the total."""
    low, high = min(mass) - total - 1, max(mass)
    for _ in range(200):
        c = (low + high) / 2
        size = sum(max(m - c, 0) for m in mass)
        low, high = (c, high) if size > total else (low, c)
    return np.array([max(m - c, 0) for m in mass])


def test_shares_are_those_of_the_series(rng):
    cells = LossCells.learned(np.append(rng.exponential(size=400), np.zeros(100)))
    assert_close(cells.atoms, [0.0])
    coefficients = np.column_stack([0.3 * rng.normal(size=(4, 3)), [0.0, 0.2, 0.7, 0.2]])
    found = cells.shares(coefficients, 2.0)
    n = cells.n_cells
    for row, shares in zip(coefficients, found, strict=True):
        rest = 1.0 - row[-1]
        mass = []
        for cell in range(n):
            # Simpson's rule on many points stands for the integral over a cell.
            u = (cell + np.arange(17) / 16) / n
            weights = np.array([1, *[4, 2] * 7, 4, 1]) / (3 * 16 * n)
            mass.append(float(weights @ [slow_density(row[:-1], rest, v) for v in u]))
        sharp = slow_proper(mass, rest) ** 2
        assert_close(shares[:-1], rest * sharp / sharp.sum(), atol=1e-9)
        assert_close(shares[-1], row[-1])
    assert_close(found.sum(axis=1), np.ones(4), rtol=1e-12)
    assert (found >= 0).all()
    assert (found[:, :-1] == 0).any()  # the projection removed something


def test_the_score_is_the_squared_error_up_to_a_constant(rng):
    """Between two laws, the score of losses of the first differs by the distance of the two."""
    z = rng.beta(2, 3, size=1000)
    cells = LossCells.learned(z)
    own = np.histogram(z, cells.ends)[0] / len(z)
    even = np.full(cells.n_cells, 1 / cells.n_cells)
    distance = float(((own - even) ** 2).sum() * cells.n_cells)
    scores = [cells.score(np.tile(law, (len(z), 1)), z) for law in (even, own)]
    assert scores[0] - scores[1] == pytest.approx(distance, rel=1e-9)


def test_cells_reach_from_the_smallest_loss_to_the_largest_in_growing_steps(rng):
    z = rng.exponential(size=500)
    cells = LossCells.learned(z)
    assert cells.ends[[0, -1]].tolist() == [z.min(), z.max()]
    assert (np.diff(cells.ends, 2) > 0).all()
    assert_close(LossCells.learned(1024 * z).ends, 1024 * cells.ends, rtol=0)
    assert_close(cells.survival(cells.seen(z)[None])[0, [0, -1]], [1.0, 0.0])
    both = LossCells.learned(np.append(-z, z)).ends
    assert_close(both, -both[::-1], atol=1e-12)


def test_a_0_1_loss_has_atoms_only_and_their_probabilities(rng):
    S = rng.uniform(size=(400, 2))
    z = (rng.uniform(size=400) < 0.1 + 0.6 * S[:, 0]).astype(float)
    engine = FlexCode(LinearRegression(), cv=2).fit(S, z)
    assert engine.cells_.n_cells == 0
    assert engine.cells_.atoms.tolist() == [0.0, 1.0]
    new = np.array([[0.1, 0.5], [0.8, 0.5]])
    line = np.clip(LinearRegression().fit(S, z).predict(new), 0, 1)
    expected = (1 - MARGINAL_SHARE) * line + MARGINAL_SHARE * z.mean()
    tail = engine.tail_mass_
    assert_close(engine.predict_draws(new).sf(0.5)[:, 0], tail + (1 - tail) * expected, rtol=1e-9)


def test_many_zeros_are_an_atom_beside_a_density(rng):
    S, z = rows_and_losses(rng, 600)
    z[rng.uniform(size=600) < 0.9 * S[:, 1]] = 0.0
    engine = small(cv=3).fit(S, z)
    assert engine.cells_.atoms.tolist() == [0.0]
    law = engine.predict_draws(S)
    none = 1 - law.sf(0.0)[:, 0]
    assert np.corrcoef(none, S[:, 1])[0, 1] > 0.8
    assert_close(law.sf(-1e-12), np.ones((600, 1)))


def test_it_learns_and_uses_more_cosines_where_losses_say_more(rng):
    S, z = rows_and_losses(rng, 600)
    engine = small(n_basis=9).fit(S, z)
    bound = LossDistribution(engine.predict_draws(S)).isf(0.1)
    truth = 1.645 * (0.2 + 2 * S[:, 0])
    assert np.corrcoef(bound, truth)[0, 1] > 0.8
    assert 0.8 < np.mean(bound / truth) < 1.25
    sharp = small(n_basis=9).fit(S, S[:, 0] + 0.01 * z)  # the loss is nearly a function
    noise = small(n_basis=9).fit(S, rng.permutation(z))
    assert sharp.n_basis_ > engine.n_basis_ >= noise.n_basis_ >= 1
    assert sharp.power_ >= engine.power_
    assert noise.power_ < 1


LOSSES = {
    "constant": lambda rng, n: np.full(n, 3.0),
    "zero": lambda rng, n: np.zeros(n),
    "one not zero": lambda rng, n: np.eye(n)[0],
    "heavy": lambda rng, n: np.abs(rng.standard_cauchy(size=n)) ** 3,
    "negative": lambda rng, n: -rng.exponential(size=n),
    "tiny": lambda rng, n: 1e-100 * rng.exponential(size=n),
    "huge": lambda rng, n: 1e150 * rng.exponential(size=n),
}


@pytest.mark.parametrize("n", [4, 60])
@pytest.mark.parametrize("kind", LOSSES)
def test_odd_losses_give_bounds_that_are_numbers(kind, n, rng):
    S, z = rng.normal(size=(n, 5)), LOSSES[kind](rng, n)
    S[0, 0] = np.nan
    everywhere = (-np.inf, np.inf)
    locus = Locus(None, engine=small(), signals=np.asarray, support=everywhere, random_state=0)
    bound = locus.fit_losses(S, z).loss_bound(S, [0.34, 0.5])
    assert not np.isnan(bound).any()
    if n == 60:
        assert np.isfinite(bound).all()
    if kind == "constant":
        assert_close(bound, np.full(bound.shape, 3.0), rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [({"n_basis": 0}, ["n_basis", "from 1"]), ({"cv": 1}, ["cv", "from 2"])],
)
def test_bad_parameters_are_refused(parameters, facts):
    with raises(ValueError, *facts):
        small(**parameters).fit(np.zeros((5, 1)), np.arange(5.0))


FORGED = {
    "cells that are not in order": ("ends", lambda a: a[::-1].copy(), "not in order"),
    "cells of texts": ("ends", lambda a: a.astype("U8"), "no array of numbers"),
    "one end": ("ends", lambda a: a[:1], "none"),
    "cells of whole numbers": ("ends", lambda a: np.arange(5), "none"),
    "many atoms": ("atoms", lambda a: np.arange(2000.0), "more than 1000"),
    "shares of other cells": ("marginal_", lambda a: a[:-1], "shares"),
    "shares in a column": ("marginal_", lambda a: a[:, None], "shares"),
    "a negative power": ("power_", lambda a: -1.0, "not positive"),
    "a scale of zero": ("scale_", lambda a: 0.0, "not positive"),
    "nothing but a tail": ("tail_mass_", lambda a: 1.5, "mass on the tail"),
}


@pytest.mark.extra
def test_forged_cells_are_refused(tmp_path):
    scorer = small_scorer(engine=small(model=ExtraTreesRegressor(2, min_samples_leaf=20)))
    scorer.save(tmp_path / "honest.locus", keep_rows=False)
    engine = scorer.locus.engine_

    for name, (field, change, fact) in FORGED.items():

        def change_one(locus, array, field=field, change=change):
            state, owner = locus["engine_"]["state"], engine
            if field not in state:
                state, owner = state["cells_"]["state"], engine.cells_
            new = change(getattr(owner, field))
            state[field] = array(new) if isinstance(new, np.ndarray) else new

        path = forged(tmp_path / "honest.locus", tmp_path / "x.locus", change_one)
        with raises(ArchiveError, fact):
            Scorer.load(path)
            pytest.fail(name)
