"""A warning where ids or days show that rows come in clusters, and silence elsewhere."""

from importlib import import_module

import numpy as np
import pytest

from helpers import assert_close, warns
from locuscore import Locus, LocusWarning
from locuscore._inputs.cluster_hints import intraclass_correlation
from locuscore.calibration import ByGroup
from locuscore.engines import Forest

pytestmark = pytest.mark.extra

N_CLUSTERS, SIZE = 60, 20
KINDS = {
    "pandas": "DataFrame",
    "polars": "DataFrame",
    "pyarrow": "table",
}


def made(kind, columns):
    return getattr(import_module(kind), KINDS[kind])(columns)


def fit(frame, y, calibration=None, **settings):
    engine = Forest(n_trees=5, min_samples_leaf=10)
    locus = Locus(
        lambda X: np.zeros(N_CLUSTERS * SIZE), engine=engine, signals=lambda X: x_of(X)[:, None],
        calibration=calibration, random_state=0,
    )  # fmt: skip
    return locus.fit(frame, y, **settings)


def x_of(X):
    return np.asarray(X["x"], dtype=float)


def rows(rng, spread):
    code = np.repeat(np.arange(N_CLUSTERS), SIZE)
    y = np.exp(np.repeat(spread * rng.normal(size=N_CLUSTERS), SIZE) + rng.normal(size=len(code)))
    order = rng.permutation(len(code))
    return code[order], rng.uniform(size=len(code)), y[order]


@pytest.mark.parametrize("kind", KINDS)
def test_alike_rows_of_an_id_are_noticed(kind, rng):
    code, x, y = rows(rng, 1.0)
    frame = made(kind, {"x": x, "customer_id": code})
    with warns(LocusWarning, "customer_id", "60 values", "clusters="):
        fit(frame, y)
    fit(frame, y, clusters=code)  # now they are told
    fit(frame, y, calibration=ByGroup("customer_id"))  # new rows have the same values


@pytest.mark.parametrize("kind", KINDS)
def test_alike_rows_of_a_day_are_noticed(kind, rng):
    code, x, y = rows(rng, 1.0)
    times = np.datetime64("2026-01-01T00:00:00", "ms") + code * np.timedelta64(24, "h")
    times = times + rng.integers(86_400_000, size=len(code)).astype("timedelta64[ms]")
    with warns(LocusWarning, "day of column 'when'", "60 values"):
        fit(made(kind, {"x": x, "when": times}), y)


def test_zones_texts_and_missing_days(rng):
    import pandas as pd

    code, x, y = rows(rng, 1.0)
    days = pd.Series(pd.Timestamp("2026-01-01 12:00", tz="Europe/Berlin")).repeat(len(code))
    days = (days.reset_index(drop=True) + pd.to_timedelta(code, unit="D")).mask(code == 3)
    with warns(LocusWarning, "'when'"):
        fit(pd.DataFrame({"x": x, "when": days}), y)
    with warns(LocusWarning, "'patientId'"):
        fit(pd.DataFrame({"x": x, "patientId": pd.Categorical([f"p{c}" for c in code])}), y)


def test_silence_where_rows_are_not_alike(rng):
    import pandas as pd

    code, x, y = rows(rng, 0.0)
    fit(pd.DataFrame({"x": x, "customer_id": code}), y)
    fit(pd.DataFrame({"x": x, "id": np.arange(len(x))}), y)
    _, x, y = rows(rng, 1.0)
    fit(pd.DataFrame({"x": x, "customer": code}), y)  # no name of an id
    fit(pd.DataFrame({"x": x, "group_id": code % 3}), y)  # too few values to tell
    fit(pd.DataFrame({"x": x, "when": pd.date_range("2026-01-01", periods=len(x))}), y)


def test_the_correlation_of_normal_clusters(rng):
    """With variances 1 between and 3 within, a quarter is shared."""
    code = np.repeat(np.arange(2_000), rng.integers(1, 8, size=2_000))
    values = rng.normal(size=2_000)[code] + np.sqrt(3) * rng.normal(size=len(code))
    correlation, p_value = intraclass_correlation(values, code)
    assert_close(correlation, 0.25, atol=0.04)
    assert p_value < 1e-12
    _, p_value = intraclass_correlation(rng.normal(size=len(code)), code)
    assert p_value > 1e-3
    assert intraclass_correlation(values[:5], code[:5]) is None
    assert intraclass_correlation(np.ones(len(code)), code) is None
