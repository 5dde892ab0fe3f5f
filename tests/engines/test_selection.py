"""Engine selection: the better engine wins, D2 is not seen, and trouble is told."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError

from engines_for_tests import ConstantNormal, FirstSignalNormal
from helpers import assert_close, raises, warns
from locuscore import KNNGamma, Locus
from locuscore._laws.loss_model import LossModel
from locuscore._shared.checks import LocusWarning
from locuscore.engines import Auto, Ensemble, Forest, Scale, select_engine
from locuscore.engines._selection import _default_candidates
from locuscore.testing import check_engine

FOREST = Forest(n_trees=5)
SCALE = Scale(HistGradientBoostingRegressor(max_iter=15, loss="poisson"), cv=3)
KEYS = {"name", "crps", "crps_se", "pinball", "pinball_se", "seconds", "error"}


class Broken(ConstantNormal):
    def fit(self, S, z):
        raise RuntimeError("cannot\n  be fitted")


class NotANumber(ConstantNormal):
    def fit(self, S, z):
        super().fit(S, z)
        self.location_ = np.nan
        return self


def data(rng, n=300):
    S = rng.uniform(size=(n, 2))
    return S, (0.1 + 3 * S[:, 0] ** 2) * np.abs(rng.normal(size=n))


def test_the_contract():
    check_engine(Auto([FOREST, SCALE], cv=2))


def test_the_better_engine_wins_and_the_table_is_ranked(rng):
    S, z = data(rng, 600)
    result = select_engine([ConstantNormal(), SCALE], S, z, random_state=0)
    assert isinstance(result.winner, Scale)
    assert not hasattr(result.winner, "model_")
    first, second = result.table
    assert first["name"].startswith("Scale(")
    assert set(first) == KEYS
    assert first["crps"] < second["crps"]
    assert first["pinball"] < second["pinball"]
    assert 0 < first["crps_se"] < 0.2 * first["crps"]
    assert 0 < first["pinball_se"] < 0.4 * first["pinball"]
    assert first["error"] is None


def test_scores_are_in_loss_units_and_repeat_with_the_seed(rng):
    S, z = data(rng)
    first, again, scaled = (
        select_engine({"a": ConstantNormal(), "b": FOREST}, S, losses, random_state=3).table
        for losses in (z, z, 1024.0 * z)
    )
    for key in ("crps", "crps_se", "pinball", "pinball_se"):
        assert_close([r[key] for r in again], [r[key] for r in first])
        assert_close([r[key] for r in scaled], [1024.0 * r[key] for r in first], rtol=1e-9)


def test_it_prints_as_a_table(rng):
    with warns(LocusWarning, "bad", "left out"):
        result = select_engine({"steady": ConstantNormal(), "bad": Broken()}, *data(rng))
    lines = str(result).splitlines()
    assert lines[0].split() == ["engine", "CRPS", "pinball", "seconds"]
    assert lines[1].startswith("steady")
    assert "+-" in lines[1]
    assert lines[2].split(maxsplit=1)[1] == "left out: RuntimeError: cannot be fitted"


@pytest.mark.parametrize("engine", [Broken(), NotANumber()])
def test_an_engine_that_fails_is_reported_and_left_out(engine, rng):
    with warns(LocusWarning, "bad", "left out"):
        result = select_engine({"bad": engine, "good": ConstantNormal()}, *data(rng))
    assert isinstance(result.winner, ConstantNormal)
    assert [record["name"] for record in result.table] == ["good", "bad"]
    assert result.table[1]["error"] is not None
    with pytest.warns(LocusWarning), raises(ValueError, "none of"):
        select_engine([engine], *data(rng))


@pytest.mark.parametrize(
    ("candidates", "error", "facts"),
    [
        ([], ValueError, ["candidates", "empty"]),
        ({}, ValueError, ["candidates", "empty"]),
        ([Forest(), Forest()], ValueError, ["Forest()"]),
        ("Forest", TypeError, ["list", "dict"]),
        (3, TypeError, ["list", "dict"]),
        ([Forest], TypeError, ["fit and predict_draws"]),
        ({"x": None}, TypeError, ["candidate x"]),
    ],
)
def test_bad_candidates_are_refused(candidates, error, facts, rng):
    with raises(error, *facts):
        select_engine(candidates, *data(rng))


@pytest.mark.parametrize(
    ("parameters", "facts"), [({"alpha": 1.5}, ["alpha"]), ({"cv": 1}, ["2 folds"])]
)
def test_bad_parameters_are_refused(parameters, facts, rng):
    with raises(ValueError, *facts):
        select_engine([ConstantNormal()], *data(rng), **parameters)


@pytest.mark.parametrize("rows", [3, 7, 20])
def test_few_rows(rows, rng):
    S, z = data(rng, rows)
    result = select_engine([FOREST, ConstantNormal()], S, z, random_state=0)
    assert all(np.isfinite(record["pinball"]) for record in result.table)


def test_a_large_sample_is_cut(rng):
    seen = []
    S, z = data(rng, 400)
    select_engine([FirstSignalNormal(seen)], S, z, max_rows=90, cv=3, random_state=0)
    assert {len(rows) for method, rows in seen if method == "fit"} == {60}


def test_every_row_is_left_out_once(rng):
    seen = []
    S, z = data(rng, 100)
    select_engine([FirstSignalNormal(seen)], S, z, cv=4)
    left_out = np.vstack([rows for method, rows in seen if method == "predict_draws"])
    assert_close(np.sort(left_out[:, 0]), np.sort(S[:, 0]))


def test_selection_never_sees_d2(rng, monkeypatch):
    seen = []
    X, z = data(rng, 200)
    spy = FirstSignalNormal(seen)
    locus = Locus(None, engine=Auto([spy, ConstantNormal()]), signals="x", random_state=0)
    calls, tails = [], LossModel.tails

    def met_only_now(model, S, z_cal):
        calls.append(len(seen))
        return tails(model, S, z_cal)

    monkeypatch.setattr(LossModel, "tails", met_only_now)
    locus.fit_losses(X, z)
    d2 = set(X[locus.calibration_rows_, 0])
    before = [rows for _, rows in seen[: calls[0]]]
    assert len(before) >= 6
    assert not d2 & set(np.concatenate(before)[:, 0])


def test_auto_is_a_word_for_locus(rng):
    X, z = data(rng, 80)
    locus = Locus(None, engine="auto", signals="x", random_state=0).fit_losses(X, z)
    assert isinstance(locus.engine_, Auto)
    assert locus.selection_ is locus.engine_.selection_
    assert {record["name"] for record in locus.selection_.table} == set(_default_candidates())
    assert np.isfinite(locus.loss_bound(X, 0.1)).all()
    assert "auto" in repr(clone(locus))
    assert Locus(None, engine=FOREST, signals="x").fit_losses(X, z).selection_ is None


def test_auto_works_with_gamma(rng):
    X, z = data(rng, 80)
    locus = Locus(None, engine="auto", gamma=KNNGamma(k=10), signals="x", random_state=0)
    locus.fit_losses(X, z)
    assert locus.engine_.predict_draws(X[:1]).shape[1] == 10
    for engine in _default_candidates().values():
        members = engine.engines if isinstance(engine, Ensemble) else [engine]
        assert any(isinstance(member, Forest) for member in members)


def test_an_unknown_word_is_refused(rng):
    X, z = data(rng, 50)
    with raises(ValueError, "auto", "'tree'"):
        Locus(None, engine="tree", signals="x").fit_losses(X, z)


def test_batches_clones_and_pickles_agree(rng):
    X, z = data(rng, 200)
    new = rng.uniform(size=(20, 2))
    auto = Auto([FOREST, Ensemble([FOREST, SCALE])], cv=2)
    locus = Locus(None, engine=auto, signals="x", random_state=0)
    expected = locus.fit_losses(X, z).loss_bound(new, 0.1)
    for size in (1, 7):
        parts = [locus.loss_bound(new[i : i + size], 0.1) for i in range(0, 20, size)]
        assert_close(np.concatenate(parts), expected, rtol=1e-9)
    assert_close(clone(locus).fit_losses(X, z).loss_bound(new, 0.1), expected)
    assert_close(pickle.loads(pickle.dumps(locus)).loss_bound(new, 0.1), expected)


def test_auto_asks_to_be_fitted():
    with pytest.raises(NotFittedError):
        Auto().predict_draws(np.zeros((1, 1)))
