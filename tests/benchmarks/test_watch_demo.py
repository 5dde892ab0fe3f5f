"""The demo of a watched year lives through alarms and new certificates, on a short made-up year."""

import numpy as np
import pytest

from locuscore import Locus, Scorer
from locuscore.engines import Forest

pytestmark = pytest.mark.extra


def test_a_broken_rule_is_taken_down_and_certified_again(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("matplotlib")
    from benchmarks.watch.demo import TAU, Flights, Replay, draw

    rng, days = np.random.default_rng(0), pd.date_range("2013-04-01", periods=14)
    X = rng.uniform(size=(14 * 300, 2))
    y = 100 * X[:, 0] + 90 * X[:, 1] * rng.normal(size=len(X))
    data = Flights(X, y, np.repeat(days.to_numpy(), 300), np.full(len(X), 4))
    fit = rng.uniform(size=(1_000, 2))
    locus = Locus(
        lambda X: 100 * X[:, 0], engine=Forest(n_trees=10), signals="x", random_state=0
    ).fit(fit, 100 * fit[:, 0] + 40 * fit[:, 1] * rng.normal(size=1_000))
    scorer = Scorer(locus, locus.certify(TAU, 0.2, 0.05))
    year = Replay(data, scorer, tmp_path / "d.db").run(days)
    draw(year, tmp_path / "year.png")
    kinds = [kind for _, kind in year.events if kind != "drift"]
    assert kinds[:3] == ["deploy", "alarm", "deploy"]
    assert days[8] < year.events[-1][0] < days[13]
    assert all(one["accepted"] <= one["n"] for one in year.days)
    assert "take down" in capsys.readouterr().out
    assert (tmp_path / "year.png").stat().st_size > 10_000
